"""The way of a sample through the frameworks' own compositions: torch tensors on one side, ``paddle.vision`` on the other."""

from __future__ import annotations

import importlib.util

import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

PICTURE = """
import numpy as np
from PIL import Image

def picture(number):
    random = np.random.RandomState(number)
    small = random.randint(0, 255, (9, 11, 3)).astype("uint8")
    return Image.fromarray(small).resize((64, 48), Image.BICUBIC)
"""

REFERENCE = """
import torch

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        image = np.array(picture(index).resize((40, 32), Image.BILINEAR))
        image = torch.from_numpy(image[4:28, 8:32]).permute(2, 0, 1).float() / 255
        mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
        image = (image - mean) / std
        return image, index % 3

def build_dataset(split):
    return Data()

def build_dataloader(split):
    return torch.utils.data.DataLoader(Data(), batch_size=3)
"""

CANDIDATE = """
import paddle
from paddle.vision import transforms as T

class Data(paddle.io.Dataset):
    def __init__(self):
        self.pipeline = T.Compose([
            T.Resize((32, 40)),
            T.Compose([
                T.CenterCrop(24),
                T.ToTensor(),
            ]),
            T.Normalize(mean=[0.485, 0.456, 0.406],
                        std=[0.229, 0.224, 0.225]),
        ])

    def __len__(self):
        return 7

    def __getitem__(self, index):
        image = self.pipeline(picture(index))
        return image, index % 3

def build_dataset(split):
    return Data()

def build_dataloader(split):
    return paddle.io.DataLoader(Data(), batch_size=3)
"""


@pytest.fixture
def compare(tmp_path):
    pytest.importorskip("PIL")

    def load(framework, text):
        path = tmp_path / f"{framework}_data.py"
        path.write_text(PICTURE + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Side(framework, functions={n: getattr(module, n) for n in ("build_dataset", "build_dataloader")}), path

    def run(old="", new=""):
        assert old in CANDIDATE
        sides = load("torch", REFERENCE), load("paddle", CANDIDATE.replace(old, new))
        return check(*(s for s, _ in sides), stages=["data"])["data"], sides[1][1]

    return run


def test_a_hand_written_pipeline_and_a_composition_agree(compare):
    result, _ = compare()
    assert (result.verdict, result.divergence, result.findings) == (ALIGNED, None, [])


@pytest.mark.parametrize(
    ("old", "new", "line", "op", "rule"),
    [
        ("mean=[0.485, 0.456, 0.406]", "mean=[0.406, 0.456, 0.485]", "T.Normalize(", "Normalize", "data/normalise"),
        ("T.Resize((32, 40))", "T.Resize((32, 40), interpolation='nearest')", "T.Resize(", "Resize", "data/interpolation"),
        (
            "T.CenterCrop(24),",
            "T.CenterCrop(24),\n                T.RandomHorizontalFlip(1.0),",
            "T.RandomHorizontalFlip(",
            "RandomHorizontalFlip",
            "data/extra",
        ),
        (
            "T.CenterCrop(24),",
            "T.CenterCrop(24),\n                T.RandomHorizontalFlip(0.5),",
            "T.RandomHorizontalFlip(",
            "RandomHorizontalFlip",
            "data/random",
        ),
        ("picture(index))", "Image.fromarray(np.array(picture(index))[:, :, ::-1].copy()))", "::-1]", None, "data/extra"),
        ("index % 3", "index % 3 + 1", "index % 3 + 1", "__getitem__", "data/label-shift"),
        ("batch_size=3", "batch_size=3, drop_last=True", "DataLoader(", None, "data/drop-last"),
    ],
)
def test_the_transform_is_named_where_it_is_constructed(compare, old, new, line, op, rule):
    result, path = compare(old, new)
    assert result.verdict == DIVERGED
    end = result.divergence.candidate
    number = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if line in text)
    assert (end.source, line in end.code) == (f"{path}:{number}", True)
    assert op is None or end.op == op
    assert [f.rule for f in result.findings] == [rule]
