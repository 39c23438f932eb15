"""Tensors of the user's own that hold those of several equal layers."""

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.weights import plan, prove

sys.path.insert(0, str(Path(__file__).parent))
from test_weights_mapping import assert_round_trip, linear, moved, state


def experts(framework, *, count=3, path="experts.{}", inputs=8, outputs=6):
    return [entry for n in range(count) for entry in linear(path.format(n), inputs, outputs, framework)]


def test_a_stack_comes_apart_and_is_made():
    layers = state(*experts("torch"), *linear("head", 6, 2, "torch"))
    stack = state(("w", "", (3, 8, 6)), ("b", "", (3, 6)), *linear("out", 6, 2, "paddle"))
    result = plan(layers, stack, "torch", "paddle")
    assert result.complete
    own, given = assert_round_trip(result, layers)
    assert np.array_equal(given["w"].array, np.stack([own[f"experts.{n}.weight"].array.T for n in range(3)]))
    assert np.array_equal(given["b"].array, np.stack([own[f"experts.{n}.bias"].array for n in range(3)]))
    result = plan(stack, layers, "paddle", "torch")
    assert result.complete
    assert moved(result)["w", "rows(1, 2) then reshape(8, 6) then transpose(1, 0)"] == ("experts.1.weight", None)
    assert_round_trip(result, stack)


@pytest.mark.parametrize("shape", [(3, 6, 8), (3, 6, 8, 1, 1)])
def test_outputs_may_come_first(shape):
    layers, stack = state(*experts("torch")), state(("w", "", shape), ("b", "", (3, 1, 6)))
    for one, other in ((layers, stack), (stack, layers)):
        result = plan(one, other, "torch", "torch")
        assert result.complete
        assert_round_trip(result, one)


def test_stacks_of_several_blocks_go_by_the_numbers_of_both():
    layers = state(*(entry for n in range(2) for entry in experts("torch", path=f"layers.{n}.experts.{{}}")))
    stacks = state(*(entry for n in (1, 0) for entry in ((f"blocks.{n}.w", "", (3, 8, 6)), (f"blocks.{n}.b", "", (3, 6)))))
    result = plan(layers, stacks, "torch", "paddle")
    assert result.complete
    for move in result.moves:
        _, block, _, number, _ = move.reference.name.split(".")
        assert move.candidate.name.split(".")[1] == block
        assert (move.into or "").startswith(f"rows({number}, ")


@pytest.mark.parametrize(
    ("layers", "stack"),
    [
        (experts("torch"), [("w", "", (4, 8, 6)), ("b", "", (4, 6))]),  # one too many
        (experts("torch"), [("w", "", (3, 8, 5)), ("b", "", (3, 5))]),  # another width
        (experts("torch"), [("w", "Conv1D", (3, 8, 6)), ("b", "Linear", (3, 6))]),  # layers that are known to be something else
        (experts("torch", count=2), [("w", "", (1, 8, 6)), ("b", "", (1, 6))]),
    ],
)
def test_what_does_not_fit_stays_whole_and_is_told(layers, stack):
    for one, other in ((layers, stack), (stack, layers)):
        result = plan(state(*one), state(*other), "torch", "torch")
        assert not result.complete
        assert all(m.whole for m in result.moves)


def test_a_stack_with_a_twin_stays_whole():
    layers, stack = experts("torch", outputs=8), ("w", "", (3, 8, 8))
    result = plan(state(*layers, stack), state(*layers, ("v", "", (3, 8, 8))), "torch", "torch")
    assert result.complete
    assert all(m.whole for m in result.moves)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("stacked", ["reference", "candidate"])
def test_square_matrices_of_a_stack_may_lie_either_way(stacked, turned):
    layers = state(*((f"experts.{n}.weight", "Linear", (4, 4)) for n in range(3)))
    stack = state(("w", "", (3, 4, 4)))
    reference, candidate = (stack, layers) if stacked == "reference" else (layers, stack)
    generator = np.random.default_rng(0)
    own = {r.name: Typed(generator.standard_normal(r.shape), "float64") for r in reference}
    x = generator.standard_normal((5, 4))

    def run(weights):
        matrices = [weights[f"experts.{n}.weight"].T for n in range(3)] if "w" not in weights else list(weights["w"])
        made = x
        for matrix in matrices:
            made = np.tanh(made @ (matrix.T if turned and "w" in weights else matrix))
        return made

    truth = run({n: v.array for n, v in own.items()})

    def error(trial):
        return np.linalg.norm(run({t.name: trial.assemble(t.name, own.get).array for t in trial.targets}) - truth) / 1e-9

    proof = prove(plan(reference, candidate, "torch", "torch"), error)
    assert proof.proven
    assert bool(proof.changed) == turned
    assert not proof.ambiguous


@pytest.mark.parametrize("first_up", [True, False])
@pytest.mark.parametrize("straight", [True, False])
def test_two_matrices_of_one_expert_that_fit_either_way_go_with_their_biases(straight, first_up):
    def pairs(framework):
        layers = [(linear(f"e.{n}.up", 4, 6, framework), linear(f"e.{n}.down", 6, 4, framework)) for n in range(3)]
        return [entry for both in layers for layer in (both if first_up else both[::-1]) for entry in layer]

    beside = linear("gate", 4, 3, "torch") + linear("point", 4, 4, "torch")  # a matrix of a stack's shape, a bias of an entry's
    first, second = ((3, 6, 4), (3, 4, 6)) if straight else ((3, 4, 6), (3, 6, 4))
    stacks = state(("w1", "", first), ("b1", "", (3, 6)), ("w2", "", second), ("b2", "", (3, 4)), *beside)
    layers = state(*linear("gate", 4, 3, "paddle"), *linear("point", 4, 4, "paddle"), *pairs("paddle"))
    result = plan(stacks, layers, "torch", "paddle")
    assert result.complete
    found = {(m.reference.name, m.candidate.name) for m in result.moves if m.reference.name[0] in "wb"}
    assert found == {
        (f"{leaf}{number}", f"e.{n}.{layer}.{name}")
        for number, layer in ((1, "up"), (2, "down"))
        for leaf, name in (("w", "weight"), ("b", "bias"))
        for n in range(3)
    }
    assert_round_trip(result, stacks)


def test_stacks_that_fit_several_kinds_and_are_fewer_stay_whole():
    layers = state(*(entry for n in range(3) for entry in (*linear(f"e.{n}.up", 4, 6, "torch"), *linear(f"e.{n}.down", 6, 4, "torch"))))
    result = plan(layers, state(("w", "", (3, 6, 4))), "torch", "torch")
    assert not result.complete
    assert all(m.whole for m in result.moves)


def filters(*, count=3, apart, prefix):
    shape = (5, 4)
    own = [(f"{prefix}.{n}.real", "", shape) for n in range(count)], [(f"{prefix}.{n}.imag", "", shape) for n in range(count)]
    if apart:
        return [entry for both in zip(*own, strict=True) for entry in both]
    return [(f"{prefix}.{n}.filter.complex_weight", "", (*shape, 2)) for n in range(count)]


def test_a_complex_weight_as_one_tensor_and_as_its_parts():
    whole = state(*linear("first", 4, 4, "torch"), *filters(apart=False, prefix="blocks"))
    parts = state(*filters(apart=True, prefix="layers"), *linear("entry", 4, 4, "paddle"))
    for one, other, frameworks in ((whole, parts, ("torch", "paddle")), (parts, whole, ("paddle", "torch"))):
        result = plan(one, other, *frameworks)
        assert result.complete
        assert_round_trip(result, one)
    own, given = assert_round_trip(plan(whole, parts, "torch", "paddle"), whole)
    for number in range(3):
        for place, name in enumerate(("real", "imag")):
            expected = own[f"blocks.{number}.filter.complex_weight"].array[..., place]
            assert np.array_equal(given[f"layers.{number}.{name}"].array, expected)


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_other_numbers_stay_unmapped(count):
    result = plan(state(*filters(apart=False, prefix="a")), state(*filters(count=count, apart=True, prefix="b")), "torch", "paddle")
    assert not result.complete
    assert all(m.whole for m in result.moves)


def test_which_part_is_which_their_names_say():
    whole = state(("filter.w", "", (5, 4, 2)))
    turned = plan(whole, state(("f.w_imag", "", (5, 4)), ("f.w_real", "", (5, 4))), "torch", "paddle")
    assert turned.complete
    assert [m.candidate.name for m in sorted(turned.moves, key=lambda m: m.transform or "")] == ["f.w_real", "f.w_imag"]
    unlike = plan(whole, state(("n.scale", "", (5, 4)), ("n.shift", "", (5, 4))), "torch", "paddle")
    assert not unlike.complete
