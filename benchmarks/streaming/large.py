"""A streamed check of a large decoder: weights generated here, peak memory of all processes and time printed.

    python benchmarks/streaming/large.py [--layers 22] [--width 2048] [--inner 5632] [--folder DIR]

The usual sizes make about a billion parameters. Every process of the check is counted, as sampled every 0.2 s.
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
sample = 0
[reference]
framework = "torch"
checkpoint = "reference"
[candidate]
framework = "paddle"
checkpoint = "candidate"
[inputs]
shape = [1, 16]
dtype = "int64"
distribution = "integers"
low = 0
high = 100
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("width", 2048), ("heads", 16), ("inner", 5632), ("layers", 22), ("words", 32000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    os.environ.update({name.upper(): str(getattr(options, name)) for name in ("width", "heads", "inner", "layers", "words")})
    from checkpoints import make, shapes

    from paralign.api import check_project
    from paralign.sweeping.one_port import memory_of

    count = sum(length[0] * (length[1] if len(length) > 1 else 1) for length in shapes().values())
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        began = time.perf_counter()
        size = make(folder, dtype="bfloat16", shard=1 << 30)
        print(f"{count / 1e9:.2f} billion parameters, {size / 1e9:.2f} GB each, written in {time.perf_counter() - began:.0f} s", flush=True)
        for side in ("reference.py", "candidate.py"):
            shutil.copy(HERE / side, folder / side)
        (folder / "paralign.toml").write_text(PROJECT, encoding="utf-8")
        peak, done = [0.0], threading.Event()

        def look():
            while not done.wait(0.2):
                peak[0] = max(peak[0], memory_of(os.getpid()))

        watcher = threading.Thread(target=look)
        watcher.start()
        began = time.perf_counter()
        try:
            result, _ = check_project(folder, progress=lambda step: print(f"  {step}", flush=True))
        finally:
            done.set()
            watcher.join()
        print(f"{result.verdict}: {time.perf_counter() - began:.0f} s, at most {peak[0] / 1e9:.2f} GB in all processes")


if __name__ == "__main__":
    main()
