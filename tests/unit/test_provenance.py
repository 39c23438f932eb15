"""Which expression made a value, and which made it wrong: plain programs of Python and numpy, without a framework."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap

import numpy as np
import pytest

from paralign.locate.provenance import blame_in_words, tracing_back
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.settings import optimizer_settings, schedule_times
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import Expression, ValueGraph, behind
from paralign.worker.instrumentation.fresh_imports import rewritten
from paralign.worker.instrumentation.observed import Recorder
from paralign.worker.provenance.recording import lines_of

RIGHT = "# right"


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Record ``run()`` of a program given as a text; further files by name; ``drive`` goes on with what it returns."""
    count = iter(range(1000))

    def act(text, drive=None, **files):
        folder = tmp_path / f"side{next(count)}"
        folder.mkdir()
        for name, content in {"program": text, **files}.items():
            suffix = ".json" if name.startswith("settings") else ".py"
            (folder / f"{name}{suffix}").write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.chdir(folder)
        for name in ["program", *files]:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        plain = importlib.import_module("program")
        recorder = Recorder()
        with rewritten({"run": plain.run}, recorder) as functions:
            result, roots = recorder.run(functions["run"], {})
            rates = drive(recorder, result, roots) if drive is not None else ()
        assert sys.modules["program"] is plain, "the session's own module is put back"
        assert drive is not None or repr(result) == repr(plain.run()), "the rewritten program means the same"
        for name in ["program", *files]:
            sys.modules.pop(name, None)
        return ValueGraph(lines_of(recorder), recorder.numbers.array(), roots, rates or ())

    return act


def line_of(text, wanted="HERE"):
    """The number of the line that bears a mark."""
    return next(n for n, line in enumerate(textwrap.dedent(text).lstrip("\n").splitlines(), 1) if wanted in line)


def blamed(record, reference, candidate, *, root="", files=((), ()), own=False):
    sides = [record(text, **dict(own)) for text, own in zip((reference, candidate), files, strict=True)]
    wrong, due = sides[1].root(root), sides[0].root(root)
    known = {"defaults": sides[0].expressions, "own": sides[1].expressions} if own else {}
    return Search(wrong, due, **known).first()


PLAIN = """
    def run():
        scale = 0.3 / 7
        return [scale * 11, scale * 13]
"""

#: what leads to 0.25 in place of 0.125 in many ways: the faulty line is marked
CHAINS = {
    "data class": """
        from dataclasses import dataclass
        @dataclass
        class Config:
            width: int = 8
            rate: float = 0.25  # HERE
        def run():
            return Config(width=9).rate * 3
        """,
    "argument of a data class": """
        from dataclasses import dataclass, replace
        @dataclass
        class Config:
            width: int = 8
            rate: float = 0.125
        def run():
            config = Config(
                7,
                rate=0.25,  # HERE
            )
            return replace(config, width=3).rate * 3
        """,
    "namespace": """
        import argparse
        opts = argparse.Namespace(
            width=0.5,
            rate=0.25,  # HERE
        )
        def run():
            return opts.rate * 3
        """,
    "object of a library": """
        from string import Template
        def run():
            made = Template(
                "0.25")  # HERE
            return float(made.template) * 3
        """,
    "option of a command line": """
        import argparse
        def run():
            parser = argparse.ArgumentParser()
            parser.add_argument("--width", type=float, default=0.5)
            group = parser.add_argument_group("training")
            group.add_argument("--base-rate", dest="rate", type=float,
                default=0.25)  # HERE
            return parser.parse_args([]).rate * 3
        """,
    "named tuple": """
        from typing import NamedTuple
        class Config(NamedTuple):
            rate: float = 0.25  # HERE
        def run():
            return Config().rate * 3
        """,
    "dict": """
        CONFIG = {
            "width": 8,
            "rate": 0.25,  # HERE
        }
        def scaled(rate, by):
            return rate * by
        def run():
            return scaled(**{**{"by": 3}, "rate": CONFIG["rate"]})
        """,
    "dict that was changed": """
        def run():
            config = dict(width=8, rate=0.125)
            config["rate"] = 0.25  # HERE
            return config.get("rate", 1) * 3
        """,
    "nested dict": """
        CONFIG = {"optimizer": {"rate": 0.25}}  # HERE
        def run():
            optimizer = CONFIG["optimizer"]
            return optimizer["rate"] * 3
        """,
    "default": """
        def scaled(by, rate=0.25):  # HERE
            return rate * by
        def run():
            return scaled(3)
        """,
    "default of a keyword": """
        def scaled(by, *, rate=0.25):  # HERE
            return by * rate
        def run():
            return scaled(3)
        """,
    "argument": """
        def inner(by, rate):
            return rate * by
        def outer(*args, **words):
            return inner(*args, **words)
        def run():
            return outer(3,
                rate=0.25)  # HERE
        """,
    "partial": """
        import functools
        def scaled(by, rate):
            return rate * by
        def run():
            made = functools.partial(scaled, rate=0.25)  # HERE
            return made(3)
        """,
    "lambda": """
        def run():
            rate = 0.25  # HERE
            scaled = lambda by: rate * by
            return scaled(3)
        """,
    "closure": """
        def make():
            rate = 0.25  # HERE
            def scaled(by):
                return rate * by
            return scaled
        def run():
            return make()(3)
        """,
    "registry": """
        RATES = {}
        def register(name, value):
            RATES[name] = value
        register("first", 0.125)
        register("second", 0.25)  # HERE
        def run():
            return RATES["second"] * 3
        """,
    "attribute set later": """
        class Layer:
            def __init__(self):
                self.rate = 0.125
            def __call__(self, by):
                return self.rate * by
        def run():
            layer = Layer()
            layer.rate = 0.25  # HERE
            return layer(3)
        """,
    "class attribute": """
        class Layer:
            rate = 0.25  # HERE
            def __call__(self, by):
                return self.rate * by
        def run():
            return Layer()(3)
        """,
    "constructor": """
        class Base:
            def __init__(self, rate):
                self.rate = rate
        class Layer(Base):
            def __init__(self, rate):
                super().__init__(rate)
        def run():
            return Layer(0.25).rate * 3  # HERE
        """,
    "table": """
        TABLE = [
            ("first", 0.125, 7),
            ("second", 0.25, 9),  # HERE
        ]
        def run():
            found = 0
            for name, rate, size in TABLE:
                if name == "second":
                    found = rate * 3
            return found
        """,
    "table that is enumerated": """
        RATES = [0.125,
            0.25]  # HERE
        def run():
            found = [rate * 3 for number, rate in enumerate(RATES) if number]
            return found[0]
        """,
    "zip": """
        def run():
            rates = (0.1875,
                0.25)  # HERE
            made = {}
            for name, rate in zip(("a", "b"), rates):
                made[name] = rate * 3
            return made["b"]
        """,
    "comprehension": """
        def run():
            rates = {
                name: number / 36  # HERE
                for name, number in (("a", 3), ("b", 9))
            }
            return rates["b"] * 3
        """,
    "computed": """
        def run():
            steps = 9
            rate = steps / 36  # HERE
            return rate * 3
        """,
    "several values returned": """
        def rates():
            return 0.125, 0.25  # HERE
        def run():
            first, second = rates()
            return second * 3
        """,
    "global": """
        RATE = 0.125
        def change():
            global RATE
            RATE = 0.25  # HERE
        def run():
            change()
            return RATE * 3
        """,
    "augmented": """
        def run():
            rate = 0.125
            rate += 1 / 8  # HERE
            return rate * 3
        """,
    "one of two": """
        def run():
            deep = True
            rate = (0.25  # HERE
                    if deep else 0.125)
            return rate * 3
        """,
    "setattr and getattr": """
        class Settings:
            pass
        def run():
            held = Settings()
            setattr(held, "rate",
                0.25)  # HERE
            return getattr(held, "rate", 0.125) * 3
        """,
    "walrus": """
        def run():
            return [(rate := 0.25), rate * 3][1]  # HERE
        """,
    "generator": """
        def rates():
            for number in (9,):
                yield number / 36  # HERE
        def run():
            return [rate * 3 for rate in rates()][0]
        """,
}

#: the reference: one eighth, from operands that the computed candidates have too
REFERENCE = """
    def run():
        parts = [9, 36, 1, 8, 3]
        rate = 1 / 8
        return rate * 3
"""


@pytest.mark.parametrize("name", CHAINS)
def test_the_line_that_made_a_value(record, name):
    found = blamed(record, REFERENCE, CHAINS[name])
    assert found is not None
    if name in ("comprehension", "computed", "generator"):
        assert found.expression.line in (line_of(CHAINS[name]), line_of(CHAINS[name]) + 1, line_of(CHAINS[name]) - 1)
    else:
        assert found.expression.line == line_of(CHAINS[name])


def test_other_modules(record):
    reference = """
        from helper import RATE
        def run():
            return RATE * 3
    """
    candidate = """
        import helper
        from helper import RATE as rate
        def run():
            return rate * helper.BY
    """
    found = blamed(record, reference, candidate, files=((("helper", "RATE = 0.125\nBY = 3\n"),), (("helper", "BY = 3\nRATE = 0.25\n"),)))
    assert found is not None
    assert found.source.endswith("helper.py:2")


def test_a_file_of_settings(record):
    program = """
        import json
        def run():
            with open("settings.json") as file:
                held = json.load(file)
            return held["rate"] * 3
    """
    found = blamed(
        record, program, program, files=((("settings", json.dumps({"rate": 0.125})),), (("settings", json.dumps({"rate": 0.25})),))
    )
    assert found is not None
    assert found.expression.line in (4, 5), "the line that reads the file, or the entry"


TABLE = """
    import numpy as np
    def rates(count, offset=0.008):
        steps = np.arange(count + 1) / count
        return np.cos((steps + offset) / (1 + offset) * np.pi / 2) ** 2
    def run():
        made = rates(23)
        return {"rate": made, "next": np.sqrt(made[1:])}
"""
BY_LOOP = """
    import math
    import numpy as np
    def rate(place, shift):
        return math.cos((place + shift) / (1 + shift) * math.pi / 2) ** 2
    def run():
        made = [rate(n / 23, 0.008) for n in range(24)]
        return {"rate": np.array(made), "next": np.sqrt(np.array(made[1:]))}
"""


def test_right_programs_have_the_same_numbers(record):
    sides = [record(text) for text in (BY_LOOP, TABLE)]
    seen = Seen(behind(sides[0].root("rate")))
    assert seen.has(sides[1].root("rate"))
    assert not seen.has(record(TABLE.replace("0.008", "0.009")).root("rate"))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("offset=0.008", "offset=0.0123", 2),
        ("(steps + offset)", "(steps - offset)", 4),
        ("(1 + offset)", "(1 + steps)", 4),
        ("np.arange(count + 1) / count", "np.arange(count + 1) / (count + 1)", 3),
        ("** 2", "** 3", 4),
        ("rates(23)", "rates(23, 0.0123)", 6),
    ],
)
def test_a_table_against_a_loop(record, old, new, line):
    found = blamed(record, BY_LOOP, TABLE.replace(old, new), root="rate")
    assert found is not None
    assert found.expression.line == line


def test_a_table_of_which_a_part_is_written_over(record):
    reference = """
        import numpy as np
        def run():
            table = np.arange(12.0) * 1.7
            table[3:] = np.sqrt(table[3:])
            return table
    """
    found = blamed(record, reference, reference.replace("np.sqrt", "np.cbrt"))
    assert found is not None
    assert found.expression.line == 4


def test_what_was_seen_counts_how_often():
    """Lists with the same distinct numbers differ where one has a number more often."""
    from paralign.locate.provenance.values.expression_counterparts import is_equal
    from paralign.locate.provenance.values.value_graph import Expression

    one, other = (Expression(0, "a.py", 1, "display", "", ["l", held], np.unique(held)) for held in ([0.0, 0.5, 0.5], [0.0, 0.0, 0.5]))
    assert is_equal(one, other) is False
    assert is_equal(one, one) is True


MEANING = """
    import contextlib
    counted = []
    class Meta(type):
        def __call__(cls, *a, **k):
            counted.append(cls.__name__)
            return super().__call__(*a, **k)
    class Thing(metaclass=Meta):
        __slots__ = ("__x", "y")
        def __init__(self, x=1, *rest, y: int = 2, **more):
            '''Not a value.'''
            self.__x, self.y = x, y
        @property
        def x(self):
            return self.__x
        @staticmethod
        def twice(v): return v * 2
    def numbers():
        got = yield 1
        yield got
    def outer():
        count = 0
        def inner():
            nonlocal count
            count += 1
            return count
        return [inner() for _ in range(3)][::2], count
    @contextlib.contextmanager
    def managed():
        yield 5
    def run():
        made = numbers(); first = next(made); second = made.send(7)
        with managed() as five, managed():
            pass
        try:
            [].pop()
        except IndexError as error:
            said = f"{error!s:>20}{five:03d}"
        a, (b, *c), d = 1, (2, 3, 4), {**{"k": 1}, "l": 2}
        held = {n: [i for i in range(n) if i % 2] for n in (1, 4)}
        x = [1, 2, 3]; x[0] += 5; x[1:] = [9]
        assert a < b <= 3 and not d.get("z"), "order"
        del a
        total = 0
        while True:
            total += 1
            if total > 3: break
        else:
            total = -1
        return (first, second, said, b, c, d, held, x, Thing(3, 4, y=5, z=6).x, Thing.twice(4), outer(), total, counted[0],
                (lambda q, *r, s=3: (q, r, s))(1, 2), sorted(x, key=lambda v: -v), any(v > 2 for v in x), 1 if x else 2, -x[0], x[-1],
                "a" "b", 3 + 4j, b"c", ..., None, [*x, *c], {*c}, print.__name__, max(*x, 4), dict(a=1, **d))
"""


def test_rewritten_code_means_the_same(record):
    """The fixture compares what the program returns, rewritten and not."""
    assert record(MEANING).expressions


def test_what_is_not_followed_is_told(tmp_path, monkeypatch):
    """There are bounds: then nothing more is recorded, and the program still runs to its end."""
    from paralign.worker.instrumentation import events

    monkeypatch.setattr(events, "EVENTS", 5)
    (tmp_path / "bounded.py").write_text("def run():\n    return [n * 3 for n in range(50)]\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    plain = importlib.import_module("bounded")
    recorder = Recorder()
    with rewritten({"run": plain.run}, recorder) as functions:
        result, _ = recorder.run(functions["run"], {})
    assert result == plain.run()
    assert recorder.exhausted
    assert len(recorder.events) <= 5
    sys.modules.pop("bounded", None)


#: what stands for a framework's optimizer and schedule: classes that are not the user's
BUILT = """
    import argparse
    def schedule(peak, warmup=4, total=12, lowest=0.0004):
        def factor(step):
            if step < warmup:
                return 0.1 + 0.9 * step / warmup
            phase = (step - warmup) / (total - warmup)
            left = 1 - phase
            return (lowest + (peak - lowest) * left ** 1.5) / peak
        return argparse.Namespace(learning_rate=peak, step=factor)
    def run():
        settings = {"epsilon": 1e-7, "beta2": 0.99}
        rate = schedule(0.004)
        return argparse.Namespace(learning_rate=rate, **settings)
"""
INLINE = """
    import argparse
    def run():
        peak = 0.004
        lowest = 0.1
        def rate(step):
            if step < 4:
                return 0.1 + 0.9 * step / 4
            return lowest + (1 - lowest) * (1 - (step - 4) / 8) ** 1.5
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=peak, step=rate), beta2=0.99, epsilon=1e-7)
"""


def _stepped(recorder, optimizer, roots):
    """Advance a schedule as the task does: the recorder is told before each step; the schedule calls the user's function itself."""
    roots["model"] = -1
    roots["optimizer"] = recorder.made_by(optimizer)
    roots["scheduler"] = recorder.made_by(optimizer.learning_rate)
    rates = []
    for number in range(12):
        rates.append([optimizer.learning_rate.learning_rate * optimizer.learning_rate.step(number)])
        roots[f"step:{number}"] = len(recorder.events) - 1
    return rates


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("(total - warmup)", "total", 6),
        ("left ** 1.5", "left ** 1.25", 8),
        ("total=12", "total=11", 2),
        ("step / warmup", "step / 5", 5),
    ],
)
def test_the_rates_of_a_schedule(record, old, new, line):
    sides = tracing_back.Sides(record(INLINE, _stepped), record(BUILT.replace(old, new), _stepped))
    found = optimizer_settings.of_rates(sides)
    assert found is not None
    assert found.expression.line == line


RAMP = """
    import argparse
    def ramp(step, warmup):
        if step < warmup:
            return (step + 1) / warmup
        return 1.0
    def run():
        held = argparse.Namespace(warmup=7)
        def rate(step):
            return ramp(step, held.warmup)
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=0.05, step=rate))
"""
RAMP_INLINE = """
    import argparse
    def run():
        def rate(step):
            if step < 7:
                return (step + 1) / 7
            return 1.0
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=0.05, step=rate))
"""


def _in_groups(*factors):
    """As ``_stepped``, for groups whose rates are these times the schedule's."""

    def stepped(recorder, optimizer, roots):
        return [[factor * rate for factor in factors] for (rate,) in _stepped(recorder, optimizer, roots)]

    return stepped


@pytest.mark.parametrize("groups", [((1.0,), (1.0,)), ((1.0, 1.0, 2.0), (2.0, 1.0)), ((1.0, 0.5), (1.0, 0.5))])
@pytest.mark.parametrize("new", ["step / warmup", "(step + 2) / warmup"])
def test_a_ramp_that_begins_at_another_step_is_named_in_its_helper(record, groups, new):
    drives = [_in_groups(*factors) for factors in groups]
    wrong = RAMP.replace("(step + 1) / warmup", new)
    found = optimizer_settings.of_rates(tracing_back.Sides(record(RAMP_INLINE, drives[0]), record(wrong, drives[1])))
    assert found is not None
    assert found.expression.line == 4
    right = tracing_back.Sides(record(RAMP_INLINE, drives[0]), record(RAMP, drives[1]))
    assert optimizer_settings.of_rates(right) is None


COUNTING = """
    import argparse
    class Rate:
        def __init__(self, width, factor, warmup):
            self.peak = factor / (width * warmup) ** 0.5
            self.warmup = warmup
            self.learning_rate = 1.0
        def step(self, number):
            self.last = number
            return self.get()
        def get(self):
            n = self.last + 1
            if n < self.warmup:
                return self.peak * n / self.warmup
            return self.peak * (self.warmup / n) ** 0.5
    def run():
        return argparse.Namespace(learning_rate=Rate(40, 0.5, 4))
"""
COUNTING_INLINE = """
    import argparse
    def factor(width, scale, warmup):
        def of(step):
            return scale * width ** -0.5 * min((step + 1) ** -0.5, (step + 1) * warmup ** -1.5)
        return of
    def run():
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=1.0, step=factor(40, 0.5, 4)))
"""


@pytest.mark.parametrize(("new", "line"), [("n = self.last", 13), ("n = self.last + 2", 11), ("n = int(self.last)", 11)])
def test_a_schedule_that_counts_from_another_step(record, new, line):
    wrong = COUNTING.replace("n = self.last + 1", new)
    found = schedule_times.of_counting(tracing_back.Sides(record(COUNTING_INLINE, _stepped), record(wrong, _stepped)))
    assert found is not None
    assert found.expression.line == line
    right = tracing_back.Sides(record(COUNTING_INLINE, _stepped), record(COUNTING, _stepped))
    assert schedule_times.of_counting(right) is None


@pytest.mark.parametrize("groups", [(1.0, 1.0), (1.0, 1.0, 1.0)])
def test_a_schedule_that_is_late_for_groups_that_the_other_side_has_not(record, groups):
    wrong = COUNTING.replace("n = self.last + 1", "n = self.last + 2")
    found = schedule_times.of_counting(tracing_back.Sides(record(COUNTING_INLINE, _in_groups(*groups)), record(wrong, _stepped)))
    assert found is not None
    assert found.expression.line == 11
    other = tracing_back.Sides(record(COUNTING_INLINE, _in_groups(1.0, 0.5)), record(wrong, _stepped))
    assert schedule_times.of_counting(other) is None, "rates that one side lacks are no matter of time"


@pytest.mark.parametrize("new", ["step / warmup", "(step + 2) / warmup"])
def test_a_step_that_is_handed_in_is_counted_where_it_is_used(record, new):
    wrong = RAMP.replace("(step + 1) / warmup", new)
    found = schedule_times.of_counting(tracing_back.Sides(record(RAMP_INLINE, _stepped), record(wrong, _stepped)))
    assert found is None or found.expression.line == 4


STAIRS = """
    import argparse
    class Rate:
        def __init__(self):
            self.learning_rate = 1.0
        def step(self, number):
            self.last = number
            return self.get()
        def get(self):
            if self.last < 2:
                return 0.05 * (self.last + 1) / 2
            passed = sum(1 for m in [5, 8] if self.last >= m)
            return 0.05 * 0.3 ** passed
    def run():
        return argparse.Namespace(learning_rate=Rate())
"""
STAIRS_INLINE = """
    import argparse
    from bisect import bisect_right
    def rate(step):
        if step < 2:
            return (step + 1) / 2
        return 0.3 ** bisect_right([5, 8], step)
    def run():
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=0.05, step=rate))
"""


def test_a_small_number_in_place_of_another_is_named_where_it_is_made(record):
    wrong = STAIRS.replace("self.last >= m", "self.last > m")
    found = optimizer_settings.of_rates(tracing_back.Sides(record(STAIRS_INLINE, _stepped), record(wrong, _stepped)))
    assert found is not None
    assert found.expression.line == 11
    right = tracing_back.Sides(record(STAIRS_INLINE, _stepped), record(STAIRS, _stepped))
    assert optimizer_settings.of_rates(right) is None


WAVES = """
    import argparse, math
    class Rate:
        def __init__(self):
            self.learning_rate = 1.0
        def step(self, n):
            if n < 2:
                return 0.002 * (n + 1) / 2
            cycle = (n - 2) // 4
            at = (n - 2) % 4
            wave = 0.5 + 0.5 * math.cos(math.pi * at / 4)
            return 0.002 * 0.7 ** cycle * (0.05 + 0.95 * wave)
    def run():
        return argparse.Namespace(learning_rate=Rate())
"""
WAVES_INLINE = """
    import argparse, math
    def rate(step):
        if step < 2:
            return (step + 1) / 2
        cycle, at = divmod(step - 2, 4)
        return 0.7 ** cycle * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * at / 4)))
    def run():
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=0.002, step=rate))
"""


def test_a_small_number_behind_others_of_its_line(record):
    wrong = WAVES.replace("cycle = (n - 2) // 4", "cycle = n // 4")
    found = optimizer_settings.of_rates(tracing_back.Sides(record(WAVES_INLINE, _stepped), record(wrong, _stepped)))
    assert found is not None
    assert found.expression.line == 8
    right = tracing_back.Sides(record(WAVES_INLINE, _stepped), record(WAVES, _stepped))
    assert optimizer_settings.of_rates(right) is None


def test_a_setting_that_the_construction_leaves_out(record):
    left_out = BUILT.replace(', "beta2": 0.99', "")
    sides = tracing_back.Sides(record(INLINE, _stepped), record(left_out, _stepped))
    found = optimizer_settings.of_setting(sides, ("beta2", "betas"))
    assert found is not None
    assert found.expression.line == 13
    in_groups = left_out.replace("run():", "run(groups=({'beta2': 0.99},)):")
    sides = tracing_back.Sides(record(INLINE, _stepped), record(in_groups, _stepped))
    assert optimizer_settings.of_setting(sides, ("beta2", "betas")) is None, "it may be given with a group"


def test_right_rates_name_nothing(record):
    sides = tracing_back.Sides(record(INLINE, _stepped), record(BUILT, _stepped))
    assert optimizer_settings.of_rates(sides) is None


def test_a_setting_of_an_optimizer(record):
    sides = tracing_back.Sides(record(INLINE, _stepped), record(BUILT.replace("1e-7", "1e-5"), _stepped))
    found = optimizer_settings.of_setting(sides, ("eps", "epsilon"))
    assert found is not None
    assert found.expression.line == 11
    assert blame_in_words.said(found).startswith("the value comes from here: 1e-05; the reference has 1e-07")
    assert optimizer_settings.of_setting(sides, ("momentum",)) is None, "the call does not give it"


def test_one_number_in_place_of_another(record):
    program = """
        import argparse
        class Both:
            def __init__(self):
                self.first = argparse.Namespace(milestones=[6, 11], gamma=0.3)
                self.second = argparse.Namespace(rate=0.002)
        def run():
            return Both()
    """

    def marked(_, result, roots):
        roots["model"] = -1

    right = record(program, marked)
    for old, new, line in (("11]", "12]", 4), ("0.002", "0.02", 5)):
        found = optimizer_settings.of_building(tracing_back.Sides(right, record(program.replace(old, new), marked)))
        assert found is not None
        assert found.expression.line == line
    several = record(program.replace("11]", "12]").replace("0.002", "0.02"), marked)
    assert optimizer_settings.of_building(tracing_back.Sides(right, several)) is None
    assert optimizer_settings.of_building(tracing_back.Sides(right, record(program.replace("gamma=0.3", ""), marked))) is None


PASS = """
    import numpy as np
    def made(width, shift=0.125):
        return np.arange(width) / width + shift
    def run(x=np.array([3.25, 4.5, 7.125, 9.0625])):
        table = made(4)
        return (x * table).sum()
"""


def _passed(recorder, result, roots):
    """Inputs come from outside: what is computed of them is not of numbers alone."""


@pytest.mark.parametrize(("old", "new", "line"), [("shift=0.125", "shift=0.3", 2), ("made(4)", "made(4, 0.3)", 5), ("/ width", "/ 7", 3)])
def test_numbers_that_a_line_computes_with(record, old, new, line):
    program = PASS.replace("def run(x=np.array([3.25, 4.5, 7.125, 9.0625]))", "def run(x=np.random.RandomState(0).randn(4))")
    reference = program.replace("np.arange(width) / width + shift", "np.array([n / width + shift for n in range(width)])")
    sides = tracing_back.Sides(record(reference), record(program.replace(old, new)))
    source = next(e.source for e in sides.candidate.expressions if e.label == "Mult")
    found = tracing_back.of_lines(sides, [source])
    assert found is not None
    assert found.expression.line == line
    assert tracing_back.of_lines(tracing_back.Sides(sides.reference, record(program)), [source]) is None


def test_a_default_that_is_right_for_others(record):
    """Another call takes the same default rightly: the call that leaves the argument out is at fault, not the default."""
    program = """
        def scaled(by, rate=0.125):
            return rate * by
        def run():
            first = scaled(3)
            return scaled(7, 0.25)
    """
    found = []
    for own in (program.replace("scaled(7, 0.25)", "scaled(7)"), program.replace("0.25", "0.5").replace("0.125", "0.125")):
        sides = record(program), record(own)
        found.append(Search(sides[1].root(""), sides[0].root(""), defaults=sides[0].expressions).first())
    assert [each.expression.line for each in found] == [5, 5]


def test_arguments_are_compared_as_calls_mean_them():
    """A stride of 1 along both axes is a stride of 1; truth values and what only one side has are no settings."""
    own = {"stride": [1, 1], "epsilon": 1e-5, "is_test": True, "groups": 2, "momentum": 0.97}
    assert tracing_back.differing_values(own, {"stride": 1, "eps": 1e-3, "is_test": False, "momentum": 0.03}) == [(1e-5, 1e-3)]


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(6, 8)", None),
        ("np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)", 5),
        ("np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(6, 8)", 5),
    ],
)
def test_numbers_in_another_order(record, table, line):
    """The parts are right, and so is every number; how they are put together is not."""
    reference = """
        import numpy as np
        def made():
            angle = np.arange(6)[:, None] * np.exp(np.arange(4) * -0.7)
            found = np.zeros((6, 8))
            found[:, 0::2] = np.sin(angle)
            found[:, 1::2] = np.cos(angle)
            return found
        def run():
            return np.random.RandomState(0).randn(6, 8) * made()
    """
    candidate = """
        import numpy as np
        def made():
            angle = np.arange(6)[:, None] * np.exp(np.arange(4) * -0.7)
            return TABLE
        def run():
            return np.random.RandomState(0).randn(6, 8) * made()
    """.replace("TABLE", table).replace("            return np.", "            \n            return np.", 1)
    sides = tracing_back.Sides(record(reference), record(candidate))
    source = next(e.source for e in sides.candidate.expressions if e.label == "Mult" and e.mark[0] == "a" and e.mark[1] == [6, 8])
    found = tracing_back.of_lines(sides, [source])
    assert (found and found.expression.line) == line


def test_how_low_a_mask_is_does_not_matter(record):
    program = """
        import numpy as np
        def run():
            scores = np.random.RandomState(0).randn(6)
            return np.where(scores > 0, scores, -1e30)
    """
    sides = tracing_back.Sides(record(program.replace("-1e30", "-1e9")), record(program))
    source = next(e.source for e in sides.candidate.expressions if e.label == "np.where")
    assert tracing_back.of_lines(sides, [source]) is None
    other = tracing_back.Sides(sides.reference, record(program.replace("-1e30", "-3.5")))
    found = tracing_back.of_lines(other, [next(e.source for e in other.candidate.expressions if e.label == "np.where")])
    assert found is not None
    assert found.expression.scalar == -3.5


#: groups whose rates are the schedule's times a factor; the reference gives rates, the candidate factors
GROUPS_REFERENCE = """
    import argparse
    def run():
        rate, lookups, heads = 0.004, 0.008, 0.001
        return argparse.Namespace(groups=[{"lr": lookups}, {"lr": rate}, {"lr": heads}], rates=[lookups, rate, heads])
"""
GROUPS = """
    import argparse
    def groups(rate, factor, head):
        return [
            {"params": "lookups", "learning_rate": factor},
            {"params": "rest"},
            {"params": "heads", "learning_rate": head},
        ]
    def run():
        rate = 0.004
        made = groups(rate, 2.0, 0.25)
        return argparse.Namespace(groups=made, rates=[rate * group.get("learning_rate", 1.0) for group in made])
"""


def _grouped(recorder, optimizer, roots):
    roots["model"] = -1
    roots["step:0"] = len(recorder.events) - 1
    return [[rate * part for rate in optimizer.rates] for part in (0.1, 0.5, 1.0)]


def test_a_factor_that_stands_in_every_program(record):
    """A group whose rate is twice another's: any count of two would do, so no line is named for it."""

    def doubled(recorder, optimizer, roots):
        _grouped(recorder, optimizer, roots)
        return [[0.008 * part, 0.004 * part, 0.016 * part] for part in (0.1, 0.5, 1.0)]

    sides = tracing_back.Sides(record(GROUPS_REFERENCE, _grouped), record(GROUPS, doubled))
    assert optimizer_settings.of_factor(sides) is None


def test_numbers_beyond_any_float_are_no_numbers(record):
    graph = record("def run():\n    large = 10 ** 400\n    return [large, 0.5]\n")
    assert [e.numbers for e in graph.expressions if e.mark == ["s", 10**400]] == [None]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"lookups", "learning_rate": factor}', '"lookups", "learning_rate": factor * rate}', 4),
        ("2.0, 0.25)", "3.0, 0.25)", 10),
        ("rate = 0.004", "rate = 0.005", None),
        ("2.0, 0.25)", "3.0, 0.125)", None),
        ("rate = 0.004", "rate = 0.004", None),
    ],
)
def test_the_factor_of_a_group(record, old, new, line):
    """A rate in place of a factor, another factor; not: a wrong rate of all groups, two wrong groups, a right optimizer."""
    assert old in GROUPS
    sides = tracing_back.Sides(record(GROUPS_REFERENCE, _grouped), record(GROUPS.replace(old, new), _grouped))
    found = optimizer_settings.of_factor(sides)
    assert (found and found.expression.line) == line


@pytest.mark.parametrize(("later", "line"), [(0.7, 4), (None, 4)])
def test_the_factor_of_a_group_whose_schedule_goes_on_otherwise_past_its_end(record, later, line):
    """One schedule begins anew after its last step, the other stays: that says nothing of a group's factor."""
    old, new = '"lookups", "learning_rate": factor}', '"lookups", "learning_rate": factor * rate}'
    reference, candidate = record(GROUPS_REFERENCE, _grouped), record(GROUPS.replace(old, new), _grouped)
    if later is not None:
        candidate.rates.append([rate * later for rate in candidate.rates[-1]])
        reference.rates.append(list(reference.rates[-1]))
    found = optimizer_settings.of_factor(tracing_back.Sides(reference, candidate))
    assert found.expression.line == line


ROWS = """
    import numpy as np
    DATA = ["31 11 41 15 59 92 65 35", "27 18 28 12 84", "16 10 33 98 87 49 89"]
    KEEP = 5
    class Frame:
        def __init__(self):
            self.rows = np.zeros((len(DATA), KEEP), dtype="int64")
            for row, text in enumerate(DATA):
                past = [int(part) for part in text.split()][-KEEP:]
                self.rows[row, : len(past)] = past
        def read(self, index):
            return self.rows[index]
    def run():
        return Frame().read(0)
"""


LAZY = """
    import numpy as np
    DATA = ["31 11 41 15 59 92 65 35", "27 18 28 12 84"]
    KEEP = 5
    def run():
        return np.array([int(part) for part in DATA[0].split()[-KEEP:]])
"""


def test_rows_that_were_filled_one_after_the_other(record):
    """The row that is read leads to what was put there, and not to the array that all rows are in; a wrong part to where it is cut."""
    wrong = ROWS.replace("[-KEEP:]", "[:KEEP]")
    assert blamed(record, LAZY, wrong).expression.line == line_of(wrong, "[:KEEP]")
    assert blamed(record, LAZY, ROWS.replace("read(0)", "read(1)")).expression.scalar == "27 18 28 12 84", "that row's own text"


SCHEDULED = """
    import argparse
    def plan(peak, warm, first):
        return argparse.Namespace(base=peak, warmup=warm, start=first * peak)
    SETTINGS = dict(
        peak=0.004,
        warm=10,
        first=0.2,
    )
    def run():
        return plan(**SETTINGS)
"""


def test_a_zero_that_the_reference_has_nowhere(record):
    """Zero and one stand in every program; where all else that goes in is right, one that the reference was not given is at fault."""
    wrong = SCHEDULED.replace("first=0.2", "first=0.0")
    sides = [record(text, lambda recorder, made, roots: roots.update(made=recorder.made_by(made))) for text in (SCHEDULED, wrong)]
    found = Search(sides[1].root("made"), sides[0].root("made")).first()
    assert found.expression.line == line_of(wrong, "first=0.0")
    right = Search(record(SCHEDULED).root(""), sides[0].root("made")).first()
    assert right is None or right.expression.numbers is None, "nothing of a right one is blamed for a number"


SCALED_HEADS = """
    class Attention:
        def __init__(self, width, heads):
            self.heads = heads
            self.scale = (width // heads) ** -0.5
    def run():
        return Attention(16, 4).scale * 3.0
"""


def test_a_right_number_that_is_taken_wrongly(record):
    """Both sides write the width; what computes with it in place of a head's width is at fault, not where the width is written."""
    wrong = SCALED_HEADS.replace("(width // heads) ** -0.5", "width**-0.5")
    reference = SCALED_HEADS.replace("def __init__(self, width, heads):", "def __init__(self, heads, width, *more):").replace(
        "Attention(16, 4)", "Attention(4, 16, 1)"
    )
    sides = tracing_back.Sides(record(reference), record(wrong))
    found = tracing_back.of_value(sides, "", "")
    assert found.expression.line == line_of(wrong, "width**-0.5")


@pytest.mark.parametrize("right", [True, False])
def test_what_was_made_of_a_value_may_be_longer_than_the_stack(right):
    """A network's prediction is thousands of expressions; whether the last of them is right excuses the first."""
    chain = [Expression(0, "net.py", 1, "operation", "Add", ["o", "Tensor"], None)]
    for number in range(1, 4 * sys.getrecursionlimit()):
        chain.append(Expression(number, "net.py", 1, "operation", "Add", ["o", "Tensor"], None, [("left", chain[-1])]))
        chain[-2].users.append(chain[-1])
    many = np.linspace(0.1, 0.9, 64)
    end = Expression(len(chain), "net.py", 2, "call", "np.array", ["a", [64], [1.0, 2.0], [0, 64]], many, [("0", chain[-1])])
    chain[-1].users.append(end)
    due = Expression(0, "ref.py", 1, "call", "np.array", ["a", [64], [1.0, 2.0], [0, 64]], many if right else many + 0.05)
    root = Expression(len(chain) + 1, "net.py", 3, "display", "Dict", ["o", "dict"], None, [("0", end)])
    end.users.append(root)
    search = Search(root, None, Seen([due]), [due])
    assert search.is_excused(chain[0]) is right
    assert search.is_excused(chain[1]) is right


REGISTRY = "ENTRIES = {}\n\ndef register(made):\n    ENTRIES[made.__name__] = made\n    return made\n"


@pytest.mark.parametrize("regular", [False, True])
def test_modules_that_register_themselves_are_imported_anew(tmp_path, monkeypatch, regular):
    """Also in a folder without ``__init__.py``: the package stays, and holds its modules as attributes."""
    name = f"registering_{regular}".lower()
    folder = tmp_path / name
    folder.mkdir()
    files = {"registry": REGISTRY, "parts": "from .registry import register\n\n@register\ndef part():\n    return 3 * 7\n"}
    files["main"] = "from . import parts\nfrom .registry import ENTRIES\n\ndef run():\n    return ENTRIES['part']()\n"
    for each, text in {**files, **({"__init__": ""} if regular else {})}.items():
        (folder / f"{each}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    plain = importlib.import_module(f"{name}.main")
    package, held = sys.modules[name], {part: sys.modules[f"{name}.{part}"] for part in files}
    recorder = Recorder()
    with rewritten({"run": plain.run}, recorder) as functions:
        result, _ = recorder.run(functions["run"], {})
        assert sys.modules[f"{name}.parts"] is not held["parts"]
    assert result == plain.run() == 21
    assert any(event for event in recorder.events)
    assert all(getattr(package, part) is held[part] is sys.modules[f"{name}.{part}"] for part in files)
    for each in [word for word in sys.modules if word.partition(".")[0] == name]:
        sys.modules.pop(each)
