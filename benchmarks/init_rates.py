"""How often the stage `init` is wrong: right initialisations that it accuses, scales wrong by a tenth that it does not find.

Every model has one tensor of each law below, in shapes drawn at random. The right ones draw both sides from the same laws; of the
wrong ones one tensor of the candidate, each in its turn, has a scale larger or smaller by a tenth.
"""

from __future__ import annotations

import argparse
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from paralign.dtypes import Typed
from paralign.model import DIVERGED
from paralign.stages.init.starts import Start, judge
from paralign.worker.draws import initial

SEEDS = 30

#: [out, in] and kernels [out, in, height, width]
SHAPES = ((64, 32), (32, 8, 3, 3), (128, 100), (16, 3, 3, 3), (10, 64), (96, 48))


def _orthogonal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rows, columns = shape[0], int(np.prod(shape[1:]))
    q, _ = np.linalg.qr(random.standard_normal((max(rows, columns), min(rows, columns))))
    return (q if rows >= columns else q.T).reshape(shape)


def _cut(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    values = random.standard_normal(shape)
    while (outside := np.abs(values) > 2).any():  # noqa: PLR2004 - the frameworks' default
        values[outside] = random.standard_normal(int(outside.sum()))
    return values


#: name -> draws of scale 1 in a shape
LAWS = {
    "uniform": lambda random, shape: random.uniform(-1, 1, shape),
    "normal": lambda random, shape: random.standard_normal(shape),
    "truncated normal": _cut,
    "orthogonal": _orthogonal,
    "uniform bias": lambda random, shape: random.uniform(-1, 1, shape[0]),
    "constant": lambda _, shape: np.ones(shape),
}


def _start(random: np.random.Generator, law: str, shape: tuple[int, ...], scale: float) -> Start:
    """What the worker keeps of one tensor."""
    tensor = initial._Tensor(SimpleNamespace(), shape)  # type: ignore[arg-type]  # noqa: SLF001 - the very code that runs in a check
    for seed in range(SEEDS):
        value = Typed((scale * LAWS[law](random, shape)).astype(np.float32), "float32")
        initial._look(tensor, value, int(random.integers(2**31)) + seed, initial.KEPT)  # noqa: SLF001 - as above
    return Start(np.asarray(tensor.moments), np.stack(tensor.samples), int(np.prod(value.array.shape)))


def _model(random: np.random.Generator, wrong: str) -> bool:
    """Whether a model is called diverged whose candidate has one law at another scale; '' for none."""
    pairs: list[tuple[Start, Start] | None] = []
    for law in LAWS:
        shape = SHAPES[random.integers(len(SHAPES))]
        scale = float(10 ** random.uniform(-2, 0))
        other = scale * (float(random.choice([1.1, 1 / 1.1])) if law == wrong else 1.0)
        pairs.append((_start(random, law, shape, scale), _start(random, law, shape, other)))
    return any(found.verdict == DIVERGED for found in judge(pairs))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200, help="right ones, and as many wrong ones")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    accused = sum(_model(random, "") for _ in range(options.models))
    names = list(LAWS)
    found, tried = Counter[str](), Counter[str]()
    for number in range(options.models):
        law = names[number % len(names)]
        tried[law] += 1
        found[law] += _model(random, law)
    print(f"right initialisations called diverged: {accused} of {options.models}")
    print(f"scales wrong by a tenth found: {found.total()} of {options.models}")
    for law in names:
        print(f"  {law}: {found[law]} of {tried[law]}")


if __name__ == "__main__":
    main()
