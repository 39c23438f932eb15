"""Optimizers that take gradients of single rows: their updates are looked at with such gradients."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.adapters import finding

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
IDS = np.random.default_rng(0).integers(0, 40, (4, 7))
LABELS = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(40, 6, sparse=True)

    def forward(self, x):
        return self.table(x).mean(1)


class Ported(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = paddle.nn.Embedding(40, 6, sparse=True)

    def forward(self, x):
        return self.table(x).mean(1)


def squared(outputs, labels):
    return ((outputs - labels) ** 2).mean()


def backward(candidate, optimizer, reference=lambda p: torch.optim.SparseAdam(p, 1e-3)):
    framework = "torch" if candidate is Table else "paddle"
    sides = (
        Side(framework="torch", functions={"build_model": Table}, loss=squared, optimizer=reference),
        Side(framework=framework, functions={"build_model": candidate}, loss=squared, optimizer=optimizer),
    )
    return check(*sides, inputs=IDS, labels=LABELS, stages=["weights", "backward"])["backward"]


def test_an_update_by_rows_is_explained():
    assert backward(Table, lambda p: torch.optim.SparseAdam(p, 1e-3)).verdict == "aligned"
    result = backward(Table, lambda p: torch.optim.SparseAdam(p, 2e-3))
    assert result.verdict == "diverged"
    assert not [said for said in result.warnings if "could not be looked at" in said]
    assert any("learning rate" in finding.cause for finding in result.findings), result.findings


def test_rows_are_laid_in_paddle_too():
    """Its Adam corrects its bias by one step too many where it is given rows, which only rows show."""
    result = backward(
        Ported,
        lambda p: paddle.optimizer.Adam(1e-3, parameters=p, lazy_mode=True, epsilon=1e-30),
        lambda p: torch.optim.SparseAdam(p, 1e-3, eps=1e-30),
    )
    assert any("0.744137" in finding.cause for finding in result.findings), result.findings
    assert not [said for said in result.warnings if "could not be looked at" in said]
    assert backward(Ported, lambda p: paddle.optimizer.SGD(0.1, parameters=p), lambda p: torch.optim.SGD(p, 0.1)).verdict == "aligned"


@pytest.mark.parametrize("model", [Table, Ported])
def test_a_gradient_that_was_laid_is_one_of_rows_with_the_same_values(model):
    framework = "torch" if model is Table else "paddle"
    adapter, built = finding.load(framework), model()
    weight = built.table.weight
    assert adapter.row_parameters(built) == {id(weight)}
    gradient = np.zeros((40, 6), "float32")
    gradient[[3, 17]] = np.arange(1, 13).reshape(2, 6)
    adapter.lay_rows(weight, adapter.from_array(adapter.to_array(weight)._replace(array=gradient)))
    by_rows = weight.grad.is_sparse if model is Table else weight.grad.is_selected_rows()
    assert by_rows
    laid = adapter.to_array(adapter.gradients(built)["table.weight"]).array
    np.testing.assert_array_equal(laid, gradient)
