"""Deleting a capture: what is ours goes, and nothing else ever does."""

import shutil

import numpy as np
import pytest

from paralign.capture import CaptureWriter, discard
from paralign.errors import UsageError
from paralign.model import Manifest


def recorded(path, complete=True):
    writer = CaptureWriter(path, Manifest())
    writer.add("x", np.ones(3), role="input")
    writer.__exit__(None if complete else KeyboardInterrupt, None, None)


def test_discard_deletes_captures_complete_or_not(tmp_path):
    recorded(tmp_path / "c")
    discard(tmp_path / "c")
    recorded(tmp_path / "d", complete=False)
    for leftover in ("manifest.json.tmp", "shards/00009.safetensors.tmp"):
        (tmp_path / "d" / leftover).write_bytes(b"")
    discard(str(tmp_path / "d"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("foreign", ["notes.txt", "shards/weights.bin", "shards/deeper/", "folder/", "records.jsonl/"])
def test_discard_deletes_nothing_where_something_else_lies(tmp_path, foreign):
    recorded(tmp_path / "c")
    place = tmp_path / "c" / foreign
    if foreign.endswith("/"):
        if place.exists():
            place.unlink()
        place.mkdir()
    else:
        place.write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="something that paralign did not write") as caught:
        discard(tmp_path / "c")
    assert caught.value.where == str(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_discard_follows_no_links(tmp_path):
    recorded(tmp_path / "c")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with pytest.raises(UsageError, match="a capture is a folder; this is none"):
        discard(tmp_path / "link")
    (tmp_path / "precious").mkdir()
    shutil.move(str(tmp_path / "c" / "shards"), str(tmp_path / "real"))
    (tmp_path / "c" / "shards").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="something that paralign did not write"):
        discard(tmp_path / "c")
    assert len(list((tmp_path / "real").iterdir())) == 1


def test_discard_refuses_what_is_no_capture(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "precious", tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(UsageError):
            discard(path)
    (tmp_path / "precious" / "manifest.json").write_text('{"schema": 1}')
    with pytest.raises(UsageError, match="this is not deleted: the folder is not a capture"):
        discard(tmp_path / "precious")
    assert (tmp_path / "precious" / "manifest.json").exists()
