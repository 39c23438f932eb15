"""Passes that are watched again: what was seen before is looked up, what a model makes otherwise is not."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import agree, moments
from paralign.dtypes import Typed
from paralign.locate.runs.dataflow import Graph
from paralign.model import Manifest
from paralign.worker.protocol import Job
from paralign.worker.sides.session import Session
from paralign.worker.tasks import perform
from paralign.worker.watching import operations as watching

X = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
WAYS = ["plain", "counting", "dropout", "in place", "loop", "early", "unset"]


@pytest.fixture(params=[pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)])
def framework(request):
    pytest.importorskip(request.param)
    return request.param


def model_of(framework, way):
    """A model that goes a way of its own through the same layers."""
    if framework == "torch":
        from torch import empty_like
        from torch.nn import Dropout, Linear, Module
    else:
        from paddle import empty_like
        from paddle.nn import Dropout, Linear
        from paddle.nn import Layer as Module

    class Net(Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.dropout = Linear(8, 8), Linear(8, 8), Dropout(0.5)
            self.calls = 0

        def forward(self, x):
            x = self.first(x)
            if way == "counting":
                self.calls += 1
                x = x * float(self.calls)
            if way == "dropout":
                x = self.dropout(x)
            if way == "in place":
                x = x * 2.0
                x.add_(x * 0.5)
            if way == "unset":
                x = empty_like(x).copy_(x)
            for _ in range(3 if way == "loop" else 1):
                x = x * 1.5
            if way == "early" and float(x.sum()) > 1e6:
                return x
            return self.last(x)

    return Net()


class Watched:
    """One session whose passes are watched, one after the other."""

    def __init__(self, folder, framework, way):
        self.folder, self.way = folder, way
        self.session = Session("candidate", {"build_model": lambda: model_of(framework, way)}, framework)
        with CaptureWriter(folder / "inputs", Manifest(side="reference", stage="inputs")) as writer:
            Session("reference", {}, "numpy").save_tree(writer, "inputs", X, role="input")

    def run(self, patches=None, attempt=""):
        values = {"inputs": str(self.folder / "inputs")}
        number = len(list(self.folder.iterdir()))
        if patches:
            values["patches"] = str(self.folder / f"patches-{number}")
            with CaptureWriter(values["patches"], Manifest(side="candidate", stage="patches")) as writer:
                for operation, value in patches.items():
                    made = {"made": list(value.shape)}
                    writer.add(f"{operation.number}:0", Typed(value, "float64"), role="output", op=operation.op, attrs=made)
        mode = "train" if self.way == "dropout" else "eval"
        out = self.folder / f"operations-{number}"
        perform(self.session, Job("operations", str(out), {"runs": ["float64"], "mode": mode, "attempt": attempt}, values))
        return Graph(Capture.open(out), "float64")


def seen(graph):
    """What is known of every value, bit by bit."""
    found = [(v.digest, None if v.sketch is None else v.sketch.tobytes(), v.unmasked, v.shape) for v in graph.values.values()]
    assert len(found) > 5
    return found


def computed(monkeypatch):
    """The element counts of the values whose fingerprints are computed from now on."""
    sizes = []
    compute = watching.OperationRecorder._computed

    def count(self, tensor, dtype):
        sizes.append(int(np.prod(tensor.shape)))
        return compute(self, tensor, dtype)

    monkeypatch.setattr(watching.OperationRecorder, "_computed", count)
    return sizes


@pytest.mark.parametrize("way", WAYS)
def test_looked_up_fingerprints_are_those_that_would_be_computed(tmp_path, framework, way, monkeypatch):
    side = Watched(tmp_path, framework, way)
    first = seen(side.run())
    again = seen(side.run())
    side.session.fingerprints.clear()
    side.session.model.calls = 1  # of the run before
    sizes = computed(monkeypatch)
    alone = seen(side.run())
    assert len(sizes) > 5
    assert again == alone
    assert (again == first) is (way != "counting")


@pytest.mark.torch
def test_memory_that_nothing_was_written_to_is_recorded_as_one_number(tmp_path):
    torch = pytest.importorskip("torch")
    torch.use_deterministic_algorithms(mode=True)  # memory is filled with what is no number then
    try:
        graph = Watched(tmp_path, "torch", "unset").run()
    finally:
        torch.use_deterministic_algorithms(mode=False)
    unset = [v.digest for v in graph.values.values() if "empty_like" in v.record.op]
    assert len(unset) == 1
    assert agree(unset[0], moments(np.full(X.shape, float(watching.UNSET))), 0.0)


@pytest.mark.parametrize("way", ["plain", "in place", "loop", "early"])
def test_a_pass_that_repeats_another_computes_no_fingerprint(tmp_path, framework, way, monkeypatch):
    side = Watched(tmp_path, framework, way)
    side.run()
    sizes = computed(monkeypatch)
    side.run()
    assert sizes == []


def test_a_model_that_counts_its_calls_is_computed_where_it_goes_another_way(tmp_path, framework, monkeypatch):
    side = Watched(tmp_path, framework, "counting")
    side.run()
    sizes = computed(monkeypatch)
    side.run()
    assert sizes.count(X.size) >= 3
    assert len(sizes) < len(seen(side.run()))


@pytest.mark.parametrize("way", ["plain", "loop", "early"])
def test_what_follows_a_patch_is_computed_and_what_comes_before_is_not(tmp_path, framework, way, monkeypatch):
    side = Watched(tmp_path, framework, way)
    graph = side.run()
    scaled = [o for o in graph.operations if o.kind in ("multiply", "scale") and o.outputs[0].shape == X.shape]
    target = scaled[len(scaled) // 2]
    given = np.full(X.shape, 1e6 if way == "early" else 0.125)
    sizes = computed(monkeypatch)
    patched = side.run({target: given}, attempt="1")
    before = [o for o in patched.operations if o.number < target.number]
    assert [o.outputs[0].digest for o in before] == [o.outputs[0].digest for o in graph.operations[: len(before)]]
    own = patched.outputs[""]
    assert own.digest != graph.outputs[""].digest
    if way == "early":
        assert own.digest == f"c1:{X.size},1000000.0"
        assert len(patched.operations) < len(graph.operations)
    assert 0 < len(sizes) < len(graph.values)
    (tmp_path / "fresh").mkdir()
    fresh = Watched(tmp_path / "fresh", framework, way)
    fresh.session.adapter.load_state(fresh.session.model, side.session.snapshot())
    assert seen(fresh.run({target: given}, attempt="1")) == seen(patched)


def test_native_runs_beside_float64_are_not_looked_up(tmp_path, framework, monkeypatch):
    side = Watched(tmp_path, framework, "plain")
    values = {"inputs": str(tmp_path / "inputs")}
    for name in ("one", "two"):
        sizes = computed(monkeypatch)
        perform(side.session, Job("operations", str(tmp_path / name), {"runs": ["native"]}, values))
        assert len(sizes) > 5
    assert len(side.session.fingerprints) == 0


def halfway(graph):
    """An operation between the two layers."""
    scaled = [o for o in graph.operations if o.kind in ("multiply", "scale") and o.outputs[0].shape == X.shape]
    return scaled[len(scaled) // 2]


@pytest.mark.parametrize("way", ["plain", "in place", "loop", "early", "unset"])
def test_an_experiment_makes_what_it_makes_by_itself_whatever_is_known(tmp_path, framework, way):
    side = Watched(tmp_path, framework, way)
    target = halfway(side.run())
    side.run({target: np.full(X.shape, 0.125)}, attempt="1")
    assert len(side.session.results) == 2
    later = side.run({target: np.full(X.shape, 0.25)}, attempt="2")
    (tmp_path / "fresh").mkdir()
    fresh = Watched(tmp_path / "fresh", framework, way)
    fresh.session.adapter.load_state(fresh.session.model, side.session.snapshot())
    assert seen(fresh.run({target: np.full(X.shape, 0.25)}, attempt="1")) == seen(later)


def test_a_known_result_takes_the_place_of_a_layer_in_experiments_alone(tmp_path, framework):
    side = Watched(tmp_path, framework, "plain")
    plain = side.run()
    target = halfway(plain)
    given = {target: np.full(X.shape, 0.125)}
    side.run(given, attempt="1")
    known = side.session.results._known
    for cause, value in known.items():
        known[cause] = value._replace(array=np.full_like(value.array, 3.0))
    assert side.run().outputs[""].digest == plain.outputs[""].digest
    assert side.run(given, attempt="2").outputs[""].digest == f"c1:{X.size},3.0"
    perform(side.session, Job("describe", str(tmp_path / "about"), {}, {}))
    assert len(side.session.results) == 0
