"""Ports with parameters too many, rows that nothing reached, outputs that only hand the input on."""

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RNG = np.random.default_rng(0)


class Block(torch.nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(before, after, 3, padding=1, bias=False), torch.nn.BatchNorm2d(after)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Other(paddle.nn.Layer):
    def __init__(self, before, after, bias):
        super().__init__()
        self.c = paddle.nn.Conv2D(before, after, 3, padding=1, bias_attr=None if bias else False)
        self.bn = paddle.nn.BatchNorm2D(after)

    def forward(self, x):
        return paddle.nn.functional.relu(self.bn(self.c(x)))


@pytest.mark.parametrize("bias", [False, True])
def test_a_bias_too_many_keeps_no_other_tensor_from_its_twin(bias):
    reference = Side(framework="torch", functions={"build_model": lambda: torch.nn.Sequential(Block(3, 8), Block(8, 6))})
    candidate = Side(framework="paddle", functions={"build_model": lambda: paddle.nn.Sequential(Other(3, 8, bias), Other(8, 6, bias))})
    x = RNG.standard_normal((2, 3, 8, 8)).astype("float32")
    result = check(reference, candidate, inputs=x, stages=["weights", "forward"])
    left = [p.key for p in result["weights"].pairs if p.judged and p.verdict != "aligned"]
    assert left == (["0.c.bias", "1.c.bias"] if bias else [])
    assert result["forward"].verdict == "aligned"  # the norm behind them takes a constant away


def entropy(framework):
    return lambda outputs, labels: framework.nn.functional.cross_entropy(outputs["logits"], labels) + 0.1 * (outputs["input"] ** 2).mean()


class Handing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 4)

    def forward(self, x):
        return {"logits": self.fc(x), "input": x}


class HandingOn(paddle.nn.Layer):
    def __init__(self, scale=1.0):
        super().__init__()
        self.fc, self.scale = paddle.nn.Linear(6, 4), scale

    def forward(self, x):
        return {"logits": self.fc(x), "input": x * self.scale if self.scale != 1.0 else x}


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "aligned"), (1.1, "diverged")])
def test_an_output_that_hands_the_input_on_has_no_gradient_to_compare(scale, verdict):
    reference = Side(framework="torch", functions={"build_model": Handing}, loss=entropy(torch))
    candidate = Side(framework="paddle", functions={"build_model": lambda: HandingOn(scale)}, loss=entropy(paddle))
    x, y = RNG.standard_normal((5, 6)).astype("float32"), np.array([0, 1, 2, 3, 0])
    result = check(reference, candidate, inputs=x, labels=y, stages=["weights", "forward", "loss", "backward"])
    assert result.verdict == verdict
    assert result["loss"].verdict == "aligned"


class Experts(torch.nn.Module):
    """A stack of experts in one tensor, of which some rows are reached by no token."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8, 6, 4))

    def forward(self, x, which):
        return torch.einsum("bi,bij->bj", x, self.w[which])


class OtherExperts(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.w = self.create_parameter([8, 6, 4])

    def forward(self, x, which):
        return paddle.einsum("bi,bij->bj", x, paddle.gather(self.w, which, axis=0))


def test_rows_that_no_token_reached_are_no_difference():
    def loss(outputs, labels):
        return (outputs**2).mean() + 0.0 * labels.sum()

    reference = Side(framework="torch", functions={"build_model": Experts, "build_optimizer": lambda m: torch.optim.Adam(m.parameters())})
    candidate = Side(
        framework="paddle",
        functions={"build_model": OtherExperts, "build_optimizer": lambda m: paddle.optimizer.Adam(parameters=m.parameters())},
    )
    reference.loss = candidate.loss = loss
    inputs = RNG.standard_normal((5, 6)).astype("float32"), np.array([0, 1, 3, 3, 0])
    result = check(reference, candidate, inputs=inputs, labels=np.ones(5, "float32"), stages=["weights", "forward", "loss", "backward"])
    assert result.verdict == "aligned", result["backward"].warnings
