"""Models whose code makes float32 constants: in a float64 run they meet float64 values."""

from __future__ import annotations

import types

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

INPUTS = np.random.RandomState(0).randn(4, 6).astype("float32")


class Reference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)

    def forward(self, x):
        table = torch.linspace(0, 1, 25, dtype=torch.float32).reshape(5, 5)
        return self.second(torch.tanh(self.first(x)) @ table)


class Candidate(paddle.nn.Layer):
    rows = 5

    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Linear(6, 5), paddle.nn.Linear(5, 3)

    def forward(self, x):
        table = paddle.linspace(0, 1, 25, dtype="float32").reshape([5, 5])
        hidden = paddle.tanh(self.first(x))
        both = paddle.concat([hidden, paddle.zeros([len(x), 1])], axis=1)[:, : self.rows]
        return self.second(paddle.einsum("ni,ij->nj", both, table))


def functions(model, framework, optimizer):
    return Side(
        framework=framework,
        functions={
            "build_model": model,
            "loss": lambda outputs, labels: ((outputs - labels) ** 2).mean(),
            "build_optimizer": optimizer,
        },
    )


def checked(candidate=Candidate):
    return check(
        functions(Reference, "torch", lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
        functions(candidate, "paddle", lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters())),
        inputs=INPUTS,
        labels=np.ones((4, 3), "float32"),
        stages=["weights", "forward", "loss", "backward"],
    )


def test_both_sides_run_in_float64_and_agree():
    result = checked()
    assert {stage.name: stage.verdict for stage in result.stages} == dict.fromkeys(("weights", "forward", "loss", "backward"), "aligned")
    for name in ("forward", "backward"):
        assert result[name].method == "float64"
        assert not [note for note in result[name].notes if "does not run in float64" in note]


def test_a_mistake_is_seen_where_float32_alone_would_hide_it():
    class Wrong(Candidate):
        def forward(self, x):
            return super().forward(x) * (1 + 1e-8)

    assert checked()["forward"].wrong == []
    found = checked(Wrong)["forward"]
    assert max(pair.error for pair in found.pairs) > 5e-9  # native runs round to 6e-8


def test_nothing_is_changed_afterwards():
    checked()
    assert isinstance(paddle._C_ops.matmul, types.BuiltinFunctionType)
    with pytest.raises(ValueError, match="type of data"):
        paddle.matmul(paddle.ones([2, 2], "float32"), paddle.ones([2, 2], "float64"))
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)


def test_what_a_native_run_refuses_stays_refused():
    class Mixed(Candidate):
        def forward(self, x):
            return super().forward(paddle.matmul(x, paddle.eye(6, dtype="float64")))

    result = checked(Mixed)
    assert result["forward"].verdict == "error"


class Sharp(torch.nn.Module):
    """A softmax of scores by a table that was computed in float32 when the model was built."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.first = torch.nn.Linear(6, 5)
        self.tables = [(torch.linspace(0.1, 3, 25).sin() * 40 * scale).reshape(5, 5)]

    def forward(self, x):
        return torch.softmax(torch.tanh(self.first(x)) @ self.tables[0], -1) @ torch.arange(5, dtype=x.dtype).reshape(5, 1) + self.first(
            x
        ).sum(1, keepdim=True)


class SharpPort(paddle.nn.Layer):
    def __init__(self, scale=1.0):
        super().__init__()
        self.first = paddle.nn.Linear(6, 5)
        table = (np.sin(np.linspace(0.1, 3, 25)) * 40 * scale).astype("float32").reshape(5, 5)
        self.tables = [paddle.to_tensor(table * np.float32(1 + 2e-7))]

    def forward(self, x):
        scores = paddle.nn.functional.softmax(paddle.matmul(paddle.tanh(self.first(x)), self.tables[0]), axis=-1)
        return paddle.matmul(scores, paddle.arange(5).astype(x.dtype).reshape([5, 1])) + self.first(x).sum(axis=1, keepdim=True)


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "aligned"), (1.001, "diverged")])
def test_constants_that_each_side_rounds_accuse_no_operation_that_enlarges_it(scale, verdict):
    sides = functions(Sharp, "torch", None), functions(lambda: SharpPort(scale), "paddle", None)
    result = check(*sides, inputs=INPUTS, stages=["weights", "forward"])
    assert result["forward"].verdict == verdict, result["forward"].notes


WEIGHTS = [0.7, 1.1, 1.6]


def smoothed(outputs, labels, smoothing=0.1):
    weight, logs = paddle.to_tensor(WEIGHTS, dtype="float32"), paddle.nn.functional.log_softmax(outputs, axis=-1)
    truth = paddle.nn.functional.one_hot(labels, 3)
    total = -(logs * (truth * (1 - smoothing) + smoothing / 3) * weight).sum()
    return total / (truth * weight).sum()


#: losses with constants in float32, of both frameworks
LOSSES = {
    "weights of classes": (
        lambda outputs, labels: torch.nn.functional.cross_entropy(outputs, labels, weight=torch.tensor(WEIGHTS), label_smoothing=0.1),
        smoothed,
    ),
    "the loss as a layer": (
        torch.nn.CrossEntropyLoss(weight=torch.tensor(WEIGHTS)),
        paddle.nn.CrossEntropyLoss(weight=paddle.to_tensor(WEIGHTS)),
    ),
    "targets": (
        lambda outputs, labels: torch.nn.functional.binary_cross_entropy(outputs.sigmoid(), torch.nn.functional.one_hot(labels, 3).float()),
        lambda outputs, labels: paddle.nn.functional.binary_cross_entropy(
            paddle.nn.functional.sigmoid(outputs), paddle.nn.functional.one_hot(labels, 3).astype("float32")
        ),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_with_float32_constants_is_judged_in_float64(name):
    sides = [
        Side(framework=framework, functions={"build_model": model, "loss": loss})
        for framework, model, loss in zip(("torch", "paddle"), (Reference, Candidate), LOSSES[name], strict=True)
    ]
    result = check(*sides, inputs=INPUTS, labels=np.array([0, 1, 2, 1]), stages=["weights", "forward", "loss"])["loss"]
    assert (result.verdict, result.method) == ("aligned", "float64"), (result.notes, result.warnings)
    assert max(pair.error for pair in result.pairs if pair.judged) < 1e-7
    assert torch.nn.functional.cross_entropy.__module__ == "torch.nn.functional"  # put back
    assert not hasattr(torch.nn.functional.cross_entropy, "_paralign_joins")
