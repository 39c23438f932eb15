"""Blocks of streamed models: which are of one kind, and what they are called with."""

from __future__ import annotations

import pytest

from paralign.errors import UsageError
from paralign.worker.passes.blockwise import _arguments, _setting


class Block:
    def forward(self, x, mask=None, causal=False, **options):
        return x, mask, causal, options


class Spread:
    def forward(self, *given, scale=1.0):
        return given, scale


def tanh(x):
    return x


@pytest.mark.parametrize(("one", "other"), [(1e-5, 1e-3), ((1, 1), (2, 2)), (tanh, len), ([1, [2]], [1, [3]]), (None, False)], ids=range(5))
def test_settings_that_differ_make_another_kind(one, other):
    assert _setting(one) != _setting(other)


def test_what_is_no_setting_says_nothing():
    assert _setting({}) == _setting([object()]) == ""


def test_a_keyword_without_a_tensor_is_handed_on():
    assert _arguments(Block(), (1.5,), {"causal": True}) == {"x": 1.5, "causal": True}


def test_options_are_handed_on_by_their_own_names_and_defaults_left_out():
    assert _arguments(Block(), (1.5,), {"bias": 2.5, "causal": False, "mask": None}) == {"x": 1.5, "bias": 2.5}


def test_positions_alone_stay_positions():
    assert _arguments(Block(), (1.5, 2.5), {}) == (1.5, 2.5)


def test_positions_without_names_beside_keywords_are_refused():
    with pytest.raises(UsageError, match="that cannot be handed on"):
        _arguments(Spread(), (1.5,), {"scale": 2.0})
