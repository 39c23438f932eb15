"""Real inputs for the programs: pictures, English text, a time series. The same values on every machine."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
#: statistics of ImageNet, in RGB order
MEAN, STD = np.array([0.485, 0.456, 0.406], "float32"), np.array([0.229, 0.224, 0.225], "float32")


@cache
def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Two photographs, uint8 of shape (427, 640, 3), in RGB order."""
    from sklearn.datasets import load_sample_image

    return load_sample_image("china.jpg"), load_sample_image("flower.jpg")


def crops(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Crops of the photographs at half their resolution, uint8 of shape (count, size, size, 3)."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        picture = pictures()[number % 2][::2, ::2]
        top, left = (int(random.integers(0, limit - size)) for limit in picture.shape[:2])
        found.append(picture[top : top + size, left : left + size])
    return np.stack(found)


def images(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Normalised crops, float32 of shape (count, 3, size, size)."""
    scaled = (crops(count, size, seed).astype("float32") / 255 - MEAN) / STD
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


@cache
def words() -> tuple[int, ...]:
    """The words of the licence as numbers, in the order in which each word first occurs; 0 to 2 are left for special tokens."""
    text = (HERE.parents[2] / "LICENSE").read_text(encoding="utf-8").lower()
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(word, len(numbers) + 3) for word in re.findall(r"[a-z]+", text))


def tokens(count: int, length: int, vocabulary: int, seed: int = 0) -> np.ndarray:
    """Sentences of the licence, int64 of shape (count, length); rare words share the last number."""
    random = np.random.default_rng(seed)
    starts = random.integers(0, len(words()) - length - 1, count)
    return np.minimum(np.array([words()[s : s + length] for s in starts], "int64"), vocabulary - 1)


@cache
def sunspots() -> np.ndarray:
    """Yearly mean sunspot numbers from 1700 to 2008 (Royal Observatory of Belgium, public domain), standardised, float32 of shape (309,)."""
    with (HERE / "sunspots.csv").open(encoding="ascii") as file:
        values = np.array([float(row["sunspots"]) for row in csv.DictReader(file)], "float32")
    return (values - values.mean()) / values.std()


def windows(count: int, length: int, seed: int = 0) -> np.ndarray:
    """Stretches of the series with its own eleven-year lag as a second channel, float32 of shape (count, length, 2)."""
    random = np.random.default_rng(seed)
    starts = random.integers(11, len(sunspots()) - length, count)
    return np.stack([np.stack([sunspots()[s : s + length], sunspots()[s - 11 : s - 11 + length]], -1) for s in starts])
