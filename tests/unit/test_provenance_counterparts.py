"""Right operands that the reference does not take there; values out of generators."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.lines import number_lines
from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs import traced_samples
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.values.seen_values import Seen

__all__ = ["record"]


def sides(record, reference, candidate):
    return tracing_back.Sides(record(reference), record(candidate))


def line(record, reference, candidate, root=""):
    found = tracing_back.of_value(sides(record, reference, candidate), root, root)
    return found.expression.line


def of_sample(record, reference, candidate, root):
    """The line that is named for one leaf of a sample."""
    both = sides(record, reference, candidate)
    for graph in (both.reference, both.candidate):
        graph._roots[f"sample:{root}"] = graph._roots[root]
    return traced_samples.first_wrong(both, [root]).expression.line


OVERLAP = """
    import numpy as np

    def run():
        table = np.random.RandomState(3).randint(1, 90, (6, 6))
        both = table.diagonal()
        either = table.sum(0) + table.sum(1) - both
        return {"overlap": (both / either).mean()}
"""

TAKEN_APART = """
    import numpy as np

    def share(part, whole):
        return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)

    def run():
        counts = np.random.RandomState(3).randint(1, 90, (6, 6))
        hit = np.diagonal(counts)
        area = counts.sum(axis=0) + counts.sum(axis=1) - hit  # HERE
        return {"overlap": np.mean(share(hit, area))}  # USE
"""


def test_a_value_that_lacks_its_last_step_is_named_where_it_is_made(record):
    wrong = TAKEN_APART.replace(" - hit", "")
    assert line(record, OVERLAP, wrong, "overlap") == line_of(wrong)


def test_a_value_taken_in_place_of_one_that_is_there_is_named_where_it_is_taken(record):
    wrong = TAKEN_APART.replace("share(hit, area))", "share(hit, area + hit))").replace("# HERE", "")
    assert line(record, OVERLAP, wrong, "overlap") == line_of(wrong, "USE")


TURNED = """
    import numpy as np

    def turned(places, pulls, turn):
        return places @ turn.T, pulls @ turn.T

    def run():
        drawn = np.random.RandomState(0)
        places, pulls, turn = drawn.randn(9, 3), drawn.randn(9, 3), drawn.randn(3, 3)
        places, pulls = turned(places, pulls, turn)
        return {"places": places - places.mean(0), "pulls": pulls / 1.37}
"""


def test_a_step_that_a_second_value_lacks_is_named_beside_the_first_one(record):
    wrong = TURNED.replace("return places @ turn.T, pulls @ turn.T", "return places @ turn.T, pulls  # HERE")
    assert of_sample(record, TURNED, wrong, "pulls") == line_of(wrong)


def test_another_divisor_is_named_where_it_divides(record):
    wrong = TURNED.replace('"pulls": pulls / 1.37}', '"pulls": pulls / 1.73}  # HERE')
    assert of_sample(record, TURNED, wrong, "pulls") == line_of(wrong)


FITTED = """
    import numpy as np

    class Grid:
        def __init__(self, rows):
            self.levels = [np.quantile(column, np.linspace(0, 1, 20)) for column in rows.T]

        def ranks(self, rows):
            return np.stack([np.interp(c, g, np.linspace(0, 1, 20)) for c, g in zip(rows.T, self.levels)])

    def run():
        table = np.random.RandomState(1).randn(80, 3) * 3.7
        fitted = Grid(table[:60])  # HERE
        return fitted.ranks(table)
"""


def test_statistics_of_all_rows_are_named_where_these_are_handed_over(record):
    wrong = FITTED.replace("Grid(table[:60])", "Grid(table)")
    assert of_sample(record, FITTED, wrong, "") == line_of(wrong)


def test_statistics_that_are_computed_otherwise_are_named_themselves(record):
    wrong = FITTED.replace("# HERE", "").replace(
        "np.quantile(column, np.linspace(0, 1, 20)) for", "np.quantile(column, np.linspace(0, 1, 20), method='nearest') for"
    )
    wrong = wrong.replace("for column in rows.T]", "for column in rows.T]  # HERE")
    assert of_sample(record, FITTED, wrong, "") == line_of(wrong)


FRAMES = """
    import numpy as np

    def run():
        wave = np.random.RandomState(5).randn(400)
        wave = np.pad(wave, (16, 16), mode="reflect")
        frames = np.stack([wave[n : n + 32] for n in range(0, len(wave) - 31, 20)])
        return np.log((frames**2).sum(1) + 1e-3)
"""

INDEXED = """
    import numpy as np

    def run():
        wave = np.random.RandomState(5).randn(400)
        wave = np.pad(wave, 16, mode="reflect")  # HERE
        count = 1 + (len(wave) - 32) // 20
        places = np.arange(32)[None] + 20 * np.arange(count)[:, None]
        power = wave[places] ** 2  # USE
        return np.log(power.sum(axis=1) + 1e-3)
"""


def test_a_table_of_places_that_the_reference_does_without_is_not_at_fault(record):
    wrong = INDEXED.replace('np.pad(wave, 16, mode="reflect")', "np.pad(wave, (0, 32))")
    assert of_sample(record, FRAMES, wrong, "") == line_of(wrong)


def test_another_power_of_the_right_places_is_named_itself(record):
    wrong = INDEXED.replace("** 2", "** 4")
    assert of_sample(record, FRAMES, wrong, "") == line_of(wrong, "USE")


THROUGH = {
    "unpacked": """
        def scaled(n):
            return n * 0.25  # HERE
        def run():
            first, second = (scaled(n) for n in (11, 13))
            return [first, second]
        """,
    "with a rest": """
        def scaled(n):
            return n * 0.25  # HERE
        def run():
            first, *rest = [scaled(n) for n in (11, 13)]
            return [first, rest[0]]
        """,
    "zipped": """
        def scaled(n):
            return n * 0.25  # HERE
        def run():
            (first, _), (second, _) = zip([scaled(11), scaled(13)], "ab")
            return [first, second]
        """,
    "added up": """
        def scaled(n):
            return n * 0.25  # HERE
        def run():
            return [sum(scaled(n) for n in (11,)), sum([scaled(13)])]
        """,
    "a list of it": """
        def scaled(n):
            return n * 0.25  # HERE
        def run():
            return list(scaled(n) for n in (11, 13))
        """,
}


@pytest.mark.parametrize("name", THROUGH)
def test_values_are_followed_through_what_is_gone_through_once(record, name):
    right = THROUGH[name].replace("0.25", "0.125")
    for root in ("0", "1"):
        both = sides(record, right, THROUGH[name])
        roots = [graph._roots.get(root, graph._roots.get("")) for graph in (both.reference, both.candidate)]
        both.reference._roots["x"], both.candidate._roots["x"] = roots
        assert tracing_back.of_value(both, "x", "x").expression.line == line_of(THROUGH[name])


def test_too_many_values_fail_as_they_did(record):
    text = """
        import itertools

        def run():
            try:
                first, second = map(abs, itertools.count())
            except ValueError:
                return "too many"
        """
    assert record(text).root("").scalar == "too many"


DRAWN = """
    import numpy as np

    class Picture:
        def __init__(self, grey):
            self.grey = grey

    def run():
        drawn = np.random.default_rng([3, 8])
        picture = Picture(np.random.RandomState(0).randn(40))
        return drawn, picture
"""


def test_a_generator_with_a_right_seed_is_known_and_what_holds_an_array_is_not(record):
    graph, other = record(DRAWN, lambda *_: ()), record(DRAWN.replace("[3, 8]", "[3, 9]"), lambda *_: ())
    known = Seen(graph.expressions)
    made = {word: next(e for e in graph.expressions if e.label.endswith(word) and e.mark[0] == "k") for word in ("default_rng", "Picture")}
    assert not traced_samples._is_unseen(made["default_rng"], known)
    assert traced_samples._is_unseen(made["Picture"], known)
    reseeded = next(e for e in other.expressions if e.label.endswith("default_rng"))
    assert traced_samples._is_unseen(reseeded, known)


SCALED = """
    def scaled(x, by=0.25):
        return pow(x, by)  # OPERATION

    def run():
        first = scaled(3.0)
        last = scaled(7.0)  # HERE
        return [first, last]
"""


def scaled(record, right, passed):
    """The line that is named for the last power, where right ones came from some lines."""
    both = sides(record, right, SCALED)
    files = [graph.expressions[0].file for graph in (both.candidate, both.reference)]
    stacks = [tuple(f"{file}:{line_of(SCALED, mark)}" for mark in ("OPERATION", "HERE")) for file in files]
    operations = [
        SimpleNamespace(arguments={"exp": number}, source=stack[0], stack=stack, module="")
        for number, stack in zip((0.25, 0.7), stacks, strict=True)
    ]
    lines = {f"{files[0]}:{line_of(SCALED, mark)}" for mark in passed}
    return tracing_back.of_operation(both, tuple(operations), built=False, passed=lines).expression.line


def test_a_default_that_is_right_for_other_calls_is_left_out_wrongly(record):
    assert scaled(record, SCALED.replace("scaled(7.0)", "scaled(7.0, by=0.7)"), ["first ="]) == line_of(SCALED)


def test_a_default_that_is_wrong_for_all_calls_is_named_itself(record):
    assert scaled(record, SCALED.replace("by=0.25", "by=0.7"), []) == line_of(SCALED, "def scaled")


CUT = """
    import numpy as np

    def cut(x, top, left):
        return x[top : top + 9, left : left + 9]

    def run():
        drawn = np.random.default_rng([3, 8])
        x = np.random.RandomState(0).randn(40, 60)
        top = int(drawn.integers(0, 31))
        left = int(drawn.integers(0, 51))
        known = [17, 26, 9, 18, top + 9]
        return cut(x, top, left).sum(), known
"""


def test_a_number_that_was_drawn_is_compared_with_what_the_reference_draws(record):
    wrong = (
        CUT.replace("drawn.integers(0, 51)", "drawn.integers(1, 51)")
        .replace("left = int", "left = int")
        .replace(", 51))", ", 51))  # HERE")
    )
    assert of_sample(record, CUT, wrong, "0") == line_of(wrong)


TWICE = """
    import numpy as np

    class Grid:
        def __init__(self, rows):
            self.levels = [np.quantile(column, np.linspace(0, 1, 20)) for column in rows.T]

        def ranks(self, rows):
            return np.stack([np.interp(c, g, np.linspace(0, 1, 20)) for c, g in zip(rows.T, self.levels)])

    def run():
        drawn = np.random.RandomState(1)
        known, asked = drawn.randn(60, 3), drawn.randn(25, 3)
        fitted = Grid(known)
        return fitted.ranks(asked), fitted.levels[0]
"""


def test_statistics_of_the_rows_that_are_asked_for_are_named_where_they_are_taken(record):
    wrong = TWICE.replace("return fitted.ranks(asked),", "ranks = Grid(asked).ranks(asked)  # HERE\n        return ranks,")
    assert of_sample(record, TWICE, wrong, "0") == line_of(wrong)


WAVES = """
    import numpy as np

    def waves(places):
        angles = np.arange(places)[:, None] * 10.0 ** -np.arange(3)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def run():
        one = waves(5)
        across = np.broadcast_to(one[None], (5, 5, 6))
        down = np.broadcast_to(one[:, None], (5, 5, 6))
        return np.concatenate([across, down], axis=-1)  # HERE
"""


def test_parts_of_a_buffer_in_another_order_are_named_where_they_are_joined(record):
    both = sides(record, WAVES, WAVES.replace("[across, down]", "[down, across]"))
    for graph in (both.reference, both.candidate):
        graph._roots["buffer:places"] = graph._roots[""]

    class Held(SimpleNamespace):
        __hash__ = object.__hash__

    buffer = Held(maker=None, size=300, record=SimpleNamespace(role="buffer", name="places"))
    cut = Held(maker=SimpleNamespace(kind="slice", inputs=[buffer]), size=60, record=SimpleNamespace(role="output", name=""))
    taking = SimpleNamespace(inputs=[cut])
    assert number_lines._of_buffer(both, taking, taking).expression.line == line_of(WAVES)
    right = tracing_back.Sides(both.reference, both.reference)
    assert number_lines._of_buffer(right, taking, taking) is None


OPENED = """
    import io

    def run():
        return io.BytesIO("data/petal.jpg".encode()), io.StringIO("reflect")
"""


def test_how_a_path_is_put_together_does_not_accuse_what_is_opened(record):
    wrong = OPENED.replace('"data/petal.jpg"', '("data/petal" + ".jpg")').replace("reflect", "nearest")
    both = tracing_back.Sides(record(OPENED, lambda *_: ()), record(wrong, lambda *_: ()))
    opened = {e.label.rpartition(".")[2]: e for e in both.candidate.expressions if e.mark[0] == "k" and e.kind == "call"}
    search = Search(both.candidate.root("0"), None, Seen(both.reference.expressions), both.reference.expressions)
    assert not search._has_wrong_behind(opened["BytesIO"])
    assert search._has_wrong_behind(opened["StringIO"]), "this text is no part of a path"


FOUND = """
    import re
    import zlib

    import numpy as np

    def run():
        text = "poet's before the poets' end".lower()
        return {"codes": np.array([zlib.crc32(word.encode()) % 199 for word in re.findall(r"[a-z']+", text)])}
"""

COMPILED = """
    import re
    import zlib

    import numpy as np

    def run():
        word = re.compile(r"[a-z']+")  # HERE
        text = "poet's before the poets' end".lower()
        return {"codes": np.array([zlib.crc32(each.encode()) % 199 for each in word.findall(text)])}
"""


@pytest.mark.parametrize("pattern", [r"\w+", r"[a-z]+", r"[^\s']+"])
def test_another_pattern_is_named_where_it_is_compiled(record, pattern):
    wrong = COMPILED.replace("[a-z']+", pattern)
    assert of_sample(record, FOUND, wrong, "codes") == line_of(wrong)


def test_paths_are_each_sides_own_matter_and_patterns_are_not():
    def text(value):
        return SimpleNamespace(scalar=value, mark=["s", value], numbers=None)

    known = Seen([])
    assert all(known.has(text(path)) for path in ("data/a.csv", "C:\\data\\a", "..\\data", "a(1).json", "data\\x[1].npy"))
    assert not any(known.has(text(pattern)) for pattern in (r"\w+", r"^\d", r"(\d+)/(\d+)", "[a-z]+"))


def test_a_long_chain_in_another_order_is_walked_once(record, monkeypatch):
    steps = "        for step in range(300):\n            x = x + np.sin(x) / (step + 2)\n        return {'x': x}\n"
    head = "    import numpy as np\n\n    def run():\n        x = np.random.RandomState(3).normal(size=12)\n"
    wrong = head + "        x = x[::-1]  # HERE\n" + steps
    asked = []
    has_ordered = Seen.has_ordered
    monkeypatch.setattr(Seen, "has_ordered", lambda self, each: asked.append(each) or has_ordered(self, each))
    assert line(record, head + steps, wrong, "x") == line_of(wrong)
    assert 300 < len(asked) < 6000


LOWER = """
    import numpy as np

    def run():
        x = np.random.RandomState(3).normal(size=6) * 4
        middle = np.quantile(x, 0.5, method="lower")
        return {"middle": middle, "pieces": x}
"""

BETWEEN = """
    import numpy as np

    def run():
        x = np.random.RandomState(3).normal(size=6) * OFF  # ROUND
        middle = np.quantile(x, 0.5)  # HERE
        return {"middle": middle, "pieces": x}
"""


@pytest.mark.parametrize(("off", "right", "mark"), [("4.0008", ["pieces"], "HERE"), ("4.0008", [], "ROUND")])
def test_rounding_on_the_way_to_what_a_stage_found_right_is_not_followed(record, off, right, mark):
    wrong = BETWEEN.replace("OFF", off)
    found = tracing_back.of_value(sides(record, LOWER, wrong), "middle", "middle", right)
    assert found.expression.line == line_of(wrong, mark)
