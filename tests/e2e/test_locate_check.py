"""`paralign check` on a port with planted faults: the report names the lines of both sides, the arguments, and what matched before."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5)  # norm
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.fc(self.norm(x))
        h = F.leaky_relu(h, 0.01)  # activation
        return x + h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = torch.tanh(x)  # tanh
        return self.head(x)


def build_model():
    torch.manual_seed(0)
    return Net()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon=1e-5)  # norm
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.fc(self.norm(x))
        h = F.leaky_relu(h, 0.01)  # activation
        return x + h


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.blocks = nn.LayerList([Block(16) for _ in range(2)])
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = paddle.tanh(x)  # tanh
        return self.head(x)  # head


def build_model():
    paddle.seed(0)
    return Net()


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())
"""

TOML = """
[reference]
module = "reference.py"
framework = "torch"
[candidate]
module = "candidate.py"
framework = "paddle"
[inputs]
shape = [4, 12]
[labels]
shape = [4]
dtype = "int64"
distribution = "integers"
high = 5
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A project whose reference was recorded once."""
    folder = tmp_path_factory.mktemp("port")
    for name, text in (("reference.py", REFERENCE), ("candidate.py", CANDIDATE), ("paralign.toml", TOML)):
        (folder / name).write_text(text)
    return folder


def checked(run, port, *changes, stages=("forward",)):
    """The exit code, the terminal's text and the stages of the report, with changes made to the candidate."""
    text = CANDIDATE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (port / "candidate.py").write_text(text)
    done = run("check", port, *stages)
    report = json.loads((port / "result" / "report.json").read_text())
    return done, {stage["name"]: stage for stage in report["stages"]}


def line_of(port, file, marker):
    lines = (port / file).read_text().splitlines()
    return f"{port / file}:{1 + next(i for i, text in enumerate(lines) if text.endswith('# ' + marker))}"


def test_a_right_port_has_no_divergence(run, port):
    done, stages = checked(run, port, stages=("forward", "backward"))
    assert done.code == 0, done.out + done.err
    assert [stage["divergences"] for stage in stages.values()] == [[], []]


def test_a_wrong_argument_is_named_with_both_lines_and_their_code_and_again_offline(run, port):
    done, stages = checked(run, port, ("F.leaky_relu(h, 0.01)", "F.leaky_relu(h, 0.2)"))
    assert done.code == 1, done.out + done.err
    forward = stages["forward"]
    assert forward["verdict"] == "diverged"
    (one,) = forward["divergences"]
    assert one == forward["divergence"]
    assert one["candidate"]["source"] == line_of(port, "candidate.py", "activation")
    assert one["candidate"]["code"] == "h = F.leaky_relu(h, 0.2)  # activation"
    assert one["reference"]["source"] == line_of(port, "reference.py", "activation")
    assert one["reference"]["code"] == "h = F.leaky_relu(h, 0.01)  # activation"
    assert one["candidate"]["arguments"]["negative_slope"] == pytest.approx(0.2)
    assert one["reference"]["arguments"].get("negative_slope", 0.01) == pytest.approx(0.01)
    assert (one["what"], one["confirmed"], one["repeats"]) == ("different", True, 1)
    assert one["candidate"]["name"].startswith("blocks.0")
    assert one["error"] > 1e3 * one["noise"]
    assert one["error_before"] < one["noise"]
    assert one["error_after"] < 1e-6
    assert one["chain"]
    assert one["last_agreeing"] == one["chain"][-1]
    assert "blocks.0.fc" in one["last_agreeing"]
    flat = " ".join(done.out.split())
    assert "F.leaky_relu(h, 0.2) # activation" in flat
    assert "F.leaky_relu(h, 0.01) # activation" in flat
    assert "times its noise" in flat

    captures = port / "result" / "captures"  # of the same check: located once more, without a run
    again = run("locate", captures / "reference" / "operations", captures / "candidate" / "operations", "-v")
    assert again.code == 1, again.out + again.err
    assert "# activation" in again.out
    assert "nothing was run" in " ".join(again.out.split())


def test_a_layer_wrongly_constructed_and_a_missing_step_are_found_in_one_run(run, port):
    done, stages = checked(run, port, ("epsilon=1e-5", "epsilon=1e-3"), ("        x = paddle.tanh(x)  # tanh\n", ""))
    assert done.code == 1
    found = {one["what"]: one for one in stages["forward"]["divergences"]}
    assert set(found) == {"different", "missing"}
    assert found["different"]["candidate"]["source"] == line_of(port, "candidate.py", "norm")
    assert found["different"]["reference"]["source"] == line_of(port, "reference.py", "norm")
    assert found["different"]["confirmed"]
    assert found["missing"]["reference"]["source"] == line_of(port, "reference.py", "tanh")
    assert found["missing"]["reference"]["op"] == "aten.tanh.default"
    assert "other points, perhaps of the same fault" in done.out


def test_a_gradient_that_is_cut_off_is_located(run, port):
    done, stages = checked(run, port, ("x = block(x)", "x = block(x.detach())  # cut"), stages=("forward", "backward"))
    assert done.code == 1
    assert stages["forward"]["verdict"] == "aligned"
    assert stages["forward"]["divergences"] == []
    cut = [one for one in stages["backward"]["divergences"] if one["what"] == "detached"]
    assert cut
    assert cut[0]["candidate"]["source"] == line_of(port, "candidate.py", "cut")
