"""Constants of losses and optimizers that differ and that no value shows are notes of ``backward``."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
T, P = torch.nn.functional, paddle.nn.functional
INPUTS = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
LABELS = np.random.default_rng(0).integers(0, 5, 8)


def torch_sgd(parameters):
    return torch.optim.SGD(parameters, 0.1)


def paddle_sgd(parameters):
    return paddle.optimizer.SGD(0.1, parameters=parameters)


def notes(theirs=T.cross_entropy, ours=P.cross_entropy, optimizers=(torch_sgd, paddle_sgd)):
    """The notes of an aligned backward stage on what made no difference."""
    sides = (
        Side(framework="torch", functions={"build_model": lambda: torch.nn.Linear(6, 5)}, loss=theirs, optimizer=optimizers[0]),
        Side(framework="paddle", functions={"build_model": lambda: paddle.nn.Linear(6, 5)}, loss=ours, optimizer=optimizers[1]),
    )
    result = check(*sides, inputs=INPUTS, labels=LABELS, stages=["weights", "backward"])["backward"]
    assert result.verdict == "aligned", (result.notes, result.warnings)
    return [note for note in result.notes if "differ" in note]


def bounded(bound):
    return (
        lambda outputs, _: -torch.sigmoid(outputs).clamp(min=bound).log().mean(),
        lambda outputs, _: -P.sigmoid(outputs).clip(min=bound).log().mean(),
    )


def ignoring(label):
    return (
        lambda outputs, labels: T.cross_entropy(outputs, labels, ignore_index=label),
        lambda outputs, labels: P.cross_entropy(outputs, labels, ignore_index=label),
    )


def adam(epsilon):
    return (
        lambda parameters: torch.optim.Adam(parameters, 1e-3, eps=epsilon),
        lambda parameters: paddle.optimizer.Adam(1e-3, epsilon=epsilon, parameters=parameters),
    )


def test_a_bound_in_the_loss_that_no_value_reaches_is_a_note():
    (note,) = notes(bounded(1e-7)[0], bounded(1e-3)[1])
    assert "0.001 to inf, the reference 1e-07 to inf" in note
    assert note.count(__file__) == 2


def test_a_label_to_ignore_that_never_occurs_is_a_note():
    (note,) = notes(ignoring(-1)[0], ignoring(255)[1])
    assert "ignore_index 255, the reference -1" in note


def test_an_epsilon_that_no_update_shows_is_a_note():
    (note,) = notes(optimizers=(adam(1e-12)[0], adam(1e-15)[1]))
    assert "epsilon differs" in note
    assert "1e-12 in the reference, 1e-15 in the candidate" in note


def test_a_clipping_that_no_gradient_reaches_is_a_note():
    def clipped(parameters):
        return paddle.optimizer.SGD(0.1, parameters=parameters, grad_clip=paddle.nn.ClipGradByGlobalNorm(1e6))

    (note,) = notes(optimizers=(torch_sgd, clipped))
    assert "clipping differs" in note
    assert "none in the reference, global 1e+06 in the candidate" in note


@pytest.mark.parametrize("losses", [bounded(1e-7), ignoring(255), (T.cross_entropy, P.cross_entropy)])
def test_equal_losses_have_no_note(losses):
    assert notes(*losses) == []


def test_equal_optimizers_have_no_note():
    assert notes(optimizers=adam(1e-8)) == []
    momentum = (
        lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=1e-4),
        lambda parameters: paddle.optimizer.Momentum(0.1, 0.9, parameters=parameters, weight_decay=1e-4),
    )
    assert notes(optimizers=momentum) == []
