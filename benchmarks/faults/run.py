"""How many of the planted faults each tool sees, and how many it puts on the right line, in one run.

    python benchmarks/faults/run.py [--only ID…] [--program NAME…] [--json FILE] [--write FILE] [--jobs N] [--padiff FOLDER]

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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import corpus
import tables


def worker(script: str, program: str, ids: list[str], extra: dict[str, str]) -> list[dict[str, Any]]:
    """Run one program's plants in a process of their own; one that dies is started again after the plant that killed it."""
    found: list[dict[str, Any]] = []
    while len(found) < len(ids):
        with tempfile.TemporaryFile("w+") as told:
            found += answers([sys.executable, str(corpus.HERE / script), program, *ids[len(found) :]], extra, told)
            told.seek(0)
            last = (told.read().strip().splitlines() or ["nothing was said"])[-1]
        if len(found) < len(ids):
            print(f"{script} {program}: ended at {ids[len(found)]}: {last}", file=sys.stderr)
            found.append({"id": ids[len(found)], "crashed": last[:300]})
    return found


def answers(command: list[str], extra: dict[str, str], told: TextIO) -> list[dict[str, Any]]:
    """The answers of one process, each shown as it comes."""
    found = []
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **extra}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True, env=environment) as process:
        for line in process.stdout or ():
            row = json.loads(line)
            found.append(row)
            print(row["id"], tables.brief(row), file=sys.stderr, flush=True)
    return found


def gather(chosen: dict[str, list[str]], jobs: int, padiff: str) -> list[dict[str, Any]]:
    """The answers of all tools on all plants."""
    tasks = [("worker.py", program, {}) for program in chosen]
    tasks += [("padiff_worker.py", program, {"PADIFF": padiff}) for program in chosen if padiff]
    with ThreadPoolExecutor(jobs) as pool:
        batches = list(pool.map(lambda t: worker(t[0], t[1], chosen[t[1]], t[2]), tasks))
    found = {row["id"]: row for batch in batches[: len(chosen)] for row in batch}
    for batch in batches[len(chosen) :]:
        for row in batch:
            crashed = {"failed": row.get("crashed", ""), "flagged": False}
            found[row["id"]] |= {tool: row.get(tool, crashed) for tool in ("padiff", "padiff_default")}
    plants = {plant.id: plant for program in chosen for plant in corpus.plants(program)}
    for name, row in found.items():
        plant = plants[name]
        row |= {"stage": plant.stage, "bugs": plant.bugs, "what": plant.what, "class": tables.class_of(plant.bugs)}
    return list(found.values())


def main() -> None:
    """Choose, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="ids of plants")
    parser.add_argument("--program", nargs="*", default=[], help="names of programs")
    parser.add_argument("--json", default="", help="file for every answer")
    parser.add_argument("--write", default="", help="file for the tables")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--padiff", default="", help="the folder that padiff was installed into")
    options = parser.parse_args()
    chosen = {program: [p.id for p in corpus.plants(program)] for program in options.program or corpus.programs()}
    if options.only:
        chosen = {program: [i for i in ids if i in options.only] for program, ids in chosen.items()}
        chosen = {program: ids for program, ids in chosen.items() if ids}
    rows = gather(chosen, options.jobs, options.padiff)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    print(tables.summary(rows))
    if options.write:
        Path(options.write).write_text(tables.document(rows), encoding="utf-8")
    missed = Counter(row["stage"] for row in rows if row["stage"] and not row.get("paralign", {}).get("flagged"))
    print("missed by paralign:", dict(missed))


if __name__ == "__main__":
    main()
