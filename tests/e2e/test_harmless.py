"""Right ports that go another way are never accused: draws used from the other end, optimizers of the user's own, cells of a recurrent layer."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import math
import sys

import numpy as np
import pytest

from paralign import Side, check
from paralign.locate import pipeline
from paralign.stages.backward import native_gradients

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

COUNT = itertools.count()
X = np.random.default_rng(0).standard_normal((48, 3, 8)).astype("float32")


def net(framework, act):
    """A small network of either framework that calls ``act`` on what its first layer makes."""

    class Net(framework.nn.Module if framework is torch else framework.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = framework.nn.Linear(8, 8), framework.nn.Linear(8, 3)

        def forward(self, x):
            return self.second(x + act(self.first(x), self.training))

    return Net


def square(outputs, labels):
    return (outputs * outputs).mean() + 0.0 * labels.sum()


def module_of(folder, text):
    """Written to a file, so that its lines can be named."""
    path = folder / f"port_{next(COUNT)}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compared(ours, theirs, *, optimizers=(None, None)):
    first, second = optimizers
    sides = (
        Side(
            framework="torch",
            functions={
                "build_model": ours,
                "loss": square,
                "build_optimizer": first or (lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
            },
        ),
        Side(
            framework="paddle",
            functions={
                "build_model": theirs,
                "loss": square,
                "build_optimizer": second or (lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters())),
            },
        ),
    )
    return check(*sides, inputs=X, labels=np.ones(1, "float32"), stages=["forward", "loss", "backward"])


def verdicts(result):
    return {stage.verdict for stage in result.stages}


# -- random decisions --------------------------------------------------------------------------------------------------------

DRAWN = {
    "below": lambda x: torch.rand(len(x), 1, 1) < 0.8,
    "rounded down": lambda x: torch.floor(0.8 + torch.rand(len(x), 1, 1)),
    "bernoulli": lambda x: torch.empty(len(x), 1, 1).bernoulli_(0.8),
    "dropout": lambda x: torch.nn.functional.dropout(torch.ones(len(x), 1, 1, dtype=x.dtype), 0.2) * 0.8,
}

PORTED = {
    "below": "paddle.rand([len(x), 1, 1]) < 0.8",
    "not below": "paddle.rand([len(x), 1, 1]) >= 0.2",
    "rounded down": "paddle.floor(0.8 + paddle.rand([len(x), 1, 1], dtype=x.dtype))",
    "bernoulli": "paddle.bernoulli(paddle.full([len(x), 1, 1], 0.8))",
}

WRONG = {
    "a smaller share below": "paddle.rand([len(x), 1, 1]) < 0.6",
    "the share that should drop": "paddle.rand([len(x), 1, 1]) > 0.8",
    "a smaller share": "paddle.bernoulli(paddle.full([len(x), 1, 1], 0.6))",
}


def paths(tmp_path, drawn, text):
    """Stochastic depth on both sides: a path is kept for four samples of five."""
    module = module_of(tmp_path, f"import paddle\n\n\ndef kept(x):\n    return {text}\n")
    return (
        net(torch, lambda y, training: y * DRAWN[drawn](y) / 0.8 if training else y),
        net(paddle, lambda y, training: y / 0.8 * module.kept(y).astype(y.dtype) if training else y),
    )


@pytest.mark.parametrize(("drawn", "ported"), list(itertools.product(DRAWN, PORTED)))
def test_a_decision_may_be_drawn_in_another_way(tmp_path, drawn, ported):
    result = compared(*paths(tmp_path, drawn, PORTED[ported]))
    assert verdicts(result) == {"aligned"}
    assert result["backward"].divergences == []
    assert any("1 drew what the reference drew" in note for note in result["backward"].notes)


@pytest.mark.parametrize(("drawn", "ported"), list(itertools.product(DRAWN, WRONG)))
def test_another_share_is_seen_however_it_is_drawn(tmp_path, drawn, ported):
    stage = compared(*paths(tmp_path, drawn, WRONG[ported]))["backward"]
    told = [d.candidate.source or "" for d in stage.divergences if d.candidate is not None] + [f.cause for f in stage.findings]
    said = (stage.warnings, stage.notes, told)
    if drawn in ("bernoulli", "dropout") and ported == "the share that should drop":
        # no numbers were drawn in the reference: what uses the decision is named, if anything, not what makes it
        assert stage.verdict in ("diverged", "underpowered"), said
        return
    assert stage.verdict == "diverged", said
    assert any("port_" in line and ".py:5" in line for line in told), said


def test_a_replayed_pass_that_differs_is_not_aligned_where_no_operation_is_shown(tmp_path, monkeypatch):
    replayed = pipeline.replayed

    def unshown(*args, **kwargs):
        replay = replayed(*args, **kwargs)
        return replay and dataclasses.replace(replay, divergences=[], findings=[])

    monkeypatch.setattr(pipeline, "replayed", unshown)
    stage = compared(*paths(tmp_path, "below", WRONG["a smaller share below"]))["backward"]
    assert stage.verdict == "underpowered"
    assert any("uses the same draws in another way" in warning for warning in stage.warnings)


def test_every_draw_of_a_candidate_in_pytorch_is_replayed():
    """PyTorch detaches what a function that makes a tensor returns, where another holds it: that is no operation of the program."""

    def drops(y, training):
        for _ in range(3):
            y = y * (torch.rand(len(y), 1, 1, dtype=y.dtype) < 0.8) / 0.8 if training else y
        return y

    sides = [Side(framework="torch", functions={"build_model": net(torch, act), "loss": square}) for act in (drops, drops)]
    notes = check(*sides, inputs=X, labels=np.ones(1, "float32"), stages=["backward"])["backward"].notes
    assert any("; 3 drew what the reference drew" in note for note in notes)


def at_a_kink():
    """A weight and a constant.

    ``|x · w · 3 - c|`` rises in float64 and in one order of products in float32, and is 0 in the other.
    """
    x, random = X[0, 0, 0], np.random.default_rng(1)
    while True:
        w = np.float32(random.uniform(0.5, 2.0))
        first, other = np.float32(x * w) * np.float32(3), x * np.float32(w * np.float32(3))
        exact = float(x) * float(w) * 3 - float(other)
        if first != other and np.sign(exact) == np.sign(first - other):
            return float(w), float(other)


def at_kink_net(framework, order):
    weight, constant = at_a_kink()

    class Net(framework.nn.Module if framework is torch else framework.nn.Layer):
        def __init__(self):
            super().__init__()
            self.layer = framework.nn.Linear(1, 1, **({"bias": False} if framework is torch else {"bias_attr": False}))
            with framework.no_grad():
                self.layer.weight.fill_(weight)

        def forward(self, x):
            w = self.layer.weight.reshape([1])
            return abs(order(x[0, 0, 0].reshape([1]), w) - constant) + 0.01 * (x * w).mean()

    return Net


def test_more_kinks_than_runs_can_pass_prove_nothing(monkeypatch):
    monkeypatch.setattr(native_gradients, "_nearest", lambda *_: math.inf)
    functions = [{"build_model": at_kink_net(torch, o), "loss": lambda out, labels: out.sum() + 0 * labels.sum()} for o in ORDERS]
    stage = check(*(Side(framework="torch", functions=f) for f in functions), inputs=X, labels=np.ones(1, "float32"), stages=["backward"])
    assert stage["backward"].verdict == "underpowered"
    assert any("many values lie at kinks" in warning for warning in stage["backward"].warnings)


@pytest.mark.parametrize("framework", [torch, paddle])
def test_native_gradients_on_two_sides_of_a_kink_are_both_right(framework):
    functions = [{"build_model": at_kink_net(framework, o), "loss": lambda out, labels: out.sum() + 0 * labels.sum()} for o in ORDERS]
    name = framework.__name__
    stage = check(*(Side(framework=name, functions=f) for f in functions), inputs=X, labels=np.ones(1, "float32"), stages=["backward"])[
        "backward"
    ]
    assert stage.verdict == "aligned", stage.notes
    assert any("lies at a kink" in note for note in stage.notes)


ORDERS = (lambda x, w: (x * w) * 3, lambda x, w: x * (w * 3))


# -- optimizers written from scratch -----------------------------------------------------------------------------------------

OWN = """
import math

import paddle


class Own:
    def __init__(self, parameters):
        self.parameters, self.count, self.mean, self.square = list(parameters), 0, {}, {}

    @paddle.no_grad()
    def step(self):
        self.count += 1
        for p in self.parameters:
            g = p.grad
            mean = self.mean.get(p.name, paddle.zeros_like(g))
            square = self.square.get(p.name, paddle.zeros_like(g))
            self.mean[p.name] = mean + 0.1 * (g - mean)
            self.square[p.name] = square - 0.01 * (square - g * g)
            root = self.square[p.name].sqrt() / math.sqrt(1 - 0.99**self.count) + 1e-8
            p.set_value(p - 0.01 * (self.mean[p.name] / (1 - 0.9**self.count) / root + 0.1 * p))

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient()
"""


class CountingAdam(torch.optim.Optimizer):
    """It counts its steps in a number of its own name."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                state["v"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                mean, square = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.99 ** state["t"])
                p.add_(mean / (square.sqrt() + 1e-8), alpha=-group["lr"])


def test_a_count_of_an_own_optimizer_is_carried_across():
    functions = {"build_model": net(torch, lambda y, _: torch.tanh(y)), "loss": square}
    functions["build_optimizer"] = lambda model: CountingAdam(model.parameters())
    sides = [Side(framework="torch", functions=dict(functions)) for _ in range(2)]
    stage = check(*sides, inputs=X, labels=np.ones(1, "float32"), stages=["optimizer"])["optimizer"]
    assert (stage.verdict, stage.warnings) == ("aligned", [])
    assert [(c.compared, c.total) for c in stage.coverage if c.what == "states carried across"] == [(2, 2)]


def adamw(tmp_path, text):
    plain = net(torch, lambda y, _: torch.tanh(y)), net(paddle, lambda y, _: paddle.tanh(y))
    module = module_of(tmp_path, text)
    ours = lambda model: torch.optim.AdamW(model.parameters(), 0.01, (0.9, 0.99), weight_decay=0.1)  # noqa: E731 - a name for it
    return compared(*plain, optimizers=(ours, lambda model: module.Own(model.parameters())))


def test_an_optimizer_that_derives_from_nothing_and_tells_no_rate_is_judged_by_what_it_does(tmp_path):
    result = adamw(tmp_path, OWN)
    assert verdicts(result) == {"aligned"}
    rates = [p for p in result["backward"].pairs if p.key.startswith("lr_")]
    assert rates
    assert all("judged by what each parameter does" in p.notes[-1] for p in rates)


@pytest.mark.parametrize(("old", "new"), [("+ 0.1 * p", "+ 0.2 * p"), ("p - 0.01 *", "p - 0.02 *"), ("0.01 * (square", "0.02 * (square")])
def test_and_its_faults_are_seen(tmp_path, old, new):
    assert OWN.count(old) == 1
    stage = adamw(tmp_path, OWN.replace(old, new))["backward"]
    assert stage.verdict == "diverged"
    assert new in stage.divergence.candidate.code


def test_an_optimizer_of_pytorch_that_derives_from_nothing():
    class Own:
        def __init__(self, parameters):
            self.parameters = list(parameters)

        @torch.no_grad()
        def step(self):
            for p in self.parameters:
                p.sub_(p.grad, alpha=0.1)

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

    plain = net(torch, lambda y, _: torch.tanh(y)), net(paddle, lambda y, _: paddle.tanh(y))
    assert verdicts(compared(*plain, optimizers=(lambda model: Own(model.parameters()), None))) == {"aligned"}


# -- precision ---------------------------------------------------------------------------------------------------------------


def recurrent():
    class Ours(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = torch.nn.LSTM(8, 6, batch_first=True), torch.nn.Linear(6, 3)

        def forward(self, x):
            return self.head(self.lstm(x)[0])

    class Theirs(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.cell, self.head = paddle.nn.LSTMCell(8, 6), paddle.nn.Linear(6, 3)

        def forward(self, x):
            states, made = None, []
            for t in range(x.shape[1]):
                y, states = self.cell(self.received(x[:, t]), states)
                made.append(self.head(y.astype(self.head.weight.dtype)))
            return paddle.stack(made, 1)

        def received(self, x):
            return x

    return Ours, Theirs


def test_a_cell_that_makes_its_own_first_state_runs_in_float64():
    ours, theirs = recurrent()
    port = theirs()
    result = compared(ours, lambda: port)
    assert verdicts(result) == {"aligned"}
    assert {stage.method for stage in result.stages} == {"float64"}
    assert port(paddle.to_tensor(X)).dtype == paddle.float32


def test_rounding_of_stored_parameters_is_no_fault_where_the_candidate_has_no_float64():
    """Small updates of large parameters are rounded off in single precision."""
    ours, theirs = recurrent()

    class Single(theirs):
        def received(self, x):
            if x.dtype == paddle.float64:
                raise ValueError("single precision only")
            return x

    small = math.ldexp(1.0, -8)
    optimizers = (
        lambda model: torch.optim.SGD(model.parameters(), lr=small),
        lambda model: paddle.optimizer.SGD(small, parameters=model.parameters()),
    )
    stage = compared(ours, Single, optimizers=optimizers)["backward"]
    assert stage.verdict == "aligned"
    assert stage.method == "native against float64"
    wrong = lambda model: paddle.optimizer.SGD(small * 1.01, parameters=model.parameters())  # noqa: E731 - a name for it
    assert compared(ours, Single, optimizers=(optimizers[0], wrong))["backward"].verdict == "diverged"
