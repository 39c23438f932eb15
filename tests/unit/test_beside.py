"""Functions that do not know of their side's card are run on the CPU."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from paralign.errors import UsageError
from paralign.worker.sides.beside import Beside
from paralign.worker.sides.session import Session


class Tensor(NamedTuple):
    value: float
    device: str


class Outputs(NamedTuple):
    logits: Tensor
    name: str


class Adapter:
    """Tensors are pairs of a number and a device; the model is a list of one of them."""

    def __init__(self, device):
        self.device = device

    def use_device(self, device):
        self.device = device

    def place(self, model):
        model[0] = Tensor(model[0].value, self.device)

    def is_tensor(self, value):
        return isinstance(value, Tensor)

    def to_array(self, tensor):
        return tensor.value

    def from_array(self, value):
        return Tensor(value, self.device)


def session_on(device):
    made = SimpleNamespace(device=device, adapter=Adapter(device), model=[Tensor(1.0, device)], beside=Beside(), seed=lambda: None)
    made.fresh = partial(Session.fresh, made)
    return made


def added(session, calls):
    """A metric that fails on the card, and reads the model."""

    def metric(outputs, labels):
        calls.append(outputs["all"][0].logits.device)
        if {outputs["all"][0].logits.device, labels.device, session.model[0].device} != {"cpu"}:
            raise RuntimeError("two devices")
        return outputs["all"][0].logits.value + labels.value

    return metric


def given():
    return {"all": [Outputs(Tensor(2.0, "gpu:0"), "a")]}, Tensor(3.0, "gpu:0")


def test_one_that_fails_on_the_card_is_run_on_the_cpu_from_then_on():
    session, calls = session_on("gpu:0"), []
    metric = session.beside.wrapped(session, "metric", added(session, calls))
    assert metric(*given()) == 5.0
    assert metric(*given()) == 5.0
    assert calls == ["gpu:0", "cpu", "cpu"]
    assert (session.adapter.device, session.model[0].device) == ("gpu:0", "gpu:0")
    assert session.beside.notes("gpu:0") == ["metric() fails on gpu:0 and was run on the CPU (RuntimeError: two devices)"]
    assert session.beside.notes("gpu:0") == []


def test_one_that_works_on_the_card_stays_there():
    session = session_on("gpu:0")
    assert session.beside.wrapped(session, "metric", lambda x: x.device)(Tensor(1.0, "gpu:0")) == "gpu:0"
    assert session.beside.notes("gpu:0") == []


def test_what_fails_on_both_raises_what_it_raised_on_the_card():
    session = session_on("gpu:0")

    def failing():
        raise ValueError(session.adapter.device)

    with pytest.raises(ValueError, match="gpu:0"):
        session.beside.wrapped(session, "predict", failing)()
    assert session.adapter.device == "gpu:0"
    assert session.beside.notes("gpu:0") == []


def test_what_has_worked_on_the_card_fails_there():
    session = session_on("gpu:0")

    def metric(x):
        if x.value < 0 and x.device != "cpu":
            raise ValueError("a label out of range")
        return x.device

    wrapped = session.beside.wrapped(session, "metric", metric)
    assert wrapped(Tensor(1.0, "gpu:0")) == "gpu:0"
    with pytest.raises(ValueError, match="out of range"):
        wrapped(Tensor(-1.0, "gpu:0"))
    assert wrapped(Tensor(2.0, "gpu:0")) == "gpu:0"


def test_an_error_of_ours_is_not_tried_again():
    session, calls = session_on("gpu:0"), []

    def failing():
        calls.append(1)
        raise UsageError("no such file", where="x")

    with pytest.raises(UsageError):
        session.beside.wrapped(session, "predict", failing)()
    assert calls == [1]


def test_on_the_cpu_the_function_is_itself():
    session = session_on("cpu")
    assert session.beside.wrapped(session, "metric", len) is len
