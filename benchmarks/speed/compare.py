"""What comparing two tensors costs: paralign with its compiled kernel and with numpy alone, reprod_log, and merely reading the bytes.

Two float32 tensors in memory, a reference and the reference with rounding-sized noise. Contenders take turns within one
process, so that a busy machine hits them alike; ratios are medians over the rounds. On a shared machine reprod_log, which
allocates as much as it compares, suffers more than the others: the ratio of the best rounds is then the lower, safer one.
Peak extra memory is what numpy allocated beyond the two tensors, traced in a call of its own; the kernel keeps 32 KB on the
stack of each thread. GB/s count the bytes of both tensors.

    python benchmarks/speed/compare.py [--size-mb 400] [--repeats 7] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from paralign.comparison import measure
from paralign.comparison.compiled import SWITCH, State, state

YARDSTICK = "reprod_log 1.0.1 compute_diff (mean, max, min)"
READ = "numpy read of both, {} thread"
STRETCH = 1 << 20
THREADS = (1, 2)
KERNELS = {"1": "kernel", "0": "numpy"}


def tensors(size_mb):
    """Reference and candidate, filled in stretches so that nothing but them stays in memory."""
    count = int(size_mb * 1e6) // 4
    rng = np.random.default_rng(0)
    reference, candidate = np.empty(count, np.float32), np.empty(count, np.float32)
    for start in range(0, count, STRETCH):
        rows = slice(start, min(start + STRETCH, count))
        rng.standard_normal(out=reference[rows], dtype=np.float32)
        candidate[rows] = reference[rows] + np.float32(1e-6) * rng.standard_normal(candidate[rows].size, dtype=np.float32)
    return reference, candidate


def read(arrays, threads):
    """Sum of all bytes, taken eight at a time."""
    stretches = [array[i : i + STRETCH].view(np.uint64) for array in arrays for i in range(0, array.size // 2 * 2, STRETCH)]
    if threads == 1:
        return sum(int(np.add.reduce(stretch)) for stretch in stretches)
    with ThreadPoolExecutor(threads) as pool:
        return sum(map(int, pool.map(np.add.reduce, stretches)))


def measured(kernel, *sides, **options):
    """The statistics with the compiled kernel (1) or with numpy alone (0)."""
    os.environ[SWITCH] = kernel
    return measure(*sides, **options)


def contenders(reference, candidate):
    """Name -> what to run; reprod_log only where it is installed."""
    twin = reference.copy()
    runs = {READ.format(threads): partial(read, (reference, candidate), threads) for threads in THREADS}
    for kernel, label in KERNELS.items():
        for threads in THREADS if kernel == "1" else (1,):
            runs[f"everything shown, {label}, {threads} thread"] = partial(measured, kernel, reference, candidate, threads=threads)
            runs[f"what a verdict needs, {label}, {threads} thread"] = partial(
                measured, kernel, reference, candidate, threads=threads, shown=False
            )
            runs[f"equal tensors, {label}, {threads} thread"] = partial(measured, kernel, reference, twin, threads=threads, shown=False)
    try:
        from reprod_log.compare import compute_diff
    except ImportError as missing:
        print(f"reprod_log is absent ({missing}): no ratio to it", file=sys.stderr)
        return runs
    return {YARDSTICK: lambda: compute_diff({"x": reference}, {"x": candidate})} | runs


def traced(run):
    """Bytes allocated at the peak of one call."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size-mb", type=float, default=400.0, help="size of each of the two tensors")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.pop(SWITCH, None)
    if state() is not State.IN_USE:
        print(f"the compiled kernel is {state().value}: its rows are numpy's", file=sys.stderr)
    reference, candidate = tensors(options.size_mb)
    runs = contenders(reference, candidate)
    peaks = {name: traced(run) for name, run in runs.items()}  # and warms everything up
    seconds = {name: [] for name in runs}
    for _ in range(options.repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    size = reference.nbytes + candidate.nbytes
    rows = [
        {
            "contender": name,
            "gb_per_s": size / statistics.median(taken) / 1e9,
            "gb_per_s_worst": size / max(taken) / 1e9,
            "gb_per_s_best": size / min(taken) / 1e9,
            "times_reprod_log": statistics.median(a / b for a, b in zip(seconds[YARDSTICK], taken, strict=True))
            if YARDSTICK in runs
            else None,
            "best_times_reprod_log": min(seconds[YARDSTICK]) / min(taken) if YARDSTICK in runs else None,
            "of_a_read": statistics.median(
                a / b for a, b in zip(seconds[READ.format(2 if ", 2 thread" in name else 1)], taken, strict=True)
            ),
            "peak_extra_mb": peaks[name] / 1e6,
        }
        for name, taken in seconds.items()
    ]
    print(table(rows, options.size_mb))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def table(rows, size_mb):
    columns = (
        f"2 x {size_mb:g} MB float32", "GB/s", "worst to best", "against reprod_log", "best against its best",
        "of a read by as many threads", "peak extra memory",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    for r in rows:
        times = "|" if r["times_reprod_log"] is None else f"{r['times_reprod_log']:.2f} | {r['best_times_reprod_log']:.2f}"
        spread = f"{r['gb_per_s_worst']:.2f} to {r['gb_per_s_best']:.2f}"
        lines.append(
            f"| {r['contender']} | {r['gb_per_s']:.2f} | {spread} | {times} | {r['of_a_read']:.0%} | {r['peak_extra_mb']:.1f} MB |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
