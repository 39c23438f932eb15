"""Parts that have no name of their own, other names of a whole, and changes by other ways than a method."""

from __future__ import annotations

import pytest
from tests.unit.converted_programs import check_that_it_is_right_or_refused

PROGRAM = """import contextlib
from collections import defaultdict, deque
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Pair:
    first: object
    second: object


class Kept:
    pass


def start(asks):
    x = torch.arange(6.0).reshape(3, 2).requires_grad_(asks)
    return x, x * 1


def appended(asks):
    w, x = start(asks)
    rows = []
    for i in range(3):
        rows.append(x[i])
    x.mul_(2)
    return w, torch.stack(rows) ** 2


def named_and_appended(asks):
    w, x = start(asks)
    rows = []
    for i in range(3):
        row = x[i]
        rows.append(row)
    x.mul_(2)
    return w, torch.stack(rows) ** 2


def carried(asks):
    w, x = start(asks)
    rows = []
    for i in range(3):
        x.mul_(2)
        rows.append(x[i])
    return w, torch.stack(rows) ** 2


def pairs(asks):
    w, x = start(asks)
    pairs = [(x[0], x[1])]
    x.mul_(2)
    return w, pairs[0][0] + pairs[0][1] * 3


def by_key(asks):
    w, x = start(asks)
    known = {}
    for k in range(3):
        known[k] = x[k]
    x.mul_(2)
    return w, known[0] + known[2]


def of_a_class(asks):
    w, x = start(asks)
    pair = Pair(x[0], second=x[1])
    x.mul_(2)
    return w, pair.first + pair.second


def of_an_attribute(asks):
    w, x = start(asks)
    kept = Kept()
    kept.row = x[0]
    x.mul_(2)
    return w, kept.row * 3


def of_collections(asks):
    w, x = start(asks)
    queue, found = deque(maxlen=2), defaultdict(list)
    queue.append(x[0])
    found["a"].append(x[1])
    x.mul_(2)
    return w, queue[0] + found["a"][0]


def comprehended(asks):
    w, x = start(asks)
    rows = [row for row in x.view(3, 1, 2)]
    forms = [x.t(), x.view(-1)]
    x.mul_(2)
    return w, forms[0][0] + forms[1][1]


def of_a_key(asks):
    w, x = start(asks)
    known = {"y": x}
    row = known["y"][0]
    known["y"].mul_(2)
    return w, row * 3


def prefix(asks):
    w, x = start(asks)
    row = x[0]
    x[0, 0] = 0.0
    return w, row * 3


def of_another_name(asks):
    w, x = start(asks)
    row = x[0]
    same = row
    y = x
    y.mul_(2)
    return w, same * 3


def of_a_part(asks):
    w, x = start(asks)
    rows = x[0:2]
    row = rows[0]
    x.mul_(2)
    return w, row * 3


def within_an_expression(asks):
    w, x = start(asks)
    row = x[0]
    y = x.mul_(2) + 1
    return w, row * 3 + y.sum()


def walrus(asks):
    w, x = start(asks)
    if (row := x[0]).sum() > -1:
        row.mul_(2)
    return w, x * 3


def spread_closure(asks):
    base = torch.zeros(1, 3)
    wide = base.expand(2, 3)

    def change():
        base.add_(1)

    change()
    return base, wide


def spread_data(asks):
    base = torch.zeros(1, 3)
    wide = base.expand(2, 3)
    base.data.fill_(4.0)
    return base, wide


def spread_init(asks):
    base = torch.zeros(1, 3)
    wide = base.expand(2, 3)
    nn.init.ones_(base)
    return base, wide


def spread_out(asks):
    base = torch.zeros(1, 3)
    wide = torch.broadcast_to(base, (2, 3))
    torch.add(base, 1, out=base)
    return base, wide


def spread_kept(asks):
    base = torch.arange(3.0)
    rows = []
    rows.append(base.expand(2, 3))
    other = base
    other.mul_(2)
    return base, rows[0]


def first_of(t):
    return t[0]


def rows_of(t):
    for i in range(3):
        yield t[i]


def double(t):
    t.mul_(2)


def given_back(asks):
    w, x = start(asks)
    row = first_of(x)
    x.mul_(2)
    return w, row * 3


def yielded(asks):
    w, x = start(asks)
    rows = list(rows_of(x))
    x.mul_(2)
    return w, rows[0] * 3


def changed_elsewhere(asks):
    w, x = start(asks)
    rows = [x[0]]
    double(x)
    return w, rows[0] * 3


def spread_by(t):
    return t.expand(2, 3)


def spread_elsewhere(asks):
    base = torch.zeros(1, 3)
    wide = spread_by(base)
    base.add_(2)
    return base, wide


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("base", torch.zeros(1, 3))
        self.wide = self.base.expand(2, 3)

    def forward(self):
        self.base.add_(1)
        return self.wide


def spread_attribute(asks):
    return torch.zeros(1), Wide()()


def nested(asks):
    w, x = start(asks)
    x[0][1] = 5.0
    x[1][0] *= 3
    x[0:2][1] += 1
    x.view(-1)[4] = 7
    x.t()[1] -= 2
    x.T[0] = 3
    return w, x * 2


def nested_given(asks):
    w, _ = start(asks)
    x = torch.zeros(2, 2)
    x[0][1] = w[1, 1] * 2
    return w, x * 2


def nested_lists(asks):
    w, x = start(asks)
    grid, held = [[0] * 3 for _ in range(2)], [torch.zeros(2), torch.zeros(2)]
    grid[0][1] = 5
    grid[1][2] += 2
    held[0][1] = w[1, 1] * 2
    held[1][0] += w[2, 0]
    return w, held[0] + held[1] * sum(grid[0]) + sum(grid[1])


def of_given_lists(asks):
    w, x = start(asks)

    def change(items):
        items[0][:, 0] *= 2
        items[1][:, 1] = 0
        return items

    first, second = change([x * 1, x * 3])
    return w, first + second


def activated(asks):
    w, x = start(asks)
    x -= 3
    nn.ReLU(True)(x)
    y = x * 2 - 3
    F.leaky_relu(y, 0.5, inplace=True)
    z = x * 2 - 3
    u = F.elu(z, 1.0, True)
    return w, x + y + z + u


class Before(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.norm = nn.Identity()
        self.drop = nn.Sequential(nn.Identity(), nn.Dropout(0.5))

    def forward(self, x):
        z = self.norm(x)
        z += 1
        out = self.drop(z)
        out.mul_(3)
        y = self.act(x) * 2
        return x + y + z + out


def of_layers(asks):
    w, x = start(asks)
    off = nn.Dropout(0.0)(x)
    off += 2
    return w, Before().eval()(x - 3) + x


def bound_anew(asks):
    w, x = start(asks)
    rows = []
    for i in range(3):
        x = x * 1
        x.mul_(2)
        rows.append(x[i])
    return w, torch.stack(rows) ** 2


def by_a_tensor(asks):
    w, x = start(asks)
    best = x[x.sum(1).argsort()]
    few = x[x.sum(1) > 2]
    x.mul_(2)
    return w, best.sum() + few.sum() + x


def of_one_branch(asks):
    w, x = start(asks)
    if asks:
        out = x[0]
    else:
        x.mul_(2)
        out = x
    return w, out


def attribute_bound_anew(asks):
    w, x = start(asks)
    kept = Kept()
    kept.h = x * 2
    row = kept.h[0]
    kept.h = x * 3
    kept.h *= 2
    return w, row + kept.h


def cloned(asks):
    w, x = start(asks)
    rows = [x[0].clone(), x[1] * 2]
    wide = x.expand(2, 3, 2).clone()
    x.mul_(2)
    return w, rows[0] + rows[1] + wide.sum()


def joined(asks):
    w, x = start(asks)
    both = torch.cat([x[0], x[1]])
    x.mul_(2)
    return w, both


def chained(asks):
    w, x = start(asks)
    a = b = x * 2
    a += 3
    return w, b * b


def chained_attributes(asks):
    w, x = start(asks)
    kept = Kept()
    kept.a = kept.b = x * 2
    kept.a += 1
    kept.b += 1
    return w, kept.a + kept.b


def managed(asks):
    w, x = start(asks)
    with contextlib.nullcontext(x) as y:
        y += 1
    return w, x


def starred(asks):
    x = torch.arange(6.0).reshape(3, 2)
    first, *rest = x
    rest[0] += 10
    first += 1
    return x, x


def matched(asks):
    w, x = start(asks)
    if (y := x) is not None:
        y += 1
    return w, x


"""

#: what raises where a gradient is asked for, what raises at all times, and what is right
ASKING = [
    "appended", "named_and_appended", "carried", "pairs", "by_key", "of_a_class", "of_an_attribute", "of_collections", "comprehended",
    "of_a_key", "prefix", "of_another_name", "of_a_part", "within_an_expression", "walrus", "given_back", "yielded", "changed_elsewhere", "nested", "nested_given",
]  # fmt: skip
COPIES = ["spread_closure", "spread_data", "spread_init", "spread_out", "spread_kept", "spread_elsewhere", "spread_attribute"]
RIGHT = [
    "bound_anew", "by_a_tensor", "of_one_branch", "attribute_bound_anew", "cloned", "joined", "chained", "chained_attributes", "managed",
    "starred", "matched", "nested_lists", "of_given_lists", "activated", "of_layers",
]  # fmt: skip

RUN = """def ran(function, asks):
    try:
        x, out = function(asks)
        got = [round(float(each), 4) for each in out.flatten()]
        if asks and x.requires_grad:
            out.sum().backward()
            got += [round(float(each), 4) for each in x.grad.flatten()]
        return got
    except NotImplementedError as error:
        return "refused"


for each in ({names}):
    for asks in (False, True):
        print(each.__name__, asks, ran(each, asks))
"""


def test_parts_that_are_kept_are_right_after_a_change_or_it_raises(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    names = [*ASKING, *COPIES, *RIGHT]
    check_that_it_is_right_or_refused(tmp_path, PROGRAM + RUN.format(names=", ".join(names)), asking=ASKING, always=COPIES)
