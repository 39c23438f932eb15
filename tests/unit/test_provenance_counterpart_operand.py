"""Operands that seem right, and that the reference does not take there: excused numbers, other orders, other rows."""

from __future__ import annotations

from tests.unit.test_provenance import line_of, record
from tests.unit.test_provenance_counterparts import of_sample, sides

from paralign.comparison.laws import Family, Law
from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs import initial_values

__all__ = ["record"]

STRETCHED = """
    import numpy as np

    LOW, HIGH = -1.5, 1.5

    def scaled(x):
        inside = x[(x > LOW) & (x < HIGH)]
        mean, deviation = inside.mean(), inside.std()  # HERE
        return (x - mean) / deviation

    def stretched(x):
        low = x.min()
        span = x.max() - low
        return ((x - low) / span) ** 0.7 * span + low  # USE

    def run():
        return {"x": stretched(scaled(np.random.RandomState(2).randn(60)))}
"""


def test_an_error_that_cancels_out_in_between_is_followed_to_its_source(record):
    wrong = STRETCHED.replace("mean, deviation = inside.mean(), inside.std()", "mean, deviation = x.mean(), x.std()")
    assert of_sample(record, STRETCHED, wrong, "x") == line_of(wrong)


def test_a_value_that_is_scaled_and_scaled_back_stays_excused(record):
    other = STRETCHED.replace("/ deviation", "/ deviation * 4.0").replace("low = x.min()", "x = x / 4.0\n        low = x.min()")
    wrong = other.replace("* span + low  # USE", "* span - low  # FAULT")
    assert of_sample(record, STRETCHED, wrong, "x") == line_of(wrong, "FAULT")


TURNED = """
    import numpy as np

    def run():
        points = np.random.RandomState(4).randn(30, 2)
        c, s = np.cos(0.3), np.sin(0.3)
        turn = np.array([[c, -s], [s, c]])
        return {"points": points @ turn.T}
"""

IN_ROWS = """
    import numpy as np

    def run():
        points = np.random.RandomState(4).randn(30, 2)
        c, s = np.cos(0.3), np.sin(0.3)
        turn = np.asarray([[c, s], [-s, c]])  # HERE
        return {"points": np.matmul(points, turn)}  # USE
"""


def test_a_matrix_with_its_numbers_in_another_order_is_named_where_it_is_made(record):
    wrong = IN_ROWS.replace("[[c, s], [-s, c]]", "[[c, -s], [s, c]]")
    reference = TURNED.replace("points @ turn.T", "np.matmul(points, turn.T)")
    assert of_sample(record, reference, wrong, "points") == line_of(wrong)


BLANKED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(5)
        picture, gone = draw.rand(3, 12, 12), draw.rand(4, 4) < 0.4
        gone = gone.repeat(3, 0).repeat(3, 1)
        colour = picture.mean((1, 2), keepdims=True)
        return {"picture": np.where(gone, colour, picture)}
"""

ENLARGED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(5)
        picture, gone = draw.rand(3, 12, 12), draw.rand(4, 4) < 0.4
        gone = np.kron(gone, np.ones((3, 3))) > 0  # HERE
        colour = picture.mean(axis=(1, 2), keepdims=True)
        colour = np.broadcast_to(colour, picture.shape)
        return {"picture": np.where(np.broadcast_to(gone, picture.shape), colour, picture)}  # USE
"""


def test_a_mask_in_another_order_is_named_and_not_where_it_is_applied(record):
    wrong = ENLARGED.replace("np.kron(gone, np.ones((3, 3))) > 0", "np.tile(gone, (3, 3))")
    assert of_sample(record, BLANKED, wrong, "picture") == line_of(wrong)


FITTED = """
    import numpy as np

    def read():
        draw = np.random.RandomState(6)
        return {"age": draw.randint(20, 40, 50) * 1.0, "rate": draw.randint(1, 6, 50) * 0.5}

    def part(columns):
        keep = np.arange(50) % 5 != 4  # CUT
        return {name: values[keep] for name, values in columns.items()}

    class Fit:
        def __init__(self, columns):
            x = np.stack([columns[name] for name in ("age", "rate")], axis=1)
            self.mean = x.mean(axis=0)  # USE

    def fitted():
        columns = read()
        return Fit(part(columns))  # HERE

    def run():
        return {"mean": fitted().mean}
"""

FRAME = """
    import numpy as np

    def run():
        draw = np.random.RandomState(6)
        table = np.column_stack([draw.randint(20, 40, 50) * 1.0, draw.randint(1, 6, 50) * 0.5])
        kept = table[np.arange(50) % 5 != 4]
        return {"mean": kept.mean(axis=0)}
"""


def test_statistics_of_all_rows_are_named_where_the_table_is_handed_over(record):
    assert of_sample(record, FRAME, FITTED.replace("Fit(part(columns))", "Fit(columns)"), "mean") == line_of(FITTED)


def test_another_statistic_of_the_right_rows_is_at_fault_itself(record):
    wrong = FITTED.replace("x.mean(axis=0)", "np.median(x, axis=0)")
    assert of_sample(record, FRAME, wrong, "mean") == line_of(wrong, "USE")


CHOSEN = """
    import numpy as np

    def run():
        draw = np.random.RandomState(8)
        distance, last = draw.rand(2, 15, 4, 12), np.minimum(draw.randint(4, 60, (2, 15)), 11)
        present = draw.rand(2, 15) < 0.8
        final = np.take_along_axis(distance, last[..., None, None], -1)[..., 0]
        least = final.min(-1)
        return {"least": least[present].mean()}
"""

FILTERED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(8)
        distance, last = draw.rand(2, 15, 4, 12), np.minimum(draw.randint(4, 60, (2, 15)), 11)
        present = draw.rand(2, 15) < 0.8
        distance, last = distance[present], last[present]
        final = np.array([each[:, place] for each, place in zip(distance, last)])  # HERE
        best = final.argmin(-1)
        least = final[np.arange(len(best)), best]  # USE
        return {"least": least.mean()}
"""


def test_numbers_that_the_reference_does_not_take_are_named_where_they_are_taken(record):
    wrong = FILTERED.replace("np.array([each[:, place] for each, place in zip(distance, last)])", "distance[:, :, -1]")
    found = tracing_back.of_value(sides(record, CHOSEN, wrong), "least", "least")
    assert found.expression.line == line_of(wrong), "rows without a future are left out rightly, and the places of the least are right"


def uniform(bound):
    return Law(Family.UNIFORM, mean=0.0, std=bound / 3**0.5, scale=bound, low=-bound, high=bound, error=0.001)


BOUNDS = """
    class Uniform:
        def __init__(self, low, high):
            self.low, self.high = low, high

        def __repr__(self):
            return f"Uniform({self.low}, {self.high})"

    SIGMA = 1 / 8

    def run():
        bound = (3 / 144) ** 0.5  # HERE
        return [48 ** -0.5, Uniform(-bound, bound)]  # BUILT
"""


def test_the_bound_of_a_law_is_named_and_not_where_its_sign_is_changed(record):
    """Another tensor of the reference has the same number by chance, without a sign."""
    reference = BOUNDS.replace("(3 / 144)", "(1 / 144)").replace("[48 ** -0.5,", "[(3 / 144) ** 0.5,")
    found = sides(record, reference, BOUNDS)
    place = found.candidate.expressions[-1].file or found.candidate.expressions[0].file
    blamed = initial_values.of_laws(found, (uniform(1 / 12), uniform(48**-0.5)), lines=[f"{place}:{line_of(BOUNDS, 'BUILT')}"])
    assert blamed.expression.line == line_of(BOUNDS)


def test_a_number_near_a_law_counts_only_if_it_leads_to_the_tensor(record):
    found = sides(record, BOUNDS.replace("1 / 8", "1 / 9"), BOUNDS)
    laws = uniform(0.2), uniform(0.125)
    assert initial_values.of_laws(found, laws).expression.line == line_of(BOUNDS, "SIGMA"), "without lines it is all that is known"
    place = found.candidate.expressions[0].file
    assert initial_values.of_laws(found, laws, lines=[f"{place}:{line_of(BOUNDS, 'BUILT')}"]) is None
