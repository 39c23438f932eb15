"""How long two runs of many operations take to align: read, every value judged, suspects found and reported.

The runs are made of blocks (projections, views, attention scores, normalisation, residual sum) whose values are drawn, so that no
model is needed; all normalised values have the same size and root mean square, which is hard on a search by size and scale.

    python benchmarks/speed/align.py [--operations 20000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.capture.sketch import sketch
from paralign.locate.pipeline import recorded
from paralign.model import Manifest

#: operations of a block: kind, inputs counted back from the block's newest value (0 the newest), whether a parameter goes in
BLOCK = (
    ("layer_norm", (0,), True),
    ("matmul", (0,), True),
    ("view", (0,), False),
    ("transpose", (0,), False),
    ("matmul", (3,), True),
    ("view", (0,), False),
    ("matmul", (0, 2), False),
    ("softmax", (0,), False),
    ("matmul", (0, 3), False),
    ("add", (0, 9), False),
)
MOVES = ("view", "transpose")
SIZE, SEED = 64, 0

#: case -> how far the candidate's values are from the reference's after the first operation
CASES = {"equal": 0.0, "near": 1e-3, "different": 1.0, "equal, in other steps": 0.0}


def values(operations, away):
    """Arrays in the order of their operations: drawn once, the candidate's moved away from the reference's."""
    drawn, moved = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)
    for number in range(operations):
        array = drawn.normal(size=(8, SIZE // 8))
        array /= np.sqrt((array**2).mean())
        other = moved.normal(size=array.shape)
        if number:
            array = array + away * other
        yield array * (1 + 1e-13 * other)


def write(folder, side, operations, away, *, more):
    """A capture of one run; ``more`` adds a copy after every fifth operation."""
    settings = {"answer": {"runs": ["float64"]}, "operations": {"float64": {"built": {}, "kinds": {}}}}
    with CaptureWriter(folder, Manifest(side=side, stage="forward", settings=settings)) as writer:
        made, sketches, newest, count = values(operations, away), [], [], 0
        weights = np.random.default_rng(SEED + 2)

        def add(array, **fields):
            record = writer.add("", array, run="float64", digest=moments(array), keep=False, **fields)
            sketches.append((record.id, sketch(array).astype(np.float32)))
            return record.id, array

        newest.append(add(np.random.default_rng(SEED + 3).normal(size=(8, 8)), role="input", attrs={"operation": "given"}))
        while count < operations:
            for kind, behind, weighed in BLOCK:
                inputs = [newest[-1 - min(back, len(newest) - 1)] for back in behind]
                array = next(made, None)
                if array is None:
                    break
                if kind in MOVES:
                    array = inputs[0][1]
                numbers = [number for number, _ in inputs]
                if weighed:
                    numbers.append(add(weights.normal(size=(8, 8)), role="parameter", attrs={"operation": "given"})[0])
                attrs = {"operation": kind, "stack": [f"model.py:{count % 7}"], "arguments": {}}
                newest.append(add(array, role="output", call=count, op=kind, source=f"model.py:{count % 10}", inputs=numbers, attrs=attrs))
                if more and count % 5 == 0:
                    number, array = newest[-1]
                    attrs = {"operation": "copy", "stack": [], "arguments": {}}
                    newest[-1] = add(
                        array, role="output", call=operations + count, op="copy", source="model.py:1", inputs=[number], attrs=attrs
                    )
                count += 1
                del newest[:-16]
        settings["operations"]["float64"]["outputs"] = {"": newest[-1][0]}
        for start in range(0, len(sketches), 1024):
            part = sketches[start : start + 1024]
            numbers = {"records": [number for number, _ in part]}
            writer.add("sketches", np.stack([row for _, row in part]), role="state", run="float64", attrs=numbers)
    return folder


def main():
    """Print a table of seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"Two runs of {options.operations} operations each, the candidate's values as the case says.\n")
    print("| case | elapsed | processor time | verdict | suspects | values that both have |\n|---|---|---|---|---|---|")
    folder, found = Path(tempfile.mkdtemp(prefix="paralign-bench-")), {}
    try:
        reference = write(folder / "reference", "reference", options.operations, 0.0, more=False)
        for case, away in CASES.items():
            candidate = write(folder / case.replace(" ", "-"), "candidate", options.operations, away, more="steps" in case)
            began, busy = time.perf_counter(), time.process_time()
            result = recorded(Capture.open(reference), Capture.open(candidate)).stages[0]
            found[case] = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - busy}
            spent = " | ".join(f"{seconds:.1f} s" for seconds in found[case].values())
            shared = result.notes[-1].split("; ")[-1].split(" values")[0]
            print(f"| {case} | {spent} | {result.verdict} | {len(result.divergences)} | {shared} |", flush=True)
    finally:
        shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps({"operations": options.operations, "cases": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
