"""Run every benchmark and write docs/benchmarks.md.

python benchmarks/speed/run.py [--quick] [--padiff FOLDER]            (or: make bench)
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
COMPARE = (
    "All statistics of paralign (counts, extremes with their index, means, L2, cosine, ulp quantiles, NaN and infinities), what a verdict "
    "needs of them, and equal tensors, with the [compiled kernel](kernel.md) and with numpy alone, against reprod_log 1.0.1's three "
    "figures and a plain numpy read of the same bytes, in one run."
)
CAPTURE = "Module-level capture of torchvision's ResNet-50 on a batch of 8 against a plain forward, in one run."
DEMO = (
    "`paralign check examples/mobilenetv3`: MobileNetV3-small on real images, every stage, both sides in processes of their own. "
    "Times are inside the workers; peak memory is the worker's resident memory during the stage, its framework included."
)
CONVERT = (
    "A synthetic sharded checkpoint (bfloat16 and float32) converted to other formats, streaming, against `cp` of the same bytes in the "
    "same run. The limit of memory is 512 MB plus twice the largest tensor."
)
OBSERVE = (
    "Every operation of a forward watched, with the digest and the sketch of every value (parameters included), against a plain forward: "
    "ResNet-50 and a 12-layer transformer encoder (768 wide, 128 tokens), float32, in PyTorch and in Paddle; and "
    "padiff 0.2.0's forward of the same models (both frameworks in one process), against plain forwards of both."
)
ALIGN = (
    "Two recorded runs read, every value of the candidate judged by content, suspects found: the same values; values that differ by a "
    "thousandth after the first operation; values that have nothing in common after it; further steps in between."
)
DIVERGED = (
    "`paralign check … weights forward` of ResNet-50 in PyTorch and Paddle, batch of 8, with a fault in the third stage: all but start-up, "
    "in plain forwards of the slower side, measured before and after it. The aim is 12."
)
TRAINING = (
    "What `TrainLog` adds to a step of 10 ms, beside the same loop without it; the schedule of 300 epochs, step by step on both "
    "sides; ResNet-50 built under 30 seeds on both sides for the stage `init`."
)
PARTS = {
    "compare.py": ("Comparing two tensors", COMPARE),
    "convert.py": ("Converting a checkpoint", CONVERT),
    "capture.py": ("Watching a model", CAPTURE),
    "observe.py": ("Watching every operation", OBSERVE),
    "diverged.py": ("A check that diverges", DIVERGED),
    "align.py": ("Aligning two runs", ALIGN),
    "demo.py": ("The demo, stage by stage", DEMO),
    "training.py": ("Logs, schedules and initialisations", TRAINING),
}


#: what makes a part short enough to be run between other work
QUICK = {
    "compare.py": ["--size-mb", "200", "--repeats", "5"],
    "convert.py": ["--gb", "1"],
    "capture.py": ["--repeats", "3"],
    "observe.py": ["--repeats", "3", "--batches", "8"],
    "diverged.py": ["--repeats", "3"],
}


def main():
    quick = "--quick" in sys.argv[1:]
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "paddlepaddle", "numpy", "reprod-log"))
    parts = [
        "# Benchmarks",
        "",
        "Made by `make bench`; ratios are measured side by side in one run, absolute figures are those of one machine.",
        "",
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {packages}.",
        "",
    ]
    for script, (title, text) in PARTS.items():
        options = list(QUICK.get(script, [])) if quick else []
        if script == "observe.py" and "--padiff" in sys.argv:
            options += ["--padiff", sys.argv[sys.argv.index("--padiff") + 1]]
        print(f"== {script}", flush=True)
        done = subprocess.run([sys.executable, HERE / script, *options], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"{script} failed")
        print(done.stdout, flush=True)
        command = " ".join(["python", f"benchmarks/speed/{script}", *options])
        parts += [f"## {title}", "", text, "", f"`{command}`", "", done.stdout.strip(), ""]
    (HERE.parents[1] / "docs" / "benchmarks.md").write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
