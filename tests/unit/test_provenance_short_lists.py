"""Short lists whose elements the reference has in another order; masks that are right by chance."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record
from tests.unit.test_provenance_counterparts import of_sample

__all__ = ["record"]

CLASSES = """
    import numpy as np
    KINDS = ["bran", "flour", "semolina"]  # HERE
    def run():
        return {"kind": np.int64(KINDS.index("flour"))}
"""


def test_names_in_another_order_are_named_where_they_are_listed(record):
    wrong = CLASSES.replace('"bran", "flour", "semolina"', '"flour", "bran", "semolina"')
    assert of_sample(record, CLASSES, wrong, "kind") == line_of(wrong)


def test_an_order_that_the_reference_has_too_is_not_named(record):
    reference = CLASSES.replace("def run():", 'OTHER = ["flour", "bran", "semolina"]\n    def run():\n        shown = OTHER.copy()')
    wrong = CLASSES.replace('"bran", "flour", "semolina"', '"flour", "bran", "semolina"')
    assert of_sample(record, reference, wrong, "kind") == line_of(wrong) + 2  # the look-up: which list is due is not known


COVERED = """
    import numpy as np
    WIDTH = 1.6449  # HERE
    def run():
        errors = np.random.RandomState(3).randn(7)
        others = np.array([0.1, 0.2, 0.3, 0.4, 4.0, 5.0, 6.0]) < 1.0
        covered = np.abs(errors) <= WIDTH * 0.37
        return {"share": float(np.mean(covered)), "others": float(others.mean())}
"""


@pytest.mark.parametrize("width", ["0.9", "1.1"])
def test_a_mask_with_as_many_hits_as_another_is_followed_to_what_bounds_it(record, width):
    wrong = COVERED.replace("1.6449", width)
    assert of_sample(record, COVERED, wrong, "share") == line_of(wrong)
