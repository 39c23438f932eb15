"""Hand-written optimizers: the line of ``step()`` that is at fault, PyTorch against Paddle."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RANDOM = np.random.RandomState(0)
INPUTS, LABELS = RANDOM.randn(6, 12).astype("float32"), RANDOM.randint(0, 4, 6)

#: what every optimizer of the candidate begins with; ``rule`` is called for each parameter with its gradient and its state
PADDLE = """
import paddle


class Rule(paddle.optimizer.Optimizer):
    def __init__(self, rate, parameters, beta1=0.9, beta2=0.98, eps=1e-3, decay=0.01):
        super().__init__(rate, parameters)
        self.beta1, self.beta2, self.eps, self.decay = beta1, beta2, eps, decay
        self.t, self.kept = 0, {}

    @paddle.no_grad()
    def step(self):
        self.t += 1
        for p in self._parameter_list:
            if p.grad is not None:
                self.rule(p, p.grad, self.kept.setdefault(p.name, {}))

    def rule(self, p, g, kept):
BODY

def make(parameters):
    return Rule(0.01, parameters)
"""

#: rules of the candidate, and the optimizers of the reference whose ports they are
ADAMW = """
        m = kept.get("m", paddle.zeros_like(g))
        v = kept.get("v", paddle.zeros_like(g))
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        kept["m"], kept["v"] = m, v
        mean = m / (1 - self.beta1**self.t)
        square = v / (1 - self.beta2**self.t)
        p.scale_(1 - self.get_lr() * self.decay)
        root = square.sqrt() + self.eps
        p.subtract_(self.get_lr() * mean / root)
"""
LION = """
        m = kept.get("m", paddle.zeros_like(g))
        way = paddle.sign(self.beta1 * m + (1 - self.beta1) * g)
        kept["m"] = m * self.beta2 + g * (1 - self.beta2)
        new = p * (1 - self.get_lr() * self.decay)
        paddle.assign(new - way * self.get_lr(), p)
"""
SGD = """
        g = g + self.decay * p
        buffer = kept.get("v")
        buffer = g if buffer is None else self.beta1 * buffer + g
        kept["v"] = buffer
        p.set_value(p - self.get_lr() * (g + self.beta1 * buffer))
"""
LAMB = """
        m = kept.get("m", paddle.zeros_like(g))
        v = kept.get("v", paddle.zeros_like(g))
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g.square()
        kept["m"], kept["v"] = m, v
        way = m / (v.sqrt() + self.eps)
        way = way + self.decay * p
        trust = paddle.norm(p) / paddle.norm(way)
        p.set_value(p - self.get_lr() * trust * way)
"""
TORCH = """
import torch


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            if not self.state[p]:
                self.state[p]["m"] = torch.zeros_like(p)
            m = self.state[p]["m"]
            p.mul_(1 - 0.01 * 0.01).add_(m.mul(0.9).add(p.grad, alpha=0.1).sign_(), alpha=-0.01)
            m.lerp_(p.grad, 0.02)


class Lamb(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state.update(m=torch.zeros_like(p.data), v=torch.zeros_like(p.data))
            state["m"].mul_(0.9).add_(p.grad.data, alpha=0.1)
            state["v"].mul_(0.98).addcmul_(p.grad.data, p.grad.data, value=0.02)
            way = state["m"].div(state["v"].sqrt().add_(1e-3)).add_(p.data, alpha=0.01)
            p.data.add_(way, alpha=-0.01 * (p.data.norm() / way.norm()).item())


REFERENCES = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.01),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.01, nesterov=True),
    "lion": Lion,
    "lamb": Lamb,
}
"""
RULES = {"adamw": ADAMW, "sgd": SGD, "lion": LION, "lamb": LAMB}


def models(deep=0):
    import paddle
    import torch

    torch.manual_seed(0)
    if deep:
        return (
            torch.nn.Sequential(torch.nn.Linear(12, 10), *(torch.nn.Linear(n + 10, n + 11) for n in range(deep))),
            paddle.nn.Sequential(paddle.nn.Linear(12, 10), *(paddle.nn.Linear(n + 10, n + 11) for n in range(deep))),
        )
    return (
        torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)),
        paddle.nn.Sequential(paddle.nn.Linear(12, 16), paddle.nn.Tanh(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4)),
    )


@pytest.fixture
def compare(tmp_path):
    """Checks the backward stage with an optimizer of the reference and the code of the candidate's."""
    import paddle
    import torch

    def load(name, code):
        path = tmp_path / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"written_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def run(reference, body, whole=PADDLE, deep=0):
        one, other = models(deep)
        make = load("one", TORCH + CLIPPED["torch"]).REFERENCES[reference]
        port = load("port", whole.replace("BODY", body.strip("\n")))
        sides = (
            Side(model=one, optimizer=make, loss=torch.nn.functional.cross_entropy),
            Side(model=other, optimizer=port.make, loss=paddle.nn.functional.cross_entropy),
        )
        return check(*sides, inputs=INPUTS, labels=LABELS, stages=["weights", "backward"])["backward"]

    return run


def named(stage):
    """The code of the line that is named first."""
    return stage.divergence.candidate.code


@pytest.mark.parametrize("name", RULES)
def test_a_hand_written_port_is_aligned(compare, name):
    assert compare(name, RULES[name]).verdict == ALIGNED


FAULTS = {
    "epsilon inside": ("adamw", "square.sqrt() + self.eps", "(square + self.eps).sqrt()", ""),
    "epsilon squared inside": ("adamw", "square.sqrt() + self.eps", "(square + self.eps**2).sqrt()", ""),
    "first mean as it is": ("adamw", "mean = m / (1 - self.beta1**self.t)", "mean = m", ""),
    "second mean as it is": ("adamw", "square = v / (1 - self.beta2**self.t)", "square = v", ""),
    "wrong beta": ("adamw", "square = v / (1 - self.beta2**self.t)", "square = v / (1 - self.beta1**self.t)", ""),
    "no decay": ("adamw", "        p.scale_(1 - self.get_lr() * self.decay)\n", "", "p.subtract_(self.get_lr() * mean / root)"),
    "decay without rate": ("adamw", "self.get_lr() * self.decay", "self.decay", ""),
    "decay of the gradient": ("adamw", "m = kept.get", "g = g + self.decay * p\n        m = kept.get", "g = g + self.decay * p"),
    "gradient for mean": ("adamw", "mean / root", "g / root", ""),
    "no sign": ("lion", "paddle.sign(self.beta1 * m + (1 - self.beta1) * g)", "paddle.tanh(self.beta1 * m + (1 - self.beta1) * g)", ""),
    "sign of the gradient": ("lion", "self.beta1 * m + (1 - self.beta1) * g)", "g)", ""),
    "no nesterov": ("sgd", "(g + self.beta1 * buffer)", "buffer", ""),
    "dampened": ("sgd", "self.beta1 * buffer + g", "self.beta1 * buffer + (1 - self.beta1) * g", ""),
    "decay subtracted": ("sgd", "g + self.decay * p", "g - self.decay * p", ""),
    "no trust": ("lamb", "self.get_lr() * trust * way", "self.get_lr() * way", ""),
    "trust of the gradient": ("lamb", "paddle.norm(way)", "paddle.norm(g)", ""),
    "trust by maximum": ("lamb", "paddle.norm(way)", "way.abs().max()", ""),
    "decay after trust": ("lamb", "way = way + self.decay * p", "way = way", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_of_the_step_is_named(compare, fault):
    name, old, new, at = FAULTS[fault]
    assert RULES[name].count(old) == 1
    body = RULES[name].replace(old, new)
    changed = [line.strip() for line in body.splitlines() if line not in RULES[name].splitlines()]
    stage = compare(name, body)
    assert stage.verdict == DIVERGED
    assert named(stage) in ([at] if at else changed)
    assert stage.divergence.candidate.source in [d.candidate.source for d in stage.divergences]


CLIPPED = {
    "torch": """
class Clipped(torch.optim.SGD):
    def step(self):
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 0.01)
        super().step()


REFERENCES["clipped"] = lambda parameters: Clipped(parameters, lr=0.01)
""",
    "paddle": """
import paddle


class Rule(paddle.optimizer.SGD):
    @paddle.no_grad()
    def step(self):
        size = paddle.stack([p.grad.square().sum() for p in self._parameter_list]).sum().sqrt()
        for p in self._parameter_list:
            p.grad = p.grad * (0.01 / (size + 1e-6)).clip(max=1.0)
BODY
        super().step()


def make(parameters):
    return Rule(0.01, parameters)
""",
}


def test_of_many_parameters_a_few_are_watched(compare):
    assert named(compare("adamw", ADAMW.replace("square.sqrt() + self.eps", "(square + self.eps).sqrt()"), deep=14)) == (
        "root = (square + self.eps).sqrt()"
    )


def test_what_all_parameters_have_part_in_is_watched(compare):
    assert compare("clipped", "", CLIPPED["paddle"], deep=14).verdict == ALIGNED
    wrong = CLIPPED["paddle"].replace("square().sum()", "abs().sum()")
    assert named(compare("clipped", "", wrong, deep=14)) in [line.strip() for line in wrong.splitlines() if "size" in line]


def test_a_value_that_the_constructor_was_given_is_named_there(compare):
    stage = compare("adamw", ADAMW, PADDLE.replace("Rule(0.01, parameters)", "Rule(0.01, parameters, eps=1e-8)"))
    assert named(stage) == "return Rule(0.01, parameters, eps=1e-8)"


def test_a_default_is_named_where_it_was_not_given(compare):
    stage = compare("adamw", ADAMW, PADDLE.replace("beta2=0.98", "beta2=0.999"))
    assert named(stage) == "return Rule(0.01, parameters)"


def test_optimizer_of_the_framework_keeps_the_line_of_its_construction(compare):
    whole = PADDLE.replace("return Rule(0.01, parameters)", "return paddle.optimizer.AdamW(0.01, 0.9, 0.98, 1e-5, parameters)")
    assert named(compare("adamw", ADAMW, whole)) == "return paddle.optimizer.AdamW(0.01, 0.9, 0.98, 1e-5, parameters)"


def test_step_without_operations_is_named_as_a_whole(compare):
    stage = compare("sgd", "        p.set_value(p.numpy() - p.numpy().dtype.type(0.01) * g.numpy())\n")
    assert stage.verdict == DIVERGED
    assert named(stage) in ("p.set_value(p.numpy() - p.numpy().dtype.type(0.01) * g.numpy())", "return Rule(0.01, parameters)")


def test_step_that_draws_is_not_blamed_on_an_innocent_line(compare):
    stage = compare("sgd", SGD.replace("g = g +", "g = g + 0.1 * paddle.randn(g.shape, g.dtype) +"))
    assert stage.verdict == DIVERGED
    assert named(stage) == "g = g + 0.1 * paddle.randn(g.shape, g.dtype) + self.decay * p"


def test_step_that_fails_when_watched_leaves_the_line_of_construction(compare):
    trap = "        from paralign.adapters import _paddle_operations\n        assert not _paddle_operations._Active.watches, 'watched'\n"
    stage = compare("sgd", trap + SGD.replace("g + self.decay", "g - self.decay"))
    assert stage.verdict == DIVERGED
    assert named(stage) == "return Rule(0.01, parameters)"
    assert any("watched" in note for note in stage.notes)
