"""Evaluations with one mistake each, in plain numpy: is the line of the mistake named first?

    python benchmarks/unseen/metrics.py [--set NAME…] [--only CASE…] [--seconds N] [--right]

A set is a file below ``programs/metrics/``: ``CASES`` has texts of both sides' ``metric(outputs, labels)``, the candidate's with ``#!`` at
the end of the wrong line and ``#?`` at others that would be right too; ``RIGHT`` has candidates without the mistake. The first set was
written beside the engine, the others by writers who had seen neither. A check takes about a second.

Edits are tried for ``--seconds`` (0: none), as ``PARALIGN_REPAIR_SECONDS`` says it. With ``--right`` the right candidates are checked.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import runpy
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import run

CASES = run.PROGRAMS / "metrics"

PROJECT = """\
timeout = 60
[reference]
framework = "numpy"
module = "reference.py"
[candidate]
framework = "numpy"
module = "candidate.py"
[inputs]
shape = [24, 6]
[labels]
shape = [24]
dtype = "int64"
high = 3
"""

#: what stands above both sides: the names that the writers were promised, and a model whose outputs are scored
HEAD = """\
import numpy as np
import math, collections, functools, itertools, operator, statistics, heapq, dataclasses, typing
from collections import defaultdict, OrderedDict, deque, Counter, namedtuple
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

class Model:
    def __init__(self):
        random = np.random.RandomState(0)
        self.parameters = {"weight": random.randn(6, 3).astype("float32"), "bias": random.randn(3).astype("float32")}

    def __call__(self, x):
        return x @ self.parameters["weight"] + self.parameters["bias"]

def build_model():
    return Model()

"""


def marked(text: str, mark: str) -> list[int]:
    """The numbers of the lines that end in a mark."""
    return [number for number, line in enumerate(text.split("\n"), 1) if re.search(rf"#{re.escape(mark)}\s*$", line)]


def judged(folder: Path, reference: str, candidate: str) -> dict[str, Any]:
    """The row of one case."""
    text = HEAD + textwrap.dedent(candidate)
    told = re.sub(r"[ 	]*#[!?][ 	]*$", "", text, flags=re.MULTILINE)
    for name, content in (("reference", HEAD + textwrap.dedent(reference)), ("candidate", told)):
        ast.parse(content)
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    (folder / "paralign.toml").write_text(PROJECT, encoding="utf-8")
    row = run.check(folder, "metric")
    row["distance"] = run.distance(row["first"], [f"candidate.py:{line}" for line in (*marked(text, "!"), *marked(text, "?"))])
    return row


def main() -> None:
    """Judge sets, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", nargs="*", default=[path.stem for path in sorted(CASES.glob("*.py"))])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", default="0")
    parser.add_argument("--right", action="store_true")
    asked = parser.parse_args()
    os.environ["PARALIGN_REPAIR_SECONDS"] = asked.seconds
    table = []
    for name in asked.set:
        held = runpy.run_path(str(CASES / f"{name}.py"))
        rows = []
        for case, (reference, wrong) in held["CASES"].items():
            candidate = held.get("RIGHT", {}).get(case) if asked.right else wrong
            if candidate is None or (asked.only and case not in asked.only):
                continue
            with tempfile.TemporaryDirectory(prefix="metrics-") as home:
                row = judged(Path(home), reference, candidate)
            rows.append(row)
            print(
                f"{name}/{case}: exit {row['code']}, named {str(row['first']).rpartition(':')[2]}, {row['distance']} lines away", flush=True
            )
        flagged = sum(row["code"] == 1 for row in rows)
        distances = [row["distance"] for row in rows if row["distance"] is not None]
        near = sum(0 < distance <= run.NEAR for distance in distances)
        table.append(f"| {name} | {len(rows)} | {flagged} | {distances.count(0)} | {near} |")
    print("| set | cases | flagged | line first | within two lines |\n|---|---|---|---|---|\n" + "\n".join(table))


if __name__ == "__main__":
    main()
