"""The stage ``init`` on PyTorch and PaddlePaddle: PyTorch's defaults by paralign.init pass, Paddle's own are named."""

from __future__ import annotations

import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3)
        self.norm = torch.nn.BatchNorm2d(16)
        self.table = torch.nn.Embedding(40, 16)
        self.fc = torch.nn.Linear(48, 96)
        self.head = torch.nn.Linear(96, 40, bias=False)
        torch.nn.init.trunc_normal_(self.head.weight, std=0.02, a=-0.04, b=0.04)


class Port(paddle.nn.Layer):
    def __init__(self, like_torch):
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 16, 3)
        self.norm = paddle.nn.BatchNorm2D(16)
        self.table = paddle.nn.Embedding(40, 16)
        self.fc = paddle.nn.Linear(48, 96)
        self.head = paddle.nn.Linear(96, 40, bias_attr=False)
        if like_torch:
            from paralign import init

            init.default_like_torch(self)
            init.trunc_normal_(self.head.weight, std=0.02, a=-0.04, b=0.04)


def checked(like_torch):
    reference = Side(framework="torch", functions={"build_model": Net})
    return check(reference, Side(framework="paddle", functions={"build_model": lambda: Port(like_torch)}), stages=["init"])["init"]


def test_pytorchs_defaults_in_paddle_are_aligned():
    result = checked(like_torch=True)
    assert result.verdict == ALIGNED, [p.notes for p in result.pairs]
    said = {p.key: p.notes[0] for p in result.pairs}
    assert said["init fc.weight"].count("U(±1/sqrt(fan_in))") == 2  # of [96, 48] and its transpose
    assert said["init head.weight"].count("cut to") == 2


def test_paddles_defaults_are_named_with_their_line_and_what_to_write():
    result = checked(like_torch=False)
    assert result.verdict == DIVERGED
    wrong = {p.key for p in result.pairs if p.verdict == DIVERGED}
    assert {"init conv.weight", "init conv.bias", "init table.weight", "init fc.weight", "init fc.bias", "init head.weight"} == wrong
    points = {d.candidate.name: d.candidate for d in result.divergences}
    assert points["fc.weight"].code == "self.fc = paddle.nn.Linear(48, 96)"
    causes = [f.cause for f in result.findings]
    assert any("fc.weight" in c and "XavierUniform" in c and "U(±1/sqrt(fan_in))" in c for c in causes), causes
    assert any(
        "paralign.init.uniform_(model.conv.weight, -0.1924, 0.1924)" in f.fix and "default_like_torch" in f.fix for f in result.findings
    )
    assert any("less sensitive to initialisation" in note for note in result.notes)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.table = torch.nn.Embedding(50, 16)
        self.head = torch.nn.Linear(16, 50, bias=False)
        self.head.weight = self.table.weight


class AttentionPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        from paralign import init

        self.attn = paddle.nn.MultiHeadAttention(32, 4)
        self.table = paddle.nn.Embedding(50, 16)
        self.head = paddle.nn.Linear(16, 50, bias_attr=False)
        init.default_like_torch(self)


def test_packed_projections_have_one_law_and_a_tie_that_is_forgotten_is_named():
    sides = (
        Side(framework="torch", functions={"build_model": Attention}),
        Side(framework="paddle", functions={"build_model": AttentionPort}),
    )
    result = check(*sides, stages=["init"])["init"]
    verdicts = {p.key: p.verdict for p in result.pairs}
    assert (result.verdict, verdicts["init attn.in_proj_weight"]) == (DIVERGED, ALIGNED)
    assert "table.weight, head.weight are one tensor in the reference only" in [f.cause for f in result.findings]


@pytest.mark.parametrize(("like_torch", "verdict"), [(True, ALIGNED), (False, DIVERGED)])
def test_a_seed_in_the_reference_does_not_hide_its_laws(like_torch, verdict):
    def build_model():
        torch.manual_seed(0)
        return Net()

    reference = Side(framework="torch", functions={"build_model": build_model})
    candidate = Side(framework="paddle", functions={"build_model": lambda: Port(like_torch)})
    result = check(reference, candidate, stages=["init"])["init"]
    assert result.verdict == verdict
    assert any("the reference's code sets a seed itself (torch.manual_seed)" in note for note in result.notes), result.notes
    assert torch.manual_seed.__name__ == "manual_seed"
