"""A PyTorch checkpoint through the command into a Paddle model that somebody wrote with other names, and both run."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block(3, 8, 1), Block(8, 8, 1))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.square = nn.Linear(32, 32)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(x)).flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.fc(torch.tanh(self.square(self.lstm(x)[0].mean(1))))

def build_model():
    return Net()
"""

CANDIDATE = """
import paddle
from paddle import nn

class ConvNorm(nn.Layer):
    def __init__(self, inner, outer, kernel, stride):
        super().__init__()
        self.conv = nn.Conv2D(inner, outer, kernel, stride, kernel // 2, bias_attr=False)
        self.norm = nn.BatchNorm2D(outer)

    def forward(self, x):
        return self.norm(self.conv(x))

class Residual(nn.Layer):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.short = ConvNorm(inner, outer, 1, stride)
        self.conv0 = ConvNorm(inner, outer, 3, stride)
        self.conv1 = ConvNorm(outer, outer, 3, 1)

    def forward(self, x):
        return nn.functional.relu(self.conv1(nn.functional.relu(self.conv0(x))) + self.short(x))

class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stages = nn.LayerList([
            nn.Sequential(Residual(3, 8, 1), Residual(8, 8, 1)), nn.Sequential(Residual(8, 16, 2), Residual(16, 16, 1))])
        self.attention = nn.MultiHeadAttention(16, 4)
        self.rnn = nn.LSTM(16, 16, direction="bidirect")
        self.hidden = nn.Linear(32, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        x = x.flatten(2).transpose([0, 2, 1])
        x = x + self.attention(x, x, x)
        return self.head(paddle.tanh(self.hidden(self.rnn(x)[0].mean(1))))

def build_model():
    return Port()
"""

TOML = """
[reference]
framework = "torch"
[candidate]
framework = "paddle"
[inputs]
shape = [2, 3, 12, 12]
"""


def built(folder, name):
    namespace = {}
    exec((folder / f"{name}.py").read_text(), namespace)
    return namespace["build_model"]()


def outputs(model, x):
    model.eval()
    return model.double()(torch.tensor(x)).detach().numpy() if isinstance(model, torch.nn.Module) else model(paddle.to_tensor(x)).numpy()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The project, with a checkpoint of the reference as a training script leaves it."""
    folder = tmp_path_factory.mktemp("port")
    for name, text in (("reference.py", REFERENCE), ("candidate.py", CANDIDATE), ("paralign.toml", TOML)):
        (folder / name).write_text(text)
    torch.manual_seed(0)
    model = built(folder, "reference")
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, 3, 12, 12) + 0.5)
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state, "optimizer": {"lr": 0.1}, "epoch": 3}, folder / "best.pth")
    return folder


def loaded(folder, checkpoint):
    """The Paddle model with a checkpoint in it, nothing missing and nothing left over."""
    model = built(folder, "candidate")
    missing, unexpected = model.set_state_dict(paddle.load(str(checkpoint)))
    assert (missing, unexpected) == ([], [])
    return model


def distance(folder, port):
    """How far the float64 outputs of the port are from the reference's."""
    model = built(folder, "reference")
    state = torch.load(folder / "best.pth", weights_only=True)["state_dict"]
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    x = np.random.default_rng(3).standard_normal((3, 3, 12, 12))
    reference = outputs(model, x)
    paddle.set_default_dtype("float64")
    try:
        twin = built(folder, "candidate")
        twin.set_state_dict(
            {name: value.cast("float64") if value.dtype == paddle.float32 else value for name, value in port.state_dict().items()}
        )
        return float(np.linalg.norm(outputs(twin, x) - reference) / np.linalg.norm(reference))
    finally:
        paddle.set_default_dtype("float32")


def test_the_converted_weights_make_the_port_equal(run, port):
    done = run("convert", "weights", port / "best.pth", port / "best.pdparams", "--model", port, "--save-rules", port / "rules.toml")
    assert done.code == 0, done.out + done.err
    assert "verdict: proven" in done.out
    assert "'module.' was taken off the names" in done.out
    assert "also in the source, and left there: optimizer, epoch" in done.out
    assert distance(port, loaded(port, port / "best.pdparams")) < 1e-9
    assert len(done.out.splitlines()) < 60  # regular rules, not a line a tensor


def test_the_saved_rules_give_the_same_file_without_any_model(run, port):
    assert (port / "rules.toml").is_file()
    done = run("convert", "weights", port / "best.pth", port / "ruled.pdparams", "--rules", port / "rules.toml")
    assert (done.code, "as the rules say" in done.out) == (0, True), done.out + done.err
    one, other = paddle.load(str(port / "best.pdparams")), paddle.load(str(port / "ruled.pdparams"))
    assert sorted(one) == sorted(other)
    assert all(one[name].numpy().tobytes() == other[name].numpy().tobytes() for name in one)
    done = run("weights", "diff", port / "best.pth", port / "best.pdparams", "--rules", port / "rules.toml")
    assert (done.code, "the same:" in done.out) == (0, True), done.out


def test_and_back_bit_for_bit(run, port):
    done = run("convert", "weights", port / "best.pdparams", port / "back.safetensors", "--model", port, "--json")
    told = json.loads(done.out)
    assert (done.code, told["verdict"], told["frameworks"]) == (0, "proven", {"source": "paddle", "destination": "torch"}), done.out
    from safetensors.torch import load_file

    before = torch.load(port / "best.pth", weights_only=True)["state_dict"]
    after = load_file(port / "back.safetensors")
    left = {name.removeprefix("module.") for name in before} - set(after)
    assert all(name.endswith("num_batches_tracked") for name in left)
    assert all(torch.equal(before[f"module.{name}"], value) for name, value in after.items())
    built(port, "reference").load_state_dict(after)  # strict; PyTorch fills in the counters of files without them


def test_a_port_with_a_mistake_is_not_proven(run, port, tmp_path):
    for name in ("reference.py", "paralign.toml"):
        (tmp_path / name).write_text((port / name).read_text())
    (tmp_path / "candidate.py").write_text(CANDIDATE.replace("nn.BatchNorm2D(outer)", "nn.BatchNorm2D(outer, epsilon=1e-3)"))
    done = run("convert", "weights", port / "best.pth", tmp_path / "b.pdparams", "--model", tmp_path)
    assert (done.code, "verdict: differs" in done.out) == (1, True), done.out


def test_without_the_models_nothing_is_transposed_by_shape(run, port, tmp_path):
    done = run("convert", "weights", port / "best.pth", tmp_path / "b.pdparams")
    assert (done.code, "NOT transposed" in done.out) == (4, True), done.out
    state = torch.load(port / "best.pth", weights_only=True)["state_dict"]
    assert np.array_equal(paddle.load(str(tmp_path / "b.pdparams"))["fc.weight"].numpy(), state["module.fc.weight"].numpy())


SAMPLING = {
    "reference.py": """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.b(torch.cat([h[:, torch.randint(8, (4,))], h[:, 4:]], 1))

def build_model():
    return Net()
""",
    "candidate.py": """
import paddle

class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Linear(6, 8), paddle.nn.Linear(8, 3)
    def forward(self, x):
        h = paddle.tanh(self.first(x)) * SCALE
        return self.second(paddle.concat([paddle.index_select(h, paddle.randint(0, 8, (4,)), axis=1), h[:, 4:]], 1))

def build_model():
    return Net()
""",
    "paralign.toml": '[reference]\nframework = "torch"\n[candidate]\nframework = "paddle"\n[inputs]\nshape = [5, 6]\n',
}


@pytest.mark.parametrize(("scale", "code", "verdict"), [("1.0", 0, "proven"), ("1.01", 1, "differs")])
def test_models_that_draw_in_eval_mode_are_run_with_the_same_draws(run, tmp_path, scale, code, verdict):
    for name, text in SAMPLING.items():
        (tmp_path / name).write_text(text.replace("SCALE", scale))
    torch.save(built(tmp_path, "reference").state_dict(), tmp_path / "a.pth")
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.pdparams", "--model", tmp_path)
    assert (done.code, f"verdict: {verdict}" in done.out) == (code, True), done.out + done.err
