"""The steps inside of operations that do several things at once, as people write them by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paralign.locate.suspects import fused_operations

RANDOM = np.random.RandomState(5)


def held(steps, value):
    """Whether a value is among steps."""
    return any(step.shape == value.shape and np.allclose(step, value, rtol=1e-12, atol=1e-12) for step in steps)


def test_attention_passes_through_scaled_masked_scores_and_their_softmax():
    q, k, v = RANDOM.randn(3, 2, 4, 5, 8)
    steps = list(fused_operations.steps("attention", [q, k, v], {"is_causal": True}))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8)
    later = np.triu(np.ones((5, 5), bool), 1)
    powers = np.where(later, 0.0, np.exp(scores))
    assert held(steps, scores)
    assert held(steps, np.where(later, 0.0, scores))
    assert held(steps, powers / powers.sum(-1, keepdims=True))


def test_products_of_queries_and_keys_want_a_scale_unless_it_is_one():
    q, k, v = RANDOM.randn(3, 2, 4, 5, 8)
    (products,) = fused_operations.unscaled("attention", [q, k, v], {"scale": None})
    assert held([np.einsum("bhqd,bhkd->bhqk", q, k)], products)
    assert list(fused_operations.unscaled("attention", [q, k, v], {"scale": 1.0})) == []
    assert list(fused_operations.unscaled("attention", [q[0], k, v], {})) == list(fused_operations.unscaled("softmax", [q], {})) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_mask_of_attention_is_taken_as_what_is_kept_or_as_what_is_added(kept):
    q, k, v = RANDOM.randn(3, 1, 2, 3, 4)
    allowed = np.array([[True, True, False], [True, True, True], [False, True, True]])
    given = allowed if kept else np.where(allowed, 0.0, -np.inf)
    steps = list(fused_operations.steps("attention", [q, k, v, given], {"scale": 0.25}))
    powers = np.where(allowed, np.exp(np.einsum("bhqd,bhkd->bhqk", q, k) * 0.25), 0.0)
    assert held(steps, powers / powers.sum(-1, keepdims=True))
    left_out, stay, added = fused_operations.masks("attention", [q, k, v, given], {})
    assert np.array_equal(left_out, ~allowed)
    assert np.array_equal(stay, allowed)
    assert np.array_equal(added, -1.0 * ~allowed)


def test_fewer_heads_of_keys_are_repeated():
    q, k = RANDOM.randn(1, 4, 3, 2), RANDOM.randn(1, 2, 3, 2)
    steps = list(fused_operations.steps("attention", [q, k, k], {}))
    assert held(steps, np.einsum("bhqd,bhkd->bhqk", q, k[:, [0, 0, 1, 1]]) / math.sqrt(2))


@pytest.mark.parametrize("inputs", [[], [np.zeros((2, 3))], [np.zeros((2, 3, 4))] * 3])
def test_attention_of_other_shapes_has_no_known_steps(inputs):
    assert list(fused_operations.steps("attention", inputs, {})) == []
    assert list(fused_operations.masks("attention", inputs, {})) == []


def test_normalisations_pass_through_mean_variance_and_root():
    x, weight = RANDOM.randn(4, 6), RANDOM.randn(6)
    steps = list(fused_operations.steps("layer_norm", [x, weight], {"normalized_shape": [6], "eps": 1e-3}))
    variance = x.var(1, keepdims=True)
    for value in (x.mean(1, keepdims=True), variance, np.sqrt(variance + 1e-3), (x - x.mean(1, keepdims=True)) / np.sqrt(variance + 1e-3)):
        assert held(steps, value)
    assert held(steps, weight * (x - x.mean(1, keepdims=True)) / np.sqrt(variance + 1e-3))
    squares = np.square(x).mean(1, keepdims=True)
    assert held(list(fused_operations.steps("rms_norm", [x, weight], {"epsilon": 1e-6})), x / np.sqrt(squares + 1e-6))


def test_activations_and_softmax():
    x = RANDOM.randn(3, 7)
    error = np.array([[math.erf(v / math.sqrt(2)) for v in row] for row in x])
    assert held(list(fused_operations.steps("gelu", [x], {})), 0.5 * (1 + error))
    assert held(list(fused_operations.steps("gelu", [x], {"approximate": "tanh"})), np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert held(list(fused_operations.steps("silu", [x], {})), 1 / (1 + np.exp(-x)))
    chances = np.exp(x) / np.exp(x).sum(0)
    assert held(list(fused_operations.steps("softmax", [x], {"dim": 0})), chances)
    assert held(list(fused_operations.steps("log_softmax", [x], {"dim": 0})), np.log(chances))


def test_what_is_not_known_has_no_steps():
    assert list(fused_operations.steps("convolution", [np.zeros((1, 1, 2, 2))], {})) == []
    assert list(fused_operations.steps("softmax", [np.zeros(3)], {"dim": [0]})) == []
