"""One side between jobs: its adapter and model, precisions, state put back, trees as tensors, captures of what it did."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import Typed
from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.model import Manifest
from paralign.trainlog import peaks
from paralign.worker.protocol import KINDS, Job, Ranked
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.tasks import TASKS, perform


class Model:
    def __init__(self, dtype="float32", **more):
        self.parameters = {"weight": np.arange(6, dtype=dtype).reshape(2, 3)}
        self.steps = np.array(4)
        self.__dict__.update(more)

    def __call__(self, x, scale=1):
        return x @ self.parameters["weight"] * scale


def session(model=None, framework="numpy", *, live=False, **functions):
    model = Model() if model is None else model
    return Session("reference", {"build_model": lambda: model, **functions}, framework, live=live)


# -- adapter and model -------------------------------------------------------------------------------------------------------


def test_a_callable_belongs_to_numpy_where_no_framework_is_named():
    built = []
    found = Session("reference", {"build_model": lambda: built.append(1) or Model()}, None)
    assert found.adapter.name == "numpy"
    assert isinstance(found.model, Model)
    assert built == [1]


def test_a_model_of_no_named_framework_is_drawn_from_the_seed(monkeypatch):
    for name in ("torch", "paddle"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    drawing = {"build_model": lambda: Model(drawn=np.random.normal(size=3))}  # noqa: NPY002 - what is seeded
    drawn = [Session("reference", drawing, None, seed=seed).model.drawn.tolist() for seed in (5, 5, 6)]
    assert drawn[0] == drawn[1] != drawn[2]
    named = Session("reference", drawing, "numpy", seed=5).model.drawn.tolist()
    assert drawn[0] == named


def test_a_framework_that_build_model_imports_itself_is_seeded_too(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(finding, "imported", list)  # as before its import
    weights = []
    for _ in range(2):
        model = Session("reference", {"build_model": lambda: torch.nn.Linear(3, 2)}, None, seed=5).model
        weights.append(model.weight.tolist())
    torch.manual_seed(5)
    assert weights == [torch.nn.Linear(3, 2).weight.tolist()] * 2


def test_a_side_without_a_model_gets_an_adapter_all_the_same(monkeypatch):
    for name in ("torch", "paddle"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    assert Session("reference", {"metric": max}, None).adapter.name == "numpy"


def test_what_no_adapter_claims_is_told_with_the_remedy():
    with pytest.raises(UsageError, match=r"no adapter claims a model of type builtins\.int") as caught:
        _ = session(3, None).adapter
    assert caught.value.where == "reference"
    assert "name the framework" in caught.value.hint


def test_a_model_of_another_framework_is_told():
    with pytest.raises(UsageError, match=r"build_model\(\) returned a builtins\.dict, which is no numpy model"):
        _ = session({"weight": 1}).model


def test_a_device_that_is_not_there_is_told():
    with pytest.raises(EnvironmentUnavailable, match="numpy has no device 'gpu:7'"):
        Session("reference", {"build_model": Model}, "numpy", device="gpu:7")


def test_the_model_is_built_once_from_the_seed():
    seen = []
    found = Session("reference", {"build_model": lambda: seen.append(np.random.rand()) or Model()}, "numpy", seed=5)  # noqa: NPY002 - what sides use
    assert found.model is found.model
    again = Session("reference", {"build_model": lambda: seen.append(np.random.rand()) or Model()}, "numpy", seed=5)  # noqa: NPY002 - as above
    assert again.model is not found.model
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_a_missing_function_is_named_with_its_signature():
    with pytest.raises(UsageError, match=r"the reference has no function loss\(outputs, labels\)") as caught:
        session().function("loss")
    assert caught.value.hint == "define loss(outputs, labels) in the reference's module"


@pytest.mark.parametrize(
    ("inputs", "expected"), [(2.0, (2.0, 1)), ((2.0, 3), (2.0, 3)), ([2.0, 3], (2.0, 3)), ({"scale": 3, "x": 2.0}, (2.0, 3))]
)
def test_inputs_are_handed_over_by_position_or_keyword(inputs, expected):
    assert session(lambda x, scale=1: (x, scale)).call(inputs) == expected


# -- state -------------------------------------------------------------------------------------------------------------------


def test_whatever_happens_inside_untouched_is_undone_also_after_an_exception():
    found = session()
    before = found.model.parameters["weight"]

    def ruin():
        with found.untouched():
            found.to_double()
            assert found.precisions() == {"float64"}
            found.model.parameters["weight"][:] = 7
            found.model.steps[...] = 9
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        ruin()
    assert found.precisions() == {"float32"}
    np.testing.assert_array_equal(found.model.parameters["weight"], before)
    assert found.model.steps == 4


def test_a_snapshot_is_a_copy_and_has_a_shared_tensor_once():
    array = np.ones(3, np.float32)
    found = session(Model(first=array, second=array))
    taken = found.snapshot()
    assert set(taken) == {"parameters.weight", "steps", "first"}
    array[:] = 5
    assert taken["first"].array.tolist() == [1, 1, 1]


def test_a_model_of_several_precisions_is_not_cast():
    found = session(Model(bias=np.zeros(3, np.float64)))
    with pytest.raises(UsageError, match=r"the model mixes element types \(float32, float64\)"):
        found.to_double()
    with found.untouched():
        found.model.bias[:] = 1
    assert found.model.bias.tolist() == [0, 0, 0]
    assert found.model.parameters["weight"].dtype == np.float32


def test_integer_buffers_survive_the_cast():
    found = session()
    found.to_double()
    assert found.model.steps.dtype == np.array(4).dtype


def test_a_live_model_is_given_back_a_models_own_is_not():
    for live in (True, False):
        found = session(live=live)
        model = found.model
        model.parameters["weight"][:] = 7
        found.close()
        assert bool(model.parameters["weight"][0, 0] == 0) is live


def test_closing_a_live_side_that_was_never_used_does_nothing():
    built = []
    found = Session("reference", {"build_model": lambda: built.append(1) or Model()}, "numpy", live=True)
    found.close()
    assert built == []
    assert found.model.steps == 4
    assert built == [1]  # it can be used afterwards all the same


# -- values ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "run", "precision", "expected"),
    [
        ("float32", NATIVE, "", "float32"),
        ("float32", DOUBLE, "", "float64"),
        ("float32", NATIVE, "float16", "float16"),
        ("float64", NATIVE, "float32", "float32"),
        ("float64", DOUBLE, "float32", "float64"),
        ("int64", DOUBLE, "float32", "int64"),
        ("bool", DOUBLE, "", "bool"),
        ("complex64", DOUBLE, "float32", "complex64"),
    ],
)
def test_floating_values_follow_the_run_and_the_model_all_others_stay(dtype, run, precision, expected):
    assert session().tensor(Typed(np.ones(2, dtype), dtype), run, precision).dtype == np.dtype(expected)


def test_bfloat16_becomes_exact_float64():
    value = Typed(np.array([0x3FC0], np.uint16), "bfloat16")
    assert session().tensor(value, DOUBLE).tolist() == [1.5]


def saved(folder, name, value, **fields):
    found = session()
    with CaptureWriter(folder, Manifest(stage="x")) as writer:
        found.save_tree(writer, name, value, **fields)
    return found, Capture.open(folder)


def test_trees_are_saved_and_come_back_as_tensors(tmp_path):
    value = {"x": np.ones(2, np.float32), "more": (np.arange(3), "text", None)}
    found, capture = saved(tmp_path / "c", "inputs", value, role="input")
    assert [(r.key, r.role) for r in capture.records] == [("inputs.x", "input"), ("inputs.more.0", "input"), ("inputs.more.1", "input")]
    back = found.tree(capture, "inputs", DOUBLE)
    assert back["x"].dtype == np.float64
    assert back["more"][0].dtype == np.arange(3).dtype
    assert back["more"][1:] == ("text", None)


def test_inputs_take_the_precision_of_the_model(tmp_path):
    _, capture = saved(tmp_path / "c", "inputs", np.ones(2, np.float64))
    assert session(Model("float16")).inputs(capture, NATIVE).dtype == np.float16
    assert session(Model("float16")).inputs(capture, DOUBLE).dtype == np.float64
    assert session(lambda x: x).inputs(capture, NATIVE).dtype == np.float64


# -- captures ----------------------------------------------------------------------------------------------------------------


def test_a_job_leaves_a_capture_that_says_how_it_was_made(tmp_path):
    found = session(loss=max)
    answer = perform(found, Job("describe", str(tmp_path / "c"), settings={"key": "k"}))
    manifest = Capture.open(tmp_path / "c").manifest
    assert answer.functions == ["build_model", "loss"]
    assert answer.trains is False
    assert manifest.settings == {"key": "k", "answer": encode(answer)}
    assert (manifest.side, manifest.stage, manifest.framework, manifest.seed) == ("reference", "describe", "numpy", 0)
    assert manifest.versions["numpy"] == np.__version__
    assert manifest.resources["seconds"] >= 0
    assert manifest.resources["peak_bytes"] > 1e6
    assert __file__ in manifest.files


def test_a_job_that_raises_leaves_an_incomplete_capture(tmp_path):
    found = session(lambda x: x.nothing)
    _, inputs = saved(tmp_path / "inputs", "inputs", np.ones(2))
    with pytest.raises(AttributeError, match="nothing"):
        perform(
            found,
            Job("forward", str(tmp_path / "c"), {"runs": [NATIVE]}, {"inputs": str(inputs.path)}),
        )
    assert not Capture.open(tmp_path / "c").complete


def test_every_task_has_a_function_that_takes_its_options_and_gives_its_answer():
    assert set(TASKS) == set(KINDS) - {Ranked.task}  # which is the launched processes' own
    for name, act in TASKS.items():
        hints = {key: str(hint).strip("'\"") for key, hint in act.__annotations__.items()}
        assert (hints["options"], hints["return"]) == (KINDS[name].__name__, KINDS[name].answers.__name__), name


def test_weights_are_recorded_with_aliases_and_loaded_by_name(tmp_path):
    array = np.ones(3, np.float32)
    first = session(Model(first=array, second=array))
    perform(first, Job("weights", str(tmp_path / "a")))
    capture = Capture.open(tmp_path / "a")
    records = {r.name: r for r in capture.records}
    assert records["second"].attrs["shared"] == "first"
    assert records["second"].location is None
    assert records["parameters.weight"].role == "parameter"
    assert records["steps"].role == "buffer"
    other = session(Model(first=np.zeros(3, np.float32), second=np.zeros(3, np.float32)))
    other.model.parameters["weight"][:] = 0
    perform(other, Job("load", str(tmp_path / "b"), values={"state": str(tmp_path / "a")}))
    np.testing.assert_array_equal(other.model.parameters["weight"], first.model.parameters["weight"])
    assert other.model.first.tolist() == [1, 1, 1]
    assert other.model.second.tolist() == [0, 0, 0]
    loaded = Capture.open(tmp_path / "b")
    assert loaded.array(loaded.select(name="first")[0]).tolist() == [1, 1, 1]


def test_state_that_the_model_does_not_have_is_refused_and_nothing_is_loaded(tmp_path):
    perform(session(Model(extra=np.ones(2))), Job("weights", str(tmp_path / "a")))
    other = session()
    other.model.parameters["weight"][:] = 0
    with pytest.raises(UsageError, match="extra"):
        perform(other, Job("load", str(tmp_path / "b"), values={"state": str(tmp_path / "a")}))
    assert not other.model.parameters["weight"].any()


def test_the_peak_is_measured_anew():
    peaks.forget_peak()
    before = peaks.peak_bytes()
    block = np.ones(64 << 20, np.uint8)
    grown = peaks.peak_bytes()
    del block
    peaks.forget_peak()
    assert grown - before > 48 << 20
    assert peaks.peak_bytes() < grown - (32 << 20)


def test_without_proc_the_peak_is_that_since_the_start(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    peaks.forget_peak()
    assert peaks.peak_bytes() > 1e6
