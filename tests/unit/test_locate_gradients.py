"""Faults planted in the backward pass of small programs, and random operations put side by side."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from paralign.locate.source import statements
from paralign.locate.suspects import random_operations

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, line_in

from paralign.worker.protocol import RandomOperation

X = {"x": np.random.default_rng(1).normal(size=(6, 8))}
P = {f"w{i}": np.random.default_rng(10 + i).normal(size=(8, 8)) / 3 for i in range(4)}


line_of = partial(line_in, __file__)


def network(m, factor=1.0, cut=None, hidden=None):
    x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
    x = m.tanh(m.matmul(x, m.parameter("w1")), factor=factor)  # line: tanh
    if cut is not None:
        x = cut(m, x)
    y = m.matmul(x, m.parameter("w2"))
    if hidden is not None:
        y = hidden(m, y)
    return y, m.mean(m.multiply(y, y))


def found(tmp_path, candidate, reference=network, **options):
    laboratory = Laboratory(tmp_path, reference, candidate, X, P, **options)
    assert laboratory.guilty() == ([], [])  # the forward pass is right
    return laboratory.gradient_divergences()


def test_right_gradients_are_not_at_fault(tmp_path):
    def other(m):
        x = m.tanh(m.matmul(m.copy(m.input()), m.parameter("w0")))
        x = m.reshape(m.tanh(m.matmul(m.reshape(x, 3, 2, 8), m.parameter("w1"))), 6, 8)
        y = m.matmul(x, m.parameter("w2"))
        return y, m.mean(m.multiply(y, y))

    assert found(tmp_path, network) == []
    assert found(tmp_path / "other", other) == []


@pytest.mark.parametrize("factor", [0.5, -1.0, 3.0])
def test_a_gradient_that_is_a_multiple_is_told_with_its_factor(tmp_path, factor):
    one = found(tmp_path, lambda m: network(m, factor))[0]
    assert one.what == "factor"
    assert one.candidate.source == line_of("tanh")
    assert one.candidate.op == "tanh"
    assert one.confirmed
    assert f"{factor:.6g} times" in one.notes[0]


def test_a_gradient_that_differs_in_another_way(tmp_path):
    factors = np.linspace(0.5, 1.5, 8)
    one = found(tmp_path, lambda m: network(m, factors))[0]
    assert one.what == "gradient"
    assert one.candidate.source == line_of("tanh")
    assert one.confirmed
    assert "with the reference's gradient in its place: 0" in one.notes[1]


def test_a_value_that_is_cut_off(tmp_path):
    def cut(m, x):
        return m.detach(x)  # line: cut

    one = found(tmp_path, lambda m: network(m, cut=cut))[0]
    assert one.what == "detached"
    assert one.confirmed
    assert line_of("cut") in (one.candidate.source, *one.candidate.lines)


def test_a_frozen_parameter(tmp_path):
    one = found(tmp_path, network, frozen={"w1": "model.py:7"})
    assert [d.what for d in one] == ["frozen"]
    assert one[0].candidate.name == "w1"
    assert one[0].candidate.source == "model.py:7"


def test_two_faults_of_gradients_are_both_found(tmp_path):
    def program(first, second):
        def run(m):
            x = m.tanh(m.matmul(m.input(), m.parameter("w0")), factor=first)  # line: lower
            x = m.tanh(m.matmul(x, m.parameter("w1")), factor=second)  # line: upper
            y = m.matmul(x, m.parameter("w2"))
            return y, m.mean(m.multiply(y, y))

        return run

    several = found(tmp_path, program(0.5, 3.0), program(1.0, 1.0))
    assert sorted(d.candidate.source for d in several) == sorted([line_of("lower"), line_of("upper")])
    assert all(d.confirmed for d in several)


def test_the_loss_itself_is_scaled(tmp_path):
    def summed(m):
        x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
        y = m.matmul(x, m.parameter("w2"))
        return y, m.scale(m.mean(m.multiply(y, y)), 2.0)  # line: loss

    def plain(m):
        x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
        y = m.matmul(x, m.parameter("w2"))
        return y, m.mean(m.multiply(y, y))

    laboratory = Laboratory(tmp_path, plain, summed, X, P)
    assert [d.candidate.source for d in laboratory.divergences()] == [line_of("loss")]


def test_the_backward_of_a_custom_function_is_pointed_at(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "class F:\n    def forward(ctx, x):\n        return x\n\n    def backward(ctx, g):\n        h = g * 2\n        return h\n\ny = 1\n"
    )
    assert statements.custom_backward(f"{file}:3") == f"{file}:7"
    assert statements.custom_backward(f"{file}:9") is None
    assert statements.custom_backward(f"{tmp_path}/none.py:1") is None
    file.with_name("broken.py").write_text("class (:\n")
    assert statements.custom_backward(f"{tmp_path}/broken.py:1") is None


def test_a_block_or_a_decorator_that_keeps_no_gradients_is_found(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import lib\n"
        "def run(x):\n"
        "    with lib.no_grad():\n"
        "        y = x\n"
        "        with open(y):\n"
        "            z = y\n"
        "    with lib.set_grad_enabled(False), lib.other():\n"
        "        w = z\n"
        "    with lib.set_grad_enabled(True):\n"
        "        return w\n"
        "@lib.no_grad()\n"
        "def frozen(x):\n"
        "    return x\n"
    )
    found = {line: statements.no_gradient_block(f"{file}:{line}") for line in range(1, 14)}
    assert {line: block for line, block in found.items() if block is not None} == {
        4: f"{file}:3",
        5: f"{file}:3",
        6: f"{file}:3",
        8: f"{file}:7",
        13: f"{file}:11",
    }
    assert statements.no_gradient_block(f"{tmp_path}/none.py:1") is None


def test_a_backward_function_that_goes_by_what_it_was_told(tmp_path):
    file = tmp_path / "model.py"
    text = "class F:\n    def forward(ctx, x, by):\n        return x\n\n    def backward(ctx, g):\n        return g{}\n"
    file.write_text(text.format(" * ctx.by"))
    assert statements.told_how(f"{file}:3")
    plain = tmp_path / "plain.py"
    plain.write_text(text.format(" * ctx.saved_tensors[0]"))
    assert not statements.told_how(f"{plain}:3")
    assert not statements.told_how(f"{tmp_path}/none.py:3")


def test_a_cut_is_named_and_not_the_end_of_what_it_cuts_off(tmp_path):
    def program(cut):
        def run(m):
            x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
            side = m.detach(x) if cut else m.copy(x)  # line: early
            side = m.exp(m.tanh(m.matmul(side, m.parameter("w1"))))
            side = m.tanh(side)
            y = m.matmul(m.add(x, side), m.parameter("w2"))
            return y, m.mean(m.multiply(y, y))

        return run

    one = found(tmp_path, program(cut=True), program(cut=False))[0]
    assert (one.what, one.confirmed) == ("detached", True)
    assert one.candidate.source == line_of("early")


def test_a_gradient_that_the_reference_does_not_have(tmp_path):
    def program(cut):
        def run(m):
            x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
            x = m.detach(x) if cut else x
            y = m.matmul(m.tanh(m.matmul(x, m.parameter("w1"))), m.parameter("w2"))  # line: taken
            return y, m.mean(m.multiply(y, y))

        return run

    one = found(tmp_path, program(cut=False), program(cut=True))[0]
    assert (one.what, one.confirmed) == ("kept", True)
    assert "none in the reference" in one.notes[0]
    assert one.reference.op == "copy"
    assert "with the reference's gradient in its place: 0" in one.notes[1]


def test_a_cut_that_both_sides_have_is_no_fault(tmp_path):
    def program(factor):
        def run(m):
            x = m.tanh(m.matmul(m.input(), m.parameter("w0")))
            target = m.detach(x)
            y = m.tanh(m.matmul(x, m.parameter("w1")), factor=factor)  # line: beside
            y = m.add(y, m.multiply(target, m.matmul(target, m.parameter("w2"))))
            return y, m.mean(m.multiply(y, y))

        return run

    assert found(tmp_path, program(1.0), program(1.0)) == []
    several = found(tmp_path / "spoilt", program(2.0), program(1.0))
    assert [d.candidate.source for d in several] == [line_of("beside")]


def test_faults_that_cancel_are_confirmed_together(tmp_path):
    def program(first, second):
        def run(m):
            x = m.tanh(m.matmul(m.input(), m.parameter("w0")), factor=first)  # line: halved
            x = m.tanh(m.matmul(x, m.parameter("w1")), factor=second)  # line: doubled
            y = m.matmul(x, m.parameter("w2"))
            return y, m.mean(m.multiply(y, y))

        return run

    several = found(tmp_path, program(0.5, 2.0), program(1.0, 1.0))
    assert sorted(d.candidate.source for d in several) == sorted([line_of("halved"), line_of("doubled")])
    assert all(d.confirmed for d in several)


def fused(m):
    """A loss of which nothing inside is seen."""
    y = m.matmul(m.input(), m.parameter("w0"))

    def both(x):
        return np.asarray(np.where(np.abs(x) < 0.5, 0.5 * x * x, 0.5 * (np.abs(x) - 0.25)).mean())

    def back(g, x):
        return (g * np.clip(x, -0.5, 0.5) / x.size,)

    return y, m.operation("huber", both, y, back=back, delta=0.5)


def steps(m, near, far, last=1.0):
    y = m.matmul(m.input(), m.parameter("w0"))
    half = m.scale(y, near)  # line: first
    squared = m.multiply(half, y)
    flat = m.operation(
        "where",
        lambda x, s: np.where(np.abs(x) < 0.5, s, far * (np.abs(x) - 0.25)),
        y,
        squared,
        back=lambda g, x, _: (np.where(np.abs(x) < 0.5, 0, g * far * np.sign(x)), np.where(np.abs(x) < 0.5, g, 0)),
    )
    return y, m.scale(m.shift(m.shift(m.mean(flat), 1.0), -1.0), last)  # line: last


def test_a_formula_of_a_loss_is_suspected_where_most_of_it_is_done(tmp_path):
    assert Laboratory(tmp_path, fused, lambda m: steps(m, 0.5, 0.5), X, P).divergences() == []
    one = Laboratory(tmp_path / "far", fused, lambda m: steps(m, 0.5, 0.7), X, P).divergences()[0]
    assert (one.what, one.candidate.source) == ("region", line_of("last"))


def test_a_loss_that_is_a_multiple_is_suspected_at_its_end(tmp_path):
    one = Laboratory(tmp_path, fused, lambda m: steps(m, 0.5, 0.5, last=4.0), X, P).divergences()[0]
    assert one.candidate.source == line_of("last")


# -- random operations -------------------------------------------------------------------------------------------------------


def said(family="mask", p=0.5, shape=(4, 4), module="", name="draw 0", op="dropout"):
    return RandomOperation(0, op, module, "m.py:1", family, p, list(shape), name)


def test_random_operations_are_paired_in_order():
    ours, theirs = [said(module="a"), said(module="b")], [said(module="x.a"), said(module="x.b")]
    assert random_operations.aligned(ours, theirs) == list(zip(ours, theirs, strict=True))
    assert random_operations.findings(random_operations.aligned(ours, theirs)) == []


def test_one_too_few_and_one_too_many_leave_the_others_in_place():
    ours = [said(module="a", shape=(2, 2)), said(module="b", shape=(4, 4)), said(module="c", shape=(8, 8))]
    theirs = [ours[0], ours[2], said(module="d", shape=(3, 3))]
    pairs = random_operations.aligned(ours, theirs)
    assert [(a and a.module, b and b.module) for a, b in pairs] == [("a", "a"), ("b", None), ("c", "c"), (None, "d")]
    causes = [finding.cause for finding in random_operations.findings(pairs)]
    assert len(causes) == 2
    assert "the candidate has no random operation there" in causes[0]
    assert "the reference has no random operation there" in causes[1]


def test_masks_of_one_module_that_differ_in_shape_are_one_finding():
    channels, elements = said(module="a", p=0.2, shape=(4, 8, 1, 1)), said(module="a", p=0.2, shape=(4, 8, 5, 5))
    (found,) = random_operations.findings(random_operations.aligned([channels], [elements]))
    assert found.cause.startswith("a (dropout) m.py:1 draws a mask of shape (4, 8, 5, 5), the reference one of shape (4, 8, 1, 1)")
    assert "Dropout2D" in found.fix
    apart = random_operations.aligned([channels], [said(module="b", p=0.2, shape=(4, 8, 5, 5))])
    assert len(random_operations.findings(apart)) == 2


def test_of_equal_sizes_names_and_probabilities_decide():
    ours = [said(module="a", p=0.1), said(module="b", p=0.5)]
    theirs = [said(module="b", p=0.5)]
    assert random_operations.aligned(ours, theirs) == [(ours[0], None), (ours[1], theirs[0])]


def test_another_probability_is_a_finding():
    found_ = random_operations.findings(random_operations.aligned([said(p=0.1)], [said(p=0.2)]))
    assert [finding.rule for finding in found_] == ["probability"]
    assert "0.2" in found_[0].cause
    assert found_[0].fix == "set the probability to 0.1"
    assert random_operations.findings(random_operations.aligned([said(p=0.1)], [said(p=0.1 + 1e-8)])) == []


def test_the_same_difference_at_many_modules_is_one_finding():
    rates = [0.01 * n for n in range(1, 45)]
    ours = [said(module=f"blocks.{n}.drop", p=p) for n, p in enumerate(rates)]
    missing = random_operations.findings([(one, None) for one in ours])
    assert len(missing) == 1
    assert "blocks.0.drop" in missing[0].cause
    assert missing[0].cause.endswith("; likewise at 43 more: blocks.1.drop, blocks.2.drop, blocks.3.drop …")
    extra = random_operations.findings([(None, one) for one in ours[:2]])
    assert [finding.cause.endswith("likewise at 1 more: blocks.1.drop") for finding in extra] == [True]
    other = random_operations.findings([(one, said(module=one.module, p=one.p / 2)) for one in ours])
    assert len(other) == 1
    assert other[0].fix.startswith("set the probability to 0.01; set the probability to 0.02; ")
    two = [(said(module="a"), None), (said(module="b", op="rrelu"), None), (None, said(module="c"))]
    assert len(random_operations.findings(two)) == 3


def test_a_mask_takes_the_place_of_uniform_numbers_and_not_of_normal_ones():
    assert random_operations.aligned([said()], [said(family="uniform", p=None)])[0][1] is not None
    assert random_operations.aligned([said()], [said(family="normal", p=None)]) == [(said(), None), (None, said(family="normal", p=None))]
    assert random_operations.aligned([], []) == []


def test_many_random_operations_of_one_size_are_paired_fast():
    ours = [said(module=f"layers.{i}.drop", name=f"draw {i}") for i in range(300)]
    theirs = ours[:150] + ours[151:]
    pairs = random_operations.aligned(ours, theirs)
    assert sum(a is None or b is None for a, b in pairs) == 1
