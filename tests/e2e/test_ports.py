"""Ports in which names, order of definition and structure differ: those of the same model map and prove, wrong ones are never aligned."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

sys.path.insert(0, str(Path(__file__).parent))
import ports  # noqa: E402 - it needs both frameworks
import ports_more  # noqa: E402, F401 - fills the tables of ports
import ports_packed  # noqa: E402, F401 - likewise
import ports_structure  # noqa: E402, F401 - likewise


def run(make, **options):
    torch.manual_seed(0)
    paddle.seed(0)
    model, port, inputs = make()
    sides = Side(model=model, framework="torch"), Side(model=port, framework="paddle")
    return check(*sides, inputs=inputs, stages=["weights", "forward"], **options)


def told(result):
    return [f"{s.name}: {n}" for s in result.stages for n in (*s.notes, *(n for p in s.pairs if p.verdict != "aligned" for n in p.notes))]


@pytest.mark.parametrize("name", ports.EQUIVALENT)
def test_a_port_of_the_same_model_maps_and_proves(name):
    result = run(ports.EQUIVALENT[name])
    assert [s.verdict for s in result.stages] == ["aligned", "aligned"], told(result)
    assert all(p.how != "none" for p in result["weights"].pairs)


@pytest.mark.parametrize("name", ports.DIFFERENT)
def test_a_port_of_another_model_is_never_aligned(name):
    result = run(ports.DIFFERENT[name])
    assert result.verdict == "diverged", told(result)


def test_all_that_cannot_be_told_apart_is_named():
    notes = run(ports.EQUIVALENT["equal_branches_that_are_added"])["weights"].notes
    assert (
        "ambiguous: the outputs are the same whichever way round these are filled: a.bias, a.weight, b.bias, b.weight "
        "(from left.bias, left.weight, right.bias, right.weight)" in notes
    )
    many = run(ports.EQUIVALENT["ten_equal_branches_that_are_added"])["weights"].notes
    assert next(n for n in many if n.startswith("ambiguous")).endswith("and 14 more)")


def test_an_assignment_against_the_names_is_warned_of():
    (warning,) = run(ports.EQUIVALENT["equal_names_with_exchanged_roles"])["weights"].warnings
    assert warning.startswith("the outputs are equal only against what names say (")
    assert warning.endswith("): a checkpoint that is loaded by name would give others")
    assert not run(ports.EQUIVALENT["names_that_say_nothing"])["weights"].warnings


def test_what_nothing_uses_is_not_called_mapped_where_names_do_not_tell():
    def make():
        names = {"torch": ("body", "one", "two"), "paddle": ("body", "left", "right")}
        ours = ports.torch_model(lambda: {n: torch.nn.Linear(8, 8) for n in names["torch"]}, lambda m, x: m.body(x))
        return ours, ports.paddle_model(lambda: {n: paddle.nn.Linear(8, 8) for n in names["paddle"]}, lambda m, x: m.body(x)), ports.X

    result = run(make)
    assert (result["weights"].verdict, result["forward"].verdict) == ("underpowered", "aligned")
    weak = {p.key: p.notes for p in result["weights"].pairs if p.verdict == "underpowered"}
    assert set(weak) == {"one.weight", "one.bias", "two.weight", "two.bias"}
    assert weak["one.weight"] == ["nothing shows that this is its place: the outputs do not depend on it"]


def test_equal_and_constant_tensors_are_moved_to_be_told_apart_and_put_back():
    """Both norms of a new model hold ones and zeros: their places show only once they hold something else."""
    torch.manual_seed(0)
    model, port, inputs = ports.EQUIVALENT["norms_used_the_other_way_round"]()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    sides = Side(model=model, framework="torch"), Side(model=port, framework="paddle")
    result = check(*sides, inputs=inputs, stages=["weights", "forward"])
    assert {p.key: p.candidate.name for p in result["weights"].pairs}["norm1.weight"] == "norm2.weight"
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_slopes_of_one_number_each_that_are_equal_are_told_apart():
    """Each ``PReLU()`` of a new model holds 0.25."""
    ours = ports.torch_model(
        lambda: {"fc": torch.nn.Linear(8, 8), "p": torch.nn.PReLU(), "q": torch.nn.PReLU(), "r": torch.nn.PReLU()},
        lambda m, x: m.r(m.fc(m.q(m.fc(m.p(x) - 1.0)) - 1.0) - 1.0),
    )
    theirs = ports.paddle_model(
        lambda: {"one": paddle.nn.PReLU(), "two": paddle.nn.PReLU(), "three": paddle.nn.PReLU(), "body": paddle.nn.Linear(8, 8)},
        lambda m, x: m.one(m.body(m.two(m.body(m.three(x) - 1.0)) - 1.0) - 1.0),
    )
    result = run(lambda: (ours, theirs, ports.X))
    assert [s.verdict for s in result.stages] == ["aligned", "aligned"], told(result)
    placed = {p.key: p.candidate.name.partition(".")[0] for p in result["weights"].pairs}
    assert {placed["p.weight"], placed["q.weight"], placed["r.weight"]} == {"one", "two", "three"}
    assert (placed["p.weight"], placed["r.weight"]) == ("three", "one")


def test_rules_force_a_mapping_that_the_run_then_refutes():
    rules = "\n".join(
        f'[[rename]]\nreference = "blocks.{{a}}.{one}"\ncandidate = "layers.{{a}}.{other}"'
        for one, other in zip("qkvo", "kqvo", strict=True)
    )
    make = lambda: (ports.torch_stack(ports.torch_split), ports.paddle_stack(ports.paddle_split), ports.X)  # noqa: E731 - a name for it
    assert run(make).verdict == "aligned"
    from paralign.weights import rules_from_toml

    forced = run(make, rules=rules_from_toml(rules))
    assert (forced["weights"].verdict, forced["forward"].verdict) == ("aligned", "diverged")
    assert {p.how for p in forced["weights"].pairs} == {"user"}


def test_gradients_and_running_variances_of_joined_layers_are_compared_part_by_part():
    """A running variance differs by n / (n - 1) between the frameworks: known for what it is in each part too."""
    torch.manual_seed(0)
    paddle.seed(0)
    model, port, inputs = ports.EQUIVALENT["branches_of_convolutions_with_norms_as_one"]()

    def side(framework, model):
        functions = {"build_model": lambda: model, "loss": lambda outputs, labels: (outputs * outputs).mean() + 0.0 * labels.sum()}
        return Side(framework=framework, functions={**functions, "build_optimizer": lambda m: steps[framework](m.parameters())})

    steps = {"torch": lambda p: torch.optim.SGD(p, 0.1, 0.9), "paddle": lambda p: paddle.optimizer.Momentum(0.1, 0.9, parameters=p)}
    labels = np.ones(1, "float32")
    result = check(
        side("torch", model), side("paddle", port), inputs=inputs, labels=labels, stages=["weights", "forward", "loss", "backward"]
    )
    assert {s.verdict for s in result.stages} == {"aligned"}
    pairs = {p.key: p for p in result["backward"].pairs}
    assert any("inherent" in note for note in pairs["buffer_0 n2.running_var (train)"].notes)
    assert pairs["gradient_0 c2.weight"].candidate.name == "conv.weight"


@pytest.mark.parametrize("several", [False, True], ids=["one output", "two outputs"])
def test_a_fault_behind_tensors_that_only_a_run_tells_apart(several):
    """No assignment makes all outputs equal: the right one is told by what is right before the fault."""

    def reference(m, x):
        h = torch.tanh(m.body(x))
        mixed = torch.cat([m.one(h), m.two(h)], -1)
        found = torch.tanh(m.head(mixed))
        return (mixed, found) if several else found

    def candidate(m, x):
        h = paddle.tanh(m.body(x))
        second = m.left(h)
        mixed = paddle.concat([m.right(h), second], -1)
        found = paddle.tanh(m.head(mixed) * -1.0)
        return (mixed, found) if several else found

    def make():
        names = {"torch": ("body", "one", "two", "head"), "paddle": ("body", "left", "right", "head")}
        shapes = {"head": (16, 8)}
        ours = ports.torch_model(lambda: {n: torch.nn.Linear(*shapes.get(n, (8, 8))) for n in names["torch"]}, reference)
        theirs = ports.paddle_model(lambda: {n: paddle.nn.Linear(*shapes.get(n, (8, 8))) for n in names["paddle"]}, candidate)
        return ours, theirs, ports.X

    result = run(make)
    places = {p.reference.name: p.candidate.name for p in result["weights"].pairs}
    assert (result["weights"].verdict, result["forward"].verdict) == ("underpowered", "diverged")
    assert (places["one.weight"], places["two.weight"]) == ("right.weight", "left.weight")
    assert result["forward"].divergence.candidate.code == "found = paddle.tanh(m.head(mixed) * -1.0)"


def test_a_fault_where_a_side_runs_in_float32_alone():
    """What is computed on the way cannot be compared in float64: the assignment stays a guess, and the check ends."""

    def candidate(m, x):
        if x.dtype != paddle.float32:
            raise RuntimeError("float32 only")
        return paddle.tanh(m.head(paddle.concat([m.right(x), m.left(x)], -1)) * -1.0)

    def make():
        shapes = {"head": (16, 8)}
        ours = ports.torch_model(
            lambda: {n: torch.nn.Linear(*shapes.get(n, (8, 8))) for n in ("one", "two", "head")},
            lambda m, x: torch.tanh(m.head(torch.cat([m.one(x), m.two(x)], -1))),
        )
        theirs = ports.paddle_model(lambda: {n: paddle.nn.Linear(*shapes.get(n, (8, 8))) for n in ("left", "right", "head")}, candidate)
        return ours, theirs, ports.X

    result = run(make)
    assert (result["weights"].verdict, result["forward"].verdict) == ("underpowered", "diverged")
