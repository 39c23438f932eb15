"""Averaged weights kept in another structure on each side: what the forward pass takes is mapped first, the averages as its copies."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.checking import UNTOLD, rest_on_nothing
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, CheckResult, Divergence, Finding, Point, Record, StageResult
from paralign.stages.weights.stage import UNPLACED, _lost
from paralign.weights import Move, Plan, plan
from paralign.weights.tensor_copies import paired

torch = pytest.importorskip("torch")

SIZE = 6
INPUTS = np.random.RandomState(5).randn(4, SIZE).astype("float32")
LABELS = np.random.RandomState(6).randn(4, SIZE).astype("float32")


class Net(torch.nn.Module):
    def __init__(self, names, faulty=False):
        super().__init__()
        self.names, self.faulty = names, faulty
        for name in names[:3]:
            setattr(self, name, torch.nn.Linear(SIZE, SIZE))
        setattr(self, names[3], torch.nn.Parameter(torch.rand(SIZE)))

    def forward(self, x):
        first, second, third, gain = (getattr(self, name) for name in self.names)
        return third(torch.tanh(first(x)) + (torch.relu if self.faulty else torch.nn.functional.elu)(second(x))) * gain


class Flat(torch.nn.Module):
    """Averages as buffers of the model itself."""

    def __init__(self):
        super().__init__()
        self.net = Net(("enter", "widen", "leave", "gain"))
        for name, each in self.net.named_parameters():
            self.register_buffer("ema_" + name.replace(".", "_"), each.detach().clone())

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def follow(self):
        for name, each in self.net.named_parameters():
            getattr(self, "ema_" + name.replace(".", "_")).lerp_(each, 0.5)


class Towers(torch.nn.Module):
    """Averages as a second network, which nothing trains."""

    share = 0.5

    def __init__(self, faulty=False):
        super().__init__()
        names = ("alpha", "omega", "kappa", "size")
        self.shadow, self.live = Net(names, faulty), Net(names, faulty)
        self.shadow.load_state_dict(self.live.state_dict())
        self.shadow.requires_grad_(False)

    def forward(self, x):
        return self.live(x)

    @torch.no_grad()
    def follow(self):
        for average, each in zip(self.shadow.parameters(), self.live.parameters(), strict=True):
            average.lerp_(each, self.share)


class Slower(Towers):
    share = 0.4


def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()


def train_step(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad()
    found = loss(model(x), y)
    found.backward()
    optimizer.step()
    model.follow()
    return found.item()


def of_flat(model):
    return torch.optim.SGD(model.net.parameters(), lr=0.1)


def of_towers(model):
    return torch.optim.SGD(model.live.parameters(), lr=0.1)


def checked(candidate, stages=("weights", "forward", "backward")):
    torch.manual_seed(1)
    functions = {"loss": loss, "train_step": train_step}
    sides = [
        Side(framework="torch", functions={"build_model": build, "build_optimizer": optimizer, **functions})
        for build, optimizer in ((Flat, of_flat), (candidate, of_towers))
    ]
    return check(*sides, inputs=INPUTS, labels=LABELS, stages=list(stages))


def test_averages_in_another_structure_are_mapped_as_copies_and_compared_after_steps():
    result = checked(Towers)
    assert [s.verdict for s in result.stages] == [ALIGNED] * 3
    found = {p.key: p.candidate.name for p in result["weights"].pairs if p.candidate is not None}
    assert found["net.widen.weight"] == "live.omega.weight"
    assert found["ema_widen_weight"] == "shadow.omega.weight"
    assert found["ema_gain"] == "shadow.size"
    assert any(p.key.startswith("own buffer_0 ema_") for p in result["backward"].pairs)


def test_averages_that_follow_otherwise_are_found():
    result = checked(Slower)
    assert [s.verdict for s in result.stages] == [ALIGNED, ALIGNED, DIVERGED]
    assert {p.key.split()[2][:4] for p in result["backward"].pairs if p.wrong} == {"ema_"}


def test_a_fault_of_the_model_does_not_leave_its_weights_without_a_place():
    result = checked(lambda: Towers(faulty=True), ("weights", "forward"))
    assert [s.verdict for s in result.stages] == [UNDERPOWERED, DIVERGED]
    assert not any(p.verdict == DIVERGED for p in result["weights"].pairs)
    assert "relu" in result["forward"].divergence.candidate.code


# -- copies, tensor by tensor ------------------------------------------------------------------------------------------------


def records(*names, role="parameter", shape=(SIZE, SIZE)):
    return [
        Record(n, name, "weights", role, "float64", shape, attrs={"owner": name.rpartition(".")[0], "leaf": name.rpartition(".")[2]})
        for n, name in enumerate(names)
    ]


def copies(values, ours, theirs, mapped=(("net.a", "live.a"), ("net.b", "live.b"))):
    made = plan(records(*(m[0] for m in mapped)), records(*(m[1] for m in mapped)), "torch", "torch")

    def equal(one, other):
        return values[one] == values[other]

    found = paired(made, records(*ours, role="buffer"), records(*theirs), (equal, equal), lambda name: values[name] != 0)
    return {m.reference.name: m.candidate.name for m in found}


def test_copies_are_told_by_their_values():
    values = {"net.a": 1, "net.b": 2, "live.a": 1, "live.b": 2, "x": 2, "y": 1, "s.0": 1, "s.1": 2}
    assert copies(values, ("x", "y"), ("s.0", "s.1")) == {"x": "s.1", "y": "s.0"}


def test_equal_values_are_told_by_the_ends_of_names():
    values = {"net.a": 1, "net.b": 1, "live.a": 1, "live.b": 1, "ema_b": 1, "ema_a": 1, "old.a": 1, "old.b": 1}
    assert copies(values, ("ema_b", "ema_a"), ("old.a", "old.b")) == {"ema_a": "old.a", "ema_b": "old.b"}


@pytest.mark.parametrize(
    ("values", "ours", "theirs"),
    [
        (
            {"net.a": 0, "net.b": 0, "live.a": 0, "live.b": 0, "ema_a": 0, "ema_b": 0, "old.a": 0, "old.b": 0},
            ("ema_a", "ema_b"),
            ("old.a", "old.b"),
        ),
        ({"net.a": 1, "net.b": 2, "live.a": 1, "live.b": 2, "x": 1, "y": 1, "s.0": 1, "s.1": 1}, ("x", "y"), ("s.0", "s.1")),
        ({"net.a": 1, "net.b": 2, "live.a": 1, "live.b": 2, "x": 3, "y": 4, "s.0": 1, "s.1": 2}, ("x", "y"), ("s.0", "s.1")),
        ({"net.a": 1, "net.b": 2, "live.a": 1, "live.b": 2, "x": 1, "s.0": 1}, ("x",), ("s.0",)),
    ],
    ids=["constants", "several copies of one", "no copies", "one alone"],
)
def test_what_is_no_copy_for_sure_is_none(values, ours, theirs):
    assert copies(values, ours, theirs) == {}


# -- verdicts that would rest on weights without a place ---------------------------------------------------------------------


def diverged(name, **fields):
    point = Point("x", "relu", "port.py:3", "relu(x)")
    return StageResult(
        name, DIVERGED, divergence=Divergence(point, point, confirmed=True), findings=[Finding("r", "cause", "fix")], **fields
    )


@pytest.mark.parametrize("name", ["forward", "backward", "optimizer", "infer"])
def test_no_line_rests_on_weights_without_a_place(name):
    result = CheckResult([diverged(name)])
    rest_on_nothing(result, 3)
    stage = result.stages[0]
    assert stage.verdict == UNDERPOWERED
    assert stage.divergence is None
    assert not stage.findings
    assert stage.doubts == [UNTOLD.format(3)]


@pytest.mark.parametrize(("name", "unplaced"), [("forward", 0), ("data", 3), ("loss", 3)])
def test_what_does_not_rest_on_them_stays(name, unplaced):
    result = CheckResult([diverged(name)])
    rest_on_nothing(result, unplaced)
    assert result.stages[0].verdict == DIVERGED
    assert result.stages[0].divergence is not None


@pytest.mark.parametrize(
    ("guessed", "shape", "expected"),
    [(True, (3, SIZE), UNDERPOWERED), (True, (SIZE, 4), DIVERGED), (False, (3, SIZE), DIVERGED)],
    ids=["of its size", "of another size", "names tell all others"],
)
def test_a_tensor_that_one_left_over_may_hold_is_not_called_missing(guessed, shape, expected):
    ours, theirs = records("net.a", shape=(SIZE, 3))[0], records("live.b", shape=shape)[0]
    made = Plan(missing=[Move(ours, None, None, "unmatched")], extra=[Move(None, theirs, None, "unmatched")])
    pair = _lost(made.missing[0], made, guessed=guessed)
    assert pair.verdict == expected
    assert (UNPLACED in pair.notes) == (expected == UNDERPOWERED)


@pytest.mark.parametrize(("elements", "expected"), [(18, UNDERPOWERED), (7, DIVERGED)])
def test_a_table_whose_size_the_other_side_computes_itself_is_not_called_missing(elements, expected):
    ours, theirs = records("window", role="buffer", shape=(18,))[0], records("live.hann", role="buffer", shape=(elements,))[0]
    made = Plan(missing=[Move(ours, None, None, "unmatched")], dropped=[Move(None, theirs, None, "dropped")])
    assert _lost(made.missing[0], made, guessed=False).verdict == expected
