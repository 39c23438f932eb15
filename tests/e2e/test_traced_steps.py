"""The expression of a training step of the user's own that makes something wrong: an average, the loss, a bound; and batches it can take."""

from __future__ import annotations

import json
import sys

import pytest

from paralign.cli import main
from paralign.model import DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = pytest.mark.usefixtures("standing_workers")

REFERENCE = """
import copy
import torch
from torch import nn
from torch.nn import functional as F

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.live = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.slow = copy.deepcopy(self.live)
        for p in self.slow.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.live(x)

def build_model():
    return Pair()

def build_optimizer(model):
    return torch.optim.SGD(model.live.parameters(), lr=0.1, momentum=0.9)

def build_dataloader(split):
    values = torch.linspace(-1.0, 1.0, 8 * 6).reshape(8, 6)
    return [(values + n, torch.arange(8) % 4) for n in range(4)]

def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    for x, y in zip(batch[0].chunk(2), batch[1].chunk(2)):
        loss = F.cross_entropy(model(x), y) + 0.03 * model(x).square().mean()
        loss.backward()
    nn.utils.clip_grad_norm_(model.live.parameters(), 0.25)
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(model.slow.parameters(), model.live.parameters()):
            p.mul_(0.85).add_(q, alpha=0.15)
    return loss.detach()
"""

MODEL = """
import paddle
from paddle import nn

def tower():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

class Pair(nn.Layer):
    def __init__(self):
        super().__init__()
        self.live, self.slow = tower(), tower()
        for p in self.slow.parameters():
            p.stop_gradient = True

    def forward(self, x):
        return self.live(x)

    @paddle.no_grad()
    def follow(self, keep):
        for slow, live in zip(self.slow.parameters(), self.live.parameters()):
            slow.set_value(keep * slow + (1.0 - keep) * live)
"""

STEP = """
import paddle
from paddle.nn import functional as F
from steps_model import Pair

BOUND = 0.25

def build_model():
    return Pair()

def build_optimizer(model):
    return paddle.optimizer.Momentum(0.1, 0.9, parameters=model.live.parameters())

def cost(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits, y) + 0.03 * logits.square().mean()

def train_step(model, optimizer, batch):
    for x, y in zip(paddle.chunk(batch[0], 2), paddle.chunk(batch[1], 2)):
        loss = cost(model, x, y)
        loss.backward()
    paddle.nn.utils.clip_grad_norm_(model.live.parameters(), BOUND)
    optimizer.step()
    optimizer.clear_grad()
    model.follow(0.85)
    return loss.detach()
"""

PROJECT = (
    '[reference]\nmodule = "steps_reference.py"\nframework = "torch"\n'
    '[candidate]\nmodule = "steps_candidate.py"\nframework = "paddle"\n'
    '[inputs]\nshape = [{rows}, 6]\n[labels]\nshape = [{rows}]\ndtype = "int64"\nhigh = 4\n'
)


def checked(folder, capsys, old="", new="", rows=6):
    files = {"steps_reference.py": REFERENCE, "steps_model.py": MODEL, "steps_candidate.py": STEP}
    assert not old or sum(text.count(old) for text in (MODEL, STEP)) == 1
    for name, text in {**files, "paralign.toml": PROJECT.format(rows=rows)}.items():
        ported = name in ("steps_model.py", "steps_candidate.py")
        (folder / name).write_text(text.replace(old, new) if old and ported else text)
    main(["check", str(folder), "weights", "backward", "--json"])
    return next(each for each in json.loads(capsys.readouterr().out)["stages"] if each["name"] == "backward")


def named(folder, stage):
    assert stage["verdict"] == DIVERGED, stage["notes"]
    point = stage["divergence"]["candidate"]
    file, _, line = point["source"].rpartition(":")
    return (folder / file.rpartition("/")[2]).read_text().splitlines()[int(line) - 1].strip()


def test_a_right_port_has_none(tmp_path, capsys):
    stage = checked(tmp_path, capsys)
    assert stage["verdict"] == "aligned", stage["notes"]


def test_a_batch_that_the_step_cannot_take_is_one_of_the_loaders_instead(tmp_path, capsys):
    stage = checked(tmp_path, capsys, rows=7)
    assert stage["verdict"] == "aligned", stage["notes"]
    note = next(note for note in stage["notes"] if "the first batches of the reference's data loader" in note)
    assert note.startswith("train_step of the candidate cannot take the check's inputs (ValueError: ")


def test_a_step_that_fails_with_the_loaders_batches_too_is_an_error(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "loss = cost(model, x, y)", "loss = cost(model, x, y, 3)", rows=7)
    assert stage["verdict"] == "error"
    assert stage["failure"]["side"] == "candidate"


def test_an_average_turned_round_in_another_module(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "keep * slow + (1.0 - keep) * live", "(1.0 - keep) * slow + keep * live")
    assert named(tmp_path, stage) == "slow.set_value((1.0 - keep) * slow + keep * live)"
    assert [finding["rule"] for finding in stage["findings"]] == ["own_step/expression"]


def test_another_share_of_the_average(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "model.follow(0.85)", "model.follow(0.95)")
    assert named(tmp_path, stage) == "model.follow(0.95)"


def test_a_term_of_the_loss_with_another_weight(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "0.03 * logits", "0.3 * logits")
    assert named(tmp_path, stage).startswith("return F.cross_entropy(logits, y) + 0.3 *")


def test_a_loss_that_is_not_scaled(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "loss = cost(model, x, y)", "loss = 2.0 * cost(model, x, y)")
    assert named(tmp_path, stage) == "loss = 2.0 * cost(model, x, y)"


def test_a_loss_that_lacks_its_factor(tmp_path, capsys):
    stage = checked(
        tmp_path, capsys, "return F.cross_entropy(logits, y) + 0.03 * logits.square().mean()", "return F.cross_entropy(logits, y)"
    )
    assert named(tmp_path, stage) in ("return F.cross_entropy(logits, y)", "loss = cost(model, x, y)")


OWN_CLIPPING = """
    gradients = [p.grad for p in model.live.parameters()]
    total = paddle.sqrt(sum(g.square().sum() for g in gradients))
    for p, g in zip(model.live.parameters(), gradients):
        p.grad = g * paddle.clip(0.25 / (total + 1e-6), max=1.0)
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_a_norm_of_the_users_own(tmp_path, capsys, wrong):
    clipping = OWN_CLIPPING.replace("paddle.sqrt(sum(g.square().sum() for g in gradients))", "sum(g.norm() for g in gradients)")
    library = "    paddle.nn.utils.clip_grad_norm_(model.live.parameters(), BOUND)\n"
    stage = checked(tmp_path, capsys, library, (clipping if wrong else OWN_CLIPPING).lstrip("\n"))
    if not wrong:
        assert stage["verdict"] == "aligned", stage["notes"]
        return
    assert named(tmp_path, stage) == "total = sum(g.norm() for g in gradients)"


def test_another_norm_of_the_librarys_clipping(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "model.live.parameters(), BOUND)", 'model.live.parameters(), BOUND, norm_type=float("inf"))')
    assert named(tmp_path, stage).startswith("paddle.nn.utils.clip_grad_norm_(")


def test_a_bound_written_down_elsewhere(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "BOUND = 0.25", "BOUND = 0.4")
    assert named(tmp_path, stage) == "BOUND = 0.4"


GAP = """
    share = 1.0 - 0.85**2
    return {"loss": loss.detach(), "gap": share * model.slow[0].weight.square().sum()}
"""


def test_a_number_that_only_the_result_of_a_step_has_wrong(tmp_path, capsys, monkeypatch):
    returned, with_gap = "    return loss.detach()\n", GAP.lstrip("\n")
    monkeypatch.setattr(sys.modules[__name__], "REFERENCE", REFERENCE.replace(returned, with_gap))
    stage = checked(tmp_path, capsys, returned, with_gap.replace("0.85**2", "0.85**3"))
    assert named(tmp_path, stage) == "share = 1.0 - 0.85**3"


#: a term of the loss that the average is part of: with a wrong average, all tensors are wrong from the second step on
PULL = {
    "REFERENCE": (
        "0.03 * model(x).square().mean()",
        "0.03 * model(x).square().mean() + 0.2 * (model(x) - model.slow(x)).square().mean()",
    ),
    "STEP": ("0.03 * logits.square().mean()", "0.03 * logits.square().mean() + 0.2 * (logits - model.slow(x)).square().mean()"),
}

OWN_MOMENTUM = """
class Rule:
    def __init__(self, rate, keep, parameters):
        self.rate, self.keep, self.parameters = rate, keep, list(parameters)
        self.velocities = [None for _ in self.parameters]

    def step(self):
        with paddle.no_grad():
            for n, p in enumerate(self.parameters):
                old = self.velocities[n]
                self.velocities[n] = p.grad.clone() if old is None else self.keep * old + p.grad
                p.set_value(p - self.rate * self.velocities[n])

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient()

    def get_lr(self):
        return self.rate

def build_optimizer(model):
    return Rule(0.1, 0.9, model.live.parameters())
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_wrong_first_where_the_reference_updates_by_a_library(tmp_path, capsys, monkeypatch, wrong):
    here = sys.modules[__name__]
    for name, (old, new) in PULL.items():
        monkeypatch.setattr(here, name, getattr(here, name).replace(old, new))
    library = "    paddle.nn.utils.clip_grad_norm_(model.live.parameters(), BOUND)\n"
    built = "def build_optimizer(model):\n    return paddle.optimizer.Momentum(0.1, 0.9, parameters=model.live.parameters())\n"
    assert library in here.STEP
    assert built in here.STEP
    monkeypatch.setattr(here, "STEP", here.STEP.replace(library, OWN_CLIPPING.lstrip("\n")).replace(built, OWN_MOMENTUM.lstrip("\n")))
    right, turned = "keep * slow + (1.0 - keep) * live", "(1.0 - keep) * slow + keep * live"
    stage = checked(tmp_path, capsys, *((right, turned) if wrong else ("", "")))
    if not wrong:
        assert stage["verdict"] == "aligned", stage["notes"]
        return
    assert named(tmp_path, stage) == f"slow.set_value({turned})"
    assert [finding["rule"] for finding in stage["findings"]] == ["own_step/expression"]


def test_what_is_right_at_first_and_wrong_at_a_step_that_is_not_compared(tmp_path, capsys, monkeypatch):
    """Parameters are compared after the first and the last step; a wrong momentum shows from the second on."""
    here = sys.modules[__name__]
    own = OWN_MOMENTUM.lstrip("\n")
    reference = (
        own.replace("paddle.no_grad", "torch.no_grad").replace("p.set_value(", "p.copy_(").replace("clear_grad(self)", "zero_grad(self)")
    )
    reference = reference.replace("p.clear_gradient()", "p.grad = None")
    theirs = "def build_optimizer(model):\n    return torch.optim.SGD(model.live.parameters(), lr=0.1, momentum=0.9)\n"
    built = "def build_optimizer(model):\n    return paddle.optimizer.Momentum(0.1, 0.9, parameters=model.live.parameters())\n"
    assert theirs in here.REFERENCE
    monkeypatch.setattr(here, "REFERENCE", here.REFERENCE.replace(theirs, reference).replace(*PULL["REFERENCE"]))
    monkeypatch.setattr(here, "STEP", here.STEP.replace(built, own).replace(*PULL["STEP"]))
    right, wrong = "self.keep * old + p.grad", "self.keep * self.keep * old + p.grad"
    stage = checked(tmp_path, capsys, right, wrong)
    assert named(tmp_path, stage) == f"self.velocities[n] = p.grad.clone() if old is None else {wrong}"
    assert [finding["rule"] for finding in stage["findings"]] == ["own_step/expression"]


CENTRED = """
    for p in model.live.parameters():
        if p.ndim == 2:
            p.grad = p.grad - p.grad.mean()
"""


@pytest.mark.parametrize("order", ["right", "early", "late"])
def test_clipping_and_another_change_of_gradients_exchanged(tmp_path, capsys, monkeypatch, order):
    here = sys.modules[__name__]
    theirs = "    nn.utils.clip_grad_norm_(model.live.parameters(), 0.25)\n"
    ours = "    paddle.nn.utils.clip_grad_norm_(model.live.parameters(), BOUND)\n"
    change = CENTRED.lstrip("\n")
    first = order == "late"  # the reference clips first
    monkeypatch.setattr(here, "REFERENCE", here.REFERENCE.replace(theirs, theirs + change if first else change + theirs))
    swapped = order != "right"
    monkeypatch.setattr(here, "STEP", here.STEP.replace(ours, change + ours if first == swapped else ours + change))
    stage = checked(tmp_path, capsys)
    if order == "right":
        assert stage["verdict"] == "aligned", stage["notes"]
        return
    assert named(tmp_path, stage) == ours.strip()
    told = {"early": "before they are changed by", "late": "after they are changed by"}[order]
    assert any(f"gradients are clipped {told}" in note for note in stage["divergence"]["notes"])
    assert stage["findings"][0]["rule"] == "own_step/order"
    assert "the same things" in stage["findings"][0]["cause"]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("value_", "value_", ""),
        ("value_", "norm_", "this bounds the norm of gradients; the reference bounds each number of gradients"),
        ("norm_", "value_", "this bounds each number of gradients; the reference bounds the norm of gradients"),
    ],
    ids=["right", "by norm", "by value"],
)
def test_clipping_by_value_and_by_norm_exchanged(tmp_path, capsys, monkeypatch, theirs, ours, told):
    here = sys.modules[__name__]
    clamp = "p.mul_(0.85).add_(q, alpha=0.15)\n        model.live[0].bias.clamp_(-0.2, 0.2)"
    known = here.REFERENCE.replace("clip_grad_norm_(model.live.parameters(), 0.25)", f"clip_grad_{theirs}(model.live.parameters(), 0.02)")
    monkeypatch.setattr(here, "REFERENCE", known.replace("p.mul_(0.85).add_(q, alpha=0.15)", clamp))
    kept = "    with paddle.no_grad():\n        model.live[0].bias.set_value(paddle.clip(model.live[0].bias, -0.2, 0.2))\n"
    step = here.STEP.replace("clip_grad_norm_(model.live.parameters(), BOUND)", f"clip_grad_{ours}(model.live.parameters(), 0.02)")
    monkeypatch.setattr(here, "STEP", step.replace("    return loss.detach()", kept + "    return loss.detach()"))
    stage = checked(tmp_path, capsys)
    if not told:
        assert stage["verdict"] == "aligned", stage["notes"]
        return
    assert named(tmp_path, stage) == f"paddle.nn.utils.clip_grad_{ours}(model.live.parameters(), 0.02)"
    assert any(told in note for note in stage["divergence"]["notes"])
