"""Which of several operands a wrong value is followed to: selections of rows, texts behind numbers, axes that mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.test_provenance import line_of, record

from paralign.comparison.laws import Family, Law
from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs import initial_values, traced_samples
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.settings import schedule_times
from paralign.locate.provenance.values.seen_values import Seen, SeenApart
from paralign.locate.provenance.values.value_graph import Expression

__all__ = ["record"]


def sides(record, reference, candidate):
    return tracing_back.Sides(record(reference), record(candidate))


def line(sides, root=""):
    return tracing_back.of_value(sides, root, root).expression.line


ROWS = """
    import numpy as np

    def run():
        table = np.random.RandomState(0).randn(60, 3)
        train = table[:48]
        fitted = train * 1.0
        centred = fitted - 0.125
        return {"mean": float(centred.mean()), "deviation": float(centred.std())}
"""


@pytest.mark.parametrize("cut", ["table[:54]", "table[6:54]", "table[:36]"])
def test_statistics_of_other_rows_lead_to_where_the_rows_are_taken(record, cut):
    wrong = ROWS.replace("table[:48]", f"{cut}  # HERE")
    found = sides(record, ROWS, wrong)
    assert [line(found, root) for root in ("mean", "deviation")] == [line_of(wrong)] * 2


def test_a_reduction_of_the_right_rows_is_at_fault_itself(record):
    wrong = ROWS.replace("        return {", "        deviation = centred.std(ddof=1)  # HERE\n        return {")
    wrong = wrong.replace("float(centred.std())", "float(deviation)")
    assert line(sides(record, ROWS, wrong), "deviation") == line_of(wrong)


HANDED = """
    import json
    import numpy as np

    def read():
        state = np.random.RandomState(2)
        told = json.dumps([{"split": "train" if k % 3 else "val", "parts": list(state.randn(4))} for k in range(24)])
        return json.loads(told)

    def traits(values):
        return np.array([sum(v * v for v in values), values[0], values[1] + values[2]])

    class Scaler:
        def __init__(self, sites):
            rows = np.stack([traits(site["parts"]) for site in sites])
            self.centre = rows.mean(0)

    def run():
        everything = read()
        scaler = Scaler([site for site in everything if site["split"] == "train"])
        return float((scaler.centre * 3.0).sum())
"""

#: a reference that reads only what it takes: the other rows are nowhere in it
READING = HANDED.replace("in range(24)]", "in range(24) if k % 3 or state.randn(4) is None]").replace(
    ' if site["split"] == "train"])', "])"
)


@pytest.mark.parametrize("reference", [HANDED, READING], ids=["reads all", "reads its own"])
@pytest.mark.parametrize("given", ["everything", '[site for site in everything if site["split"]]'])
def test_rows_made_one_by_one_lead_to_the_call_that_gives_them(record, reference, given):
    wrong = HANDED.replace('Scaler([site for site in everything if site["split"] == "train"])', f"Scaler({given})  # HERE")
    assert line(sides(record, reference, wrong)) == line_of(wrong)


def test_a_wrong_row_is_followed_to_what_made_it_wrong(record):
    wrong = HANDED.replace("values[1] + values[2]])", "values[1] - values[2]])  # HERE")
    assert line(sides(record, HANDED, wrong)) == line_of(wrong)


STACKED = """
    import numpy as np

    def scale(x):
        return (x - 3.7) / 1.9

    def run():
        x = np.random.RandomState(1).randn(16)
        sample = {"x": scale(x), "seen": (x > 0) * 1.0}
        return np.stack([sample["x"], sample["seen"]], axis=-1)
"""


def test_an_axis_counted_from_the_other_end_does_not_hide_a_wrong_array(record):
    wrong = STACKED.replace("axis=-1", "axis=1").replace("(x - 3.7) / 1.9", "(x - 3.7) / 1.8  # HERE")
    found = sides(record, STACKED, wrong)
    reference, candidate = found.reference.root(""), found.candidate.root("")
    found.reference._roots["sample:"], found.candidate._roots["sample:"] = reference.number, candidate.number
    assert traced_samples.first_wrong(found, [""]).expression.line == line_of(wrong)


DEEP = """
    import math

    KINDS = ["ssd", "attention", "ssd"]

    def run():
        return 48 ** -0.5 / math.sqrt(2 * len(KINDS))
"""

KINDS_READ = """
    import math

    CONFIG = {"model": {"mixers": "ssd attention ssd", "dim": 48}}

    def run():
        held = {name: dict(part.items()) for name, part in CONFIG.items()}
        kinds = held["model"]["mixers"].split()
        return held["model"]["dim"] ** -0.5 / math.sqrt(len(kinds))  # HERE
"""


def normal(std):
    return Law(Family.NORMAL, mean=0.0, std=std, scale=std, low=-4 * std, high=4 * std, error=0.001)


def test_a_count_of_texts_does_not_lead_to_a_text(record):
    laws = normal(48**-0.5 / 6**0.5), normal(48**-0.5 / 3**0.5)
    assert initial_values.of_laws(sides(record, DEEP, KINDS_READ), laws).expression.line == line_of(KINDS_READ)


def test_the_number_of_a_law_that_is_right_elsewhere_is_not_blamed(record):
    program = "def run():\n    bound = 48 ** -0.5\n    return [bound, bound]\n"
    found = sides(record, "def run():\n    return 0.3\n", program)
    laws = normal(0.25), normal(48**-0.5)
    assert initial_values.of_laws(found, laws).expression.line == 2
    assert initial_values.of_laws(found, laws, [normal(48**-0.5)]) is None


HANDED_A_GAIN = """
    import numpy as np

    def dense(cin, cout, gain=1.0):
        std = gain * (2.0 / (cin + cout)) ** 0.5
        return np.random.RandomState(0).randn(cin, cout) * std

    def block(width, gain):
        inner = dense(width, 3 * width)
        return inner, dense(width, width, gain=gain)

    def run():
        depth = 2
        blocks = [block(32, depth ** -0.5) for _ in range(depth)]  # HERE
        return [dense(8, 50), dense(50, 9), blocks]
"""


def test_what_a_helper_is_given_is_blamed_where_its_formula_is_right_for_other_layers(record):
    found = sides(record, "def run():\n    depth = 2\n    return (2 * depth) ** -0.5\n", HANDED_A_GAIN)
    right = [normal((2.0 / 58) ** 0.5), normal((2.0 / 59) ** 0.5), normal((2.0 / 128) ** 0.5)]
    here = [each.source for each in found.candidate.expressions if each.word == "dense" and each.line == 9]
    laws = normal((2.0 / 64) ** 0.5 / 2), normal((2.0 / 64) ** 0.5 * 2**-0.5)
    assert initial_values.of_laws(found, laws, right, here).expression.line == line_of(HANDED_A_GAIN)
    assert initial_values.of_laws(found, laws, right[2:], here) is None  # at one right law nothing varies


BY_STEP = """
    class Steps:
        def __init__(self, milestones, factor):
            self.milestones, self.factor = milestones, factor

    class Warm:
        def __init__(self, after, steps):
            self.after, self.steps = after, steps

    def run():
        after = Steps(
            milestones=[9, 15],  # HERE
            factor=0.1)
        return Warm(after, steps=3)
"""


def with_rates(changes, high=(0.1, 0.2, 0.3, 0.4, 0.04, 0.004)):
    """What ``drive`` of a recording gives: rates that change at some steps, twenty in all."""
    starts = (0, 1, 2, 3, *changes)
    return lambda *_: [[next(rate for begin, rate in zip(starts[::-1], high[::-1], strict=True) if begin <= step)] for step in range(20)]


def timed(record, changes, due=(9, 15), high=(0.1, 0.2, 0.3, 0.4, 0.04, 0.004)):
    graphs = [record(BY_STEP, with_rates(due)), record(BY_STEP, with_rates(changes, high))]
    for graph in graphs:
        graph._roots["model"] = -1
    return schedule_times.of_times(tracing_back.Sides(*graphs))


def test_right_rates_at_other_steps_lead_to_the_argument_that_says_when(record):
    assert timed(record, (12, 18)).expression.line == line_of(BY_STEP), "the milestones count from behind the warm-up"


def test_rates_that_differ_or_move_without_an_argument_name_nothing(record):
    assert timed(record, (9, 15)) is None
    assert timed(record, (12, 18), high=(0.1, 0.2, 0.3, 0.5, 0.04, 0.004)) is None
    assert timed(record, (7, 18)) is None


TAKEN = BY_STEP.replace("milestones=[9, 15],  # HERE", "drops,").replace(
    "after = Steps(", "drops = [9, 15]\n        after = Steps(  # HERE"
)


def test_a_list_of_steps_that_is_the_references_is_right_and_taken_wrongly(record):
    graphs = [record(TAKEN, with_rates((9, 15))), record(TAKEN, with_rates((12, 18)))]
    for graph in graphs:
        graph._roots["model"] = -1
    found = schedule_times.of_times(tracing_back.Sides(*graphs))
    assert found.expression.line == line_of(TAKEN)


def test_an_equal_shape_is_no_list_of_steps(record):
    shaped = BY_STEP.replace("def run():", "def run():\n        import numpy as np\n        size = np.zeros((12, 18)).shape")
    wrong = TAKEN.replace("[9, 15]", "[12, 18]")
    graphs = [record(shaped, with_rates((9, 15))), record(wrong, with_rates((12, 18)))]
    for graph in graphs:
        graph._roots["model"] = -1
        graph._roots.update({f"step:{step}": len(graph.expressions) - 1 for step in range(20)})
    found = schedule_times.of_times(tracing_back.Sides(*graphs))
    assert found.expression.mark[1] == [12, 18]


@pytest.mark.parametrize(
    ("one", "other", "alike"), [([0.1 + 0.2, 0.3, 0.1], [0.3, 0.1], True), ([0.3, 0.2], [0.3], False), ([0.3], [0.3], True)]
)
def test_rates_of_other_groups_are_told_apart_as_the_stages_do(one, other, alike):
    assert schedule_times._alike(one, other) is alike


def test_steps_of_changes_at_the_right_time_are_right(record):
    graphs = [record(BY_STEP.replace("9, 15", "9"), with_rates((12,))), record(BY_STEP.replace("9, 15", "12"), with_rates((15,)))]
    for graph in graphs:
        graph._roots["model"] = -1
    assert schedule_times.of_times(tracing_back.Sides(*graphs)).expression.scalar is None
    assert schedule_times.of_times(tracing_back.Sides(*graphs)).expression.mark[1] == [12]


AVERAGE = """
    import numpy as np

    def run():
        r = np.arange(1, 1500) * 0.0002
        x = np.concatenate([2 + r, 2 - r])
        kept = np.zeros(1)
        return (kept * 0.9 + x.mean() * 0.1) * 1.0
"""


def test_a_tensor_of_one_number_is_not_met_among_the_elements_of_large_ones(record):
    wrong = AVERAGE.replace("return (kept * 0.9 + x.mean() * 0.1) * 1.0", "return (kept * 0.1 + x.mean() * 0.9) * 1.0  # HERE")
    graphs = sides(record, AVERAGE, wrong)
    root = graphs.candidate.root("")
    seen = SeenApart(graphs.reference.expressions)
    assert Seen(graphs.reference.expressions).has(root), "it has a neighbour by chance"
    assert seen.has(root) is False
    found = Search(root, graphs.reference.root(""), seen, graphs.reference.expressions).first()
    assert found.expression.line == line_of(wrong)


def test_a_path_is_no_object_of_unknown_contents(record):
    program = """
        from pathlib import Path
        class Image:
            def __repr__(self):
                return "image"
        def run():
            return [Path("data").resolve() / "train", Image()]
        """
    graph = record(program)
    made = [next(e for e in graph.expressions if e.label.endswith(label) and e.mark[0] == "k") for label in ("resolve", "Image")]
    assert [traced_samples._is_unseen(each, Seen(graph.expressions)) for each in made] == [False, True]


@pytest.mark.parametrize(
    ("argument", "value", "due"),
    [
        ("padding", [0, 2], "program.py:1"),
        ("stride", [1, 2], None),
        ("padding", [1, 2], None),
        ("betas", [0, 2], None),
        ("dilation", [1, 3], "program.py:3"),
        ("padding", 2, None),
    ],
)
def test_an_argument_along_one_axis_is_known_by_its_name(argument, value, due):
    made = [Expression(n, "program.py", n, "constant", "", ["s", number], None) for n, number in enumerate((2, 2, 5, 3))]
    for each in made:
        each.numbers = np.array([float(each.scalar)])
    call = Expression(9, "program.py", 9, "call", "Conv1D", ["k", "Conv1D"], None)
    call.inputs = [("kernel_size", made[0]), ("padding", made[1]), ("stride", made[2]), ("dilation", made[3])]
    found = tracing_back._along_one_axis([call], argument, value)
    assert (found and found.source) == due
