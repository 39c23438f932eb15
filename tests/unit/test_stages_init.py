"""The stage ``init``: right laws pass, wrong ones are named with the line and what to write; what cannot be told is said."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Coverage, Record
from paralign.run.project import check_stages
from paralign.stages.init import stage
from paralign.worker.draws import initial

draw = np.random  # the global generator is what a check seeds
BOUND = 1 / math.sqrt(32)  # fan_in of a weight of 64 outputs and 32 inputs


class Model:
    def __init__(self, parameters, buffers):
        self.parameters = {name: np.asarray(value, "float32") for name, value in parameters.items()}
        for name, value in buffers.items():
            setattr(self, name, np.asarray(value, "float32"))

    def __call__(self, x):
        return x


def orthogonal(gain, size=24):
    q, r = np.linalg.qr(draw.normal(size=(size, size)))
    return gain * q * np.sign(np.diag(r))


def truncated(std, shape):
    values = draw.normal(0, std, (4, *shape))
    return np.take_along_axis(values, np.argmax(np.abs(values) <= 2 * std, axis=0)[None], 0)[0]


RIGHT = {
    "weight": lambda: draw.uniform(-BOUND, BOUND, (64, 32)),
    "bias": lambda: draw.uniform(-BOUND, BOUND, 64),
    "square": lambda: orthogonal(1.0),
    "table": lambda: draw.normal(0, 1, (50, 8)),
    "cut": lambda: truncated(0.02, (40, 30)),
    "last": lambda: np.zeros((4, 10)),
    "scale": lambda: np.ones(7),
}


def side(buffers=None, **changed):
    made = {**RIGHT, **changed}

    def build_model():
        return Model({name: make() for name, make in made.items() if make}, {n: make() for n, make in (buffers or {}).items()})

    return Side(framework="numpy", functions={"build_model": build_model})


def checked(reference, candidate):
    return check(reference, candidate, stages=["init"])["init"]


def wrong(result):
    return [p.key for p in result.pairs if p.verdict == DIVERGED]


def test_a_right_initialisation_is_aligned_and_its_laws_are_named():
    result = checked(side(), side())
    assert (result.verdict, wrong(result)) == (ALIGNED, [])
    assert result.coverage == [Coverage("seeds", 30, 30), Coverage("tensors", 7, 7)]
    said = {p.key.rpartition(".")[2]: p.notes[0] for p in result.pairs}
    assert said["weight"].startswith("PyTorch's default U(±1/sqrt(fan_in)) = U(-0.1768, 0.1768)")
    assert said["square"].startswith("orthogonal, gain 1 ")
    assert said["table"].startswith("N(mean ")
    assert said["cut"].startswith("normal of std 0.02")
    assert said["scale"] == "constant 1 in the reference, constant 1 in the candidate"


FAULTS = {
    "another family": ("weight", lambda: draw.normal(0, math.sqrt(2 / 96), (64, 32)), "XavierNormal"),
    "scale": ("weight", lambda: draw.uniform(-1.1 * BOUND, 1.1 * BOUND, (64, 32)), "U(-0.1945, 0.1945)"),
    "constant bias": ("bias", lambda: np.zeros(64), "constant 0"),
    "gain": ("square", lambda: orthogonal(1.2), "orthogonal, gain 1.2"),
    "not orthogonal": ("square", lambda: draw.normal(0, 1 / math.sqrt(24), (24, 24)), "LeCunNormal"),
    "uniform table": ("table", lambda: draw.uniform(-math.sqrt(3), math.sqrt(3), (50, 8)), "U(-1.73"),
    "not cut": ("cut", lambda: draw.normal(0, 0.0176, (40, 30)), "N(mean"),
    "last layer not zero": ("last", lambda: draw.normal(0, 0.02, (4, 10)), "N(mean"),
    "another constant": ("scale", lambda: np.full(7, 0.999), "constant 0.999"),
    "mean": ("table", lambda: draw.normal(0.1, 1, (50, 8)), "N(mean 0.1"),
    "a seed of its own": ("table", lambda: np.random.RandomState(5).normal(0, 1, (50, 8)), "the same under every seed"),
    "nan": ("last", lambda: [[np.nan] * 10] * 4, "constant"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_initialisation_is_found_and_both_laws_are_said(fault):
    name, make, law = FAULTS[fault]
    result = checked(side(), side(**{name: make}))
    assert (result.verdict, wrong(result)) == (DIVERGED, [f"init parameters.{name}"])
    assert law in result.findings[0].cause or fault == "nan"
    assert result.divergence.candidate.name == f"parameters.{name}"


def test_tables_and_other_buffers_are_compared_too():
    table = {"positions": lambda: np.sin(np.arange(300.0)), "noise": lambda: draw.normal(0, 1, 400)}
    assert checked(side(table), side(table)).verdict == ALIGNED
    result = checked(side(table), side({"positions": lambda: np.sin(np.arange(300.0)), "noise": lambda: draw.normal(0, 1.2, 400)}))
    assert wrong(result) == ["init noise"]


def test_tensors_that_start_equal_on_one_side_only_are_named():
    def build_model():
        model = Model({name: make() for name, make in RIGHT.items()}, {})
        model.parameters["twin"] = model.parameters["weight"].copy()
        return model

    copied = Side(framework="numpy", functions={"build_model": build_model})
    result = checked(copied, side(twin=RIGHT["weight"]))
    assert result.verdict == DIVERGED
    assert [f.cause for f in result.findings] == ["parameters.weight, parameters.twin start from equal values in the reference only"]
    assert checked(copied, copied).verdict == ALIGNED


def test_a_model_that_ignores_the_seed_shows_nothing():
    values = {name: make() for name, make in RIGHT.items()}
    fixed = {name: partial(values.get, name) for name in RIGHT}
    result = checked(side(**fixed), side(**fixed))
    assert result.verdict == UNDERPOWERED
    assert any("neither side's values depend on the seed" in note for note in result.notes)


def test_a_tensor_that_is_too_small_to_tell_is_not_called_equal():
    result = checked(side(one=lambda: draw.normal(0, 1, 1)), side(one=lambda: draw.normal(0, 1, 1)))
    assert (result.verdict, result.coverage[1]) == (ALIGNED, Coverage("tensors", 7, 8))
    assert any(note.startswith("too small for 30 seeds to show a wrong scale, not judged: parameters.one") for note in result.notes)


def test_a_model_that_is_there_already_is_not_tested():
    model = Model({name: make() for name, make in RIGHT.items()}, {})
    result = checked(Side(framework="numpy", model=model), Side(framework="numpy", model=model))
    assert result.verdict == NOT_TESTED
    assert (
        result.notes[0] == "the reference's build_model() returns one and the same model each time: give a function that builds a new one"
    )


def test_a_model_that_cannot_be_built_under_one_seed_is_an_error_with_that_seed():
    built = []

    def build_model():
        built.append(0)
        if len(built) == 6:
            raise ValueError("drawn too small")
        return Model({name: make() for name, make in RIGHT.items()}, {})

    result = checked(side(), Side(framework="numpy", functions={"build_model": build_model}))
    assert result.verdict == ERROR
    assert result.failure["side"] == "candidate"
    assert result.failure["message"].startswith("build_model() under seed ")
    assert result.failure["message"].endswith(": drawn too small")
    assert "raise ValueError" in result.failure["frames"][-1]


def test_shapes_that_change_with_the_seed_are_an_error_that_names_them():
    grown = []

    def bias():
        grown.append(0)
        return np.zeros(64 if len(grown) < 4 else 63)

    result = checked(side(), side(bias=bias))
    assert result.verdict == ERROR
    assert "parameters.bias has shape [64] under seed 31 and has shape [63] under seed" in result.failure["message"]


def from_checkpoint(changed=None, build=None):
    """A side whose ``build_model()`` loads what was trained, and whose ``build_untrained()`` draws."""
    trained = {name: np.asarray(make(), "float32") for name, make in RIGHT.items()}
    drawn = {**RIGHT, **(changed or {})}
    functions = {
        "build_model": lambda: Model(trained, {}),
        "build_untrained": build or (lambda: Model({name: make() for name, make in drawn.items()}, {})),
    }
    return Side(framework="numpy", functions=functions)


def test_where_a_checkpoint_is_loaded_the_untrained_model_is_judged():
    result = checked(from_checkpoint(), from_checkpoint())
    assert (result.verdict, result.coverage[1]) == (ALIGNED, Coverage("tensors", 7, 7))
    result = checked(from_checkpoint(), from_checkpoint({"weight": lambda: draw.uniform(-2 * BOUND, 2 * BOUND, (64, 32))}))
    assert (result.verdict, wrong(result)) == (DIVERGED, ["init parameters.weight"])
    without = Side(framework="numpy", functions={"build_model": from_checkpoint().functions["build_model"]})
    assert checked(without, without).verdict == UNDERPOWERED
    loaded = checked(without, side())
    assert (loaded.verdict, loaded.findings, loaded.divergence) == (UNDERPOWERED, [], None), "no line of the candidate's is blamed for it"
    assert any("the reference's values do not depend on the seed, the candidate's do" in note for note in loaded.notes)
    assert checked(side(), without).verdict == DIVERGED, "a port that does not draw what the reference draws"
    assert checked(from_checkpoint(), side()).verdict == ALIGNED, "each side is built by what it has"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: "a model", "build_untrained() returned a builtins.str, which is no numpy model"),
        (
            lambda: Model({**{name: make() for name, make in RIGHT.items()}, "bias": np.zeros(63)}, {}),
            "build_untrained() makes another model than build_model(): parameters.bias: the latter has shape [64], the former has shape [63]",
        ),
        (
            lambda: Model({name: make() for name, make in RIGHT.items() if name != "scale"}, {}),
            "parameters.scale: the latter has shape [7], the former has no such tensor",
        ),
    ],
)
def test_an_untrained_model_that_is_another_one_is_an_error(build, said):
    result = checked(side(), from_checkpoint(build=build))
    assert result.verdict == ERROR
    assert result.failure["side"] == "candidate"
    assert said in result.failure["message"]


def test_few_seeds_are_underpowered_and_the_number_is_said(project):
    for name in ("reference", "candidate"):
        project.edit(name, "random = np.random.RandomState(0)", "random = np.random")
    project.write(more="[init]\nseeds = 8")
    done = project.check("init")
    result = project.stage("init")
    assert (done.code, result["verdict"]) == (4, UNDERPOWERED)
    assert any(note.startswith("8 seeds a side were built, 30 are needed") for note in result["notes"])
    project.write(more="")
    assert project.check("init").code == 0
    project.edit("candidate", "random.randn(6, 3)", "1.3 * random.randn(6, 3)")
    assert project.check("init").code == 1
    project.write(more="[init]\nseeds = 1")
    done = project.check("init")
    assert done.code == 2
    assert "'seeds' must be at least 2" in done.err


def test_the_stage_runs_only_when_it_is_named():
    assert "init" not in [s.name for s in check(side(), side()).stages]
    assert check_stages(["infer", "init"]) == ["init", "infer"]


def test_memory_is_bounded_by_what_is_kept_of_a_tensor():
    assert initial._kept(10, 30) == 256
    assert initial._kept(10_000, 30) == 55
    assert initial._kept(10**6, 30) == 16


def test_a_helper_that_makes_others_rightly_is_not_named_for_one():
    made = {"body.weight": ["helper.py:3", "model.py:8"], "head.weight": ["helper.py:3", "model.py:9"]}
    records = {name: Record(0, name, "", "parameter", "float32", (2,), attrs={"owner": name.partition(".")[0]}) for name in made}
    words = object.__new__(stage._Words)  # the lines of a side, without the capture that they stand in
    words.built, words._right = {name.partition(".")[0]: lines for name, lines in made.items()}, set()
    assert words.point(records["head.weight"]).source == "helper.py:3"
    words.excuse([records["body.weight"]])
    point = words.point(records["head.weight"])
    assert (point.source, point.lines) == ("model.py:9", ["helper.py:3"])
    words.excuse([records["head.weight"]])
    assert words.point(records["head.weight"]).source == "helper.py:3", "where all lines are right of others, the innermost"


def ones_at(first, size=48):
    """A bias whose middle third, or another, is 1."""

    def make():
        values = np.zeros(size)
        values[first : first + size // 3] = 1.0
        return values

    return make


@pytest.mark.parametrize("size", [48, 3000])
def test_the_same_values_at_other_places_diverge_however_large(size):
    right, wrong = ones_at(size // 3, size), ones_at(0, size)
    assert checked(side(gates=right), side(gates=right)).verdict == ALIGNED
    result = checked(side(gates=right), side(gates=wrong))
    assert result.verdict == DIVERGED
    assert [d.candidate.name for d in result.divergences] == ["parameters.gates"]
    assert "element 0 is 1 in the candidate, 0 in the reference" in result.findings[0].cause


def test_values_of_one_formula_that_rounding_parts_are_no_other_places():
    def table(last):
        return lambda: np.sin(np.arange(60.0)) * (1 + last)

    assert checked(side(table=table(0.0)), side(table=table(1e-7))).verdict == ALIGNED


def test_drawn_values_have_no_places():
    assert checked(side(bias=lambda: draw.permutation(ones_at(0)())), side(bias=lambda: draw.permutation(ones_at(0)()))).verdict == ALIGNED


def test_one_formula_written_in_two_ways_is_at_its_places():
    """Sorted, their errors are smaller than by element."""
    k, n = np.arange(23, dtype="float32")[:, None], np.arange(44, dtype="float32")
    ways = [np.cos(np.float32(2 * np.pi) * k * n / np.float32(44)), np.cos(np.float32(2 * np.pi / 44) * (k * n))]
    assert checked(side(basis=lambda: ways[0]), side(basis=lambda: ways[1])).verdict == ALIGNED


def test_a_large_table_in_another_order_of_columns_diverges():
    place, rate = np.arange(512)[:, None], np.arange(64)
    halves = [f(place / 10000 ** (rate / 64)) for f in (np.sin, np.cos)]
    apart, woven = np.concatenate(halves, 1), np.stack(halves, 2).reshape(512, 128)
    assert checked(side(table=lambda: woven), side(table=lambda: woven)).verdict == ALIGNED
    assert checked(side(table=lambda: woven), side(table=lambda: apart)).verdict == DIVERGED


def test_an_infinite_mask_on_the_other_side_of_the_diagonal_diverges():
    later = np.triu(np.full((6, 6), -np.inf), 1)
    assert checked(side(mask=lambda: later), side(mask=lambda: later)).verdict == ALIGNED
    assert checked(side(mask=lambda: later), side(mask=lambda: later.T)).verdict == DIVERGED


def test_another_order_that_was_drawn_once_is_told():
    orders = [np.random.default_rng(seed).permutation(40) for seed in (1, 2)]
    result = checked(side(order=lambda: orders[0]), side(order=lambda: orders[1]))
    assert result.verdict == ALIGNED
    assert any("not judged: parameters.order" in warning for warning in result.warnings)
