"""What watching a model costs: ResNet-50, batch 8, a plain forward against forwards that record every module call.

Contenders run in turn within one process for time, and each in a process of its own for peak memory.

    python benchmarks/speed/capture.py [--repeats 5] [--batch 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTENDERS = ("plain forward", "hooks alone", "digests", "digests and values on disk")


def resnet50():
    """torchvision's model, without the compiled operators that a wheel without CUDA lacks."""
    import torch

    for name in () if torch.cuda.is_available() else ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision.models import resnet50 as build

    return build(weights=None).eval()


def prepare(batch):
    """A function that runs one contender and gives its seconds and, where it writes, the bytes on disk."""
    import numpy as np
    import torch

    from paralign.adapters.finding import load
    from paralign.capture import CaptureWriter, discard
    from paralign.model import Manifest
    from paralign.worker.passes.forward import ModuleRecorder
    from paralign.worker.sides.session import NATIVE, Session

    model = resnet50()
    adapter = load("torch")
    session = Session("reference", {"build_model": lambda: model}, "torch")
    image = torch.from_numpy(np.random.RandomState(0).randn(batch, 3, 224, 224).astype("float32"))
    assert session.model is not None

    def once(contender):
        folder = Path(tempfile.mkdtemp(prefix="paralign-bench-"))
        try:
            began = time.perf_counter()
            with torch.no_grad():
                if contender == "plain forward":
                    model(image)
                elif contender == "hooks alone":
                    with adapter.observe(model, lambda call: None):
                        model(image)
                else:
                    with CaptureWriter(folder / "capture", Manifest()) as writer:
                        sink = ModuleRecorder(session, writer, NATIVE, full=contender.endswith("disk"))
                        with adapter.observe(model, sink):
                            model(image)
            seconds = time.perf_counter() - began
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            if (folder / "capture").exists():
                discard(folder / "capture")
            return seconds, size
        finally:
            shutil.rmtree(folder)

    return once


def peak(contender, batch):
    """Peak resident memory of a process that runs one contender twice."""
    done = subprocess.run(
        [sys.executable, __file__, "--only", contender, "--batch", str(batch)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    once = prepare(options.batch)
    if options.only:
        from paralign.trainlog.peaks import peak_bytes

        once(options.only)
        once(options.only)
        print(peak_bytes())
        return
    once("plain forward")
    seconds = {c: [] for c in CONTENDERS}
    sizes = {}
    for _ in range(options.repeats):
        for contender in CONTENDERS:
            taken, sizes[contender] = once(contender)
            seconds[contender].append(taken)
    rows = []
    for contender in CONTENDERS:
        rows.append(
            {
                "contender": contender,
                "seconds": statistics.median(seconds[contender]),
                "ratio": statistics.median(a / b for a, b in zip(seconds[contender], seconds["plain forward"], strict=True)),
                "disk_mb": sizes[contender] / 1e6,
                "peak_mb": peak(contender, options.batch) / 1e6,
            }
        )
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def table(rows):
    lines = ["| ResNet-50, float32 | seconds | against plain | on disk | peak memory |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {r['contender']} | {r['seconds']:.2f} | {r['ratio']:.2f} | {r['disk_mb']:.0f} MB | {r['peak_mb']:.0f} MB |" for r in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
