"""The project that ``paralign init`` writes: a small PyTorch model and its port.

Both are to be replaced by the user's own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from paralign.capture.bounds import checked_path
from paralign.errors import UsageError, unwritten

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = """\
# A port under test. Run it with: paralign check
# Everything that is left out has a default; docs/project.md lists all keys.

out = "result"            # report.json, the guides' .npy files and logs go here
timeout = 600             # seconds that a side may take for one stage

[reference]               # what is trusted
module = "reference.py"   # the module with build_model() and friends
root = "."                # put on the path first: the folder of the reference repository
framework = "torch"
python = ""               # its interpreter: a file, the folder of a virtual or conda environment, conda:NAME; empty: this one

[candidate]               # the port
module = "candidate.py"
root = "."
framework = "paddle"
python = ""

[inputs]                  # handed to build_model()'s model; or source = "dataloader", or file = "inputs.npy"
shape = [4, 3, 32, 32]
dtype = "float32"
distribution = "normal"   # normal, uniform, integers, zeros, ones, arange
seed = 0

[labels]                  # handed to loss(outputs, labels) and metric(outputs, labels)
shape = [4]
dtype = "int64"
distribution = "integers"
low = 0
high = 10
"""

REFERENCE = '''\
"""The reference side. Import your own code here; a stage whose function is missing is skipped and reported as not tested."""

import torch
from torch import nn


def build_model():
    """The model with the weights that the port shall be checked with: load a checkpoint here if there is one."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(3, 2, padding=1),
        nn.Flatten(), nn.Linear(8 * 16 * 16, 10),
    )


def loss(outputs, labels):
    """A scalar."""
    return nn.functional.cross_entropy(outputs, labels)


def metric(outputs, labels):
    """A number, or a dict of them."""
    return {"accuracy": (outputs.argmax(1) == labels).float().mean()}


def build_optimizer(model):
    """The optimizer of the training program, with its real settings."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


def build_scheduler(optimizer):
    """The learning rate schedule, stepped after every update; leave the function out if there is none."""
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
'''

CANDIDATE = '''\
"""The candidate side: the port. Same functions, same meaning."""

import paddle
from paddle import nn


def build_model():
    """The ported model; its weights are taken from the reference."""
    return nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(),
        nn.AvgPool2D(3, 2, padding=1, exclusive=False),  # try it without exclusive=False
        nn.Flatten(), nn.Linear(8 * 16 * 16, 10),
    )


def loss(outputs, labels):
    """A scalar."""
    return nn.functional.cross_entropy(outputs, labels)


def metric(outputs, labels):
    """A number, or a dict of them."""
    return {"accuracy": (outputs.argmax(1) == labels).astype("float32").mean()}


def build_optimizer(model):
    """In Paddle the schedule belongs to the optimizer."""
    schedule = paddle.optimizer.lr.StepDecay(0.1, step_size=2, gamma=0.1)
    return paddle.optimizer.Momentum(schedule, momentum=0.9, weight_decay=1e-4, parameters=model.parameters())


def build_scheduler(optimizer):
    """The schedule inside the optimizer."""
    return optimizer._learning_rate
'''

FILES = {"paralign.toml": PROJECT, "reference.py": REFERENCE, "candidate.py": CANDIDATE}


def write(directory: Path) -> list[Path]:
    """Write the project's files into a folder, which is made where it is not there.

    Raises:
        UsageError: one of the files is there already; then none is written.
        WriteFailed: one cannot be written; then none is.
    """
    if checked_path(directory).is_file():
        raise UsageError("this is a file", where=str(directory), hint="name a folder, new or empty")
    there = [name for name in FILES if (checked_path(directory) / name).exists()]
    if there:
        raise UsageError(
            f"{', '.join(there)} would be overwritten", where=str(directory), hint="name another folder, or move the files away"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        for name in FILES:  # none of them was there before
            with suppress(OSError):
                (directory / name).unlink()
        raise unwritten(directory, error, "the project") from error
    return [directory / name for name in FILES]
