"""Where functions of prediction part: the line before or behind the network; pictures of both results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paralign.api import check
from paralign.capture import Capture, CaptureWriter
from paralign.model import ALIGNED, DIVERGED, CheckResult, Manifest, Side, StageResult
from paralign.report import pictures

W = np.random.RandomState(1).randn(64, 5).astype("float32")
NAMES = ["ant", "bee", "cat", "dog", "elk"]


def network(x):
    return x.reshape(1, -1) @ W.astype(x.dtype)


def load(path, mean=0.5):
    pixels = np.loadtxt(path).astype("float32")
    scaled = pixels / 255
    return scaled - mean


def predict(path, model):
    x = load(path)
    scores = model(x)[0]
    top = np.argsort(-scores)[:3]
    return {"scores": scores, "names": [NAMES[n] for n in top]}


def another_mean(path, model):
    x = load(path, mean=0.45)
    scores = model(x)[0]
    top = np.argsort(-scores)[:3]
    return {"scores": scores, "names": [NAMES[n] for n in top]}


def another_scale(path, model):
    x = np.loadtxt(path).astype("float32") / 256 - 0.5
    scores = model(x)[0]
    return {"scores": scores, "names": [NAMES[n] for n in np.argsort(-scores)[:3]]}


def turned(path, model):
    x = load(path)
    x = x[::-1]
    scores = model(x)[0]
    top = np.argsort(-scores)[:3]
    return {"scores": scores, "names": [NAMES[n] for n in top]}


def with_softmax(path, model):
    x = load(path)
    scores = model(x)[0]
    scores = np.exp(scores) / np.exp(scores).sum()
    top = np.argsort(-scores)[:3]
    return {"scores": scores, "names": [NAMES[n] for n in top]}


def wrong_order(path, model):
    x = load(path)
    scores = model(x)[0]
    top = np.argsort(scores)[:3]
    return {"scores": scores, "names": [NAMES[n] for n in top]}


@pytest.fixture
def paths(tmp_path):
    for n in range(2):
        np.savetxt(tmp_path / f"{n}.txt", np.random.RandomState(n).randint(0, 256, (8, 8)))
    return [str(tmp_path / f"{n}.txt") for n in range(2)]


def run(candidate, paths):
    sides = [Side(framework="numpy", model=network, predict=function) for function in (predict, candidate)]
    return check(*sides, inputs=np.ones((8, 8), "float32"), stages=["infer"], paths=paths).stages[0]


def test_equal_functions_are_aligned(paths):
    result = run(predict, paths)
    assert (result.verdict, result.findings) == (ALIGNED, [])


@pytest.mark.parametrize(
    ("candidate", "code"),
    [
        (another_mean, "return scaled - mean"),
        (another_scale, 'x = np.loadtxt(path).astype("float32") / 256 - 0.5'),
        (turned, "x = x[::-1]"),
        (with_softmax, "scores = np.exp(scores) / np.exp(scores).sum()"),
        (wrong_order, "top = np.argsort(scores)[:3]"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_the_line_that_differs_is_named(paths, candidate, code):
    result = run(candidate, paths)
    assert result.verdict == DIVERGED
    assert result.divergence.candidate.code == code, (result.divergence, result.notes, result.warnings)


def capture(folder, side, boxes):
    with CaptureWriter(folder / side, Manifest(side=side)) as writer:
        for leaf, value in {"scores": np.array([0.1, 0.9]), "boxes": boxes, "mask": np.eye(20), "count": np.array(3)}.items():
            writer.add("predict_0", value, role="output", leaf=leaf, attrs={"path": "nowhere.png"})
        writer.add("predict_0", "a $cat \x1b[2J", role="output", leaf="name", attrs={"path": "nowhere.png"})
    return Capture.open(folder / side)


def test_pictures_of_both_sides(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib (the extra `plot`)")
    both = tuple(capture(tmp_path, side, np.array([[1, 2, 9, 9.0]])) for side in ("reference", "candidate"))
    result = CheckResult([StageResult("infer")])
    pictures.draw(result, {"infer": both}, tmp_path, 8)
    data = (tmp_path / "pictures" / "predict_0.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert result.stages[0].notes == [f"pictures of 1 of 1 predictions: {tmp_path / 'pictures'}"]


def test_without_matplotlib_a_note_says_how_to_get_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda _: None)
    both = tuple(capture(tmp_path, side, np.zeros((0, 4))) for side in ("reference", "candidate"))
    result = CheckResult([StageResult("infer")])
    pictures.draw(result, {"infer": both}, tmp_path, 8)
    assert "pip install 'paralign[plot]'" in result.stages[0].notes[0]
    assert not Path(tmp_path / "pictures").exists()
    pictures.draw(result, {"infer": both}, tmp_path, 0)
    assert len(result.stages[0].notes) == 1
