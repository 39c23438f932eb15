"""The update alone on one side: steps from given gradients, and what an optimizer says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters.numpy import NumpyAdapter
from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import typed
from paralign.model import Manifest
from paralign.worker.optimization.optimizers import describe
from paralign.worker.protocol import Job, Update
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.tasks import perform

GRADIENT = np.arange(6.0).reshape(3, 2)


class Tensor(np.ndarray):
    """An array that can carry a gradient."""

    grad = None


class Tape(NumpyAdapter):
    def parameters(self, model):
        return [model.parameters["weight"]]

    def watch(self, tensor):
        return tensor

    def gradient(self, tensor):
        return tensor.grad

    def gradients(self, model):
        return {"parameters.weight": model.parameters["weight"].grad}

    def backward(self, loss):
        raise AssertionError("an update needs no backward pass")

    def clear_gradients(self, model, optimizer):
        model.parameters["weight"].grad = None

    def step(self, optimizer):
        optimizer.step()

    def learning_rates(self, optimizer):
        return [group["lr"] for group in optimizer.param_groups]

    def step_scheduler(self, optimizer, scheduler):
        if scheduler is not None:
            scheduler.step()

    def cast(self, model, dtype):
        weight = model.parameters["weight"]
        model.parameters["weight"] = weight.astype(dtype).view(Tensor)


class Model:
    def __init__(self):
        self.parameters = {"weight": np.ones((3, 2), np.float32).view(Tensor)}

    def __call__(self, x):
        return x


class Descent:
    def __init__(self, model, lr=0.5):
        self.model = model
        self.defaults = {"lr": lr, "betas": (0.9, 0.99), "fused": None, "hook": len}
        self.param_groups = [{"params": [model.parameters["weight"]], **self.defaults}]

    def step(self):
        for weight in self.param_groups[0]["params"]:
            if weight.grad is not None:
                weight[...] = weight - self.param_groups[0]["lr"] * weight.grad


class Halve:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.param_groups[0]["lr"] /= 2


@pytest.fixture
def run(tmp_path):
    def do(gradients=(GRADIENT, None), steps=((0, 1.0), (1, 1.0), (0, -0.5)), **functions):
        with CaptureWriter(tmp_path / "given", Manifest()) as writer:
            for number, gradient in enumerate(gradients):
                writer.add("parameters.weight", gradient, role="gradient", run="r", step=number)
        model = Model()
        session = Session("candidate", {"build_model": lambda: model, "build_optimizer": Descent, **functions}, None)
        session._adapter = Tape()
        options = {"runs": [DOUBLE, NATIVE], "given": "r", "steps": steps}
        perform(
            session,
            Job("update", str(tmp_path / "out"), options, {"gradients": str(tmp_path / "given")}),
        )
        return Capture.open(tmp_path / "out"), model

    return do


def changes(capture, run):
    return [capture.array(r) for r in capture.select(role="parameter", run=run)]


def test_given_gradients_are_followed_times_their_factors(run):
    capture, model = run(build_scheduler=Halve)
    answer = Update.answer(capture)
    assert (answer.runs, answer.failed) == ([DOUBLE, NATIVE], {})
    assert answer.rates == [[0.5], [0.25], [0.125]]
    expected = [-0.5 * GRADIENT, -0.5 * GRADIENT, (-0.5 + 0.5 * 0.125) * GRADIENT]
    for name in (DOUBLE, NATIVE):
        for found, wanted in zip(changes(capture, name), expected):  # noqa: B905 - strict= is not in Python 3.8, where this runs too
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (model.parameters["weight"] == 1).all()
    assert model.parameters["weight"].dtype == np.float32
    assert model.parameters["weight"].grad is None


def test_where_optimizer_and_schedule_were_built_is_told(run):
    def build_optimizer(model):
        return Descent(model)

    def build_scheduler(optimizer):
        return Halve(optimizer)

    built = Update.answer(run(build_optimizer=build_optimizer, build_scheduler=build_scheduler)[0]).built
    assert built == {
        "optimizer": f"{__file__}:{build_optimizer.__code__.co_firstlineno + 1}",
        "scheduler": f"{__file__}:{build_scheduler.__code__.co_firstlineno + 1}",
    }


def test_an_optimizer_that_fails_is_the_sides_failure_and_the_model_is_put_back(run):
    class Broken(Descent):
        def step(self):
            super().step()
            raise ValueError("no closure")

    models = []
    with pytest.raises(ValueError, match="no closure"):
        run(build_optimizer=lambda model: models.append(model) or Broken(model))
    assert (models[0].parameters["weight"] == 1).all()


# -- what an optimizer says --------------------------------------------------------------------------------------------------------


def session_of(model):
    return SimpleNamespace(entries=lambda: NumpyAdapter().state(model))


def test_an_optimizer_of_the_users_own_tells_its_settings():
    model = Model()
    about = describe(session_of(model), Descent(model))
    assert (about["class"], about["own"], about["kind"], about["framework"]) == ("Descent", True, "", "")
    assert about["settings"] == {"lr": 0.5, "betas": [0.9, 0.99], "fused": None}
    assert about["parameters"] == {"parameters.weight": {"group": 0}}


def test_an_optimizer_inside_a_wrapper_is_found():
    model = Model()
    about = describe(session_of(model), SimpleNamespace(other=3, optimizer=Descent(model)))
    assert about["class"] == "Descent"


@pytest.mark.parametrize(
    "keep", [lambda a, b: {"first": a, "second": b}, lambda a, b: {"each": [a, b]}, lambda a, b: {"each": {"a": a, "b": b}}]
)
def test_of_several_optimizers_none_speaks_for_the_others(keep):
    """A wrapper that steps a Descent and something else is neither of them, and has the groups of both."""
    model = Model()
    other = SimpleNamespace(param_groups=[{"params": [], "lr": 7.0}])
    about = describe(session_of(model), SimpleNamespace(**keep(other, Descent(model))))
    assert (about["class"], about["kind"], about["own"]) == ("SimpleNamespace", "", True)
    assert [group["lr"] for group in about["groups"]] == [7.0, 0.5]
    assert about["parameters"] == {"parameters.weight": {"group": 1}}


def test_paddles_settings_are_read_where_paddle_keeps_them():
    model = Model()
    weight = model.parameters["weight"]
    weight.optimize_attr, weight.regularizer, weight.need_clip, weight.name = (
        {"learning_rate": 0.1},
        SimpleNamespace(_coeff=0.3),
        False,
        "w_0",
    )
    optimizer = SimpleNamespace(_param_groups=[weight], _beta1=0.8, _grad_clip=SimpleNamespace(clip_norm=1.0), regularization=None,
                                _apply_decay_param_fun=lambda name: name != "w_0")  # fmt: skip
    about = describe(session_of(model), optimizer)
    assert about["settings"]["beta1"] == 0.8
    assert about["clip"] == {"clip": "SimpleNamespace", "clip_norm": 1.0}
    assert about["parameters"] == {
        "parameters.weight": {"group": 0, "rate": 0.1, "decay": 0.3, "l1": False, "decayed": False, "clipped": False}
    }


def test_what_a_converted_optimizer_puts_on_parameters_during_updates_is_read_before_them_too():
    model = Model()
    weight = model.parameters["weight"]
    weight.optimize_attr, weight.regularizer = {"learning_rate": 1.0}, None
    group = {"params": [weight], "learning_rate": 0.1}
    optimizer = SimpleNamespace(_param_groups=[group], _of_parameters=[(weight, group, SimpleNamespace(_coeff=0.3))])
    about = describe(session_of(model), optimizer)
    assert about["parameters"] == {"parameters.weight": {"group": 0, "rate": 0.1, "decay": 0.3, "l1": False}}
    assert "of_parameters" not in about["settings"]


@pytest.mark.parametrize(
    "odd", [object(), SimpleNamespace(), SimpleNamespace(param_groups=[]), SimpleNamespace(params=[typed(1.0)]), 3, None]
)
def test_what_tells_nothing_raises_nothing(odd):
    about = describe(session_of(Model()), odd)
    assert about["parameters"] == {}
