"""Checkpoints that the frameworks wrote are read exactly, and what is written here is read by them."""

import collections
import io
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest

from paralign.dtypes import STORAGE, Typed
from paralign.errors import UnsafeFile
from paralign.formats import convert, open_checkpoint, save

SUFFIXES = ["safetensors", "npz", "pdparams", "pth"]
#: types that PaddlePaddle has, as the canonical names
PADDLES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def sample(dtype, shape=(3, 5)):
    """Every bit pattern that a type may have, NaN payloads and negative zeros included (bool: 0 and 1)."""
    random = np.random.default_rng(len(dtype))
    if dtype == "bool":
        return Typed(random.integers(0, 2, shape).astype(bool), dtype)
    raw = random.integers(0, 256, (*shape, STORAGE[dtype].itemsize), dtype=np.uint8)
    return Typed(raw.view(STORAGE[dtype]).reshape(shape), dtype)


def everything():
    return {f"{dtype}.{len(shape)}": sample(dtype, shape) for dtype in STORAGE for shape in ((3, 5), (), (0, 2), (7,))}


def assert_same(checkpoint, expected):
    assert sorted(checkpoint.names) == sorted(expected)
    for name, value in expected.items():
        found = checkpoint.value(name)
        assert (found.dtype, found.array.shape, found.array.dtype) == (value.dtype, value.array.shape, value.array.dtype), name
        assert found.array.tobytes() == value.array.tobytes(), name
        assert checkpoint.entries[name].nbytes == value.array.nbytes


torch_only = pytest.mark.torch
paddle_only = pytest.mark.paddle


def to_torch(value):
    import torch

    if value.dtype == "bool":
        return torch.from_numpy(value.array.copy())
    flat = torch.frombuffer(bytearray(value.array.tobytes() or b"\0" * 16), dtype=getattr(torch, value.dtype))
    return flat[: value.array.size].clone().reshape(value.array.shape)


def raw(tensor):
    """The bytes of a torch tensor, in C order."""
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@torch_only
@pytest.mark.parametrize("legacy", [False, True])
def test_what_torch_saves_is_read_exactly(tmp_path, legacy):
    import torch

    expected = everything()
    path = tmp_path / "model.pth"
    torch.save({name: to_torch(value) for name, value in expected.items()}, path, _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == ("torch legacy" if legacy else "torch")
    assert_same(checkpoint, expected)
    assert checkpoint.aliases == {}


@torch_only
@pytest.mark.parametrize("suffix", ["pth", "pt", "bin"])
def test_what_is_written_for_torch_is_loaded_by_it(tmp_path, suffix):
    import torch

    expected = everything()
    path = tmp_path / f"model.{suffix}"
    save(path, expected)
    for options in ({}, {"mmap": True}):
        loaded = torch.load(path, weights_only=True, **options)
        assert isinstance(loaded, collections.OrderedDict)
        assert list(loaded) == list(expected)
        for name, value in expected.items():
            assert str(loaded[name].dtype) == f"torch.{value.dtype}"
            assert tuple(loaded[name].shape) == value.array.shape
            assert raw(loaded[name]) == value.array.tobytes(), name
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            header = path.read_bytes()[info.header_offset : info.header_offset + 30]
            assert (info.header_offset + 30 + sum(struct.unpack("<2H", header[26:30]))) % 64 == 0


@torch_only
@pytest.mark.parametrize("legacy", [False, True])
def test_views_of_one_storage_are_read_right(tmp_path, legacy):
    import torch

    base = torch.arange(60.0).reshape(3, 4, 5)
    tensors = {
        "base": base,
        "transposed": base.permute(2, 0, 1),
        "slice": base[1:, ::2, 3],
        "scalar": base[2, 3, 4],
        "row": base[1],
        "expanded": torch.tensor([7.0]).expand(4, 3),
        "diagonal": base[0].diagonal(),
        "empty": base[:, :0],
        "conjugate": torch.complex(base, base).conj(),
        "negative": torch.complex(base, base).conj().imag,
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    path = tmp_path / "views.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(path)
    for name, tensor in tensors.items():
        assert np.array_equal(checkpoint.value(name).array, tensor.resolve_conj().resolve_neg().numpy()), name
    assert path.stat().st_size < 12_000
    convert(path, tmp_path / "out.pth")
    for name, tensor in torch.load(tmp_path / "out.pth", weights_only=True).items():
        assert torch.equal(tensor, tensors[name])
        assert tensor.is_contiguous()


@torch_only
def test_parameters_buffers_and_what_a_module_notes_about_itself(tmp_path):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    module[0].bias.note = "an attribute of a parameter"
    path = tmp_path / "module.pth"
    torch.save(module.state_dict(keep_vars=True), path)
    checkpoint = open_checkpoint(path)
    assert checkpoint.names == list(module.state_dict())
    assert checkpoint.value("0.weight").array.tobytes() == raw(module[0].weight)
    assert checkpoint.value("1.num_batches_tracked") == Typed(np.array(0), "int64")


@torch_only
def test_a_training_checkpoint_is_unwrapped_and_what_is_left_aside_is_named(tmp_path):
    import torch

    module = torch.nn.Linear(3, 4)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {f"module.{name}": value for name, value in module.state_dict().items()}
    path = tmp_path / "last.pt"
    torch.save(
        {
            "epoch": 3,
            "model": {"state_dict": state, "config": {"depth": 2}},
            "model_ema": state,
            "optimizer": optimizer.state_dict(),
            "device": torch.device("cpu"),
            "size": torch.Size([2]),
            "dtype": torch.float16,
        },
        path,
    )
    checkpoint = open_checkpoint(path)
    assert checkpoint.names == ["module.weight", "module.bias"]
    assert (checkpoint.nesting, checkpoint.prefix) == ("model.state_dict", "module.")
    assert checkpoint.ignored == ["epoch", "model_ema", "optimizer", "device", "size", "dtype", "model.config"]
    assert open_checkpoint(path, strip="module.").names == ["weight", "bias"]
    assert open_checkpoint(path, within="model_ema").nesting == "model_ema"
    assert len(open_checkpoint(path, within="optimizer").names) == 6
    torch.save(optimizer.state_dict(), path)
    alone = open_checkpoint(path)
    assert alone.names[:3] == ["0.step", "0.exp_avg", "0.exp_avg_sq"]
    assert (alone.nesting, alone.ignored) == ("state", ["param_groups"])


@torch_only
def test_tied_tensors_stay_tied_and_take_no_more_room(tmp_path):
    import torch

    weight = torch.rand(100, 50)
    torch.save({"embedding": weight, "head": weight, "other": torch.rand(2), "view": weight[:50]}, tmp_path / "a.pth")
    checkpoint = open_checkpoint(tmp_path / "a.pth")
    assert checkpoint.aliases == {"head": "embedding"}
    summary = convert(checkpoint, tmp_path / "b.pth")
    assert summary.aliases == {"head": "embedding"}
    loaded = torch.load(tmp_path / "b.pth", weights_only=True)
    assert loaded["head"].data_ptr() == loaded["embedding"].data_ptr() != loaded["view"].data_ptr()
    assert summary.bytes < 33_000
    convert(checkpoint, tmp_path / "c.safetensors")
    assert open_checkpoint(tmp_path / "c.safetensors").aliases == {}
    moves = [("embedding", "e", "transpose(1, 0)"), ("head", "h", "transpose(1, 0)"), ("head", "plain", None)]
    assert convert(checkpoint, tmp_path / "d.pth", moves=moves).aliases == {"h": "e"}
    loaded = torch.load(tmp_path / "d.pth", weights_only=True)
    assert torch.equal(loaded["h"], weight.T)
    assert torch.equal(loaded["plain"], weight)
    assert loaded["plain"].data_ptr() != loaded["h"].data_ptr() == loaded["e"].data_ptr()


@torch_only
def test_a_big_endian_checkpoint_is_read_as_it_was_meant(tmp_path):
    import torch

    tensors = {"a": torch.tensor([1.5, -2.0]), "b": torch.tensor([3, 4]), "c": torch.tensor([1 + 2j]), "d": torch.tensor([1.0]).bfloat16()}
    path = tmp_path / "big.pth"
    torch.save(tensors, path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    widths = {"0": 4, "1": 8, "2": 4, "3": 2}
    with zipfile.ZipFile(tmp_path / "other.pth", "w") as archive:
        for name, data in members.items():
            if name.endswith("/byteorder"):
                data = b"big"  # noqa: PLW2901 - the member is changed before it is written
            elif "/data/" in name:
                data = np.frombuffer(data, f"<u{widths[name.rsplit('/', 1)[1]]}").byteswap().tobytes()  # noqa: PLW2901 - as above
            archive.writestr(name, data)
    loaded = torch.load(tmp_path / "other.pth", weights_only=True)
    checkpoint = open_checkpoint(tmp_path / "other.pth")
    convert(checkpoint, tmp_path / "little.pth")
    again = torch.load(tmp_path / "little.pth", weights_only=True)
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name], tensor)
        assert checkpoint.value(name).array.tobytes() == raw(tensor)
        assert torch.equal(again[name], tensor)


@torch_only
def test_shards_of_torch_are_read_through_their_index(tmp_path):
    import torch

    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"b": torch.zeros(3)}, tmp_path / "pytorch_model-00002-of-00002.bin")
    index = {"metadata": {"total_size": 20}, "weight_map": {f"{n}": f"pytorch_model-0000{i}-of-00002.bin" for i, n in ((1, "a"), (2, "b"))}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.names == ["a", "b"]
    assert checkpoint.format == "torch"
    assert len(checkpoint.files) == 3


@torch_only
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation")
def test_a_whole_model_and_a_torchscript_program_are_refused(tmp_path):
    import torch

    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pth")
    with pytest.raises(
        UnsafeFile, match=r"the file refers to torch\.nn\.modules\.linear\.Linear, which is refused; nothing of it was run"
    ) as c:
        open_checkpoint(tmp_path / "model.pth")
    assert c.value.where == str(tmp_path / "model.pth")
    assert c.value.hint == "save the state dict alone: torch.save(model.state_dict(), path)"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}.")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
    (tmp_path / "script.pt").write_bytes(stream.getvalue())
    with pytest.raises(UnsafeFile, match="is a TorchScript program"):
        open_checkpoint(tmp_path / "script.pt")
    torch.save(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), tmp_path / "q.pth")
    with pytest.raises(UnsafeFile, match=r"refers to torch\._utils\._rebuild_qtensor"):
        open_checkpoint(tmp_path / "q.pth")


def paddles(value):
    import paddle

    if value.dtype == "bfloat16":
        return paddle.to_tensor(value.array)  # PaddlePaddle takes uint16 for the bits of bfloat16
    return paddle.to_tensor(np.ascontiguousarray(value.array).reshape(value.array.shape))


@paddle_only
@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_what_paddle_saves_is_read_exactly(tmp_path, protocol):
    import paddle

    expected = {f"{dtype}.{shape}": sample(dtype, shape) for dtype in PADDLES for shape in ((3, 5), (), (0, 2), (60, 50))}
    path = tmp_path / "model.pdparams"
    paddle.save({name: paddles(value) for name, value in expected.items()}, str(path), protocol=protocol)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "paddle"
    assert_same(checkpoint, expected)
    convert(checkpoint, tmp_path / "again.pdparams")
    assert_same(open_checkpoint(tmp_path / "again.pdparams"), expected)


@paddle_only
def test_what_is_written_for_paddle_is_loaded_by_it(tmp_path):
    import paddle

    expected = {f"{dtype}.{shape}": sample(dtype, shape) for dtype in PADDLES for shape in ((3, 5), (), (0, 2), (60, 50))}
    path = tmp_path / "model.pdparams"
    save(path, expected)
    loaded = paddle.load(str(path))
    assert list(loaded) == list(expected)
    for name, value in expected.items():
        assert str(loaded[name].dtype) == f"paddle.{value.dtype}"
        assert tuple(loaded[name].shape) == value.array.shape
        assert loaded[name].numpy().tobytes() == value.array.tobytes(), name
    arrays = paddle.load(str(path), return_numpy=True)
    assert arrays["bfloat16.(3, 5)"].dtype == np.uint16


@paddle_only
def test_types_that_paddle_lacks_come_back_from_its_file_as_they_were(tmp_path):
    import paddle

    foreign = {dtype: sample(dtype, (20, 30)) for dtype in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "bfloat16")}
    save(tmp_path / "a.safetensors", foreign)
    summary = convert(tmp_path / "a.safetensors", tmp_path / "a.pdparams")
    assert summary.notes == [
        "PaddlePaddle has no type for uint64, uint32, uint16: paddle.load gives numpy arrays",
        "PaddlePaddle stores float8 as int8: paddle.load gives int8 for float8_e4m3fn, float8_e5m2",
    ]
    assert_same(open_checkpoint(tmp_path / "a.pdparams"), foreign)
    loaded = paddle.load(str(tmp_path / "a.pdparams"))
    assert isinstance(loaded["uint16"], np.ndarray)
    assert loaded["uint16"].tobytes() == foreign["uint16"].array.tobytes()
    assert str(loaded["bfloat16"].dtype) == "paddle.bfloat16"
    assert loaded["float8_e5m2"].numpy().tobytes() == foreign["float8_e5m2"].array.tobytes()


@paddle_only
def test_a_model_and_its_optimizer_as_paddle_saves_them(tmp_path):
    import paddle

    layer = paddle.nn.Linear(40, 30)
    schedule = paddle.optimizer.lr.StepDecay(0.1, 3)
    optimizer = paddle.optimizer.Momentum(schedule, parameters=layer.parameters())
    layer(paddle.ones([1, 40])).sum().backward()
    optimizer.step()
    paddle.save(layer.state_dict(), str(tmp_path / "m.pdparams"))
    paddle.save(optimizer.state_dict(), str(tmp_path / "m.pdopt"))
    paddle.save({"state_dict": layer.state_dict(), "epoch": 3}, str(tmp_path / "n.pdparams"))
    paddle.save(layer.weight, str(tmp_path / "one.pdparams"))
    model = open_checkpoint(tmp_path / "m.pdparams")
    assert model.names == ["weight", "bias"]
    assert np.array_equal(model.value("weight").array, layer.weight.numpy())
    assert not model.value("weight").array.flags.writeable
    states = open_checkpoint(tmp_path / "m.pdopt")
    assert len(states.names) == 2
    assert all(name.endswith("_velocity_0") for name in states.names)
    assert states.ignored == ["LR_Scheduler"]
    nested = open_checkpoint(tmp_path / "n.pdparams")
    assert (nested.names, nested.nesting, nested.ignored) == (["weight", "bias"], "state_dict", ["epoch"])
    assert open_checkpoint(tmp_path / "one.pdparams").names == ["one"]
    convert(tmp_path / "m.pdparams", tmp_path / "again.pdparams")
    other = paddle.nn.Linear(40, 30)
    assert other.set_state_dict(paddle.load(str(tmp_path / "again.pdparams"))) == ([], [])
    assert np.array_equal(other.weight.numpy(), layer.weight.numpy())


@paddle_only
def test_tied_tensors_in_a_file_for_paddle(tmp_path):
    import paddle

    array = np.random.default_rng(0).random((40, 50), np.float32)
    value = Typed(array, "float32")
    save(tmp_path / "a.pdparams", {"x": value, "y": value})
    assert (tmp_path / "a.pdparams").stat().st_size < array.nbytes + 500
    loaded = paddle.load(str(tmp_path / "a.pdparams"))
    assert np.array_equal(loaded["y"].numpy(), array)
    assert open_checkpoint(tmp_path / "a.pdparams").aliases == {"y": "x"}


def test_large_tensors_that_paddle_split(tmp_path):
    """What paddle.save writes below protocol 4 where a tensor has more than 2**30 bytes, in small."""
    array = np.random.default_rng(0).random((30, 40), np.float32)
    flat = array.reshape(-1)
    state = {
        "a": np.ones(2, np.float32),
        "w@@.0": flat[:700],
        "w@@.1": flat[700:],
        "UnpackBigParamInfor@@": {"w": {"OriginShape": (30, 40), "slices": ["w@@.0", "w@@.1"]}},
    }
    for protocol in (2, 3):
        path = tmp_path / "split.pdparams"
        path.write_bytes(pickle.dumps(state, protocol))
        checkpoint = open_checkpoint(path)
        assert checkpoint.names == ["a", "w"]
        assert np.array_equal(checkpoint.value("w").array, array)
        convert(checkpoint, tmp_path / f"{protocol}.npz")
        assert np.array_equal(np.load(tmp_path / f"{protocol}.npz")["w"], array)


@torch_only
def test_safetensors_of_torch_and_for_it(tmp_path):
    import torch
    from safetensors.torch import load_file, save_file, save_model

    expected = {name: value for name, value in everything().items() if value.dtype != "complex128"}
    save_file({name: to_torch(value) for name, value in expected.items()}, tmp_path / "a.safetensors", {"format": "pt"})
    checkpoint = open_checkpoint(tmp_path / "a.safetensors")
    assert checkpoint.metadata == {"format": "pt"}
    assert_same(checkpoint, expected)
    convert(checkpoint, tmp_path / "b.safetensors")
    for name, tensor in load_file(tmp_path / "b.safetensors").items():
        assert str(tensor.dtype) == f"torch.{expected[name].dtype}"
        assert raw(tensor) == expected[name].array.tobytes(), name
    module = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(3, 4), "head": torch.nn.Linear(4, 3, bias=False)})
    module["head"].weight = module["embedding"].weight
    save_model(module, tmp_path / "tied.safetensors")
    tied = open_checkpoint(tmp_path / "tied.safetensors")
    assert sorted(tied.names) == ["embedding.weight", "head.weight"]
    assert len(tied.aliases) == 1
    convert(tied, tmp_path / "both.safetensors")
    assert sorted(load_file(tmp_path / "both.safetensors")) == ["embedding.weight", "head.weight"]
    assert open_checkpoint(tmp_path / "both.safetensors").metadata == {}  # the note that a name was dropped is no longer true
    convert(tied, tmp_path / "tied.pth")
    loaded = torch.load(tmp_path / "tied.pth", weights_only=True)
    assert loaded["head.weight"].data_ptr() == loaded["embedding.weight"].data_ptr()


@pytest.mark.parametrize("first", SUFFIXES)
@pytest.mark.parametrize("second", SUFFIXES)
def test_there_and_back_between_any_two_formats_every_bit_stays(tmp_path, first, second):
    expected = everything()
    save(tmp_path / f"a.{first}", expected)
    convert(tmp_path / f"a.{first}", tmp_path / f"b.{second}")
    convert(tmp_path / f"b.{second}", tmp_path / f"c.{first}")
    assert_same(open_checkpoint(tmp_path / f"b.{second}"), expected)
    assert_same(open_checkpoint(tmp_path / f"c.{first}"), expected)
