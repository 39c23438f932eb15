"""Frequencies of single samples: another law is found, and no way of drawing by the same law is accused."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.comparison import frequencies

N, EPOCHS = 60, 32
CLASSES = np.arange(N) % 6
SCATTERED = np.random.default_rng(5).permutation(np.geomspace(1, 30, N))


def law(power=1.0):
    weights = SCATTERED**power
    return weights / weights.sum()


def replaced(random, epoch, p):
    return random.choice(N, N, p=p)


def partly(random, epoch, p):
    return random.choice(N, N // 3, replace=False, p=p)


def sorted_partly(random, epoch, p):
    return np.sort(partly(random, epoch, p))


def clumps(random, epoch, p):
    return np.concatenate([random.choice(np.flatnonzero(c == CLASSES), 4) for c in random.choice(6, 3, replace=False)])


def one_class(random, epoch, p):
    return np.flatnonzero(random.integers(6) == CLASSES)


def batches(random, epoch, p):
    return np.concatenate([np.arange(start, start + 5) for start in 5 * random.permutation(N // 5)[:6]])


def curriculum(random, epoch, p):
    return random.permutation(10 + epoch)


def repeated(random, epoch, p):
    return np.repeat(random.choice(N, 6, p=p), 5)


def other_lengths(random, epoch, p):
    return random.choice(N, random.integers(1, N), p=p)


def padded(random, epoch, p):
    order = random.permutation(N)
    return np.concatenate([order, order[:8]])


def paired(random, epoch, p):
    first = random.choice(N // 2, 12, replace=False)
    return np.concatenate([2 * first, 2 * first + 1])


def loaders(draw, seed, p=None, epochs=EPOCHS):
    random = np.random.default_rng(seed)
    return [[np.asarray(draw(random, e + half * epochs, p), np.int64) for e in range(epochs)] for half in range(2)]


KINDS = [replaced, partly, sorted_partly, clumps, one_class, batches, curriculum, repeated, other_lengths, padded, paired]


@pytest.mark.parametrize("draw", KINDS, ids=lambda draw: draw.__name__)
def test_the_same_law_drawn_otherwise_is_not_accused(draw):
    for seed in range(5):
        found = frequencies.compare(loaders(draw, 2 * seed, law()), loaders(draw, 2 * seed + 1, law()), N)
        assert found is None or found.chance > 1e-4, found


def test_another_order_of_the_same_samples_is_no_other_law():
    found = frequencies.compare(loaders(sorted_partly, 1, law()), loaders(partly, 2, law()), N)
    assert found.chance > 1e-4


@pytest.mark.parametrize(
    ("draw", "power"),
    [(replaced, 0.5), (partly, 0.5), (replaced, 0.0), (partly, 0.0), (repeated, 0.0), (other_lengths, 0.0)],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_another_law_is_found_with_scattered_weights(draw, power):
    found = frequencies.compare(loaders(draw, 1, law()), loaders(draw, 2, law(power)), N)
    assert found.chance < frequencies.CHANCE
    assert found.lasting
    high = law() > law(power)
    assert (found.rates[0] > found.rates[1]) is bool(high[found.index])


def test_what_is_drawn_when_a_loader_is_built_is_no_law_of_its_own():
    def built(seed):
        halves = []
        for half in range(2):
            random = np.random.default_rng((seed, half))
            chosen = random.choice(N, N // 2, replace=False)
            halves.append([random.choice(chosen, N // 4, replace=False) for _ in range(EPOCHS)])
        return halves

    for seed in range(5):
        found = frequencies.compare(built(2 * seed), built(2 * seed + 1), N)
        assert found.chance > frequencies.CHANCE or not found.lasting, found


def test_one_loader_alone_shows_no_lasting_difference():
    found = frequencies.compare(loaders(replaced, 1, law())[:1], loaders(replaced, 2, law(0.0))[:1], N)
    assert found.chance < frequencies.CHANCE
    assert not found.lasting


def test_orders_that_come_back_and_too_few_epochs_say_nothing():
    still = [[np.arange(5)] * EPOCHS] * 2
    assert frequencies.compare(still, [[np.arange(5, 10)] * EPOCHS] * 2, N) is None
    assert frequencies.compare(loaders(replaced, 1, law(), 8), loaders(replaced, 2, law(0.0), 8), N) is None


@pytest.mark.parametrize("hostile", [[-1, 2], [3, N], [2**62]])
def test_indices_that_are_none_of_the_data_set_are_not_counted(hostile):
    ours = loaders(replaced, 1, law())
    ours[0][0] = np.array(hostile, np.int64)
    assert frequencies.compare(ours, loaders(replaced, 2, law()), N) is None


def test_empty_epochs_are_counted_as_none():
    ours = loaders(replaced, 1, law())
    ours[0][0] = np.array([], np.int64)
    assert frequencies.compare(ours, loaders(replaced, 2, law()), N).chance > frequencies.CHANCE
