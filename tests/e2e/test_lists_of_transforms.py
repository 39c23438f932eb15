"""Samples of two lists of transforms that do not correspond step by step: the first wrong step is named, and no guess about other steps."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")
pytest.importorskip("PIL")

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.usefixtures("standing_workers")]

SIDE = """
import numpy as np
from PIL import Image
from {module} import DataLoader, Dataset


def picture(number):
    noise = np.random.RandomState(number)
    rows, columns = np.mgrid[0:60, 0:80]
    waves = np.stack([127 + 90 * np.sin(columns / (5 + c + number % 3) + number) * np.cos(rows / (7.0 + c)) for c in range(3)], -1)
    return Image.fromarray(np.clip(waves + noise.randn(60, 80, 3) * 8, 0, 255).astype("uint8"))


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        scale = self.size / min(image.size)
        return image.resize((round(image.size[0] * scale), round(image.size[1] * scale)), Image.BILINEAR)


class Squash(Resize):
    def __call__(self, image):
        return image.resize((self.size, self.size), Image.BILINEAR)  # squashed


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        left, top = ((extent - self.size) // 2 for extent in image.size)  # crop
        return image.crop((left, top, left + self.size, top + self.size))  # crop


class ToArray:
    def __call__(self, image):
        return np.asarray(image, "float32").transpose(2, 0, 1) / 255


class Data(Dataset):
    def __init__(self):
        self.transforms = [{transforms}, ToArray()]  # list

    def __len__(self):
        return 12

    def __getitem__(self, number):
        image = picture(number)
        for transform in self.transforms:
            image = transform(image)
        return image


def build_dataset(split):
    return Data()


def build_dataloader(split):
    return DataLoader(Data(), batch_size=4)
"""
TOML = '[reference]\nframework = "torch"\n[candidate]\nframework = "paddle"\n[inputs]\nshape = [2, 3, 32, 32]\n'
RIGHT = "Resize(40), CenterCrop(32)"


@pytest.mark.parametrize(
    ("transforms", "line"),
    [
        (RIGHT, None),
        ("Squash(32)", "# squashed"),
        ("CenterCrop(32), Resize(32)", "# crop"),
        ("CenterCrop(48), Resize(32)", "# crop"),  # of another picture, and with another number: the first of both
    ],
)
def test_the_first_wrong_step_is_named(tmp_path, transforms, line):
    from paralign.cli import main

    (tmp_path / "reference.py").write_text(SIDE.format(module="torch.utils.data", transforms=RIGHT))
    (tmp_path / "candidate.py").write_text(SIDE.format(module="paddle.io", transforms=transforms))
    (tmp_path / "paralign.toml").write_text(TOML)
    assert main(["check", str(tmp_path), "data", "-q"]) == (0 if line is None else 1)
    (stage,) = json.loads((tmp_path / "result" / "report.json").read_text())["stages"]
    if line is None:
        assert stage["verdict"] == "aligned"
        return
    assert line in stage["divergence"]["candidate"]["code"]
    assert "data/shape" not in [finding["rule"] for finding in stage["findings"]], "the sizes of the samples are equal"
