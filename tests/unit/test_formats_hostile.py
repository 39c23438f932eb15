"""Damaged, lying and malicious checkpoints: refused with a message that says what and where; nothing in them is run."""

import contextlib
import io
import json
import os
import pickle
import resource
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.dtypes import Typed
from paralign.errors import CaptureFormatError, ParalignError, UnsafeFile, UnsupportedTensor, UsageError
from paralign.formats import convert, open_checkpoint, save
from paralign.formats.opcodes import integer, integers, text

ONE = np.arange(4, dtype=np.float32)


class Code:
    """What pickle would call on loading."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def values(path):
    checkpoint = open_checkpoint(path)
    return [checkpoint.value(name) for name in checkpoint.names]


def refused(path, kind=CaptureFormatError):
    with pytest.raises(kind) as caught:
        values(path)
    assert caught.value.hint
    assert str(path.parent) in caught.value.where
    return caught.value.what


# pickles with code


def torch_zip(program, storages=None, **more):
    """A torch archive with any program."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", program)
        for key, data in (storages or {"0": ONE.tobytes()}).items():
            archive.writestr(f"m/data/{key}", data)
        for name, data in more.items():
            archive.writestr(f"m/{name}", data)
    return stream.getvalue()


def legacy(*values, tail=b""):
    """A file of the older layout: pickles of values, programs as they are."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True}]
    return b"".join(v if isinstance(v, bytes) else pickle.dumps(v, 2) for v in (*head, *values)) + tail


def npy_dict(value):
    stream = io.BytesIO()
    np.save(stream, np.array(value, dtype=object), allow_pickle=True)
    return stream.getvalue()


WRAPPED = [
    lambda code: code,
    lambda code: {"w": ONE, "x": code},
    lambda code: {"state_dict": {"w": ONE}, "args": [{"deep": (1, {"er": code})}]},
    lambda code: {"optimizer": {"state": {0: code}}, "w": ONE},
    lambda code: ("w", [code, ONE]),
]


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("file", ["x.pdparams", "zip.pth", "legacy.pth", "x.npy"])
def test_code_at_any_depth_of_any_pickle_is_refused_and_not_run(tmp_path, wrap, protocol, file):
    marker = tmp_path / "was run"
    program = pickle.dumps(wrap(Code(os.mkdir, str(marker))), protocol)
    data = {
        "x.pdparams": program,
        "zip.pth": torch_zip(program),
        "legacy.pth": legacy(program, []),
        "x.npy": npy_dict(wrap(Code(os.mkdir, str(marker)))),
    }[file]
    (tmp_path / file).write_bytes(data)
    assert refused(tmp_path / file, UnsafeFile) == "the file refers to posix.mkdir, which is refused; nothing of it was run"
    assert not marker.exists()


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.", "the file refers to builtins.eval, which is refused"),
        (b"cos\nsystem\n.", "the file refers to os.system, which is refused"),
        (b"\x80\x04\x8c\x03os\n\x8c\x01a\x93.", "the file refers to os\\u000a.a, which is refused"),
        (b"ctorch\nload\n.", "the file refers to torch.load, which is refused"),
        (b"ctorch.storage\n_load_from_bytes\n(C\x01xtR.", "the file refers to torch.storage._load_from_bytes, which is refused"),
        (b"ctorch.hub\nload\n.", "the file refers to torch.hub.load, which is refused"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
            "the file refers to torch._utils._rebuild_tensor_v2.__globals__, which is refused",
        ),
        (b"ctorch\nFloatStorage\n(tR.", "the file calls a _Kind"),
        (b"ctorch\nTensor\n)\x81.", "the file uses the pickle operation NEWOBJ"),
        (b"(X\x01\x00\x00\x00aios\nsystem\n.", "the file uses the pickle operation INST"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\neval\n", "the file refers to builtins.eval"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(cnumpy\nndarray\nctorch\nTensor\n)NtR.", "the file calls a numpy.ndarray"),
        (b"(X\x06\x00\x00\x00modulectorch\nTensor\nX\x01\x00\x00\x00fX\x01\x00\x00\x00stQ.", "the file holds a whole model"),
        (b"Pabc\n.", "the file uses the pickle operation PERSID"),
        (b"\x82\x01.", "the file uses the pickle operation EXT1"),
    ],
)
def test_names_and_operations_that_tensors_do_not_need(tmp_path, program, what):
    for name, data in (("a.pth", torch_zip(b"\x80\x02" + program)), ("b.pth", legacy(b"\x80\x02" + program, []))):
        (tmp_path / name).write_bytes(data)
        assert refused(tmp_path / name, UnsafeFile).startswith(what)


def test_a_storage_in_a_file_of_paddle_is_refused(tmp_path):
    (tmp_path / "x.pdparams").write_bytes(b"\x80\x02}X\x01\x00\x00\x00wX\x01\x00\x00\x000Qs.")
    assert refused(tmp_path / "x.pdparams", UnsafeFile).startswith("the file uses the pickle operation BINPERSID")
    (tmp_path / "x.pdparams").write_bytes(pickle.dumps({"w": ONE}, 4) + pickle.dumps(Code(os.mkdir, "x"), 4))
    assert refused(tmp_path / "x.pdparams", UnsafeFile).startswith("the file refers to posix.mkdir")


# torch: tensors that lie


def tensor(storage="0", kind="FloatStorage", elements=4, offset=0, shape=(4,), strides=(1,), dtype=None):
    """The program of one tensor."""
    identity = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(storage) + text("cpu") + integer(elements) + b"tQ"
    view = identity + integer(offset) + integers(shape) + integers(strides) + b"\x89}"
    function, more = ("_rebuild_tensor_v3", f"ctorch\n{dtype}\n".encode()) if dtype else ("_rebuild_tensor_v2", b"")
    return b"\x80\x02}" + text("w") + f"ctorch._utils\n{function}\n(".encode() + view + more + b"tRs."


def test_a_tensor_that_is_true_is_read(tmp_path):
    (tmp_path / "x.pth").write_bytes(
        torch_zip(tensor(offset=1, shape=(2, 2), strides=(2, 1), elements=4), {"0": np.arange(5.0, dtype="f4").tobytes()})
    )
    assert open_checkpoint(tmp_path / "x.pth").value("w").array.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"shape": (5,)}, r"a tensor of shape (5,) and strides (1,) from element 0 does not lie in its storage of 16 bytes"),
        ({"offset": 1}, "does not lie in its storage of 16 bytes"),
        ({"offset": 1 << 62}, "does not lie in its storage of 16 bytes"),
        ({"shape": (2, 2), "strides": (1 << 62, 1)}, "does not lie in its storage of 16 bytes"),
        ({"kind": "DoubleStorage"}, "the storage '0' should have 4 elements of float64, it has 16 bytes"),
        ({"elements": 1 << 40}, f"the storage '0' should have {1 << 40} elements of float32, it has 16 bytes"),
        ({"storage": "7"}, "the storage '7' is not in it"),
        ({"storage": "../data.pkl"}, "the storage '../data.pkl' is not in it"),
        ({"strides": (1, 1)}, "a tensor's offset, shape and strides are no whole numbers from 0, as many of each"),
        ({"shape": (1,) * 70, "strides": (1,) * 70}, "a tensor has the impossible shape"),
        ({"shape": (1 << 40, 1 << 40), "strides": (0, 0)}, "a tensor has the impossible shape"),
        ({"kind": "UntypedStorage", "dtype": "uint16", "elements": 16, "shape": (9,)}, "does not lie in its storage"),
    ],
)
def test_tensors_that_lie_about_their_storage(tmp_path, options, what):
    (tmp_path / "x.pth").write_bytes(torch_zip(tensor(**options)))
    message = refused(tmp_path / "x.pth")
    assert message.startswith("the file is truncated or damaged: ") or "the pickle inside" in message
    assert what in message


def test_negative_offsets_and_strides(tmp_path):
    for field in (b"J\xff\xff\xff\xff", b"\x89", b"G" + b"\0" * 8):
        program = tensor().replace(integer(0) + integers((4,)), field + integers((4,)), 1)
        (tmp_path / "x.pth").write_bytes(torch_zip(program))
        assert "the pickle inside is truncated or damaged" in refused(tmp_path / "x.pth")
    program = tensor().replace(integers((4,)) + integers((1,)), integers((4,)) + b"(J\xff\xff\xff\xfft", 1)
    (tmp_path / "x.pth").write_bytes(torch_zip(program))
    assert "no whole numbers from 0" in refused(tmp_path / "x.pth")


def test_element_types_that_are_not_known(tmp_path):
    (tmp_path / "x.pth").write_bytes(torch_zip(tensor(kind="UntypedStorage", dtype="float8_e4m3fnuz", elements=16)))
    assert refused(tmp_path / "x.pth", UnsupportedTensor) == "a tensor has the element type torch.float8_e4m3fnuz, which is not known here"
    (tmp_path / "x.pth").write_bytes(torch_zip(tensor(kind="QInt8Storage")))
    assert refused(tmp_path / "x.pth", UnsafeFile).startswith("the file refers to torch.QInt8Storage")


def test_a_little_file_that_spans_a_huge_tensor_takes_no_memory(tmp_path, monkeypatch):
    """Stride 0 repeats an element: torch may save such a tensor; whoever allows it gets a view, and what it takes on disk is asked first."""
    (tmp_path / "x.pth").write_bytes(torch_zip(tensor(shape=(1 << 30, 1 << 20), strides=(0, 0))))
    assert f"the tensors of this file unfold to {1 << 52} bytes; at most {1 << 28} are allowed" in refused(tmp_path / "x.pth")
    monkeypatch.setenv("PARALIGN_MAX_UNFOLDED", str(1 << 52))
    assert open_checkpoint(tmp_path / "x.pth").value("w").array[5, 5] == 0
    with pytest.raises(UsageError, match=rf"the disk is too full: {(1 << 52)}\d* bytes|the disk is too full: \d+ bytes are needed"):
        convert(tmp_path / "x.pth", tmp_path / "y.safetensors")
    assert not (tmp_path / "y.safetensors").exists()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (torch_zip(tensor(), byteorder=b"middle"), "its byte order is b'middle'"),
        (torch_zip(b"\x80\x02}"), "the pickle inside is truncated or damaged: it ends before STOP"),
        (torch_zip(b"\x80\x02K\x01."), "the file holds no tensors, only a value of type int"),
        (legacy(), "the pickle inside is truncated or damaged"),
        (legacy(tensor(), ["1"]), "no tensor refers to the storage '1'"),
        (legacy(tensor(), ["0"]), "bytes"),
        (legacy(tensor(), ["0"], tail=struct.pack("<q", 4) + b"\0" * 15), "are asked of its"),
        (legacy(tensor(), ["0"], tail=struct.pack("<q", -4) + b"\0" * 16), "are asked of its"),
        (legacy(tensor(), ["0"], tail=struct.pack("<q", 1 << 61) + b"\0" * 16), "are asked of its"),
        (legacy(tensor(), ["0"], tail=struct.pack("<q", 4) + b"\0" * 17), "1 bytes follow its end"),
        (legacy(tensor(), []), "the storage '0' is not in it"),
        (legacy(tensor(), 3), "its version is 1001"),
        (pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(7) + legacy({}, [])[60:], ""),
    ],
)
def test_torch_files_that_are_damaged(tmp_path, data, what):
    (tmp_path / "x.pth").write_bytes(data)
    assert what in refused(tmp_path / "x.pth")


# zip archives


def test_a_member_that_is_packed_is_read_within_bounds(tmp_path):
    """torch does not pack storages; archives that someone packed again are read all the same."""
    with (
        zipfile.ZipFile(io.BytesIO(torch_zip(tensor()))) as plain,
        zipfile.ZipFile(tmp_path / "x.pth", "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    assert open_checkpoint(tmp_path / "x.pth").value("w").array.tolist() == [0, 1, 2, 3]
    convert(tmp_path / "x.pth", tmp_path / "y.pth")
    assert open_checkpoint(tmp_path / "y.pth").value("w").array.tolist() == [0, 1, 2, 3]


def patched(data, name, *, directory=None, local=None):
    """An archive with fields of one member changed: ``{offset in its record: bytes}``."""
    data = bytearray(data)
    for signature, width, changes in ((b"PK\1\2", 46, directory), (b"PK\3\4", 30, local)):
        start = data.find(signature)
        while changes and data[start + width : start + width + len(name)] != name.encode():
            start = data.find(signature, start + 1)
            assert start > 0
        for offset, value in (changes or {}).items():
            data[start + offset : start + offset + len(value)] = value
    return bytes(data)


def size(value):
    return struct.pack("<I", value)


def packed(data):
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as plain, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    return stream.getvalue()


PLAIN = torch_zip(tensor(), {"0": np.random.default_rng(0).bytes(1000)})


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (patched(PLAIN, "m/data/0", directory={24: size(2000)}), "'m/data/0' is not packed and yet claims 2000 bytes of 1000"),
        (patched(packed(PLAIN), "m/data/0", directory={24: size(1 << 31)}), f"'m/data/0' claims to unpack 1005 bytes to {1 << 31}"),
        (patched(packed(PLAIN), "m/data/0", directory={24: size(900)}), "'m/data/0' does not unpack to what the archive's directory says"),
        (patched(packed(PLAIN), "m/data/0", directory={24: size(1100)}), "'m/data/0' does not unpack to what the archive's directory says"),
        (patched(packed(PLAIN), "m/data/0", directory={16: size(7)}), "'m/data/0' does not unpack to what the archive's directory says"),
        (patched(PLAIN, "m/data/0", directory={8: b"\1\0"}), "'m/data/0' is encrypted or packed in an unusual way"),
        (patched(PLAIN, "m/data/0", directory={10: b"\x0c\0"}), "'m/data/0' is encrypted or packed in an unusual way"),
        (patched(PLAIN, "m/data/0", directory={42: size(0)}), "overlap"),
        (patched(PLAIN, "m/data/0", directory={42: size(3)}), "'m/data/0' has no header"),
        (patched(PLAIN, "m/data/0", directory={42: size(1 << 30)}), "bytes"),
        (patched(PLAIN, "m/data/0", directory={20: size(1 << 30), 24: size(1 << 30)}), "are asked of its"),
        (patched(PLAIN, "m/data/0", local={28: b"\xff\0"}), "are asked of its"),
        (PLAIN[:-30], "its directory cannot be read"),
        (PLAIN[:200], "its directory cannot be read"),
    ],
)
def test_archives_that_lie(tmp_path, data, what):
    (tmp_path / "x.pth").write_bytes(data)
    assert what in refused(tmp_path / "x.pth")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name_and_two_checkpoints(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        archive.writestr("m/data.pkl", tensor())
        archive.writestr("m/data.pkl", tensor())
    assert "two members called 'm/data.pkl'" in refused(tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        archive.writestr("m/data.pkl", tensor())
        archive.writestr("n/data.pkl", tensor())
    assert "it holds 2 checkpoints: m/data.pkl, n/data.pkl" in refused(tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("virus.exe", b"MZ")
    assert refused(tmp_path / "x.npz", UnsafeFile) == "the archive holds 'virus.exe', which is no array"


def test_a_bomb_is_opened_without_being_unpacked(tmp_path, monkeypatch):
    """Opening reads headers only, of a bomb that the user trusts; what unpacks to more than the archive's directory says ends there."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("w.npy", "w") as stream:
        stream.write(header.getvalue())
        for _ in range(64):
            stream.write(bytes(1 << 24))
    packed_size = (tmp_path / "x.npz").stat().st_size
    assert packed_size < 6 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "the archive unpacks to 1073741952 bytes; at most 268435456 are allowed" in refused(tmp_path / "x.npz")
    monkeypatch.setenv("PARALIGN_MAX_UNFOLDED", str(1 << 31))
    assert open_checkpoint(tmp_path / "x.npz").entries["w"].nbytes == 1 << 30
    data = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "y.npz").write_bytes(patched(data, "w.npy", directory={24: size(len(header.getvalue()) + 400)}))
    assert "does not take 400 bytes" in refused(tmp_path / "y.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_member_that_unpacks_to_more_than_it_says_is_not_unpacked_to_its_end(tmp_path):
    """The bytes beyond what is announced are never asked for."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (100,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", header.getvalue() + bytes(1 << 26))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lying = patched((tmp_path / "x.npz").read_bytes(), "w.npy", directory={24: size(len(header.getvalue()) + 400)})
    (tmp_path / "x.npz").write_bytes(lying)
    assert "'w.npy' does not unpack to what the archive's directory says" in refused(tmp_path / "x.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 << 10


# safetensors and their shards


def safetensors(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(start, stop, shape=None, dtype="F32"):
    return {"dtype": dtype, "shape": [(stop - start) // 4] if shape is None else shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (safetensors({"a": entry(0, 8), "b": entry(4, 12)}, bytes(12)), "tensors 'a' and 'b' overlap"),
        (safetensors({"a": entry(0, 8), "b": entry(0, 8)}, bytes(8)), "tensors 'a' and 'b' overlap"),
        (safetensors({"a": entry(0, 8), "b": entry(12, 16)}, bytes(16)), "4 bytes before tensor 'b' belong to no tensor"),
        (safetensors({"a": entry(0, 8)}, bytes(7)), "the file is truncated: its tensors take 8 bytes, 7 are there"),
        (safetensors({"a": entry(0, 8)}, bytes(9)), "the file has 1 bytes after its last tensor"),
        (safetensors({"a": entry(0, 8, [3])}, bytes(8)), "shape [3] of F32 takes 12 bytes, its data_offsets hold 8"),
        (safetensors({"a": entry(0, 8, [3], "C64")}, bytes(8)), "at tensor 'a'"),
        (safetensors({"a": entry(0, 8, [1] * 80 + [2])}, bytes(8)), "tensor 'a' has the impossible shape"),
        (safetensors({"a": entry(0, 8, [2], "F4")}, bytes(8)), "tensor 'a' has the element type 'F4', which is not known here"),
        (safetensors({"a": entry(0, 8, [-2])}, bytes(8)), "its shape [-2] is no list of whole numbers from 0"),
        (
            safetensors(
                b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)
            ),
            "the name 'a' stands in it twice",
        ),
        (safetensors(b'{"a":'), "the header is damaged"),
        (safetensors(b'{"__metadata__":{"a":3}}'), "its metadata are no texts by name"),
        (
            safetensors({"__metadata__": {"paralign.complex128": "{"}, "a": entry(0, 8)}, bytes(8)),
            "its metadata 'paralign.complex128' is no list",
        ),
        (
            safetensors({"__metadata__": {"paralign.complex128": '["a"]'}, "a": entry(0, 8)}, bytes(8)),
            "tensor 'a' should hold pairs of float64, it holds float32 of shape (2,)",
        ),
        (struct.pack("<Q", 1 << 60) + b"{}", "it claims a header of"),
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "the file is a pointer of git-lfs"),
        (b"\0" * 257 + b"ustar" + b"\0" * 300, "the file is a tar archive"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 100, "the file is HDF5"),
        (b"hello world, I am no checkpoint", "the file is no checkpoint of a known format"),
    ],
)
def test_files_that_are_damaged_or_something_else(tmp_path, data, what):
    (tmp_path / "x.safetensors").write_bytes(data)
    assert what in refused(tmp_path / "x.safetensors")


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(UsageError, match="the file cannot be read: No such file"):
        open_checkpoint(tmp_path / "none.pth")


@pytest.fixture
def shards(tmp_path):
    tensors = {name: Typed(np.full((2, 3), i, np.float32), "float32") for i, name in enumerate("abc")}
    save(tmp_path / "m.safetensors", tensors, max_shard_bytes=24)
    return tmp_path / "m.safetensors.index.json"


def changed(index, **weights):
    content = json.loads(index.read_text())
    content["weight_map"].update(weights)
    index.write_text(json.dumps(content))
    return index


def test_missing_and_truncated_shards(tmp_path, shards):
    second = tmp_path / "m-00002-of-00003.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:-1])
    assert "the file is truncated: its tensors take 24 bytes, 23 are there" in refused(shards)
    second.unlink()
    assert refused(shards) == "1 of 3 shards are missing: m-00002-of-00003.safetensors"
    second.mkdir()
    assert refused(shards) == "1 of 3 shards are missing: m-00002-of-00003.safetensors"


@pytest.mark.parametrize("name", ["../m.safetensors", "/etc/passwd", "..", ".", "", "a/b", "..\\x", "C:\\x", "x\0"])
def test_an_index_that_leads_outside_its_folder(tmp_path, shards, name):
    (tmp_path.parent / "m.safetensors").write_bytes(b"")
    assert refused(changed(shards, a=name)) == f"the index names the file {name!r}, which is not one beside it"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'{"weight_map": {"a": "x", "a": "y"}}', "the name 'a' stands in it twice"),
        (b'{"weight_map": ["a"]}', "the index has no weight_map"),
        (b'{"weight_map": {"a": 3}}', "the index has no weight_map"),
        (b'{"metadata": {}}', "the index has no weight_map"),
        (b'{"weight_map": {', "the index is no JSON"),
        (b'{"weight_map": ' + b"[" * 100_000, "the index is no JSON"),
    ],
)
def test_indexes_that_are_damaged(tmp_path, content, what):
    (tmp_path / "x.index.json").write_bytes(content)
    assert what in refused(tmp_path / "x.index.json")


def test_an_index_that_does_not_fit_its_shards(tmp_path, shards):
    assert "the shard m-00001-of-00003.safetensors does not hold 'd', which the index expects" in refused(
        changed(shards, d="m-00001-of-00003.safetensors")
    )
    content = json.loads(shards.read_text())
    del content["weight_map"]["d"], content["weight_map"]["b"]
    content["weight_map"]["c"] = "m-00003-of-00003.safetensors"
    shards.write_text(json.dumps(content))
    assert open_checkpoint(shards).names == ["a", "c"]
    save(tmp_path / "m-00001-of-00003.safetensors", {n: Typed(np.ones(2, np.float32), "float32") for n in "ac"}, overwrite=True)
    assert refused(shards) == "'c' is in two shards, m-00003-of-00003.safetensors and m-00001-of-00003.safetensors"
    save(tmp_path / "m-00001-of-00003.safetensors", {n: Typed(np.ones(2, np.float32), "float32") for n in "ax"}, overwrite=True)
    assert open_checkpoint(shards).ignored == ["m-00001-of-00003.safetensors: x"]


# paddle


def test_paddle_files_that_are_damaged(tmp_path):
    big = np.arange(5000, dtype=np.float32)
    path = tmp_path / "x.pdparams"
    whole = pickle.dumps({"w": big, "v": big + 1}, 4)
    for cut in (1, 10, 100, 15_000, 30_000):
        path.write_bytes(whole[:-cut])
        assert "the pickle inside is truncated or damaged" in refused(path)
    path.write_bytes(whole + b"tail")
    assert "damaged" in refused(path)
    path.write_bytes(whole + pickle.dumps({"other": 1}))
    assert refused(path) == "the file is truncated or damaged: bytes follow its end"
    path.write_bytes(whole + pickle.dumps({"paralign.dtypes": {"w": "uint64"}}))
    assert "it says that 'w' is uint64, what is stored is not" in refused(path)
    path.write_bytes(whole + pickle.dumps({"paralign.dtypes": {"none": "uint64"}}))
    assert "it says that 'none' is uint64, what is stored is not" in refused(path)
    path.write_bytes(whole.replace(b"M\x88\x13", b"M\x89\x13"))
    assert "an array of shape (5001,) and type float32 does not take 20000 bytes" in refused(path)
    for told in (
        3,
        {"slices": ["none"], "OriginShape": (2,)},
        {"slices": ["a"], "OriginShape": (3,)},
        {"slices": [], "OriginShape": (-1,)},
    ):
        path.write_bytes(pickle.dumps({"a": ONE, "UnpackBigParamInfor@@": {"w": told}}, 2))
        assert "slices of" in refused(path)
    path.write_bytes(pickle.dumps({"a": ONE, "w": ONE, "UnpackBigParamInfor@@": {"w": {"slices": ["a"], "OriginShape": (4,)}}}, 2))
    assert "two tensors are called 'w'" in refused(path)


def test_texts_that_stand_for_arrays_and_hold_something_else(tmp_path):
    big = np.full(5000, 0x41, np.uint8)
    path = tmp_path / "x.pdparams"
    whole = pickle.dumps({"w": big}, 2)
    assert whole.count(b"A" * 5000) == 1
    path.write_bytes(whole)
    assert np.array_equal(open_checkpoint(path).value("w").array, big)
    for bad, what in (
        (b"\xc3\xa9" + b"A" * 4998, "does not take 4999 bytes"),
        ("€".encode() + b"A" * 4997, "holds something else"),
        (b"\xff" + b"A" * 4999, "holds something else"),
        (b"A" * 4999 + b"\xc3", "holds something else"),
    ):
        path.write_bytes(whole.replace(b"A" * 5000, bad))
        assert what in refused(path)


def test_one_array_recalled_without_end(tmp_path):
    """A file that names its own bytes again and again would take more room than it has bytes."""
    path = tmp_path / "x.pdparams"
    path.write_bytes(pickle.dumps([np.zeros(20_000, np.uint8)] * 5000, 4))
    checkpoint = open_checkpoint(path)
    assert len(checkpoint.aliases) == 4999  # one array: nothing was multiplied
    data = np.zeros(20_000, np.uint8).tobytes()
    path.write_bytes(pickle.dumps([Code(_FROM, data, np.dtype("u1"), (20_000,), "C") for _ in range(500)], 4))
    assert "it repeats its data without end" in refused(path)


_FROM = np.zeros(1).__reduce_ex__(5)[0]


# anything


SEEDS = [
    PLAIN,
    packed(PLAIN),
    legacy(tensor(), ["0"], tail=struct.pack("<q", 4) + ONE.tobytes()),
    pickle.dumps({"w": np.zeros(2000), "v": ONE}, 4),
    pickle.dumps({"w": np.zeros(2000), "v": ONE}, 2),
    safetensors({"a": entry(0, 8), "b": entry(8, 12)}, bytes(12)),
    npy_dict({"w": ONE}),
]


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), max_size=4),
    st.integers(0, 1 << 16),
)
def test_damage_of_any_kind_is_an_error_of_ours_or_harmless(tmp_path_factory, seed, changes, cut):
    data = bytearray(seed)
    for place, value in changes:
        data[place % len(data) : place % len(data) + len(value)] = value
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(data[:cut] if cut % 3 == 0 else data)
    with contextlib.suppress(ParalignError):
        values(path)
