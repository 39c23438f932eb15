"""Rules of ``Adapter`` that have to do with tensors, devices and settings; the other files of this folder hold the rest."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress

import numpy as np
import pytest

from paralign.adapters import base, finding
from paralign.dtypes import RAW, STORAGE, Typed
from paralign.errors import EnvironmentUnavailable, UnsupportedTensor, UsageError

SHARED = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128")
SHAPES = [(), (1,), (0, 3), (2, 3), (2, 1, 4)]


def sample(dtype, shape):
    values = np.random.default_rng(7).integers(0, 100, shape)
    return np.asarray(values % 2 == 0) if dtype == "bool" else np.asarray(values).astype(STORAGE[dtype])


def test_no_framework_has_dropped_out(exercised):
    assert exercised.all == {*finding.known(), "jax"}  # whose entry point is there where the package is installed
    assert exercised.trained == {"torch", "paddle"}


def test_protocols(tensors):
    assert isinstance(tensors.adapter, base.Adapter)
    assert isinstance(tensors.adapter, base.Training) == (tensors.name in ("torch", "paddle"))
    assert isinstance(tensors.adapter, base.Exporting) == (tensors.name not in ("numpy", "jax"))
    assert tensors.adapter.name == tensors.name


def test_an_incomplete_adapter_is_noticed():
    class Half:
        def no_grad(self):
            return None

    assert not isinstance(Half(), base.Adapter)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", SHARED)
def test_values_travel_both_ways(tensors, dtype, shape):
    array = sample(dtype, shape)
    out = tensors.adapter.to_array(tensors.tensor(array))
    assert out.dtype == dtype
    assert out.array.dtype == array.dtype
    np.testing.assert_array_equal(out.array, array, strict=True)
    back = tensors.adapter.from_array(Typed(array, dtype))
    assert tensors.adapter.is_tensor(back)
    np.testing.assert_array_equal(tensors.adapter.to_array(back).array, array, strict=True)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 4)], ids=str)
@pytest.mark.parametrize("dtype", sorted(RAW))
def test_raw_types_keep_every_bit(tensors, dtype, shape):
    bits = np.random.default_rng(3).integers(0, 2 ** (8 * STORAGE[dtype].itemsize), shape).astype(STORAGE[dtype])
    out = tensors.adapter.to_array(tensors.raw(dtype, bits))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.array, bits, strict=True)
    back = tensors.adapter.to_array(tensors.adapter.from_array(Typed(bits, dtype)))
    assert back.dtype == dtype
    np.testing.assert_array_equal(back.array, bits, strict=True)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_types_travel_or_are_refused_by_name(tensors, dtype):
    if tensors.name == "paddle":
        with pytest.raises(UnsupportedTensor) as caught:
            tensors.adapter.from_array(Typed(np.arange(3, dtype=dtype), dtype))
        assert f"has no tensors of {dtype}" in str(caught.value)
        assert "convert the values to one of: bfloat16, bool" in caught.value.hint
        return
    back = tensors.adapter.to_array(tensors.adapter.from_array(Typed(np.arange(3, dtype=dtype), dtype)))
    assert back.dtype == dtype
    assert back.array.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int64", "complex64", "bool"])
def test_views_read_as_what_they_show(tensors, dtype):
    bits = sample(dtype, (4, 6))
    tensor = tensors.raw(dtype, bits) if dtype in RAW else tensors.tensor(bits)
    for name, view, expected in [
        ("transposed", tensor.T, bits.T),
        ("sliced", tensor[1:3, 2:], bits[1:3, 2:]),
        ("strided", tensor[::2, ::3], bits[::2, ::3]),
        ("one row", tensor[3], bits[3]),
        ("both", tensor.T[1::2, 1:3], bits.T[1::2, 1:3]),
    ]:
        np.testing.assert_array_equal(tensors.adapter.to_array(view).array, expected, strict=True, err_msg=name)


def test_reversed_views(tensors):
    array = sample("float32", (4, 6))
    tensor = tensors.tensor(array)
    flipped = tensor.flip([0]) if tensors.name == "torch" else tensor[::-1]
    np.testing.assert_array_equal(tensors.adapter.to_array(flipped).array, array[::-1], strict=True)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "bfloat16"])
def test_reading_does_not_copy(tensors, dtype):
    tensor = tensors.raw(dtype, sample(dtype, (2, 3))) if dtype in RAW else tensors.tensor(sample(dtype, (2, 3)))
    first, second = tensors.adapter.to_array(tensor).array, tensors.adapter.to_array(tensor).array
    assert np.shares_memory(first, second)


def test_arrays_outlive_their_tensor(tensors):
    array = tensors.adapter.to_array(tensors.tensor(np.full(5000, 7.0))).array
    others = [tensors.tensor(np.zeros(5000)) for _ in range(20)]
    assert len(others) == 20
    assert (array == 7.0).all()


def test_writing_never_shares(tensors):
    array = np.arange(6, dtype="float32")
    tensor = tensors.adapter.from_array(Typed(array, "float32"))
    array[:] = -1
    assert tensors.adapter.to_array(tensor).array.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bfloat16"])
def test_awkward_host_arrays(tensors, dtype):
    plain = sample(dtype, (3, 4))
    frozen = plain.copy()
    frozen.flags.writeable = False
    for name, array in [
        ("big-endian", plain.astype(plain.dtype.newbyteorder(">"))),
        ("read-only", frozen),
        ("fortran", np.asfortranarray(plain)),
        ("reversed", plain[::-1, ::-1][::-1, ::-1]),
        ("broadcast", plain[:1]),
    ]:
        tensor = tensors.adapter.from_array(Typed(np.broadcast_to(array, (3, 4)) if name == "broadcast" else array, dtype))
        expected = np.broadcast_to(plain[:1], (3, 4)) if name == "broadcast" else plain
        np.testing.assert_array_equal(tensors.adapter.to_array(tensor).array, expected, strict=True, err_msg=name)
    reverse = tensors.adapter.to_array(tensors.adapter.from_array(Typed(plain[::-1], dtype))).array
    np.testing.assert_array_equal(reverse, plain[::-1], strict=True)


def test_tensors_and_models_are_told_apart(tensors):
    model = tensors.models.Net()
    assert tensors.adapter.is_model(model)
    assert tensors.adapter.is_tensor(tensors.ones(2))
    assert not tensors.adapter.is_model(tensors.ones(2))
    for other in (None, 1.5, "text", [tensors.ones(2)], {"a": 1}, object()):
        assert not tensors.adapter.is_tensor(other)
        assert not tensors.adapter.is_model(other)
    assert not tensors.adapter.is_tensor(model)
    assert not tensors.adapter.is_model(tensors.models.Net)


def test_arrays_and_functions_are_not_a_frameworks(trained):
    assert not trained.adapter.is_tensor(np.ones(2))
    assert not trained.adapter.is_model(lambda x: x)


def test_versions_and_flags_can_be_written_down(tensors):
    versions = tensors.adapter.versions()
    assert versions["numpy"] == np.__version__
    assert set(versions) >= {tensors.name}
    assert all(isinstance(text, str) and text for text in versions.values())
    assert "False" not in versions.values()
    flags = json.loads(json.dumps(tensors.adapter.flags()))
    if tensors.name != "numpy":
        assert flags["default_dtype"] == "float32"
        assert flags["device"] == os.environ.get("PARALIGN_TEST_DEVICE", "cpu")


def test_a_default_type_is_given_back(tensors):
    if not isinstance(tensors.adapter, base.Defaulting):
        pytest.skip(f"{tensors.name} has no default type to set")
    with suppress(ArithmeticError), tensors.adapter.default_of("float64"):
        assert tensors.adapter.flags()["default_dtype"] == "float64"
        raise ArithmeticError
    assert tensors.adapter.flags()["default_dtype"] == "float32"


def test_memory_of_the_device_is_counted(tensors):
    if not isinstance(tensors.adapter, base.Metering):
        pytest.skip(f"{tensors.name} tells no memory of a device")
    before = tensors.adapter.device_bytes()
    held = tensors.ones(1024, 1024)
    assert tensors.adapter.device_bytes() - before == (0 if tensors.adapter.flags()["device"] == "cpu" else 4 << 20)
    del held


def test_devices(tensors):
    devices = tensors.adapter.devices()
    assert devices[0] == "cpu"
    assert all(device == f"gpu:{index}" for index, device in enumerate(devices[1:]))
    tensors.adapter.use_device("cpu")
    model = tensors.models.Net()
    assert tensors.adapter.place(model) is model
    for missing in ("gpu:99", "cuda:99", "abacus"):
        with pytest.raises(EnvironmentUnavailable) as caught:
            tensors.adapter.use_device(missing)
        assert f"has no device {missing!r}" in str(caught.value)
        assert "cpu" in caught.value.hint


def test_gpu_names_are_normalised(trained):
    if len(trained.adapter.devices()) > 1:
        pytest.skip("a GPU is here: its absence cannot be shown")
    for spelling in ("gpu", "cuda", "gpu:0", "cuda:0"):
        with pytest.raises(EnvironmentUnavailable, match=f"no device '{spelling}' here"):
            trained.adapter.use_device(spelling)


@pytest.mark.parametrize("seed", [0, 5, 2**33 + 5])
def test_seeds(tensors, seed):
    def draw():
        own = {
            "torch": lambda: __import__("torch").rand(3),
            "paddle": lambda: __import__("paddle").rand([3]),
        }.get(tensors.name, lambda: tensors.tensor(np.zeros(3)))()
        return [*tensors.adapter.to_array(own).array.tolist(), random.random(), np.random.rand()]  # noqa: NPY002 - what users draw from

    tensors.adapter.seed(seed)
    first = draw()
    assert draw() != first
    tensors.adapter.seed(seed)
    assert draw() == first


def test_load_names_the_choices():
    with pytest.raises(UsageError) as caught:
        finding.load("caffe")
    known = ", ".join(sorted({*finding.known()}))
    assert str(caught.value) == f"there is no adapter for framework 'caffe'\n  fix:   choose one of: {known}"
    assert {"numpy", "onnxruntime", "paddle", "torch"} <= set(known.split(", "))


def test_one_adapter_a_process(kit):
    assert finding.load(kit.name) is kit.adapter


def test_live_models_are_recognised(trained):
    assert finding.detect(trained.models.Net()) == trained.name
    assert finding.detect(np.tanh) is None


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_torch_refuses_what_has_no_plain_values():
    torch = pytest.importorskip("torch")
    adapter = finding.load("torch")
    lazy = torch.nn.LazyLinear(3)
    for tensor, what, hint in [
        (torch.ones(2, 2).to_sparse(), "a tensor of layout torch.sparse_coo cannot", "call .to_dense() on it"),
        (torch.empty(2, device="meta"), "a meta tensor (it has no values) cannot", "build the model on a real device"),
        (torch.ones(2).to(torch.float8_e8m0fnu), "a tensor of torch.float8_e8m0fnu cannot", "convert it to one of: bfloat16"),
        (lazy.weight, "a parameter of a lazy module has no shape yet", "run the model once"),
    ]:
        with pytest.raises(UnsupportedTensor) as caught:
            adapter.to_array(tensor)
        assert what in str(caught.value)
        assert hint in caught.value.hint


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*quantize.*deprecated:UserWarning", "ignore:.*nested.*:UserWarning")
def test_torch_refuses_quantised_and_nested():
    torch = pytest.importorskip("torch")
    adapter = finding.load("torch")
    with pytest.raises(UnsupportedTensor, match=r"a quantised tensor \(torch.qint8\) cannot be recorded") as caught:
        adapter.to_array(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))
    assert ".dequantize()" in caught.value.hint
    with pytest.raises(UnsupportedTensor, match="a nested tensor cannot be recorded"):
        adapter.to_array(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))


@pytest.mark.torch
def test_torch_lazy_views_are_resolved():
    torch = pytest.importorskip("torch")
    adapter = finding.load("torch")
    z = torch.tensor([1 + 2j, 3 - 1j])
    assert adapter.to_array(z.conj()).array.tolist() == [1 - 2j, 3 + 1j]
    assert adapter.to_array(z.conj().imag).array.tolist() == [-2.0, 1.0]


@pytest.mark.paddle
def test_paddle_refuses_what_would_crash_it():
    paddle = pytest.importorskip("paddle")
    adapter = finding.load("paddle")
    coo = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], [3, 3])
    csr = paddle.sparse.sparse_csr_tensor([0, 1, 2, 2], [1, 2], [1.0, 2.0], [3, 3])
    table = paddle.nn.Embedding(5, 2, sparse=True)
    table(paddle.to_tensor([1, 2])).sum().backward()
    for tensor, what, hint in [
        (coo, "a sparse tensor", ".to_dense()"),
        (csr, "a sparse tensor", ".to_dense()"),
        (table.weight.grad, "a tensor of selected rows", "sparse=False"),
    ]:
        with pytest.raises(UnsupportedTensor) as caught:
            adapter.to_array(tensor)
        assert str(caught.value).startswith(f"{what} cannot be recorded")
        assert hint in caught.value.hint


def test_numpy_refuses_what_is_no_number():
    adapter = finding.load("numpy")
    for value, what in [
        (np.array(["a"]), "elements of type <U1 cannot be recorded"),
        (np.array([None]), "elements of type object cannot be recorded"),
        (np.ma.array([1.0], mask=[True]), "a masked array cannot be recorded"),
    ]:
        with pytest.raises(UnsupportedTensor, match=what):
            adapter.to_array(value)
    assert adapter.to_array(np.float16(2)) == (np.float16(2), "float16")
    assert adapter.to_array(np.arange(3, dtype=">i4")).array.dtype == np.dtype("int32")


def test_numpy_without_ml_dtypes_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedTensor, match="numpy has no type bfloat16") as caught:
        finding.load("numpy").from_array(Typed(np.zeros(2, "uint16"), "bfloat16"))
    assert "install ml_dtypes" in caught.value.hint


def test_writing_in_place_shows_in_the_version(trained):
    tensor = trained.tensor(np.ones((2, 3), "float32"))
    view = tensor.reshape([6])
    before = trained.adapter.version(tensor)
    assert trained.adapter.version(tensor) == before
    view.add_(trained.tensor(np.ones(6, "float32")))
    assert trained.adapter.version(tensor) > before


def test_numpy_keeps_no_count_of_writes(tensors):
    if tensors.name in ("numpy", "jax", "onnxruntime"):
        assert tensors.adapter.version(tensors.tensor(np.ones(3))) is None
    else:
        assert isinstance(tensors.adapter.version(tensors.tensor(np.ones(3))), int)


def test_an_output_without_elements_and_memory_is_an_empty_array(monkeypatch):
    """What Paddle's kernel of recurrent layers gives beside its results in eval mode: DLPack tells any number of axes of it."""
    paddle = pytest.importorskip("paddle")
    adapter = finding.load("paddle")
    layer = paddle.nn.GRU(3, 2)
    layer.eval()
    found = []

    class Sink:
        def before(self, inputs):
            pass

        def after(self, operation):
            found.extend(tensor for tensor in operation.outputs if not tensor.size)

    with adapter.operations(Sink(), layer), adapter.no_grad():
        layer(paddle.ones([1, 4, 3]))

    def refused(tensor):
        raise ValueError("number of dimensions must be within [0, 64]")

    monkeypatch.setattr(np, "from_dlpack", refused)
    assert [adapter.to_array(tensor).array.shape for tensor in found] == [(0,)]
    assert adapter.to_array(paddle.zeros([0, 3], "float64")).array.shape == (0, 3)
