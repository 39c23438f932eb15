"""A real PyTorch model and its PaddlePaddle port: weights by plan, calls by the adapters, the planted fault found by location."""

import importlib.util

import numpy as np
import pytest

from paralign.adapters.finding import load
from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.dtypes import Typed, widen
from paralign.locate import first_module
from paralign.model import Manifest, Record
from paralign.weights import apply, plan

pytestmark = [
    pytest.mark.torch,
    pytest.mark.paddle,
    pytest.mark.skipif(not (importlib.util.find_spec("torch") and importlib.util.find_spec("paddle")), reason="needs both frameworks"),
]

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 16, 16))


def torch_net():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + x)

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.q, self.k, self.v = nn.LayerNorm(width), *(nn.Linear(width, width) for _ in range(3))
            self.out, self.width = nn.Linear(width, width), width

        def forward(self, x):
            y = self.norm(x)
            scores = self.q(y) @ self.k(y).transpose(1, 2) / self.width**0.5
            return x + self.out(torch.softmax(scores, -1) @ self.v(y))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.blocks = nn.Conv2d(3, 8, 3, stride=2), nn.Sequential(Block(8), Block(8))
            self.attention, self.head = Attention(8), nn.Linear(8, 10)

        def forward(self, x):
            x = nn.functional.avg_pool2d(self.blocks(self.stem(x)), 3, 2, 1)
            return self.head(self.attention(x.flatten(2).transpose(1, 2)).mean(1))

    torch.manual_seed(0)
    net = Net()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.running_mean)
    return net


def paddle_net(fault=""):
    """The port: other definition order, other structure (activations as layers, an extra identity), and one fault at most."""
    import paddle
    from paddle import nn

    class Block(nn.Layer):
        def __init__(self, width, fault):
            super().__init__()
            self.bn2 = nn.BatchNorm2D(width, epsilon=1e-3 if fault == "epsilon" else 1e-5)
            self.conv2, self.bn1 = nn.Conv2D(width, width, 3, padding=1), nn.BatchNorm2D(width)
            self.conv1 = nn.Conv2D(width, width, 3, padding=1, padding_mode="replicate" if fault == "padding" else "zeros")
            self.act = nn.GELU() if fault == "activation" else nn.Identity() if fault == "no activation" else nn.ReLU()
            self.shortcut, self.residual = nn.Identity(), 0.0 if fault == "residual" else 1.0

        def forward(self, x):
            y = self.act(self.bn1(self.conv1(x)))
            return nn.functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x) * self.residual)

    class Attention(nn.Layer):
        def __init__(self, width):
            super().__init__()
            self.v, self.k, self.q = (nn.Linear(width, width) for _ in range(3))
            self.out, self.norm, self.width = nn.Linear(width, width), nn.LayerNorm(width), width

        def forward(self, x):
            y = self.norm(x)
            scores = self.q(y) @ self.k(y).transpose([0, 2, 1]) / (self.width if fault == "scale" else self.width**0.5)
            return x + self.out(nn.functional.softmax(scores, 1 if fault == "softmax" else -1) @ self.v(y))

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.head, self.attention = nn.Linear(8, 10), Attention(8)
            self.blocks, self.stem = nn.Sequential(Block(8, ""), Block(8, fault)), nn.Conv2D(3, 8, 3, stride=2)

        def forward(self, x):
            x = nn.functional.avg_pool2d(self.blocks(self.stem(x)), 3, 2, 1, exclusive=fault == "pool")
            return self.head(self.attention(x.flatten(2).transpose([0, 2, 1])).mean(1))

    paddle.seed(1)
    return Net()


def state_records(entries, adapter):
    return [
        Record(
            i,
            e.name,
            "weights",
            e.role,
            adapter.to_array(e.tensor).dtype,
            tuple(e.tensor.shape),
            attrs={
                "owner": e.owner,
                "leaf": e.leaf,
                "kind": e.kind,
                "trainable": e.trainable,
                "shared": e.shared,
                "persistent": e.persistent,
            },
        )
        for i, e in enumerate(entries)
    ]


def carry_weights(reference, candidate):
    """Load the reference's weights into the candidate by plan; every tensor has to have its place."""
    torch, paddle = load("torch"), load("paddle")
    ours, theirs = torch.state(reference), paddle.state(candidate)
    mapping = plan(state_records(ours, torch), state_records(theirs, paddle), "torch", "paddle")
    assert mapping.complete
    assert {m.reference.attrs["leaf"] for m in mapping.dropped} == {"num_batches_tracked"}
    values = {e.name: torch.to_array(e.tensor) for e in ours}
    paddle.load_state(candidate, {move.candidate.name: apply(move, values[held.name]) for held, move in mapping.transfers})


def watched(framework, model, path):
    """A capture of the model's calls on the images, in float64."""
    adapter = load(framework)
    adapter.cast(model, "float64")
    adapter.train(model, "eval")
    with CaptureWriter(path, Manifest(framework=framework)) as writer:

        def digests(call, role, tensors, inputs=()):
            attrs = {"module": True, "kind": call.kind, "depth": call.depth, "leaf": call.leaf}
            return tuple(
                writer.add(
                    call.name,
                    value,
                    role=role,
                    stage="forward",
                    run="float64",
                    call=call.number,
                    op=call.op,
                    inputs=inputs,
                    source=call.source,
                    digest=moments(widen(value)),
                    attrs=attrs,
                    keep=False,
                ).id
                for value in map(adapter.to_array, tensors)
            )

        def sink(call):
            taken = [v for v in (call.inputs[0] if isinstance(call.inputs[0], (list, tuple)) else call.inputs) if adapter.is_tensor(v)]
            digests(call, "output", [call.outputs], digests(call, "input", taken))

        with adapter.no_grad(), adapter.observe(model, sink):
            model(adapter.from_array(Typed(IMAGES, "float64")))
    return Capture.open(path)


def located(tmp_path, fault):
    reference, candidate = torch_net(), paddle_net(fault)
    carry_weights(reference, candidate)
    captures = watched("torch", reference, tmp_path / "reference"), watched("paddle", candidate, tmp_path / "candidate")
    return first_module(*captures, run="float64", tolerance=1e-7)


def test_a_correct_port_has_no_divergence(tmp_path):
    assert located(tmp_path, "") is None


@pytest.mark.parametrize(
    ("fault", "candidate", "reference"),
    [
        ("epsilon", "blocks.1.bn2", "blocks.1.bn2"),
        ("padding", "blocks.1.conv1", "blocks.1.conv1"),
        ("activation", "blocks.1.act", None),  # the reference's activation is no module
        ("no activation", "blocks.1.conv2", None),  # its consumer
        ("residual", "blocks.1", "blocks.1"),  # code of the block
        ("pool", "", ""),  # code of the model
        ("scale", "attention", "attention"),  # code of the attention
        ("softmax", "attention", "attention"),
    ],
)
def test_a_planted_fault_is_located(tmp_path, fault, candidate, reference):
    found = located(tmp_path, fault)
    assert found.candidate.name == candidate
    assert (found.reference and found.reference.name) == reference
    assert found.inputs_agree
    assert found.candidate.source is None or "test_locate_real.py:" in found.candidate.source
    if candidate.startswith("blocks.1."):
        assert "self." in found.candidate.code
