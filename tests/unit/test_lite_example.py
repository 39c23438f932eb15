"""The small data set that comes with paralign: the same bytes everywhere, real pictures, labels, a manifest that a check verifies."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

from paralign.cli import main
from paralign.errors import UsageError
from paralign.lite import check_files, make, read_manifest
from paralign.lite.example import SHAPES, picture, png
from paralign.lite.hashes import sha256

#: of the files that `paralign data example` writes without options: what any other machine has to write
MANIFEST = "902f667548528a111238eac6d4a58139bf8adfa8fcdfc8c0b0a833f2ed262164"


def pixels_of(content):
    """A PNG of three colours as an array, decoded here: signature, chunks with their checksums, rows without filters."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(content):
        size = struct.unpack(">I", content[at : at + 4])[0]
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        assert struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_the_same_bytes_on_every_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "example"]) == 0
    assert "train: 16 pictures, 4 classes; lite_data/train_list.txt" in capsys.readouterr().out
    assert sha256(tmp_path / "lite_data" / "manifest.json") == MANIFEST
    assert main(["data", "verify", "lite_data"]) == 0
    found = read_manifest(tmp_path / "lite_data")
    assert {name: about["classes"] for name, about in found["splits"].items()} == dict.fromkeys(("train", "val"), dict.fromkeys("0123", 4))
    assert (tmp_path / "lite_data.tar").stat().st_size < 1_000_000


def test_another_seed_gives_other_pictures_and_splits_share_none(tmp_path):
    make(tmp_path / "a", count=8)
    make(tmp_path / "b", count=8, seed=1)
    hashes = [{path.name + sha256(path) for path in (tmp_path / name).rglob("*.png")} for name in "ab"]
    assert not hashes[0] & hashes[1]
    assert len({sha256(path) for path in (tmp_path / "a").rglob("*.png")}) == 16


def test_labels_are_the_places_of_the_folders(tmp_path):
    make(tmp_path / "a", count=10)
    folders = sorted(path.name for path in (tmp_path / "a" / "train").iterdir())
    assert folders == list(SHAPES)
    lines = [line.split() for line in (tmp_path / "a" / "train_list.txt").read_text().splitlines()]
    assert len(lines) == 10
    assert all(folders[int(label)] == path.split("/")[1] and (tmp_path / "a" / path).is_file() for path, label in lines)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_shows_every_exchange(shape):
    width, height, content = picture(shape, "0 train/0")
    array = np.frombuffer(content, np.uint8).reshape(height, width, 3).astype(int)
    for other in (array[:, ::-1], array[::-1], array[..., ::-1]):
        assert abs(array - other).mean() > 5
    assert (pixels_of(png(width, height, content)) == array).all()


def test_rows_longer_than_a_block_are_stored_in_several():
    content = bytes(range(256)) * 3 * 256
    assert pixels_of(png(256, 256, content)).tobytes() == content


def test_libraries_for_pictures_read_them():
    image = pytest.importorskip("PIL.Image")
    width, height, content = picture("disc", "key")
    with image.open(io.BytesIO(png(width, height, content))) as read:
        assert (read.mode, read.size, read.tobytes()) == ("RGB", (width, height), content)


def test_nothing_is_overwritten_and_a_limit_is_kept(tmp_path):
    (tmp_path / "lite_data.tar").write_text("mine")
    with pytest.raises(UsageError, match="it is there already"):
        make(tmp_path / "lite_data")
    assert (tmp_path / "lite_data.tar").read_text() == "mine"
    with pytest.raises(UsageError, match="do not fit"):
        make(tmp_path / "other", largest=50_000)
    assert not (tmp_path / "other").exists()


READS = """
import numpy as np
from pathlib import Path

class Data:
    def __init__(self, split):
        self.lines = [line.split() for line in Path(f"lite/{split}_list.txt").read_text().splitlines()]
    def __len__(self):
        return len(self.lines)
    def __getitem__(self, index):
        path, label = self.lines[index]
        return np.frombuffer(Path("lite", path).read_bytes(), np.uint8)[-50:], int(label)

def build_dataset(split):
    return Data(split)
"""


def test_a_check_verifies_the_example(project):
    make(project.folder / "lite", count=6)
    for side in ("reference", "candidate"):
        (project.folder / f"{side}.py").write_text(READS)
    toml = project.folder / "paralign.toml"
    toml.write_text(toml.read_text() + '\n[data]\nmanifest = "lite"\n')
    assert project.check("data").code == 0
    picked = project.folder / "lite" / "train" / "disc" / "00.png"
    picked.write_bytes(picked.read_bytes()[:-1] + b"x")
    assert project.check("data").code == 1
    assert "train/disc/00.png" in project.stage("data")["findings"][0]["cause"]
    assert not check_files(read_manifest(project.folder / "lite"), project.folder / "lite").fine
