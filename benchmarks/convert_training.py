"""Parts of training programs converted, and each of their functions executed on both sides.

``python benchmarks/convert_training.py`` prints, by file of ``sources/training``, how many functions give equal numbers. It fails where
one is silently wrong. A function whose name does not begin with an underscore and that takes no argument is executed. ``--only NAME``
takes files or functions of that name, ``--write FILE`` writes the table.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import random
import runpy
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from catalogue import difference, plain

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

PROGRAMS = Path(__file__).parent / "sources" / "training"

#: absolute difference of float32 numbers of about 1 after some 50 steps: 16 roundings
CLOSE = 2e-6

#: what may become of a function
EQUAL, CONDITION, FLAGGED, REFUSES, LOUD, WRONG = (
    "equal", "told under a condition", "left by hand", "refuses when run", "raises otherwise", "silently wrong",
)  # fmt: skip
KINDS = (EQUAL, CONDITION, FLAGGED, REFUSES, LOUD, WRONG)


@dataclass
class Case:
    """One function of a program, and what became of it."""

    file: str
    name: str
    result: str
    detail: str = ""


def functions(space: dict[str, Any]) -> dict[str, Any]:
    """The functions of a program that are executed."""
    own = [each for each in space.items() if inspect.isfunction(each[1]) and each[1].__globals__.get("__name__") == space["__name__"]]
    return {name: each for name, each in own if not name.startswith("_") and not inspect.signature(each).parameters}


def executed(path: Path, name: str) -> Any:
    """What a function of a program gives, in a program of its own; what it draws is the same in every run."""
    import paddle
    import torch

    function = functions(runpy.run_path(str(path)))[name]
    for seed in (random.seed, np.random.seed, torch.manual_seed, paddle.seed):
        seed(0)
    return plain(function())


def fates(source: Path, places: list[Any]) -> dict[str, set[Fate]]:
    """The fates of the places within each function."""
    found: dict[str, set[Fate]] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = {each.fate for each in places if node.lineno <= each.line <= (node.end_lineno or node.lineno)}
    return found


def judged(source: Path, port: Path, name: str, known: set[Fate]) -> Case:
    """Execute a function on both sides."""
    case = Case(source.stem, name, FLAGGED)
    reference = executed(source, name)
    if Fate.BY_HAND in known:
        return case
    try:
        apart = difference(reference, executed(port, name))
    except NotImplementedError as error:
        case.result, case.detail = REFUSES, str(error)
        return case
    except Exception as error:  # noqa: BLE001 - what Paddle raises is the outcome
        case.result, case.detail = LOUD, " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return case
    if not isinstance(apart, str) and apart <= CLOSE:
        case.result = EQUAL
        return case
    case.result, case.detail = CONDITION if Fate.CONDITION in known else WRONG, str(apart)
    return case


def define_operators() -> None:
    """Let torchvision be imported where its wheel was built for another torch."""
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def measured(only: str) -> list[Case]:
    """Convert the programs and execute their functions."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = convert_code(PROGRAMS, Path(folder, "port"))
        found = []
        sources = sorted(PROGRAMS.glob("*.py"))
        for source in [each for each in sources if each.stem.startswith(only)] or sources:
            known = fates(source, [each for each in ledger.places if each.path == source.name])
            names = functions(runpy.run_path(str(source)))
            chosen = [name for name in names if source.stem.startswith(only) or name.startswith(only)]
            found += [judged(source, Path(folder, "port", source.name), name, known[name]) for name in chosen]
        return found


def table(found: list[Case]) -> str:
    """Results by file."""
    lines = ["| program | " + " | ".join(KINDS) + " |", "|---|" + "---|" * len(KINDS)]
    counted = Counter((case.file, case.result) for case in found)
    lines += [
        f"| {file} | " + " | ".join(str(counted[file, kind]) for kind in KINDS) + " |" for file in dict.fromkeys(c.file for c in found)
    ]
    lines.append("| all | " + " | ".join(str(sum(case.result == kind for case in found)) for kind in KINDS) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Convert, execute, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path)
    options.add_argument("--only", default="", help="files or functions that begin so")
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    define_operators()
    found = measured(chosen.only)
    for case in found:
        if case.result != EQUAL:
            print(f"{case.result}: {case.file}.{case.name}: {case.detail}")
    print(table(found))
    if chosen.write:
        chosen.write.write_text(table(found), encoding="utf-8")
    return int(any(case.result == WRONG for case in found))


if __name__ == "__main__":
    sys.exit(main())
