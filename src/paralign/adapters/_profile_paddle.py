"""What is known of Paddle without importing it."""

from __future__ import annotations

from paralign.adapters.profile import Equivalent, Profile

#: the guides' frequently asked questions; what they name is there in Paddle 3.3.1
_EQUIVALENTS = (
    Equivalent(
        frozenset({"gather", "take_along_dim"}),
        "torch.gather takes an index for every element: in Paddle paddle.take_along_axis(x, index, axis); paddle.gather takes whole rows",
    ),
    Equivalent(
        frozenset({"scatter", "scatter_", "scatter_add", "scatter_add_"}),
        "torch.scatter places single elements: in Paddle paddle.put_along_axis(x, index, values, axis); paddle.scatter places whole rows",
    ),
    Equivalent(
        frozenset({"masked_fill", "masked_fill_"}),
        "masked_fill fills where the mask is True: in Paddle x.masked_fill(mask, value) or "
        "paddle.where(mask, paddle.full_like(x, value), x), in this order",
    ),
    Equivalent(
        frozenset({"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}),
        "Paddle has no pack_padded_sequence: give the recurrent layer sequence_length=lengths, "
        "which leaves outputs behind a sequence's end zero and takes the state at its end",
    ),
    Equivalent(
        frozenset({"avg_pool1d", "avg_pool2d", "avg_pool3d"}),
        "PyTorch's average counts the padding (count_include_pad=True), Paddle's does not: exclusive=False makes Paddle count it",
    ),
)

#: see :attr:`paralign.adapters.profile.Profile.program`
_PROGRAM = """
import paddle

without_gradients = paddle.no_grad


def start(seed, device):
    if device != "cpu":
        paddle.set_device(device.replace("cuda", "gpu"))
    else:
        paddle.set_device("cpu")
    paddle.seed(seed)


def on_device(model, device):
    return model


def tensor(array, dtype):
    made = paddle.to_tensor(array)
    return made if array.dtype.name == dtype else made.astype(dtype)


def array_of(value):
    if not isinstance(value, paddle.Tensor):
        return None
    if not value.is_dense():
        return None
    value = value.detach()
    if value.is_floating_point() and value.dtype not in (paddle.float16, paddle.float32, paddle.float64):
        value = value.astype("float32")
    return value.numpy()


def load(model, weights):
    places = {**model.state_dict(), **dict(model.named_buffers()), **dict(model.named_parameters())}
    for name, (array, _) in weights.items():
        if name in places:
            places[name].set_value(paddle.to_tensor(array).astype(places[name].dtype))
    return [name for name in weights if name not in places]


def evaluate(model):
    model.eval()


def differentiable(model):
    model.eval()
    for layer in model.sublayers(include_self=True):
        if isinstance(layer, paddle.nn.layer.rnn.RNNBase):
            layer.training, layer.dropout = True, 0.0


def train(model):
    model.train()
    for layer in model.sublayers(include_self=True):
        names = " ".join(base.__name__ for base in type(layer).__mro__)
        if not list(layer.children()) and any(word in names for word in ("Dropout", "DropPath", "DropBlock", "StochasticDepth", "RReLU")):
            layer.eval()
        if isinstance(getattr(layer, "dropout", None), float):
            layer.dropout = 0.0


def differentiate(loss):
    loss.backward()


def forget(model):
    model.clear_gradients()


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}
"""

PROFILE = Profile(
    "paddle",
    layouts={
        ("linear", "weight"): (1, 0),
        ("linear", "weight_v"): (1, 0),
        ("linear", "weight_orig"): (1, 0),
        ("lstm", "weight_hr"): (1, 0),
        ("lstmcell", "weight_hr"): (1, 0),
    },
    momentum_keeps_old=True,
    unbiased_variance=False,
    launcher="paddle",
    initialisers="paralign.init",
    initialises_all="paralign.init.default_like_torch(model) gives all layers PyTorch's defaults",
    distributions={"cpu": "paddlepaddle", "gpu": "paddlepaddle-gpu"},
    gpu_build="install paddlepaddle-gpu: https://www.paddlepaddle.org.cn/install/quick",
    deterministic="FLAGS_cudnn_deterministic = 1 in the side's `env`",
    not_tuned="FLAGS_cudnn_exhaustive_search = 0 in the side's `env`",
    equivalents=_EQUIVALENTS,
    switches=(("", "{leaf}_attr"),),
    program=_PROGRAM,
)
