"""Checkpoints that a reader of bytes would crash on, run for ever on, or fill the machine with: refused in one line."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import time
import zipfile

import numpy as np
import pytest

from paralign.api import compare
from paralign.cli import main
from paralign.dtypes import Typed
from paralign.errors import QUOTED, CaptureFormatError, ParalignError, TooLarge, UsageError, quoted
from paralign.formats import convert, open_checkpoint, save
from paralign.formats.opcodes import integer, integers, text

ONE = np.arange(4, dtype=np.float32)
SPLIT = "UnpackBigParamInfor@@"


def safetensors(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(shape=(1,), dtype="F32", offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def archive(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as handle:
        for name, data in members.items():
            handle.writestr(name, data)
    return stream.getvalue()


def tensor(kind="FloatStorage", shape=(4,), strides=(1,), flags=b"", name="w"):
    """The program of one tensor of a PyTorch file; ``flags``: what marks it as conjugated or negated."""
    identity = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text("0") + text("cpu") + integer(4) + b"tQ"
    view = identity + integer(0) + integers(shape) + integers(strides) + b"\x89}" + flags
    return text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + view + b"tR"


def torch_file(*tensors, compression=zipfile.ZIP_STORED):
    program = b"\x80\x02}(" + b"".join(tensors) + b"u."
    return archive({"m/data.pkl": program, "m/data/0": bytes(16)}, compression)


def legacy(tree, keys, tail=b""):
    values = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    return b"".join(pickle.dumps(value, 2) for value in values) + b"\x80\x02}(" + tree + b"u." + pickle.dumps(keys, 2) + tail


def npy(header, data=b""):
    raw = repr(header).encode().ljust(117) + b"\n" if isinstance(header, dict) else header
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(raw)) + raw + data


NEG = b"}" + text("neg") + b"\x88s"
CONJ = b"}" + text("conj") + b"\x88s"
HUGE = 10**5000
TYPED = b"ctorch._tensor\n_rebuild_from_type_v2\n"
CLASS = b"ctorch\nTensor\n"

#: name of the file -> content, and a part of the message
CASES = {
    "slices that are lists.pdparams": (pickle.dumps({"a": ONE, SPLIT: {"w": {"slices": [["a"]], "OriginShape": (4,)}}}), "slices of 'w'"),
    "slices named twice.pdparams": (
        pickle.dumps({"a": ONE, SPLIT: {"w": {"slices": ["a", "a"], "OriginShape": (8,)}}}),
        "slices of 'w' are not all there",
    ),
    "a table of slices that is a list.pdparams": (pickle.dumps({"a": ONE, SPLIT: [1]}), "what it says of slices is a list"),
    "a shape of None.pdparams": (pickle.dumps({"a": ONE, SPLIT: {"w": {"slices": ["a"], "OriginShape": (None,)}}}), "cannot be joined"),
    "types that are lists.pdparams": (
        pickle.dumps({"a": ONE}) + pickle.dumps({"paralign.dtypes": {"a": ["uint64"]}}),
        "bytes follow its end",
    ),
    "a key of 5000 digits.pdparams": (pickle.dumps({HUGE: ONE}), "a whole number takes 16610 bits"),
    "half a pair.pdparams": (pickle.dumps({"a\ud800": ONE}), "half of a surrogate pair"),
    "legacy keys that are lists.pth": (
        legacy(tensor(), [["0"]], struct.pack("<q", 4) + bytes(16)),
        "no tensor refers to the storage ['0']",
    ),
    "legacy of a huge version.pth": (legacy(tensor(), ["0"]).replace(pickle.dumps(1001, 2), pickle.dumps(HUGE, 2)), "16610 bits"),
    "booleans negated.pth": (torch_file(tensor("BoolStorage", flags=NEG)), "a tensor of bool is marked as negated"),
    "bfloat16 negated.pth": (torch_file(tensor("BFloat16Storage", shape=(2,), flags=NEG)), "a tensor of bfloat16 is marked as negated"),
    "floats conjugated.pth": (torch_file(tensor(flags=CONJ)), "a tensor of float32 is marked as conjugated"),
    "2 to the 62.pth": (torch_file(tensor(shape=(1 << 62, 4), strides=(0, 0))), "impossible shape (4611686018427387904, 4)"),
    "calls of calls.pth": (
        archive({"m/data.pkl": b"\x80\x02" + TYPED + (b"(" + TYPED + CLASS) * 3000 + b")" + b"Nt" * 3000 + b"R."}),
        "nested too deeply",
    ),
    "half a pair.safetensors": (safetensors({"a\ud800": entry()}, bytes(4)), "the name 'a\\ud800' holds half of a surrogate pair"),
    "pairs of pairs.safetensors": (
        safetensors({"__metadata__": {"paralign.complex128": "[" * 50_000}, "a": entry()}, bytes(4)),
        "'paralign.complex128' is no list",
    ),
    "pairs of numbers.safetensors": (
        safetensors({"__metadata__": {"paralign.complex128": "[1]"}, "a": entry()}, bytes(4)),
        "'paralign.complex128' is no list of names",
    ),
    "a name of 100 kB.safetensors": (safetensors({"n" * 100_000: entry()}, bytes(4)), "has a name of 100000 characters; at most 4096"),
    "a shape of huge numbers.safetensors": (safetensors({"a": entry([10**4000, 0], offsets=(0, 0))}), "impossible shape"),
    "a million axes.safetensors": (safetensors({"a": entry([2**62] * 100_000)}, bytes(4)), "impossible shape"),
    "hexadecimal.npy": (npy(b"{'descr':'<f4','fortran_order':False,'shape':(0x" + b"f" * 9000 + b",)}"), "impossible shape a value of"),
    "an index of itself.index.json": (b'{"weight_map": {"a": "an index of itself.index.json"}}', "no checkpoint of a known format"),
    "a shard of 5000 letters.index.json": (json.dumps({"weight_map": {"a": "x" * 5000}}).encode(), "File name too long"),
}


def looked_at(path):
    checkpoint = open_checkpoint(path)
    return [checkpoint.value(name) for name in checkpoint.names]


@pytest.mark.parametrize("name", CASES)
def test_files_that_lie_in_odd_ways_are_refused_in_one_line(tmp_path, capsys, name):
    data, what = CASES[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ParalignError) as caught:
        looked_at(path)
    assert what in caught.value.what
    assert len(caught.value.what) < QUOTED + 200
    for command in (["convert", "weights", str(path), str(tmp_path / "out.npz")], ["weights", "diff", str(path), str(path)]):
        assert main(command) in (2, 3)
    assert main(["compare", str(path), str(path)]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()


def repeated(count):
    """A little file of many tensors that are one element each, over and over."""
    return torch_file(*(tensor(shape=(1 << 24,), strides=(0,), name=f"w{number}") for number in range(count)))


def zeros(length):
    return archive({"w.npy": npy({"descr": "|u1", "fortran_order": False, "shape": (length,)}, bytes(length))}, zipfile.ZIP_DEFLATED)


def doubled(levels):
    """A pickle that holds one list twice in a list, that twice in a list, …"""
    value = [0]
    for _ in range(levels):
        value = [value, value]
    return pickle.dumps({"w": ONE, "x": value}, 2)


def deep_names():
    value = {str(number): ONE for number in range(20)}
    for _ in range(40):
        value = {"n" * 1000: value, "m": ONE}
    return pickle.dumps(value, 2)


#: name of the file -> content, the variable that allows it, and how much it asks for
COSTLY = {
    "many values.pdparams": (
        lambda: b"\x80\x02}(" + text("w") + pickle.dumps(ONE, 2)[2:-1] + text("x") + b"](" + b"N" * 2_100_000 + b"eu.",
        "VALUES",
    ),
    "doubled.pdparams": (lambda: doubled(40), "VALUES"),
    "repeated.pth": (lambda: repeated(20), "UNFOLDED"),
    "a packed program.pth": (lambda: archive({"m/data.pkl": b"\x80\x02" + bytes(30_000_000)}, zipfile.ZIP_DEFLATED), "UNFOLDED"),
    "a packed storage.pth": (
        lambda: archive({"m/data.pkl": b"\x80\x02}(" + tensor() + b"u.", "m/data/0": bytes(30_000_000)}, zipfile.ZIP_DEFLATED),
        "UNFOLDED",
    ),
    "zeros.npz": (lambda: zeros(30_000_000), "UNFOLDED"),
    "names below names.pdparams": (deep_names, "NAME"),
    "aliases.safetensors": (
        lambda: safetensors(
            {"__metadata__": {f"t{n}": "a" for n in range(300)}, "a": entry([1 << 18], offsets=(0, 1 << 20))}, bytes(1 << 20)
        ),
        "UNFOLDED",
    ),
    "many tensors.safetensors": (
        lambda: safetensors(b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % n for n in range(100_001)) + b"}"),
        "TENSORS",
    ),
    "a long header.safetensors": (lambda: safetensors(b'{"a":' + b"[" * ((1 << 24) + 1)), "HEADER"),
    "a long index.index.json": (lambda: b'{"a":' + b"[" * (1 << 24), "HEADER"),
}


@pytest.mark.parametrize("name", COSTLY)
def test_what_a_few_bytes_would_cost_is_refused_with_the_limit_and_what_raises_it(tmp_path, name, capsys, monkeypatch):
    build, limit = COSTLY[name]
    monkeypatch.setenv("PARALIGN_MAX_UNFOLDED", "20000000")  # bytes: a tenth of the usual size is packed
    path = tmp_path / name
    path.write_bytes(build())
    began = time.process_time()
    assert main(["convert", "weights", str(path), str(tmp_path / "out.npz")]) == 3
    assert time.process_time() - began < 20
    told = capsys.readouterr().err
    assert re.search(r"; at most \d+ are allowed", told)
    assert f"PARALIGN_MAX_{limit}=" in told
    assert not (tmp_path / "out.npz").exists()


def test_a_limit_that_is_raised_lets_the_file_through(tmp_path, monkeypatch):
    path = tmp_path / "x.pth"
    path.write_bytes(repeated(2))
    monkeypatch.setenv("PARALIGN_MAX_UNFOLDED", "1000")
    with pytest.raises(TooLarge) as caught:
        open_checkpoint(path)
    variable, _, amount = caught.value.hint.rpartition(": ")[2].partition("=")
    monkeypatch.setenv(variable, amount)
    assert len(open_checkpoint(path).names) == 2
    monkeypatch.setenv(variable, "9e9")
    with pytest.raises(UsageError, match="PARALIGN_MAX_UNFOLDED is '9e9', no whole number above 0"):
        open_checkpoint(path)


def test_arrays_that_compare_would_unpack_are_counted_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PARALIGN_MAX_UNFOLDED", "20000000")
    (tmp_path / "x.npz").write_bytes(zeros(30_000_000))
    with pytest.raises(TooLarge, match="the archive unpacks to 300001"):
        compare(tmp_path / "x.npz", tmp_path / "x.npz")


def test_keys_of_one_hash_do_not_take_hours(tmp_path):
    """Whole numbers that differ by 2**61 - 1 have one hash: a dict of n of them takes n² steps."""
    path = tmp_path / "x.pdparams"
    path.write_bytes(pickle.dumps({number * (2**61 - 1): None for number in range(1 << 7, 4000)}, 2))
    with pytest.raises(CaptureFormatError, match="more than 1000 of its keys are whole numbers of more than 64 bits"):
        open_checkpoint(path)


@pytest.mark.parametrize("made", ["pipe", "socket", "device"])
def test_what_is_no_file_on_a_disk_is_never_waited_for(tmp_path, made, capsys):
    path = tmp_path / "x.npy"
    if made == "pipe":
        os.mkfifo(path)
    elif made == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    for command in (
        ["compare", str(path), str(path)],
        ["convert", "weights", str(path), str(tmp_path / "o.npz")],
        ["weights", "diff", str(path), str(path)],
        ["check", str(path)],
        ["weights", "diff", str(path), str(path), "--rules", str(path)],
    ):
        assert main(command) in (2, 3), command
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000, "x" * 5000])
def test_paths_that_no_system_takes(tmp_path, path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (
        ["compare", path, path],
        ["convert", "weights", path, "o.npz"],
        ["weights", "diff", path, path],
        ["check", path],
        ["locate", path],
    ):
        assert main(command) in (2, 3), command
    assert "Traceback" not in capsys.readouterr().err
    save("a.npz", {"w": Typed(ONE, "float32")})
    for command in (
        ["convert", "weights", "a.npz", path + ".npz"],
        ["convert", "weights", "a.npz", "o.npz", "--rules", path],
        ["convert", "weights", "a.npz", "o.npz", "--save-rules", path],
        ["convert", "weights", "a.npz", "o.npz", "--max-shard-size", "9" * 400],
        ["init", path],
    ):
        assert main(command) in (2, 3), command
    assert "Traceback" not in capsys.readouterr().err


def test_names_that_an_archive_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="would have a name of 70000 characters; at most 4096"):
        save(tmp_path / "x.npz", {"n" * 70_000: Typed(ONE, "float32")})
    save(tmp_path / "x.npz", {"n" * 4000: Typed(ONE, "float32")})
    assert convert(tmp_path / "x.npz", tmp_path / "x.safetensors").tensors == 1


def test_a_name_that_no_terminal_can_show_ends_no_command(tmp_path):
    """Bytes of a file's name that are no UTF-8 come as halves of surrogate pairs."""
    import subprocess
    import sys

    path = tmp_path / os.fsdecode(b"\xff.npz")
    save(path, {"w": Typed(ONE, "float32")})
    done = subprocess.run([sys.executable, "-m", "paralign", "weights", "diff", path, path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_quoted_is_short_whatever_it_is():
    for value in ("x" * 10**6, b"x" * 10**6, [0] * 10**6, (HUGE,), {n: n for n in range(10**5)}, HUGE):
        assert len(quoted(value)) <= QUOTED


def test_an_unknown_complex_type_of_a_capture_is_damage(tmp_path):
    """Found by changing captures at random: a type that begins like a complex one was looked up as one."""
    from paralign.capture import Capture, CaptureWriter
    from paralign.model import Manifest

    with CaptureWriter(tmp_path / "capture", Manifest(stage="forward")) as writer:
        writer.add("c", Typed(np.ones(2, np.complex64), "complex64"), role="output")
    lines = tmp_path / "capture" / "records.jsonl"
    lines.write_text(lines.read_text().replace("complex64", "complex28"))
    capture = Capture.open(tmp_path / "capture")
    with pytest.raises(CaptureFormatError, match="was recorded as complex28"):
        capture.value(capture.records[0])
