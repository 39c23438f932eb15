"""Ranges of files that hold tensors: read as the checkpoint's own reader does, whatever its format."""

import json

import numpy as np
import pytest

from paralign.dtypes import typed
from paralign.errors import CaptureFormatError
from paralign.formats import Entry, Outgoing, open_checkpoint, write
from paralign.streaming.ranges import readable
from paralign.worker.values.stored_ranges import read_places, read_tensor

VALUES = {
    "layers.0.weight": np.arange(120_000, dtype=np.float32).reshape(300, 400),
    "layers.0.steps": np.array(7, dtype=np.int64),
    "head": np.linspace(0, 1, 50_000),
}


def saved(path):
    if path.suffix == ".npz":
        np.savez_compressed(path, **VALUES)
    else:
        write(path, [Outgoing(name, Entry(str(a.dtype), a.shape), lambda a=a: typed(a)) for name, a in VALUES.items()])
    return path


@pytest.mark.parametrize("name", ["weights.pdparams", "weights.pth", "weights.npz"])
def test_every_format_is_read_by_ranges(tmp_path, name):
    path = saved(tmp_path / name)
    places = read_places(str(readable(path, tmp_path / "units", "reference")))
    assert set(places) == set(open_checkpoint(path).names)
    for key, value in VALUES.items():
        found = read_tensor(places[key])
        assert (found.dtype, found.array.shape) == (str(value.dtype), value.shape)
        assert np.array_equal(found.array, value)
    apart = tmp_path / "units" / "reference-apart.safetensors"
    copied = set(open_checkpoint(apart).names) if apart.exists() else set()
    assert ("layers.0.weight" in copied) is (name == "weights.npz")  # what lies there as it is is not copied


def test_safetensors_need_no_ranges(tmp_path):
    path = saved(tmp_path / "model.safetensors")
    assert readable(path, tmp_path / "units", "reference") == path
    assert readable(tmp_path, tmp_path / "units", "reference") == tmp_path
    assert not (tmp_path / "units").exists()


def test_a_file_that_has_become_shorter_is_refused(tmp_path):
    path = saved(tmp_path / "weights.pdparams")
    places = read_places(str(readable(path, tmp_path / "units", "reference")))
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(CaptureFormatError, match="no longer holds the bytes"):
        read_tensor(places["head"])


def test_ranges_that_do_not_make_up_a_tensor_are_refused(tmp_path):
    told = {"dtype": "float32", "shape": [2], "parts": [["x", 0, 4]]}
    (tmp_path / "a-ranges.json").write_text(json.dumps({"tensors": {"a": told}}))
    with pytest.raises(CaptureFormatError, match="no file of ranges"):
        read_places(str(tmp_path / "a-ranges.json"))


def test_what_was_told_before_is_told_again_only_of_the_same_files(tmp_path):
    path = saved(tmp_path / "weights.npz")
    target = readable(path, tmp_path / "units", "reference")
    before = target.stat().st_mtime_ns, (tmp_path / "units" / "reference-apart.safetensors").stat().st_mtime_ns
    assert readable(path, tmp_path / "units", "reference") == target
    assert before == (target.stat().st_mtime_ns, (tmp_path / "units" / "reference-apart.safetensors").stat().st_mtime_ns)
    path.unlink()
    np.savez_compressed(path, head=np.arange(3.0))
    places = read_places(str(readable(path, tmp_path / "units", "reference")))
    assert set(places) == {"head"}
    assert np.array_equal(read_tensor(places["head"]).array, np.arange(3.0))


@pytest.mark.parametrize("name", ["weights.pdparams", "weights.npz"])
@pytest.mark.parametrize("damage", ["cut", "moved", "lost"])
def test_a_damaged_file_of_ranges_is_written_again(tmp_path, name, damage):
    path = saved(tmp_path / name)
    target = readable(path, tmp_path / "units", "reference")
    right = json.loads(target.read_text())
    wrong = json.loads(target.read_text())
    if damage == "cut":
        target.write_text(target.read_text()[:-40])
    elif damage == "lost":
        del wrong["tensors"]["head"]
        target.write_text(json.dumps(wrong))
    else:
        wrong["tensors"]["head"]["parts"][0][2] -= 8
        target.write_text(json.dumps(wrong))
    assert readable(path, tmp_path / "units", "reference") == target
    assert json.loads(target.read_text()) == right


def test_a_damage_that_cannot_be_seen_is_gone_where_nothing_is_to_be_reused(tmp_path):
    path = saved(tmp_path / "weights.pdparams")
    target = readable(path, tmp_path / "units", "reference")
    right = json.loads(target.read_text())
    wrong = json.loads(target.read_text())
    wrong["tensors"]["head"]["parts"][0][1] += 8
    target.write_text(json.dumps(wrong))
    readable(path, tmp_path / "units", "reference")
    assert json.loads(target.read_text()) == wrong
    readable(path, tmp_path / "units", "reference", fresh=True)
    assert json.loads(target.read_text()) == right
