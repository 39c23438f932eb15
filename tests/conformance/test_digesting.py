"""Rules of ``Digesting``: kernels on the device and numpy agree on digests and sketches."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from paralign.adapters import base, finding
from paralign.capture.digest import distance as apart
from paralign.capture.digest import moments
from paralign.capture.sketch import CHUNK, SIZE, distance, sketch
from paralign.dtypes import RAW, STORAGE, Typed

#: bounds of documented errors: of what is computed in float64, and in float32
EXACT, SINGLE = 1e-9, 1e-6

REAL = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")

#: below and above what numpy does faster; parts, whole and several chunks
SHAPES = [(), (1,), (0, 3), (3, 7, 11), (3, 331, 131), (CHUNK,), (3, 2, CHUNK // 5 + 7), (5, CHUNK - CHUNK // 7)]


def bound(dtype):
    return EXACT if dtype in ("float64", "int32", "int64", "complex64", "complex128") else SINGLE


def sample(dtype, shape, seed=7):
    x = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 20 + 3)
    return np.asarray(x > 0) if dtype == "bool" else np.asarray(np.abs(x) if dtype == "uint8" else x).astype(dtype)


def check(kit, tensor, value, limit):
    text, vector = kit.adapter.fingerprint(tensor)
    expected = sketch(value)
    assert apart(text, moments(value)) <= limit
    assert vector.shape == (SIZE,)
    assert vector.dtype == expected.dtype
    assert distance(expected, vector) <= limit
    assert kit.adapter.fingerprint(tensor, sketch=False) == (text, None)
    alone = kit.adapter.sketch(tensor)
    assert alone.dtype == vector.dtype
    assert distance(expected, alone) <= limit


def test_protocol(kit):
    assert isinstance(kit.adapter, base.Digesting)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
def test_kernels_agree_with_numpy(kit, dtype, shape):
    x = sample(dtype, shape)
    check(kit, kit.tensor(x), x, bound(dtype))


@pytest.mark.parametrize("shape", [(5,), (300, 301)], ids=str)
@pytest.mark.parametrize("dtype", sorted(RAW))
def test_raw_types(kit, dtype, shape):
    top = {"bfloat16": 0x7F00, "float8_e4m3fn": 0x78, "float8_e5m2": 0x78}[dtype]
    bits = np.random.default_rng(1).integers(0, top, shape).astype(STORAGE[dtype])
    if dtype == "bfloat16":
        bits = bits % 0x400 + 0x3E00  # of moderate size
    check(kit, kit.raw(dtype, bits), Typed(bits, dtype), SINGLE)


def moved(kit, array, axes):
    """A tensor of these values whose memory has another order."""
    inner = kit.tensor(np.ascontiguousarray(array.transpose(axes)))
    back = [int(axis) for axis in np.argsort(axes)]
    return inner.permute(back) if kit.name == "torch" else inner.transpose(back)


def strides(tensor):
    if callable(getattr(tensor, "stride", None)):
        return tensor.stride()
    return getattr(tensor, "strides", ())  # JAX says nothing of its layouts


@pytest.mark.parametrize("shape", [(4, 6, 8, 10), (5, 64, 40, 50)], ids=str)
@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (3, 2, 1, 0)], ids=str)
def test_memory_layout_does_not_matter(kit, shape, axes):
    x = sample("float32", shape)
    tensor = moved(kit, x, axes)
    before = list(strides(tensor))
    check(kit, tensor, x, SINGLE)
    assert list(strides(tensor)) == before
    check(kit, moved(kit, x, axes)[1:, ::2], x[1:, ::2], SINGLE)


def test_transposed_values_have_one_digest_and_another_sketch(kit):
    x = sample("float32", (300, 500))
    one, other = (kit.adapter.fingerprint(kit.tensor(np.ascontiguousarray(array))) for array in (x, x.T))
    assert apart(one[0], other[0]) <= SINGLE
    true = float(np.linalg.norm(x.ravel() - x.T.ravel()) / np.linalg.norm(x))
    assert distance(one[1], other[1]) == pytest.approx(true, rel=0.15)
    assert distance(one[1], kit.adapter.fingerprint(kit.tensor(x.reshape(-1)))[1]) <= SINGLE


def test_expanded_values(kit):
    x = sample("float32", (1, 400, 1))
    wide = np.broadcast_to(x, (90, 400, 3))
    tensor = kit.tensor(x)
    if kit.plain:
        tensor = np.broadcast_to(tensor, wide.shape) if kit.mutable else tensor + kit.tensor(np.zeros(wide.shape, "float32"))
    else:
        tensor = tensor.expand(wide.shape)
    check(kit, tensor, wide, SINGLE)


@pytest.mark.parametrize("size", [20, 90_000])
@pytest.mark.parametrize("spoil", [(np.nan,), (np.inf,), (-np.inf, np.nan, np.inf)], ids=str)
def test_what_is_not_finite(kit, spoil, size):
    x = sample("float32", (size,))
    x[3 : 3 + len(spoil)] = spoil
    check(kit, kit.tensor(x), x, SINGLE)
    check(kit, kit.tensor(np.full(size, spoil[0], "float32")), np.full(size, spoil[0], "float32"), SINGLE)
    flat = np.full(size, 2.0, "float32")
    flat[-1] = spoil[0]
    check(kit, kit.tensor(flat), flat, SINGLE)


@pytest.mark.parametrize("scale", [1e-42, 1e-38, 1e-30, 1e-12, 1e12, 1e36])
def test_the_size_of_values_does_not_matter(kit, scale):
    x = (sample("float64", (90_000,)) * scale).astype("float32")
    check(kit, kit.tensor(x), x, SINGLE)


@pytest.mark.parametrize("value", [0.0, -2.5, 1e36, 1e-40])
def test_constants(kit, value):
    x = np.full((300, 301), value, "float32")
    assert kit.adapter.fingerprint(kit.tensor(x))[0] == moments(x)
    check(kit, kit.tensor(x), x, SINGLE)


@pytest.mark.parametrize(
    "make",
    [
        lambda r: np.where(r.random(700_000) < 0.5, 0.1, 0.3),  # repeated values round in one direction
        lambda r: np.maximum(r.standard_normal(700_000), 0),
        lambda r: r.standard_normal(700_000) + 1e3,
        lambda r: r.standard_cauchy(700_000),
        lambda r: np.r_[r.standard_normal(350_000) + 100, -r.standard_normal(350_000) - 100],
    ],
)
def test_errors_of_sums_stay_within_their_bounds(kit, make):
    x = make(np.random.default_rng(0))
    check(kit, kit.tensor(x.astype("float32")), x.astype("float32"), SINGLE)
    check(kit, kit.tensor(x), x, EXACT)


def test_the_same_values_have_the_same_fingerprint(kit):
    x = kit.tensor(sample("float32", (90, 1000)))
    first, again = kit.adapter.fingerprint(x), kit.adapter.fingerprint(x)
    assert first[0] == again[0]
    assert first[1].tolist() == again[1].tolist()


def test_the_tensor_and_its_gradients_are_left_alone(trained):
    x = sample("float32", (90, 1000))
    leaf = trained.adapter.watch(trained.tensor(x))
    value = leaf * 2.0
    version = trained.adapter.version(value)
    trained.adapter.fingerprint(value)
    trained.adapter.fingerprint(leaf)
    assert trained.adapter.version(value) == version
    np.testing.assert_array_equal(trained.adapter.to_array(leaf).array, x)
    np.testing.assert_array_equal(trained.adapter.to_array(value).array, x * 2)
    trained.adapter.backward(value.sum())
    np.testing.assert_array_equal(trained.adapter.to_array(trained.adapter.gradient(leaf)).array, np.full_like(x, 2.0))


def test_mixed_precision_does_not_round():
    torch = pytest.importorskip("torch")  # Paddle has none on the CPU
    x = sample("float32", (90, 1000))
    with torch.autocast("cpu", torch.bfloat16):
        text, vector = finding.load("torch").fingerprint(torch.from_numpy(x))
    assert apart(text, moments(x)) <= SINGLE
    assert distance(sketch(x), vector) <= SINGLE


def test_inference_mode_leaves_nothing_behind():
    torch = pytest.importorskip("torch")
    adapter, x = finding.load("torch"), sample("float64", (3, CHUNK))
    import_module("paralign.adapters._digest_torch")._kept.__dict__.clear()  # as in a process that has watched nothing yet
    with torch.inference_mode():
        inside = adapter.fingerprint(torch.from_numpy(x))
    outside = adapter.fingerprint(torch.from_numpy(x))
    assert inside[0] == outside[0]
    np.testing.assert_array_equal(inside[1], outside[1])


def test_threads_change_nothing_but_rounding():
    torch = pytest.importorskip("torch")
    adapter, x = finding.load("torch"), torch.from_numpy(sample("float32", (3, CHUNK)))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(adapter.fingerprint(x))
    finally:
        torch.set_num_threads(before)
    for text, vector in found[1:]:
        assert apart(found[0][0], text) <= SINGLE
        assert distance(found[0][1], vector) <= SINGLE
