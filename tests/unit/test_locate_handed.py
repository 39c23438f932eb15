"""Where an argument of a layer comes from: followed through helpers that hand it on."""

from __future__ import annotations

import pytest

from paralign.locate.source.call_arguments import argument_line, bound_line, differing

TEXT = """\
class Block:
    def __init__(self, inner, outer, stride=1, eps=1e-5):
        self.conv = Conv2D(inner, outer, 3, stride=stride, padding=1)
        self.plain = Conv2D(inner, outer, 3, stride)
        self.wrong = Conv2D(inner, outer, 3, stride=2 * stride)
        eps = eps * 2
        self.norm = LayerNorm(outer, epsilon=eps)


def stage(deep, *, step):
    for i in range(deep):
        yield Block(8, 8, stride=step if i == 0 else 1)
        yield Block(8, 8, step)
        yield Block(*deep)
        yield Block(
            8, 8,
            step,
        )


class Net:
    def __init__(self):
        self.body = stage(3, step=2)
        self.open = stage(3)
        self.plain = Block(8, 8)
        self.given = Block(8, 8, **options)
"""


@pytest.mark.parametrize(
    ("way", "names", "found"),
    [
        ([3, 12, 23], {"stride"}, 12),
        ([4, 12, 23], {"stride"}, 12),
        ([3, 13, 23], {"stride"}, 23),
        ([3, 15, 23], {"stride"}, 23),
        ([5, 13, 23], {"stride"}, 5),
        ([3, 14, 23], {"stride"}, None),
        ([3, 13, 24], {"stride"}, None),
        ([7, 13, 23], {"epsilon"}, 7),
        ([3, 13, 23], {"dilation"}, None),
        ([3, 13, 23], set(), None),
        ([3, 25], {"stride"}, 25),
        ([3, 26], {"stride"}, None),
        ([3], {"stride"}, None),
        ([99], {"stride"}, None),
    ],
)
def test_an_argument_is_followed_to_the_call_that_gives_it(tmp_path, way, names, found):
    path = tmp_path / "net.py"
    path.write_text(TEXT, encoding="utf-8")
    line = argument_line([f"{path}:{number}" for number in way], names)
    assert line == (None if found is None else f"{path}:{found}")


def test_a_file_that_is_gone_tells_nothing(tmp_path):
    assert argument_line([f"{tmp_path}/none.py:3"], {"stride"}) is None


def test_arguments_have_other_names_in_the_two_frameworks():
    ours = {"strides": [2, 2], "paddings": [1, 1], "groups": 1, "epsilon": 1e-5, "data_format": "NCHW"}
    theirs = {"stride": [1, 1], "padding": [1, 1], "groups": 1, "eps": 1e-6, "transposed": False}
    assert differing(ours, theirs) >= {"stride", "epsilon"}
    assert not differing(ours, theirs) & {"padding", "groups", "data_format"}


BOUND = """\
NORM = partial(BatchNorm2D, momentum=0.1)


class Block:
    def __init__(self, width, norm=None):
        self.norm = norm(width)
        self.own = norm(width, momentum=0.5)
        self.other = NORM(width)


class Net:
    def __init__(self, norm=None):
        if norm is None:
            norm = partial(
                BatchNorm2D,
                momentum=0.01,
            )
        self.first = Block(8, norm)
        self.second = Block(8, norm=lambda width: BatchNorm2D(width, momentum=0.2))
        self.third = Block(8, norm=NORM)
        self.fourth = Block(8, norm=choose(momentum))
"""


@pytest.mark.parametrize(
    ("way", "found"),
    [([6, 18], 16), ([6, 19], 19), ([6, 20], 1), ([8, 18], 1), ([7, 18], None), ([6, 21], None), ([6], None), ([], None), ([99], None)],
)
def test_an_argument_that_was_bound_to_what_is_called(tmp_path, way, found):
    path = tmp_path / "net.py"
    path.write_text(BOUND, encoding="utf-8")
    line = bound_line([f"{path}:{number}" for number in way], {"momentum"})
    assert line == (None if found is None else f"{path}:{found}")
