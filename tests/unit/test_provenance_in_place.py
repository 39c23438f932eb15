"""What functions of a library change in place, and what a call only gives another type."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import blamed, line_of, record
from tests.unit.test_provenance_counterparts import of_sample

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs import own_steps
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.values.seen_values import SeenApart

__all__ = ["record"]

SUMS = """
    import numpy as np
    def run():
        draw = np.random.RandomState(0)
        rows, columns, ages = draw.randint(0, 5, 40), draw.randint(0, 7, 40), draw.rand(40) * 3
        weights = np.exp2(-ages)
        sums = np.zeros((5, 7))
        for row, column, weight in zip(rows, columns, weights):
            sums[row, column] += weight
        return sums / sums.sum()
"""

#: ways to fill an array by a function; the weights of all of them are wrong
FILLED = {
    "ufunc.at": "np.add.at(sums, (rows, columns), np.exp(-ages))  # HERE",
    "copyto": """weights = np.exp(-ages)  # HERE
        made = np.zeros((5, 7))
        np.add.at(made, (rows, columns), weights)
        np.copyto(sums, made)""",
    "out": """weights = np.exp(-ages)  # HERE
        made = np.zeros((5, 7))
        np.add.at(made, (rows, columns), weights)
        np.multiply(made, 1.0, out=sums)""",
}


def filled(way):
    return f"""
    import numpy as np
    def run():
        draw = np.random.RandomState(0)
        rows, columns, ages = draw.randint(0, 5, 40), draw.randint(0, 7, 40), draw.rand(40) * 3
        sums = np.zeros((5, 7))
        {FILLED[way]}
        return sums / sums.sum()
"""


@pytest.mark.parametrize("way", FILLED)
def test_what_fills_an_array_leads_to_it(record, way):
    found = blamed(record, SUMS, filled(way))
    assert found is not None
    assert found.expression.line == line_of(filled(way))


def test_right_fillings_name_nothing(record):
    found = blamed(record, SUMS, filled("ufunc.at").replace("np.exp(", "np.exp2("))
    assert found is None or found.expression.line != line_of(filled("ufunc.at"))


def test_a_heap_and_a_shuffle_are_changed(record):
    graph = record(
        """
        import heapq, random
        def run():
            heap, order = [3, 1], [1, 2, 3, 4]
            heapq.heappush(heap, 0)
            random.Random(0).shuffle(order)
            return heap, order
        """
    )
    changed = [(each.label, each.mark[1]) for each in graph.expressions if each.kind == "change"]
    assert any(label == "heapq.heappush" and sorted(heap) == [0, 1, 3] for label, heap in changed)
    assert any(label.endswith("shuffle") and sorted(order) == [1, 2, 3, 4] for label, order in changed)


def test_methods_of_other_objects_change_no_argument(record):
    graph = record(
        """
        import queue
        import numpy as np
        def run():
            held, places, waiting = np.zeros(6), np.array([1, 3]), queue.Queue()
            held.put(places, 5.0)
            waiting.put(places)
            return held
        """
    )
    assert not [each.label for each in graph.expressions if each.kind == "change" and each.mark[1] == [2]]


IDS = """
    import numpy as np
    def ids(text):
        return [ord(c) - 96 for c in text]
    def run():
        return np.array(ids("provenance")[:6] + [40])
"""


def test_a_call_that_only_gives_another_type_is_not_blamed(record):
    cut = """
    import numpy as np
    def ids(text):
        return [ord(c) - 96 for c in text]
    def cut(text):
        return (ids(text) + [40])[:6]  # HERE
    def run():
        return np.asarray(cut("provenance"), dtype="int64")
    """
    found = blamed(record, IDS, cut)
    assert found is not None
    assert found.expression.line == line_of(cut)


def test_a_call_that_sorts_is_blamed(record):
    unsorted = "import numpy as np\ndef run():\n    values = np.array([5.0, 3.0, 9.0, 1.0, 7.0])\n    return values * 1.0\n"
    ordered = "import numpy as np\ndef run():\n    values = np.array([5.0, 3.0, 9.0, 1.0, 7.0])\n    return np.sort(values)\n"
    found = blamed(record, unsorted, ordered)
    assert found is not None
    assert found.expression.line == 4


def test_names_of_types_are_each_sides_own(record):
    reference = "import numpy as np\ndef run():\n    return np.arange(9).astype(float) * 3.5\n"
    candidate = 'import numpy as np\ndef run():\n    kept = np.arange(9, dtype="int64")\n    return kept.astype("float32") * 2.5  # HERE\n'
    found = blamed(record, reference, candidate)
    assert found is not None
    assert found.expression.scalar == 2.5


def test_a_root_without_a_counterpart(record):
    sides = tracing_back.Sides(record(SUMS), record(filled("ufunc.at")))
    found = tracing_back.of_root(sides, "")
    assert found is not None
    assert found.expression.line == line_of(filled("ufunc.at"))
    assert tracing_back.of_root(sides, "nothing of this name") is None


EXPOSED = """
    import numpy as np
    def channels(view):
        grey = view.astype("float32") / 127.5 - 1.0
        edged = np.pad(grey, 1, mode="edge")
        around = np.stack([edged[i : i + 16, j : j + 32] for i in range(3) for j in range(3) if (i, j) != (1, 1)])
        return np.stack([grey, (around < grey).mean(0).astype("float32")])
    def run():
        views = np.random.RandomState(0).randint(0, 200, (9, 2, 16, 32)).astype("uint8")
        items = []
        for k, pair in enumerate(views):
            pair = pair.astype("float32")
            if k % 3 == 1:
                pair[1] = np.clip(pair[1] * 1.1 + 4.0, 0, 255)
            items.append(pair)
        return {"x": channels(items[0][1])}
"""

EXPOSED_AT_ONCE = """
    import numpy as np
    def prepared(view):
        grey = view.astype("float32") / 127.5 - 1.0
        padded = np.pad(grey, ((1, 1), (1, 1)), mode="edge")
        below = np.zeros((16, 32), "float32")
        for i in range(3):
            for j in range(3):
                below += padded[i : i + 16, j : j + 32] < grey
        return np.stack([grey, below / 8.0]).astype("float32")
    def run():
        views = np.random.RandomState(0).randint(0, 200, (9, 2, 16, 32)).astype("float32")
        views[1::3, 1] = np.minimum(views[1::3, 1] * np.float32(1.1) + 4.0, 255.0)
        left, right = views[0]
        return {"x": prepared(right)}
"""


def test_right_values_stored_in_the_wrong_rows(record):
    wrong = EXPOSED_AT_ONCE.replace("views[1::3, 1] = np.minimum(views[1::3, 1]", "views[::3, 1] = np.minimum(views[::3, 1]").replace(
        "255.0)", "255.0)  # HERE"
    )
    assert of_sample(record, EXPOSED, wrong, "x") == line_of(wrong), "a mask of what is greater than what does not vouch for the numbers"


def test_right_values_stored_in_the_right_rows(record):
    both = tracing_back.Sides(record(EXPOSED), record(EXPOSED_AT_ONCE))
    found = tracing_back.of_root(both, "x")
    assert found is None or found.expression.kind != "change"


def test_what_stores_right_values_is_sound(record):
    reference, candidate = record(EXPOSED), record(EXPOSED_AT_ONCE)
    seen = SeenApart([*reference.expressions, *candidate.expressions])
    stored = next(each for each in candidate.expressions if each.kind == "change" and each.size > 1000)
    assert own_steps.is_sound(Blamed(stored, [stored]), seen)
    read = next(each for each in candidate.expressions if each.kind == "item" and each.mark[0] == "a")
    assert not own_steps.is_sound(Blamed(read, [read]), seen), "read from what nobody saw being made"
