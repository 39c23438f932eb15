"""Small models of both frameworks, checked whole: right ports are aligned, wrong ones are not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch, paddle = pytest.importorskip("torch"), pytest.importorskip("paddle")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.paddle,
    pytest.mark.filterwarnings("ignore"),
]

RANDOM = np.random.RandomState(0)
#: batch, time, features
SEQUENCE = RANDOM.randn(4, 7, 6).astype("float32")
ROWS = RANDOM.randn(4, 6).astype("float32")


def checked(reference, candidate, inputs, stages=("weights", "forward", "loss", "backward"), optimizer=True):
    """The result of a check; the loss is the mean of the squared outputs."""
    ours = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1)} if optimizer else {}
    theirs = {"optimizer": lambda p: paddle.optimizer.SGD(0.1, parameters=p)} if optimizer else {}
    return check(
        Side(framework="torch", functions={"build_model": reference}, loss=lambda o, labels: ((o - labels) ** 2).mean(), **ours),
        Side(framework="paddle", functions={"build_model": candidate}, loss=lambda o, labels: ((o - labels) ** 2).mean(), **theirs),
        inputs=inputs,
        labels=np.float32(0.5) * np.ones(1, "float32"),
        stages=list(stages),
    )


def verdicts(result):
    return {stage.name: stage.verdict for stage in result.stages}


# -- recurrent layers --------------------------------------------------------------------------------------------------------


def recurrent(kind, *, both, dropout=(0.0, 0.0), layers=2):
    """A recurrent layer and a Linear layer on what it makes, by both frameworks; ``dropout`` of either."""

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = getattr(torch.nn, kind)(6, 5, layers, batch_first=True, bidirectional=both, dropout=dropout[0])
            self.head = torch.nn.Linear(10 if both else 5, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0][:, -1])

    class Candidate(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            name = {"RNN": "SimpleRNN"}.get(kind, kind)
            self.layer = getattr(paddle.nn, name)(6, 5, layers, direction="bidirect" if both else "forward", dropout=dropout[1])
            self.head = paddle.nn.Linear(10 if both else 5, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0][:, -1])

    return Reference, Candidate


@pytest.mark.parametrize(("kind", "both"), [("LSTM", False), ("GRU", True), ("RNN", False)])
def test_recurrent_layers_are_aligned_in_every_stage(kind, both):
    result = checked(*recurrent(kind, both=both, dropout=(0.5, 0.5) if kind == "LSTM" else (0.0, 0.0)), SEQUENCE)
    assert set(verdicts(result).values()) == {ALIGNED}
    assert any("ran in train mode without dropout" in note for note in result["backward"].notes)
    replayed = any("drew what the reference drew" in note for note in result["backward"].notes)
    assert replayed == (kind == "LSTM")


@pytest.mark.parametrize("dropout", [(0.5, 0.3), (0.0, 0.2)])
def test_another_dropout_between_recurrent_layers_diverges(dropout):
    result = checked(*recurrent("GRU", both=True, dropout=dropout), SEQUENCE, ("weights", "backward"))
    assert verdicts(result)["backward"] == DIVERGED
    assert [f.rule for f in result["backward"].findings] == ["probability" if dropout[0] else "random operation"]


LENGTHS = np.array([4, 7, 2, 5])


class PackedAndTurned(torch.nn.Module):
    """Packed sequences, and a dropout on channels first."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True, dropout=0.4)
        self.head, self.drop = torch.nn.Conv1d(14, 7, 1), torch.nn.Dropout(0.3)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        return self.drop(self.head(out.transpose(1, 2))).transpose(1, 2)


class PaddedAndStraight(paddle.nn.Layer):
    def __init__(self, wrong):
        super().__init__()
        self.rnn = paddle.nn.LSTM(6, 7, 2, direction="bidirect", dropout=0.4)
        self.end, self.random, self.wrong = paddle.nn.Linear(14, 7), paddle.nn.Dropout(0.3), wrong

    def forward(self, x, lengths):
        out = self.end(self.rnn(x, sequence_length=lengths)[0])
        return self.random(out) if not self.wrong else self.random(out) * (0.9 if self.training else 1.0)


@pytest.mark.parametrize("wrong", [False, True])
def test_masks_of_packed_and_of_turned_values_are_replayed(wrong):
    result = checked(PackedAndTurned, lambda: PaddedAndStraight(wrong), {"x": SEQUENCE, "lengths": LENGTHS}, ("weights", "backward"))
    assert verdicts(result)["backward"] == (DIVERGED if wrong else ALIGNED)
    assert any("2 drew what the reference drew" in note for note in result["backward"].notes)
    assert result["backward"].findings == []


# -- what a pass does to its inputs, and to tensors in place ---------------------------------------------------------------------


class DoublesItsInput(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.linear(x.mul_(2))


class Doubles(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(6, 3)

    def forward(self, x):
        return self.linear(x * 2)


def test_each_pass_has_its_own_copy_of_the_inputs():
    assert set(verdicts(checked(DoublesItsInput, Doubles, ROWS)).values()) == {ALIGNED}


class CopiesOver(torch.nn.Module):
    def forward(self, x, y):
        return torch.add(x.copy_(y), y, out=torch.empty_like(x))


class CopiesOverToo(paddle.nn.Layer):
    def forward(self, x, y):
        out = paddle.empty_like(x)
        paddle.add(x.copy_(y), y, out=out)
        return out


class CopiesTheWrongWay(paddle.nn.Layer):
    def forward(self, x, y):
        return y.copy_(x) + x


@pytest.mark.parametrize(("candidate", "verdict"), [(CopiesOverToo, ALIGNED), (CopiesTheWrongWay, DIVERGED)])
def test_values_written_over_others(candidate, verdict):
    inputs = {"x": ROWS, "y": ROWS[::-1].copy()}
    assert verdicts(checked(CopiesOver, candidate, inputs, ("weights", "forward")))["forward"] == verdict


# -- random numbers in eval mode ---------------------------------------------------------------------------------------------------


class Sampled(torch.nn.Module):
    """Attention to keys that are drawn, in eval mode too."""

    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(6, 5), torch.nn.Linear(6, 5)

    def forward(self, x):
        query, key = self.query(x), self.key(x)
        drawn = torch.randint(x.shape[1], (x.shape[1], 3))
        return (query.unsqueeze(2) * key[:, drawn]).sum(-1).max(-1)[0]


def sampled(factor):
    class Sampling(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.query, self.key = paddle.nn.Linear(6, 5), paddle.nn.Linear(6, 5)

        def forward(self, x):
            query, key = self.query(x), self.key(x)
            count = x.shape[1]
            drawn = paddle.randint(0, count, [count, 3])
            found = paddle.index_select(key, drawn.flatten(), axis=1).reshape([x.shape[0], count, 3, 5])
            return (query.unsqueeze(2) * found).sum(-1).max(-1) * factor

    return Sampling


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, ALIGNED), (1.01, DIVERGED)])
def test_what_is_drawn_in_eval_mode_is_replayed(factor, verdict):
    result = checked(Sampled, sampled(factor), SEQUENCE)
    assert verdicts(result)["forward"] == verdict
    assert verdicts(result)["backward"] == verdict
    assert any("drew what the reference drew" in note for note in result["forward"].notes)


def test_draws_in_eval_mode_are_known_without_the_forward_stage():
    result = checked(Sampled, sampled(1.0), SEQUENCE, ("weights", "backward"))
    assert verdicts(result)["backward"] == ALIGNED
    assert "steps in eval mode: the candidate drew what the reference drew" in result["backward"].notes


def test_steps_of_a_model_that_draws_in_eval_mode_are_compared_with_their_schedule():
    def rate(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)

    def halved(optimizer):
        schedule = paddle.optimizer.lr.StepDecay(0.1, 2, 0.1)
        optimizer.set_lr_scheduler(schedule)
        return schedule

    result = check(
        Side(framework="torch", functions={"build_model": Sampled}, loss=lambda o, labels: ((o - labels) ** 2).mean(),
             optimizer=lambda p: torch.optim.SGD(p, lr=0.1), scheduler=rate),
        Side(framework="paddle", functions={"build_model": sampled(1.0)}, loss=lambda o, labels: ((o - labels) ** 2).mean(),
             optimizer=lambda p: paddle.optimizer.SGD(0.1, parameters=p), scheduler=halved),
        inputs=SEQUENCE, labels=np.float32(0.5) * np.ones(1, "float32"), stages=["weights", "forward", "loss", "backward"],
    )  # fmt: skip
    backward = result["backward"]
    assert backward.verdict == ALIGNED
    assert {"steps", "learning rates"} <= {c.what for c in backward.coverage}
    assert any(p.key.startswith("update ") for p in backward.pairs)


class Drawing(torch.nn.Module):
    """Two layers of one shape, a table kept as a buffer, and rows drawn in eval mode."""

    def __init__(self):
        super().__init__()
        self.begin, self.end = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.register_buffer("table", torch.arange(6.0))

    def forward(self, x):
        return self.end(torch.tanh(self.begin(x + self.table))[:, torch.randint(7, (7,))])


class DrawingToo(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.two = paddle.nn.Linear(6, 6), paddle.nn.Linear(6, 6)

    def forward(self, x):
        inner = paddle.tanh(self.one(x + paddle.arange(6, dtype=x.dtype)))
        return self.two(paddle.index_select(inner, paddle.randint(0, 7, [7]), axis=1))


def test_weights_are_proven_with_what_is_drawn_in_eval_mode():
    result = checked(Drawing, DrawingToo, SEQUENCE, ("weights",))
    assert verdicts(result) == {"weights": ALIGNED}
    assert any("with what the reference draws in eval mode" in note for note in result["weights"].notes)


# -- layers of both frameworks: of `make layers`, those that were once called wrong -----------------------------------------------


BENCH = Path(__file__).resolve().parents[2] / "benchmarks" / "layers"


@pytest.fixture(scope="module")
def layers():
    spec = importlib.util.spec_from_file_location("layers", BENCH / "layers.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


@pytest.mark.parametrize(
    "name",
    [
        "Hardsigmoid()",
        "RReLU()",
        "LayerNorm((7, 6))",
        "Embedding(12, 5, sparse=True)",
        "Upsample(size=(13, 11), mode='bilinear', align_corners=False)",
        "GRU(6, 5, 2, batch_first=True)",
        "LSTMCell(6, 4)",
    ],
)
def test_right_layers_are_aligned(layers, name):
    (case,) = [case for cases in layers.every().values() for case in cases if case.name == name]
    result = layers.checked(case)
    assert verdicts(result) == dict.fromkeys(layers.STAGES, ALIGNED), [layers.said(stage) for stage in result.stages]


def resized(corners):
    class Resized(paddle.nn.Layer):
        def forward(self, x):
            return paddle.nn.functional.interpolate(x, size=[100, 100], mode="bilinear", align_corners=corners)

    return Resized


class Resizes(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, size=(100, 100), mode="bilinear")


@pytest.mark.parametrize(("corners", "verdict"), [(False, ALIGNED), (True, DIVERGED)])
def test_coordinates_in_float32_are_no_fault(corners, verdict):
    pictures = RANDOM.randn(1, 2, 128, 128).astype("float32")
    assert verdicts(checked(Resizes, resized(corners), pictures, ("weights", "forward")))["forward"] == verdict


# -- gradients -------------------------------------------------------------------------------------------------------------------


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.one(x) + self.two(x)


def hooked(factor):
    class Hooked(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.one, self.two = paddle.nn.Linear(6, 3), paddle.nn.Linear(6, 3)

        def forward(self, x):
            made = self.two(x)
            made.register_hook(lambda gradient: factor * gradient)
            return self.one(x) + made

    return Hooked


@pytest.mark.parametrize(("factor", "verdict"), [(1, ALIGNED), (2, DIVERGED)])
def test_a_hook_registered_in_the_forward_pass(factor, verdict):
    result = checked(Two, hooked(factor), ROWS)
    assert verdicts(result) == {"weights": ALIGNED, "forward": ALIGNED, "loss": ALIGNED, "backward": verdict}
    assert any("passes kept gradients" in note for note in result["forward"].notes)
