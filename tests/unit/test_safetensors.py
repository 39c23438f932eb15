"""The safetensors codec: every type and layout, both ways against the safetensors package, every lie of a header."""

import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.capture.safetensors import CODES, TensorFile, pairs, write
from paralign.dtypes import STORAGE, Typed
from paralign.errors import CaptureFormatError, ParalignError, UnsupportedTensor, UsageError

LAYOUTS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "flipped": lambda a: a[tuple([slice(None, None, -1)] * a.ndim)],
    "sliced": lambda a: a[tuple([slice(None, None, 2)] * a.ndim)],
    "fortran": np.asfortranarray,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
}


@st.composite
def tensors(draw, names=tuple(CODES)):
    """A Typed of any type, shape and layout, with arbitrary bits."""
    name = draw(st.sampled_from(sorted(names)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    count = int(np.prod(shape))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = STORAGE[name]
    flat = np.frombuffer(random.bytes(count * dtype.itemsize), dtype) if name != "bool" else random.integers(0, 2, count).astype(bool)
    return Typed(LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](flat.reshape(shape)), name)


def bits(array):
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def same(value, expected):
    return value.dtype == expected.dtype and value.array.shape == expected.array.shape and bits(value.array) == bits(expected.array)


@given(
    st.dictionaries(st.text(min_size=1).filter(lambda name: name != "__metadata__"), tensors(), max_size=5),
    st.dictionaries(st.text(), st.text(), max_size=2),
)
def test_everything_reads_back(tmp_path_factory, values, metadata):
    path = tmp_path_factory.mktemp("codec") / "a.safetensors"
    write(path, values, metadata)
    file = TensorFile(path)
    assert set(file.entries) == set(values)
    assert file.metadata == metadata
    for name, expected in values.items():
        read = file.tensor(name)
        assert same(read, expected)
        assert read.array.flags.aligned
        assert not read.array.flags.writeable
    assert listing(path.parent) == ["a.safetensors"]


@given(tensors(names=["float32", "float64"]), st.sampled_from(sorted(LAYOUTS)))
def test_complex_tensors_travel_as_pairs(tmp_path_factory, part, layout):
    name = {"float32": "complex64", "float64": "complex128"}[part.dtype]
    real = np.ascontiguousarray(part.array, STORAGE[part.dtype]).reshape(part.array.shape)
    expected = Typed(LAYOUTS[layout](np.stack([real, real[::-1] if real.ndim else real], -1).view(name)[..., 0]), name)
    path = tmp_path_factory.mktemp("codec") / "a.safetensors"
    stored = pairs(expected)
    assert stored.array.shape == (*expected.array.shape, 2)
    write(path, {"x": stored})
    assert same(TensorFile(path).complex_tensor("x", name), expected)


@given(st.dictionaries(st.text("abcdef.0123", min_size=1), tensors(), max_size=4))
def test_the_safetensors_package_reads_ours(tmp_path_factory, values):
    package = pytest.importorskip("safetensors")
    path = tmp_path_factory.mktemp("codec") / "a.safetensors"
    write(path, values, {"format": "paralign"})
    read = dict(package.deserialize(path.read_bytes()))
    assert set(read) == set(values)
    for name, expected in values.items():
        assert read[name]["dtype"] == CODES[expected.dtype]
        assert tuple(read[name]["shape"]) == expected.array.shape
        assert bytes(read[name]["data"]) == bits(expected.array)
    with package.safe_open(str(path), framework="np") as file:
        assert file.metadata() == {"format": "paralign"}
        assert set(file.keys()) == set(values)


def serialized_by_the_package(package, values, metadata):
    """Through the function below its numpy module, which knows all types; its later versions take addresses."""
    data = {name: np.frombuffer(bits(value.array), np.uint8) for name, value in values.items()}
    if hasattr(package, "TensorSpec"):
        content = {
            name: package.TensorSpec(dtype=value.dtype, shape=value.array.shape, data_ptr=data[name].ctypes.data, data_len=data[name].size)
            for name, value in values.items()
        }
    else:
        content = {
            name: {"dtype": value.dtype, "shape": list(value.array.shape), "data": data[name].tobytes()} for name, value in values.items()
        }
    return bytes(package.serialize(content, metadata))


@given(st.dictionaries(st.text("abcdef.0123", min_size=1), tensors(), max_size=4))
def test_we_read_the_safetensors_package(tmp_path_factory, values):
    package = pytest.importorskip("safetensors")
    path = tmp_path_factory.mktemp("codec") / "a.safetensors"
    path.write_bytes(serialized_by_the_package(package, values, {"a": "b"}))
    file = TensorFile(path)
    assert file.metadata == {"a": "b"}
    for name, expected in values.items():
        assert same(file.tensor(name), expected)


def test_the_packages_numpy_functions_agree(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "zero": np.array(2.5), "empty": np.zeros((0, 4), np.int16)}
    write(tmp_path / "ours", {name: Typed(array.T, str(array.dtype)) for name, array in values.items()})
    read = package.load_file(str(tmp_path / "ours"))
    package.save_file(values, str(tmp_path / "theirs"))
    theirs = TensorFile(tmp_path / "theirs")
    for name, array in values.items():
        np.testing.assert_array_equal(read[name], array.T)
        np.testing.assert_array_equal(theirs.tensor(name).array, array)
        assert read[name].shape == array.T.shape


def test_nothing_is_copied_when_reading(tmp_path):
    write(tmp_path / "a", {"x": Typed(np.arange(1000.0), "float64")})
    file = TensorFile(tmp_path / "a")
    one, two = file.tensor("x").array, file.tensor("x").array
    assert isinstance(one.base, np.memmap)
    assert np.shares_memory(one, two)
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1


def test_data_begin_aligned_and_fall_in_element_size(tmp_path):
    write(
        tmp_path / "a",
        {"u": Typed(np.zeros(3, np.uint8), "uint8"), "d": Typed(np.zeros(3), "float64"), "h": Typed(np.zeros(1, np.uint16), "bfloat16")},
    )
    entries = TensorFile(tmp_path / "a").entries
    assert entries["d"].start % 64 == 0
    assert entries["d"].start < entries["h"].start < entries["u"].start


def raw(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


DAMAGED = {
    "a header longer than the file": (({"a": entry()}, b"1234", 10**15), "claims a header of 1000000000000000 bytes"),
    "a header that ends early": (({"a": entry()}, b"1234", 20), "the header is damaged"),
    "no JSON": ((b"{nonsense", b""), "the header is damaged"),
    "no object": ((b"[1]", b""), "it is no JSON object"),
    "no UTF-8": ((b'{"\xff": 1}', b""), "the header is damaged"),
    "endless nesting": ((b"[" * 200_000, b""), "the header is damaged"),
    "the same name twice": ((b'{"a": 1, "a": 2}', b""), "the name 'a' stands in it twice"),
    "metadata that are no texts": (({"__metadata__": {"a": 1}}, b""), "its metadata are no texts by name"),
    "a missing field": (({"a": {"dtype": "F32", "shape": []}}, b""), "tensor 'a': it must have dtype, shape and data_offsets"),
    "a field too many": (({"a": {**entry(), "more": 1}}, b"1234"), "and nothing else"),
    "an unknown type": (({"a": entry("F3")}, b"1234"), "tensor 'a' has the element type 'F3', which is not known here"),
    "a type that is no text": (({"a": entry([])}, b"1234"), "element type []"),
    "a negative shape": (({"a": entry(shape=(-1,))}, b"1234"), "its shape [-1] is no list"),
    "a shape of truth values": (({"a": entry(shape=(True,))}, b"1234"), "its shape [True] is no list"),
    "a shape of fractions": (({"a": entry(shape=(1.0,))}, b"1234"), "its shape [1.0] is no list"),
    "offsets the wrong way round": (({"a": entry(offsets=(4, 0))}, b"1234"), "its data_offsets [4, 0] are no start and stop"),
    "three offsets": (({"a": entry(offsets=(0, 1, 4))}, b"1234"), "are no start and stop"),
    "a shape that lies": (({"a": entry(shape=(2,))}, b"1234"), "shape [2] of F32 takes 8 bytes, its data_offsets hold 4"),
    "overlap": (({"a": entry(), "b": entry(offsets=(2, 6))}, b"123456"), "tensors 'a' and 'b' overlap"),
    "a hole": (({"a": entry(), "b": entry(offsets=(6, 10))}, b"1234567890"), "2 bytes before tensor 'b' belong to no tensor"),
    "a hole at the start": (({"a": entry(offsets=(1, 5))}, b"12345"), "1 bytes before tensor 'a' belong to no tensor"),
    "truncated data": (({"a": entry()}, b"123"), "the file is truncated: its tensors take 4 bytes, 3 are there"),
    "data too many": (({"a": entry()}, b"12345"), "the file has 1 bytes after its last tensor"),
    "a huge claim": (({"a": entry(shape=(10**12,), offsets=(0, 4 * 10**12))}, b"1234"), "4000000000000 bytes, 4 are there"),
}


@pytest.mark.parametrize("case", sorted(DAMAGED))
def test_damage_is_named(tmp_path, case):
    arguments, message = DAMAGED[case]
    path = raw(tmp_path / "bad.safetensors", *arguments)
    with pytest.raises(CaptureFormatError) as caught:
        TensorFile(path)
    assert message in str(caught.value)
    assert caught.value.where == str(path)
    assert caught.value.hint


def test_impossible_shapes_are_named(tmp_path):
    for number, shape in enumerate([(0, 2**70), (0, 2**62, 2**62), (1,) * 80]):
        offsets = (0, 4 * int(0 not in shape))
        path = raw(tmp_path / f"{number}", {"a": entry(shape=shape, offsets=offsets)}, b"1234"[: offsets[1]])
        with pytest.raises(CaptureFormatError, match="tensor 'a' has the impossible shape"):
            TensorFile(path).tensor("a")


def test_missing_empty_and_short_files_are_named(tmp_path):
    with pytest.raises(CaptureFormatError, match="cannot be read: No such file"):
        TensorFile(tmp_path / "missing")
    for content in (b"", b"1234567"):
        (tmp_path / "short").write_bytes(content)
        with pytest.raises(CaptureFormatError, match=f"truncated: it has {len(content)} bytes"):
            TensorFile(tmp_path / "short")
    with pytest.raises(CaptureFormatError):
        TensorFile(tmp_path)


@given(st.data())
def test_any_damage_is_an_error_of_ours_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("codec") / "a"
    write(path, {"a": Typed(np.arange(3, dtype=np.float32), "float32"), "b": Typed(np.zeros((2, 2), np.int8), "int8")})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with contextlib.suppress(CaptureFormatError):
        file = TensorFile(path)
        for name in file.entries:
            file.tensor(name)


def test_unknown_tensors_and_wrong_pairs_are_named(tmp_path):
    write(tmp_path / "a", {"x": Typed(np.zeros(3, np.float32), "float32")})
    file = TensorFile(tmp_path / "a")
    with pytest.raises(CaptureFormatError, match="holds no tensor 'y'"):
        file.tensor("y")
    with pytest.raises(CaptureFormatError, match="should hold complex64 as pairs of float32, it holds float32 of shape \\(3,\\)"):
        file.complex_tensor("x", "complex64")


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("__metadata__", Typed(np.zeros(1), "float64"), UsageError, "cannot be called __metadata__"),
        ("x", Typed(np.zeros(1, complex), "complex128"), UnsupportedTensor, "tensor 'x' of type complex128 has no code"),
        ("x", Typed(np.zeros(1), "object"), UnsupportedTensor, "tensor 'x' of type object has no code"),
        ("x", Typed(np.zeros(1, np.float32), "bfloat16"), UnsupportedTensor, "'x' is said to be bfloat16, its storage is float32"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path, name, value, error, message):
    with pytest.raises(error, match=message):
        write(tmp_path / "a", {name: value})
    assert listing(tmp_path) == []


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    value = {"x": Typed(np.zeros(1), "float64")}
    with pytest.raises(UsageError, match="cannot be written: No such file") as caught:
        write(tmp_path / "missing" / "a", value)
    assert isinstance(caught.value, ParalignError)
    (tmp_path / "a").mkdir()
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        write(tmp_path / "a", value)
    assert listing(tmp_path) == ["a"]


def test_an_older_file_is_replaced_whole(tmp_path):
    write(tmp_path / "a", {"x": Typed(np.zeros(100), "float64")})
    before = TensorFile(tmp_path / "a")
    write(tmp_path / "a", {"y": Typed(np.ones(1), "float64")})
    assert set(TensorFile(tmp_path / "a").entries) == {"y"}
    assert before.tensor("x").array.sum() == 0  # a reader of the old file keeps it
