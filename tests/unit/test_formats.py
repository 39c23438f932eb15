"""Reading, writing and converting checkpoints, without any framework."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.capture import save_foreign
from paralign.dtypes import STORAGE, Typed
from paralign.errors import CaptureFormatError, UsageError
from paralign.formats import Entry, Outgoing, convert, open_checkpoint, save, write
from paralign.formats.checkpoint import wrapping
from paralign.formats.writing import blocks

ALL = [".safetensors", ".npz", ".pdparams", ".pth"]


def floats(*shape, seed=0):
    return Typed(np.random.default_rng(seed).random(shape, np.float32), "float32")


@pytest.fixture
def source(tmp_path):
    """A small checkpoint and what is in it."""
    tensors = {
        "a.weight": floats(5, 7),
        "a.bias": floats(5),
        "n": Typed(np.array(3), "int64"),
        "h": Typed(np.arange(12, dtype=np.uint16).reshape(3, 4), "bfloat16"),
    }
    path = tmp_path / "source.safetensors"
    save(path, tensors, metadata={"format": "pt", "by": "hand"})
    return path, tensors


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


# opening


def test_what_a_checkpoint_tells(source):
    path, tensors = source
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.path == path
    assert checkpoint.format == "safetensors"
    assert checkpoint.entries["h"] == Entry("bfloat16", (3, 4))
    assert checkpoint.entries["h"].nbytes == 24
    assert checkpoint.metadata == {"format": "pt", "by": "hand"}
    assert (checkpoint.nesting, checkpoint.prefix, checkpoint.ignored, checkpoint.aliases) == (None, None, [], {})
    assert checkpoint.files == [path]
    value = checkpoint.value("a.weight")
    assert not value.array.flags.writeable
    checkpoint.release("a.weight")
    assert np.array_equal(value.array, tensors["a.weight"].array)  # read again from the file


def test_a_name_that_is_not_there_is_told_with_those_like_it(source):
    with pytest.raises(UsageError, match=r"holds no tensor 'a\.weigth'") as caught:
        open_checkpoint(source[0]).value("a.weigth")
    assert caught.value.hint == "close to it are a.weight"
    with pytest.raises(UsageError) as caught:
        open_checkpoint(source[0]).value("zzz")
    assert caught.value.hint == "it holds n, a.weight, a.bias, h"


@pytest.mark.parametrize("suffix", ALL)
def test_the_format_is_told_by_the_content_not_by_the_name(tmp_path, source, suffix):
    path, tensors = source
    convert(path, tmp_path / f"x{suffix}")
    (tmp_path / f"x{suffix}").rename(tmp_path / "download")
    assert sorted(open_checkpoint(tmp_path / "download").names) == sorted(tensors)


def test_prefixes_are_reported_and_taken_off_on_request(tmp_path):
    path = tmp_path / "x.npz"
    save(path, {"module._orig_mod.a": floats(2), "module._orig_mod.b": floats(3)})
    checkpoint = open_checkpoint(path)
    assert checkpoint.prefix == "module._orig_mod."
    assert checkpoint.names == ["module._orig_mod.a", "module._orig_mod.b"]
    assert open_checkpoint(path, strip="module._orig_mod.").names == ["a", "b"]
    save(path, {"module.a": floats(2), "a": floats(3)}, overwrite=True)
    assert open_checkpoint(path).prefix is None
    with pytest.raises(UsageError, match=r"without 'module\.' two tensors are called 'a'"):
        open_checkpoint(path, strip="module.")


def test_prefixes_of_nothing():
    assert wrapping([]) is None
    assert wrapping(["module.", "module.b"]) == "module."


def pickled(path, value, protocol=4):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


ONE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("tree", "names", "nesting", "ignored"),
    [
        ({"w": ONE, "epoch": 3}, ["w"], None, ["epoch"]),
        ({"state_dict": {"w": ONE}, "optimizer": {"w": ONE}, "epoch": 3}, ["w"], "state_dict", ["optimizer", "epoch"]),
        ({"ema": {"w": ONE}, "model": {"w": ONE, "name": "x"}}, ["w"], "model", ["ema", "model.name"]),
        ({"backbone": {"w": ONE}, "meta": {"x": 1}}, ["w"], "backbone", ["meta"]),
        ({"generator": {"w": ONE}, "critic": {"w": ONE}, "optim_g": {"w": ONE}}, ["generator.w", "critic.w"], None, ["optim_g"]),
        ({"w": ONE, "more": {"v": [ONE, (ONE, 3)]}}, ["w", "more.v.0", "more.v.1.0"], None, []),
        (
            {"w": ONE, "lr_scheduler": {"v": ONE}, "texts": np.array(["a"]), "rate": np.float32(3)},
            ["w"],
            None,
            ["lr_scheduler", "texts", "rate"],
        ),
        ({"optimizer": {"w": ONE}}, ["optimizer.w"], None, []),
        ([ONE, ONE.copy()], ["0", "1"], None, []),
        (ONE, ["tree"], None, []),
        ({}, [], None, []),
    ],
)
def test_the_models_tensors_are_found_and_the_rest_is_named(tmp_path, tree, names, nesting, ignored):
    checkpoint = open_checkpoint(pickled(tmp_path / "tree.pkl", tree))
    assert checkpoint.format == "pickle"
    assert (checkpoint.names, checkpoint.nesting, checkpoint.ignored) == (names, nesting, ignored)
    save_foreign(tmp_path / "tree.npy", {"root": tree})
    assert open_checkpoint(tmp_path / "tree.npy", within="root").format == "npy"


def test_keys_that_lead_nowhere(tmp_path):
    path = pickled(tmp_path / "x.pkl", {"a": {"b": {"w": ONE}}, "c": 1})
    assert open_checkpoint(path, within="a.b").nesting == "a.b"
    assert open_checkpoint(path, within="a").names == ["b.w"]
    with pytest.raises(UsageError, match=r"the file has no 'a\.x'") as caught:
        open_checkpoint(path, within="a.x")
    assert caught.value.hint == "there is b"
    with pytest.raises(CaptureFormatError, match="the file holds no tensors, only c, d"):
        open_checkpoint(pickled(tmp_path / "y.pkl", {"c": 1, "d": "x"}))
    with pytest.raises(CaptureFormatError, match="the file holds no tensors, only a value of type int"):
        open_checkpoint(pickled(tmp_path / "y.pkl", 3))
    with pytest.raises(CaptureFormatError, match=r"two tensors are called 'a\.b'"):
        open_checkpoint(pickled(tmp_path / "y.pkl", {"a": {"b": ONE}, "a.b": ONE}))


def test_arrays_of_every_layout_and_order_in_pickles_and_npz(tmp_path):
    arrays = {
        "big": np.arange(6000, dtype=">f8").reshape(60, 100),
        "fortran": np.asfortranarray(np.arange(6000.0).reshape(60, 100)),
        "small": np.array([1, 2], ">i2"),
        "c": np.arange(6000, dtype=np.complex64),
        "zero": np.zeros((0, 3)),
        "d0": np.array(True),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    np.savez_compressed(tmp_path / "y.npz", **arrays)
    files = [tmp_path / "x.npz", tmp_path / "y.npz"]
    files += [pickled(tmp_path / f"{protocol}.pkl", arrays, protocol) for protocol in (2, 3, 4, 5)]
    for path in files:
        checkpoint = open_checkpoint(path)
        assert checkpoint.names == list(arrays)
        convert(path, path.with_suffix(".safetensors"), overwrite=True)
        again = open_checkpoint(path.with_suffix(".safetensors"))
        for name, array in arrays.items():
            assert np.array_equal(checkpoint.value(name).array, array), (path, name)
            assert np.array_equal(again.value(name).array, array), (path, name)


def test_an_array_by_itself_is_called_like_its_file(tmp_path):
    np.save(tmp_path / "weight.npy", np.arange(6.0).reshape(2, 3).T)
    checkpoint = open_checkpoint(tmp_path / "weight.npy")
    assert checkpoint.names == ["weight"]
    assert np.array_equal(checkpoint.value("weight").array, np.arange(6.0).reshape(2, 3).T)


def test_uint16_is_bfloat16_only_where_paddle_wrote_it(tmp_path):
    array = np.arange(3, dtype=np.uint16)
    assert open_checkpoint(pickled(tmp_path / "x.pkl", {"w": array})).entries["w"].dtype == "uint16"
    assert open_checkpoint(pickled(tmp_path / "x.pdparams", {"w": array})).entries["w"].dtype == "bfloat16"
    table = {"w": array, "StructuredToParameterName@@": {"w": "linear_0.w_0"}}
    assert open_checkpoint(pickled(tmp_path / "y.pkl", table)).entries["w"].dtype == "bfloat16"


def test_a_folder_with_a_checkpoint_of_a_usual_name(tmp_path, source):
    with pytest.raises(UsageError, match="the folder holds no checkpoint of a usual name"):
        open_checkpoint(tmp_path)
    convert(source[0], tmp_path / "model.safetensors")
    assert open_checkpoint(tmp_path).path == tmp_path / "model.safetensors"


# converting


def test_moves_rename_transpose_and_leave_out(tmp_path, source):
    path, tensors = source
    moves = [("a.weight", "x/weight", "transpose(1, 0)"), ("h", "y", None), ("a.bias", "z", "transpose(0)")]
    for suffix in ALL:
        summary = convert(path, tmp_path / f"out{suffix}", moves=iter(moves))
        checkpoint = open_checkpoint(tmp_path / f"out{suffix}")
        assert sorted(checkpoint.names) == ["x/weight", "y", "z"]
        assert np.array_equal(checkpoint.value("x/weight").array, tensors["a.weight"].array.T)
        assert checkpoint.value("y").dtype == "bfloat16"
        assert np.array_equal(checkpoint.value("y").array, tensors["h"].array)
        assert np.array_equal(checkpoint.value("z").array, tensors["a.bias"].array)
        assert (summary.tensors, summary.left, summary.files) == (3, ["n"], [tmp_path / f"out{suffix}"])
        assert summary.bytes == (tmp_path / f"out{suffix}").stat().st_size


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([("none", "x", None)], "holds no tensor 'none'"),
        ([("n", "x", None), ("h", "x", None)], "two tensors would be called 'x'"),
        ([("h", "x", "transpose(0)")], r"a transposition of 1 axes does not fit a tensor of 2"),
        ([("h", "x", "reshape(3)")], r"reshape\(3\) does not fit a tensor of shape \(3, 4\)"),
        ([("h", "x", "rows(2, 4)")], r"rows\(2, 4\) does not fit a tensor of shape \(3, 4\)"),
        ([("h", "x", "flip(0)")], r"'flip\(0\)' is no transform of weights"),
        ([("h", "x", "transpose(0, 0)")], r"'transpose\(0, 0\)' is no transform of weights"),
        ([("h", "a\0b", None)], "holds characters that files cannot hold"),
        ([("h", "\ud800", None)], "holds characters that files cannot hold"),
    ],
)
def test_moves_that_cannot_be(tmp_path, source, moves, message):
    before = listing(tmp_path)
    with pytest.raises(UsageError, match=message):
        convert(source[0], tmp_path / "out.npz", moves=moves)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(("name", "suffix"), [("__metadata__", ".safetensors"), ("StructuredToParameterName@@", ".pdparams")])
def test_names_that_a_format_keeps_for_itself(tmp_path, name, suffix):
    with pytest.raises(UsageError, match=f"a tensor cannot be called {name}"):
        save(tmp_path / f"x{suffix}", {name: floats(2)})
    assert listing(tmp_path) == []


def test_metadata_of_the_source_is_kept_or_says_where_the_weights_came_from(tmp_path, source):
    convert(source[0], tmp_path / "a.safetensors")
    assert open_checkpoint(tmp_path / "a.safetensors").metadata == {"format": "pt", "by": "hand"}
    for suffix, origin in ((".pth", "pt"), (".pdparams", "pd"), (".npz", "np")):
        convert(source[0], tmp_path / f"b{suffix}")
        convert(tmp_path / f"b{suffix}", tmp_path / "c.safetensors", overwrite=True)
        assert open_checkpoint(tmp_path / "c.safetensors").metadata == {"format": origin}
    convert(source[0], tmp_path / "d.safetensors", metadata={"format": "pd"})
    assert open_checkpoint(tmp_path / "d.safetensors").metadata == {"format": "pd"}


@pytest.mark.parametrize("suffix", ALL)
def test_shards_and_back_into_one_file(tmp_path, source, suffix):
    path, tensors = source
    told = []
    summary = convert(path, tmp_path / f"m{suffix}", max_shard_bytes=100, progress=lambda *args: told.append(args))
    assert [file.name for file in summary.files] == [f"m-0000{i}-of-00003{suffix}" for i in (1, 2, 3)] + [f"m{suffix}.index.json"]
    index = json.loads(summary.files[-1].read_text())
    assert index["metadata"] == {"total_size": 192}
    checkpoint = open_checkpoint(summary.files[-1])
    assert {name: np.array_equal(checkpoint.value(name).array, value.array) for name, value in tensors.items()} == dict.fromkeys(
        tensors, True
    )
    assert told[-1][0] <= told[-1][1]
    assert {file for _, _, file in told} == {file.name for file in summary.files[:-1]}
    again = convert(summary.files[-1], tmp_path / f"one{suffix}")
    assert again.files == [tmp_path / f"one{suffix}"]
    one = convert(path, tmp_path / f"small{suffix}", max_shard_bytes=10**6)
    assert one.files == [tmp_path / f"small{suffix}"]
    with pytest.raises(UsageError, match="shards of at most 0 bytes hold nothing"):
        convert(path, tmp_path / f"x{suffix}", max_shard_bytes=0)


def test_overwriting_shards_leaves_none_of_the_old_ones(tmp_path, source):
    (tmp_path / "out").mkdir()
    index = convert(source[0], tmp_path / "out" / "m.safetensors", max_shard_bytes=100).files[-1]
    with pytest.raises(UsageError, match="the destination is there already"):
        convert(source[0], tmp_path / "out" / "m.safetensors")
    convert(source[0], tmp_path / "out" / "m.safetensors", overwrite=True)
    assert listing(tmp_path / "out") == ["m.safetensors"]
    convert(source[0], index, max_shard_bytes=100, overwrite=True)
    assert listing(tmp_path / "out") == [f"m-0000{i}-of-00003.safetensors" for i in (1, 2, 3)] + ["m.safetensors.index.json"]
    convert(source[0], index, max_shard_bytes=24, overwrite=True)
    assert len(listing(tmp_path / "out")) == 5


def test_a_foreign_index_does_not_lead_to_files_of_others(tmp_path, source):
    """Only files named like shards of this destination are taken away with an index that is replaced."""
    (tmp_path / "precious.safetensors").write_bytes(b"x")
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "precious.safetensors", "b": "../b", "c": 3}}))
    convert(source[0], tmp_path / "m.safetensors", overwrite=True)
    assert listing(tmp_path) == ["m.safetensors", "precious.safetensors", "source.safetensors"]
    (tmp_path / "m.safetensors.index.json").write_text("[")
    convert(source[0], tmp_path / "m.safetensors", overwrite=True)
    assert listing(tmp_path) == ["m.safetensors", "precious.safetensors", "source.safetensors"]


# what must not happen


@pytest.mark.parametrize("suffix", ALL)
def test_an_existing_destination_is_kept(tmp_path, source, suffix):
    target = tmp_path / f"out{suffix}"
    target.write_bytes(b"precious")
    with pytest.raises(UsageError, match="the destination is there already"):
        convert(source[0], target)
    assert target.read_bytes() == b"precious"
    convert(source[0], target, overwrite=True)
    assert open_checkpoint(target).names


def test_a_source_is_not_overwritten_under_any_name(tmp_path, source):
    path, _ = source
    before = path.read_bytes()
    (tmp_path / "link.safetensors").symlink_to(path)
    os.link(path, tmp_path / "hard.safetensors")
    for name in ("source.safetensors", "link.safetensors", "hard.safetensors", "../" + tmp_path.name + "/source.safetensors"):
        with pytest.raises(UsageError, match="the destination is the source"):
            convert(path, tmp_path / name, overwrite=True)
    index = convert(path, tmp_path / "m.safetensors", max_shard_bytes=100).files[-1]
    with pytest.raises(UsageError, match="the destination is the source"):
        convert(index, tmp_path / "m.safetensors", overwrite=True)
    with pytest.raises(UsageError, match="the destination is the source"):
        convert(tmp_path / "m-00001-of-00003.safetensors", index, overwrite=True)
    assert path.read_bytes() == before


def test_a_destination_that_cannot_be(tmp_path, source):
    with pytest.raises(UsageError, match=r"no format is known by the name 'x\.onnx'") as caught:
        convert(source[0], tmp_path / "x.onnx")
    assert caught.value.hint == "end it in one of .safetensors, .pdparams, .pdopt, .npz, .pth, .pt, .bin, .ckpt"
    with pytest.raises(UsageError, match="the folder of the destination is not there"):
        convert(source[0], tmp_path / "none" / "x.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(UsageError, match="the destination is a folder"):
        convert(source[0], tmp_path / "folder.npz", overwrite=True)


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path, source, monkeypatch):
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([*real[:4], 100 // real.f_frsize, *real[5:]]))
    before = listing(tmp_path)
    for suffix in ALL:
        with pytest.raises(UsageError, match=r"the disk is too full: \d+ bytes are needed, 0 are available"):
            convert(source[0], tmp_path / f"x{suffix}")
    assert listing(tmp_path) == before


@pytest.mark.parametrize("suffix", ALL)
@pytest.mark.parametrize("shards", [None, 100])
def test_the_announced_size_is_enough(tmp_path, source, suffix, shards):
    told = []
    convert(source[0], tmp_path / f"x{suffix}", max_shard_bytes=shards, progress=lambda _, total, __: told.append(total))
    size = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("x") and not path.name.endswith(".json"))
    assert told[-1] - 3 * 4000 <= size <= told[-1]


FULL = """
import resource, sys
from paralign.errors import UsageError
from paralign.formats import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    convert(sys.argv[1], sys.argv[2], overwrite=True)
except UsageError as fault:
    print(fault)
    sys.exit(7)
"""


@pytest.mark.parametrize("suffix", ALL)
def test_a_disk_that_fills_up_leaves_the_old_destination(tmp_path, suffix):
    """The system refuses to write beyond a limit, as a full disk does."""
    save(tmp_path / "source.safetensors", {"a": floats(200, 100), "b": floats(200, 100), "c": floats(200, 100)})
    target = tmp_path / f"out{suffix}"
    target.write_bytes(b"precious")
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "source.safetensors", target, "100000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("the file cannot be written: File too large\n  where: ")
    assert "what was there before is untouched" in done.stdout
    assert target.read_bytes() == b"precious"
    assert listing(tmp_path) == sorted([target.name, "source.safetensors"])


@pytest.mark.parametrize("suffix", ALL)
@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_nothing_behind(tmp_path, suffix, fault):
    def value():
        raise fault

    items = [Outgoing("a", Entry("float32", (5,)), lambda: floats(5)), Outgoing("b", Entry("float32", (5,)), value)]
    with pytest.raises(fault):
        write(tmp_path / f"x{suffix}", items)
    with pytest.raises(fault):
        write(tmp_path / f"x{suffix}", items, max_shard_bytes=20)
    assert listing(tmp_path) == []


KILLED = """
import sys, time
from paralign.formats import convert
convert(sys.argv[1], sys.argv[2], overwrite=True, progress=lambda *_: (print("x", flush=True), time.sleep(60)))
"""


@pytest.mark.parametrize("suffix", ALL)
def test_a_killed_conversion_leaves_no_half_file_under_the_name(tmp_path, source, suffix):
    target = tmp_path / f"x{suffix}"
    target.write_bytes(b"precious")
    with subprocess.Popen([sys.executable, "-c", KILLED, source[0], target], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"x"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert target.read_bytes() == b"precious"


def test_values_of_another_shape_than_announced_are_refused(tmp_path):
    item = Outgoing("a", Entry("float32", (4,)), lambda: floats(5))
    with pytest.raises(UsageError, match=r"the values are float32 of shape \(5,\), announced were float32 of shape \(4,\)"):
        write(tmp_path / "x.npz", [item])
    assert listing(tmp_path) == []


# elements on their way


@settings(deadline=None, max_examples=60)
@given(
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
    st.randoms(use_true_random=False),
    st.sampled_from(["<u2", ">f4", "<c16", "?"]),
    st.booleans(),
)
def test_blocks_are_the_elements_in_c_order(shape, random, dtype, backwards):
    axes = random.sample(range(len(shape)), len(shape))
    array = np.frombuffer(random.randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape).transpose(axes)
    array = array[::-1] if backwards and array.ndim else array
    assert b"".join(bytes(block) for block in blocks(array)) == array.astype(array.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize(
    ("limit", "shape", "axes"),
    [
        (1 << 25, (600, 700), (1, 0)),
        (1 << 18, (600, 700), (1, 0)),
        (1 << 25, (40, 50, 60), (2, 1, 0)),
        (64, (40, 50, 60), (2, 1, 0)),
        (1 << 25, (40, 50, 60), (1, 0, 2)),
        (1 << 25, (20, 3, 3, 30), (3, 0, 1, 2)),
        (4096, (1, 5000), (1, 0)),
        (1 << 25, (17, 1, 900), (2, 1, 0)),
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "<u2", ">f4", "<f8"])
def test_large_transpositions_go_tile_by_tile(monkeypatch, shape, axes, dtype, limit):
    monkeypatch.setattr("paralign.formats.writing._GATHERED", limit)
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype).transpose(axes)
    assert b"".join(bytes(block) for block in blocks(array)) == array.astype(array.dtype.newbyteorder("<")).tobytes()


def test_without_the_systems_copy_the_bytes_are_the_same(tmp_path, source, monkeypatch):
    convert(source[0], tmp_path / "a.pdparams")
    monkeypatch.delattr(os, "copy_file_range")
    convert(source[0], tmp_path / "b.pdparams")
    assert (tmp_path / "a.pdparams").read_bytes() == (tmp_path / "b.pdparams").read_bytes()


def test_where_the_system_cannot_copy_the_bytes_are_the_same(tmp_path, source, monkeypatch):
    convert(source[0], tmp_path / "a.pdparams")

    def impossible(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", impossible)
    convert(source[0], tmp_path / "b.pdparams")
    assert (tmp_path / "a.pdparams").read_bytes() == (tmp_path / "b.pdparams").read_bytes()


def test_a_source_that_is_replaced_while_it_is_open_is_still_the_one_that_was_opened(tmp_path, source):
    path, tensors = source
    checkpoint = open_checkpoint(path)
    save(path, {"a.weight": floats(50, 70, seed=1)}, overwrite=True)
    convert(checkpoint, tmp_path / "x.npz")
    assert np.array_equal(np.load(tmp_path / "x.npz")["a.weight"], tensors["a.weight"].array)
    path.unlink()
    convert(checkpoint, tmp_path / "y.safetensors")
    assert np.array_equal(open_checkpoint(tmp_path / "y.safetensors").value("a.weight").array, tensors["a.weight"].array)


MEMORY = """
import sys, json
from pathlib import Path
from paralign.formats import convert, open_checkpoint
def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")) << 10
checkpoint = open_checkpoint(sys.argv[1])
before = peak()
convert(checkpoint, sys.argv[2], moves=[(n, n, sys.argv[3] or None) for n in checkpoint.names])
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("transform", ["", "transpose(1, 0)"])
@pytest.mark.parametrize("suffix", ALL)
def test_memory_is_bounded_by_the_tensors_not_by_the_checkpoint(tmp_path, suffix, transform):
    size = 4 << 20
    value = Typed(np.ones((1024, size // 4096), np.float32), "float32")
    items = [Outgoing(str(i), Entry("float32", value.array.shape), lambda: value) for i in range(32)]
    write(tmp_path / "x.safetensors", items)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "x.safetensors", tmp_path / f"y{suffix}", transform],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 2 * size + (24 << 20)  # of 128 MB


def test_names_by_the_thousand_take_little_time(tmp_path):
    tensors = {f"layer.{i}.weight": Typed(np.full(2, i, np.int64), "int64") for i in range(3000)}
    started = time.process_time()
    for suffix in ALL:
        save(tmp_path / f"x{suffix}", tensors)
        assert len(open_checkpoint(tmp_path / f"x{suffix}").names) == 3000
    assert time.process_time() - started < 20


def test_an_npz_is_one_that_numpy_loads(tmp_path):
    tensors = {
        "a/b": floats(3, 4),
        "é": Typed(np.array(5), "int64"),
        "h": Typed(np.arange(3, dtype=np.uint16), "bfloat16"),
        "e": floats(0, 2),
    }
    save(tmp_path / "x.npz", tensors)
    with np.load(tmp_path / "x.npz") as loaded:
        assert sorted(loaded.files) == sorted(tensors)
        for name, value in tensors.items():
            assert np.array_equal(loaded[name], value.array)
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None


def test_a_pickle_that_python_itself_reads(tmp_path):
    tensors = {dtype: Typed(np.zeros((2, 300), STORAGE[dtype]), dtype) for dtype in STORAGE}
    save(tmp_path / "x.pdparams", tensors)
    loaded = pickle.loads((tmp_path / "x.pdparams").read_bytes())
    assert list(loaded) == [*tensors, "StructuredToParameterName@@"]
    for name, value in tensors.items():
        stored = np.dtype("int8") if name.startswith("float8") else value.array.dtype
        assert (loaded[name].dtype, loaded[name].shape) == (stored, (2, 300))
