"""A small data set that comes with paralign, the same bytes on every machine."""

from __future__ import annotations

import hashlib
import struct
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.lite.subset import LARGEST, Drawn, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: splits, with which a training is written
SPLITS = ("train", "val")

#: pixels of a side: not square and of several sizes, so that resizing and cropping have something to do
SMALLEST, SIZES = 72, 49

#: bytes of one stored block of a deflate stream at most
_BLOCK = 65_535

#: whole numbers that are drawn for one picture
_DRAWS = 16


def _disc(x: int, y: int, r: int) -> bool:
    return x * x + y * y <= r * r


def _square(x: int, y: int, r: int) -> bool:
    return max(abs(x), abs(y)) * 5 <= r * 4


def _triangle(x: int, y: int, r: int) -> bool:
    return -r <= y <= r // 2 and 2 * abs(x) <= y + r


def _cross(x: int, y: int, r: int) -> bool:
    return min(abs(x), abs(y)) * 4 <= r and max(abs(x), abs(y)) <= r


#: class -> whether a pixel lies inside its shape, by its place from the centre and the radius; labels are their places by name
SHAPES: dict[str, Callable[[int, int, int], bool]] = {"cross": _cross, "disc": _disc, "square": _square, "triangle": _triangle}


def make(out: Path, *, count: int = 16, seed: int = 0, largest: int = LARGEST) -> Drawn:
    """Write the example's pictures, lists, archive and manifest, always the same bytes.

    Args:
        out: a folder that is not there yet: ``{train,val}/CLASS/NN.png``, ``train_list.txt`` and ``val_list.txt`` of lines ``path label``.
        count: pictures of each split, the classes in turn.
        seed: which pictures.
        largest: bytes of the archive.

    Raises:
        UsageError: the folder is there already, or ``largest`` cannot be kept.
    """
    with tempfile.TemporaryDirectory(prefix="paralign-") as name:
        root = Path(name)
        lists = [_split(root, split, count, seed) for split in SPLITS]
        return draw(root, out, form="list", lists=lists, count=count, seed=seed, largest=largest)


def _split(root: Path, split: str, count: int, seed: int) -> Path:
    lines = []
    for number in range(count):
        label = number % len(SHAPES)
        shape = list(SHAPES)[label]
        path = f"{split}/{shape}/{number // len(SHAPES):02}.png"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(png(*picture(shape, f"{seed} {path}")))
        lines.append(f"{path} {label}\n")
    (root / f"{split}_list.txt").write_text("".join(lines), encoding="utf-8", newline="\n")
    return root / f"{split}_list.txt"


def picture(shape: str, key: str) -> tuple[int, int, bytes]:
    """A shape before a slanting gradient: width, height, and its pixels.

    Pixels are red, green and blue.

    Size, place, radius and colours are drawn from ``key``. Neither the gradient nor the order of colours is symmetric: a flip, a crop or an
    exchange of channels shows.
    """
    drawn = _drawn(key)
    width, height = SMALLEST + next(drawn) % SIZES, SMALLEST + next(drawn) % SIZES
    radius = min(width, height) * (25 + next(drawn) % 15) // 100
    left, top = (radius + next(drawn) % max(1, size - 2 * radius) for size in (width, height))
    inside = [160 + next(drawn) % 96, 40 + next(drawn) % 120, next(drawn) % 100]
    slopes = [(1 + next(drawn) % 128, 1 + next(drawn) % 128) for _ in range(3)]
    pixels = bytearray()
    covers = SHAPES[shape]
    for y in range(height):
        for x in range(width):
            grain = (x * 7 + y * 13) % 17
            if covers(x - left, y - top, radius):
                pixels += bytes(value - grain if value >= grain else 0 for value in inside)
            else:
                pixels += bytes(x * across // width + y * down // height for across, down in slopes)
    return width, height, bytes(pixels)


def _drawn(key: str) -> Iterator[int]:
    """Whole numbers below 65536 that a text draws, the same everywhere."""
    digest = hashlib.sha512(key.encode()).digest()
    return iter(struct.unpack(f">{2 * _DRAWS}H", digest))


def png(width: int, height: int, pixels: bytes) -> bytes:
    """Pixels of 8 bits and three colours as an uncompressed PNG, always the same bytes."""
    rows = b"".join(b"\0" + pixels[3 * width * y : 3 * width * (y + 1)] for y in range(height))
    blocks = [rows[at : at + _BLOCK] for at in range(0, len(rows), _BLOCK)]
    stream = b"\x78\x01" + b"".join(_stored(block, final=number == len(blocks) - 1) for number, block in enumerate(blocks))
    stream += struct.pack(">I", zlib.adler32(rows))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", stream) + _chunk(b"IEND", b"")


def _stored(block: bytes, *, final: bool) -> bytes:
    return struct.pack("<BHH", final, len(block), len(block) ^ 0xFFFF) + block


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
