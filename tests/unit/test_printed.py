"""Printed lines: which are numbers, which lines of two programs belong together, what changes from run to run."""

from __future__ import annotations

import pytest

from paralign.run.printed import likeness, matched, parse, say_the_same, varying


def lines(text, wanted=""):
    return parse(text, wanted).kept


def pairs(one, other):
    return [(a and a.text, b and b.text) for a, b in matched(lines(one), lines(other))]


@pytest.mark.parametrize(
    ("text", "words", "values"),
    [
        ("class_id: 281, prob: 0.970", "class_id: #, prob: #", [281, 0.97]),
        ("resnet50 on img_01.png v1.2.3", "resnet50 on img_01.png v1.2.3", []),
        ("loss=1.5e-3, -2", "loss=#, #", [1.5e-3, -2]),
        ("[[0.1 .5]]", "[[# #]]", [0.1, 0.5]),
        ("97.3% in 12ms", "#% in 12ms", [97.3]),
        ("score: nan", "score: #", [float("nan")]),
        ("(10,20)", "(#,#)", [10, 20]),
    ],
)
def test_numbers_stand_for_themselves(text, words, values):
    (line,) = lines(text)
    assert line.words == words
    assert [str(n.value) for n in line.numbers] == [str(float(v)) for v in values]


def test_the_last_digit_is_a_numbers_unit():
    assert [n.unit for n in lines("7 0.970 1.50e-3 3e2")[0].numbers] == [0.0, 1e-3, 1e-5, 100.0]


def test_blank_lines_and_overwritten_progress_are_no_lines():
    assert [line.text for line in lines("10%\r100%\n\n  done \n")] == ["100%", "done"]


def test_only_wanted_lines_count_and_the_others_are_counted():
    found = parse("loading\nprob: 0.5\n", "prob")
    assert ([line.text for line in found.kept], found.left_out) == (["prob: 0.5"], 1)


def test_equal_words_are_paired_whatever_stands_between():
    assert pairs("using torch\nprob: 0.5\n", "W1122 warning\ngpu off\nprob: 0.6\n")[-1] == ("prob: 0.5", "prob: 0.6")


def test_lines_that_differ_in_a_word_are_paired():
    assert pairs("id: 1, name: cat, p: 0.5", "id: 1, name: dog, p: 0.5") == [("id: 1, name: cat, p: 0.5", "id: 1, name: dog, p: 0.5")]


def test_lines_that_say_other_things_have_no_counterpart():
    assert pairs("loaded weights", "no gpu was seen") == [("loaded weights", None), (None, "no gpu was seen")]
    assert likeness(lines("loaded weights")[0], lines("no gpu was seen")[0]) == 0


def test_what_changes_from_run_to_run():
    found = varying(lines("time: 0.31 s\np: 0.50000\nid: 3\n"), lines("time: 0.62 s\np: 0.50001\nid: 3\n"))
    assert found["time: # s"] == pytest.approx(0.5)
    assert found["p: #"] == pytest.approx(2e-5, rel=1e-3)
    assert "id: #" not in found


def test_a_line_of_one_run_alone_is_infinitely_far():
    assert varying(lines("a b c"), lines("")) == {"a b c": float("inf")}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("loading classifier.pth", "loading classifier.pdparams", True),
        ("weights='runs/10/best_10.pt', 3 classes", "weights='out/latest.pdparams', 3 classes", True),
        ("Loaded runs/10/best_10.pt.", "Loaded runs/10/best_10.bin.", True),
        ("best match gallery/0017.pt", "best match gallery/0018.pt", False),
        ("best match gallery/17/a.bin", "best match gallery/18/a.bin", False),
        ("best match 0017.pt", "best match 0018.pdparams", False),
    ],
)
def test_names_of_weights_are_each_sides_own_where_it_reads_them(one, other, same):
    sides = [parse(one, weights=["/a/best_10.pt"]).kept[0], parse(other, weights=["out/latest.pdparams"]).kept[0]]
    assert say_the_same(*sides) is same
    assert [n.text for n in sides[0].numbers] == [n.text for n in sides[1].numbers]
    assert [side.text for side in sides] == [one, other]


@pytest.mark.parametrize("text", ["class: cat.png", "saved to out.json", "torch.ptx", "a.pt.gz", "acc 0.5 at 3.binary"])
def test_other_names_stay_words(text):
    assert "weights" not in lines(text)[0].words
