"""Conditions that are wrong: what they let happen is made of right values, and the report points at the condition."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import blame_in_words, tracing_back
from paralign.locate.provenance.search.deciding_conditions import WholeCondition
from paralign.locate.reaching import reached

__all__ = ["record"]

#: a metric that counts in a loop
COUNTED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(0)
        scores, labels = draw.randint(0, 40, 60) / 40, draw.randint(0, 2, 60)
        right = wrong = missed = 0
        for score, label in zip(scores, labels):
            if score > 0.35:
                if label == 1:
                    right += 1
                else:
                    wrong += 1
            elif label == 1:
                missed += 1
        return 2 * right / (2 * right + wrong + missed)
"""

COUNTED_AT_ONCE = """
    import numpy as np

    def run():
        draw = np.random.RandomState(0)
        scores, labels = draw.randint(0, 40, 60) / 40, draw.randint(0, 2, 60)
        guess, truth = scores > 0.35, labels > 0
        right = (guess & truth).sum()
        return 2 * right / (guess.sum() + truth.sum())
"""

#: detections of which the best ones suppress their neighbours
SUPPRESSED = """
    import numpy as np

    def shared(one, other):
        low, high = max(one[0], other[0]), min(one[1], other[1])
        both = max(0.0, high - low)
        return both / (one[1] - one[0] + other[1] - other[0] - both)

    def run():
        draw = np.random.RandomState(1)
        first = draw.rand(30) * 12
        spans = np.stack([first, first + 1 + draw.rand(30)], 1)
        scores = np.round(draw.rand(30), 1)
        kept = []
        for place in np.argsort(-scores, kind="stable"):
            if scores[place] < 0.2:
                continue
            alone = True
            for other in kept:
                if shared(spans[place], spans[other]) > 0.3:
                    alone = False
                    break
            if alone:
                kept.append(int(place))
        return spans[kept]
"""

SUPPRESSED_AT_ONCE = """
    import numpy as np

    def run():
        draw = np.random.RandomState(1)
        first = draw.rand(30) * 12
        spans = np.stack([first, first + 1 + draw.rand(30)], 1)
        scores = np.round(draw.rand(30), 1)
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] >= 0.2]
        low = np.maximum(spans[:, None, 0], spans[None, :, 0])
        high = np.minimum(spans[:, None, 1], spans[None, :, 1])
        both = np.clip(high - low, 0, None)
        size = spans[:, 1] - spans[:, 0]
        near = both / (size[:, None] + size[None] - both) > 0.3
        out = []
        while order.size:
            out.append(order[0])
            order = order[1:][~near[order[0], order[1:]]]
        return spans[np.array(out)]
"""

#: records of which the short ones are left out
FILTERED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(2)
        records = [{"length": int(n), "value": float(v)} for n, v in zip(draw.randint(1, 12, 40), draw.randn(40))]
        rows = []
        for record in records:
            if record["length"] < 4:
                continue
            rows.append(record["value"] / record["length"])
        table = np.array(rows)
        return (table - table.mean()) / table.std()
"""

FILTERED_AT_ONCE = """
    import numpy as np

    def run():
        draw = np.random.RandomState(2)
        length, value = draw.randint(1, 12, 40), draw.randn(40)
        table = (value / length)[length >= 4]
        return (table - np.mean(table)) / np.std(table)
"""

#: a gain per query, 0 where nothing is relevant
EARLY = """
    import numpy as np

    def gain(relevant, depth):
        if relevant.sum() < 2:
            return 0.0
        found = relevant[:depth] / np.log2(np.arange(2, depth + 2))
        best = np.sort(relevant)[::-1][:depth] / np.log2(np.arange(2, depth + 2))
        return found.sum() / best.sum()

    def run():
        relevant = np.random.RandomState(3).randint(0, 5, (12, 6)) // 3
        return float(np.mean([gain(row, 4) for row in relevant]))
"""

#: weights that a conditional expression chooses
WEIGHTED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(4)
        degree, error = draw.randint(0, 9, 30), draw.rand(30)
        total = weight = 0.0
        for n, e in zip(degree, error):
            w = 2.5 if n > 4 else 0.75
            total += w * e
            weight += w
        return total / weight
"""

WEIGHTED_AT_ONCE = """
    import numpy as np

    def run():
        draw = np.random.RandomState(4)
        degree, error = draw.randint(0, 9, 30), draw.rand(30)
        w = np.where(degree > 4, 2.5, 0.75)
        return (w * error).sum() / w.sum()
"""

#: values that a comprehension keeps
KEPT = """
    import numpy as np

    def run():
        values = np.round(np.random.RandomState(5).randn(50), 1)
        kept = [abs(v) for v in values if v > -0.4]
        return sum(kept) / len(kept)
"""

KEPT_AT_ONCE = """
    import numpy as np

    def run():
        values = np.round(np.random.RandomState(5).randn(50), 1)
        return float(np.abs(values[values > -0.4]).mean())
"""

#: the threshold of the best score, of equal ones the first
TUNED = """
    import numpy as np

    GRID = np.arange(1, 20) * 0.05

    def run():
        draw = np.random.RandomState(6)
        chances, truth = draw.rand(20, 8), draw.rand(20, 8) > 0.6
        chosen = []
        for column in range(8):
            best = (-1.0, 0.0)
            for level in GRID:
                guess = chances[:, column] > level
                score = 2 * (guess & truth[:, column]).sum() / (guess.sum() + truth[:, column].sum())
                if score > best[0]:
                    best = (score, level)
            chosen.append(best[1])
        return np.array(chosen)
"""

TUNED_AT_ONCE = """
    import numpy as np

    LEVELS = np.arange(1, 20) * 0.05

    def run():
        draw = np.random.RandomState(6)
        chances, truth = draw.rand(20, 8), draw.rand(20, 8) > 0.6
        guess = chances[None] > LEVELS[:, None, None]
        table = 2 * (guess & truth).sum(1) / (guess.sum(1) + truth.sum(0))
        return LEVELS[table.argmax(0)]
"""

#: an average that is advanced until it settles
SETTLED = """
    import numpy as np

    def run():
        values = np.random.RandomState(7).rand(25)
        centre, turns = 0.0, 0
        while turns < 40:
            new = centre + 0.3 * (values.mean() - centre)
            turns += 1
            if abs(new - centre) < 0.003:
                break
            centre = new
        return centre * 7
"""

#: a table that a key chooses from
LOOKED_UP = """
    import numpy as np

    SHARE = {"small": 0.15, "large": 0.85}

    def run():
        draw = np.random.RandomState(8)
        areas, scores = draw.randint(3, 14, 30) * 4, draw.rand(30)
        total = 0.0
        for area, score in zip(areas, scores):
            if area < 32:
                key = "small"
            else:
                key = "large"
            total += SHARE[key] * score
        return total / len(areas)
"""

#: reference, candidate, what is replaced in it, by what: the line of the replacement is at fault
MISTAKES = {
    "edge of a count": (COUNTED, COUNTED, "score > 0.35", "score >= 0.35"),
    "edge of a count, at once": (COUNTED_AT_ONCE, COUNTED, "score > 0.35", "score >= 0.35"),
    "threshold of a count": (COUNTED, COUNTED, "score > 0.35", "score > 0.45"),
    "threshold of a count, at once": (COUNTED_AT_ONCE, COUNTED, "score > 0.35", "score > 0.45"),
    "label of a count": (COUNTED, COUNTED, "elif label == 1", "elif label == 0"),
    "overlap": (SUPPRESSED, SUPPRESSED, "spans[other]) > 0.3", "spans[other]) > 0.15"),
    "overlap, at once": (SUPPRESSED_AT_ONCE, SUPPRESSED, "spans[other]) > 0.3", "spans[other]) > 0.15"),
    "least score": (SUPPRESSED, SUPPRESSED, "scores[place] < 0.2", "scores[place] <= 0.2"),
    "least score, at once": (SUPPRESSED_AT_ONCE, SUPPRESSED, "scores[place] < 0.2", "scores[place] <= 0.2"),
    "edge of a filter": (FILTERED, FILTERED, '["length"] < 4', '["length"] <= 4'),
    "edge of a filter, at once": (FILTERED_AT_ONCE, FILTERED, '["length"] < 4', '["length"] <= 4'),
    "number of a filter": (FILTERED, FILTERED, '["length"] < 4', '["length"] < 6'),
    "early return": (EARLY, EARLY, "relevant.sum() < 2", "relevant.sum() <= 2"),
    "conditional expression": (WEIGHTED, WEIGHTED, "if n > 4", "if n >= 4"),
    "conditional expression, at once": (WEIGHTED_AT_ONCE, WEIGHTED, "if n > 4", "if n >= 4"),
    "filter of a comprehension": (KEPT, KEPT, "if v > -0.4", "if v >= -0.4"),
    "filter of a comprehension, at once": (KEPT_AT_ONCE, KEPT, "if v > -0.4", "if v >= -0.4"),
    "threshold of a comprehension": (KEPT, KEPT, "if v > -0.4", "if v > -0.6"),
    "best of equal ones": (TUNED, TUNED, "if score > best[0]", "if score >= best[0]"),
    "best of equal ones, at once": (TUNED_AT_ONCE, TUNED, "if score > best[0]", "if score >= best[0]"),
    "end of a loop": (SETTLED, SETTLED, "< 0.003", "< 0.03"),
    "key of a table": (LOOKED_UP, LOOKED_UP, "if area < 32", "if area > 32"),
    "edge of a key": (LOOKED_UP, LOOKED_UP, "if area < 32", "if area <= 32"),
}

#: the same, where what stands in a branch is at fault and not the condition
COMPUTED = {
    "count": (COUNTED, COUNTED, "wrong += 1", "wrong += 2"),
    "filtered value": (FILTERED, FILTERED, 'record["value"] / record["length"])', 'record["value"] * record["length"])'),
    "filtered value, at once": (FILTERED_AT_ONCE, FILTERED, 'record["value"] / record["length"])', 'record["value"] * record["length"])'),
    "value of a comprehension": (KEPT_AT_ONCE, KEPT, "abs(v) for", "v * v for"),
    "chosen weight": (WEIGHTED, WEIGHTED, "2.5 if", "2.25 if"),
    "gain": (
        EARLY,
        EARLY,
        "found = relevant[:depth] / np.log2(np.arange(2, depth + 2))",
        "found = relevant[:depth] / np.log2(np.arange(1, depth + 1) + 2)",
    ),
    "step": (SETTLED, SETTLED, "values.mean() - centre)", "values.max() - centre)"),
    "share": (LOOKED_UP, LOOKED_UP, "score\n", "score ** 2\n"),
}


def blamed(record, reference, candidate, old, new):
    """The line that is named, and the one that is at fault."""
    assert candidate.count(old) == 1
    wrong = candidate.replace(old, new.replace("\n", "  # HERE\n") if "\n" in new else new)
    place = wrong.index(new.split("\n")[0])
    end = wrong.index("\n", place)
    wrong = wrong if "HERE" in wrong else wrong[:end] + "  # HERE" + wrong[end:]
    sides = tracing_back.Sides(record(reference), record(wrong))
    assert sides.reference.root("").mark != sides.candidate.root("").mark, "the mistake shows"
    found = tracing_back.of_value(sides, "", "")
    return (None if found is None else found.expression.line), line_of(wrong)


#: right conditions that are written in another way than the reference's, beside a mistake in what they let happen
REWRITTEN = {
    "the opposite": (
        'record["length"] < 4:\n                continue\n            rows.append(',
        'record["length"] >= 4:\n                rows.append(',
    ),
    "operands exchanged": ('record["length"] < 4', '4 > record["length"]'),
    "another number": ('record["length"] < 4', 'record["length"] <= 3'),
    "two conditions": ('record["length"] < 4', 'record["length"] < 2 or record["length"] < 4'),
}


@pytest.mark.parametrize("name", REWRITTEN)
@pytest.mark.parametrize("reference", [FILTERED, FILTERED_AT_ONCE])
def test_a_condition_in_other_words_is_not_named(record, name, reference):
    candidate = FILTERED.replace(*REWRITTEN[name])
    line, true = blamed(record, reference, candidate, 'record["value"] / record["length"]', 'record["value"] * record["length"]')
    assert line == true


FLOWING = """
    class Truth:
        asked = 0
        def __bool__(self):
            Truth.asked += 1
            return Truth.asked % 2 == 0

    def run():
        told, truth, limit = [], Truth(), None
        for n in range(6):
            if n == 1 and truth:
                told.append("one")
            elif not truth:
                told += [n]
                continue
            else:
                last = n
            try:
                if n > 3:
                    break
            finally:
                told.append("round")
        else:
            told.append("whole")
        while len(told) < 12:
            if (limit := len(told)) == 11:
                break
            told.append(limit if limit % 2 else -limit)
        else:
            told.append("never")
        pairs = {a: b for a in range(4) if a for b in range(3) if b != a}
        return told, last, pairs, list(x for x in told if isinstance(x, int) if x), Truth.asked
"""


def test_conditions_mean_the_same_and_are_asked_once(record):
    assert record(FLOWING).expressions


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_condition_is_named(record, name):
    line, true = blamed(record, *MISTAKES[name])
    assert line == true


@pytest.mark.parametrize("name", COMPUTED)
def test_a_right_condition_is_not_named_where_what_it_lets_happen_is_wrong(record, name):
    line, true = blamed(record, *COMPUTED[name])
    assert line == true


#: a value that is NaN now and then, as an array of one element
LACKING = """
    import numpy as np

    def run():
        values = np.random.RandomState(9).rand(20, 1)
        values[::4] = np.nan
        total = 0.0
        for value in values:
            if value is None:
                continue
            total += float(np.nan_to_num(value)[0]) * 3
        return total
"""

#: values of which some are missing
MISSING = """
    import numpy as np

    def run():
        draw = np.random.RandomState(10)
        scores = [None if n % 5 == 0 else float(s) for n, s in enumerate(draw.rand(30))]
        kept = []
        for s in scores:
            if s is None:
                continue
            kept.append(min(s, 0.95))
        return np.array(kept)
"""

#: the least of some losses, from infinity on
LEAST = """
    import numpy as np

    def run():
        best, taken = float("inf"), []
        for loss in np.random.RandomState(11).rand(30).tolist():
            if loss < best:
                best = loss
                taken.append(max(loss, 0.05))
        return np.array(taken)
"""

#: classes that a tuple lists
LISTED = """
    import numpy as np

    def run():
        draw = np.random.RandomState(12)
        kept = []
        for c, value in zip(draw.randint(0, 5, 40).tolist(), draw.rand(40).tolist()):
            if c in (1, 3):
                kept.append(min(value, 0.95))
        return np.array(kept)
"""

#: another mask of the same numbers, each as often another
COUNTED_CLASSES = """
    import numpy as np

    def run():
        draw = np.random.RandomState(13)
        labels, guesses = draw.randint(0, 6, 40), np.sort(draw.randint(0, 6, 40) // 2 * 2 + draw.randint(0, 2, 40))
        hits = 0
        for label in labels:
            if label == 3:
                hits += 2
        return hits / 7
"""

COUNTED_CLASSES_AT_ONCE = """
    import numpy as np

    def run():
        draw = np.random.RandomState(13)
        labels, guesses = draw.randint(0, 6, 40), np.sort(draw.randint(0, 6, 40) // 2 * 2 + draw.randint(0, 2, 40))
        return (guesses == 3).sum() / 7
"""

#: right conditions on what is no finite number, beside a mistake in what they let happen
NO_NUMBERS = {
    "nan in an array of one": (LACKING, "* 3", "* 4"),
    "none": (MISSING, "min(s, 0.95)", "min(s, 0.9)"),
    "infinity": (LEAST, "max(loss, 0.05)", "max(loss, 0.1)"),
    "tuple": (LISTED, "min(value, 0.95)", "min(value, 0.85)"),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_a_condition_on_what_is_no_number_has_a_counterpart(record, name):
    program, old, new = NO_NUMBERS[name]
    line, true = blamed(record, program, program, old, new)
    assert line == true


@pytest.mark.parametrize(("program", "old", "new"), [(LISTED, "c in (1, 3)", "c in (1, 4)"), (LEAST, "loss < best", "loss <= best - 0.05")])
def test_a_condition_on_what_is_no_number_can_be_wrong(record, program, old, new):
    line, true = blamed(record, program, program, old, new)
    assert line == true


def test_a_choice_is_not_named_where_what_was_gathered_is_blamed_already(record):
    asked = MISSING.replace("if s is None", 'if type(s).__name__ == "NoneType"')
    line, true = blamed(record, MISSING, asked, "min(s, 0.95)", "min(s, 0.9)")
    assert line == true


def test_masks_of_the_same_numbers_in_other_counts_are_no_counterpart(record):
    sides = tracing_back.Sides(record(COUNTED_CLASSES_AT_ONCE), record(COUNTED_CLASSES))
    found = tracing_back.of_value(sides, "", "")
    assert found is None or found.expression.label != "Eq"


def test_a_condition_that_is_wrong_as_a_whole_says_so(record):
    wrong = KEPT.replace("v > -0.4", "v >= -0.4")
    found = tracing_back.of_value(tracing_back.Sides(record(KEPT_AT_ONCE), record(wrong)), "", "")
    assert isinstance(found, WholeCondition)
    assert blame_in_words.value_of(found) is None
    said = blame_in_words.said(found)
    assert said.startswith("over all its rounds, this condition decides otherwise")
    assert "False" not in said


#: a name that five conditions leave alone, in every round
LONG = """
    def run():
        total = 0.5
        for n in range(2000):
            last = total + n
            if n < 0:
                total = 1.0
            if n < -1:
                total = 2.0
            if n < -2:
                total = 3.0
            if n < -3:
                total = 4.0
            if n < -4:
                total = 5.0
        return last
"""


def test_what_conditions_leave_alone_takes_room_in_proportion(record):
    graph = record(LONG)
    followed = list(reached(graph.expressions, lambda each: [*each.operands, *each.conditions]))
    assert len(followed) > 5_000, "each round is known"
    assert sum(len(each.conditions) for each in followed) <= 4 * len(followed)


#: a condition whose room is spent: more rounds than of one place are kept
SPENT = """
    def run():
        total = 0.0
        for n in range(4500):
            if n < 3900:
                total = total + 0.25
            else:
                total = total + n * 0.5
        return total
"""


def test_a_decision_that_was_not_kept_is_not_taken_for_an_older_one(record):
    graph = record(SPENT)
    under = [each for each in graph.expressions if each.label == "Mult"]
    decisions = [one.number for each in under for one in each.conditions]
    assert len(under) > len(decisions), "later rounds have none"
    assert len(decisions) == len(set(decisions))


#: a function and a lambda inside a loop that a condition ends
INSIDE = """
    def run():
        found = []
        for n in range(4):
            def doubled(value):
                return value * 2
            halved = lambda value: value / 2
            found.append(doubled(n) + halved(n))
            if n > 2:
                break
        return sum(found)
"""


def test_what_ends_a_loop_does_not_decide_on_functions_in_it(record):
    graph = record(INSIDE)
    inside = [each for each in graph.expressions if each.label in ("Mult", "Div")]
    assert len(inside) == 8
    assert not any(each.conditions for each in inside)
    assert any(each.conditions for each in graph.expressions if each.label == "Add"), "what the loop itself does is under it"
