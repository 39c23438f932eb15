"""Steps of pictures: ``("image", channels, height, width)``."""
# ruff: noqa: ARG001 - every step is called alike

from __future__ import annotations

from composed_step import Step, module, plain


def sized(length, kernel, stride=1, pad=0, dilation=1):
    return (length + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def conv(rng, shape):
    _, c, h, w = shape
    kernel, stride, dilation = rng.choice([1, 2, 3, 3, 3, 5]), rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])
    pad = rng.choice([0, kernel // 2, kernel // 2])
    mode = rng.choice(["zeros", "zeros", "zeros", "reflect", "replicate", "circular"])
    groups = rng.choice([1, 1, 1, 2 if c % 2 == 0 else 1, c])
    out = groups * rng.randint(1, 3) if groups > 2 else 2 * rng.randint(2, 4)
    height, width = sized(h, kernel, stride, pad, dilation), sized(w, kernel, stride, pad, dilation)
    if min(height, width) < 1 or pad >= min(h, w):
        return None
    rest = f"stride={stride}, padding={pad}, dilation={dilation}, groups={groups}, padding_mode='{mode}'"
    bias = rng.choice(["", "", ", «bias=False|bias_attr=False»"])
    return module("conv", ("image", out, height, width), f"nn.Conv2«d|D»({c}, {out}, {kernel}, {rest}{bias})")


def same_conv(rng, shape):
    c = shape[1]
    kernel = rng.choice([1, 3, 5])
    groups = rng.choice([1, 1, c])
    return module("conv", shape, f"nn.Conv2«d|D»({c}, {c}, {kernel}, padding={kernel // 2}, groups={groups})")


def transposed_conv(rng, shape):
    _, c, h, w = shape
    out, kernel, stride = 2 * rng.randint(1, 3), rng.choice([2, 3, 4]), rng.choice([1, 2])
    pad, extra = rng.choice([0, 1]), rng.choice([0, 1]) if stride == 2 else 0
    height, width = ((n - 1) * stride - 2 * pad + kernel + extra for n in (h, w))
    if max(height, width) > 18 or min(height, width) < 1:
        return None
    made = f"nn.Conv«Transpose2d|2DTranspose»({c}, {out}, {kernel}, stride={stride}, padding={pad}, output_padding={extra})"
    return module("transposed conv", ("image", out, height, width), made)


def batch_norm(rng, shape):
    eps, momentum = rng.choice(["1e-5", "1e-3", "1e-4"]), rng.choice([1, 3, 0.3])
    momentum = momentum / 10 if momentum >= 1 else 0.03
    rest = f"«eps={eps}, momentum={momentum}|epsilon={eps}, momentum={round(1 - momentum, 4)}»"
    return module("batch norm", shape, f"nn.BatchNorm2«d|D»({shape[1]}, {rest})")


def group_norm(rng, shape):
    groups = rng.choice([n for n in (1, 2, shape[1]) if shape[1] % n == 0])
    if shape[2] * shape[3] < 4:
        return None
    return module("group norm", shape, f"nn.GroupNorm({groups}, {shape[1]}, «eps|epsilon»={rng.choice(['1e-5', '1e-6'])})")


def instance_norm(rng, shape):
    if shape[2] * shape[3] < 6:
        return None
    kept = rng.choice([", affine=True|", ", affine=False|, weight_attr=False, bias_attr=False"]).split("|")
    return module("instance norm", shape, f"nn.InstanceNorm2«d|D»({shape[1]}, «eps=1e-5{kept[0]}|epsilon=1e-5{kept[1]}»)")


def channel_norm(rng, shape):
    made = f"nn.LayerNorm({shape[1]}, «eps|epsilon»={rng.choice(['1e-6', '1e-5'])})"
    first, last = "x.«permute(0, 2, 3, 1)|transpose([0, 2, 3, 1])»", "«permute(0, 3, 1, 2)|transpose([0, 3, 1, 2])»"
    return module("layer norm of channels", shape, made, f"x = self.@a({first}).{last}")


def response_norm(rng, shape):
    return plain("local response norm", shape, f"x = F.local_response_norm(x, {rng.choice([3, 5])}, alpha=0.01, beta=0.75, k=1.0)")


def channel_prelu(rng, shape):
    return module("prelu", shape, f"nn.PReLU({rng.choice([1, shape[1]])}, init={rng.choice([0.25, 0.1])})")


def max_pool(rng, shape):
    _, c, h, w = shape
    kernel, stride, pad, ceil = rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([False, True])
    height, width = sized(h, kernel, stride, pad), sized(w, kernel, stride, pad)
    if min(h, w) < 4 or (ceil and any((n + 2 * pad - kernel) % stride for n in (h, w))):
        return None
    return module("max pool", ("image", c, height, width), f"nn.MaxPool2«d|D»({kernel}, {stride}, {pad}, ceil_mode={ceil})")


def average_pool(rng, shape):
    _, c, h, w = shape
    kernel, stride, pad, inner = rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([False, True])
    if min(h, w) < 4:
        return None
    counted = f"«count_include_pad={inner}|exclusive={not inner}»"
    out = ("image", c, sized(h, kernel, stride, pad), sized(w, kernel, stride, pad))
    return plain("average pool", out, f"x = F.avg_pool2d(x, {kernel}, stride={stride}, padding={pad}, {counted})")


def adaptive_pool(rng, shape):
    _, c, h, w = shape
    if min(h, w) < 4:
        return None
    height, width, kind = rng.randint(2, h), rng.randint(2, w), rng.choice(["avg", "max"])
    return plain(f"adaptive {kind} pool", ("image", c, height, width), f"x = F.adaptive_{kind}_pool2d(x, ({height}, {width}))")


def interpolate(rng, shape):
    _, c, h, w = shape
    height, width = rng.randint(3, 15), rng.randint(3, 15)
    mode = rng.choice(["nearest", "bilinear", "bilinear", "bicubic", "area"])
    if mode == "area":
        height, width = min(height, h), min(width, w)
    rest = f", align_corners={rng.choice([True, False])}" if mode.startswith("bi") else ""
    out = ("image", c, height, width)
    if mode == "area":
        same = f"F.adaptive_avg_pool2d(x, ({height}, {width}))"
        return plain("interpolate", out, f"x = «F.interpolate(x, size=({height}, {width}), mode='area')|{same}»")
    return plain("interpolate", out, f"x = F.interpolate(x, size=«({height}, {width})|[{height}, {width}]», mode='{mode}'{rest})")


def upsample(rng, shape):
    _, c, h, w = shape
    if max(h, w) > 8:
        return None
    align = rng.choice([True, False])
    return module("upsample", ("image", c, 2 * h, 2 * w), f"nn.Upsample(scale_factor=2, mode='bilinear', align_corners={align})")


def pad(rng, shape):
    _, c, h, w = shape
    around = [rng.randint(0, 2) for _ in range(4)]
    mode = rng.choice(["constant", "reflect", "replicate", "circular"])
    if min(h, w) < 4 or not any(around):
        return None
    value = f", value={rng.choice([0.0, 0.5, -1.0])}" if mode == "constant" else ""
    out = ("image", c, h + around[2] + around[3], w + around[0] + around[1])
    return plain("pad", out, f"x = F.pad(x, {around}, mode='{mode}'{value})")


def squeeze_excite(rng, shape):
    c = shape[1]
    gate = rng.choice(["F.sigmoid", "F.hardsigmoid"])
    return Step(
        "squeeze and excite",
        shape,
        {"a": f"nn.Linear({c}, {c // 2 + 1})", "b": f"nn.Linear({c // 2 + 1}, {c})"},
        ["s = F.relu(self.@a(x.mean(«dim=(2, 3)|axis=[2, 3]»)))", f"x = x * {gate}(self.@b(s)).unsqueeze(-1).unsqueeze(-1)"],
    )


def split_channels(rng, shape):
    c = shape[1]
    if c < 3:
        return None
    first, gate = rng.randint(1, c - 1), rng.choice(["T.tanh(a)", "T.sigmoid(a)", "F.silu(a)"])
    return plain(
        "split and cat",
        shape,
        f"a, b = T.split(x, [{first}, {c - first}], «dim|axis»=1)",
        f"x = T.«cat|concat»([b, {gate}], «dim|axis»=1)",
    )


def shuffle_channels(rng, shape):
    _, c, h, w = shape
    if c % 2:
        return None
    return plain(
        "channel shuffle",
        shape,
        f"x = x.reshape(«x.shape[0], 2, {c // 2}, {h}, {w}|[x.shape[0], 2, {c // 2}, {h}, {w}]»)",
        f"x = x.transpose(«1, 2|[0, 2, 1, 3, 4]»).reshape(«x.shape[0], {c}, {h}, {w}|[x.shape[0], {c}, {h}, {w}]»)",
    )


def pixel_shuffle(rng, shape):
    _, c, h, w = shape
    if c % 4 or max(h, w) > 8:
        return None
    return plain("pixel shuffle", ("image", c // 4, 2 * h, 2 * w), "x = F.pixel_shuffle(x, 2)")


def pixel_unshuffle(rng, shape):
    _, c, h, w = shape
    if h % 2 or w % 2 or c > 4:
        return None
    return plain("pixel unshuffle", ("image", 4 * c, h // 2, w // 2), "x = F.pixel_unshuffle(x, 2)")


def roll(rng, shape):
    up, left = rng.randint(-2, 2), rng.randint(1, 3)
    return plain("roll", shape, f"x = T.roll(x, shifts=({up}, {left}), «dims|axis»=(2, 3))")


def spatial_softmax(rng, shape):
    _, c, h, w = shape
    flat = f"x.flatten(2) * {rng.choice([0.5, 2.0])}"
    whole = f"«x.shape[0], {c}, {h}, {w}|[x.shape[0], {c}, {h}, {w}]»"
    return plain("spatial softmax", shape, f"s = F.softmax({flat}, «dim|axis»=-1)", f"x = x + x * s.reshape({whole})")


def grid_sample(rng, shape):
    c = shape[1]
    height, width, align = rng.randint(3, 9), rng.randint(3, 9), rng.choice([True, False])
    rows = [[round(rng.uniform(0.7, 1.1), 2), round(rng.uniform(-0.3, 0.3), 2), 0.1], [round(rng.uniform(-0.3, 0.3), 2), 0.9, -0.2]]
    mode = rng.choice(["zeros", "border"])
    return plain(
        "grid sample",
        ("image", c, height, width),
        f"t = T.«tensor({rows}, dtype=x.dtype).expand(x.shape[0], 2, 3)|to_tensor({rows}, dtype=x.dtype).expand([x.shape[0], 2, 3])»",
        f"g = F.affine_grid(t, «(x.shape[0], {c}, {height}, {width})|[x.shape[0], {c}, {height}, {width}]», align_corners={align})",
        f"x = F.grid_sample(x, g, mode='bilinear', padding_mode='{mode}', align_corners={align})",
    )


def pixels(rng, shape):
    _, c, h, w = shape
    if h * w > 40:
        return None
    return plain("pixels as a sequence", ("seq", h * w, c), "x = x.flatten(2).«permute(0, 2, 1)|transpose([0, 2, 1])»")


def patches(rng, shape):
    _, c, h, w = shape
    kernel = rng.choice([2, 3])
    count = sized(h, kernel, kernel) * sized(w, kernel, kernel)
    if min(h, w) < kernel or count > 30 or count < 2:
        return None
    return plain(
        "patches",
        ("seq", count, c * kernel * kernel),
        f"x = F.unfold(x, «kernel_size={kernel}, stride={kernel}|kernel_sizes={kernel}, strides={kernel}»)",
        "x = x.«permute(0, 2, 1)|transpose([0, 2, 1])»",
    )


def picture_pool(rng, shape):
    how = rng.choice(["mean(«dim=(2, 3)|axis=[2, 3]»)", "«amax(dim=(2, 3))|max(axis=[2, 3])»"])
    return plain("pool of a picture", ("rows", shape[1]), f"x = x.{how}")


def flatten(rng, shape):
    _, c, h, w = shape
    if c * h * w > 150:
        return None
    return plain("flatten", ("rows", c * h * w), "x = x.flatten(1)")
