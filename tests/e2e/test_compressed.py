"""Ports of compressed models: masks and rounded weights on both sides, and a compressed port beside the port itself."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

from torch.nn.utils import prune  # noqa: E402

from paralign import Side, check  # noqa: E402
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.paddle,
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor"),  # Paddle's own quantisation
]

X = np.random.RandomState(0).rand(4, 3, 8, 8).astype("float32")

STAGES = ["weights", "forward"]


class Reference(torch.nn.Module):
    """A convolution, whose weight may be changed before it is used, and a linear layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(288, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class Pruned(paddle.nn.Layer):
    """A weight and its mask, by the names that PyTorch's pruning gives them."""

    def __init__(self, mask):
        super().__init__()
        self.fc, self.conv = paddle.nn.Linear(288, 5), paddle.nn.Layer()
        self.conv.weight_orig = self.create_parameter([8, 3, 3, 3])
        self.conv.bias = self.create_parameter([8], is_bias=True)
        self.conv.register_buffer("weight_mask", paddle.to_tensor(mask))

    def forward(self, x):
        weight = self.conv.weight_orig * self.conv.weight_mask
        x = paddle.nn.functional.conv2d(x, weight, self.conv.bias)
        return self.fc(paddle.nn.functional.relu(x).flatten(1))


class Unmasked(Pruned):
    def forward(self, x):
        x = paddle.nn.functional.conv2d(x, self.conv.weight_orig, self.conv.bias)
        return self.fc(paddle.nn.functional.relu(x).flatten(1))


def line_of(stage):
    assert stage.divergence is not None
    assert stage.divergence.candidate is not None
    return stage.divergence.candidate.code


def pruned():
    model = Reference()
    prune.l1_unstructured(model.conv, "weight", 0.5)
    return model


def test_a_pruned_port_is_proven_with_its_masks():
    reference = pruned()
    result = check(Side(model=reference), Side(model=Pruned(reference.conv.weight_mask.numpy())), inputs=X, stages=STAGES)
    assert result["weights"].verdict == ALIGNED, result["weights"].notes
    assert result["forward"].verdict == ALIGNED, result["forward"].notes


def test_a_mask_that_a_port_does_not_have_by_itself_is_told():
    """The check carries the reference's mask over; a port that loads none is not pruned."""
    result = check(Side(model=pruned()), Side(model=Pruned(np.ones((8, 3, 3, 3), "float32"))), inputs=X, stages=STAGES)
    assert result["weights"].verdict == UNDERPOWERED
    assert "conv.weight_mask: the candidate builds it otherwise" in " ".join(result["weights"].notes)


def test_a_mask_that_is_not_used_is_found():
    reference = pruned()
    result = check(Side(model=reference), Side(model=Unmasked(reference.conv.weight_mask.numpy())), inputs=X, stages=STAGES)
    assert result["forward"].verdict == DIVERGED
    assert "conv.weight_orig" in line_of(result["forward"])


def rounded(weight):
    scale = weight.abs().max() / 127
    return torch.round(weight / scale) * scale


class Rounded(Reference):
    def forward(self, x):
        x = torch.nn.functional.conv2d(x, rounded(self.conv.weight), self.conv.bias)
        return self.fc(torch.relu(x).flatten(1))


def scaled(weight, levels=127, axis=None):
    most = weight.abs().max(axis=axis, keepdim=axis is not None)
    scale = most / levels
    return paddle.round(weight / scale) * scale


class PortRounded(paddle.nn.Layer):
    """Weights rounded to eight bits, or as ``how`` says."""

    def __init__(self, **how):
        super().__init__()
        self.how, self.conv, self.fc = how, paddle.nn.Conv2D(3, 8, 3), paddle.nn.Linear(288, 5)

    def forward(self, x):
        x = paddle.nn.functional.conv2d(x, scaled(self.conv.weight, **self.how), self.conv.bias)
        return self.fc(paddle.nn.functional.relu(x).flatten(1))


def test_rounded_weights_are_proven():
    result = check(Side(model=Rounded()), Side(model=PortRounded()), inputs=X, stages=STAGES)
    assert result.verdict == ALIGNED, result["forward"].notes


@pytest.mark.parametrize(
    ("how", "says"),
    [({"levels": 128}, "levels"), ({"levels": 63}, "levels"), ({"axis": [1, 2, 3]}, "max(")],
    ids=["128 levels", "seven bits", "a scale for each channel"],
)
def test_another_rounding_is_found_with_its_line(how, says):
    result = check(Side(model=Rounded()), Side(model=PortRounded(**how)), inputs=X, stages=STAGES)
    assert result["forward"].verdict == DIVERGED
    assert says in line_of(result["forward"])


def test_a_quantised_port_beside_the_port_itself():
    """Compression changes what a model computes: outputs diverge, with their error; the metric says what that costs."""
    from paddle.quantization import PTQ, QuantConfig
    from paddle.quantization.observers import AbsmaxObserver

    paddle.seed(1)
    port = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(288, 5))
    port.eval()
    quantiser = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=AbsmaxObserver()))
    observed = quantiser.quantize(port, inplace=False)
    observed(paddle.to_tensor(X))
    small = quantiser.convert(observed, inplace=False)
    small.eval()
    labels = port(paddle.to_tensor(X)).argmax(1).numpy()

    def accuracy(outputs, targets):
        return {"accuracy": float((outputs.argmax(1) == targets).astype("float32").mean())}

    sides = [Side(model=model, functions={"metric": accuracy}) for model in (port, small)]
    result = check(*sides, inputs=X, labels=labels, stages=["forward", "metric"], weights="as-is")
    forward = result["forward"]
    assert forward.verdict == DIVERGED
    assert forward.worst is not None
    assert 1e-4 < forward.worst.error < 0.1
    assert result["metric"].verdict == ALIGNED, result["metric"].notes
