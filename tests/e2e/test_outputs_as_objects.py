"""Models that give named tuples, dataclasses and mappings of their own: losses and metrics get the fields as attributes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, ERROR

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

X = np.random.default_rng(0).standard_normal((12, 6)).astype("float32")
Y = np.random.default_rng(1).standard_normal((12, 3)).astype("float32")


class Pair(NamedTuple):
    mean: Any
    scale: Any


@dataclass
class Output:
    pair: Any
    hidden: Any = None


class Mapping(OrderedDict):
    """A mapping with attributes, as outputs of libraries are."""

    def __getattr__(self, name):
        return self[name]


class Net(torch.nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.a, self.m, self.s = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
        self.wrap = wrap

    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.wrap(self.m(h), torch.nn.functional.softplus(self.s(h)) + 0.1)


class Port(paddle.nn.Layer):
    def __init__(self, wrap):
        super().__init__()
        self.a, self.m, self.s = paddle.nn.Linear(6, 5), paddle.nn.Linear(5, 3), paddle.nn.Linear(5, 3)
        self.wrap = wrap

    def forward(self, x):
        h = paddle.tanh(self.a(x))
        return self.wrap(self.m(h), paddle.nn.functional.softplus(self.s(h)) + 0.1)


def nll(mean, scale, labels):
    return (0.5 * ((labels - mean) / scale) ** 2 + scale.log()).mean()


def halved(mean, scale, labels):
    return (0.25 * ((labels - mean) / scale) ** 2 + scale.log()).mean()


#: how a model wraps two tensors, and how its loss takes them again
FORMS = {
    "named tuple, by name": (Pair, lambda o: (o.mean, o.scale)),
    "named tuple, unpacked": (Pair, lambda o: (*o,)),
    "named tuple, by number": (Pair, lambda o: (o[0], o[1])),
    "dataclass around a named tuple": (lambda m, s: Output(Pair(m, s)), lambda o: (o.pair.mean, o.pair.scale)),
    "dataclass that is asked for None": (lambda m, s: Output([m, s]), lambda o: o.pair if o.hidden is None else o.hidden),
    "mapping, by attribute": (lambda m, s: Mapping(mean=m, scale=s), lambda o: (o.mean, o.scale)),
    "mapping, by key": (lambda m, s: Mapping(mean=m, scale=s), lambda o: (o["mean"], o["scale"])),
}


def checked(wrap, taken, formula=nll, stages=("metric", "loss", "backward")):
    def side(framework, model, make, rule, optimizer):
        functions = {
            "build_model": lambda: model(wrap),
            "build_dataloader": lambda _split: [(make(X[i : i + 4]), make(Y[i : i + 4])) for i in (0, 4, 8)],
            "loss": lambda o, y: rule(*taken(o), y),
            "metric": lambda o, _y: {"width": taken(o)[1].mean()},
            "build_optimizer": optimizer,
        }
        return Side(framework=framework, functions=functions)

    return check(
        side("torch", Net, torch.from_numpy, nll, lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
        side("paddle", Port, paddle.to_tensor, formula, lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters())),
        inputs=X[:4],
        labels=Y[:4],
        stages=list(stages),
    )


@pytest.mark.parametrize("form", FORMS)
def test_losses_and_metrics_get_objects_with_their_fields(form):
    result = checked(*FORMS[form])
    assert {stage.name: stage.verdict for stage in result.stages} == dict.fromkeys(("metric", "loss", "backward"), ALIGNED)


def test_another_formula_of_fields_diverges():
    result = checked(*FORMS["dataclass around a named tuple"], formula=halved, stages=["loss"])
    assert result.stages[-1].verdict == DIVERGED


def test_a_field_that_is_not_there_is_an_error_that_says_which_there_are():
    result = checked(Output, lambda o: (o.logits, o.pair), stages=["loss"])
    assert result.stages[-1].verdict == ERROR
    assert "logits" in str(result.stages[-1].failure["message"])
    assert "pair" in str(result.stages[-1].failure["message"])


def test_own_steps_take_batches_that_hold_text():
    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(6, 3)

        def forward(self, batch):
            return torch.stack([self.a(rows).sum(0) for rows in batch["rows"]])

    class Ported(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = paddle.nn.Linear(6, 3)

        def forward(self, batch):
            return paddle.stack([self.a(rows).sum(0) for rows in batch["rows"]])

    def step(model, optimizer, batch):
        value = ((model(batch) - batch["y"]) ** 2).mean()
        value.backward()
        optimizer.step()
        getattr(optimizer, "clear_grad", optimizer.zero_grad)()
        return {"loss": float(value.detach())}

    def side(framework, model, make, optimizer):
        batches = [{"rows": [make(X[i : i + 2]), make(X[i : i + 5])], "names": ["a", "b"], "y": make(Y[i : i + 2])} for i in (0, 4)]
        functions = {"build_model": model, "build_dataloader": lambda _split: batches, "build_optimizer": optimizer, "train_step": step}
        return Side(framework=framework, functions=functions)

    result = check(
        side("torch", Sums, torch.from_numpy, lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
        side("paddle", Ported, paddle.to_tensor, lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters())),
        inputs={"rows": [X[:2], X[:5]], "names": ["a", "b"]},
        labels=Y[:2],
        stages=["backward"],
    )
    assert result.stages[-1].verdict == ALIGNED
