"""Layers in another mode in the training step: which, on which side, by which line; and modes that change nothing."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, SourceLine

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
pytestmark = [pytest.mark.torch, pytest.mark.paddle]

X = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
Y = np.random.default_rng(1).standard_normal((8, 3)).astype("float32")


def squares(outputs, labels):
    return ((outputs - labels) ** 2).mean()


class Backbone(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(self.linear(x)).tanh()


class Freezing(Backbone):
    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()  # torch: frozen by the layer
        return self


class Ported(paddle.nn.Layer):
    def __init__(self, **norm):
        super().__init__()
        self.linear, self.norm = paddle.nn.Linear(6, 5), paddle.nn.BatchNorm1D(5, **norm)

    def forward(self, x):
        return self.norm(self.linear(x)).tanh()


class Uncalled(Ported):
    def train(self):  # paddle: nobody calls it
        super().train()
        self.norm.eval()


class Whole(paddle.nn.Sequential):
    def train(self):
        super().train()
        self[0].norm.eval()


def torch_model(backbone=Backbone):
    return torch.nn.Sequential(backbone(), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))


def paddle_model(backbone=Ported, whole=paddle.nn.Sequential, **norm):
    return whole(backbone(**norm), paddle.nn.BatchNorm1D(5), paddle.nn.Linear(5, 3))


def plain(model, optimizer, batch):
    model.train()  # torch: train
    return torch_step(model, optimizer, batch)


def torch_step(model, optimizer, batch):
    loss = squares(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


def frozen(model, optimizer, batch):
    model.train()
    model[0].norm.eval()  # torch: frozen
    return torch_step(model, optimizer, batch)


def ported(model, optimizer, batch):
    model.train()  # paddle: train
    return paddle_step(model, optimizer, batch)


def paddle_step(model, optimizer, batch):
    loss = squares(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(loss)


def without_train(model, optimizer, batch):
    return paddle_step(model, optimizer, batch)


def evaluating(model, optimizer, batch):
    model.eval()  # paddle: eval
    return paddle_step(model, optimizer, batch)


def frozen_too(model, optimizer, batch):
    model.train()
    model[0].norm.eval()
    return paddle_step(model, optimizer, batch)


def halved(model, optimizer, batch):
    model.train()
    loss = squares(model(batch[0]), batch[1]) / 2
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(loss)


def checked(ours=plain, theirs=ported, models=(torch_model, paddle_model), loss=None):
    sides = []
    optimizers = (
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters()),
    )
    for framework, model, optimizer, step in zip(("torch", "paddle"), models, optimizers, (ours, theirs), strict=True):
        functions = {"build_model": model, "build_optimizer": optimizer}
        functions.update({"loss": loss} if loss else {}, **({"train_step": step} if step else {}))
        sides.append(Side(framework=framework, functions=functions))
    return check(*sides, inputs=X, labels=Y, stages=["backward"])["backward"]


def lines(result):
    ends = [SourceLine.of(end.source) for end in (result.divergence.reference, result.divergence.candidate)]
    return [linecache.getline(end.file, end.line).partition("# ")[2].strip() for end in ends]


FREEZING = (lambda: torch_model(Freezing), paddle_model)
NESTED = (lambda: torch_model(Freezing), lambda: paddle_model(Uncalled))


@pytest.mark.parametrize(
    ("given", "names", "modes", "ends"),
    [
        ({"theirs": evaluating}, ("0.norm", "1"), ("eval", "train"), ["torch: train", "paddle: eval"]),
        ({"ours": frozen}, ("0.norm",), ("train", "eval"), ["torch: frozen", "paddle: train"]),
        ({"models": FREEZING}, ("0.norm",), ("train", "eval"), ["torch: frozen by the layer", "paddle: train"]),
        ({"models": NESTED}, ("0.norm",), ("train", "eval"), ["torch: frozen by the layer", "paddle: nobody calls it"]),
        (
            {"models": NESTED, "loss": squares, "ours": None, "theirs": None},
            ("0.norm",),
            ("train", "eval"),
            ["torch: frozen by the layer", "paddle: nobody calls it"],
        ),
    ],
    ids=["eval in the step", "frozen in the step", "frozen by the layer", "uncalled train", "without a step"],
)
def test_layers_in_another_mode_are_named_with_their_lines(given, names, modes, ends):
    result = checked(**given)
    assert result.verdict == DIVERGED
    assert [(f.rule, f.proven) for f in result.findings] == [("backward/layer-modes", True)], result.findings
    cause, fix = result.findings[0].cause, result.findings[0].fix
    assert f"are in {modes[0]} mode in the candidate and in {modes[1]} mode in the reference: " in cause
    assert tuple(re.findall(r"([\w.]+) \(BatchNorm1D\)", cause)) == names
    assert lines(result) == ends
    assert ("does not call a layer's own train(), here " in fix) == (given.get("models") is NESTED)


@pytest.mark.parametrize(
    "given",
    [
        {"ours": frozen, "theirs": frozen_too},
        {"ours": frozen, "models": (torch_model, lambda: paddle_model(use_global_stats=True))},
        {"models": (FREEZING[0], lambda: paddle_model(whole=Whole))},
    ],
    ids=["frozen on both sides", "frozen by an argument", "frozen by the whole model"],
)
def test_layers_frozen_otherwise_are_the_same(given):
    result = checked(**given)
    assert result.verdict == ALIGNED, [p.key for p in result.wrong]
    assert not result.findings


def test_another_fault_is_not_blamed_on_modes():
    result = checked(theirs=halved)
    assert result.verdict == DIVERGED
    assert "backward/layer-modes" not in [f.rule for f in result.findings]
    result = checked(ours=frozen, theirs=halved)  # two faults: the outputs show the modes
    assert result.findings[0].rule == "backward/layer-modes"


def test_a_step_that_leaves_the_mode_to_its_loop_is_noted():
    def inline(model, optimizer, batch):
        loss = squares(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return {"loss": float(loss)}

    handed = checked(theirs=without_train)  # to a function, which may call it
    assert not [n for n in handed.notes if "calls model.train()" in n]
    result = checked(theirs=inline)
    assert result.verdict == ALIGNED
    assert [n for n in result.notes if n.startswith("train_step of the reference calls model.train(), that of the candidate does not")]
    assert not [n for n in checked().notes if "calls model.train()" in n]


def test_nothing_is_left_behind():
    before = [base.train for base in (torch.nn.Module, paddle.nn.Layer)], [base.eval for base in (torch.nn.Module, paddle.nn.Layer)]
    model = torch_model()
    functions = {"build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1), "train_step": plain}
    theirs = {"build_model": paddle_model, "build_optimizer": lambda m: paddle.optimizer.SGD(0.1, parameters=m.parameters())}
    sides = Side(framework="torch", model=model, functions=functions), Side("paddle", functions={**theirs, "train_step": evaluating})
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.eval()
    assert check(*sides, inputs=X, labels=Y, stages=["backward"])["backward"].verdict == DIVERGED
    assert not model.training
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert before == (
        [base.train for base in (torch.nn.Module, paddle.nn.Layer)],
        [base.eval for base in (torch.nn.Module, paddle.nn.Layer)],
    )
