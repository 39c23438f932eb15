"""Training steps and losses of a side, in a framework of thirty lines whose gradients are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters.numpy import NumpyAdapter
from paralign.capture import Capture
from paralign.errors import UsageError
from paralign.run.inputs import save
from paralign.worker.protocol import Backward, Job
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.steps.training import scalar_of, trainer
from paralign.worker.tasks import perform


@pytest.fixture
def do(tmp_path):
    """Does a job of a numpy side and gives its capture."""
    count = iter(range(100))

    def job(task, options=None, values=None, session=None, **functions):
        functions.setdefault("build_model", lambda: lambda x: x)
        folder = tmp_path / str(next(count))
        side = session or Session("reference", functions, "numpy")
        perform(
            side,
            Job(task, str(folder), options or {}, {n: str(c.path) for n, c in (values or {}).items()}),
        )
        return Capture.open(folder)

    return job


def names(capture):
    return [r.key for r in capture.records]


def array(capture, name, **fields):
    return capture.array(capture.select(name=name, **fields)[0])


class Tape(NumpyAdapter):
    """A framework whose one layer is ``x @ weight`` and whose one loss is the mean of outputs times labels."""

    def parameters(self, model):
        return [model.parameters["weight"]]

    def watch(self, tensor):
        return tensor.copy()

    def gradient(self, tensor):
        return np.ones(2)

    def gradients(self, model):
        return {"parameters.weight": getattr(model, "gradient", None)}

    def backward(self, loss):
        loss.item()
        model = Linear.last
        model.gradient = (model.x.T @ model.labels / model.labels.size).astype(model.x.dtype)

    def clear_gradients(self, model, optimizer):
        model.gradient = None

    def step(self, optimizer):
        optimizer()

    def learning_rates(self, optimizer):
        return list(optimizer.rates)

    def step_scheduler(self, optimizer, scheduler):
        if scheduler is not None:
            scheduler(optimizer)


class Linear:
    last = None

    def __init__(self):
        self.parameters = {"weight": np.ones((3, 2), np.float32)}
        self.calls = np.zeros((), np.float32)
        self.gradient = None

    def __call__(self, x):
        Linear.last, self.x = self, x
        self.calls += 1
        return x @ self.parameters["weight"]


def mean_product(outputs, labels):
    Linear.last.labels = labels
    return {"other": outputs.sum(), "loss": (outputs * labels).mean()}


class Descent:
    def __init__(self, model):
        self.model, self.rates = model, [0.5, 0.25]

    def __call__(self):
        self.model.parameters["weight"] -= (self.rates[0] * self.model.gradient).astype(self.model.parameters["weight"].dtype)


def halve(optimizer):
    optimizer.rates = [r / 2 for r in optimizer.rates]


@pytest.fixture
def train(do, tmp_path):
    random = np.random.RandomState(0)
    values = {
        "inputs": save(tmp_path / "x", "inputs", random.randn(4, 3).astype("float32")),
        "labels": save(tmp_path / "y", "labels", random.randn(4, 2).astype("float32")),
    }

    def run(model=None, steps=3, **functions):
        model = model or Linear()
        functions = {"build_model": lambda: model, "loss": mean_product, "build_optimizer": Descent, **functions}
        session = Session("reference", functions, None)
        session._adapter = Tape()
        return do("backward", {"runs": [NATIVE, DOUBLE], "modes": ["eval", "train"], "steps": steps}, values, session), model

    return run


def test_every_step_is_recorded(train):
    capture, model = train(build_scheduler=lambda _: halve)
    answer = Backward.answer(capture)
    assert set(answer.runs) == {f"{r}:{m}" for r in (NATIVE, DOUBLE) for m in ("eval", "train")}
    assert (answer.failed, answer.random) == ({}, {})
    run = f"{DOUBLE}:eval"
    assert [float(array(capture, "lr", run=run, step=n, leaf="")) for n in range(3)] == [0.5, 0.25, 0.125]
    assert [float(array(capture, "lr", run=run, step=n, leaf="1")) for n in range(3)] == [0.25, 0.125, 0.0625]
    losses = [float(array(capture, "loss", run=run, step=n, leaf="loss")) for n in range(3)]
    assert losses[0] > losses[1] > losses[2]
    gradient = array(capture, "parameters.weight", run=run, role="gradient", step=0)
    change = array(capture, "parameters.weight", run=run, role="parameter", step=2)
    np.testing.assert_allclose(change, -(0.5 + 0.25 + 0.125) * gradient, rtol=1e-12)
    assert change.dtype == np.float64
    assert (model.parameters["weight"] == 1).all()
    assert model.parameters["weight"].dtype == np.float32
    assert model.gradient is None


def test_buffers_are_recorded_after_the_first_and_the_last_step_in_train_mode(train):
    capture, model = train()
    found = capture.select(name="calls", role="buffer", run=f"{DOUBLE}:train")
    assert [r.step for r in found] == [0, 2]
    assert [float(capture.array(each)) for each in found] == [1, 3]
    assert capture.select(name="calls", role="buffer", run=f"{DOUBLE}:eval") == []
    assert model.calls == 0


def test_without_a_scheduler_the_rate_stays(train):
    capture, _ = train()
    assert {float(array(capture, "lr", run=f"{DOUBLE}:eval", step=n, leaf="")) for n in range(3)} == {0.5}


def test_a_model_that_is_random_in_train_mode_is_not_trained_there(train):
    class Random(Linear):
        def __call__(self, x):
            return super().__call__(x) + np.random.rand()  # noqa: NPY002 - what a functional dropout uses

    capture, model = train(Random())
    answer = Backward.answer(capture)
    assert answer.random[DOUBLE] == "two passes with different seeds differ although dropout layers are off"
    assert capture.select(run=f"{DOUBLE}:train") == []
    assert capture.select(run=f"{DOUBLE}:eval") != []
    assert model.calls == 0


def test_a_gradient_that_is_not_there_is_recorded_as_such(train, monkeypatch):
    monkeypatch.setattr(Tape, "gradients", lambda *_: {"parameters.weight": None})
    monkeypatch.setattr(Tape, "step", lambda *_: None)
    capture, _ = train()
    assert {r.dtype for r in capture.select(role="gradient")} == {"none"}


def test_an_exception_in_the_native_run_is_the_sides_and_the_model_is_put_back(train):
    model = Linear()

    def broken(_optimizer):
        raise ValueError("no such rate")

    with pytest.raises(ValueError, match="no such rate"):
        train(model, build_scheduler=lambda _: broken)
    assert (model.parameters["weight"] == 1).all()


def test_the_loss_is_recorded_with_its_gradient(do, tmp_path):
    values = {"inputs": save(tmp_path / "x", "inputs", np.ones((2, 3), np.float32))}
    outputs = do("forward", {"runs": [NATIVE, DOUBLE]}, values, build_model=lambda: lambda x: (x, np.arange(3)))
    labels = save(tmp_path / "y", "labels", np.ones(2))
    session = Session("reference", {"build_model": Linear, "loss": lambda o, t: o[0].mean() * t.sum()}, None)
    session._adapter, Linear.last = Tape(), SimpleNamespace(x=np.ones((2, 3)), labels=np.ones((2, 1)))
    capture = do("loss", {"runs": [NATIVE, DOUBLE]}, {"outputs": outputs, "labels": labels}, session)
    assert [(r.key, r.run, r.dtype) for r in capture.records] == [
        ("loss", NATIVE, "float64"), ("gradient.0", NATIVE, "float64"), ("loss", DOUBLE, "float64"), ("gradient.0", DOUBLE, "float64"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"), [(3.0, 3.0), ({"aux": 1.0, "loss": 2.0}, 2.0), (("text", 4.0), 4.0), ({"a": {"b": 5.0}}, 5.0)]
)
def test_what_is_differentiated(value, expected):
    assert scalar_of(value, lambda v: isinstance(v, float)) == expected


@pytest.mark.parametrize("value", [None, "0.3", {"aux": "x"}, []])
def test_a_loss_without_a_tensor_is_told(value):
    with pytest.raises(UsageError, match=rf"loss\(outputs, labels\) returned a {type(value).__name__} without a tensor"):
        scalar_of(value, lambda v: isinstance(v, float))


def test_a_framework_without_gradients_is_told():
    with pytest.raises(UsageError, match="framework 'numpy' has no gradients") as caught:
        trainer(Session("reference", {}, "numpy"))
    assert "leave the stages loss and backward out" in caught.value.hint
