"""Pictures that change their size: Paddle's kernels compute coordinates in float32 in float64 runs, too."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.model import ALIGNED, DIVERGED, Side

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


class Reference(torch.nn.Module):
    """Enlarges twice, with what a blurred picture could hide in between."""

    def __init__(self, mode="bilinear"):
        super().__init__()
        self.first, self.second, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3), torch.nn.Conv2d(4, 2, 1)
        self.norm, self.mode = torch.nn.LayerNorm(8), mode

    def forward(self, x):
        large = torch.nn.functional.interpolate(torch.relu(self.first(x)), scale_factor=1.5, mode=self.mode)
        inner = self.norm(large.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        inner = torch.nn.functional.gelu(self.second(inner))
        return self.last(torch.nn.functional.interpolate(inner, size=(111, 97), mode=self.mode))


def candidate(*, mode="bilinear", epsilon=1e-5, factor=1.0, corners=False):
    class Candidate(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Conv2D(3, 8, 3, padding=1), paddle.nn.Conv2D(8, 4, 3)
            self.last = paddle.nn.Conv2D(4, 2, 1)
            self.norm = paddle.nn.LayerNorm(8, epsilon=epsilon)

        def forward(self, x):
            resize = paddle.nn.functional.interpolate
            large = resize(paddle.nn.functional.relu(self.first(x)), scale_factor=1.5, mode=mode, align_corners=corners)
            inner = self.norm(large.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])
            inner = paddle.nn.functional.gelu(self.second(inner))
            made = self.last(resize(inner, size=(111, 97), mode=mode))
            return made * factor if factor != 1 else made

    return Candidate


def forward(side, *, mode="bilinear", size=100, ratio=None):
    torch.manual_seed(0)
    paddle.seed(0)
    x = np.random.default_rng(size).standard_normal((2, 3, size, size)).astype("float32")
    first = Side(framework="torch", functions={"build_model": lambda: Reference(mode)})
    return check(first, Side(framework="paddle", functions={"build_model": side}), inputs=x, stages=["weights", "forward"], ratio=ratio)[
        "forward"
    ]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [13, 32, 100])
def test_a_right_port_is_aligned_whatever_the_sizes(mode, size):
    result = forward(candidate(mode=mode), mode=mode, size=size)
    assert (result.verdict, result.divergences) == (ALIGNED, []), result.worst


def test_a_limit_of_the_users_own_is_kept():
    result = forward(candidate(), ratio=0.5)
    assert result.verdict == DIVERGED


@pytest.mark.parametrize(
    ("change", "op"),
    [
        ({"epsilon": 1e-6}, "layer_norm"),  # an effect of the size of the coordinates' own
        ({"factor": 1 + 2e-6}, "mul"),
        ({"corners": True}, "bilinear_interp"),
    ],
)
def test_a_fault_behind_or_in_an_enlargement_is_the_only_one(change, op):
    result = forward(candidate(**change))
    assert result.verdict == DIVERGED
    assert [(d.candidate.op.split()[0], d.confirmed) for d in result.divergences] == [(op, True)]


SIZE = (3, 12)

MOVES = {
    "roll": (lambda x: torch.roll(x, (-2, 2), (2, 3)), lambda x: paddle.roll(x, (-2, 2), (2, 3))),
    "flip": (lambda x: x.flip(3), lambda x: paddle.flip(x, [3])),
    "transpose": (lambda x: x.transpose(2, 3), lambda x: x.transpose([0, 1, 3, 2])),
}


class Moved(torch.nn.Module):
    """Changes the size of a picture and moves its elements: what is made and what is moved hold the same."""

    def __init__(self, move):
        super().__init__()
        self.first, self.second, self.move = torch.nn.Conv2d(4, 4, 2, bias=False), torch.nn.Conv2d(4, 6, 3, 2, 1), MOVES[move][0]

    def forward(self, x):
        x = self.move(torch.nn.functional.interpolate(self.first(x), size=SIZE, mode="bilinear"))
        return self.second(x).amax((2, 3))


def moved(move, *, corners=False):
    class Candidate(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Conv2D(4, 4, 2, bias_attr=False), paddle.nn.Conv2D(4, 6, 3, 2, 1)

        def forward(self, x):
            x = paddle.nn.functional.interpolate(self.first(x), size=SIZE, mode="bilinear", align_corners=corners)
            return self.second(MOVES[move][1](x)).max([2, 3])

    return Candidate


def moved_pictures(move, seed, **settings):
    torch.manual_seed(seed)
    paddle.seed(0)
    x = np.random.default_rng(seed).standard_normal((4, 4, 9, 6)).astype("float32")
    first = Side(framework="torch", functions={"build_model": lambda: Moved(move)})
    second = Side(framework="paddle", functions={"build_model": moved(move, **settings)})
    return check(first, second, inputs=x, stages=["weights", "forward"])["forward"]


@pytest.mark.parametrize(("move", "seed"), [("roll", 51), ("flip", 3), ("transpose", 3)])
def test_a_picture_that_is_moved_at_once_is_no_other_picture(move, seed):
    result = moved_pictures(move, seed)
    assert (result.verdict, result.divergences) == (ALIGNED, []), result.worst


@pytest.mark.parametrize("move", MOVES)
def test_other_corners_of_a_picture_that_is_moved_at_once_are_found(move):
    result = moved_pictures(move, 51, corners=True)
    assert result.verdict == DIVERGED
    assert [(d.candidate.op, d.confirmed) for d in result.divergences] == [("bilinear_interp", True)]
