"""Forward, and the check as a whole, on live numpy sides: methods, verdicts, warnings, notes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paralign.api import check
from paralign.checking import differences, failed, leave_out_known, say_follows
from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, CheckResult, Divergence, Point, Side, StageResult
from paralign.worker.protocol import Description

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(8, 6).astype("float32")
LABELS = np.arange(8) % 3
W = RANDOM.randn(6, 3).astype("float32")


def model(x):
    return x @ W.astype(x.dtype)


def run(reference, candidate, *stages, **options):
    sides = [Side(framework="numpy", **(s if isinstance(s, dict) else {"model": s})) for s in (reference, candidate)]
    result = check(*sides, stages=list(stages) or ["forward"], **{"inputs": X, "labels": LABELS, **options})
    json.loads(result.to_json())
    return result if len(stages) > 1 else result.stages[0]


# -- two sides in one process ------------------------------------------------------------------------------------------------


class Drawing:
    """A data set whose samples come from numpy's global generator, slowly enough for two that ran at once to get in each other's way."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        first = np.random.randn(4)  # noqa: NPY002 - what users draw from
        time.sleep(0.01)
        return np.concatenate([first, np.random.randn(4)])  # noqa: NPY002


def test_sides_that_draw_from_the_process_own_generator_do_not_disturb_each_other():
    side = {"dataset": lambda split: Drawing()}  # noqa: ARG005
    result = run(side, side, "data")
    assert (result.verdict, result.findings) == (ALIGNED, [])


def test_a_side_that_ends_the_process_fails_by_itself():
    def leaves(x):
        sys.exit("no such opset")

    result = run(model, leaves)
    assert result.verdict == ERROR
    assert "no such opset" in str(result.failure)


# -- forward -----------------------------------------------------------------------------------------------------------------


def test_the_same_computation_in_another_order_is_aligned():
    result = run(model, lambda x: (W.T.astype(x.dtype) @ x.T).T)
    assert (result.verdict, result.method) == (ALIGNED, "float64")
    assert result.divergence is None


@pytest.mark.parametrize("relative", [1e-5, 1e-2, 1.0])
def test_a_difference_above_the_noise_diverges(relative):
    result = run(model, lambda x: model(x) * (1 + relative))
    assert result.verdict == DIVERGED
    assert result.worst.error == pytest.approx(relative, rel=1e-3)
    assert result.divergence.pair.key == "output"


def test_the_users_ratio_decides():
    assert run(model, lambda x: model(x) * (1 + 1e-3), ratio=1e6).verdict == ALIGNED
    assert run(model, lambda x: model(x) * (1 + 1e-3), atol=1.0).verdict == ALIGNED
    assert run(model, lambda x: model(x) * (1 + 1e-9), atol=0.0).verdict == DIVERGED


def stretched(x, share, dtype=None):
    """What a third that is kept in a type is off by, made large, times a share."""
    one = np.dtype(dtype or x.dtype).type(1)
    return x * (1 + share * 1e4 * (float(one / one.dtype.type(3)) - 1 / 3))


@pytest.mark.parametrize(("share", "verdict"), [(1.01, ALIGNED), (-1.2, DIVERGED), (3.0, DIVERGED)])
def test_the_rounding_of_the_references_native_run_is_no_fault(share, verdict):
    result = run(lambda x: stretched(x, 1.0), lambda x: stretched(x, share, "float32"))
    assert result.verdict == verdict
    assert any("native run" in note for pair in result.pairs for note in pair.notes) == (verdict == ALIGNED)


def low(x):
    """A candidate that rounds to float32 whatever it is given."""
    return model(x).astype(np.float32)


def refusing(x):
    if x.dtype == np.float64:
        raise TypeError("no kernel for float64")
    return model(x)


def test_a_candidate_that_computes_lower_is_judged_more_kindly_and_told():
    result = run(model, low)
    assert (result.verdict, result.method) == (ALIGNED, "float64, partly in lower precision")
    assert "the candidate computes in lower precision even where everything is float64, in output (float32)" in result.notes[0]


def test_a_candidate_without_float64():
    result = run(model, refusing)
    assert (result.verdict, result.method) == (ALIGNED, "native against float64")
    assert "the candidate does not run in float64: TypeError: no kernel for float64" in result.notes
    assert run(model, lambda x: refusing(x) * np.float32(1.001)).verdict == DIVERGED


def test_a_reference_without_float64_is_perturbed():
    result = run(refusing, model)
    assert (result.verdict, result.method) == (ALIGNED, "perturbation")
    assert "the reference does not run in float64: TypeError: no kernel for float64" in result.notes
    assert result.pairs[0].noise.how == "inputs moved by one unit in the last place"
    assert run(refusing, lambda x: model(x) * x.dtype.type(1.001)).verdict == DIVERGED


def test_constant_outputs_prove_nothing_but_a_difference_does():
    result = run(lambda x: np.ones((2, 3), x.dtype), lambda x: np.ones((2, 3), x.dtype))
    assert result.verdict == UNDERPOWERED
    assert result.warnings == ["output is constant: it can agree although the model is wrong. Use other inputs or trained weights"]
    assert run(lambda x: np.ones((2, 3), x.dtype), lambda x: np.full((2, 3), 2, x.dtype)).verdict == DIVERGED


@pytest.mark.parametrize(("size", "warned"), [(1e-10, True), (1e-3, False)])
def test_vanishing_outputs_are_warned_about(size, warned):
    result = run(lambda x: model(x) * x.dtype.type(size), lambda x: model(x) * x.dtype.type(size))
    assert result.verdict == ALIGNED
    assert any(w.startswith("the outputs vanish (output has a root mean square of") for w in result.warnings) is warned


def test_all_zero_outputs_are_constant_not_vanishing():
    result = run(lambda x: 0 * model(x), lambda x: 0 * model(x))
    assert result.verdict == UNDERPOWERED
    assert len(result.warnings) == 1


def test_nested_outputs_are_compared_leaf_by_leaf():
    result = run(lambda x: {"a": model(x), "b": [x, None]}, lambda x: {"b": [x, None], "a": model(x)})
    assert (result.verdict, [p.key for p in result.pairs]) == (ALIGNED, ["output.a", "output.b.0"])


@pytest.mark.parametrize(
    ("reference", "candidate", "verdict", "told"),
    [
        (model, lambda x: [model(x)], ALIGNED, "a tensor in the reference, a list of 1 in the candidate"),
        (
            lambda x: (model(x), x),
            lambda x: {"a": model(x), "b": x},
            ALIGNED,
            "a tuple of 2 in the reference, a dict of a, b in the candidate",
        ),
        (model, lambda _: None, DIVERGED, "a tensor in the reference, nothing in the candidate"),
        (lambda x: (model(x), x), model, DIVERGED, "a tuple of 2 in the reference, a tensor in the candidate"),
    ],
)
def test_outputs_that_are_built_differently_are_told(reference, candidate, verdict, told):
    result = run(reference, candidate)
    assert result.verdict == verdict
    assert f"the outputs are built differently: {told}" in result.notes


def test_outputs_with_axes_of_length_one_on_one_side_alone_are_said():
    """A loss of [N] against [N, 1] broadcasts to [N, N]."""
    inputs = np.arange(10.0).reshape(5, 2)

    def notes(theirs, ours):
        sides = Side(framework="numpy", model=theirs), Side(framework="numpy", model=ours)
        result = check(*sides, inputs=inputs, stages=["forward"])["forward"]
        assert result.verdict == "aligned"
        return [note for note in result.notes if "broadcast" in note]

    (note,) = notes(lambda x: x[:, :1], lambda x: x[:, 0])
    assert note.startswith("output: shape [5, 1] in the reference, [5] in the candidate")
    assert not notes(lambda x: x[:, :1], lambda x: x[:, :1])
    assert not notes(lambda x: x.sum(), lambda x: x.sum()[None])


def test_a_transposed_output_is_recognised_and_not_accepted():
    result = run(model, lambda x: model(x).T)
    assert result.verdict == DIVERGED
    assert any("the candidate's values are the reference's" in n for n in result.pairs[0].notes)


def test_outputs_without_a_tensor_are_not_tested():
    result = run(lambda _: None, lambda _: None)
    assert (result.verdict, result.notes[-1]) == (NOT_TESTED, "nothing was compared")


def test_without_inputs_it_says_how_to_give_them():
    result = run(model, model, inputs=None)
    assert (result.verdict, result.notes) == (NOT_TESTED, ["no inputs: define inputs() in the reference, or set [inputs] in paralign.toml"])


def test_an_exception_is_the_sides_failure():
    def broken(x):
        raise IndexError(x.shape)

    failure = run(model, broken).failure
    assert (failure["side"], failure["type"], failure["log"]) == ("candidate", "IndexError", None)
    assert "def broken" not in failure["message"]
    assert "broken" in failure["traceback"]
    assert [f.split(" in ")[1] for f in failure["frames"]] == ["broken: raise IndexError(x.shape)"]
    assert failure["frames"][0].startswith(f"{__file__}:")


def test_a_failure_that_is_not_one_of_a_worker_is_ours_and_surfaces():
    with pytest.raises(UsageError, match="cannot be recorded"):
        run(model, model, inputs={"x": object()})


def test_a_failure_becomes_a_result():
    result = failed("loss", WorkerFailed("killed", "by signal SIGKILL", log="x.log", side="candidate"))
    assert (result.name, result.verdict) == ("loss", ERROR)
    assert result.failure.pop("remedy")["id"] == "host-memory"
    assert result.failure == {
        "side": "candidate",
        "type": "killed",
        "message": "by signal SIGKILL",
        "traceback": "",
        "frames": [],
        "log": "x.log",
    }


class Layer:
    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, x):
        return np.tanh(x) * self.factor


class Net:
    def __init__(self, *factors):
        self.layers = [Layer(f) for f in factors]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_first_guilty_module_is_named():
    result = run(Net(1, 1, 1), Net(1, 1.1, 1))
    divergence = result.divergence
    assert (divergence.candidate.name, divergence.candidate.op) == ("layers.1", "Layer")
    assert divergence.last_agreeing


# -- training stages need gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["loss", "backward"])
def test_frameworks_without_gradients_are_told(stage):
    side = {"model": model, "loss": lambda o, _: o.mean(), "optimizer": lambda p: p}
    result = run(side, side, stage)
    assert result.verdict == NOT_TESTED
    assert result.notes == ["the reference's framework numpy has no gradients", "the candidate's framework numpy has no gradients"]


# -- the check as a whole ----------------------------------------------------------------------------------------------------------


def program(scale=1.0, name="cat"):
    def predict(path, network):
        return {"scores": network(X[:2]) * np.float32(scale), "name": name, "size": len(Path(path).read_text())}

    return {"model": model, "predict": predict}


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "one.txt").write_text("1")
    (tmp_path / "two.txt").write_text("22")
    return [str(tmp_path / "one.txt"), str(tmp_path / "two.txt")]


def test_stages_run_in_their_order_and_a_later_divergence_points_back(paths):
    wrong = {**program(), "model": lambda x: model(x) * 2}
    result = run(program(), wrong, "infer", "forward", paths=paths)
    assert [s.name for s in result.stages] == ["forward", "infer"]
    assert result["infer"].follows == ["forward"]
    assert result.to_dict()["stages"][1]["follows"] == ["forward"]


def test_a_divergence_without_a_line_is_listed_as_well(paths):
    stage = run(program(), program(scale=2), "infer", paths=paths)
    assert stage.verdict == DIVERGED
    assert stage.divergences == [stage.divergence]
    assert stage.divergence is not None


def test_weights_that_were_not_asked_for_and_are_wrong_are_said_once():
    carried, result = StageResult("weights", DIVERGED), CheckResult()
    for name, verdict in (("loss", ALIGNED), ("forward", DIVERGED), ("backward", DIVERGED)):
        result.stages.append(StageResult(name, verdict))
        say_follows(result, carried)
    assert [len(stage.warnings) for stage in result.stages] == [1, 0, 0]
    assert [stage.follows for stage in result.stages] == [[], ["weights"], ["weights", "forward"]]


class Descent:
    """An optimizer, as a user may hand it over in place of a function that makes one."""


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"optimizer": Descent()}, r"the candidate's optimizer must be a function, optimizer\(parameters\) -> optimizer, not a Descent"),
        ({"optimizer": [Descent()]}, r"must be a function, optimizer\(parameters\) -> optimizer, not a list"),
        ({"loss": 1.0}, r"loss must be a function, loss\(outputs, labels\), not a float"),
        ({"dataset": [X]}, r"dataset must be a function, build_dataset\(split\), not a list"),
        ({"functions": {"metric": 3}}, r"functions\['metric'\] must be a function, metric\(outputs, labels\), not an int"),
    ],
)
def test_an_object_in_place_of_a_function_is_refused_with_what_is_expected(given, what):
    with pytest.raises(UsageError, match=what):
        run(model, {"model": model, **given})


def test_nothing_asked_of_a_side_is_done_twice():
    built = []

    def build():
        built.append(1)
        return model

    sides = [Side(framework="numpy", functions={"build_model": build}) for _ in range(2)]
    assert check(*sides, inputs=X, stages=["weights", "forward"])["forward"].verdict == ALIGNED
    assert len(built) == 2


@pytest.mark.parametrize(
    "arguments", [{"stages": []}, {"steps": 0}, {"steps": -1}, {"ratio": -1.0}, {"ratio": float("nan")}, {"seed": -1}], ids=str
)
def test_arguments_that_cannot_work_are_refused(arguments):
    sides = Side(framework="numpy", model=model), Side(framework="numpy", model=lambda x: model(x) * (1 + 1e-12))
    with pytest.raises(UsageError):
        check(*sides, **{"inputs": X, "stages": ["forward"], **arguments})


@pytest.mark.parametrize("arguments", [{"atol": -1.0}, {"rtol": float("nan")}, {"stages": ["forwards"]}, {"weights": "maybe"}], ids=str)
def test_what_is_no_choice_is_refused(arguments):
    sides = Side(framework="numpy", model=model), Side(framework="numpy", model=model)
    with pytest.raises(UsageError):
        check(*sides, **{"inputs": X, "stages": ["forward"], **arguments})


def test_an_output_folder_keeps_everything_and_can_be_used_again(tmp_path):
    for _ in range(2):
        result = run(model, model, inputs=X, out=tmp_path / "deep" / "result")
    assert result.verdict == ALIGNED
    names = {p.name for p in (tmp_path / "deep" / "result").iterdir()}
    assert names == {
        ".paralign.lock",
        "captures",
        "figures.json",
        "forward_numpy.npy",
        "forward_ref.npy",
        "log",
        "report.html",
        "report.json",
    }


def test_the_preflight_names_both_sides():
    result = check(Side(framework="numpy", model=model), Side(framework="numpy", model=model), inputs=X, stages=["forward"])
    assert [line.split(":")[0] for line in result.preflight] == ["reference", "candidate"]
    assert f"numpy {np.__version__} on cpu" in result.preflight[0]


def test_a_side_that_cannot_be_described_fails_every_stage():
    result = check(Side(model=3), Side(framework="numpy", model=model), inputs=X, stages=["weights", "data"])
    assert {s.verdict for s in result.stages} == {ERROR}
    assert "no adapter claims a model of type builtins.int" in result["data"].failure["message"]


def about(framework="torch", device="cpu", **flags):
    return Description([], framework, device=device, flags=flags)


@pytest.mark.parametrize(
    ("reference", "candidate", "told"),
    [
        (about(threads=1), about(threads=1), []),
        (about(threads=1), about(threads=2), ["threads: 1 against 2"]),
        (about(threads=1), about("paddle", threads=2), []),
        (about(), about(device="gpu:0"), ["the sides run on different devices: cpu and gpu:0"]),
        (about(cudnn_tf32=True), about(cudnn_tf32=True), []),
        (about("paddle", "gpu:0", matmul_tf32=True), about("torch", "gpu:0", matmul="tf32", cudnn_tf32=False), [
            "reference: matmul_tf32 is True: float32 products are rounded to 10 bits",
            "candidate: matmul is tf32: float32 products are rounded to 10 bits",
        ]),
        (about(), about(device="gpu:0", matmul="tf32", cudnn="tf32", NVIDIA_TF32_OVERRIDE="0"), [
            "the sides run on different devices: cpu and gpu:0",
            'candidate: matmul, cudnn would round float32 products to 10 bits; this check computes them in full (NVIDIA_TF32_OVERRIDE = "" in `env` leaves it to the program)',
        ]),
    ],
)  # fmt: skip
def test_what_differs_between_the_sides_is_said_first(reference, candidate, told):
    assert differences(reference, candidate) == told


@pytest.mark.parametrize(("size", "verdict"), [(1e-7, ALIGNED), (1e-4, ALIGNED), (1e-3, UNDERPOWERED), (1e-2, UNDERPOWERED)])
def test_sides_that_differ_from_themselves_are_told(size, verdict):
    """Neither listens to the seed, as kernels that add up in any order: a wrong port within that would not show."""
    generator = np.random.default_rng(0)

    def unsteady(x):
        return (x @ W.astype(x.dtype)) * (1 + size * generator.choice([-1, 1], (len(x), 1))).astype(x.dtype)

    result = run(unsteady, unsteady, ratio=1e9)
    assert result.verdict == verdict
    assert any("the reference is not deterministic" in w for w in result.warnings) == (size > 1e-5)
    assert any("the reference is not deterministic" in w for w in result.doubts) == (size > 1e-5)


@pytest.mark.parametrize("size", [1e-4, 1e-2])
@pytest.mark.parametrize("wrong", [False, True])
def test_two_sides_that_differ_from_themselves_are_no_divergence_unless_they_are_further_apart(size, wrong):
    generator = np.random.default_rng(0)

    def unsteady(x):
        return (x @ W.astype(x.dtype)) * (1 + size * generator.choice([-1, 1], (len(x), 1))).astype(x.dtype)

    result = run(unsteady, (lambda x: 2 * unsteady(x)) if wrong else unsteady)
    assert (result.verdict == "diverged") is wrong, result.notes


@pytest.mark.parametrize("seed", range(4))
def test_a_side_that_draws_is_no_match_for_one_that_sums_in_another_order(seed):
    generator = np.random.default_rng(seed)

    def unsteady(size):
        return lambda x: (x @ W.astype(x.dtype)) * (1 + size * generator.standard_normal((len(x), 1))).astype(x.dtype)

    result = run(unsteady(1e-4), unsteady(0.5))
    assert result.verdict == "diverged", result.notes
    assert {pair.verdict for pair in result.pairs if pair.key == "output"} == {"diverged"}


def test_points_of_the_model_are_left_out_of_a_loss_that_has_its_own():
    def at(line):
        return Divergence(None, Point("m", source=f"port.py:{line}"))

    forward, loss = StageResult("forward", DIVERGED, divergences=[at(3)]), StageResult("loss", DIVERGED, divergences=[at(3), at(9)])
    leave_out_known(CheckResult([forward, loss]))
    assert [d.candidate.source for d in loss.divergences] == ["port.py:9"]
    assert loss.divergence is loss.divergences[0]
    assert loss.notes == ["points of the model, told at forward, and left out here: 1"]
    alone = StageResult("loss", DIVERGED, divergences=[at(3)])
    leave_out_known(CheckResult([forward, alone]))
    assert len(alone.divergences) == 1
