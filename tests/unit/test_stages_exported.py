"""Programs that real exporters wrote, against the eager model: right ones are aligned, faulty ones diverge."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.api import check, check_project
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, Side

X = np.random.RandomState(0).randn(2, 3, 8, 8).astype("float32")
PAGE = Path(__file__).parents[2] / "docs" / "programs.md"


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def paddle():
    return pytest.importorskip("paddle")


def torch_net(torch, activation="relu", slope=1.0):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.norm, self.head = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 5)
            self.norm.running_mean.fill_(0.3)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x):
            x = getattr(torch, activation)(self.norm(self.conv(x)))  # torch: activation
            return self.head(self.drop(x.mean((2, 3)))) * slope

    return Net().eval()


def paddle_net(paddle, activation="relu"):
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            paddle.seed(0)
            self.conv, self.norm, self.head = paddle.nn.Conv2D(3, 4, 3), paddle.nn.BatchNorm2D(4), paddle.nn.Linear(4, 5)
            self.norm._mean.set_value(paddle.full([4], 0.3))
            self.drop = paddle.nn.Dropout(0.5)

        def forward(self, x):
            x = getattr(paddle.nn.functional, activation)(self.norm(self.conv(x)))
            return self.head(self.drop(x.mean((2, 3))))

    net = Net()
    net.eval()
    return net


def exported(framework, model, export):
    """The result of infer for a side that exports, beside one that does not."""
    sides = Side(framework=framework, model=model, export=export), Side(framework=framework, model=model)
    return check(*sides, inputs=X, stages=["infer"]).stages[-1]


def keys(result, verdict):
    return [pair.key for pair in result.pairs if pair.verdict == verdict]


def onnx_writer(torch, program=None, **options):
    """What exports with PyTorch's older exporter, which is quick; ``program`` is exported in the model's place."""

    def export(model, path):
        torch.onnx.export(program or model, (torch.from_numpy(X),), f"{path}.onnx", dynamo=False, input_names=["x"], **options)

    return export


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_onnx_programs_of_pytorch(torch):
    pytest.importorskip("onnxruntime", reason="ONNX programs need onnxruntime (the extra `onnx`)")
    pytest.importorskip("onnx", reason="torch.onnx.export needs onnx (the extra `onnx`)")
    net, rows = torch_net(torch), {"dynamic_axes": {"x": {0: "rows"}}}
    right = exported("torch", net, onnx_writer(torch, **rows))
    assert (right.verdict, len(keys(right, ALIGNED))) == (ALIGNED, 3)  # the inputs, batches of 1 and of 3
    fixed = exported("torch", net, onnx_writer(torch))
    assert fixed.verdict == ALIGNED
    assert any("it takes no other batch size" in note and "Got invalid dimensions" in note for note in fixed.notes)
    for fault in (torch_net(torch, activation="sigmoid"), torch_net(torch, slope=1.001)):
        assert len(keys(exported("torch", net, onnx_writer(torch, fault, **rows)), DIVERGED)) == 3


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_an_onnx_program_of_pytorch_as_a_side(torch, tmp_path):
    """The newer exporter keeps lines: the node at fault is named with the line of the model."""
    for package in ("onnxruntime", "onnx", "onnxscript"):
        pytest.importorskip(package, reason=f"torch.onnx.export needs {package} (the extra `onnx`)")
    path = str(tmp_path / "net.onnx")
    sizes = ({0: torch.export.Dim("rows")},)
    torch.onnx.export(torch_net(torch), (torch.from_numpy(X),), path, dynamo=True, dynamic_shapes=sizes, verbose=False)
    for activation, verdict in (("relu", ALIGNED), ("tanh", DIVERGED)):
        sides = Side(framework="torch", model=torch_net(torch, activation)), Side(framework="onnxruntime", model=path)
        result = check(*sides, inputs=X, stages=["forward"]).stages[-1]
        assert result.verdict == verdict, result.notes
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if text.endswith("# torch: activation"))
    assert result.divergence.candidate.source == f"{__file__}:{line}"
    assert result.divergence.candidate.op == "Relu"


@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore")
def test_onnx_programs_of_paddle(paddle, tmp_path):
    """Written by paddle2onnx: beside the model that was exported, and as a side that shows where another one parts."""
    for package in ("onnxruntime", "onnx", "paddle2onnx"):
        pytest.importorskip(package, reason=f"paddle.onnx.export needs {package} (the extra `onnx`)")

    def writer(program=None):
        def export(model, path):
            spec = [paddle.static.InputSpec([None, 3, 8, 8], "float32", "x")]
            paddle.onnx.export(program or model, path, input_spec=spec, opset_version=13)
            return f"{path}.onnx"

        return export

    net = paddle_net(paddle)
    right = exported("paddle", net, writer())
    assert (right.verdict, len(keys(right, ALIGNED))) == (ALIGNED, 3)
    assert len(keys(exported("paddle", net, writer(paddle_net(paddle, "sigmoid"))), DIVERGED)) == 3
    path = writer()(net, str(tmp_path / "net"))
    for activation, verdict in (("relu", ALIGNED), ("tanh", DIVERGED)):
        sides = Side(framework="paddle", model=paddle_net(paddle, activation)), Side(framework="onnxruntime", model=path)
        result = check(*sides, inputs=X, stages=["forward"]).stages[-1]
        assert result.verdict == verdict, result.notes
    assert result.divergence.candidate.op == "Relu"


@pytest.mark.paddle
@pytest.mark.parametrize("program", ["many operators", "one thread", "wrong input"])
def test_times_of_paddle_inference_leave_no_file_behind(paddle, tmp_path, monkeypatch, program):
    net = paddle.nn.Linear(4, 2) if program == "one thread" else paddle_net(paddle)
    shape = [None, 4] if program == "one thread" else [None, 3, 8, 8]
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec(shape, "float32", "x")])
    monkeypatch.chdir(tmp_path)
    given = {"many operators": X, "one thread": np.ones((3, 4), "float32"), "wrong input": X[:, :2]}[program]
    before = sorted(path.name for path in tmp_path.iterdir())
    if program == "wrong input":
        with pytest.raises(ValueError, match="input"):
            finding.load("paddle").operator_times("net", [given])
    else:
        times = finding.load("paddle").operator_times("net", [given])
        assert any("conv2d" in each.name or "matmul" in each.name for each in times)
    assert Path.cwd() == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    Path("profile.log").write_text("the user's own")
    if program != "wrong input":
        finding.load("paddle").operator_times("net", [given])
    assert Path("profile.log").read_text() == "the user's own"


@pytest.mark.paddle
def test_programs_of_paddle_inference(paddle, tmp_path):
    net = paddle_net(paddle)

    def writer(program=None, rows=None):
        def export(model, path):
            paddle.jit.save(program or model, path, input_spec=[paddle.static.InputSpec([rows, 3, 8, 8], "float32", "x")])

        return export

    right = exported("paddle", net, writer())
    writer()(net, str(tmp_path / "net"))
    times = finding.load("paddle").operator_times(str(tmp_path / "net"), [X])
    assert all(each.milliseconds > 0 and each.calls >= 1 for each in times)
    assert any("conv2d" in each.name for each in times)
    assert (right.verdict, len(keys(right, ALIGNED))) == (ALIGNED, 3)
    fixed = exported("paddle", net, writer(rows=2))
    assert fixed.verdict == ALIGNED
    moved = paddle_net(paddle)
    moved.head.bias.set_value(moved.head.bias + 0.01)
    for fault in (paddle_net(paddle, "sigmoid"), moved):
        assert len(keys(exported("paddle", net, writer(fault)), DIVERGED)) == 3


def forward(framework, reference, candidate):
    sides = Side(framework=framework, model=reference), Side(framework=framework, model=candidate)
    return check(*sides, inputs=X, stages=["weights", "forward"]).verdict


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_torch_export_and_compile_against_eager(torch):
    net, faulty = torch_net(torch), torch_net(torch, activation="tanh")

    def program(model):
        return torch.export.export(model, (torch.from_numpy(X),)).module()

    def broken(graph, _):
        return lambda *args: tuple(value * 1.001 for value in graph.forward(*args))

    assert forward("torch", net, program(net)) == ALIGNED
    assert forward("torch", net, program(faulty)) == DIVERGED
    assert forward("torch", net, torch.compile(torch_net(torch), backend="eager")) == ALIGNED
    assert forward("torch", net, torch.compile(torch_net(torch), backend=broken)) == DIVERGED


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_program_of_torch_export_has_no_train_mode_and_no_times(torch, tmp_path):
    program = torch.export.export(torch_net(torch), (torch.from_numpy(X),)).module()

    def loss(outputs, labels):
        return torch.nn.functional.cross_entropy(outputs, labels)

    sides = [Side(framework="torch", model=model, loss=loss) for model in (torch_net(torch), program)]
    (tmp_path / "net.pt2").write_bytes(b"")
    with pytest.raises(UsageError, match="PyTorch gives no times of operators"):
        finding.load("torch").operator_times(str(tmp_path / "net"), [X])
    result = check(*sides, inputs=X, labels=np.array([1, 2]), stages=["backward"]).stages[-1]
    assert result.verdict == "error"
    assert "a program of torch.export has no train mode" in result.failure["message"]


@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_to_static_against_eager(paddle):
    net = paddle_net(paddle)
    assert forward("paddle", net, paddle.jit.to_static(paddle_net(paddle))) == ALIGNED
    assert forward("paddle", net, paddle.jit.to_static(paddle_net(paddle, "tanh"))) == DIVERGED


@pytest.mark.parametrize("framework", [pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_the_examples_of_the_page_run(framework, capsys):
    pytest.importorskip(framework)
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL) if "check(" in block]
    (block,) = [block for block in blocks if f"import {framework}\n" in block]
    assert block in PAGE.with_name("programs.zh.md").read_text(encoding="utf-8")
    exec(compile(block, str(PAGE), "exec"), {})
    told = capsys.readouterr().out.split()
    assert told
    assert set(told) == {ALIGNED}


SIDE = """
import numpy as np

def build_model():
    return {path!r}

def inputs():
    return np.ones((2, 6), "float32")

def export(model, path):
    return {path!r}
"""


def test_operators_are_timed_where_they_are_asked_for(tmp_path):
    onnx = pytest.importorskip("onnx", reason="writing ONNX programs needs onnx (the extra `onnx`)")
    pytest.importorskip("onnxruntime", reason="ONNX programs need onnxruntime (the extra `onnx`)")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 6]) for name in "xy")
    nodes = [onnx.helper.make_node("Sin", ["x"], ["h"], name="wave"), onnx.helper.make_node("Softmax", ["h"], ["y"], name="top")]
    path = str(tmp_path / "net.onnx")
    graph = onnx.helper.make_graph(nodes, "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    (tmp_path / "side.py").write_text(SIDE.format(path=path))
    table = 'module = "side.py"\nframework = "onnxruntime"\n'
    (tmp_path / "paralign.toml").write_text(f"[reference]\n{table}[candidate]\n{table}[infer]\noperators = 1\n")
    result = check_project(tmp_path, ["infer"])[0].stages[-1]
    assert result.verdict == ALIGNED, (result.failure, result.notes)
    told = [note for note in result.notes if "times of operators" in note]
    assert len(told) == 2
    assert all(re.search(r"1 of 2: (Sin \(wave\)|Softmax \(top\)) [\d.e-]+ ms \(\d+%\)", note) for note in told)


def named_outputs(paddle, second=2.0):
    """A model whose entries of one shape stand in another order than their names."""

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            paddle.seed(0)
            self.conv = paddle.nn.Conv2D(3, 4, 3)
            self.second = second

        def forward(self, x):
            h = self.conv(x)
            return {"z": h, "b": {"y": h * self.second, "a": h.mean([2, 3])}, "a": h.tanh()}

    net = Net()
    net.eval()
    return net


@pytest.mark.filterwarnings("ignore:Found 'dict' in given outputs")
def test_entries_of_a_dict_come_sorted_by_name_from_paddles_programs(paddle):
    spec = [paddle.static.InputSpec([None, 3, 8, 8], "float32")]
    model = named_outputs(paddle)
    result = exported("paddle", model, lambda net, path: paddle.jit.save(net, path, input_spec=spec))
    assert result.verdict == ALIGNED, (result.failure, result.notes)
    assert {"reference's export.z", "reference's export.b.y", "reference's export.b.a", "reference's export.a"} <= set(
        keys(result, ALIGNED)
    )
    assert any("its outputs come in the order of their names: a, b.a, b.y, z" in note for note in result.notes)


@pytest.mark.filterwarnings("ignore:Found 'dict' in given outputs")
def test_a_wrong_entry_of_a_dict_is_the_one_that_is_named(paddle):
    spec = [paddle.static.InputSpec([None, 3, 8, 8], "float32")]
    model, other = named_outputs(paddle), named_outputs(paddle, second=2.5)
    result = exported("paddle", model, lambda _, path: paddle.jit.save(other, path, input_spec=spec))
    assert result.verdict == DIVERGED
    assert [key for key in keys(result, DIVERGED) if "batch" not in key] == ["reference's export.b.y"]
