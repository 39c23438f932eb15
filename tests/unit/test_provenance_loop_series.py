"""Numbers that a loop makes one by one, beside the reference's arrays."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import blamed, line_of, record

__all__ = ["record"]

REFERENCE = """
    import numpy as np
    def run():
        random = np.random.RandomState(1)
        hits, others = np.sort(random.rand(7) * 0.5 + 0.3), np.sort(random.rand(9) * 0.6)
        cuts = np.unique(np.concatenate([hits, others]))
        miss = np.searchsorted(hits, cuts) / len(hits)
        false = 1.0 - np.searchsorted(others, cuts) / len(others)
        return {"": float((0.1 * miss + 0.1 * 7.3 * false).min() / 0.1)}
"""

LOOP = """
    import numpy as np
    def rates(hits, others):
        for cut in sorted(set(hits) | set(others)):
            miss = sum(s < cut for s in hits) / len(hits)  # MISS
            false = sum(s >= cut for s in others) / len(others)  # FALSE
            yield miss, false
    def run():
        random = np.random.RandomState(1)
        hits, others = (random.rand(7) * 0.5 + 0.3).tolist(), (random.rand(9) * 0.6).tolist()
        return {"": min(m + 7.3 * f for m, f in rates(hits, others))}  # USE
"""


def test_a_wrong_comparison_in_a_loop_is_named_and_not_what_takes_the_best_of_it(record):
    wrong = LOOP.replace("s >= cut", "s > cut")
    assert blamed(record, REFERENCE, wrong, own=True).expression.line == line_of(wrong, "FALSE")


@pytest.mark.parametrize(("old", "new"), [("7.3 * f", "7.9 * f"), ("m + 7.3", "m - 7.3")])
def test_right_series_that_are_put_together_wrongly_stay_as_they_were(record, old, new):
    wrong = LOOP.replace(old, new)
    assert blamed(record, REFERENCE, wrong, own=True).expression.line == line_of(wrong, "USE")
