"""Where an argument of a layer comes from: followed through helpers that hand it on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.locate.runs import construction
from paralign.locate.source.call_arguments import argument_line, bound_line, differing, table_line

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


TABLES = """\
ROWS = ((1, 2), (3, 4))


class Net:
    def __init__(self, given):
        rows = [
            (1, 2),
            (3, 4),
        ]
        for deep, step in rows:
            for i in range(deep):
                stride = step if i == 0 else 1
                self.add(Conv2D(8, 8, 3, stride))
                self.add(Conv2D(8, 8, 3, stride=2))
        for deep, step in ROWS:
            self.add(Conv2D(8, 8, 3, stride=step * 2))
        for step in (1, 2):
            self.add(Conv2D(8, 8, 3, stride=step))
        for step in given:
            self.add(Conv2D(8, 8, 3, stride=step))
        self.add(Conv2D(8, 8, 3, stride=step))
"""


@pytest.mark.parametrize(("line", "table"), [(13, 6), (14, None), (16, 1), (18, 17), (20, None), (21, None), (99, None)])
def test_a_table_that_a_loop_runs_over_gives_arguments_their_values(tmp_path, line, table):
    path = tmp_path / "net.py"
    path.write_text(TABLES, encoding="utf-8")
    found = table_line([f"{path}:{line}"], {"stride"})
    assert found == (None if table is None else (f"{path}:{line}", f"{path}:{table}"))


@pytest.mark.parametrize(
    ("strides", "guilty", "found"),
    [
        ((2, 1, 2), {1}, True),  # one row is wrong, another round makes what is due in it
        ((1, 1, 1), {1}, False),  # none does: the call may be wrong
        ((2, 1, 2, 1), {1, 3}, False),  # a right round between: not one row
        ((2, 1, 1), {1, 2}, True),
    ],
)
def test_a_table_is_at_fault_where_its_other_rows_are_right(tmp_path, strides, guilty, found):
    path = tmp_path / "net.py"
    path.write_text(TABLES, encoding="utf-8")
    lines = (f"{path}:13",)
    places = [f"body.{number}" for number in range(len(strides))]
    graph = SimpleNamespace(kinds=dict.fromkeys(places, "Conv2D"), built=dict.fromkeys(places, lines))
    made = [
        SimpleNamespace(kind="convolution", number=number, module=places[number], arguments={"strides": stride})
        for number, stride in enumerate(strides)
    ]
    right = [(graph, operation) for operation in made if operation.number not in guilty]
    due = SimpleNamespace(kind="convolution", arguments={"stride": 2})
    passage = construction.Passage(None, None, made[1], lines, by_construction=True)
    vars(passage).update(counterpart=due, guilty=guilty, right=right)  # what a run would have told
    assert passage.table() == (f"{path}:6" if found else None)
    alone = construction.Passage(None, None, made[1], lines, by_construction=True)
    vars(alone).update(counterpart=None, guilty=guilty, right=right)
    assert alone.table() is None
