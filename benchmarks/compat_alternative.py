"""What ``paddle.enable_compat`` makes of every pair of the catalogue and of the further expressions: the same programs, unchanged.

``python benchmarks/compat_alternative.py`` runs each with PyTorch, and in a process of its own with Paddle in PyTorch's place, and prints
how many give the same numbers, raise, or give others in silence. ``--write FILE`` writes the table, ``--names FILE`` what became
of each callable, which `paralign scan` tells, ``-v`` names those that are silent.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from catalogue import difference
from catalogue_sides import arrays
from convert_code import HEAD, Case, Converted, Torch, cases, run

#: what may become of a program
SAME, RAISES, SILENT = "equal", "raises", "silently different"

#: how an outcome is written in the table by names
_WORDS = {SAME: "equal", RAISES: "raises", SILENT: "silent"}


def imported(source: str) -> str:
    """A program without those imports that it does not use: Paddle in PyTorch's place has no ``torch.optim``."""
    body = source[len(HEAD) :]
    head = HEAD if "optim." in body else HEAD.replace("nn, optim", "nn")
    head = head if "lr." in body else head.replace("from torch.optim import lr_scheduler as lr\n", "")
    return head + body


def results(found: list[Case], side: Any) -> list[tuple[bool, Any]]:
    """Of each case whether it ran, and what it gave or why it raised."""
    done: list[tuple[bool, Any]] = []
    for case in found:
        made: dict[str, Any] = arrays(case.entry.id)
        known = set(made)
        exec(case.entry.example.setup, made)
        names = {name: value for name, value in made.items() if name not in known and name != "__builtins__"}
        try:
            done.append((True, run(imported(case.source), side, names)))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
            done.append((False, " ".join(f"{type(error).__name__}: {error}".split())[:160]))
    return done


def through_compat(found: list[Case]) -> list[tuple[bool, Any]]:
    """The results with Paddle in PyTorch's place, from a process that has not seen PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results")
        subprocess.run([sys.executable, __file__, "--side", str(path)], check=True)
        written: list[tuple[bool, Any]] = pickle.loads(path.read_bytes())
    if len(written) != len(found):
        raise RuntimeError("the two processes have other cases")
    return written


def wanted() -> list[Case]:
    """The cases as they stand, those beside the catalogue included."""
    return [case for case in cases("") if case.form in ("as it stands", "beside the catalogue")]


def table(rows: Counter[tuple[str, str]]) -> str:
    """The table in Markdown."""
    lines = [f"| programs | {SAME} | {RAISES} | {SILENT} |", "|---|---|---|---|"]
    for form in ("as it stands", "beside the catalogue"):
        name = "pairs of the catalogue" if form == "as it stands" else "further expressions"
        lines.append(f"| {name} | {rows[form, SAME]} | {rows[form, RAISES]} | {rows[form, SILENT]} |")
    return "\n".join(lines) + "\n"


def by_name(outcomes: dict[str, set[str]]) -> str:
    """The worst outcome of each callable's programs, a line each: what `paralign scan` reads."""
    import paddle
    import torch

    lines = [f"# torch {torch.__version__.partition('+')[0]}, paddle {paddle.__version__}: make compat-alternative ARGS='--names FILE'"]
    order = (SILENT, RAISES, SAME)
    for name, found in sorted(outcomes.items()):
        worst = next(each for each in order if each in found)
        lines.append(f"{_WORDS[worst]} {name}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run both sides, compare, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path)
    options.add_argument("--names", type=Path, help="write the worst outcome of each callable's programs")
    options.add_argument("--side", type=Path, help=argparse.SUPPRESS)
    options.add_argument("-v", "--verbose", action="store_true")
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    found = wanted()
    if chosen.side:
        import paddle

        paddle.enable_compat()
        chosen.side.write_bytes(pickle.dumps(results(found, Converted())))
        return 0
    rows: Counter[tuple[str, str]] = Counter()
    outcomes: dict[str, set[str]] = {}
    for case, (ran, reference), (works, value) in zip(found, results(found, Torch()), through_compat(found), strict=True):
        if not ran:
            continue
        apart = difference(reference, value) if works else ""
        close = works and not isinstance(apart, str) and apart <= case.entry.example.tolerance
        result = SAME if close else SILENT if works else RAISES
        rows[case.form, result] += 1
        if case.entry.torch:
            outcomes.setdefault(case.entry.torch, set()).add(result)
        if chosen.verbose and result is SILENT:
            print(f"{SILENT}: {case.entry.id}: {apart}")
    print(table(rows))
    if chosen.names:
        chosen.names.write_text(by_name(outcomes), encoding="utf-8")
    if chosen.write:
        chosen.write.write_text(table(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
