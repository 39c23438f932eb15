"""The stage ``loss`` without ``backward``: a gradient at the outputs that no parameter feels accuses nobody."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")

INPUTS = np.random.RandomState(0).randn(3, 4).astype("float32")
LABELS = np.arange(3) % 4


class Probabilities(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.softmax(self.inner(x), -1)


class Scores(Probabilities):
    """Whose outputs can move in every direction."""

    def forward(self, x):
        return self.inner(x).exp()


def plain(outputs, labels):
    return -torch.log(outputs.gather(1, labels[:, None])).mean()


def of_sums(outputs, labels):
    """Equal where outputs sum to one, with another gradient along their sum."""
    return (
        -torch.log(outputs.gather(1, labels[:, None]) / outputs.sum(1, keepdim=True)).mean() + (outputs.sum(1).detach().log()).mean() * -1
    )


def louder(outputs, labels):
    """Equal values, and gradients half as large again."""
    found = plain(outputs, labels)
    return found * 1.5 - found.detach() * 0.5


def checked(model, loss, stages):
    torch.manual_seed(0)
    sides = [Side(framework="torch", functions={"build_model": model, "loss": each}) for each in (plain, loss)]
    return check(*sides, inputs=INPUTS, labels=LABELS, stages=stages)


@pytest.mark.parametrize("stages", [["loss"], ["weights", "loss"], ["weights", "forward", "loss"]])
def test_what_no_parameter_feels_is_left_out(stages):
    result = checked(Probabilities, of_sums, stages)
    assert [stage.name for stage in result.stages] == stages
    assert result["loss"].verdict == ALIGNED
    assert "the model's outputs cannot move that way" in result["loss"].notes[-1]


@pytest.mark.parametrize("stages", [["loss"], ["weights", "loss"]])
@pytest.mark.parametrize(("model", "loss"), [(Probabilities, louder), (Scores, of_sums), (Scores, louder)])
def test_what_parameters_feel_is_not(stages, model, loss):
    assert checked(model, loss, stages)["loss"].verdict == DIVERGED
