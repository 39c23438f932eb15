"""``paralign convert optimizer``: from PyTorch's file to Paddle's and back; a training that goes on from it is the uninterrupted one."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.cli import main
from paralign.formats import open_checkpoint
from paralign.worker.optimization.optimizer_state import family_of, steps_of

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
    project(tmp_path, "ASGD(model.parameters())", "ASGD(parameters=model.parameters())")
    torch.save({"state": {0: {"step": torch.tensor(1.0), "ax": torch.zeros(4, 6)}}, "param_groups": []}, tmp_path / "asgd.pth")
    assert main(["convert", "optimizer", str(tmp_path / "asgd.pth"), str(tmp_path / "out.pdopt"), "--model", str(tmp_path)]) == 3
    assert "the state of ASGD cannot be mapped" in capsys.readouterr().err
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


LAMB = """
class Lamb(torch.optim.Optimizer):
    def __init__(self, parameters, counted):
        super().__init__(parameters, {{"lr": 0.01, **({{"step": 0}} if counted == "group" else {{}})}})
        self.counted = counted

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                at = group if self.counted == "group" else state
                if p is group["params"][0] or at is state:
                    at["step"] = int(at.get("step", 0)) + 1
                state["exp_avg"].lerp_(p.grad, 0.1)
                state["exp_avg_sq"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                m, v = (state[n] / (1 - b ** at["step"]) for n, b in (("exp_avg", 0.9), ("exp_avg_sq", 0.999)))
                way = m / (v.sqrt() + 1e-6) + 0.01 * p
                p.sub_(0.01 * p.norm() / way.norm() * way)

torch.optim.Lamb = Lamb
"""
PADDLE_LAMB = "Lamb(0.01, parameters=model.parameters())"
PAIRS = {
    "NAdam": ("NAdam(model.parameters(), lr=0.01)", "NAdam(0.01, parameters=model.parameters())"),
    "RAdam": ("RAdam(model.parameters(), lr=0.01)", "RAdam(0.01, parameters=model.parameters())"),
    "Rprop": (
        "Rprop(model.parameters(), lr=0.01, step_sizes=(1e-5, 50))",
        "Rprop(0.01, learning_rate_range=(1e-5, 50), parameters=model.parameters())",
    ),
    "Lamb of a library, steps of a parameter": ("Lamb(model.parameters(), 'state')", PADDLE_LAMB),
    "Lamb of a library, steps of a group": ("Lamb(model.parameters(), 'group')", PADDLE_LAMB),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_training_goes_on_in_either_framework_from_the_others_file(tmp_path, name, monkeypatch):
    """Numbers of steps that a file holds as plain numbers count too: Paddle's powers follow from them."""
    monkeypatch.setattr(torch.optim, "Lamb", None, raising=False)
    monkeypatch.setitem(globals(), "REFERENCE", REFERENCE.replace("import torch\n", "import torch\n" + LAMB))
    sources = project(tmp_path, *PAIRS[name])
    model, optimizer = built(sources[0])
    gradients = drawn(model, 9)
    torch_steps(model, optimizer, gradients[:6])
    torch.save(optimizer.state_dict(), tmp_path / "there.pth")
    weights = {n: v.clone() for n, v in model.state_dict().items()}
    assert main(["convert", "optimizer", str(tmp_path / "there.pth"), str(tmp_path / "here.pdopt"), "--model", str(tmp_path)]) == 0
    assert main(["convert", "optimizer", str(tmp_path / "here.pdopt"), str(tmp_path / "back.pth"), "--model", str(tmp_path)]) == 0
    with paddle.utils.unique_name.guard():
        port, resumed = built(sources[1])
        carried_weights(model, port)
        resumed.set_state_dict(paddle.load(str(tmp_path / "here.pdopt")))
        paddle_steps(port, resumed, gradients[6:])
    again, other = built(sources[0])
    again.load_state_dict(weights)
    other.load_state_dict(torch.load(tmp_path / "back.pth", weights_only=True))
    torch_steps(again, other, gradients[6:])
    torch_steps(model, optimizer, gradients[6:])
    for one, two, three in zip(model.parameters(), port.parameters(), again.parameters(), strict=True):
        np.testing.assert_allclose(two.numpy().T, one.detach().numpy(), rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose(three.detach().numpy(), one.detach().numpy(), rtol=1e-5, atol=1e-7)
