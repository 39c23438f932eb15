"""The entry of a parameter group that sets its parameters wrongly."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.settings.group_settings import Group, of_group

__all__ = ["record"]

WORDS = ("weight_decay",)

REFERENCE = """
    import argparse
    def run():
        decay = 0.02
        groups = [
            {"params": "kernels", "lr": 0.1, "weight_decay": decay},
            {"params": "norms", "lr": 0.1, "weight_decay": 0.0},
            {"params": "spectral", "lr": 0.05, "weight_decay": decay},
        ]
        return argparse.Namespace(groups=groups)
"""

#: ways in which the second of three groups decays, and should not; the line that says so is marked
WRONG = {
    "a call over several lines": """
        import argparse
        SETTINGS = {"l2": 0.02}
        def run():
            return argparse.Namespace(
                groups=[
                    {"params": "kernels", "weight_decay": SETTINGS["l2"]},
                    {"params": "norms",
                     "weight_decay": SETTINGS["l2"]},  # HERE
                    {"params": "spectral", "weight_decay": SETTINGS["l2"]},
                ],
            )
        """,
    "a number of its own": """
        import argparse
        def run():
            groups = []
            for name, decay in [("kernels", 0.02), ("norms", 0.03), ("spectral", 0.02)]:  # HERE
                groups.append({"params": name, "weight_decay": decay})
            return argparse.Namespace(groups=groups)
        """,
    "a name that others use too": """
        import argparse
        def run():
            decay = 0.02
            groups = [{"params": "kernels", "weight_decay": decay}]
            groups += [{"params": "norms", "weight_decay": decay}]  # HERE
            groups += [{"params": "spectral", "weight_decay": decay}]
            return argparse.Namespace(groups=groups)
        """,
    "dict()": """
        import argparse
        def run():
            first = dict(params="kernels", weight_decay=0.02)
            second = dict(params="norms", weight_decay=0.02)  # HERE
            third = dict(params="spectral", weight_decay=0.02)
            return argparse.Namespace(groups=[first, second, third])
        """,
    "an entry of a table that nothing else reads, right for another thing": """
        import argparse
        SETTINGS = dict(
            l2=0.02,
            plain=0.05,  # HERE
        )
        def run():
            first = {"params": "kernels", "weight_decay": SETTINGS["l2"]}
            second = {"params": "norms", "weight_decay": SETTINGS["plain"]}
            third = {"params": "spectral", "weight_decay": SETTINGS["l2"]}
            return argparse.Namespace(groups=[first, second, third])
        """,
    "no entry": """
        import argparse
        def run():
            first = {"params": "kernels"}
            second = {"params": "norms"}  # HERE
            third = {"params": "spectral"}
            return argparse.Namespace(groups=[first, second, third], weight_decay=0.02)
        """,
    "a condition": """
        import argparse
        def run():
            groups = []
            for name in ("kernels", "norms", "spectral"):
                decays = name != "biases"  # HERE
                groups.append({"params": name, "weight_decay": 0.02 if decays else 0.0})
            return argparse.Namespace(groups=groups)
        """,
}


def _built(recorder, optimizer, roots):
    roots["model"] = -1
    roots["step:0"] = len(recorder.events) - 1
    return [[0.1, 0.1, 0.05]]


def named(record, candidate, *, group=1, count=3):
    sides = tracing_back.Sides(record(REFERENCE, _built), record(candidate, _built))
    return of_group(sides, Group(group, {group}, count, WORDS))


@pytest.mark.parametrize("way", WRONG)
def test_the_entry_of_a_wrong_group(record, way):
    found = named(record, WRONG[way])
    assert found is not None
    assert found.expression.line == line_of(WRONG[way])


def test_it_says_which_group(record):
    found = named(record, WRONG["a name that others use too"])
    assert found is not None
    assert "group number 2 of 3" in found.note
    assert "weight_decay, 0.02" in found.note
    assert "its weight_decay, 0.02" in named(record, WRONG["dict()"]).note


def test_groups_that_are_put_together_otherwise_name_nothing(record):
    assert named(record, WRONG["a number of its own"], count=4) is None
    assert named(record, "import argparse\ndef run():\n    return argparse.Namespace(groups=[])\n") is None


def test_an_entry_that_the_reference_lacks_too_names_nothing(record):
    both = WRONG["no entry"]
    sides = tracing_back.Sides(record(both, _built), record(both, _built))
    assert of_group(sides, Group(1, {1}, 3, WORDS)) is None


def test_a_number_beyond_the_groups_names_nothing(record):
    assert named(record, WRONG["dict()"], group=3) is None


@pytest.mark.parametrize(("due", "is_named"), [(1, True), (None, False), (7, False)])
def test_an_entry_that_only_the_references_group_of_the_same_parameters_has(record, due, is_named):
    """Another group has the number, so that it is missing nowhere in the program."""
    wrong = """
        import argparse
        def run():
            groups = [
                {"params": "kernels", "weight_decay": 0.02},
                {"params": "norms"},  # HERE
                {"params": "spectral", "weight_decay": 0.0},
            ]
            return argparse.Namespace(groups=groups, weight_decay=0.02)
        """
    sides = tracing_back.Sides(record(REFERENCE, _built), record(wrong, _built))
    found = of_group(sides, Group(1, {1}, 3, WORDS, due))
    assert (found is not None and found.expression.line == line_of(wrong)) is is_named
