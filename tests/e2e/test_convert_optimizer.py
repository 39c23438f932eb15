"""``paralign convert optimizer``: from PyTorch's file to Paddle's and back; a training that goes on from it is the uninterrupted one."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.cli import main
from paralign.formats import open_checkpoint
from paralign.worker.optimizer_state import family_of, steps_of

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

REFERENCE = """
import torch

def build_model():
    return torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))

def build_optimizer(model):
    return torch.optim.{optimizer}
"""
CANDIDATE = """
import paddle

def build_model():
    return paddle.nn.Sequential(paddle.nn.Linear(6, 4), paddle.nn.Linear(4, 3))

def build_optimizer(model):
    return paddle.optimizer.{optimizer}
"""
ADAM = "Adam(model.parameters(), lr=0.01)", "Adam(paddle.optimizer.lr.StepDecay(0.01, 100), parameters=model.parameters())"


def built(source):
    space: dict = {}
    exec(source, space)
    model = space["build_model"]()
    return model, space["build_optimizer"](model)


def project(folder, theirs, ours):
    sources = REFERENCE.format(optimizer=theirs), CANDIDATE.format(optimizer=ours)
    (folder / "reference.py").write_text(sources[0])
    (folder / "candidate.py").write_text(sources[1])
    (folder / "paralign.toml").write_text('[reference]\nframework = "torch"\n[candidate]\nframework = "paddle"\n')
    return sources


def torch_steps(model, optimizer, gradients):
    for step in gradients:
        for parameter, gradient in zip(model.parameters(), step, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        optimizer.step()


def paddle_steps(model, optimizer, gradients):
    for step in gradients:
        for parameter, gradient in zip(model.parameters(), step, strict=True):
            parameter.grad = paddle.to_tensor(gradient.T.copy())
        optimizer.step()


def carried_weights(reference, candidate):
    for one, other in zip(reference.parameters(), candidate.parameters(), strict=True):
        other.set_value(paddle.to_tensor(one.detach().numpy().T.copy()))


def drawn(model, count):
    random = np.random.default_rng(0)
    return [[random.standard_normal(tuple(p.shape)).astype("float32") for p in model.parameters()] for _ in range(count)]


def test_from_pytorch_to_paddle_and_back(tmp_path, capsys):
    sources = project(tmp_path, *ADAM)
    model, optimizer = built(sources[0])
    gradients = drawn(model, 5)
    torch_steps(model, optimizer, gradients[:3])
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint.pth")
    ask = ["--model", str(tmp_path)]
    assert main(["convert", "optimizer", str(tmp_path / "checkpoint.pth"), str(tmp_path / "adam.pdopt"), *ask]) == 0
    assert "Adam → Adam: 4 parameters, step, exp_avg, exp_avg_sq" in capsys.readouterr().out
    with paddle.utils.unique_name.guard():
        port, resumed = built(sources[1])
        carried_weights(model, port)
        resumed.set_state_dict(paddle.load(str(tmp_path / "adam.pdopt")))
        paddle_steps(port, resumed, gradients[3:])
    torch_steps(model, optimizer, gradients[3:])
    for one, other in zip(model.parameters(), port.parameters(), strict=True):
        np.testing.assert_allclose(other.numpy().T, one.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert main(["convert", "optimizer", str(tmp_path / "adam.pdopt"), str(tmp_path / "back.pth"), *ask]) == 0
    one, back = open_checkpoint(tmp_path / "checkpoint.pth", within="optimizer"), open_checkpoint(tmp_path / "back.pth")
    for name in back.names:
        np.testing.assert_allclose(back.value(name).array, one.value(f"state.{name}").array, rtol=1e-6)
    fresh = built(sources[0])[1]
    fresh.load_state_dict(torch.load(tmp_path / "back.pth", weights_only=True))
    assert main(["convert", "optimizer", str(tmp_path / "adam.pdopt"), str(tmp_path / "back.pth"), *ask]) == 2
    assert "back.pth" in capsys.readouterr().err


def test_what_cannot_be_carried_is_refused_with_the_reason(tmp_path, capsys):
    project(tmp_path, "NAdam(model.parameters())", "NAdam(parameters=model.parameters())")
    torch.save({"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(4, 6)}}, "param_groups": []}, tmp_path / "nadam.pth")
    assert main(["convert", "optimizer", str(tmp_path / "nadam.pth"), str(tmp_path / "out.pdopt"), "--model", str(tmp_path)]) == 3
    assert "the state of NAdam cannot be mapped" in capsys.readouterr().err
    assert not (tmp_path / "out.pdopt").exists()


def test_steps_are_counted_back_from_powers():
    for steps in (0, 1, 10, 500, 800, 5000, 80_000):
        powers = [float(np.float32(0.9) ** (steps + 1)), float(np.float32(0.999) ** (steps + 1))]
        assert abs(steps_of(powers, [0.9, 0.999]) - steps) <= 1 + steps // 1000
    assert steps_of([0.0, 0.0], [0.9, 0.999]) == 100_000


def test_families_are_known_by_the_class_or_one_that_it_derives_from():
    class Mine(torch.optim.AdamW):
        pass

    assert "moment1" in family_of(Mine([torch.nn.Parameter(torch.zeros(1))])).slots.values()
