"""Second gradients on request, on both frameworks: compared, and what has none is named."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.stages.loss.second_gradients import _NAMED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

X = np.random.RandomState(0).randn(5, 4).astype("float32")
Y = np.random.RandomState(1).randn(5, 3).astype("float32")


class Torches(torch.nn.Module):
    def __init__(self, act=torch.tanh):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.out, self.act = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3), act

    def forward(self, x):
        return self.out(self.act(self.fc(x)))


class Paddles(paddle.nn.Layer):
    def __init__(self, act=paddle.tanh):
        super().__init__()
        self.fc, self.out, self.act = paddle.nn.Linear(4, 6), paddle.nn.Linear(6, 3), act

    def forward(self, x):
        return self.out(self.act(self.fc(x)))


class Straight(torch.autograd.Function):
    """tanh whose gradient is right and cannot be differentiated."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (1 - y * y)


def torches(act=torch.tanh, loss=torch.nn.functional.mse_loss):
    return Side(framework="torch", model=Torches(act), loss=loss)


def paddles(act=paddle.tanh, loss=paddle.nn.functional.mse_loss):
    return Side(framework="paddle", model=Paddles(act), loss=loss)


def judged(reference, candidate, **more):
    return check(reference, candidate, inputs=X, labels=Y, stages=["loss"], second_gradients=True, **more)["loss"]


def test_a_right_port_agrees_also_in_its_second_gradients():
    stage = judged(torches(), paddles())
    assert stage.verdict == ALIGNED, stage.notes
    told = "second gradients with respect to the inputs, and their norm over all parameters, agree"
    assert told in stage.notes
    assert {p.key for p in stage.pairs if p.key.startswith("second")} == {"second", "second_parameters"}


def test_a_detached_part_shows_in_the_second_gradient_alone():
    stage = judged(torches(), paddles(lambda x: paddle.tanh(x) + 0.1 * (paddle.sin(x) - paddle.sin(x).detach())))
    assert stage.verdict == DIVERGED
    assert any("differ" in note for note in stage.notes if note.startswith("second gradients"))


def test_an_operation_without_a_second_gradient_is_said_with_its_side():
    stage = judged(torches(), torches(Straight.apply))
    assert stage.verdict == DIVERGED
    assert [f.rule for f in stage.findings] == ["loss/second-gradient"]
    assert "the candidate has no second gradient" in stage.findings[0].cause
    assert "once_differentiable" in stage.findings[0].cause


def test_max_pooling_is_named_where_it_has_no_second_gradient():
    def shaped(x):
        return x.reshape([5, 1, 2, 3])

    one = torches(lambda x: torch.nn.functional.max_pool2d(shaped(x) ** 2, (1, 1)).reshape(5, 6))
    other = paddles(lambda x: paddle.nn.functional.max_pool2d(shaped(x) ** 2, (1, 1)).reshape([5, 6]))
    stage = judged(one, other)
    assert stage.verdict == DIVERGED
    assert "the candidate has no second gradient of Pool" in stage.findings[0].cause


def test_without_the_request_none_are_taken():
    stage = check(torches(), torches(), inputs=X, labels=Y, stages=["loss"])["loss"]
    assert not [p for p in stage.pairs if p.key.startswith("second")]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("derivative for aten::_cdist_backward is not implemented", "_cdist_backward"),
        ("the derivative for 'max_pool9d_backward' is not implemented.", "max_pool9d_backward"),
        ("(Unavailable) The Op pool9d_double_grad doesn't have any grad op.", "pool9d_double_grad"),
        ("trying to differentiate twice a function that was marked with @once_differentiable", None),
    ],
)
def test_operations_are_named_as_frameworks_name_them(text, name):
    found = _NAMED.search(text)
    assert (found.group(1) if found else None) == name


def test_the_key_is_read_and_must_be_yes_or_no(project):
    from paralign.errors import UsageError
    from paralign.run.project import read

    path = project.folder / "paralign.toml"
    before = path.read_text()
    path.write_text(before + "\n[loss]\nsecond_gradients = true\n")
    assert read(project.folder).settings.second_gradients is True
    path.write_text(before + '\n[loss]\nsecond_gradients = "yes"\n')
    with pytest.raises(UsageError, match="must be of type bool"):
        read(project.folder)
