"""Values that come through containers, objects, operators and functions that a library calls."""

from __future__ import annotations

import textwrap

import pytest
from tests.unit.test_provenance import blamed, line_of, record

__all__ = ["record"]

REFERENCE = """
    import numpy as np
    def run():
        rank = 1 + np.random.RandomState(3).randint(0, 3, 12)
        own = np.random.RandomState(4).rand(12)
        return {"first": float((1 / rank).mean()), "second": float(np.sqrt((own ** 2).mean()))}
"""

HEAD = """
    import dataclasses, functools, itertools, math
    from collections import OrderedDict, defaultdict, namedtuple
    import numpy as np
    def parts():
        return 1 + np.random.RandomState(3).randint(0, 3, 12), np.random.RandomState(4).rand(12)
    def sharp(own):
        return np.sqrt(np.mean(own ** 2))
"""

#: ways that a wrong value goes from where it is made to where it is returned: the wrong line is marked
WAYS = {
    "setdefault": """
        def run():
            rank, own = parts()
            found = {}
            found.setdefault("first", 1 / np.mean(rank))  # HERE
            found.setdefault("second", sharp(own))
            return {key: float(found[key]) for key in ("first", "second")}
    """,
    "zip of a map": """
        def run():
            rank, own = parts()
            values = []
            values.append(1 / np.mean(rank))  # HERE
            values.append(sharp(own))
            return dict(zip(("first", "second"), map(float, values)))
    """,
    "extend": """
        def run():
            rank, own = parts()
            values = []
            values.extend([float(1 / np.mean(rank)),  # HERE
                           float(sharp(own))])
            return dict(zip(("first", "second"), values))
    """,
    "insert": """
        def run():
            rank, own = parts()
            values = [float(sharp(own))]
            values.insert(0, float(1 / np.mean(rank)))  # HERE
            return {name: value for name, value in zip(("first", "second"), values)}
    """,
    "lists of a default dict": """
        def run():
            rank, own = parts()
            kept = defaultdict(list)
            for r, o in zip(rank, own):
                kept["first"].append(1 / (r + 1))  # HERE
                kept["second"].append(o ** 2)
            found = {key: float(np.mean(values)) for key, values in kept.items()}
            return {**found, "second": math.sqrt(found["second"])}
    """,
    "asdict": """
        @dataclasses.dataclass
        class Scores:
            first: float = 0.0
            second: float = 0.0
        def run():
            rank, own = parts()
            scores = Scores(second=float(sharp(own)))
            scores.first = float(1 / np.mean(rank))  # HERE
            return dataclasses.asdict(scores)
    """,
    "vars": """
        class Scores:
            pass
        def run():
            rank, own = parts()
            scores = Scores()
            scores.first = float(1 / np.mean(rank))  # HERE
            scores.second = float(sharp(own))
            return vars(scores)
    """,
    "fields as a dict": """
        class Scores:
            def __init__(self, rank, own):
                self.first = float(1 / np.mean(rank))  # HERE
                self.second = float(sharp(own))
        def run():
            return dict(Scores(*parts()).__dict__)
    """,
    "a named tuple as a dict": """
        Scores = namedtuple("Scores", "first second")
        def run():
            rank, own = parts()
            first = float(1 / np.mean(rank))  # HERE
            return Scores(first, float(sharp(own)))._asdict()
    """,
    "dicts put together": """
        def one(rank):
            return dict(first=float(1 / np.mean(rank)))  # HERE
        def two(own):
            return dict(second=float(sharp(own)))
        def run():
            rank, own = parts()
            found = one(rank)
            found |= {}
            return found | two(own)
    """,
    "lists put together": """
        def run():
            rank, own = parts()
            values = [1 / np.mean(rank)] + [sharp(own)]  # HERE
            values += ["beside"]
            first, second = values[:2]
            return OrderedDict(first=float(first), second=float(second))
    """,
    "a copy that is sorted": """
        def run():
            rank, own = parts()
            found = {"second": float(sharp(own)), "first": float(1 / np.mean(rank))}  # HERE
            return dict(sorted(found.items()))
    """,
    "a property": """
        class Scores:
            def __init__(self, rank, own):
                self.rank, self.own = rank, own
            @property
            def first(self):
                return float(1 / np.mean(self.rank))  # HERE
            @property
            def second(self):
                return float(sharp(self.own))
        def run():
            scores = Scores(*parts())
            return {"first": scores.first, "second": scores.second}
    """,
    "an operator of a class": """
        class Scores:
            def __init__(self, rank, own):
                self.held = {"first": rank, "second": own}
            def __getitem__(self, name):
                return {"first": lambda rank: 1 / np.mean(rank), "second": sharp}[name](self.held[name])  # HERE
            def __matmul__(self, name):
                return float(self[name])
        def run():
            scores = Scores(*parts())
            return {"first": scores @ "first", "second": scores @ "second"}
    """,
    "a function that map calls": """
        def reciprocal(r):
            return 1 / (r + 1)  # HERE
        def run():
            rank, own = parts()
            return {"first": math.fsum(map(reciprocal, rank.tolist())) / len(rank), "second": float(sharp(own))}
    """,
    "a function that starmap calls": """
        def share(r, n):
            return 1 / (r + 1) / n  # HERE
        def run():
            rank, own = parts()
            pairs = [(r, len(rank)) for r in rank.tolist()]
            return {"first": sum(itertools.starmap(share, pairs)), "second": float(sharp(own))}
    """,
    "the rows of an array": """
        def run():
            rank, own = parts()
            table = np.stack([1 / (rank + 1), own ** 2], axis=1)  # HERE
            first, second = table.mean(0)
            return {"first": float(first), "second": math.sqrt(second)}
    """,
    "a setting that map hands on": """
        CONFIG = {
            "power": 3,  # HERE
        }
        def run():
            rank, own = parts()
            values = [np.mean(1 / rank), np.sqrt((own ** CONFIG["power"]).mean())]
            return dict(zip(("first", "second"), map(float, values)))
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_followed_to_where_it_is_made(record, way):
    wrong = textwrap.dedent(HEAD) + textwrap.dedent(WAYS[way])
    root = "second" if "setting" in way else "first"
    assert blamed(record, REFERENCE, wrong, root=root, own=True).expression.line == line_of(wrong)


def test_the_helper_that_is_right_elsewhere_is_not_at_fault(record):
    reference = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(9)
            return {"spread": float(values.var()), "error": float(np.sqrt(values.var(ddof=1) / 9))}
    """
    candidate = """
        import math
        import numpy as np
        class Moments:
            def __init__(self, values):
                self.values = values
            def spread(self, ddof=0):
                return sum((v - self.values.mean()) ** 2 for v in self.values) / (len(self.values) - ddof)
            def error(self):
                return math.sqrt(self.spread() / len(self.values))  # HERE
        def run():
            moments = Moments(np.random.RandomState(3).rand(9))
            return {"spread": float(moments.spread()), "error": moments.error()}
    """
    from paralign.locate.provenance import tracing_back

    sides = tracing_back.Sides(record(reference), record(candidate))
    assert tracing_back.of_value(sides, "error", "error", ["spread"]).expression.line == line_of(candidate)


def test_classes_of_containers_are_not_gone_through(record):
    """What a class of the user's own does when it is gone through is part of the program."""
    text = """
        class Loud(dict):
            asked = 0
            def items(self):
                Loud.asked += 1
                return super().items()
            def __len__(self):
                Loud.asked += 1
                return super().__len__()
        def run():
            held = Loud(first=0.3 / 7)
            copied = Loud(held) | {}
            return {"": copied["first"] * 3, "asked": Loud.asked}
    """
    assert record(text).expressions  # and the fixture compares the result with that of the program as it is


def test_what_is_looked_at_stays_as_it_was(record):
    """Dicts that fill themselves, and classes whose methods fail, are not asked."""
    text = """
        from collections import defaultdict
        class Proud(dict):
            def items(self):
                raise RuntimeError("nobody goes through this")
            def __getitem__(self, key):
                raise RuntimeError("nobody reads this")
        def run():
            kept = defaultdict(list)
            kept["first"] = [0.3 / 7]
            del kept["first"]
            kept |= {"second": [0.5 / 7]}
            proud = Proud(first=0.3 / 7)
            proud |= {"second": 0.7 / 9}
            return {"": 3 * 0.3 / 7, "keys": sorted(kept), "proud": len(proud)}
    """
    assert record(text).expressions  # and the fixture compares the result with that of the program as it is


def test_a_number_that_is_read_twice_is_wrong_where_it_is_taken_wrongly(record):
    reference = """
        import json
        import numpy as np
        def run():
            settings = json.loads('{"decay": 0.37, "rate": 0.11}')
            values = np.random.RandomState(3).rand(9)
            return {"first": float((values * settings["decay"]).sum()), "second": float((values * settings["rate"]).sum())}
    """
    candidate = """
        import json
        import numpy as np
        def run():
            settings = json.loads('{"decay": 0.37, "rate": 0.11}')
            values = np.random.RandomState(3).rand(9)
            first = float((values * settings["decay"]).sum())
            second = float((values * settings["decay"]).sum())  # HERE
            return {"first": first, "second": second}
    """
    assert blamed(record, reference, candidate, root="second", own=True).expression.line == line_of(candidate)


def test_keys_of_a_sort_are_no_elements_of_what_is_sorted(record):
    reference = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(9)
            return {"": float(np.sort(values * 3.7)[0])}
    """
    candidate = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(9) * 3.1  # HERE
            return {"": sorted(map(float, values), key=lambda v: -v)[-1]}
    """
    assert blamed(record, reference, candidate, own=True).expression.line == line_of(candidate)


def test_a_copy_of_a_window_has_what_is_in_it(record):
    reference = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(5)
            return {"": float(values[2]), "last": float(values[4] / 7)}
    """
    candidate = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(5)
            window = [float(values[0]), float(values[1]), float(values[2])]
            window.pop(0)
            window.append(float(values[4] / 9))  # HERE
            held = tuple(window)
            return {"": held[1], "last": held[2]}
    """
    assert blamed(record, reference, candidate, root="last", own=True).expression.line == line_of(candidate)


def test_a_wrong_helper_that_is_right_for_some_values_is_named(record):
    reference = """
        import numpy as np
        def run():
            values = np.random.RandomState(3).rand(9)
            return {"first": float((values.mean() + 0.1) * 0.3), "second": float((values.std() - 1.7) * 0.3)}
    """
    candidate = """
        import numpy as np
        def scaled(value):
            return abs(value) * 0.3  # HERE
        def run():
            values = np.random.RandomState(3).rand(9)
            first = scaled(values.mean() + 0.1)
            second = scaled(values.std() - 1.7)
            return {"first": float(first), "second": float(second)}
    """
    assert blamed(record, reference, candidate, root="second", own=True).expression.line == line_of(candidate)


def test_what_only_says_that_it_is_a_dict_is_left_alone(record):
    text = """
        import weakref
        from collections import OrderedDict
        from unittest.mock import MagicMock
        def run():
            held = OrderedDict(first=1.5 / 7)
            proxy = weakref.proxy(held)
            mock = MagicMock(spec=dict)
            both = {**held} | dict(held)
            return {"": both["first"] * 3, "said": [isinstance(each, dict) for each in (proxy or None, mock or None)]}
    """
    assert record(text).expressions  # and the fixture compares the result with that of the program as it is
