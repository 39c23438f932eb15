"""Data that are no pictures: rows of time, token numbers, texts, boxes, frames; what is found by kind, and what is not said of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from paralign import Side, check
from paralign.locate.data import sample_kinds
from paralign.model import ALIGNED, DIVERGED
from paralign.worker.datasets.facts import decoders

SERIES = np.random.RandomState(0).randn(200, 7).cumsum(axis=0)


class Data:
    def __init__(self, sample, length=12):
        self.sample, self.length = sample, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.sample(index)


def compared(reference, candidate):
    sides = [Side(framework="numpy", functions={"build_dataset": lambda _, f=f: Data(f)}) for f in (reference, candidate)]
    return check(*sides, stages=["data"])["data"]


def window(index, start=0, scale=1.0, order=slice(None)):
    rows = SERIES[index * 3 + start : index * 3 + start + 24, order]
    return {
        "history": (rows / np.linspace(1, 3, 7) * scale).astype("float32"),
        "future": SERIES[index * 3 + 24 : index * 3 + 30].astype("float32"),
    }


def tokens(index, pad=0, left=False, more=0, bos=True, length=16, eos=3):
    words = 10 + np.random.RandomState(index).randint(0, 90, 5 + index % 4) + more
    words = np.concatenate([[1] if bos else [], words, [eos]])[:length].astype("int64")
    fill = np.full(max(0, length - len(words)), pad, "int64")
    return {"ids": np.concatenate([fill, words] if left else [words, fill]), "text": f"sentence {index}"}


def boxes(index, act=lambda b: b):
    random = np.random.RandomState(index)
    corner = random.rand(3 + index % 3, 2) * 50 + 5
    made = np.concatenate([corner, corner + random.rand(len(corner), 2) * 40 + 1], axis=1).astype("float32")
    return {"image": np.full((3, 8, 8), index, "float32"), "target": {"boxes": act(made), "labels": np.arange(len(made)) % 4}}


def special(index, more=False):
    return {"ids": np.concatenate([np.random.RandomState(index).randint(5, 90, 6 + index), [2] if more else []]).astype("int64")}


@pytest.mark.parametrize(
    ("reference", "candidate", "rule", "told"),
    [
        (window, lambda i: window(i, start=2), "data/window", "history: the window begins 2 steps later"),
        (
            lambda i: SERIES[i : i + 24],
            lambda i: SERIES[i : i + 24][:, [0, 2, 1, 3, 4, 5, 6]].copy(),
            "data/columns",
            "the reference's 0, 2, 1, 3",
        ),
        (
            window,
            lambda i: window(i, scale=np.linspace(1, 1.5, 7)),
            "data/scaler",
            "history: the columns are scaled with other constants: column 6",
        ),
        (
            tokens,
            lambda i: tokens(i, left=True),
            "data/padding",
            "ids: the tokens agree, the padding does not: at the end in the reference",
        ),
        (tokens, lambda i: tokens(i, pad=99), "data/padding", "with 0 in the reference, with 99 in the candidate"),
        (special, lambda i: special(i, more=True), "data/special-token", "ids: the candidate has the token 2 at the end"),
        (
            boxes,
            lambda i: boxes(i, sample_kinds._corner_size),
            "data/box-form",
            "two corners in the reference, a corner and the size in the",
        ),
        (
            boxes,
            lambda i: boxes(i, sample_kinds._centre_size),
            "data/box-form",
            "two corners in the reference, the centre and the size in the",
        ),
        (boxes, lambda i: boxes(i, lambda b: b[:, [1, 0, 3, 2]]), "data/box-axes", "target.boxes: x and y of the boxes are exchanged"),
        (boxes, lambda i: boxes(i, lambda b: b / 100), "data/box-unit", "shares of the picture in the candidate"),
        (boxes, lambda i: boxes(i, lambda b: b[::-1].copy()), "data/box-order", "the same boxes in another order"),
        (boxes, lambda i: boxes(i, lambda b: b[1:]), "data/boxes-left-out", "the candidate leaves out"),
    ],
)
def test_what_is_wrong_is_found_by_kind(reference, candidate, rule, told):
    assert compared(reference, reference).verdict == ALIGNED
    stage = compared(reference, candidate)
    assert stage.verdict == DIVERGED
    causes = [f.cause for f in stage.findings]
    assert stage.findings[0].rule == rule, causes
    assert told in causes[0]
    assert not any(word in text for text in [*causes, *stage.notes] for word in ("RGB", "OpenCV", "resized"))


def pair(reference, candidate, count=3):
    return [(np.asarray(reference(i)), np.asarray(candidate(i))) for i in range(count)]


@pytest.mark.parametrize(
    ("reference", "candidate", "rule"),
    [
        (lambda i: SERIES[i : i + 20], lambda i: SERIES[i + 1 : i + 21], "data/window"),
        (lambda i: SERIES[i : i + 20], lambda i: SERIES[i : i + 20][:, [1, 0, 2, 3, 4, 5, 6]], "data/columns"),
        (lambda i: SERIES[i : i + 20], lambda i: SERIES[i : i + 20] * np.arange(1, 8) + 2, "data/scaler"),
        (lambda i: tokens(i)["ids"], lambda i: tokens(i, more=1, eos=4)["ids"] + (tokens(i)["ids"] == 1), "data/token-offset"),
        (lambda i: np.arange(20) + i, lambda i: np.arange(12) + i, "data/truncation"),
        (lambda i: SERIES[i : i + 20], lambda i: SERIES[i : i + 24], "data/length"),
        (lambda i: SERIES[i + 4 : i + 24], lambda i: SERIES[i : i + 24], "data/length"),
        (lambda i: SERIES[i : i + 20, 0], lambda i: SERIES[i : i + 16, 0], "data/length"),
        (lambda i: SERIES[i : i + 20, 0], lambda i: np.pad(SERIES[i : i + 20, 0], (0, 4)), "data/padding"),
        (lambda i: SERIES[i : i + 20], lambda i: np.pad(SERIES[i : i + 20], ((4, 0), (0, 0))), "data/padding"),
    ],
)
def test_a_rule_that_holds_in_several_samples_is_proven(reference, candidate, rule):
    finding = sample_kinds.explain("x", pair(reference, candidate))
    assert (finding.rule, finding.proven) == (rule, True)
    assert sample_kinds.explain("x", pair(reference, candidate, 1)).proven is False


@pytest.mark.parametrize(("shift", "told"), [(0, False), (2, True)])
def test_columns_that_are_not_shifted_are_not_told_to_be(shift, told):
    found = sample_kinds.explain("x", pair(lambda i: SERIES[i : i + 20], lambda i: SERIES[i : i + 20] * np.arange(1, 8) + shift))
    assert (" plus " in found.cause) is told
    assert "the reference's times 7" in found.cause


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(np.zeros((0, 4)), np.zeros((2, 4)))],
        [(np.zeros(0, int), np.zeros(3, int))],
        [(np.random.RandomState(0).randn(20, 7), np.random.RandomState(1).randn(20, 7))],
        [(np.random.RandomState(0).randint(0, 99, 20), np.random.RandomState(1).randint(0, 99, 20))],
        [(np.full((5, 4), np.nan), np.ones((5, 4)))],
        [(np.array("a"), np.array("b"))],
    ],
    ids=["none", "no boxes", "no tokens", "series", "tokens", "nan", "text"],
)
def test_what_no_rule_explains_is_left_alone(pairs):
    assert sample_kinds.explain("x", pairs) is None or sample_kinds.explain("x", pairs).rule == "data/boxes-left-out"


# -- videos ------------------------------------------------------------------------------------------------------------------------


def video(index, wrong=()):
    frames = np.random.RandomState(index).rand(8, 3, 6, 6).astype("float32")
    for frame in wrong:
        frames[frame] += 0.1
    return frames, index % 2


def test_the_first_frame_that_differs_is_named_with_the_decoders():
    stage = compared(video, lambda i: video(i, wrong=(5, 6)))
    assert stage.verdict == DIVERGED
    told = next(note for note in stage.notes if "frame 5 is the first that differs, 2 frames do" in note)
    assert "in the reference" in told


def test_frames_that_begin_later_are_a_window():
    finding = sample_kinds.explain("", pair(lambda i: video(i)[0], lambda i: np.roll(video(i)[0], -1, 0)))
    assert finding.rule == "data/window"


def test_decoders_are_those_that_were_imported(monkeypatch):
    for name in ("decord", "av", "cv2", "torchcodec", "torchvision.io.video", "imageio_ffmpeg", "moviepy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert decoders() == []
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(__version__="4.9"))
    assert decoders() == ["OpenCV 4.9"]
    monkeypatch.setitem(sys.modules, "decord", SimpleNamespace(__version__="0.6"))
    assert decoders() == ["decord 0.6"]


# -- masks, frames, parts of samples -----------------------------------------------------------------------------------------------


def encoded(index, *, pad=0, mask=lambda m: m, left=False, lower=True):
    """Token numbers and their mask; about half of the samples are padded."""
    random = np.random.RandomState(index)
    words = random.randint(10, 60, random.randint(4, 20))[:12] + (0 if lower else 60)
    rest = 12 - len(words)
    ids, ones = np.pad(words, (0, rest), constant_values=pad), np.pad(np.ones(len(words), "int64"), (0, rest))
    if left:
        ids, ones = np.roll(ids, rest), np.roll(ones, rest)
    return {"ids": ids.astype("int64"), "mask": mask(ones)}


@pytest.mark.parametrize(
    ("changes", "rule", "told"),
    [
        ({"mask": np.ones_like}, "data/mask-constant", "mask: the candidate's mask is 1 everywhere, the reference's is not"),
        ({"mask": lambda m: 1 - m}, "data/mask-inverted", "mask: a mask the other way round"),
        ({"pad": 1}, "data/padding", "ids: the tokens agree, the padding does not: with 0 in the reference, with 1 in the candidate"),
        ({"left": True}, "data/padding", "at the end in the reference, at the start in the candidate"),
    ],
)
def test_a_cause_that_few_kept_samples_suggest_is_tried_on_others(changes, rule, told):
    assert compared(encoded, encoded).verdict == ALIGNED
    stage = compared(encoded, lambda i: encoded(i, **changes))
    assert (stage.verdict, stage.findings[0].rule, stage.findings[0].proven) == (DIVERGED, rule, True), stage.findings
    assert told in stage.findings[0].cause


@pytest.mark.parametrize(
    "changes",
    [{"mask": lambda m: np.where(np.arange(12) == 11, 0, m)}, {"mask": lambda m: np.where(np.arange(12) % 3 == 0, 2, m)}, {"lower": False}],
    ids=["last one", "twos", "capitals"],
)
def test_equal_masks_make_no_sample_another_one(changes):
    stage = compared(encoded, lambda i: encoded(i, **changes))
    assert stage.verdict == DIVERGED
    assert not [f for f in stage.findings if f.rule in ("data/order", "data/window", "data/mask-constant")], stage.findings


def test_samples_in_another_order_are_still_told():
    order = np.random.RandomState(4).permutation(12)
    stage = compared(encoded, lambda i: encoded(int(order[i])))
    assert ("data/order", True) in [(f.rule, f.proven) for f in stage.findings], stage.findings


def clip(index, stride=4, turn=slice(None), twice=False, later=0):
    film = np.random.RandomState(index).rand(44, 3, 6, 6).astype("float32")
    places = (later + np.arange(8) * stride)[turn]
    places[-1] = places[-2] if twice else places[-1]
    return film[places], index % 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stride": 2}, "frames 2, 4, 6 are the reference's 1, 2, 3"),
        ({"turn": slice(None, None, -1)}, "frames 0, 1, 2, 3, 4, 5, … are the reference's 7, 6, 5, 4, 3, 2, …"),
        ({"twice": True}, "frames 7 are the reference's 6"),
    ],
)
def test_other_frames_of_a_film_are_told(changes, told):
    finding = sample_kinds.explain("", pair(lambda i: clip(i)[0], lambda i: clip(i, **changes)[0]))
    assert (finding.rule, finding.proven) == ("data/frames", True)
    assert told in finding.cause
    stage = compared(clip, lambda i: clip(i, **changes))
    assert any(f.proven and (told in f.cause or "in reverse order" in f.cause) for f in stage.findings), stage.findings


@pytest.mark.parametrize(
    ("reference", "candidate", "told"),
    [
        (SERIES[:20], SERIES[:24], "the series begin at the same step and have other lengths: 20 steps against the candidate's 24"),
        (SERIES[4:24], SERIES[:24], "the series end at the same step and have other lengths: 20 steps against the candidate's 24"),
        (SERIES[:20], SERIES[2:24], "the window begins 2 steps later than the reference's, and has 22 steps against the reference's 20"),
        (SERIES[:20], np.pad(SERIES[:20], ((0, 3), (0, 0))), "padded with 0 on one side: 20 steps against the candidate's 23"),
    ],
)  # fmt: skip
def test_lengths_are_no_beginnings(reference, candidate, told):
    found = sample_kinds.explain("x", [(reference, candidate)] * 2)
    assert told in found.cause


@pytest.mark.parametrize("constant", [np.ones((20, 7)), np.zeros((20, 7))])
def test_constant_series_are_said_nothing_of(constant):
    assert sample_kinds.explain("x", [(constant, constant[:12])] * 2) is None


FILM = np.random.RandomState(5).rand(16, 24, 20, 3)


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize(("layout", "axis"), [((0, 1, 2, 3), 3), ((0, 3, 1, 2), 1), ((3, 0, 1, 2), 0)])
@pytest.mark.parametrize("count", [16, 5])
def test_exchanged_channels_of_a_clip_are_no_other_frames(order, layout, axis, count):
    ends = [FILM[:count].transpose(layout), FILM[:count][..., list(order)].transpose(layout)]
    finding = sample_kinds.explain("clip", [tuple(ends)] * 2)
    assert finding.rule == "data/channels"
    assert f"the channels (axis {axis}) are in another order" in finding.cause
    stage = compared(lambda i: ends[0] + i, lambda i: ends[1] + i)
    assert stage.findings[0].rule == "data/channels", stage.findings
    assert not any("other frames" in f.cause for f in stage.findings)


@pytest.mark.parametrize("layout", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 0, 1, 2)])
def test_frames_of_any_layout_are_frames(layout):
    def told(frames):
        return sample_kinds.explain("clip", [(FILM[:8].transpose(layout), FILM[frames].transpose(layout))] * 2)

    assert told(slice(7, None, -1)).rule == "data/frames"
    assert told(slice(1, 9)).cause == "clip: the window begins 1 steps later than the reference's"
    assert told(slice(0, 12)).rule == "data/length"
    changed = FILM[:8].copy()
    changed[3] += 1
    assert sample_kinds.frames(FILM[:8].transpose(layout), changed.transpose(layout)) == (3, 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_as_few_frames_as_channels_are_in_doubt(axis):
    clip = FILM[:4].transpose(0, 3, 1, 2)
    found = sample_kinds.explain("", [(clip, np.flip(clip, axis))] * 2)
    assert f"the channels or frames along axis {axis} are in another order" in found.cause
    stage = compared(lambda i: clip + i, lambda i: np.flip(clip, axis) + i)
    assert not any("RGB" in f.cause or "other frames" in f.cause for f in stage.findings), stage.findings


@pytest.mark.parametrize("other", [lambda i: clip(i, later=1)[0], lambda i: clip(i + 50)[0], lambda i: np.zeros_like(clip(i)[0])])
def test_frames_that_no_sample_of_the_reference_has_are_left_alone(other):
    assert sample_kinds.explain("", pair(lambda i: clip(i)[0], other)) is None
