"""Models that give named tuples, dataclasses and mappings of their own: losses and metrics get the fields as attributes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from paralign import Side, check
from paralign.adapters.finding import load
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.worker.passes.forward import perturbed

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


def test_inputs_that_hold_text_beside_numbers_are_moved_by_rounding():
    session = SimpleNamespace(adapter=load("torch"))
    given = {"rows": [torch.ones(2, 3)], "names": ["a", "b"], "pair": Pair(torch.ones(2), "text")}
    found = perturbed(session, given, {}, seed=0)
    assert found["names"] == ["a", "b"]
    assert found["pair"].scale == "text"
    assert 0 < float((found["rows"][0] - 1).abs().max()) < 1e-6
    assert 0 < float((found["pair"].mean - 1).abs().max()) < 1e-6
