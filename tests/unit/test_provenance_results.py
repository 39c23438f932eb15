"""Results that are parts of dicts and lists, single numbers of many, lists of few distinct numbers, arrays beyond the room for them."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record
from tests.unit.test_provenance_counterparts import of_sample

from paralign.worker.instrumentation import value_marks

__all__ = ["record"]

SUMMARY = """
    import numpy as np

    def run():
        rank = np.random.RandomState(3).rand(40)
        count = np.random.RandomState(5).rand(40) + 1
        hits = {f"hits{k}": (rank < k / 3).mean() for k in (1, 2)}
        return {"mean": (1 / (rank + 1)).mean(), **hits,
                "index": 1 - rank.sum() / count.sum()}  # HERE
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('{"mean": (1 / (rank + 1)).mean(), **hits,', "dict(mean=(1 / (rank + 1)).mean(), **hits,"),
        ('{"mean": (1 / (rank + 1)).mean(), **hits,', '{"index": 0.0, "mean": (1 / (rank + 1)).mean(), **hits,'),
    ],
    ids=["a dict that takes in another", "a call", "written twice"],
)
def test_an_entry_beside_those_of_another_dict_is_followed(record, old, new):
    wrong = SUMMARY.replace("rank.sum() / count.sum()}", "(rank / count).mean()}").replace(old, new)
    wrong = wrong.replace(".mean()}  #", ".mean())  #") if "dict(" in new else wrong
    wrong = wrong.replace('                "index":', "                index=") if "dict(" in new else wrong
    assert of_sample(record, SUMMARY, wrong, "index") == line_of(wrong)


def test_an_entry_that_another_dict_replaces_is_that_of_the_other(record):
    text = """
        import numpy as np

        def run():
            x = np.random.RandomState(3).rand(40)
            later = {"a": x.sum() * 3}  # HERE
            return {"a": x.max(), **later}
    """
    wrong = text.replace("* 3", "* 4")
    assert of_sample(record, text, wrong, "a") == line_of(wrong)


@pytest.mark.parametrize("place", ["first", "last"])
def test_an_entry_of_a_list_that_takes_in_another_is_followed(record, place):
    text = """
        import numpy as np

        def run():
            x = np.random.RandomState(3).rand(40)
            rest = [x.max(), x.min()]
            first, *middle, last = [
                x.sum() * 3,  # FIRST
                *rest,
                x.std() * 5,  # LAST
            ]
            return {"first": first, "last": last}
    """
    wrong = text.replace("* 3", "* 4").replace("* 5", "* 6")
    assert of_sample(record, text, wrong, place) == line_of(wrong, place.upper())


def test_a_number_that_is_one_of_many_of_the_reference_is_wrong_all_the_same(record):
    text = """
        import numpy as np

        def run():
            error = np.abs(np.random.RandomState(3).randn(40))
            return {
                "median": np.quantile(error, 0.5),  # HERE
                "most": error.max(),
            }
    """
    wrong = text.replace("np.quantile(error, 0.5)", "np.sort(error)[19]")
    assert of_sample(record, text, wrong, "median") == line_of(wrong)


RECALL = """
    import numpy as np

    def run():
        ranked = np.random.RandomState(3).rand(24, 6).argsort(1)
        found = np.minimum(ranked, 3) < 2
        recall = found[:, :3].sum(1) / found.sum(1)
        return {"recall": recall.mean()}
"""


def test_a_list_of_few_distinct_numbers_is_wrong_as_a_whole(record):
    wrong = """
        import numpy as np

        def run():
            ranked = np.random.RandomState(3).rand(24, 6).argsort(1)
            recall = []
            for row in ranked:
                places = np.flatnonzero(np.minimum(row, 3) < 2)
                recall.append((places <= 3).sum() / len(places))  # HERE
            return {"recall": np.mean(recall)}
    """
    assert of_sample(record, RECALL, wrong, "recall") == line_of(wrong)


def test_a_list_that_the_reference_has_as_well_is_right(record):
    wrong = """
        import numpy as np

        def run():
            ranked = np.random.RandomState(3).rand(24, 6).argsort(1)
            recall = []
            for row in ranked:
                places = np.flatnonzero(np.minimum(row, 3) < 2)
                recall.append((places < 3).sum() / len(places))
            return {"recall": np.mean(recall) * 2}  # HERE
    """
    assert of_sample(record, RECALL, wrong, "recall") == line_of(wrong)


def test_arrays_without_room_for_their_numbers_are_told_by_their_sketches(record, monkeypatch):
    monkeypatch.setattr(value_marks, "KEPT", 10)
    text = """
        import numpy as np

        def run():
            x = np.random.RandomState(3).randn(12, 30)
            mask = x > 0.25
            kept = x * mask
            return {"x": kept / np.abs(kept).max()}  # HERE
    """
    wrong = text.replace("mask = x > 0.25", "mask = ~(x <= 0.25)").replace("np.abs(kept).max()", "kept.std()")
    assert of_sample(record, text, wrong, "x") == line_of(wrong)


@pytest.mark.parametrize("settings", ["json.loads('{\"rate\": 0.7}')", "{'rate': 0.7}"])
def test_a_default_that_unknown_settings_replace_is_not_what_a_dict_holds(record, settings):
    text = f"""
        import json

        def run():
            given = {settings}
            config = {{"rate": 0.3, "power": 0.9, **given}}
            return {{"x": config["rate"] * 11}}
    """
    read = next(e for e in record(text).expressions if e.label == "Mult").values[0][1]
    assert read.scalar == 0.7


def test_a_list_that_grows_through_two_names_leads_to_its_last_change(record):
    text = """
        def run():
            class Box: pass
            box = Box()
            box.rows = rows = []
            for x in (0.1, 0.7, 0.2, 0.9):
                if x > 0.5:
                    rows += [x * 3]  # HERE
            return {"total": sum(box.rows)}
    """
    wrong = text.replace("x * 3", "x * 4")
    assert of_sample(record, text, wrong, "total") == line_of(wrong)


def test_a_lambda_in_a_list_moves_no_other_entry(record):
    text = """
        def run():
            rest = [3.5, 4.5]
            parts = [lambda x: x, 0.5, 0.7, *rest]
            return {"x": parts[1] * 11}
    """
    read = next(e for e in record(text).expressions if e.label == "Mult").values[0][1]
    assert read.scalar == 0.5
    assert read.kind == "item"
