"""Rules of the adapter of ONNX programs: run by name and by position, watched node by node, refused in clear words."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import programs

sys.path.pop(0)

from paralign.adapters import base, finding
from paralign.api import check
from paralign.dtypes import Typed
from paralign.errors import EnvironmentUnavailable, ParalignError, UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, Side

X = np.random.RandomState(1).randn(5, 6).astype("float32")


@pytest.fixture
def adapter():
    programs.needed()
    return finding.load("onnxruntime")


@pytest.fixture
def net(tmp_path):
    return programs.program(tmp_path / "net.onnx")


class Sink:
    def __init__(self, replace=None):
        self.seen, self.before_, self.replace = [], [], replace

    def before(self, inputs):
        self.before_.append([value.copy() for value in inputs])

    def after(self, operation):
        self.seen.append(operation)
        return [self.replace] if self.replace is not None and operation.op == "Relu" else None


def test_a_path_and_a_session_are_models(adapter, net):
    import onnxruntime

    session = onnxruntime.InferenceSession(net, providers=["CPUExecutionProvider"])
    for model in (net, Path(net), session):
        assert adapter.is_model(model)
        placed = adapter.place(model)
        np.testing.assert_allclose(placed(X), programs.expected(X), rtol=1e-5)
        np.testing.assert_array_equal(placed(x=X), placed(X))
        assert adapter.modules(placed) == [("", placed)]
    assert not adapter.is_model("net.pt")


def test_several_outputs_go_by_name(adapter, tmp_path):
    onnx = programs.needed()
    nodes = [programs.node(onnx, "Relu", ["x"], "up", 1), programs.node(onnx, "Neg", ["x"], "down", 2)]
    model = adapter.place(programs.save(onnx, tmp_path / "two.onnx", nodes, {"x": ["n"]}, {"down": ["n"], "up": ["n"]}))
    out = model(np.array([-1, 2], "float32"))
    assert {name: value.tolist() for name, value in out.items()} == {"down": [1, -2], "up": [0, 2]}


def test_what_it_cannot_do_is_refused(adapter, net):
    model = adapter.place(net)
    assert adapter.state(model) == []
    assert not isinstance(adapter, base.Training)
    with pytest.raises(UsageError, match="computes in the types that it was exported with, not in float64"):
        adapter.cast(model, "float64")
    with pytest.raises(UsageError, match="a model cannot be cast to 'int8'"):
        adapter.cast(model, "int8")
    with pytest.raises(UsageError, match="no parameter or buffer of this name"):
        adapter.load_state(model, {"w1": Typed(X, "float32")})
    with pytest.raises(UsageError, match="there is no mode 'asleep'"):
        adapter.train(model, "asleep")
    adapter.load_state(model, {})
    adapter.train(model, "eval")


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((X.astype("float64"),), {}, "input x of this program is float32, it was given float64"),
        ((X, X), {}, r"takes 1 inputs \(x\) and was given 2"),
        ((), {}, r"takes 1 inputs \(x\) and was given 0"),
        ((), {"picture": X}, "the program has no input picture; it has: x"),
        ((X[:, :4],), {}, "ONNX Runtime stopped: .*Got invalid dimensions for input: x"),
        ((X[None],), {}, "ONNX Runtime stopped: .*Invalid rank for input: x"),
    ],
    ids=["type", "many", "none", "name", "shape", "rank"],
)
def test_wrong_inputs_are_refused_by_name(adapter, net, args, kwargs, said):
    with pytest.raises(UsageError, match=said) as caught:
        adapter.place(net)(*args, **kwargs)
    assert caught.value.where == net


@pytest.mark.parametrize("damage", ["junk", "empty", "cut", "missing", "folder"])
def test_damaged_files_are_refused(adapter, net, tmp_path, damage):
    path = tmp_path / "bad.onnx"
    content = Path(net).read_bytes()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes({"junk": b"not a program", "empty": b"", "cut": content[: len(content) // 2]}[damage])
    with pytest.raises(UsageError) as caught:
        adapter.place(path)
    assert caught.value.where == str(path)
    wanted = "there is no ONNX file here" if damage in ("missing", "folder") else "this file cannot be loaded as an ONNX program"
    assert caught.value.what.startswith(wanted)


def test_a_program_of_custom_operators_is_refused(adapter, tmp_path):
    onnx = programs.needed()
    nodes = [onnx.helper.make_node("Evil", ["x"], ["y"], domain="elsewhere")]
    path = programs.save(onnx, tmp_path / "custom.onnx", nodes, {"x": ["n"]}, {"y": ["n"]})
    with pytest.raises(ParalignError, match="this file cannot be loaded as an ONNX program"):
        adapter.place(path)


def test_nodes_are_watched_with_names_and_lines(adapter, net):
    model, sink = adapter.place(net), Sink()
    assert isinstance(adapter, base.Observing)
    with adapter.operations(sink, model):
        out = model(X)
    np.testing.assert_allclose(out, model(X), rtol=1e-6)
    assert [(o.index, o.op, o.kind, o.module) for o in sink.seen] == [
        (0, "MatMul", "matmul", "node_h"),
        (1, "Relu", "relu", "node_a"),
        (2, "Gemm", "matmul", "node_z"),
        (3, "Softmax", "softmax", "node_y"),
    ]
    assert [o.stack for o in sink.seen] == [(f"{programs.SOURCE}:{line}",) for line in (3, 4, 5, 6)]
    assert sink.seen[3].attrs == {"axis": -1}
    assert len(sink.before_) == len(sink.seen)
    np.testing.assert_array_equal(sink.before_[0][0], X)
    model(X)
    assert len(sink.seen) == 4  # none after the observation


def test_a_value_is_put_in_place(adapter, net):
    model, zeros = adapter.place(net), np.zeros((5, 8), "float32")
    outer, inner = Sink(), Sink(replace=zeros)
    with adapter.operations(outer, model), adapter.operations(inner, model):
        out = model(X)
    z = programs.WEIGHTS["b"]
    np.testing.assert_allclose(out[0], np.exp(z) / np.exp(z).sum(), rtol=1e-5)
    np.testing.assert_array_equal(outer.seen[1].outputs[0], zeros)


def test_branches_and_functions_are_run(adapter, tmp_path):
    """An If, whose branches read a value from around them, is one node."""
    onnx = programs.needed()
    helper = onnx.helper
    then, other = (
        helper.make_graph(
            [helper.make_node(operator, ["h"], [name])], name, [], [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)]
        )
        for operator, name in (("Neg", "minus"), ("Identity", "same"))
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="first"),
        helper.make_node("ReduceMax", ["h"], ["m"], keepdims=0, name="most"),
        helper.make_node("Cast", ["m"], ["c"], to=onnx.TensorProto.BOOL, name="any"),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="choice"),
    ]
    model = adapter.place(programs.save(onnx, tmp_path / "if.onnx", nodes, {"x": ["n"]}, {"y": ["n"]}))
    sink = Sink()
    with adapter.operations(sink, model):
        out = model(np.array([-1, 2], "float32"))
    assert out.tolist() == [0, -2]
    assert [o.module for o in sink.seen] == ["first", "most", "any", "choice"]


def reference(x):
    return programs.expected(x)


def forward(path, x=X):
    sides = Side(framework="numpy", model=reference), Side(framework="onnxruntime", model=path)
    return {stage.name: stage for stage in check(*sides, inputs=x, stages=["weights", "forward", "backward"]).stages}


def test_a_right_program_is_aligned(net):
    stages = forward(net)
    assert stages["forward"].verdict == ALIGNED
    assert stages["weights"].verdict == stages["backward"].verdict == NOT_TESTED
    assert "which holds its weights" in stages["weights"].notes[0]


@pytest.mark.parametrize("fault", [{"activation": "Tanh"}, {"activation": "Abs"}, {"axis": 0}, {"scale": 1.001}, {"scale": -1.0}], ids=str)
def test_faulty_programs_diverge(tmp_path, fault):
    assert forward(programs.program(tmp_path / "bad.onnx", **fault))["forward"].verdict == DIVERGED


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fault", "node", "line"),
    [({"activation": "Tanh"}, "node_a", 4), ({"axis": 0}, "node_y", 6), ({"scale": 1.01}, "node_z", 5), ({}, None, None)],
    ids=str,
)
def test_the_guilty_node_is_named(tmp_path, fault, node, line):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.ParameterDict({k: torch.tensor(v, dtype=torch.float32) for k, v in programs.WEIGHTS.items()})

        def forward(self, x):
            h = (x @ self.held["w1"]).relu()
            return (h @ self.held["w2"] + self.held["b"]).softmax(-1)

    path = programs.program(tmp_path / "net.onnx", **fault)
    sides = Side(framework="torch", model=Net()), Side(framework="onnxruntime", model=path)
    stage = check(*sides, inputs=X, stages=["forward"]).stages[-1]
    assert stage.verdict == (DIVERGED if fault else ALIGNED)
    if fault:
        place = stage.divergence.candidate
        assert (place.name, place.source) == (node, f"{programs.SOURCE}:{line}")
        assert stage.divergence.confirmed


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "paralign_onnxruntime.adapter", raising=False)
    with pytest.raises(EnvironmentUnavailable, match="framework 'onnxruntime' cannot be imported") as caught:
        finding.load("onnxruntime")
    assert "install onnxruntime for this interpreter" in caught.value.hint
