"""Lists of texts in another order than the reference's: where they are put into it."""

from __future__ import annotations

from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs.text_orders import first_disordered, first_of_other_texts

__all__ = ["record"]

REFERENCE = """
    from collections import Counter
    TEXT = "the fox saw a hen and the hen saw an owl by the old gate in a far and dim field"

    def run():
        counts = Counter(TEXT.split())
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return len(ranked)
"""

CANDIDATE = """
    TEXT = "the fox saw a hen and the hen saw an owl by the old gate in a far and dim field"

    def run():
        counts = {}
        for word in TEXT.split():
            counts[word] = counts.get(word, 0) + 1
        pairs = list(counts.items())
        ranked = sorted(pairs, key=lambda item: (-item[1], item[0]))
        table = {word: place for place, (word, _) in enumerate(ranked)}
        return len(table)
"""


def named(record, candidate):
    return first_disordered(tracing_back.Sides(record(REFERENCE), record(candidate)))


def test_an_order_without_its_second_rule_is_named(record):
    wrong = CANDIDATE.replace("        pairs = list(counts.items())\n", "")
    wrong = wrong.replace("pairs, key=lambda item: (-item[1], item[0]))", "counts.items(), key=lambda item: -item[1])  # HERE")
    assert named(record, wrong).expression.line == line_of(wrong)


def test_an_order_that_is_put_right_later_is_not(record):
    assert named(record, CANDIDATE) is None


def test_other_texts_and_few_texts_tell_nothing(record):
    other = CANDIDATE.replace("a far and dim field", "a far and old field").replace("(-item[1], item[0])", "-item[1]")
    assert named(record, other) is None
    few = "def run():\n    return sorted(['b', 'a', 'c'], reverse=True)\n"
    assert first_disordered(tracing_back.Sides(record("def run():\n    return ['a', 'b', 'c']\n"), record(few))) is None


def test_an_order_that_the_reference_makes_in_place_is_not_judged(record):
    kept = "[f'w{n * 37 % 101}' for n in range(101)]"
    in_place = f"def run():\n    kept = {kept}\n    kept.sort()\n    return len(kept)\n"
    handed_on = f"def run():\n    return len(sorted({kept}))\n"
    assert first_disordered(tracing_back.Sides(record(in_place), record(handed_on))) is None


WORDS = """
    TEXT = "the fox saw a hen and the hen saw an owl by the old gate in a far and dim field"

    def shorten(words, limit=9):
        tail = limit // 4
        return words[: limit - tail] + words[-tail:]

    def run():
        return shorten(TEXT.split())
"""

SHORTENED = """
    import re
    TEXT = "the fox saw a hen and the hen saw an owl by the old gate in a far and dim field"
    LIMIT = 9

    def run():
        words = re.findall("[a-z]+", TEXT)
        if len(words) > LIMIT:
            back = LIMIT // 4
            words = words[: LIMIT - back] + words[len(words) - back :]
        return words
"""


def named_of_texts(record, candidate):
    return first_of_other_texts(tracing_back.Sides(record(WORDS), record(candidate)))


def test_a_list_of_other_texts_is_named_where_it_is_made_of_right_ones(record):
    wrong = SHORTENED.replace("words[: LIMIT - back] + words[len(words) - back :]", "words[:LIMIT]  # HERE")
    assert named_of_texts(record, wrong).expression.line == line_of(wrong)
    wrong = SHORTENED.replace('re.findall("[a-z]+", TEXT)', 're.findall("[a-z]{2,}", TEXT)  # HERE')
    assert named_of_texts(record, wrong).expression.line == line_of(wrong)


def test_right_lists_of_texts_are_not_named(record):
    assert named_of_texts(record, SHORTENED) is None
