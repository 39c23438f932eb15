"""Rules of ``Exporting``: an exported program gives what the model gives, or says what is missing."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.errors import EnvironmentUnavailable, UsageError

X, Y = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), np.ones((2, 3), "float32")


def torch_model(*, named=True):
    torch = pytest.importorskip("torch")

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x, y):
            first, rest = self.linear(x), (x + y, [y * 2])
            return {"first": first, "rest": rest} if named else (first, rest)

    return torch, Two().eval()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".pth"])
def test_torch_programs(tmp_path, suffix):
    torch, model = torch_model(named=suffix == ".pt2")  # a traced dict may not mix tensors and tuples
    path = tmp_path / f"model{suffix}"
    inputs = (torch.from_numpy(X), torch.from_numpy(Y))
    if suffix == ".pt2":
        torch.export.save(torch.export.export(model, inputs), path)
    else:
        torch.jit.trace(model, inputs, strict=False).save(str(path))
    first, rest = ("first", "rest") if suffix == ".pt2" else (0, 1)
    expected = model(*inputs)[first].detach().numpy()
    for where in (str(path), str(tmp_path / "model")):
        out = finding.load("torch").run_exported(where, [X, np.asfortranarray(Y)])
        np.testing.assert_allclose(out[first], expected, rtol=1e-6)
        assert isinstance(out[first], np.ndarray)
        np.testing.assert_array_equal(out[rest][0], X + Y)
        np.testing.assert_array_equal(out[rest][1][0], Y * 2)


@pytest.mark.torch
@pytest.mark.filterwarnings("error")
def test_loading_torchscript_does_not_warn(tmp_path):
    torch, _ = torch_model()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(torch.nn.ReLU()).save(str(tmp_path / "relu.pt"))
    assert finding.load("torch").run_exported(str(tmp_path / "relu.pt"), [X]).min() == 0


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("suffix", "kind"), [(".pt2", "a program of torch.export"), (".pt", "TorchScript")])
def test_torch_files_that_are_no_programs(tmp_path, suffix, kind):
    torch, model = torch_model()
    junk, weights = tmp_path / f"junk{suffix}", tmp_path / f"weights{suffix}"
    junk.write_bytes(b"not a program")
    torch.save(model.state_dict(), weights)
    for path in (junk, weights):
        with pytest.raises(UsageError, match=f"this file cannot be loaded as {kind}: ") as caught:
            finding.load("torch").run_exported(str(path), [X])
        assert caught.value.where == str(path)
        assert caught.value.hint == "export it again"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A Paddle program with two inputs and two outputs, one with a single output, and the layer that both come from."""
    paddle = pytest.importorskip("paddle")

    class Two(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = paddle.nn.Linear(3, 2)

        def forward(self, x, y):
            return self.linear(x), x + y

    model = Two()
    model.eval()
    prefix = tmp_path_factory.mktemp("exported") / "net"
    spec = [paddle.static.InputSpec([None, 3], "float32", name) for name in ("x", "y")]
    paddle.jit.save(model, str(prefix), input_spec=spec)
    paddle.jit.save(model.linear, str(prefix) + "-one", input_spec=spec[:1])
    expected = [t.numpy() for t in model(paddle.to_tensor(X), paddle.to_tensor(Y))]
    return prefix, expected


@pytest.mark.paddle
@pytest.mark.parametrize("suffix", ["", ".json", ".pdiparams"])
def test_paddle_programs(program, suffix):
    prefix, expected = program
    out = finding.load("paddle").run_exported(f"{prefix}{suffix}", [X, np.asfortranarray(Y)])
    assert isinstance(out, list)
    for got, want in zip(out, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    single = finding.load("paddle").run_exported(f"{prefix}-one{suffix}", [X[:, ::-1][:, ::-1]])
    np.testing.assert_allclose(single, expected[0], rtol=1e-6)


@pytest.mark.paddle
def test_paddle_programs_that_onednn_refuses(tmp_path):
    import paddle

    prefix = str(tmp_path / "up")
    model = paddle.nn.Sequential(paddle.nn.Conv2D(1, 2, 1), paddle.nn.Upsample(scale_factor=2, mode="bilinear"))
    model.eval()
    paddle.jit.save(model, prefix, input_spec=[paddle.static.InputSpec([None, 1, 4, 4], "float32")])
    given = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    out = finding.load("paddle").run_exported(prefix, [given])
    np.testing.assert_allclose(out, model(paddle.to_tensor(given)).numpy(), rtol=1e-6)


@pytest.mark.paddle
def test_paddle_inputs_are_counted(program):
    prefix, _ = program
    with pytest.raises(UsageError) as caught:
        finding.load("paddle").run_exported(str(prefix), [X])
    assert caught.value.what == "the exported program takes 2 inputs (x, y) and was given 1"
    assert caught.value.where == f"{prefix}.json"


@pytest.mark.paddle
def test_paddle_programs_without_weights_or_sense(program, tmp_path):
    prefix, _ = program
    lonely = tmp_path / "lonely.json"
    lonely.write_bytes((prefix.parent / "net.json").read_bytes())
    with pytest.raises(UsageError, match="the weights of this exported program are missing") as caught:
        finding.load("paddle").run_exported(str(lonely), [X, Y])
    assert caught.value.where == str(tmp_path / "lonely.pdiparams")
    (tmp_path / "junk.json").write_text("{}", encoding="utf-8")
    (tmp_path / "junk.pdiparams").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be loaded as a Paddle Inference program"):
        finding.load("paddle").run_exported(str(tmp_path / "junk"), [X, Y])


def test_nothing_there(trained, tmp_path):
    with pytest.raises(UsageError) as caught:
        trained.adapter.run_exported(str(tmp_path / "gone"), [X])
    assert caught.value.what == "there is no exported program here"
    assert caught.value.where == str(tmp_path / "gone")
    assert ".onnx" in caught.value.hint


def test_a_file_of_no_known_kind(trained, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="the kind of this exported program is not known from its name") as caught:
        trained.adapter.run_exported(str(path), [X])
    assert ".onnx" in caught.value.hint


def test_onnx_without_its_runtime(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(EnvironmentUnavailable, match="an ONNX file cannot be run here") as caught:
        trained.adapter.run_exported(str(tmp_path / "model"), [X])
    assert caught.value.where == str(path)
    assert caught.value.hint == "install onnxruntime for this interpreter"


class Session:
    """onnxruntime's session as far as it is used, for a program that subtracts."""

    def __init__(self, path, providers):
        assert providers == ["CPUExecutionProvider"]
        assert path.endswith("model.onnx")

    def get_inputs(self):
        return [types.SimpleNamespace(name="x"), types.SimpleNamespace(name="y")]

    def run(self, outputs, feed):
        assert outputs is None
        assert all(array.flags.c_contiguous for array in feed.values())
        return [feed["x"] - feed["y"]]


def test_onnx_inputs_go_by_order(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", types.SimpleNamespace(InferenceSession=Session))
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    np.testing.assert_array_equal(trained.adapter.run_exported(str(path), [X, Y[::-1]]), X - Y)
    with pytest.raises(UsageError, match=r"takes 2 inputs \(x, y\) and was given 3"):
        trained.adapter.run_exported(str(path), [X, Y, Y])
