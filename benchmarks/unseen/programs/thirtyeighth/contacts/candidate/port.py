"""Contacts within a protein from its family's alignment (Paddle).

All layers lie in one flat bag. The computation is plain functions; each gets `use`, a closure over the bag and a
prefix: `use("query", x)` applies the layer `<prefix>_query`.
"""
import json
import pathlib
from functools import partial

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Normal, Uniform

ALPHABET = {letter: code for code, letter in enumerate("ACDEFGHIKLMNPQRSTVWY-")}
BLANK, OUTSIDE = ALPHABET["-"], len(ALPHABET)
CHANNELS, EDGE, HEADS, STAGES = 16, 12, 2, 2
NEAREST, TOUCHING, LOOSE = 8, 8.0, 4
LIMITS = np.linspace(4.0, 18.0, 7)
DEPTH, CLASSES = 8, 8


# ------------------------------------------------------------------ the bag

def linear(fan_in, fan_out, bias=True, std=None):
    edge = Uniform(-fan_in ** -0.5, fan_in ** -0.5)
    weight = edge if std is None else Normal(0.0, std)
    return nn.Linear(fan_in, fan_out, weight_attr=weight, bias_attr=edge if bias else False)


def table(rows, columns):
    return nn.Embedding(rows, columns, weight_attr=Normal(0.0, 1.0))


def stage_layers(stage):
    """Names and makers of one stage's layers."""
    def many(prefix, makers):
        return {f"stage{stage}_{prefix}_{name}": maker for name, maker in makers.items()}

    square, flat = partial(linear, CHANNELS, CHANNELS), partial(linear, EDGE, EDGE)
    ln, pair_ln = partial(nn.LayerNorm, CHANNELS), partial(nn.LayerNorm, EDGE)
    return {
        **many("row", dict(norm=ln, q=partial(square, bias=False), k=partial(square, bias=False), v=square,
                           gate=square, out=square, bias=partial(linear, EDGE, HEADS, bias=False))),
        **many("col", dict(norm=ln, qkv=partial(linear, CHANNELS, 3 * CHANNELS), out=square)),
        **many("msa", dict(norm=ln, up=partial(linear, CHANNELS, 2 * CHANNELS),
                           down=partial(linear, 2 * CHANNELS, CHANNELS))),
        **many("outer", dict(norm=ln, left=partial(linear, CHANNELS, 4), right=partial(linear, CHANNELS, 4),
                             out=partial(linear, 16, EDGE))),
        **many("tri", dict(norm=pair_ln, after=pair_ln, left_value=flat, left_gate=flat, right_value=flat,
                           right_gate=flat, gate=flat, out=flat)),
        **many("pair", dict(norm=pair_ln, up=partial(linear, EDGE, 2 * EDGE), down=partial(linear, 2 * EDGE, EDGE))),
    }


def all_layers():
    makers = {"letters": partial(table, len(ALPHABET) + 1, CHANNELS), "offsets": partial(table, 2 * NEAREST + 1, EDGE)}
    for stage in range(STAGES):
        makers.update(stage_layers(stage))
    makers.update(
        carry_norm=partial(nn.LayerNorm, EDGE), carry_bins=partial(linear, CLASSES, EDGE, bias=False),
        first=partial(linear, CHANNELS, EDGE), second=partial(linear, CHANNELS, EDGE),
        touch=partial(linear, EDGE + HEADS * STAGES, 1, std=0.3), bins=partial(linear, EDGE, CLASSES, std=0.3),
    )
    return makers


# ------------------------------------------------------------------ the computation

def to_heads(x):
    return x.reshape(x.shape[:-1] + [HEADS, x.shape[-1] // HEADS])


def look_along_rows(use, m, z, weight, real):
    """All sequences share one map of attention: [batch, head, i, j]."""
    x = use("norm", m)
    q, k, v = (to_heads(use(name, x)) for name in "qkv")
    effective = weight.sum(axis=1) * (CHANNELS // HEADS)
    logits = paddle.einsum("br,brihd,brjhd->bhij", weight, q, k) * effective.rsqrt()[:, None, None, None]
    logits = logits + use("bias", z).transpose([0, 3, 1, 2])
    hidden = paddle.logical_not(real)[:, None, None, :]
    attention = F.softmax(paddle.masked_fill(logits, hidden, -1e9), axis=-1)
    seen = paddle.einsum("bhij,brjhd->brihd", attention, v).flatten(-2)
    return use("out", F.sigmoid(use("gate", x)) * seen), attention


def look_along_columns(use, m, weight):
    q, k, v = (to_heads(part) for part in use("qkv", use("norm", m)).split(3, axis=-1))
    usual = paddle.where(weight > 0, paddle.log(weight.clip(min=1e-6)), paddle.full_like(weight, -1e9))
    logits = paddle.einsum("brihd,bsihd->bihrs", q, k) * q.shape[-1] ** -0.5 + usual[:, None, None, None, :]
    return use("out", paddle.einsum("bihrs,bsihd->brihd", F.softmax(logits), v).flatten(-2))


def think(use, x, drop):
    return use("down", drop(F.gelu(use("up", use("norm", x)), approximate=True)))


def outer(use, m, weight):
    """Mean over the weighted sequences of what two places have together."""
    x = use("norm", m)
    share = weight / weight.sum(axis=1, keepdim=True)
    left = use("left", x) * share[:, :, None, None]
    return use("out", paddle.einsum("bria,brjc->bijac", left, use("right", x)).flatten(-2))


def both_real(real, dtype):
    real = real.astype(dtype)
    return real[:, :, None] * real[:, None, :]


def close_triangles(use, z, real):
    x = use("norm", z)
    there = both_real(real, z.dtype)[..., None]
    left, right = (F.sigmoid(use(side + "_gate", x)) * use(side + "_value", x) * there for side in ("left", "right"))
    size = real.astype(z.dtype).sum(axis=1).reshape([-1, 1, 1, 1])
    third = paddle.einsum("bikc,bjkc->bijc", left, right) / size.sqrt()
    return F.sigmoid(use("gate", x)) * use("out", use("after", third))


def without_average_product(maps, real):
    """APC: what is left of a symmetric map once the strength of its rows and columns is taken out."""
    there = both_real(real, maps.dtype)[:, None]
    maps = (maps + maps.transpose([0, 1, 3, 2])) / 2 * there
    along = maps.sum(axis=3, keepdim=True)
    total = along.sum(axis=2, keepdim=True)
    return maps - along * along.transpose([0, 1, 3, 2]) / total


class ContactNet(nn.Layer):
    def __init__(self, passes=2, dropout=0.1):
        super().__init__()
        self.bag = nn.LayerDict({name: make() for name, make in all_layers().items()})
        self.passes, self.dropout = passes, dropout

    def user(self, prefix):
        return lambda name, x: self.bag[f"{prefix}_{name}"](x)

    def one_pass(self, msa, weight, real, carried):
        bag, drop = self.bag, lambda x: F.dropout(x, self.dropout, training=self.training)
        m = bag["letters"](msa)
        place = paddle.arange(msa.shape[2])
        offset = paddle.clip(place[:, None] - place[None, :], -NEAREST, NEAREST) + NEAREST
        query = m[:, 0]
        z = bag["offsets"](offset) + bag["first"](query).unsqueeze(2) + bag["second"](query).unsqueeze(1)
        if carried:
            before, distances = carried
            z = z + bag["carry_norm"](before) + bag["carry_bins"](F.softmax(distances, axis=-1))
        maps = []
        for stage in range(STAGES):
            row, col, msa_, product, tri, pair = (
                self.user(f"stage{stage}_{part}") for part in ("row", "col", "msa", "outer", "tri", "pair")
            )
            seen, attention = look_along_rows(row, m, z, weight, real)
            maps.append(attention)
            m = m + seen
            m = m + look_along_columns(col, m, weight)
            m = m + think(msa_, m, drop)
            z = z + outer(product, m, weight)
            z = z + close_triangles(tri, z, real)
            z = z + think(pair, z, drop)
        z = (z + z.transpose([0, 2, 1, 3])) / 2
        clean = without_average_product(paddle.concat(maps, axis=1), real).transpose([0, 2, 3, 1])
        return z, bag["touch"](paddle.concat([z, clean], axis=-1))[..., 0], bag["bins"](z)

    def forward(self, msa, weight, mask):
        carried = None
        for _ in range(self.passes):
            z, contacts, distances = self.one_pass(msa, weight, mask, carried)
            carried = [z.detach(), distances.detach()]
        return {"contacts": contacts, "distances": distances}


def build_model():
    return ContactNet()


# ------------------------------------------------------------------ families

def digest(rows):
    """Codes of the rows that are kept, and their weights: one over the rows that are alike by four fifths."""
    codes = np.array([[ALPHABET[letter] for letter in row] for row in rows], dtype="int64")
    kept = np.argsort((codes[1:] == BLANK).sum(axis=1), kind="stable")[:DEPTH - 1]
    codes = np.concatenate([codes[:1], codes[1:][kept]])
    filled = codes != BLANK
    shared = filled[:, None] & filled[None, :]
    equal = (shared & (codes[:, None] == codes[None, :])).sum(axis=2)
    alike = equal / np.maximum(shared.sum(axis=2), 1) >= 0.8
    return codes, (1.0 / alike.sum(axis=1)).astype("float32")


def carbon_distances(carbons):
    xyz = np.array([[np.nan] * 3 if carbon is None else carbon for carbon in carbons], dtype="float64")
    distances = np.linalg.norm(xyz[:, None] - xyz[None, :], axis=2)
    return np.where(np.isnan(distances), -1.0, distances).astype("float32")


def build_dataset(split):
    families = json.loads(pathlib.Path("data", split + ".json").read_text())
    return [digest(family["msa"]) + (carbon_distances(family["ca"]),) for family in families]


def build_dataloader(split, size=2):
    samples = build_dataset(split)

    def stacked(arrays, fill):
        shape = np.max([array.shape for array in arrays], axis=0)
        pads = [[(0, most - have) for most, have in zip(shape, array.shape)] for array in arrays]
        return np.stack([np.pad(array, pad, constant_values=fill) for array, pad in zip(arrays, pads)])

    def join(chosen):
        msa, weight, distances = (stacked(arrays, fill) for arrays, fill in zip(zip(*chosen), (OUTSIDE, 0.0, -1.0)))
        return [paddle.to_tensor(array) for array in (msa, weight, msa[:, 0] != OUTSIDE, distances)]

    return [join(samples[start:start + size]) for start in range(0, len(samples), size)]


# ------------------------------------------------------------------ learning

def apart(labels, least):
    """1 for pairs i < j of known distance that are at least so far apart along the chain."""
    place = paddle.arange(labels.shape[1])
    return (labels >= 0) & (place[None, :] >= place[:, None] + least)[None]


def mean_of_means(values, pairs):
    pairs = pairs.astype(values.dtype)
    return paddle.mean((values * pairs).sum(axis=[1, 2]) / pairs.sum(axis=[1, 2]).clip(min=1.0))


def loss(outputs, labels, smoothing=0.05):
    logits = outputs["contacts"]
    positive = ((labels >= 0) & (labels < TOUCHING)).astype(logits.dtype)
    entropy = F.binary_cross_entropy_with_logits(logits, positive, reduction="none")
    missed = 1.0 - paddle.exp(-entropy.detach())
    focal = missed.square() * (0.25 + 0.5 * positive) * entropy

    limits = paddle.to_tensor(LIMITS, dtype=labels.dtype)
    kind = (labels[..., None] > limits).astype("int64").sum(axis=-1)
    soft = F.one_hot(kind, CLASSES).astype(logits.dtype) * (1.0 - smoothing) + smoothing / CLASSES
    binned = -(soft * F.log_softmax(outputs["distances"], axis=-1)).sum(axis=-1)
    return 4.0 * mean_of_means(focal, apart(labels, LOOSE)) + 0.3 * mean_of_means(binned, apart(labels, 2))


def metric(outputs, labels):
    pairs = apart(labels, LOOSE)
    shares = []
    for score, truth, ok in zip(outputs["contacts"].numpy(), labels.numpy(), pairs.numpy()):
        order = np.argsort(-score[ok], kind="stable")
        top = order[:max(1, int((np.diag(truth) >= 0).sum()) // 2)]
        shares.append((truth[ok][top] < TOUCHING).mean())
    middles = np.concatenate([[LIMITS[0] - 1], (LIMITS[1:] + LIMITS[:-1]) / 2, [LIMITS[-1] + 2]])
    middles = paddle.to_tensor(middles, dtype=labels.dtype)
    guess = (F.softmax(outputs["distances"], axis=-1) * middles).sum(axis=-1)
    near = apart(labels, 2) & (labels < float(LIMITS[-1]))
    return {"top_half": float(np.mean(shares)), "off_by": mean_of_means((guess - labels).abs(), near)}


def restarts(step, period=8, high=3e-3, low=3e-4):
    """Share of the highest rate: cosines from high to low, each twice as long as the one before."""
    while step >= period:
        step, period = step - period, period * 2
    return (low + (high - low) * (1 + np.cos(np.pi * step / period)) / 2) / high


def build_optimizer(model):
    return paddle.optimizer.Adam(
        learning_rate=paddle.optimizer.lr.LambdaDecay(3e-3, restarts),
        beta1=0.9,
        beta2=0.99,
        epsilon=1e-6,
        parameters=model.parameters(),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def clip_each(parameters, most):
    """Each gradient by its own norm (nn.ClipGradByNorm has no kernel for float64 on a CPU)."""
    for parameter in parameters:
        slope = parameter.grad
        if slope is not None:
            parameter.grad = slope * (most / slope.norm().clip(min=most))


def train_step(model, optimizer, batch):
    msa, weight, real, distances = batch
    value = loss(model(msa, weight, real), distances)
    value.backward()
    clip_each(model.parameters(), 0.1)
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()


# ------------------------------------------------------------------ use

def sequences(path):
    """Rows of an a3m file without insertions (small letters and dots)."""
    drop = {ord(letter): None for letter in "abcdefghijklmnopqrstuvwxyz.\n"}
    records = pathlib.Path(path).read_text().split(">")[1:]
    return [record.partition("\n")[2].translate(drop) for record in records]


def predict(path, model):
    codes, weight = digest(sequences(path))
    length = codes.shape[1]
    weight = paddle.to_tensor(weight[None]).astype(model.bag["touch"].weight.dtype)
    with paddle.no_grad():
        outputs = model(paddle.to_tensor(codes[None]), weight, paddle.ones([1, length], dtype="bool"))
    chance = F.sigmoid(outputs["contacts"])[0].numpy()
    i, j = np.triu_indices(length, LOOSE)
    order = np.argsort(-chance[i, j], kind="stable")[:length]
    return {"pairs": np.stack([i[order], j[order]], axis=1), "chance": chance[i, j][order]}
