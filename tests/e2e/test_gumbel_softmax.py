"""A softmax whose kernel adds Gumbel noise by itself draws what the reference drew."""

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


class _Torch(torch.nn.Module):
    def __init__(self, hard):
        super().__init__()
        self.a, self.b, self.hard = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3), hard

    def forward(self, x):
        return self.b(torch.nn.functional.gumbel_softmax(self.a(x), tau=0.7, hard=self.hard))


class _Paddle(paddle.nn.Layer):
    def __init__(self, hard, temperature):
        super().__init__()
        self.a, self.b = paddle.nn.Linear(6, 16), paddle.nn.Linear(16, 3)
        self.hard, self.temperature = hard, temperature

    def forward(self, x):
        return self.b(paddle.nn.functional.gumbel_softmax(self.a(x), temperature=self.temperature, hard=self.hard))


def checked(hard, temperature=0.7, *, turned=False):
    sides = (
        Side(framework="torch", functions={"build_model": lambda: _Torch(hard), "loss": torch.nn.functional.cross_entropy}),
        Side(framework="paddle", functions={"build_model": lambda: _Paddle(hard, temperature), "loss": paddle.nn.functional.cross_entropy}),
    )
    sides = sides[::-1] if turned else sides
    inputs = np.random.RandomState(0).randn(8, 6).astype("f4")
    return check(*sides, inputs=inputs, labels=np.arange(8) % 3, stages=["weights", "forward", "backward"])


@pytest.mark.parametrize("hard", [False, True])
def test_a_gumbel_softmax_is_compared_with_the_references_draw(hard):
    result = checked(hard)
    assert [result[stage].verdict for stage in ("forward", "backward")] == [ALIGNED] * 2
    assert any("1 drew what the reference drew" in note for note in result["forward"].notes)


def test_what_a_kernel_of_the_reference_drew_is_read_off_its_result():
    result = checked(hard=False, turned=True)
    assert [result[stage].verdict for stage in ("forward", "backward")] == [ALIGNED] * 2


def test_another_temperature_is_found():
    result = checked(hard=False, temperature=1.0)
    assert result["forward"].verdict == DIVERGED
    assert "gumbel_softmax" in result["forward"].divergence.candidate.op
