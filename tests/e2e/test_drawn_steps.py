"""Training steps of models that are random, compared with the reference's draws put in place of the candidate's."""

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.standard_normal((16, 12)).astype("float32"), RNG.integers(0, 5, 16)


def reference(random):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.n, self.b = torch.nn.Linear(12, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 5)

        def forward(self, x):
            h = torch.relu(self.n(self.a(x)))
            if random == "train":
                h = torch.nn.functional.dropout(h, 0.3, self.training)
            else:
                h = torch.cat([h[:, torch.randint(16, (8,))], h[:, 8:]], 1)
            return self.b(h)

    def build_optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01, momentum=0.9)

    functions = {"build_model": Model, "build_optimizer": build_optimizer}
    return Side(framework="torch", functions=functions, loss=torch.nn.functional.cross_entropy)


def candidate(random, momentum=0.9, decay=0.01):
    class Model(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.n, self.b = paddle.nn.Linear(12, 16), paddle.nn.BatchNorm1D(16, momentum=momentum), paddle.nn.Linear(16, 5)

        def forward(self, x):
            h = paddle.nn.functional.relu(self.n(self.a(x)))
            if random == "train":
                h = paddle.nn.functional.dropout(h, 0.3, training=self.training)
            else:
                h = paddle.concat([paddle.index_select(h, paddle.randint(0, 16, (8,)), axis=1), h[:, 8:]], 1)
            return self.b(h)

    def build_optimizer(model):
        return paddle.optimizer.Momentum(parameters=model.parameters(), learning_rate=0.1, momentum=0.9, weight_decay=decay)

    functions = {"build_model": Model, "build_optimizer": build_optimizer}
    return Side(framework="paddle", functions=functions, loss=paddle.nn.functional.cross_entropy)


def backward(random, **planted):
    stages = ["weights", "forward", "loss", "backward"]
    return check(reference(random), candidate(random, **planted), inputs=INPUTS, labels=LABELS, stages=stages)["backward"]


@pytest.mark.parametrize("random", ["train", "eval"])
def test_a_right_port_is_aligned_and_its_steps_were_compared(random):
    result = backward(random)
    assert result.verdict == "aligned"
    assert not [w for w in result.warnings if "were not compared" in w]
    assert f"steps in {random} mode: the candidate drew what the reference drew" in result.notes
    keys = {p.key for p in result.pairs}
    assert {"update a.weight", "buffer_0 n.running_mean (train)"} <= keys


def test_a_wrong_momentum_behind_a_functional_dropout_diverges():
    result = backward("train", momentum=0.99)
    assert result.verdict == "diverged"
    wrong = {p.key for p in result.pairs if p.verdict == "diverged"}
    assert {"buffer_0 n.running_mean (train)", "buffer_0 n.running_var (train)"} <= wrong
    assert all(" n.running_" in key for key in wrong)


def test_a_wrong_decay_of_a_model_that_is_random_in_eval_mode_has_its_cause():
    result = backward("eval", decay=0.001)
    assert result.verdict == "diverged"
    assert [(f.rule, f.proven) for f in result.findings] == [("update/decay", True)]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.d, self.b = torch.nn.Linear(12, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 5)

    def forward(self, x):
        return self.b(self.d(self.a(x)))


class Recomputed(paddle.nn.Layer):
    def __init__(self, inner=1.0):
        super().__init__()
        self.stem, self.a, self.d, self.b = (
            paddle.nn.Linear(12, 12),
            paddle.nn.Linear(12, 16),
            paddle.nn.Dropout(0.5),
            paddle.nn.Linear(16, 5),
        )
        self.inner = inner

    def body(self, x):
        return self.b(self.d(self.a(x))) * self.inner

    def forward(self, x):
        from paddle.distributed.fleet.utils import recompute

        return recompute(self.body, self.stem(x))


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body = torch.nn.Linear(12, 12), Block()

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.body, self.stem(x), use_reentrant=True)


@pytest.mark.parametrize(("inner", "verdict"), [(1.0, "aligned"), (1.01, "diverged")])
def test_a_block_that_is_computed_again_in_the_backward_pass_draws_the_same(inner, verdict):
    first = Side(framework="torch", functions={"build_model": Checkpointed}, loss=torch.nn.functional.cross_entropy)
    second = Side(
        framework="paddle",
        functions={"build_model": lambda: Recomputed(inner)},
        loss=paddle.nn.functional.cross_entropy,
    )
    result = check(first, second, inputs=INPUTS, labels=LABELS, stages=["weights", "backward"])["backward"]
    assert result.verdict == verdict
    assert any("1 drew what the reference drew" in note for note in result.notes)


# -- numbers that are drawn otherwise in float64 than natively ----------------------------------------------------------------------


def noisy(package, draw, factor=1.0):
    class Model(package.nn.Module if package is torch else package.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = package.nn.Linear(12, 5)

        def forward(self, x):
            return self.a(x + factor * draw(x))

    losses = {"loss": package.nn.functional.cross_entropy}
    return Side(framework=package.__name__, functions={"build_model": Model}, **losses)


@pytest.mark.parametrize("factor", [1.0, 1.01])
@pytest.mark.parametrize("stages", [["weights", "forward", "backward"], ["weights", "backward"]])
def test_draws_of_another_precision_are_replayed(factor, stages):
    sides = noisy(torch, torch.randn_like), noisy(paddle, lambda x: paddle.randn(x.shape, dtype=x.dtype), factor)
    result = check(*sides, inputs=INPUTS, labels=LABELS, stages=stages)
    assert result.verdict == ("aligned" if factor == 1.0 else "diverged"), [s.notes for s in result.stages]
    if factor == 1.0:
        assert not any("too weak" in note for stage in result.stages for note in stage.notes)
