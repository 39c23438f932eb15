"""The expression of a data set, or of how batches are put together, that made a sample wrong; and what is no order of samples."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main
from paralign.model import DIVERGED

REFERENCE = """
import numpy as np

OPTIONS = {"hop": 6, "window": 16, "frames": 12}

def classes_of(classes, o):
    return classes[np.arange(o["frames"]) * o["hop"] + o["window"] // 2]

class Frames:
    def __len__(self):
        return 9

    def __getitem__(self, index):
        draw = np.random.RandomState(index)
        signal = draw.randn(90)
        return signal.astype("float32"), classes_of(draw.randint(0, 9, 90), OPTIONS)

def build_dataset(split):
    return Frames()

def soft(labels):
    return np.eye(9, dtype="float32")[labels] * 0.9 + 0.1 / 9

def mixed(values, share):
    return share * values + (1 - share) * values[::-1]

def build_dataloader(split):
    frames = Frames()
    for n in range(0, 9, 3):
        samples = [frames[n + k] for k in range(3)]
        x, y = np.stack([s[0] for s in samples]), soft(np.array([s[1][0] for s in samples]))
        yield mixed(x, 0.7), mixed(y, 0.7)

def build_model():
    return lambda x: x
"""

PARTS = """
import numpy as np

def frame_classes(classes, hop, window, frames):
    middle = np.arange(frames) * hop + window // 2
    return np.take(classes, middle)

def mix(x, y, share):
    other = 1 - share
    return share * x + other * x[::-1], share * y + other * y[::-1]
"""

CANDIDATE = """
import numpy as np
from samples_parts import frame_classes, mix

class Corpus:
    def __init__(self, hop=6, window=16, frames=12):
        self.hop, self.window, self.frames = hop, window, frames

    def __len__(self):
        return 9

    def __getitem__(self, index):
        draw = np.random.RandomState(index)
        signal = draw.randn(90).astype("float32")
        return signal, frame_classes(draw.randint(0, 9, 90), self.hop, self.window, self.frames)

def build_dataset(split):
    return Corpus()

def build_dataloader(split):
    corpus = Corpus()
    for start in (0, 3, 6):
        signals, labels = zip(*(corpus[start + k] for k in range(3)))
        targets = np.eye(9, dtype="float32")[[own[0] for own in labels]]
        yield mix(np.stack(signals), targets * 0.9 + 0.1 / 9, 0.7)

def build_model():
    return lambda x: x
"""

PROJECT = (
    '[reference]\nmodule = "samples_reference.py"\nframework = "numpy"\n'
    '[candidate]\nmodule = "samples_candidate.py"\nframework = "numpy"\n[inputs]\nshape = [2, 3]\n'
)


def checked(folder, capsys, old="", new=""):
    files = {"samples_reference.py": REFERENCE, "samples_parts.py": PARTS, "samples_candidate.py": CANDIDATE, "paralign.toml": PROJECT}
    assert not old or sum(text.count(old) for text in (PARTS, CANDIDATE)) == 1
    for name, text in files.items():
        ported = name in ("samples_parts.py", "samples_candidate.py")
        (folder / name).write_text(text.replace(old, new) if old and ported else text)
    main(["check", str(folder), "data", "--json"])
    return json.loads(capsys.readouterr().out)["stages"][0]


def named(folder, stage):
    assert stage["verdict"] == DIVERGED
    place = stage["divergence"]["candidate"]["source"]
    file, _, line = place.rpartition(":")
    return (folder / file.rpartition("/")[2]).read_text().splitlines()[int(line) - 1].strip()


def test_a_right_port_has_none(tmp_path, capsys):
    assert checked(tmp_path, capsys)["verdict"] == "aligned"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("hop + window // 2", "hop + hop // 2", "middle = np.arange(frames) * hop + hop // 2"),
        ("window=16", "window=10", "def __init__(self, hop=6, window=10, frames=12):"),
        ("share * y + other * y[::-1]", "other * y + share * y[::-1]", "return share * x + other * x[::-1], other * y + share * y[::-1]"),
    ],
    ids=["formula", "default", "batch"],
)
def test_the_expression_is_named(tmp_path, capsys, old, new, line):
    assert named(tmp_path, checked(tmp_path, capsys, old, new)) == line


def test_rows_of_one_part_of_a_batch_are_no_order_of_samples(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "share * y + other * y[::-1]", "other * y + share * y[::-1]")
    assert not [f for f in stage["findings"] if f["proven"] or f["rule"] == "data/batch-order"]


def test_batches_whose_samples_are_in_another_order_are(tmp_path, capsys):
    stage = checked(tmp_path, capsys, "corpus[start + k] for k in range(3)", "corpus[start + 2 - k] for k in range(3)")
    assert [f["rule"] for f in stage["findings"] if f["proven"]] == ["data/batch-order"]
