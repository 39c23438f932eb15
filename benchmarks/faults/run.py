"""How many of the planted faults each tool sees, and how many it puts on the right line, in one run.

    python benchmarks/faults/run.py [--only ID…] [--program NAME…] [--json FILE] [--resume] [--write FILE] [--jobs N] [--padiff FOLDER]

``--padiff`` is the folder that padiff was installed into (``pip install --no-deps --target FOLDER padiff==0.2.0``); without it
padiff is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import corpus
import tables


class Run:
    """The answers of a run, kept in a file line by line as they come, so that a run that was ended can go on."""

    def __init__(self, file: str, *, resume: bool) -> None:
        self.path = Path(file) if file else None
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        if self.path and resume and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                script, row = json.loads(line)
                self.rows[script, row["id"]] = row
        elif self.path:
            self.path.write_text("", encoding="utf-8")

    def keep(self, script: str, row: dict[str, Any]) -> None:
        """An answer: kept, written, shown."""
        self.rows[script, row["id"]] = row
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([script, row], ensure_ascii=False) + "\n")
        print(row["id"], tables.brief(row), file=sys.stderr, flush=True)

    def ask(self, script: str, program: str, ids: list[str], extra: dict[str, str]) -> None:
        """One program's plants in a process of their own; one that dies is started again after the plant that killed it."""
        while rest := [i for i in ids if (script, i) not in self.rows]:
            with tempfile.TemporaryFile("w+") as told:
                self.listen(script, [sys.executable, str(corpus.HERE / script), program, *rest], extra, told)
                told.seek(0)
                last = (told.read().strip().splitlines() or ["nothing was said"])[-1]
            if left := [i for i in rest if (script, i) not in self.rows]:
                self.keep(script, {"id": left[0], "crashed": last[:300]})

    def listen(self, script: str, command: list[str], extra: dict[str, str], told: TextIO) -> None:
        """Keep the answers of one process."""
        environment = {"OMP_NUM_THREADS": "1", **os.environ, **extra}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True, env=environment) as process:
            for line in process.stdout or ():
                self.keep(script, json.loads(line))

    def gather(self, chosen: dict[str, list[str]], jobs: int, padiff: str) -> list[dict[str, Any]]:
        """The answers of all tools on the chosen plants."""
        tasks = [("worker.py", program, {}) for program in chosen]
        tasks += [("padiff_worker.py", program, {"PADIFF": padiff}) for program in chosen if padiff]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda t: self.ask(t[0], t[1], chosen[t[1]], t[2]), tasks))
        return [self.row(plant) for program, ids in chosen.items() for plant in corpus.plants(program) if plant.id in ids]

    def row(self, plant: corpus.Plant) -> dict[str, Any]:
        """All that was said of one plant."""
        found: dict[str, Any] = {}
        for script, tools in (("worker.py", ("paralign", "reprod_log")), ("padiff_worker.py", ("padiff", "padiff_default"))):
            row = self.rows.get((script, plant.id))
            if row is not None:
                found |= {tool: row.get(tool, {"flagged": False, "failed": row.get("crashed", "")}) for tool in tools}
        told = {"id": plant.id, "stage": plant.stage, "bugs": plant.bugs, "what": plant.what, "class": tables.class_of(plant.bugs)}
        return found | told


def main() -> None:
    """Choose, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="ids of plants")
    parser.add_argument("--program", nargs="*", default=[], help="names of programs")
    parser.add_argument("--json", default="", help="file for the answers, a line for each")
    parser.add_argument("--resume", action="store_true", help="take the answers that are in that file already")
    parser.add_argument("--write", default="", help="file for the tables")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--padiff", default="", help="the folder that padiff was installed into")
    options = parser.parse_args()
    chosen = {program: [p.id for p in corpus.plants(program)] for program in options.program or corpus.programs()}
    if options.only:
        chosen = {program: [i for i in ids if i in options.only] for program, ids in chosen.items()}
        chosen = {program: ids for program, ids in chosen.items() if ids}
    rows = Run(options.json, resume=options.resume).gather(chosen, options.jobs, options.padiff)
    print(tables.summary(rows))
    if options.write:
        Path(options.write).write_text(tables.document(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
