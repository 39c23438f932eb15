"""Plans proven by running a small attention, written in numpy, with the weights that they assemble."""

import math

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.model import Record
from paralign.weights import Alike, plan, prove

WIDTH, HEADS = 8, 2
INPUT = np.random.default_rng(5).standard_normal((3, 5, WIDTH))


def state(*entries):
    records = []
    for number, (name, kind, shape) in enumerate(entries):
        owner, _, leaf = name.rpartition(".")
        attrs = {"owner": owner, "leaf": leaf, "kind": kind, "trainable": True, "shared": None, "persistent": True}
        records.append(Record(number, name, "weights", "parameter", "float64", shape, attrs=attrs))
    return records


def weights(records, seed=0):
    generator = np.random.default_rng(seed)
    return {r.name: Typed(generator.standard_normal(r.shape), "float64") for r in records}


def attention(q, k, v, out):
    """Matrices are inputs by outputs."""
    heads = [(INPUT @ m).reshape(3, 5, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3) for m in (q, k, v)]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2)
    soft = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (soft / soft.sum(-1, keepdims=True)) @ heads[2]
    return np.tanh(mixed.transpose(0, 2, 1, 3).reshape(3, 5, WIDTH) @ out)


def runner(own, truth, port, calls=None):
    """The error of a port under a plan, in units of 1e-9."""

    def run(trial):
        if calls is not None:
            calls.append(trial)
        given = {t.name: trial.assemble(t.name, own.get).array for t in trial.targets}
        return float(np.linalg.norm(port(given) - truth) / np.linalg.norm(truth) / 1e-9)

    return run


REFERENCE = state(*((f"attn.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("k_proj", "v_proj", "q_proj", "out_proj")))
OWN = weights(REFERENCE)
TRUTH = attention(*(OWN[f"attn.{n}.weight"].array.T for n in ("q_proj", "k_proj", "v_proj", "out_proj")))


def test_a_plan_that_names_decide_is_proven_at_once():
    candidate = state(*((f"self.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("query", "key", "value", "dense")))
    calls = []
    proof = prove(
        plan(REFERENCE, candidate, "torch", "paddle"),
        runner(OWN, TRUTH, lambda w: attention(*(w[f"self.{n}.weight"] for n in ("query", "key", "value", "dense"))), calls),
    )
    assert proof.proven
    assert (proof.changed, proof.ambiguous, proof.untested) == ([], [], [])
    assert proof.runs == len(calls) == 1  # names speak against the 23 other orders of four square matrices


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 1, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_names_that_say_nothing_are_proven_by_running(order):
    """The port calls its matrices a, b, c, d: whichever is the query, the run finds it."""
    candidate = state(*((f"m.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in "abcd"))
    mapped = plan(REFERENCE, candidate, "torch", "paddle")
    run = runner(OWN, TRUTH, lambda w: attention(*(w[f"m.{'abcd'[i]}.weight"] for i in order)))
    assert run(mapped) > 1 or order == (2, 0, 1, 3)
    proof = prove(mapped, run, limit=64)
    assert proof.proven
    assert {m.reference.name: m.candidate.name for m in proof.plan.moves} == {
        f"attn.{n}_proj.weight": f"m.{'abcd'[i]}.weight" for n, i in zip(("q", "k", "v", "out"), order, strict=True)
    }
    assert proof.plan.complete
    assert bool(proof.changed) == (order != (2, 0, 1, 3))
    assert not proof.ambiguous


@pytest.mark.parametrize("interleaved", [False, True])
def test_heads_of_a_fused_projection_lie_together_or_not(interleaved):
    candidate = state(("m.qkv.weight", "Linear", (WIDTH, 3 * WIDTH)), ("m.out_proj.weight", "Linear", (WIDTH, WIDTH)))

    def port(given):
        fused = given["m.qkv.weight"]
        if interleaved:
            parts = fused.reshape(WIDTH, HEADS, 3, WIDTH // HEADS)
            q, k, v = (parts[:, :, n].reshape(WIDTH, WIDTH) for n in range(3))
        else:
            q, k, v = np.split(fused, 3, axis=1)
        return attention(q, k, v, given["m.out_proj.weight"])

    proof = prove(plan(REFERENCE, candidate, "torch", "paddle"), runner(OWN, TRUTH, port))
    assert proof.proven
    assert not proof.ambiguous  # what was chosen is no longer an alternative to itself
    assert proof.runs == 3 + interleaved  # the heads together or not, in the fused tensor and in the candidate
    intos = {m.reference.name: m.into for m in proof.plan.moves}
    assert intos["attn.k_proj.weight"] == ("transpose(1, 0) then heads(2, 3, 1)" if interleaved else "transpose(1, 0) then rows(8, 16)")


def test_square_matrices_of_the_users_own_may_lie_the_other_way():
    candidate = state(*((f"attn.{n}.weight", "", (WIDTH, WIDTH)) for n in ("k_proj", "v_proj", "q_proj", "out_proj")))
    proof = prove(
        plan(REFERENCE, candidate, "torch", "paddle"),
        runner(OWN, TRUTH, lambda w: attention(*(w[f"attn.{n}.weight"] for n in ("q_proj", "k_proj", "v_proj", "out_proj")))),
    )
    assert proof.proven
    assert {m.transform for m in proof.plan.moves} == {"transpose(1, 0)"}
    assert proof.changed == ["square matrices of layers of the user's own: all of them transposed"]
    assert not proof.turned  # the layout of the reference's is that of a framework's layer


def test_a_matrix_that_is_the_users_own_on_both_sides_and_lies_the_other_way_is_told():
    sides = [state((f"{name}.matrix", "", (WIDTH, WIDTH))) for name in ("mix", "mixing")]
    own = weights(sides[0])
    truth = INPUT @ own["mix.matrix"].array.T
    proof = prove(plan(*sides, "torch", "paddle"), runner(own, truth, lambda w: INPUT @ w["mixing.matrix"]))
    assert proof.proven
    assert proof.turned == proof.changed == ["square matrices of layers of the user's own: all of them transposed"]


def test_equal_branches_stay_ambiguous_and_are_named():
    reference = state(*((f"branch{n}.weight", "Linear", (WIDTH, WIDTH)) for n in (1, 2)))
    candidate = state(*((f"{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("left", "right")))
    own = weights(reference)
    truth = sum(INPUT @ w.array.T for w in own.values())
    proof = prove(plan(reference, candidate, "torch", "paddle"), runner(own, truth, lambda w: sum(INPUT @ m for m in w.values())))
    assert proof.proven
    (alike,) = proof.ambiguous
    assert alike == Alike(["left.weight", "right.weight"], ["branch1.weight", "branch2.weight"], seen=True)
    assert alike.told() == (
        "the outputs are the same whichever way round these are filled: left.weight, right.weight (from branch1.weight, branch2.weight)"
    )


@pytest.mark.parametrize("count", [3, 7, 12])
def test_all_of_many_equal_branches_are_named_together(count):
    reference = state(*((f"{'abcdefghijkl'[n]}.weight", "Linear", (WIDTH, WIDTH)) for n in range(count)))
    candidate = state(*((f"{'mnopqrstuvwx'[n]}.weight", "Linear", (WIDTH, WIDTH)) for n in range(count)))
    own = weights(reference)
    truth = sum(INPUT @ w.array.T for w in own.values())
    proof = prove(plan(reference, candidate, "torch", "paddle"), runner(own, truth, lambda w: sum(INPUT @ m for m in w.values())), 200)
    assert proof.proven
    assert [(sorted(a.candidate), a.seen) for a in proof.ambiguous] == [(sorted(r.name for r in candidate), True)]
    assert not proof.untested


def test_what_the_outputs_do_not_depend_on_is_told_apart_from_what_may_be_exchanged():
    """A head that only training uses: whatever it holds, the run is right."""
    reference = state(*((f"{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("body", "one", "two")))
    candidate = state(*((f"{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("body", "left", "right")))
    own = weights(reference)
    truth = INPUT @ own["body.weight"].array.T
    proof = prove(plan(reference, candidate, "torch", "paddle"), runner(own, truth, lambda w: INPUT @ w["body.weight"]))
    assert [(a.candidate, a.seen) for a in proof.ambiguous] == [(["left.weight", "right.weight"], False)]
    assert proof.ambiguous[0].told() == (
        "the outputs do not depend on these, so that nothing shows which is which: left.weight, right.weight (from one.weight, two.weight)"
    )


def test_a_wrong_port_is_never_proven():
    candidate = state(*((f"m.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in "abcd"))
    run = runner(OWN, TRUTH, lambda w: 1.01 * attention(*(w[f"m.{n}.weight"] for n in "abcd")))
    proof = prove(plan(REFERENCE, candidate, "torch", "paddle"), run, limit=200)
    assert not proof.proven
    assert proof.error == pytest.approx(run(proof.plan))
    assert proof.error > 1e6
    assert not proof.ambiguous


def test_an_incomplete_plan_is_never_proven_but_can_be_right_in_what_it_has():
    mapped = plan(REFERENCE, state(("attn.q_proj.weight", "Linear", (WIDTH, WIDTH))), "torch", "paddle")
    proof = prove(mapped, lambda _: 0.0)
    assert (proof.right, proof.proven, proof.runs) == (True, False, 1)


def test_time_is_bounded():
    candidate = state(*((f"m.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in "abcd"))
    proof = prove(plan(REFERENCE, candidate, "torch", "paddle"), lambda _: 0.5, seconds=0.0)
    assert (proof.runs, proof.proven) == (1, True)
    assert proof.untested == ["4 layers of equal shape: m.a, m.b, m.c, m.d"]


@pytest.mark.parametrize("error", [math.nan, math.inf, 1.0000001])
def test_errors_that_are_no_proof(error):
    candidate = state(*((f"m.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in "abcd"))
    proof = prove(plan(REFERENCE, candidate, "torch", "paddle"), lambda _: error, limit=7)
    assert not proof.proven
    assert proof.runs == 7


@pytest.mark.parametrize("limit", [1, 5])
def test_runs_are_bounded_and_what_was_not_tried_is_said(limit):
    candidate = state(*((f"m.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in "abcd"))
    calls = []
    proof = prove(plan(REFERENCE, candidate, "torch", "paddle"), lambda p: calls.append(p) or 0.5, limit=limit)
    assert proof.proven
    assert len(calls) == limit
    tried = f" ({limit - 1} of 23 tried)" if limit > 1 else ""
    assert proof.untested[-1] == f"4 layers of equal shape: m.a, m.b, m.c, m.d{tried}"


def test_every_option_fills_the_same_slots_from_the_same_sources():
    candidate = state(*((f"m.{n}.{i}.weight", "Linear", (WIDTH, WIDTH)) for i in range(3) for n in "abcd"))
    reference = state(*((f"enc.{i}.{n}.weight", "Linear", (WIDTH, WIDTH)) for i in range(3) for n in "wxyz"))
    mapped = plan(
        reference,
        candidate,
        "torch",
        "paddle",
        calls=([f"enc.{i}.{n}" for i in range(3) for n in "zyxw"], [f"m.{n}.{i}" for i in range(3) for n in "abcd"]),
    )
    options = [o for c in mapped.alternatives for o in c.options]
    assert options
    for option in options:
        chosen = mapped.choose(option)
        assert sorted(m.reference.name for m in chosen.moves) == sorted(r.name for r in reference)
        assert sorted(m.candidate.name for m in chosen.moves) == sorted(r.name for r in candidate)
        assert [m.transform for m in chosen.moves] == ["transpose(1, 0)"] * 12


def test_a_table_that_only_one_side_keeps_needs_no_twin_where_the_outputs_are_equal():
    reference = [*REFERENCE, *state(("attn.mask", "", (5, 5)))]
    reference[-1].role, reference[-1].id = "buffer", 99
    candidate = state(*((f"self.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("query", "key", "value", "dense")))
    mapped = plan(reference, candidate, "torch", "paddle")
    assert not mapped.complete
    right = prove(mapped, lambda _: 0.5)
    assert right.proven
    assert right.plan.dropped[-1].reference.name == "attn.mask"
    assert "only one side keeps" in right.plan.dropped[-1].note
    wrong = prove(mapped, lambda _: 2.0)
    assert not wrong.proven
    assert wrong.plan.missing[0].reference.name == "attn.mask"


@pytest.mark.parametrize("leaf", ["running_mean", "_variance"])
def test_statistics_are_no_such_table(leaf):
    reference = [*REFERENCE, *state((f"attn.{leaf}", "", (5,)))]
    reference[-1].role, reference[-1].id = "buffer", 99
    candidate = state(*((f"self.{n}.weight", "Linear", (WIDTH, WIDTH)) for n in ("query", "key", "value", "dense")))
    proof = prove(plan(reference, candidate, "torch", "paddle"), lambda _: 0.5)
    assert (proof.right, proof.proven) == (True, False)


def test_parts_of_a_pack_come_in_another_order():
    reference = state(("attn.qkv.weight", "Linear", (3 * WIDTH, WIDTH)), ("attn.out_proj.weight", "Linear", (WIDTH, WIDTH)))
    candidate = state(("m.qkv.weight", "Linear", (WIDTH, 3 * WIDTH)), ("m.out_proj.weight", "Linear", (WIDTH, WIDTH)))
    own = weights(reference)
    q, k, v = np.split(own["attn.qkv.weight"].array.T, 3, axis=1)
    truth = attention(q, k, v, own["attn.out_proj.weight"].array.T)

    def port(given):
        v, k, q = np.split(given["m.qkv.weight"], 3, axis=1)
        return attention(q, k, v, given["m.out_proj.weight"])

    proof = prove(plan(reference, candidate, "torch", "paddle"), runner(own, truth, port))
    assert proof.proven
    assert proof.plan.moves[0].transform == "parts(2, 1, 0) then transpose(1, 0)"
    back = proof.plan.restore("attn.qkv.weight", {t.name: proof.plan.assemble(t.name, own.get) for t in proof.plan.targets}.get)
    assert np.array_equal(back.array, own["attn.qkv.weight"].array)
