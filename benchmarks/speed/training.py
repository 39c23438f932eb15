"""What the log of a training costs, how fast a whole schedule is followed, and what 30 initialisations of ResNet-50 take.

python benchmarks/speed/training.py [--steps N] [--seeds N] [log] [schedule] [init]

The log is measured side by side with the same loop without it, in rounds that alternate: a step computes for 10 ms of the thread's own
time, so that other work on the machine does not count. Schedules and initialisations are those of a project, PyTorch against Paddle,
checked from the command line: seconds of the whole check, and of each worker with its peak memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP, ROUNDS, BATCHES = 0.010, 15, 50
PARTS = ("log", "schedule", "init")

PROJECT = """
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "paddle"
module = "candidate.py"
[training]
epochs = 300
steps_per_epoch = {steps}
[init]
seeds = {seeds}
"""

SCHEDULED = {
    "reference": """
import torch
def build_model():
    return torch.nn.Linear(4, 4)
def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.{theirs}
""",
    "candidate": """
import paddle
def build_model():
    return paddle.nn.Linear(4, 4)
def build_optimizer(model):
    return paddle.optimizer.Momentum(paddle.optimizer.lr.{ours}, 0.9, model.parameters())
""",
}
SCHEDULES = {
    "steps": ("StepLR(optimizer, 300_000)", "StepDecay(0.1, 300_000)"),
    "cosine": ("CosineAnnealingLR(optimizer, 1_000_000)", "CosineAnnealingDecay(0.1, 1_000_000)"),
    "function": ("LambdaLR(optimizer, lambda n: min(1.0, n / 1000))", "LambdaDecay(0.1, lambda n: min(1.0, n / 1000))"),
}

#: ResNet-50 of the parts that a framework gives
RESNET = """
def bottleneck(inside, planes, stride):
    class Block(Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = conv(inside, planes, 1, 1), norm(planes)
            self.conv2, self.bn2 = conv(planes, planes, 3, stride), norm(planes)
            self.conv3, self.bn3 = conv(planes, 4 * planes, 1, 1), norm(4 * planes)
            if stride > 1 or inside != 4 * planes:
                self.down = Sequential(conv(inside, 4 * planes, 1, stride), norm(4 * planes))
    return Block()

class ResNet(Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn, inside = conv(3, 64, 7, 2), norm(64), 64
        for number, (planes, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            made = []
            for block in range(blocks):
                made.append(bottleneck(inside, planes, 2 if number and not block else 1))
                inside = 4 * planes
            setattr(self, "layer%d" % number, Sequential(*made))
        self.fc = Linear(inside, 1000)
"""
MODELS = {
    "reference": "from torch.nn import Module, Sequential, Linear, Conv2d, BatchNorm2d as norm\n"
    "def conv(i, o, k, s):\n    return Conv2d(i, o, k, s, k // 2, bias=False)\n" + RESNET + "def build_model():\n    return ResNet()\n",
    "candidate": "from paralign import init\nfrom paddle.nn import Layer as Module, Sequential, Linear, Conv2D, BatchNorm2D as norm\n"
    "def conv(i, o, k, s):\n    return Conv2D(i, o, k, s, k // 2, bias_attr=False)\n"
    + RESNET
    + "def build_model():\n    model = ResNet()\n    init.default_like_torch(model)\n    return model\n",
}


def computed():
    """A step: so many seconds of this thread's own time."""
    until = time.thread_time() + STEP
    while time.thread_time() < until:
        pass


def loop(log, batches):
    """Seconds a step, of the thread's own time, of an epoch with or without a log."""
    began = time.thread_time()
    if log is None:
        for _ in range(batches):
            computed()
    else:
        for _, _ in log.batches(range(batches), 0):
            computed()
            log.step(samples=32, loss=0.25, lr=0.1, acc=0.5)
    return (time.thread_time() - began) / batches


def of_log():
    """The share that a log adds to a step of 10 ms, a line every batch and every ten."""
    from paralign.trainlog import TrainLog

    lines = ["| `TrainLog` | a step without | with it | added | share of the step |", "|---|---:|---:|---:|---:|"]
    for every in (1, 10):
        rounds = []
        with (
            tempfile.TemporaryDirectory(prefix="paralign-bench-") as folder,
            TrainLog(f"{folder}/train.log", every=every, show=False) as log,
        ):
            loop(log, 5)
            for number in range(ROUNDS):
                pair = (None, log) if number % 2 else (log, None)
                rounds.append(sorted((each is log, loop(each, BATCHES)) for each in pair))
        plain, logged = (statistics.median(each[side][1] for each in rounds) for side in (0, 1))
        added = statistics.median(each[1][1] - each[0][1] for each in rounds)
        lines.append(f"| a line every {every} | {plain * 1e3:.3f} ms | {logged * 1e3:.3f} ms | {added * 1e6:.0f} µs | {added / STEP:.2%} |")
    return [*lines, "", f"{BATCHES} steps a round, {ROUNDS} rounds of each in turn, medians."]


def checked(stage, sources, **settings):
    """A check of one stage of a project; its seconds, and what the report says of the stage."""
    with tempfile.TemporaryDirectory(prefix="paralign-bench-") as folder:
        for side, text in sources.items():
            Path(folder, f"{side}.py").write_text(text, encoding="utf-8")
        Path(folder, "paralign.toml").write_text(PROJECT.format(**settings), encoding="utf-8")
        began = time.perf_counter()
        command = [sys.executable, "-m", "paralign", "check", folder, stage, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode not in (0, 1, 4):
            sys.exit(done.stdout + done.stderr)
        return seconds, next(s for s in json.loads(done.stdout)["stages"] if s["name"] == stage)


def row(name, seconds, stage):
    """A row of a table."""
    workers = [f"{stage['seconds'].get(side, 0.0):.1f} s" for side in ("reference", "candidate")]
    peaks = [f"{stage['peak_bytes'].get(side, 0.0) / 1e6:.0f} MB" for side in ("reference", "candidate")]
    seen = ", ".join(f"{c['compared']:,} {c['what']}" for c in stage["coverage"][:2])
    return f"| {name} | {stage['verdict']} | {seen} | {' | '.join(workers)} | {' | '.join(peaks)} | {seconds:.0f} s |"


HEAD = [
    "| | verdict | looked at | reference | candidate | peak reference | peak candidate | whole check |",
    "|---|---|---|---:|---:|---:|---:|---:|",
]


def of_schedules(steps):
    """Schedules of a training, step by step."""
    lines = list(HEAD)
    for name, (theirs, ours) in SCHEDULES.items():
        sources = {side: text.format(theirs=theirs, ours=ours) for side, text in SCHEDULED.items()}
        lines.append(row(f"schedule: {name}", *checked("optimizer", sources, steps=steps // 300, seeds=30)))
    return lines


def of_models(seeds):
    """ResNet-50 under many seeds."""
    return [*HEAD, row(f"init: ResNet-50, {seeds} seeds", *checked("init", MODELS, steps=1, seeds=seeds))]


def main():
    """Print the tables of the parts that are named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[], metavar="PART", help="log, schedule, init")
    parser.add_argument("--steps", type=int, default=1_000_200, help="updates of the training whose schedule is followed")
    parser.add_argument("--seeds", type=int, default=30, help="initialisations a side")
    options = parser.parse_args()
    made = {"log": of_log, "schedule": lambda: of_schedules(options.steps), "init": lambda: of_models(options.seeds)}
    for name in options.parts or PARTS:
        print("\n".join([*made[name](), ""]), flush=True)


if __name__ == "__main__":
    main()
