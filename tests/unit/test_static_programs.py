"""Static programs of Paddle's beside a model of PyTorch's: values and gradients are fetched by name and compared."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.paddle,
    pytest.mark.filterwarnings("ignore:Tensor do not have 'place' interface:UserWarning"),  # Paddle's own, when it makes gradients
]

X = np.random.RandomState(0).normal(size=(4, 3)).astype("float32")
WEIGHT = np.random.RandomState(1).normal(size=(3, 2)).astype("float32")


def program(factor=2.0, fetch=("loss", "x@GRAD", "weight@GRAD"), loss=True, weight=WEIGHT):
    from paralign.adapters.static import StaticProgram

    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 3])
            x.stop_gradient = False
            made = paddle.static.create_parameter([3, 2], "float32", name="weight")
            total = paddle.mean(paddle.tanh(paddle.matmul(x, made)) ** factor)
    finally:
        paddle.disable_static()
    known = {"loss": total, "x@GRAD": x, "weight@GRAD": made}
    wanted = {name: known.get(name, name) for name in fetch}
    return StaticProgram(main, startup, ["x"], wanted, loss=total if loss else None, parameters={"weight": weight})


def reference():
    def run(x):
        given = torch.tensor(x, requires_grad=True)
        weight = torch.tensor(WEIGHT, requires_grad=True)
        loss = (torch.tanh(given @ weight) ** 2).mean()
        loss.backward()
        return {"loss": loss.detach().numpy(), "x@GRAD": given.grad.numpy(), "weight@GRAD": weight.grad.numpy()}

    return run


def checked(**changed):
    sides = Side(framework="numpy", model=reference()), Side(framework="numpy", model=program(**changed))
    return check(*sides, inputs=X, stages=["forward"])["forward"]


def test_values_and_gradients_of_a_right_program_are_aligned():
    result = checked()
    assert result.verdict == ALIGNED, result.notes
    assert {pair.key.partition(".")[2] for pair in result.pairs} >= {"loss", "x@GRAD", "weight@GRAD"}
    assert paddle.in_dynamic_mode()


def test_a_wrong_program_diverges_in_value_and_gradient():
    result = checked(factor=2.01)
    assert result.verdict == DIVERGED
    assert sum(pair.verdict == DIVERGED for pair in result.pairs) >= 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loss": False}, "no loss was given"),
        ({"fetch": ("nothing",)}, "the program has no variable 'nothing'"),
        ({"weight": WEIGHT.T}, r"weight has shape \[3, 2\]"),
    ],
)
def test_what_cannot_be_fetched_is_one_clear_line(changed, said):
    with pytest.raises(UsageError, match=said):
        program(**changed)
    assert paddle.in_dynamic_mode()


def test_another_number_of_arrays_is_refused():
    with pytest.raises(UsageError, match="takes 1 arrays, 2 were given"):
        program()(X, X)
