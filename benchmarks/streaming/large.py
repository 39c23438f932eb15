"""A streamed check of a large decoder: weights generated here, peak memory of all processes and time printed.

    python benchmarks/streaming/large.py [--billions 1|3|8] [--layers N] [--width N] [--heads N] [--inner N] [--words N]
                                         [--faults swap=25,stale,base] [--positions 16] [--sample 0] [--jobs 1] [--free] [--folder DIR]

``--billions`` sets the sizes of a decoder of about so many billion parameters, which single options change. The checkpoints take 2 bytes
a parameter and side, below ``--folder``. ``base``: the candidate's rotary base is another. Every process of the check is counted, as
sampled every 0.2 s. Exits with 1 where a fault was planted and its block or line is not named, or where a right port is not aligned.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent

PROJECT = """timeout = 3000
stages = ["weights", "forward"]
[model]
streaming = true
sample = {sample}
jobs = {jobs}
free_running = {free}
[reference]
framework = "torch"
checkpoint = "reference"
[candidate]
framework = "paddle"
checkpoint = "candidate"
[inputs]
shape = [1, {positions}]
dtype = "int64"
distribution = "integers"
low = 0
high = {words}
"""


#: about so many billion parameters -> width, heads, inner width, layers, words
SIZES = {1: (2048, 16, 5632, 22, 32000), 3: (3072, 24, 8192, 26, 32000), 8: (4096, 32, 14336, 32, 32000)}
NAMES = ("width", "heads", "inner", "layers", "words")
BASE = "base=10000.0"


def main():
    options = arguments()
    os.environ.update({name.upper(): str(getattr(options, name)) for name in NAMES})
    from checkpoints import make, shapes

    count = sum(length[0] * (length[1] if len(length) > 1 else 1) for length in shapes().values())
    print(f"{count / 1e9:.2f} billion parameters: {4 * count / 1e9:.1f} GB are written", flush=True)
    faults = [fault for fault in options.faults.split(",") if fault]
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        began = time.perf_counter()
        size = make(folder, faults, dtype="bfloat16", shard=1 << 30)
        print(f"{size / 1e9:.2f} GB each, written in {time.perf_counter() - began:.0f} s", flush=True)
        prepare(folder, options, faults)
        result, seconds, peak = checked(folder)
        found = tell(result, faults, (folder / "candidate.py").read_text(encoding="utf-8").splitlines())
    print(f"{result.verdict}: {seconds:.0f} s, at most {peak / 1e9:.2f} GB in all processes")
    raise SystemExit(0 if found else 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--billions", type=int, choices=sorted(SIZES), default=1)
    for name in NAMES:
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--faults", default="", help="swap=BLOCK, stale, base; separated by commas")
    parser.add_argument("--positions", type=int, default=16)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--free", action="store_true", help="run both sides freely through all blocks, too")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    for name, usual in zip(NAMES, SIZES[options.billions], strict=True):
        if getattr(options, name) is None:
            setattr(options, name, usual)
    return options


def prepare(folder, options, faults):
    """The project beside its checkpoints."""
    for side in ("reference.py", "candidate.py"):
        shutil.copy(HERE / side, folder / side)
    if "base" in faults:
        source = folder / "candidate.py"
        text = source.read_text(encoding="utf-8")
        assert BASE in text
        source.write_text(text.replace(BASE, "base=500000.0"), encoding="utf-8")
    free = "true" if options.free else "false"
    text = PROJECT.format(sample=options.sample, jobs=options.jobs, free=free, positions=options.positions, words=options.words)
    (folder / "paralign.toml").write_text(text, encoding="utf-8")


def checked(folder):
    """The check's result, its seconds, and the most bytes that all processes took at once."""
    from paralign.api import check_project
    from paralign.sweeping.one_port import memory_of

    peak, done = [0.0], threading.Event()

    def look():
        while not done.wait(0.2):
            peak[0] = max(peak[0], memory_of(os.getpid()))

    watcher = threading.Thread(target=look)
    watcher.start()
    began = time.perf_counter()
    try:
        result, _ = check_project(folder, progress=lambda step: print(f"  {time.perf_counter() - began:.0f} s: {step}", flush=True))
    finally:
        done.set()
        watcher.join()
    return result, time.perf_counter() - began, peak[0]


def tell(result, faults, lines):
    """Print where the check says that faults lie; whether every planted one is named with its block and line."""
    weights, forward = result.stages
    said = [(each.candidate, " ".join(each.notes)) for stage in result.stages for each in stage.divergences if each.candidate is not None]
    for point, notes in said:
        print(f"  {point.name or point.op}  {Path(point.source or '').name}  {notes[:160]}")
    for warning in [*weights.warnings, *(stage.failure or "" for stage in result.stages)]:
        print(f"  {warning}")
    if not faults:
        return result.verdict == "aligned"
    code = {(point.name, lines[int(point.source.rpartition(":")[2]) - 1]) for point, _ in said if point.source}
    missed = []
    for fault in faults:
        kind, _, number = fault.partition("=")
        if kind == "swap":
            named = any(f"layers.{number or 5}.mlp.gate_proj" in name and "self.gate_proj" in line for name, line in code)
        elif kind == "stale":
            named = any("the shard is stale" in warning for warning in weights.warnings)
        else:
            named = any("base" in line for _, line in code) and forward.verdict == "diverged"
        missed += [] if named else [fault]
    print(f"faults named with block and line: {len(faults) - len(missed)} of {len(faults)}{', not ' + ', '.join(missed) if missed else ''}")
    return not missed


if __name__ == "__main__":
    main()
