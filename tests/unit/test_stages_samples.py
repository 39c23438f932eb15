"""A wrong data set, from the user's files to the line that is named: two numpy sides of a folder."""

from __future__ import annotations

import importlib.util

import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

SIDE = """
import numpy as np

MEAN = [120.0, 110.0, 100.0]
STD = [60.0, 50.0, 40.0]

def decode(number):
    random = np.random.RandomState(number)
    y, x = np.mgrid[0:40, 0:48]
    waves = [np.sin(x / 5.0 + random.rand()) + np.cos(y / 7.0 + c * random.rand()) for c in range(3)]
    picture = np.stack(waves, axis=-1)
    return np.round((picture + 2) * 60).astype("uint8")

def crop(picture, size):
    top = (picture.shape[0] - size) // 2
    left = (picture.shape[1] - size) // 2
    return picture[top:top + size, left:left + size]

class Data:
    def __init__(self, split):
        self.files = [f"{split}/{n:03d}.png" for n in range(9)]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        number = int(self.files[index].split("/")[1][:3])
        picture = decode(number)
        picture = crop(picture, 24)
        picture = picture.astype("float32")
        picture = (picture - np.array(MEAN, "float32")) / np.array(STD, "float32")
        picture = picture.transpose(2, 0, 1)
        label = number % 4
        return {"image": picture, "label": label}

def build_dataset(split):
    return Data(split)

class Loader:
    def __init__(self, dataset, size):
        self.dataset, self.size = dataset, size

    def __iter__(self):
        count = len(self.dataset)
        for start in range(0, count, self.size):
            rows = [self.dataset[i] for i in range(start, min(start + self.size, count))]
            yield np.stack([r["image"] for r in rows]), np.array([r["label"] for r in rows])

def build_dataloader(split):
    return Loader(build_dataset(split), 4)
"""


@pytest.fixture
def compare(tmp_path):
    """Checks the data stage of two sides, the candidate's text changed."""
    count = iter(range(10))

    def load(text):
        path = tmp_path / f"side_{next(count)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        names = [n for n in ("build_dataset", "build_dataloader") if hasattr(module, n)]
        return Side(framework="numpy", functions={n: getattr(module, n) for n in names}), path

    def run(*changes, reference=SIDE):
        text = SIDE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        sides = [load(reference), load(text)]
        return check(*(s for s, _ in sides), stages=["data"])["data"], sides[1][1]

    return run


def line_of(path, text):
    lines = [n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1
    return f"{path}:{lines[0]}"


#: what is changed -> the line that is to be named (a part of it), the rule that explains it
WRONG = {
    "mean reversed": ("MEAN = [120.0, 110.0, 100.0]", "MEAN = [100.0, 110.0, 120.0]", "MEAN =", "normalise"),
    "deviation": ("STD = [60.0, 50.0, 40.0]", "STD = [60.0, 50.0, 41.0]", "STD =", "normalise"),
    "channels": ('.astype("uint8")', '.astype("uint8")[:, :, ::-1]', "::-1]", "channels"),
    "flipped": ("picture = crop(picture, 24)", "picture = crop(picture, 24)[:, ::-1]", "crop(picture, 24)[", "flip"),
    "crop": ("top = (picture.shape[0] - size) // 2", "top = (picture.shape[0] - size) // 2 + 1", "top = (", "crop"),
    "scaled": ('picture.astype("float32")', 'picture.astype("float32") / 255', "/ 255", "scale"),
    "not normalised": ("picture = (picture - np.array(MEAN", "other = (picture - np.array(MEAN", None, None),
    "order of axes": ("picture.transpose(2, 0, 1)", "picture.transpose(2, 1, 0)", "transpose(2, 1, 0)", None),
    "label": ("label = number % 4", "label = number % 4 + 1", "label = number", "label-shift"),
    "classes": ("label = number % 4", "label = 3 - number % 4", "label = 3", "label-order"),
    "files": ("for n in range(9)]", "for n in reversed(range(9))]", "reversed", "order"),
    "fewer files": ("for n in range(9)]", "for n in range(8)]", "range(8)", None),
    "extra": ("        label =", "        picture = picture * 2\n        label =", "picture * 2", "extra"),
    "batch size": ("Loader(build_dataset(split), 4)", "Loader(build_dataset(split), 3)", "Loader(build", "batch-size"),
    "batch order": (
        "rows = [self.dataset[i] for i in range(",
        "rows = [self.dataset[i] for i in reversed(range(",
        "return Loader(",
        "batch-order",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_line_that_makes_a_sample_wrong_is_named(compare, what):
    old, new, line, rule = WRONG[what]
    more = [("min(start + self.size, count))]", "min(start + self.size, count)))]")] if what == "batch order" else []
    result, path = compare((old, new), *more)
    assert result.verdict == DIVERGED
    divergence = result.divergence
    if line is not None:
        assert divergence.candidate.source == line_of(path, line)
        assert line in divergence.candidate.code
    assert divergence.reference is not None
    assert divergence.reference.source is not None
    if rule is not None:
        assert [f.rule for f in result.findings] == [f"data/{rule}"]
    assert not result.warnings


def test_equal_sides_need_no_trace(compare):
    result, _ = compare()
    assert (result.verdict, result.divergence, result.findings) == (ALIGNED, None, [])


HARMLESS = {
    "another way to normalise": ('(picture - np.array(MEAN, "float32")) / np.array(STD, "float32")',
                                 '(picture / 255 - np.array(MEAN, "float32") / 255) / (np.array(STD, "float32") / 255)'),
    "transposed before": ('picture = picture.astype("float32")\n', 'picture = picture.astype("float32") + 0\n'),
    "read as BGR and turned": ("picture = decode(number)\n", "picture = decode(number)[:, :, ::-1]\n        picture = picture[:, :, ::-1]\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", HARMLESS)
def test_harmless_differences_do_not_draw_the_blame(compare, what):
    result, _ = compare(HARMLESS[what])
    assert result.verdict == ALIGNED
    result, path = compare(HARMLESS[what], ("label = number % 4", "picture = picture[:, ::-1]\n        label = number % 4"))
    assert result.divergence.candidate.source == line_of(path, "picture = picture[:, ::-1]")
    assert result.findings[0].rule in ("data/flip", "data/extra")


def test_a_loader_alone_is_followed_into_its_data_set(compare):
    alone = SIDE.replace("def build_dataset(split)", "def made(split)").replace("Loader(build_dataset(split)", "Loader(made(split)")
    result, path = compare(("def build_dataset(split)", "def made(split)"), ("Loader(build_dataset(split)", "Loader(made(split)"),
                           ("STD = [60.0", "STD = [61.0"), reference=alone)  # fmt: skip
    assert result.divergence.candidate.source == line_of(path, "STD = [")


def test_a_side_that_fails_when_asked_again_keeps_its_verdict(compare):
    once = "        number = int("
    result, _ = compare(("STD = [60.0", "STD = [61.0"), (once, "        self.left = getattr(self, 'left', 1) - 1\n" + once),
                        ("def build_dataset(split):\n", "CALLS = []\ndef build_dataset(split):\n    CALLS.append(1)\n    assert len(CALLS) < 3, 'once'\n"))  # fmt: skip
    assert result.verdict == DIVERGED
    assert result.divergence.pair.key == "sample_0.image"
    assert any(
        w.startswith("the first wrong sample could not be traced: the candidate failed: AssertionError: once") for w in result.warnings
    )


@pytest.mark.parametrize(
    ("factor", "proven", "note"),
    [
        ("1.5", True, None),
        ("(1 + number / 100)", False, "the cause was found on sample 1 and does not hold on sample 2: it is a guess"),
        ("(1.5 if number == 2 else 1)", False, "the cause was found on sample 2, and there was no other wrong one to try it on"),
    ],
)
def test_a_cause_is_proven_only_if_it_holds_for_samples_that_were_not_used_to_find_it(compare, factor, proven, note):
    result, path = compare(('picture.astype("float32")', f'picture.astype("float32") * {factor}'))
    assert result.divergence.candidate.source == line_of(path, 'picture.astype("float32") *')
    assert [(f.rule, f.proven) for f in result.findings] == [("data/scale", proven)]
    assert result.divergence.confirmed is proven
    assert note is None or note in result.notes


def test_another_order_of_samples_is_proven_by_all_of_them(compare):
    result, _ = compare(("for n in range(9)]", "for n in reversed(range(9))]"))
    assert [(f.rule, f.proven) for f in result.findings] == [("data/order", True)]
    result, _ = compare(("for n in range(9)]", "for n in (1, 1, 2, 3, 4, 5, 6, 7, 8)]"))
    assert [(f.rule, f.proven) for f in result.findings] == [("data/order", False)]
