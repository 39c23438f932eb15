"""The weights stage on live numpy models: every tensor accounted for, copied, read back bit for bit."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.api import check
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Pair, Side, StageResult
from paralign.stages.weights.stage import _say_unproven
from paralign.weights import Rename, Rules, rules_from_toml
from paralign.weights.placed_by_module import beside_its_siblings, numbered_alike

X = np.random.RandomState(0).randn(4, 6).astype("float32")


class Model:
    """Parameters by name; the call uses ``weight`` alone."""

    def __init__(self, **parameters):
        self.parameters = {name: np.array(value, np.float32) for name, value in parameters.items()}

    def __call__(self, x):
        return x @ self.parameters["weight"]


def weight(seed=0, shape=(6, 3)):
    return np.random.RandomState(seed).randn(*shape)


def run(reference, candidate, stages=("weights", "forward"), **options):
    return check(
        Side(framework="numpy", model=reference), Side(framework="numpy", model=candidate), inputs=X, stages=list(stages), **options
    )


def pairs(result):
    return {p.key: (p.verdict, p.notes) for p in result["weights"].pairs}


def test_weights_are_copied_compared_and_given_back():
    candidate = Model(weight=weight(1), bias=np.ones(3))
    before = candidate.parameters["weight"].copy()
    result = run(Model(weight=weight(0), bias=np.zeros(3)), candidate)
    assert (result["weights"].verdict, result["forward"].verdict) == (ALIGNED, ALIGNED)
    assert result["weights"].method == "exact"
    assert pairs(result) == {"parameters.weight": (ALIGNED, []), "parameters.bias": (ALIGNED, [])}
    assert result["weights"].notes[0] == "2 tensors mapped, 0 of them in another layout, by layer type"
    np.testing.assert_array_equal(candidate.parameters["weight"], before)


def test_as_they_are_nothing_is_copied_and_differences_are_found():
    result = run(Model(weight=weight(0)), Model(weight=weight(1)), weights="as-is")
    assert (result["weights"].verdict, result["forward"].verdict) == (DIVERGED, DIVERGED)
    assert "the weights were taken as they are (as-is): nothing was copied" in result["weights"].notes
    assert run(Model(weight=weight(0)), Model(weight=weight(0)), weights="as-is").verdict == ALIGNED


def test_a_missing_tensor_diverges_and_the_other_stages_go_on():
    result = run(Model(weight=weight(), scale=np.ones(5)), Model(weight=weight(1)))
    verdict, notes = pairs(result)["parameters.scale"]
    assert (verdict, result["weights"].verdict, result["forward"].verdict) == (DIVERGED, DIVERGED, ALIGNED)
    assert "1 left over in the reference and 0 in the candidate" in notes[0]
    assert result["weights"].divergence.reference.name == "parameters.scale"
    assert result["weights"].divergence.candidate is None


def test_an_extra_tensor_diverges():
    result = run(Model(weight=weight()), Model(weight=weight(1), scale=np.ones(5)))
    assert result["weights"].verdict == DIVERGED
    assert "0 left over in the reference and 1 in the candidate" in pairs(result)["parameters.scale"][1][0]
    assert result["weights"].divergence.candidate.name == "parameters.scale"


def test_another_shape_is_named_on_both_sides():
    result = run(Model(weight=weight(), scale=np.ones(5)), Model(weight=weight(), scale=np.ones(7)))
    assert result["weights"].verdict == DIVERGED
    told = "parameters.scale has shape (5,) in the reference; parameters.scale has (7,) in the candidate"
    assert [p.notes for p in result["weights"].pairs if p.key == "parameters.scale"] == [[told], [told]]


class Held:
    """One layer's parameters."""

    def __init__(self, seed):
        self.parameters = {"weight": weight(seed, (6, 6)).astype("float32")}


class Deep:
    """Layers under the given names; the call uses all of them in order."""

    def __init__(self, seed, *names):
        for number, name in enumerate(names):
            setattr(self, name, Held(seed + number))

    def __call__(self, x):
        for layer in vars(self).values():
            x = x @ layer.parameters["weight"]
        return x


def test_other_names_are_paired_by_order_and_told():
    result = run(Deep(0, "fc"), Deep(7, "head"))
    assert result.verdict == ALIGNED
    assert "1 paired by order of execution, for want of names that tell" in result["weights"].notes


def test_two_that_fit_both_ways_are_told_apart_by_a_run():
    notes = run(Deep(0, "a", "b"), Deep(7, "c", "d"))["weights"].notes
    assert any(note.startswith("proven: ") for note in notes)
    assert not any(note.startswith("ambiguous: ") for note in notes)


def test_two_that_fit_both_ways_are_called_ambiguous_where_nothing_can_be_run():
    sides = (Side(framework="numpy", model=model) for model in (Deep(0, "a", "b"), Deep(7, "c", "d")))
    told = (
        "ambiguous: a.parameters.weight, b.parameters.weight could as well have gone to others of c.parameters.weight, d.parameters.weight"
    )
    assert told in check(*sides, stages=["weights"])["weights"].notes


def test_equal_names_decide_what_no_run_shows():
    end = SimpleNamespace
    none = {"reference": None, "candidate": None}
    moves = {
        "a.gamma": [end(**none, source=end(neutral_name=("a", "gamma")), target=end(neutral_name=("a", "gamma")))],
        "b.gamma": [end(**none, source=end(neutral_name=("b", "gamma")), target=end(neutral_name=("c", "gamma")))],
        "d.gamma": [end(**none, source=None, target=None)],
    }
    plan = end(moves_of=moves.get, candidates_of=lambda _name: [], unsure=set())
    names = list(moves)
    for proof in (end(right=True, ambiguous=[end(seen=False, laid_out=False, reference=names, candidate=[])]), None):
        plan.unsure = set() if proof else set(names)
        result = StageResult("weights", pairs=[Pair(name, None, None, verdict=ALIGNED) for name in names])
        _say_unproven(result, plan, proof)
        assert [p.verdict for p in result.pairs] == [ALIGNED, UNDERPOWERED, UNDERPOWERED]


def test_what_nothing_was_run_for_is_not_called_mapped():
    sides = (Side(framework="numpy", model=model) for model in (Deep(0, "a", "b"), Deep(7, "c", "d")))
    result = check(*sides, stages=["weights"])
    assert result.verdict == UNDERPOWERED
    assert pairs(result)["a.parameters.weight"] == (
        UNDERPOWERED,
        ["others of its shape could stand here as well: nothing was run to prove it"],
    )


def test_where_no_assignment_is_right_none_is_called_mapped():
    class Other(Deep):
        def __call__(self, x):
            return super().__call__(x) + 1

    result = run(Deep(0, "a", "b"), Other(7, "c", "d"))
    assert [s.verdict for s in result.stages] == [UNDERPOWERED, DIVERGED]
    assert pairs(result)["b.parameters.weight"][1] == [
        "others of its shape could stand here as well: no assignment makes the outputs equal"
    ]


def test_the_outputs_may_be_equal_although_a_tensor_is_missing():
    notes = run(Model(weight=weight(), scale=np.ones(5)), Model(weight=weight(1)))["weights"].notes
    assert "the outputs are equal although not all tensors have a counterpart: what is missing does not act on them" in notes


CROSSED = """
[[rename]]
reference = "a"
candidate = "d"

[[rename]]
reference = "b"
candidate = "c"
"""


def test_rules_go_before_all_else_and_are_refuted_by_the_run(tmp_path):
    (tmp_path / "rules.toml").write_text(CROSSED)
    for rules in (rules_from_toml(CROSSED), tmp_path / "rules.toml", str(tmp_path / "rules.toml")):
        result = run(Deep(0, "a", "b"), Deep(7, "c", "d"), rules=rules)
        assert [s.verdict for s in result.stages] == [ALIGNED, DIVERGED]
        assert {p.key: p.candidate.name for p in result["weights"].pairs} == {
            "a.parameters.weight": "d.parameters.weight",
            "b.parameters.weight": "c.parameters.weight",
        }


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (7, "rules must be Rules or the path of a file, not int"),
        ("nowhere.toml", "the file cannot be read: No such file"),
        (Rules((Rename("x", "y"),)), "'x' speaks of no tensor of the reference"),
    ],
)
def test_rules_that_are_none(rules, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        run(Deep(0, "a"), Deep(7, "c"), rules=rules)


class Fresh(Deep):
    """As a new model is: every layer holds the same values."""

    def __init__(self, *names, order=None):
        super().__init__(0, *names)
        self.order = order or names
        for layer in vars(self).copy().values():
            if isinstance(layer, Held):
                layer.parameters["weight"] = (np.arange(36, dtype=np.float32) / 36).reshape(6, 6)

    def __call__(self, x):
        for name in self.order:
            x = np.tanh(x @ getattr(self, name).parameters["weight"])
        return x


def test_places_that_equal_values_hide_are_found_with_others():
    """Both layers hold the same: only once they are moved apart does the run show that they are used the other way round."""
    reference, candidate = Fresh("a", "b"), Fresh("c", "d", order=("d", "c"))
    result = run(reference, candidate)
    assert result.verdict == ALIGNED
    assert {p.key: p.candidate.name for p in result["weights"].pairs} == {
        "a.parameters.weight": "d.parameters.weight",
        "b.parameters.weight": "c.parameters.weight",
    }
    for model in (reference, candidate):
        assert all(
            (layer.parameters["weight"] == Fresh("a").a.parameters["weight"]).all()
            for layer in vars(model).values()
            if isinstance(layer, Held)
        )


def test_a_shared_tensor_is_copied_once():
    def tied(seed):
        model = Model(weight=weight(seed))
        model.again = model.parameters["weight"]
        return model

    result = run(tied(0), tied(1))
    assert result.verdict == ALIGNED
    assert len(result["weights"].pairs) == 2


def test_models_without_weights_are_not_tested_there():
    result = run(lambda x: x, lambda x: x)
    assert (result["weights"].verdict, result["forward"].verdict) == (NOT_TESTED, ALIGNED)
    assert "nothing was compared" in result["weights"].notes


def test_without_a_model_it_says_what_is_missing():
    result = check(Side(framework="numpy", metric=max), Side(framework="numpy", model=lambda x: x), stages=["weights"])
    assert (result.verdict, result["weights"].notes) == (NOT_TESTED, ["the reference has no build_model()"])


def broken():
    raise MemoryError("too large")


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_weights_that_cannot_be_carried_over_fail_their_stage_and_spare_the_data(side):
    data = {"dataset": lambda _: [np.ones(2)]}
    sides = {name: Side(framework="numpy", model=Model(weight=weight()), **data) for name in ("reference", "candidate")}
    sides[side] = Side(framework="numpy", functions={"build_model": broken}, **data)
    result = check(*sides.values(), inputs=X, stages=["weights", "forward", "data"])
    assert {s.name: s.verdict for s in result.stages} == {"weights": ERROR, "forward": NOT_TESTED, "data": ALIGNED}
    assert (result["weights"].failure["side"], result["weights"].failure["type"]) == (side, "MemoryError")
    assert result["forward"].notes == ["the weights could not be carried over"]


def test_where_only_forward_was_asked_for_the_failure_is_told_there():
    sides = Side(framework="numpy", model=Model(weight=weight())), Side(framework="numpy", functions={"build_model": broken})
    (stage,) = check(*sides, inputs=X, stages=["forward"]).stages
    assert (stage.verdict, stage.failure["message"]) == (ERROR, "too large")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_candidate_of_another_precision_gets_rounded_weights_and_the_type_is_told(dtype):
    other = Model(weight=weight(1))
    other.parameters["weight"] = other.parameters["weight"].astype(dtype)
    (pair,) = run(Model(weight=weight()), other, ["weights"])["weights"].pairs
    assert (pair.verdict == ALIGNED) is (dtype == "float64")
    assert f"dtype float32 against {dtype}" in pair.notes


def hidden(*ends):
    """Tensors on which no output depends, each with where it went."""
    plan = SimpleNamespace(candidates_of=lambda name: [SimpleNamespace(name=b) for a, b in ends if a == name])
    return plan, [a for a, _ in ends]


@pytest.mark.parametrize(
    ("ends", "decided"),
    [
        ([("l0_k_bias", "blocks.0.attn.key.bias"), ("l1_k_bias", "blocks.1.attn.key.bias")], True),
        ([("enc.1.fc2.bias", "layers.0.lin.b"), ("enc.2.fc2.bias", "layers.1.lin.b")], True),
        ([("l0_k_bias", "blocks.1.attn.key.bias"), ("l1_k_bias", "blocks.0.attn.key.bias")], False),
        ([("l0_k_bias", "blocks.0.attn.key.bias"), ("l0_q_bias", "blocks.0.attn.query.bias")], False),
        ([("l0_k_bias", "blocks.0.attn.key.bias"), ("l1_q_bias", "blocks.1.attn.key.bias")], False),
        ([("a.bias", "b.bias"), ("c.bias", "d.bias")], False),
    ],
    ids=["blocks", "counted from one", "exchanged", "two of one block", "of two kinds", "no numbers"],
)
def test_one_and_the_same_of_several_blocks_is_decided_by_their_numbers(ends, decided):
    plan, names = hidden(*ends)
    assert numbered_alike(plan, names) is decided


@pytest.mark.parametrize(
    ("ends", "rivals", "silent", "decided"),
    [
        ([("a.0.act.flag", "m.0.seen"), ("a.0.act.scale", "m.0.g"), ("a.1.act.scale", "m.3.g")], ["m.0.seen", "m.3.seen"], (), True),
        ([("q.pool.p", "student.pool.power"), ("q.fc.weight", "student.fc.weight"), ("q.stem.weight", "student.stem.weight"), ("k.fc.weight", "teacher.fc.weight")],
         ["student.pool.power", "teacher.pool.power"], (), True),
        ([("a.0.flag", "m.3.seen"), ("a.0.scale", "m.0.g"), ("a.1.scale", "m.3.g")], ["m.0.seen", "m.3.seen"], (), False),
        ([("a.flag", "m.x.seen"), ("a.scale", "m.x.g"), ("a.shift", "m.y.b")], ["m.x.seen", "m.y.seen"], (), False),
        ([("a.flag", "m.seen"), ("a.scale", "m.g")], ["m.seen", "n.seen"], ("a.scale",), False),
        ([("flag", "seen"), ("scale", "g")], ["seen", "other"], (), False),
    ],
    ids=["beside its layer", "in its tower", "in another layer", "torn apart", "siblings as silent", "of the model itself"],
)  # fmt: skip
def test_what_no_output_shows_is_decided_by_where_its_module_went(ends, rivals, silent, decided):
    plan, names = hidden(*ends)
    plan.sources = [SimpleNamespace(name=name) for name in names]
    assert beside_its_siblings(plan, names[0], rivals, {names[0], *silent}) is decided


def test_no_pass_is_run_on_a_part_of_the_samples():
    sizes = []

    class Watchful(Model):
        def __call__(self, x):
            sizes.append(len(x))
            return super().__call__(x)

    given = np.random.RandomState(1).randn(8, 1 << 15).astype(np.float32)
    sides = [Side(model=Watchful(weight=weight(shape=(1 << 15, 3)))) for _ in range(2)]
    assert check(*sides, inputs=given, stages=["weights", "forward"]).verdict == ALIGNED
    assert set(sizes) == {8}
