"""Tensors taken apart and joined on their way from file to file."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.dtypes import STORAGE, Typed
from paralign.errors import UsageError
from paralign.formats import convert, open_checkpoint, save
from paralign.weights import Way

ALL = [".safetensors", ".npz", ".pdparams", ".pth"]


def matrix(rows, columns, start=0, dtype="float32"):
    return Typed(np.arange(start, start + rows * columns).astype(STORAGE[dtype]).reshape(rows, columns), dtype)


@pytest.mark.parametrize("suffix", ALL)
def test_projections_are_joined_and_taken_apart_again(tmp_path, suffix):
    parts = {name: matrix(4, 3, 100 * n) for n, name in enumerate("qkv")}
    save(tmp_path / "apart.npz", {**parts, "other": matrix(2, 2)})
    ways = [
        Way(name, "qkv", "transpose(1, 0)", f"transpose(1, 0) then rows({4 * n}, {4 * n + 4}) then transpose(1, 0)", (3, 12))
        for n, name in enumerate("qkv")
    ]
    summary = convert(tmp_path / "apart.npz", tmp_path / f"packed{suffix}", moves=ways)
    packed = open_checkpoint(tmp_path / f"packed{suffix}")
    assert (packed.names, summary.left) == (["qkv"], ["other"])
    assert np.array_equal(packed.value("qkv").array, np.concatenate([parts[n].array for n in "qkv"]).T)
    back = [Way("qkv", name, f"transpose(1, 0) then rows({4 * n}, {4 * n + 4})") for n, name in enumerate("qkv")]
    convert(packed, tmp_path / f"again{suffix}", moves=back)
    again = open_checkpoint(tmp_path / f"again{suffix}")
    assert {n: again.value(n).array.tobytes() for n in again.names} == {n: v.array.tobytes() for n, v in parts.items()}


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from(sorted(STORAGE)))
@settings(max_examples=40)
def test_interleaved_heads_come_apart_and_together_bit_for_bit(tmp_path_factory, heads, width, columns, dtype):
    folder = tmp_path_factory.mktemp("heads")
    raw = np.random.default_rng(heads).integers(
        0, 2 if dtype == "bool" else 256, (3 * heads * width, columns, STORAGE[dtype].itemsize), np.uint8
    )
    packed = Typed(raw.view(STORAGE[dtype])[..., 0], dtype)
    save(folder / "packed.safetensors", {"qkv": packed})
    apart = [Way("qkv", name, f"heads({heads}, 3, {n})") for n, name in enumerate("qkv")]
    convert(folder / "packed.safetensors", folder / "apart.pth", moves=apart)
    whole = [Way(name, "qkv", None, f"heads({heads}, 3, {n})", packed.array.shape) for n, name in enumerate("qkv")]
    convert(folder / "apart.pth", folder / "again.pdparams", moves=whole)
    again = open_checkpoint(folder / "again.pdparams").value("qkv")
    assert again.dtype == dtype
    assert again.array.tobytes() == packed.array.tobytes()
    expected = packed.array.reshape(heads, 3, width, columns)[:, 1].reshape(-1, columns)
    assert open_checkpoint(folder / "apart.pth").value("k").array.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ([Way("a", "x", None, "rows(0, 2)")], "the shape of this tensor, which is joined from parts, is not known"),
        ([Way("a", "x", None, "rows(0, 2)", (4, 3)), Way("b", "x", None, "rows(2, 4)", (5, 3))], "two shapes are given"),
        ([Way("a", "x", None, "rows(0, 2)", (4, 3))], "only 6 of 12 elements have a source"),
        (
            [Way("a", "x", None, "rows(0, 2)", (4, 3)), Way("b", "x", None, "rows(1, 3)", (4, 3))],
            "b would go where another part went already",
        ),
        (
            [Way("a", "x", None, "rows(0, 3)", (4, 3))],
            r"a has shape \(2, 3\) after nothing; its place, rows\(0, 3\) of \(4, 3\), has \(3, 3\)",
        ),
        ([Way("a", "x", None, "rows(0, 9)", (4, 3))], r"rows\(0, 9\) does not fit a tensor of shape \(4, 3\)"),
        (
            [Way("a", "x", None, "rows(0, 2)", (4, 3)), Way("half", "x", None, "rows(2, 4)", (4, 3))],
            "the parts of this tensor have different element types",
        ),
        ([Way("a", "x"), Way("b", "x", None, "rows(0, 2)", (2, 3))], "two tensors would be called 'x'"),
    ],
)
def test_parts_that_make_no_whole(tmp_path, ways, message):
    save(tmp_path / "in.npz", {"a": matrix(2, 3), "b": matrix(2, 3), "half": matrix(2, 3, dtype="float16")})
    with pytest.raises(UsageError, match=message) as caught:
        convert(tmp_path / "in.npz", tmp_path / "out.pth", moves=ways)
    assert caught.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["in.npz"]


def test_tied_tensors_that_are_joined_alike_stay_tied(tmp_path):
    save(tmp_path / "in.safetensors", {"a": matrix(2, 3), "b": matrix(2, 3, 6)})
    ways = [Way(name, target, None, f"rows({2 * n}, {2 * n + 2})", (4, 3)) for target in ("x", "y") for n, name in enumerate("ab")]
    summary = convert(tmp_path / "in.safetensors", tmp_path / "out.pth", moves=ways)
    assert summary.aliases == {"y": "x"}
    assert open_checkpoint(tmp_path / "out.pth").aliases == {"y": "x"}
