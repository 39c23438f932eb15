"""A composed port proven right without paralign: both models in float64, with the same weights, give the same outputs, loss and gradients.

Paddle's kernels keep constants in float32, which float64 shows. So the proof reads both sources with every constant rounded to float32, and
replaces what computes with constants of its own (interpolation, hardsigmoid, selu) by formulas in float64.
"""

from __future__ import annotations

import re
from contextlib import contextmanager

import numpy as np

#: the greatest relative distance of right outputs; and of the loss and of all gradients together, whose kernels have constants in float32
#: that no source names (label smoothing, the derivative of a mean)
NEAR, NEAR_BACKWARD = 1e-9, 1e-7

#: outputs that vary by less count as constant
CONSTANT = 1e-9

#: attributes that Paddle calls otherwise
NAMES = {"running_mean": "_mean", "running_var": "_variance", ("PReLU", "weight"): "_weight", ("InstanceNorm2D", "weight"): "scale"}

NUMBER = re.compile(r"(?<![\w.\]])(\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])")


#: a model whose float32 run is further from its float64 run, relative, multiplies rounding by what also float64 shows
STEADY = 1e-3


class Silent(Exception):
    """A model of which no test says anything: an output is one number throughout, or rounding (the mean of what was centred)."""


def rounded(source):
    """A source with its constants as float32 holds them."""
    return NUMBER.sub(lambda match: repr(float(np.float32(match[0]))), source)


def prove(program):
    """How far both sides are apart in float64, relative: the outputs, and the greater of the loss and of all gradients together.

    Raises:
        Silent: an output is constant; or the sides are apart, and the reference in float32 is far from itself in float64.
        Exception: a program that does not run.
    """
    import paddle
    import torch

    spaces = []
    for source, name in ((program.reference, "reference"), (program.candidate, "candidate")):
        spaces.append({"__name__": name})
        exec(compile(rounded(source), f"<{name}>", "exec"), spaces[-1])
    torch.manual_seed(program.seed % 2**31)
    ours = spaces[0]["build_model"]().double().eval()
    paddle.set_default_dtype("float64")
    try:
        theirs = spaces[1]["build_model"]()
    finally:
        paddle.set_default_dtype("float32")
    theirs.eval()
    carry(ours, theirs)
    for layer in theirs.sublayers():
        if isinstance(layer, (paddle.nn.LSTM, paddle.nn.GRU)):
            layer.train()  # its kernel has no backward pass otherwise; there is no dropout
    wide = [a.astype("float64") if a.dtype.kind == "f" else a for a in (*program.inputs, program.labels)]
    first = ours(*map(torch.tensor, wide[:-1]))
    loss = spaces[0]["loss"](first, torch.tensor(wide[-1]))
    loss.backward()
    with exact():
        second = theirs(*map(paddle.to_tensor, wide[:-1]))
        other = spaces[1]["loss"](second, paddle.to_tensor(wide[-1]))
        other.backward()
    if any(a.detach().std() < CONSTANT for a in flat(first)):
        raise Silent
    far = max(apart(a.detach().numpy(), b.numpy()) for a, b in zip(flat(first), flat(second), strict=True))
    losses = apart(loss.detach().numpy(), other.numpy())
    pairs = [(a.grad, b.grad, turn) for a, b, turn in weights(ours, theirs) if a.requires_grad and a.grad is not None]
    if any(b is None for _, b, _ in pairs):
        return far, np.inf
    known = [(a.numpy().T if turn else a.numpy(), b.numpy()) for a, b, turn in pairs]
    back = max(losses, apart(*(np.concatenate([pair[side].ravel() for pair in known]) for side in (0, 1))))
    if (far > NEAR or back > NEAR_BACKWARD) and unsteadiness(program, spaces[0], ours, flat(first)) > STEADY:
        raise Silent
    return far, back


def unsteadiness(program, space, double, outputs):
    """How far a model in float32 is from itself in float64, relative: the furthest of its outputs and of all gradients together."""
    import torch

    native = space["build_model"]().eval()
    native.load_state_dict({name: value.float() if value.is_floating_point() else value for name, value in double.state_dict().items()})
    again = native(*map(torch.tensor, program.inputs))
    space["loss"](again, torch.tensor(program.labels)).backward()
    both = [(a.detach().numpy(), b.detach().numpy()) for a, b in zip(outputs, flat(again), strict=True)]
    trained = [(a.grad, b.grad) for a, b in zip(double.parameters(), native.parameters(), strict=True) if a.grad is not None]
    both.append(tuple(np.concatenate([pair[side].numpy().ravel() for pair in trained]) for side in (0, 1)))
    return max(apart(*pair) for pair in both)


def flat(outputs):
    if isinstance(outputs, dict):
        return list(outputs.values())
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def apart(one, other):
    """The relative distance of two arrays; infinite where shapes differ or something is not finite."""
    if one.shape != other.shape or not np.isfinite(one).all() or not np.isfinite(other).all():
        return np.inf
    size = float(np.linalg.norm(one))
    return float(np.linalg.norm(one - other)) / size if size else float(np.linalg.norm(other))


def weights(ours, theirs):
    """The tensors of both models that belong together, and whether they lie transposed; those of attention layers are left out."""
    import torch

    for path, layer in ours.named_modules():
        other = at(theirs, path)
        for name, value in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)):
            if isinstance(layer, torch.nn.MultiheadAttention) or name == "num_batches_tracked":
                continue
            renamed = NAMES.get((type(other).__name__, name), NAMES.get(name, name))
            yield value, getattr(other, renamed), isinstance(layer, torch.nn.Linear) and name == "weight"


def carry(ours, theirs):
    """Give the candidate the reference's weights."""
    import torch

    for value, other, turned in weights(ours, theirs):
        held = value.detach().numpy()
        other.set_value(held.T.copy() if turned else held.reshape(other.shape))
    for path, layer in ours.named_modules():
        if isinstance(layer, torch.nn.MultiheadAttention):
            other = at(theirs, path)
            for name, weight, bias in zip("qkv", layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True):
                getattr(other, f"{name}_proj").weight.set_value(weight.detach().numpy().T.copy())
                getattr(other, f"{name}_proj").bias.set_value(bias.detach().numpy())


def at(layer, path):
    for name in path.split(".") if path else []:
        layer = layer[int(name)] if name.isdigit() else getattr(layer, name)
    return layer


@contextmanager
def exact():
    """Have Paddle's functions that compute with constants in float32 replaced by formulas in float64."""
    import paddle

    functions = paddle.nn.functional
    names = {"interpolate": interpolate, "hardsigmoid": lambda x: paddle.clip(x / 6 + 0.5, 0, 1), "selu": selu}
    kept = {name: getattr(functions, name) for name in names}
    for name, function in names.items():
        setattr(functions, name, function if name != "interpolate" else lambda x, **rest: interpolate(x, kept["interpolate"], **rest))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(functions, name, function)


def selu(x):
    import paddle

    return 1.0507009873554805 * paddle.where(x > 0, x, 1.6732632423543772 * paddle.expm1(paddle.minimum(x, paddle.zeros_like(x))))


def interpolate(x, plain, size=None, scale_factor=None, mode="nearest", align_corners=False, **rest):
    """Interpolation as the product with a matrix for each axis, which PyTorch makes of unit vectors."""
    import paddle
    import torch

    if mode == "nearest":
        return plain(x, size=size, scale_factor=scale_factor, mode=mode, **rest)
    wanted = size if size is not None else [int(n * scale_factor) for n in x.shape[2:]]
    made = []
    for old, new in zip(x.shape[2:], wanted, strict=True):
        unit = torch.eye(old, dtype=torch.float64)[None, :, :, None]
        rows = torch.nn.functional.interpolate(unit, size=(new, 1), mode=mode, align_corners=align_corners)
        made.append(paddle.to_tensor(rows[0, :, :, 0].numpy()))
    return paddle.einsum("bchw,hy,wz->bcyz", x, *made)
