"""Which part of a training is at fault: mistakes that only a training shows, planted one by one in a right copy of a small program.

``python benchmarks/training_faults.py [NAME …]`` prints a line a fault: the verdict, what the cross experiments say first, and whether that
is right; then the right copies, of which none may be accused.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from paralign import Side, check
from paralign.run.trainings import Trainings

HALF = 0.5

#: right copies that are judged, and what selects them
RIGHT, RIGHT_COPIES = 20, "right"

PARTS = ("data", "init", "optimizer", "model")


@dataclass(frozen=True)
class Program:
    """A training; each field is something that a port can get wrong."""

    # data
    shuffle: bool = True
    replace: bool = False
    drop: bool = False
    batch: int = 16
    noise: float = 0.1
    scale: float = 1.0
    shift: float = 0.0
    share: float = 1.0
    wrong: float = 0.0
    flip: bool = True
    ordered: bool = False
    # initial weights
    gain: float = 1.0
    law: str = "uniform"
    bias: str = "uniform"
    last: str = "normal"
    # optimizer
    kind: str = "sgd"
    rate: float = 0.05
    momentum: float = 0.9
    decay: float = 5e-3
    spare: bool = True
    nesterov: bool = False
    clip: float = 1.0
    every: int = 12
    warm: int = 4
    gather: int = 1
    epsilon: float = 1e-8
    beta: float = 0.999
    frozen: bool = False
    # network and loss
    drops: float = 0.2
    smoothing: float = 0.1
    keeps: float = 0.1
    forget: bool = False
    weights: bool = True
    slope: float = 0.1
    extra: float = 0.01
    sums: bool = False


def data() -> tuple[Any, Any]:
    """A hundred and four samples of three classes of unequal size."""
    own = np.random.RandomState(7)
    x = own.normal(size=(104, 12)).astype("float32")
    y = (x[:, :3] + np.array([0.6, 0.0, -0.4])).argmax(axis=1)
    return x, y.astype("int64")


def loader(p: Program, batch: int) -> Any:
    """Batches of one epoch."""
    x, y = data()
    count = int(len(x) * p.share)
    order = np.random.permutation(count) if p.shuffle else np.arange(count)  # noqa: NPY002 - what a check seeds
    if p.replace:
        order = np.random.randint(0, count, count)  # noqa: NPY002 - as above
    if p.ordered:
        order = order[np.argsort(y[order], kind="stable")]
    for start in range(0, count, batch):
        rows = order[start : start + batch]
        if p.drop and len(rows) < batch:
            break
        images = x[rows] + p.noise * np.random.normal(size=(len(rows), 12)).astype("float32")  # noqa: NPY002 - as above
        if p.flip and np.random.rand() < HALF:  # noqa: NPY002 - as above
            images[:, 6:] = images[:, 6:][:, ::-1]
        labels = y[rows].copy()
        mistaken = np.random.rand(len(rows)) < p.wrong  # noqa: NPY002 - as above
        labels[mistaken] = (labels[mistaken] + 1) % 3
        yield torch.tensor((images * p.scale + p.shift).astype("float32")), torch.tensor(labels)


def network(p: Program) -> Any:
    """Two hidden layers, a normalisation, dropout."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(12, 32),
        nn.BatchNorm1d(32, momentum=p.keeps),
        nn.LeakyReLU(p.slope),
        nn.Dropout(p.drops),
        nn.Linear(32, 24),
        nn.LeakyReLU(p.slope),
        nn.Dropout(p.drops),
        nn.Linear(24, 3),
    )
    for layer in (model[0], model[4], model[7]):
        bound = p.gain / np.sqrt(layer.in_features)
        if p.law == "uniform":
            nn.init.uniform_(layer.weight, -bound, bound)
        elif p.law == "xavier":
            nn.init.xavier_normal_(layer.weight)
        else:
            nn.init.orthogonal_(layer.weight, p.gain)
        nn.init.uniform_(layer.bias, -bound, bound) if p.bias == "uniform" else nn.init.zeros_(layer.bias)
    nn.init.normal_(model[7].weight, 0, 0.05 if p.last == "normal" else 0.5)
    return model


def optimizer_of(p: Program, model: Any) -> Any:
    """The update rule, decay on matrices alone where they are spared."""
    matrices = [q for q in model.parameters() if q.ndim > 1]
    vectors = [q for q in model.parameters() if q.ndim == 1]
    if p.frozen:
        matrices = matrices[1:]
    groups = [{"params": matrices, "weight_decay": p.decay}, {"params": vectors, "weight_decay": 0.0 if p.spare else p.decay}]
    if p.kind == "adam":
        return torch.optim.Adam(groups, lr=p.rate / 5, eps=p.epsilon, betas=(0.9, p.beta))
    return torch.optim.SGD(groups, lr=p.rate, momentum=p.momentum, nesterov=p.nesterov)


def schedule_of(p: Program, optimizer: Any) -> Any:
    """A warm-up, then steps."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / max(p.warm, 1)) * 0.5 ** (n // p.every))


def training(p: Program) -> Any:
    """``train(log)`` of a program."""

    def train(log: Any) -> None:
        model = log.model(network(p))
        optimizer = log.optimizer(optimizer_of(p, model))
        schedule = schedule_of(p, optimizer)
        weights = torch.tensor([1.0, 1.5, 2.0]) if p.weights else None
        x, y = (torch.tensor(each) for each in data())
        for epoch in range(4):
            if not (p.forget and epoch):
                model.train()
            for number, (images, labels) in log.batches(loader(p, p.batch), epoch):
                out = model(images)
                loss = torch.nn.functional.cross_entropy(
                    out, labels, weights, label_smoothing=p.smoothing, reduction="sum" if p.sums else "mean"
                )
                loss = loss + p.extra * (out**2).mean()
                loss.backward()
                if (number + 1) % p.gather == 0:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), p.clip)
                    optimizer.step()
                    optimizer.zero_grad()
                schedule.step()
                log.step(samples=len(labels), loss=loss)
            model.eval()
            with torch.no_grad():
                out = model(x * p.scale + p.shift if p.scale != 1.0 else x)
            log.evaluation(epoch, acc=(out.argmax(1) == y).float().mean(), loss=torch.nn.functional.cross_entropy(out, y))

    return train


SGD, ADAM = Program(), Program(kind="adam")

#: name -> part, right program, what the port has instead
FAULTS: dict[str, tuple[str, Program, dict[str, Any]]] = {
    "no shuffling": ("data", SGD, {"shuffle": False}),
    "sampling with replacement": ("data", SGD, {"replace": True}),
    "last batch dropped": ("data", SGD, {"drop": True}),
    "another batch size": ("data", SGD, {"batch": 26}),
    "no augmentation": ("data", SGD, {"noise": 0.0}),
    "stronger augmentation": ("data", SGD, {"noise": 0.4}),
    "images of another scale": ("data", SGD, {"scale": 1.2}),
    "images shifted": ("data", SGD, {"shift": 0.2}),
    "half of the samples": ("data", SGD, {"share": 0.5}),
    "samples sorted by class": ("data", SGD, {"ordered": True}),
    "Xavier for Kaiming": ("init", SGD, {"law": "xavier"}),
    "biases start at zero": ("init", SGD, {"bias": "zeros"}),
    "a gain of 1.3": ("init", SGD, {"gain": 1.3}),
    "orthogonal weights": ("init", ADAM, {"law": "orthogonal"}),
    "a last layer ten times as large": ("init", SGD, {"last": "large"}),
    "half the gain": ("init", ADAM, {"gain": 0.5}),
    "a rate 5 % higher": ("optimizer", SGD, {"rate": 0.0525}),
    "momentum 0.85": ("optimizer", SGD, {"momentum": 0.85}),
    "no decay": ("optimizer", SGD, {"decay": 0.0}),
    "decay of biases": ("optimizer", SGD, {"spare": False}),
    "Nesterov": ("optimizer", SGD, {"nesterov": True}),
    "no clipping": ("optimizer", SGD, {"clip": 1e9}),
    "a later schedule": ("optimizer", SGD, {"every": 14}),
    "no warm-up": ("optimizer", SGD, {"warm": 1}),
    "accumulation over two": ("optimizer", SGD, {"gather": 2}),
    "epsilon 1e-3": ("optimizer", ADAM, {"epsilon": 1e-3}),
    "beta2 0.99": ("optimizer", ADAM, {"beta": 0.99}),
    "a frozen layer": ("optimizer", SGD, {"frozen": True}),
    "dropout 0.5": ("model", SGD, {"drops": 0.5}),
    "no dropout": ("model", SGD, {"drops": 0.0}),
    "no label smoothing": ("model", SGD, {"smoothing": 0.0}),
    "momentum of statistics": ("model", SGD, {"keeps": 0.9}),
    "train mode forgotten after evaluation": ("model", SGD, {"forget": True}),
    "no class weights": ("model", SGD, {"weights": False}),
    "slope 0.01": ("model", SGD, {"slope": 0.01}),
    "no penalty of outputs": ("model", ADAM, {"extra": 0.0}),
    "sum for mean": ("model", SGD, {"sums": True}),
}


def side(p: Program) -> Side:
    """A program as a side."""
    return Side(framework="torch", functions={"build_model": lambda: network(p), "train": training(p)})


def judged(right: Program, changed: dict[str, Any], seed: int, runs: int = 4) -> tuple[str, list[str], float]:
    """The verdict, the parts in the order of the findings, and the seconds."""
    began = time.perf_counter()
    settings = Trainings(runs=runs, cross="always")
    result = check(side(right), side(replace(right, **changed)), stages=["train"], training=settings, seed=seed)["train"]
    found = [f.rule.partition("/")[2] for f in result.findings]
    return result.verdict, [part for part in found if part in PARTS], time.perf_counter() - began


def main(names: list[str]) -> int:
    """Judge the faults of these names, or all, and the right copies; 0 where nine of ten are right and no right copy is accused."""
    right = 0
    chosen = {name: fault for name, fault in FAULTS.items() if not names or name in names}
    copies = RIGHT if not names or RIGHT_COPIES in names else 0
    for name, (part, program, changed) in chosen.items():
        verdict, found, seconds = judged(program, changed, seed=11)
        right += found[:1] == [part]
        mark = "" if found[:1] == [part] else "WRONG"
        print(f"{name:40} {part:10} {verdict:13} {' '.join(found) or '-':24} {mark:6} {seconds:5.1f} s", flush=True)
    print(f"{right} of {len(chosen)} right: {right / max(len(chosen), 1):.0%}")
    accused = 0
    for seed in range(copies):
        verdict, found, seconds = judged((SGD, ADAM)[seed % 2], {}, seed=100 * seed)
        accused += bool(found) or verdict == "diverged"
        print(f"a right copy, seed {100 * seed:4} {verdict:13} {' '.join(found) or '-'} {seconds:5.1f} s", flush=True)
    print(f"{accused} of {copies} right copies accused")
    return 0 if right >= 0.9 * len(chosen) and not accused else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
