"""The task ``operations``: every value of a run is linked to what it was made of, however the user's code spells it."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import agree, moments
from paralign.locate.runs.dataflow import Graph
from paralign.model import Manifest
from paralign.worker.protocol import Job
from paralign.worker.sides.session import Session
from paralign.worker.tasks import perform

X = np.random.default_rng(0).normal(size=(2, 8)).astype("float32")


def torch_ways():
    import torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x * 2.0

        @staticmethod
        def backward(_, gradient):
            return gradient * 2.0

    class Net(torch.nn.Module):
        def __init__(self, way):
            super().__init__()
            self.a, self.way = torch.nn.Linear(8, 8), way

        def forward(self, x):
            return self.way(self.a(x))

    def column(x):
        y = x.clone()
        y[:, 0] = x[:, 1]
        return y

    def through_a_view(x):
        y = x * 1.5
        y[0].mul_(2.0)
        return y

    ways = {
        "custom": Twice.apply,
        "column": column,
        "view": through_a_view,
        "in place": lambda x: (x * 2.0).add_(1.0),
        "split": lambda x: torch.cat(list(reversed(torch.split(x, 4, dim=1))), 1),
        "moved": lambda x: x.T.contiguous().T.reshape(4, 4).permute(1, 0).reshape(2, 8),
        "unbound": lambda x: torch.stack(list(reversed(x.unbind(0)))),
        "cut": lambda x: x.data * 2.0 + x,
        "over": lambda x: torch.ones_like(x).copy_(x * 2.0),
        "large": lambda x: x * 1e6,
    }
    return Net, ways


def paddle_ways():
    import paddle

    class Twice(paddle.autograd.PyLayer):
        @staticmethod
        def forward(_, x):
            return x * 2.0

        @staticmethod
        def backward(_, gradient):
            return gradient * 2.0

    class Net(paddle.nn.Layer):
        def __init__(self, way):
            super().__init__()
            self.a, self.way = paddle.nn.Linear(8, 8), way

        def forward(self, x):
            return self.way(self.a(x))

    def column(x):
        y = x.clone()
        y[:, 0] = x[:, 1]
        return y

    def through_a_view(x):
        y = x * 1.5
        y[0].scale_(2.0)
        return y

    def over_an_old_value(x):
        y = paddle.ones_like(x)
        y.set_value(x.detach() * 3.0)
        return y

    ways = {
        "custom": Twice.apply,
        "column": column,
        "view": through_a_view,
        "in place": lambda x: (x * 2.0).scale_(1.5),
        "split": lambda x: paddle.concat(list(reversed(paddle.split(x, 2, axis=1))), 1),
        "moved": lambda x: x.T.contiguous().T.reshape([4, 4]).transpose([1, 0]).reshape([2, 8]),
        "unbound": lambda x: paddle.stack(list(reversed(x.unbind(0)))),
        "cut": lambda x: x.data * 2.0 + x,
        "over": lambda x: paddle.assign(x * 2.0, paddle.ones_like(x)),
        "set": lambda x: over_an_old_value(x) + x,
        "large": lambda x: x * 1e6,
    }
    return Net, ways


WAYS = {"torch": torch_ways, "paddle": paddle_ways}
NAMES = ["custom", "column", "view", "in place", "split", "moved", "unbound", "cut", "over"]


@pytest.fixture(params=[pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)])
def framework(request):
    pytest.importorskip(request.param)
    return request.param


def recorded(folder, framework, way, **options):
    """The graph of one pass with gradients; given options and values go to the task."""
    net, ways = WAYS[framework]()
    functions = {"build_model": lambda: net(ways[way]), "loss": lambda outputs, _: (outputs * outputs).mean()}
    session = Session("reference", functions, framework)
    values = {}
    for name, value in (("inputs", X), ("labels", np.zeros(2))):
        if not (folder / name).exists():
            with CaptureWriter(folder / name, Manifest(side="reference", stage=name)) as writer:
                Session("reference", {}, "numpy").save_tree(writer, name, value, role="input")
        values[name] = str(folder / name)
    out = folder / f"operations-{len(list(folder.iterdir()))}"
    options = {"runs": ["native"], "backward": True, **options}
    perform(session, Job("operations", str(out), options, values))
    return Graph(Capture.open(out), "native")


def ancestors(value):
    found, todo = set(), [value]
    while todo:
        item = todo.pop()
        if item not in found:
            found.add(item)
            todo += item.maker.inputs if item.maker else []
    return found


@pytest.mark.parametrize("way", NAMES)
def test_every_value_is_linked_to_what_it_was_made_of(tmp_path, framework, way):
    graph = recorded(tmp_path, framework, way)
    nameless = [v for v in graph.values.values() if v.maker is None and not v.record.name and not v.digest.startswith("c1:1,")]
    assert nameless == []
    names = {v.record.name for v in ancestors(graph.loss)}
    assert {"inputs", "a.weight", "a.bias"} <= names
    given = [v.record.name for v in graph.values.values() if v.maker is None and v.record.name]
    assert len(given) == len(set(given))


@pytest.mark.parametrize("way", NAMES)
def test_what_leads_to_the_loss_has_gradients(tmp_path, framework, way):
    graph = recorded(tmp_path, framework, way)
    with_gradient = {v.record.name for v in graph.values.values() if v.maker is None and v.gradient is not None}
    assert with_gradient >= {"a.weight", "a.bias"}
    assert graph.loss.gradient is not None
    cut = [
        v for v in ancestors(graph.loss) if v.maker is not None and v.maker.op.startswith(("aten.detach", "detach")) and v.gradient is None
    ]
    assert bool(cut) is (way == "cut")


def test_very_large_values_are_no_mask_and_the_rest_beside_them_is_measured_without_sign(tmp_path, framework):
    """A mean of signed numbers may happen to be near zero, where rounding is a great part of it."""
    value = next(v for v in recorded(tmp_path, framework, "large").values.values() if v.record.attrs.get("bounded") is not None)
    assert value.bounded == pytest.approx(1.0, abs=1e-3)
    assert value.unmasked is None


@pytest.mark.parametrize("way", NAMES)
def test_two_runs_of_one_program_are_the_same_graph(tmp_path, framework, way):
    first, second = recorded(tmp_path, framework, way), recorded(tmp_path, framework, way)
    for one, other in zip(first.values.values(), second.values.values(), strict=True):
        assert one.record.shape == other.record.shape
        assert one.record.op == other.record.op
        assert (one.maker is None) == (other.maker is None)


def test_what_is_written_over_a_value_is_the_value_that_was_written(tmp_path, framework):
    for way in ("over", "set") if framework == "paddle" else ("over",):
        graph = recorded(tmp_path, framework, way)
        written = [o for o in graph.operations if o.op in ("aten.copy_.default", "assign_out_", "set_value") and not o.written]
        assert len(written) == 1
        assert [v.digest for v in written[0].inputs] == [v.digest for v in written[0].outputs]
        assert written[0].inputs[0].maker.kind == "multiply"


def test_every_value_is_had_again_also_one_that_was_changed_through_another_view(tmp_path, framework):
    """A value that an operation changed besides its results is no result of it: by number and place it would be another one."""
    from paralign.locate.laboratory.recorded_values import fetch

    graph = recorded(tmp_path, framework, "view")
    wanted = [v for v in graph.values.values() if v.maker is not None]
    assert any(v.maker.written for v in wanted)
    found = fetch(
        wanted, "native", lambda places: recorded(tmp_path, framework, "view", watch={"keep": [list(place) for place in places]}).capture
    )
    assert set(found) == set(wanted)
    assert all(agree(moments(found[v].array), v.digest, 1e-6) for v in wanted)


def test_hooks_are_removed_and_the_model_is_as_it_was(tmp_path, framework):
    net, ways = WAYS[framework]()
    model = net(ways["custom"])
    session = Session("reference", {"build_model": lambda: model, "loss": lambda outputs, _: outputs.mean()}, framework)
    before = session.snapshot()
    for name, value in (("inputs", X), ("labels", np.zeros(2))):
        with CaptureWriter(tmp_path / name, Manifest(side="reference", stage=name)) as writer:
            Session("reference", {}, "numpy").save_tree(writer, name, value, role="input")
    values = {name: str(tmp_path / name) for name in ("inputs", "labels")}
    answer = perform(session, Job("operations", str(tmp_path / "out"), {"runs": ["float64", "native"], "backward": True}, values))
    assert answer.runs == ["float64", "native"]
    after = session.snapshot()
    assert all(np.array_equal(before[name].array, after[name].array) and before[name].dtype == after[name].dtype for name in before)
    assert all(gradient is None for gradient in session.adapter.gradients(model).values())
    if framework == "torch":
        assert not any(parameter._backward_hooks for parameter in model.parameters())
    records = len(Capture.open(tmp_path / "out").records)
    session.adapter.backward(
        model(session.adapter.from_array(session.adapter.to_array(session.adapter.from_array(after["a.weight"])))).mean()
    )
    assert len(Capture.open(tmp_path / "out").records) == records
