"""What two checkpoints differ in: figures, shapes across frameworks, groups that one training shrank."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.conversion import spread as spreading
from paralign.conversion.difference import diff_weights
from paralign.conversion.shrunk import groups
from paralign.conversion.spread import Spread, spread
from paralign.dtypes import Typed, narrow
from paralign.formats import save
from paralign.weights import Rename, Route, Rules


def floats(*shape, seed=0, scale=1.0):
    return Typed((np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32), "float32")


# spread


@given(hnp.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6)), st.integers(1, 50))
def test_the_spread_is_that_of_numpy_in_any_blocks(values, block):
    before, spreading.BLOCK = spreading.BLOCK, block
    try:
        found = spread(Typed(values, "float64"))
    finally:
        spreading.BLOCK = before
    scale = float(np.abs(values).max()) + 1e-9
    assert found.mean == pytest.approx(values.mean(), abs=1e-9 * scale)
    assert found.std == pytest.approx(values.std(), abs=1e-7 * scale)
    assert (found.low, found.high, found.count) == (values.min(), values.max(), values.size)
    assert found.size == pytest.approx(np.sqrt(np.square(values).mean()), abs=1e-7 * scale)


def test_a_large_mean_does_not_swallow_the_deviation():
    assert spread(Typed(np.array([1e8, 1e8 + 1, 1e8 + 2]), "float64")).std == pytest.approx(np.sqrt(2 / 3))


def test_the_spread_of_other_types():
    assert spread(narrow(np.array([1.0, 3.0]), "bfloat16")).mean == 2
    assert spread(Typed(np.array([True, False]), "bool")).mean == 0.5
    assert spread(Typed(np.array([1 + 3j]), "complex64")).high == 3
    assert spread(Typed(np.zeros((0, 3), np.float32), "float32")) == Spread()
    assert spread(Typed(np.array([np.nan, np.inf], np.float32), "float32")) == Spread(unfinite=2)
    turned = Typed(np.arange(6.0).reshape(2, 3).T, "float64")
    assert spread(turned).mean == 2.5


# differences


def test_missing_extra_other_shapes_and_types(tmp_path):
    save(tmp_path / "a.pth", {"same": floats(3), "gone": floats(2), "shape": floats(2, 3), "type": floats(4), "value": floats(4)})
    changed = floats(4).array.copy()
    changed[1] += 1
    other = {
        "same": floats(3),
        "new": floats(2),
        "shape": floats(3, 3),
        "type": narrow(floats(4).array, "bfloat16"),
        "value": Typed(changed, "float32"),
    }
    save(tmp_path / "b.pth", other)
    found = diff_weights(tmp_path / "a.pth", tmp_path / "b.pth")
    assert (found.same, found.missing, found.extra) == (False, ["gone"], ["new"])
    assert [row.candidate for row in found.different] == ["shape", "type", "value"]
    rows = {row.candidate: row for row in found.rows}
    assert rows["shape"].distance is None
    assert rows["type"].dtypes == ("float32", "bfloat16")
    assert rows["value"].mismatched == 1
    assert rows["value"].distance == pytest.approx(1 / np.linalg.norm(floats(4).array), rel=1e-5)
    assert json.loads(found.to_json())["different"] == ["shape", "type", "value"]


def test_the_same_in_another_format_is_the_same(tmp_path):
    tensors = {"a": floats(3, 3), "nan": Typed(np.array([np.nan, 1], np.float32), "float32")}
    save(tmp_path / "a.pth", tensors)
    save(tmp_path / "b.npz", tensors)
    assert diff_weights(tmp_path / "a.pth", tmp_path / "b.npz").same
    save(tmp_path / "c.npz", {**tensors, "nan": Typed(np.array([0, 1], np.float32), "float32")})
    assert [row.candidate for row in diff_weights(tmp_path / "a.pth", tmp_path / "c.npz").different] == ["nan"]


def test_a_tolerance(tmp_path):
    save(tmp_path / "a.pth", {"w": floats(50)})
    save(tmp_path / "b.pth", {"w": Typed(floats(50).array * np.float32(1.001), "float32")})
    assert not diff_weights(tmp_path / "a.pth", tmp_path / "b.pth").same
    assert diff_weights(tmp_path / "a.pth", tmp_path / "b.pth", tolerance=0.0011).same
    assert not diff_weights(tmp_path / "a.pth", tmp_path / "b.pth", tolerance=0.0009).same


def test_across_frameworks_names_of_statistics_and_layouts_of_matrices(tmp_path):
    torch = {
        "fc.weight": floats(4, 3),
        "sq.weight": floats(3, 3),
        "emb.weight": floats(5, 5, seed=2),
        "bn.running_mean": floats(4),
        "bn.num_batches_tracked": Typed(np.array(1), "int64"),
    }
    save(tmp_path / "a.pth", torch)
    paddle = {
        "fc.weight": Typed(floats(4, 3).array.T, "float32"),
        "sq.weight": Typed(floats(3, 3).array.T, "float32"),
        "emb.weight": floats(5, 5, seed=2),
        "bn._mean": floats(4),
    }
    save(tmp_path / "b.pdparams", paddle)
    for one, other in (("a.pth", "b.pdparams"), ("b.pdparams", "a.pth")):
        found = diff_weights(tmp_path / one, tmp_path / other)
        assert found.same, found.to_json()
        assert found.dropped == ["bn.num_batches_tracked"]
        notes = {row.candidate: row.note for row in found.rows}
        assert notes["fc.weight"] == "compared transposed: the shapes allow no other way"
        assert notes["sq.weight"] == "compared transposed: the values say so"
        assert notes["emb.weight"] == ""
    wrong = {**paddle, "sq.weight": floats(3, 3)}
    save(tmp_path / "c.pdparams", wrong)
    found = diff_weights(tmp_path / "a.pth", tmp_path / "c.pdparams")
    assert {row.candidate: row.note for row in found.rows}["sq.weight"] == ""  # equal as it lies: whether that is right no value can tell


def test_one_framework_is_never_compared_transposed(tmp_path):
    save(tmp_path / "a.pth", {"w": floats(4, 3), "s": floats(3, 3)})
    save(tmp_path / "b.pth", {"w": Typed(floats(4, 3).array.T, "float32"), "s": Typed(floats(3, 3).array.T, "float32")})
    assert [row.distance is None for row in diff_weights(tmp_path / "a.pth", tmp_path / "b.pth").rows] == [True, False]


def test_rules_lead_from_the_first_to_the_second(tmp_path):
    save(tmp_path / "a.pth", {"q": floats(2, 3), "k": floats(2, 3, seed=1), "old": floats(4)})
    save(tmp_path / "b.npz", {"qk": Typed(np.concatenate([floats(2, 3).array, floats(2, 3, seed=1).array]), "float32"), "new": floats(4)})
    routes = tuple(Route(name, "qk", None, f"rows({2 * n}, {2 * n + 2})", shape=(4, 3)) for n, name in enumerate("qk"))
    found = diff_weights(tmp_path / "a.pth", tmp_path / "b.npz", rules=Rules((Rename("old", "new"),), routes))
    assert found.same
    assert {row.reference for row in found.rows} == {"q + k", "old"}


def test_nothing_in_common_is_different(tmp_path):
    save(tmp_path / "a.pth", {"x": floats(2)})
    save(tmp_path / "b.pth", {"y": floats(2)})
    found = diff_weights(tmp_path / "a.pth", tmp_path / "b.pth")
    assert not found.same
    assert "no tensor is in both" in found.notes[-1]


# groups


def trained(seed, shrunk="", factor=1.0, layers=8):
    """Spreads of a model after training: sizes vary a little with the seed, those of some tensors are shrunk."""
    random = np.random.default_rng(seed)
    found = {}
    for n in range(layers):
        for name, rank, mean, std, vary in (
            ("fc1.weight", 2, 0.0, 0.08, 0.03),
            ("fc2.weight", 2, 0.0, 0.06, 0.03),
            ("fc1.bias", 1, -0.01, 0.07, 0.15),
            ("norm.weight", 1, 1.0, 0.04, 0.01),
            ("norm.bias", 1, 0.0, 0.03, 0.2),
        ):
            scale = float(np.exp(random.normal(0, vary))) * (factor if shrunk and shrunk in f"{name} of every one" else 1.0)
            found[f"blocks.{n}.{name}"] = rank, Spread(10_000 if rank > 1 else 100, mean * scale, std * scale)
    scale = factor if shrunk in ("pos", "every one") else 1.0
    found["pos"] = 3, Spread(10_000, 0.0, 0.15 * scale * float(np.exp(random.normal(0, 0.03))))
    return found


def suspects(first, second):
    return {g.name: g.smaller for g in groups([(name, rank, (one, second[name][1])) for name, (rank, one) in first.items()]) if g.smaller}


@pytest.mark.parametrize("seed", range(20))
def test_two_trainings_that_differ_in_their_seed_show_nothing(seed):
    assert suspects(trained(seed), trained(seed + 100)) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("shrunk", "factor", "group"),
    [("norm.weight", 0.7, "blocks.{}.norm.weight"), ("pos", 0.4, "pos"), ("fc1.bias", 0.2, "blocks.{}.fc{}.bias")],
)
def test_what_was_decayed_in_one_training_alone_is_named(seed, shrunk, factor, group):
    assert suspects(trained(seed), trained(seed + 100, shrunk, factor)) == {group: "second"}
    assert suspects(trained(seed + 100, shrunk, factor), trained(seed)) == {group: "first"}


def test_all_tensors_smaller_alike_are_no_suspects():
    assert suspects(trained(1), trained(2, "every one", 0.5)) == {}


def test_figures_of_a_group():
    found = groups([(name, rank, (one, trained(9, "norm.weight", 0.5)[name][1])) for name, (rank, one) in trained(8).items()])
    first = found[0]
    assert (first.name, first.tensors, first.elements, first.smaller) == ("blocks.{}.norm.weight", 8, 800, "second")
    assert first.factor == pytest.approx(0.5, rel=0.03)
    assert first.usual == pytest.approx(1.0, rel=0.05)
    assert first.means == pytest.approx((1.0, 0.5), rel=0.03)
    assert groups([]) == []
