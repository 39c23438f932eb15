"""Sides whose memory is watched, each for one test; in a process of its own, where no other test has left objects to go through."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from pathlib import Path

import numpy as np

from paralign.capture import Capture, CaptureWriter
from paralign.commands.watch import judged
from paralign.errors import ParalignError
from paralign.model import Manifest
from paralign.run import inputs as tensors
from paralign.worker.protocol import Memory
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import Session
from paralign.worker.trainings.memory import memory


class Keeps:
    def __init__(self, most=None):
        self.seen, self.most = [], most

    def __call__(self, x):
        y = x * 2
        self.seen.append(y)
        if self.most and len(self.seen) > self.most:
            del self.seen[0]
        return y


class KeepsTable:
    """A dict of arrays by number, which the collector does not list."""

    def __init__(self):
        self.by_number = {}

    def __call__(self, x):
        self.by_number[len(self.by_number)] = x * 2
        return x


class Proxy:
    """Does not let itself be asked what it is."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


HELD = Proxy()


def torch_side(keep=lambda *_: None):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 2)
            self.history, self.total = [], 0.0

        def forward(self, x):
            y = self.fc(x)
            keep(self, y)
            return y

    return {
        "build_model": Net,
        "loss": lambda outputs, labels: ((outputs - labels) ** 2).mean(),
        "build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    }


def paddle_side(keep):
    import paddle

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = paddle.nn.Linear(8, 2)
            self.history, self.total = [], 0.0

        def forward(self, x):
            y = self.fc(x)
            keep(self, y)
            return y

    return {
        "build_model": Net,
        "loss": lambda outputs, labels: ((outputs - labels) ** 2).mean(),
        "build_optimizer": lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters()),
    }


def keeps_outputs(net, y):
    net.history.append(y)


def keeps_a_sum(net, y):
    net.total = net.total + y.mean()


def keeps_numbers(net, y):
    net.total = net.total + float(y.detach().mean())


def own_step():
    held = []

    def train_step(model, optimizer, batch):
        inputs, labels = batch
        optimizer.zero_grad()
        loss = ((model(inputs) - labels) ** 2).mean()
        loss.backward()
        optimizer.step()
        held.append(loss.detach())
        return loss

    return {**torch_side(), "train_step": train_step}


def step_of_three():
    def train_step(model, optimizer, batch):
        inputs, labels, weights = batch
        raise AssertionError(model, optimizer, inputs, labels, weights)

    return {**torch_side(), "train_step": train_step}


def without(side, name):
    return {function: side[function] for function in side if function != name}


#: name of a side -> its framework, what is done ten times, and its functions
SIDES = {
    "a list": ("numpy", "forward", lambda: {"build_model": Keeps}),
    "a table": ("numpy", "forward", lambda: {"build_model": KeepsTable}),
    "a list, trained": ("numpy", "step", lambda: {"build_model": Keeps, "loss": lambda outputs, _: outputs.mean()}),
    "a list of two": ("numpy", "forward", lambda: {"build_model": lambda: Keeps(most=2)}),
    "no own step": ("torch", "step", lambda: without(own_step(), "train_step")),
    "own step": ("torch", "step", own_step),
    "a step of three": ("torch", "step", step_of_three),
    "a step of three alone": ("torch", "step", lambda: without(step_of_three(), "loss")),
    "outputs": ("paddle", "step", lambda: paddle_side(keeps_outputs)),
    "a sum": ("torch", "forward", lambda: torch_side(keeps_a_sum)),
    "numbers": ("torch", "forward", lambda: torch_side(keeps_numbers)),
}


def watched(folder, name):
    """What is found of a side; the text of the error where it cannot be watched."""
    framework, what, made = SIDES[name]
    x = np.random.RandomState(0).randn(4, 8).astype("float32")
    values = {"inputs": tensors.save(folder / "inputs", "inputs", x), "labels": tensors.save(folder / "labels", "labels", x[:, :2])}
    gc.collect()
    gc.freeze()  # the frameworks' own
    functions = made()
    try:
        session = Session("candidate", functions, framework)
        with CaptureWriter(folder / "memory", Manifest(side="candidate")) as writer:
            writer.manifest.settings["answer"] = encode(memory(session, writer, Memory(what, 10, 3), values))
    except (ParalignError, ValueError) as error:
        return str(error)
    finally:
        gc.unfreeze()
    return judged(Capture.open(folder / "memory"), "candidate", what)


def main():
    """Answer each line of standard input, a folder and a side's name as JSON, with a line of JSON."""
    for line in sys.stdin:
        folder, name = json.loads(line)
        found = watched(Path(folder), name)
        answer = found if isinstance(found, str) else dataclasses.asdict(found)
        sys.stdout.write(json.dumps({"watched": answer}, default=repr) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
