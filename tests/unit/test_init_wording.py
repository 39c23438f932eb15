"""What to write for a tensor to start by the reference's law: PyTorch's defaults are named where they give it."""

from __future__ import annotations

import ast
import math

import numpy as np
import pytest

from paralign.comparison.laws import Family, Law, recognise
from paralign.stages.init.wording import Reading, instead

HINT = "default_like_torch"


def uniform(bound):
    return Law(Family.UNIFORM, 0.0, bound / math.sqrt(3), -bound, bound, bound / math.sqrt(3))


def normal(std, mean=0.0):
    return Law(Family.NORMAL, mean, std, -4 * std, 4 * std, std)


@pytest.mark.parametrize(
    ("kind", "law", "is_default"),
    [
        ("linear", uniform(0.1), True),
        ("convtranspose2d", uniform(0.1), True),
        ("linear", uniform(0.2), False),
        ("linear", normal(0.1), False),
        ("lstm", uniform(0.1), False),
        ("embedding", normal(1.0), True),
        ("embedding", normal(0.02), False),
        ("embedding", normal(1.0, 0.5), False),
        ("", uniform(0.1), False),
    ],
)
def test_a_default_is_known_by_the_kind_of_the_layer_and_its_fans(kind, law, is_default):
    assert Reading((100, 50), kind).is_default(law) is is_default


def test_defaults_are_offered_only_where_they_give_the_law():
    assert HINT in instead(uniform(0.1), "fc.weight", "paddle", is_default=True)
    told = instead(uniform(0.2), "fc.weight", "paddle", is_default=False)
    assert told == "paralign.init.uniform_(model.fc.weight, -0.2, 0.2)"


def test_what_gives_all_layers_their_defaults_is_said_first_and_the_call_is_python():
    told = instead(uniform(0.1), "blocks.0.fc.weight", "paddle", is_default=True)
    first, call = told.split("; this one alone: ")
    assert HINT in first
    ast.parse(call)
    assert call == "paralign.init.uniform_(model.blocks[0].fc.weight, -0.1, 0.1)"


def test_zeros_beside_a_law_are_kept_apart():
    """A table of N(0, 1) whose row of ``padding_idx`` is zero: the other rows' law, and what to do about the row."""
    draw = np.random.RandomState(0)
    tables = [np.concatenate([np.zeros((1, 12)), draw.normal(size=(39, 12))]) for _ in range(30)]
    moments = np.array([[t.size, t.mean(), t.std(), t.min(), t.max(), 0, 0] for t in tables])
    law = recognise(moments, np.stack([t.reshape(-1) for t in tables]))
    assert law.family is Family.NORMAL
    assert abs(law.std - 1) < 3 * law.error
    assert law.zeros == pytest.approx(1 / 40)
    assert Reading(None, "embedding").is_default(law)
    told = instead(law, "embed.weight", "paddle", is_default=True)
    assert told.endswith("paralign.init.normal_(model.embed.weight, 0, 1); then set the reference's zeros again")


def test_a_law_without_zeros_and_one_of_zeros_alone_stay_what_they_are():
    tables = [np.random.RandomState(seed).normal(size=480) for seed in range(30)]
    moments = np.array([[t.size, t.mean(), t.std(), t.min(), t.max(), 0, 0] for t in tables])
    assert recognise(moments, np.stack(tables)).zeros == 0
    assert recognise(np.array([[480.0, 0, 0, 0, 0, 0, 0]] * 30), np.zeros((30, 480))).family is Family.CONSTANT
