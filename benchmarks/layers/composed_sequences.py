"""Steps of sequences: ``("seq", length, width)``."""
# ruff: noqa: ARG001 - every step is called alike

from __future__ import annotations

from composed_step import Step, module, parameter, plain


def linear(rng, shape):
    out = 2 * rng.randint(2, 6)
    bias = rng.choice(["", "", ", «bias=False|bias_attr=False»"])
    return module("linear", (*shape[:-1], out), f"nn.Linear({shape[-1]}, {out}{bias})")


def layer_norm(rng, shape):
    if shape[-1] < 4:
        return None
    return module("layer norm", shape, f"nn.LayerNorm({shape[-1]}, «eps|epsilon»={rng.choice(['1e-5', '1e-6', '1e-12'])})")


def attention(rng, shape):
    _, t, d = shape
    heads = rng.choice([n for n in (1, 2, 4) if d % n == 0])
    each = f"«x.shape[0], {t}, 3, {heads}, {d // heads}|[x.shape[0], {t}, 3, {heads}, {d // heads}]»"
    lines = [
        f"q, k, v = self.@a(x).reshape({each}).«permute(2, 0, 3, 1, 4)|transpose([2, 0, 3, 1, 4])»«.unbind(0)|.unbind(axis=0)»",
        f"s = T.matmul(q, k.transpose(«-2, -1|[0, 1, 3, 2]»)) * {round((d // heads) ** -0.5, 4)}",
    ]
    if rng.random() < 0.5:
        ones = f"T.triu(T.ones(«{t}, {t}|[{t}, {t}]»), diagonal=1)"
        least = rng.choice(["float('-inf')", "-1e9"])
        lines.append(f"s = s.masked_fill({ones}«.bool()|.astype('bool')», {least})")
    lines += [
        "s = F.softmax(s, «dim|axis»=-1)",
        f"x = self.@b(T.matmul(s, v).«permute(0, 2, 1, 3)|transpose([0, 2, 1, 3])».reshape(«x.shape[0], {t}, {d}|[x.shape[0], {t}, {d}]»))",
    ]
    return Step("attention written out", shape, {"a": f"nn.Linear({d}, {3 * d})", "b": f"nn.Linear({d}, {d})"}, lines)


def attention_layer(rng, shape):
    d = shape[2]
    if d % 2:
        return None
    return module(
        "attention layer", shape, f"nn.Multi«headAttention({d}, 2, batch_first=True)|HeadAttention({d}, 2)»", "x = self.@a(x, x, x)«[0]|»"
    )


def encoder_layer(rng, shape):
    d = shape[2]
    if d % 2:
        return None
    act, before = rng.choice(["relu", "gelu"]), rng.choice([True, False])
    made = f"nn.TransformerEncoderLayer({d}, 2, {d + 4}, 0.0, '{act}', «batch_first=True, norm_first={before}|normalize_before={before}»)"
    return module("encoder layer", shape, made)


def recurrent(rng, shape):
    _, t, d = shape
    kind, hidden, layers, both = rng.choice(["LSTM", "GRU"]), rng.randint(3, 6), rng.choice([1, 1, 2]), rng.choice([True, False])
    ways = "bidirect" if both else "forward"
    made = f"nn.{kind}({d}, {hidden}, num_layers={layers}, «batch_first=True, bidirectional={both}|direction='{ways}'»)"
    return module(kind, ("seq", t, hidden * (1 + both)), made, "x, _ = self.@a(x)")


def recurrent_loop(rng, shape):
    _, t, d = shape
    hidden = rng.randint(3, 6)
    zeros = f"T.zeros(«x.shape[0], {hidden}|[x.shape[0], {hidden}]», dtype=x.dtype)"
    if rng.random() < 0.5:
        made, start, step = {"a": f"nn.LSTMCell({d}, {hidden})"}, f"h = c = {zeros}", "«h, c|_, (h, c)» = self.@a(x[:, t], (h, c))"
    else:
        made = {"a": f"nn.Linear({d}, {hidden})", "b": f"nn.Linear({hidden}, {hidden})"}
        start, step = f"h = {zeros}", "h = T.tanh(self.@a(x[:, t]) + self.@b(h))"
    lines = [start, "found = []", "for t in range(x.shape[1]):", f"    {step}", "    found.append(h)", "x = T.stack(found, «dim|axis»=1)"]
    return Step("recurrence written out", ("seq", t, hidden), made, lines)


def time_conv(rng, shape):
    _, t, d = shape
    out, kernel, dilation = 2 * rng.randint(2, 4), rng.choice([1, 3]), rng.choice([1, 2])
    turned = "«permute(0, 2, 1)|transpose([0, 2, 1])»"
    made = f"nn.Conv1«d|D»({d}, {out}, {kernel}, padding={dilation * (kernel // 2)}, dilation={dilation})"
    return module("conv over time", ("seq", t, out), made, f"x = self.@a(x.{turned}).{turned}")


def positions(rng, shape):
    _, t, d = shape
    return module("positions", shape, parameter((t, d), 0.3), "x = x + self.@a")


def sines(rng, shape):
    _, t, d = shape
    return plain(
        "sines",
        shape,
        f"t = T.arange({t}, dtype=x.dtype).unsqueeze(1) * T.exp(T.arange({d}, dtype=x.dtype) * {-round(rng.uniform(0.3, 0.9), 2)})",
        "x = x + T.sin(t) * 0.5",
    )


def mixing(rng, shape):
    t = shape[1]
    return module("einsum", shape, parameter((t, t), round(t**-0.5, 2)), "x = T.einsum('btd,ts->bsd', x, self.@a)")


def feed_forward(rng, shape):
    d = shape[-1]
    act = rng.choice(["F.relu(H)", "F.gelu(H)", "F.gelu(H, approximate=«'tanh'|True»)", "F.silu(H)"])
    line = f"x = self.@b({act.replace('H', 'self.@a(x)')})"
    return Step("feed forward", shape, {"a": f"nn.Linear({d}, {2 * d})", "b": f"nn.Linear({2 * d}, {d})"}, [line])


def gated_unit(rng, shape):
    d = shape[-1]
    return module("gated linear unit", shape, f"nn.Linear({d}, {2 * d})", "x = F.glu(self.@a(x), «dim|axis»=-1)")


def cumulative(rng, shape):
    how = rng.choice([f" * {round(1 / shape[1], 3)}", f" / T.arange(1, {shape[1] + 1}, dtype=x.dtype).unsqueeze(-1)"])
    return plain("cumsum", shape, f"x = T.cumsum(x, «dim|axis»=1){how}")


def chosen_steps(rng, shape):
    _, t, d = shape
    wanted = [rng.randrange(t) for _ in range(rng.randint(2, t + 1))]
    line = f"x = T.index_select(x, «1, torch.tensor({wanted})|paddle.to_tensor({wanted}), axis=1»)"
    return plain("index select", ("seq", len(wanted), d), line)


def gathered(rng, shape):
    _, t, d = shape
    wanted = [rng.randrange(d) for _ in range(d)]
    return plain(
        "gather",
        shape,
        f"i = T.«tensor({wanted}).expand(x.shape[0], {t}, {d})|to_tensor({wanted}).expand([x.shape[0], {t}, {d}])»",
        "x = T.«gather(x, 2, i)|take_along_axis(x, i, axis=2)»",
    )


def strided(rng, shape):
    _, t, d = shape
    if t < 4:
        return None
    return plain("slice", ("seq", (t + 1) // 2, d), "x = x[:, ::2]")


def repeated(rng, shape):
    _, t, d = shape
    if t > 9:
        return None
    how = rng.choice(["T.repeat_interleave(x, 2, «dim|axis»=1)", "x.«repeat(1, 2, 1)|tile([1, 2, 1])»"])
    return plain("repeat", ("seq", 2 * t, d), f"x = {how}")


def flipped(rng, shape):
    return plain("flip", shape, "x = x + 0.5 * T.flip(x, «dims|axis»=[1])")


def sorted_steps(rng, shape):
    return plain("sort", shape, "x = «torch.sort(x, dim=1).values|paddle.sort(x, axis=1)»")


def squared_norm(rng, shape):
    d = shape[-1]
    line = "x = x * T.rsqrt((x * x).mean(«dim=-1|axis=-1», keepdim=True) + EPS) * self.@a".replace("EPS", rng.choice(["1e-6", "1e-5"]))
    made = f"«nn.Parameter(torch.ones({d}))|self.create_parameter([{d}], default_initializer=nn.initializer.Constant(1.0))»"
    return module("root mean square norm", shape, made, line)


def centred(rng, shape):
    if shape[1] < 3:
        return None
    return plain("standardise", shape, "x = (x - x.mean(«dim|axis»=1, keepdim=True)) / (x.std(«dim|axis»=1, keepdim=True) + 0.1)")


def dynamic_pool(rng, shape):
    how = rng.choice(
        [
            "x.mean(«dim|axis»=1)",
            "«x.max(dim=1).values|x.max(axis=1)»",
            "x[:, -1]",
            "T.logsumexp(x, «dim|axis»=1)",
            "x.sum(«dim|axis»=1) * 0.3",
        ]
    )
    return plain("pool of a sequence", ("rows", shape[2]), f"x = {how}")


def attentive_pool(rng, shape):
    lines = ["s = F.softmax(self.@a(x), «dim|axis»=1)", "x = (s * x).sum(«dim|axis»=1)"]
    return Step("attentive pool", ("rows", shape[2]), {"a": f"nn.Linear({shape[2]}, 1)"}, lines)


def flat_steps(rng, shape):
    if shape[1] * shape[2] > 120:
        return None
    return plain("flatten", ("rows", shape[1] * shape[2]), "x = x.flatten(1)")
