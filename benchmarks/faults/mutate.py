"""How many of the mistakes of :mod:`mutants` are flagged, and how many put on the right line.

    python benchmarks/faults/mutate.py [--program NAME…] [--seed S] [--count N] [--json FILE] [--write FILE] [--jobs N]

Of each program's mutants, in the order of the seed, the first ``count`` are taken that run and change what the port computes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpus
import mutants
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from verify import Corpus

#: relative differences, in float64, above which a mutant changes something, and below which it does not; what lies between is left out
CHANGED, SAME = 1e-5, 1e-7

#: seconds after which a mutant is given up that does not end
LONGEST = 120

TEXT = """\
# Mistakes that nobody chose

Made by `python benchmarks/faults/mutate.py --seed {seed} --count {count} --write docs/mutants.md` (`make mutants`): random edits of
the ports of [`benchmarks/faults/programs`](../benchmarks/faults/programs), each of which runs and changes what its stage computes
(by more than {changed:g} in float64). A number, a flag, an operator, an operand, an argument, a call, a line that is left out or
exchanged, another value or function in its place. The true lines are that of the edit, and where what it keeps is used.

They know nothing of what people do wrong, but neither does the engine know them, as long as nothing was mended after a look at
the same seed: then draw another (`make mutants SEED=n`). Some cannot be told from others (of a product of two factors, which was
doubled?); all count.

{summary}

## By program

{programs}

## By kind of edit

{kinds}

## By rule

Which rule of `locate/` chose the place that is named first; `ABLATE=id,id` leaves rules out.

{rules}

## Missed

{missed}
"""


def staged(base: Corpus, plant: corpus.Plant, folder: Path) -> str | None:
    """The first stage at which a mutant computes something else; None where it breaks, changes nothing, or next to nothing."""
    import measure
    from verify import imported

    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LONGEST)
    try:
        module = imported(plant, folder)
        own = measure.Program(module, "paddle", base.given, "float64").state()
        if {n: v.shape for n, v in own.items()} != {n: v.shape for n, v in base.state.items()}:
            return None
        for stage in base.stages():
            far = _far(base, module, stage)
            if far > CHANGED:
                return stage if np.isfinite(far) else None
            if far > SAME:
                return None
    except Exception:  # noqa: BLE001 - an edit at random may break a program in any way, and such edits are no mistakes to be found
        return None
    finally:
        signal.alarm(0)
    return None


def _give_up(*_: object) -> None:
    raise TimeoutError("a loop that does not end")


def _far(base: Corpus, module: ModuleType, stage: str) -> float:
    import measure

    now = base.planted(module, None if stage == "data" else base.state, stage)
    now = {name: value for name, value in now.items() if not name.startswith("lr")}  # groups in another order are no mistake
    own = {name: value for name, value in base.values(stage).items() if not name.startswith("lr")}
    whole = all(np.isfinite(v).all() for v in now.values() if v.dtype.kind == "f")
    return measure.distance(own, now)[0] if whole else float("inf")


def judged(program: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """What paralign says of a program's mutants."""
    import judges
    from verify import Corpus

    base = Corpus(program)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        found = 0
        for plant in mutants.mutants(program, seed):
            tried, target = Path(folder) / plant.name / "tried", Path(folder) / plant.name
            tried.mkdir(parents=True)
            stage = staged(base, plant, tried)
            _forget(plant)
            if stage is not None:
                yield judges.judge(base, replace(plant, stage=stage), target, tools=("paralign",))
                _forget(plant)
                found += 1
            if found == count:
                return


def _forget(plant: corpus.Plant) -> None:
    """Forget a mutant's modules, as each is imported twice, from two folders."""
    package = plant.id.replace("/", "_").replace("-", "_")
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


def asked(script: str, names: list[str], seed: int, count: int, jobs: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows that a script prints of each of some names, a few processes at once; and the names whose process failed."""
    rows: list[dict[str, Any]] = []
    failed: list[str] = []

    def ask(name: str) -> None:
        command = [sys.executable, script, "--worker", name, "--seed", str(seed), "--count", str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"OMP_NUM_THREADS": "1", **os.environ}) as process:
            for line in process.stdout or ():
                rows.append(json.loads(line))
                print(rows[-1]["id"], "line" if rows[-1]["paralign"]["exact"] else "-", rows[-1]["what"], file=sys.stderr, flush=True)
        if process.returncode:
            failed.append(name)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(ask, names))
    return sorted(rows, key=lambda row: row["id"]), failed


def settled(answers: tuple[list[dict[str, Any]], list[str]], files: dict[str, Callable[[list[dict[str, Any]]], str]]) -> None:
    """Write the rows to files, each by its own writer, and fail if some names could not be judged.

    Raises:
        SystemExit: of some names, the process failed; what was judged is written all the same.
    """
    rows, failed = answers
    for file, written in files.items():
        if file:
            Path(file).write_text(written(rows), encoding="utf-8")
    if failed:
        sys.exit(f"the mutants of {', '.join(failed)} could not be judged (all of them): see above")


def table(rows: list[dict[str, Any]], heading: str, group: Any) -> str:
    """A table of counts by a property of the rows."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    lines = [f"| {heading} | mutants | flagged | line first | listed |", "|---|---|---|---|---|"]
    for name, found in sorted(groups.items()):
        counts = [sum(bool(r["paralign"][key]) for r in found) for key in ("flagged", "exact", "listed")]
        lines.append(f"| {name} | {len(found)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def missed(rows: list[dict[str, Any]]) -> str:
    """A table of the mutants whose line is not named first."""
    lines = ["| mutant | stage | edit | true | named |", "|---|---|---|---|---|"]
    for row in rows:
        if not row["paralign"]["exact"]:
            true = ", ".join(sorted({t.rpartition(":")[2] for t in row["truth"]}, key=int))
            answer = row["paralign"]
            named = (
                answer["first"].rpartition("/")[2]
                if answer["flagged"]
                else f"failed: {answer['failed']}"
                if answer["failed"]
                else "not flagged"
            )
            lines.append(f"| {row['id']} | {row['stage']} | `{row['what'].replace('|', '/')}` | {true} | {named} |")
    return "\n".join(lines)


def document(rows: list[dict[str, Any]], seed: int, count: int) -> str:
    """The page."""
    return TEXT.format(
        seed=seed,
        count=count,
        changed=CHANGED,
        summary=table(rows, "stage", lambda r: r["stage"]) + "\n" + table(rows, "", lambda _: "**all**").splitlines()[-1],
        programs=table(rows, "program", lambda r: r["id"].split("/")[0]),
        kinds=table(rows, "edit", lambda r: r["what"].split(":")[0]),
        rules=table(rows, "rule", lambda r: r["paralign"].get("rule") or "(none)"),
        missed=missed(rows),
    )


def main() -> None:
    """Choose, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", nargs="*", default=[], help="names of programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=12, help="mutants of each program")
    parser.add_argument("--json", default="", help="file for the answers")
    parser.add_argument("--write", default="", help="file for the page")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        told(judged(options.worker, options.seed, options.count))
        return
    answers = asked(__file__, options.program or corpus.programs(), options.seed, options.count, options.jobs)
    print(table(answers[0], "stage", lambda r: r["stage"]))
    settled(answers, {options.json: json.dumps, options.write: partial(document, seed=options.seed, count=options.count)})


def told(judged: Iterator[dict[str, Any]]) -> None:
    """Print rows as they come, one a line; whatever the programs print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    for row in judged:
        print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main()
