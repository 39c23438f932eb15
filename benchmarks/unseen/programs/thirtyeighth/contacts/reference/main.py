"""Which residues of a protein touch, read from an alignment of its family.

Everything in one file and in closures: a *piece* is a function `piece(net, ...)` that remembers the names of its
layers; `piece.grow(net)` adds these layers to the net. Pieces are put together by calling them.
"""
import json
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

LETTERS = "ACDEFGHIKLMNPQRSTVWY-"
GAP, PAD = 20, 21
WIDTH, PAIR, HEADS, BLOCKS, RECYCLES = 16, 12, 2, 2, 1
REACH = 8                       # relative positions beyond it share one vector
EDGES = torch.linspace(4.0, 18.0, 7, dtype=torch.float64)
CONTACT, APART = 8.0, 4         # Angstrom; residues along the chain
ROWS = 8


# ---------------------------------------------------------------- pieces

def with_layers(*pieces, **layers):
    """Decorator: the function's `grow` makes the given layers and those of the pieces it uses."""
    def mark(function):
        def grow(net):
            for name, maker in layers.items():
                net.layers[name] = maker()
            for piece in pieces:
                piece.grow(net)
        function.grow = grow
        return function
    return mark


def dense(name, fan_in, fan_out, bias=True, start=None):
    def maker():
        layer = nn.Linear(fan_in, fan_out, bias=bias)
        if start is not None:
            nn.init.normal_(layer.weight, std=start)
        return layer

    @with_layers(**{name: maker})
    def piece(net, x):
        return F.linear(x, net.layers[name].weight, net.layers[name].bias)
    return piece


def norm(name, size):
    @with_layers(**{name: lambda: nn.LayerNorm(size)})
    def piece(net, x):
        layer = net.layers[name]
        return F.layer_norm(x, (size,), layer.weight, layer.bias)
    return piece


def gated(name, fan_in, fan_out):
    value, gate = dense(name + "_value", fan_in, fan_out), dense(name + "_gate", fan_in, fan_out)

    @with_layers(value, gate)
    def piece(net, x):
        return torch.sigmoid(gate(net, x)) * value(net, x)
    return piece


def heads_of(x):
    return x.unflatten(-1, (HEADS, -1))


def tied_rows(name):
    """Row attention with one map for all sequences; a sequence counts by its weight."""
    before = norm(name + "_norm", WIDTH)
    q, k = dense(name + "_q", WIDTH, WIDTH, bias=False), dense(name + "_k", WIDTH, WIDTH, bias=False)
    v, gate, out = dense(name + "_v", WIDTH, WIDTH), dense(name + "_gate", WIDTH, WIDTH), dense(name + "_out", WIDTH, WIDTH)
    bias = dense(name + "_bias", PAIR, HEADS, bias=False)

    @with_layers(before, q, k, v, gate, out, bias)
    def piece(net, m, z, weight, mask):
        x = before(net, m)
        queries = heads_of(q(net, x)) * weight[:, :, None, None, None]
        scale = torch.sqrt((WIDTH // HEADS) * weight.sum(dim=1))
        logits = torch.einsum("brihd,brjhd->bhij", queries, heads_of(k(net, x))) / scale[:, None, None, None]
        logits = logits + bias(net, z).permute(0, 3, 1, 2)
        attention = logits.masked_fill(~mask[:, None, None, :], -1e9).softmax(dim=-1)
        mixed = torch.einsum("bhij,brjhd->brihd", attention, heads_of(v(net, x))).flatten(-2)
        return out(net, torch.sigmoid(gate(net, x)) * mixed), attention
    return piece


def columns(name):
    """Column attention: what the other sequences have at this place; heavy sequences are looked at more."""
    before = norm(name + "_norm", WIDTH)
    qkv = dense(name + "_qkv", WIDTH, 3 * WIDTH)
    out = dense(name + "_out", WIDTH, WIDTH)

    @with_layers(before, qkv, out)
    def piece(net, m, weight):
        q, k, v = (heads_of(part) for part in qkv(net, before(net, m)).chunk(3, dim=-1))
        prior = torch.where(weight > 0, weight.clamp(min=1e-6).log(), torch.full_like(weight, -1e9))
        logits = torch.einsum("brihd,bsihd->bhirs", q, k) / math.sqrt(q.shape[-1]) + prior[:, None, None, None, :]
        return out(net, torch.einsum("bhirs,bsihd->brihd", logits.softmax(dim=-1), v).flatten(-2))
    return piece


def transition(name, size):
    before, up, down = norm(name + "_norm", size), dense(name + "_up", size, 2 * size), dense(name + "_down", 2 * size, size)

    @with_layers(before, up, down)
    def piece(net, x):
        hidden = F.gelu(up(net, before(net, x)), approximate="tanh")
        return down(net, F.dropout(hidden, net.dropout, net.training))
    return piece


def outer_mean(name, inner=4):
    """From the alignment to pairs: weighted mean of the products of two projections."""
    before = norm(name + "_norm", WIDTH)
    left, right = dense(name + "_left", WIDTH, inner), dense(name + "_right", WIDTH, inner)
    out = dense(name + "_out", inner * inner, PAIR)

    @with_layers(before, left, right, out)
    def piece(net, m, weight):
        x = before(net, m)
        share = weight / weight.sum(dim=1, keepdim=True)
        pairs = torch.einsum("br,bria,brjc->bijac", share, left(net, x), right(net, x))
        return out(net, pairs.flatten(-2))
    return piece


def triangle(name):
    """Pairs (i, k) and (j, k) tell of (i, j)."""
    before, after = norm(name + "_norm", PAIR), norm(name + "_after", PAIR)
    left, right = gated(name + "_left", PAIR, PAIR), gated(name + "_right", PAIR, PAIR)
    gate, out = dense(name + "_gate", PAIR, PAIR), dense(name + "_out", PAIR, PAIR)

    @with_layers(before, after, left, right, gate, out)
    def piece(net, z, mask):
        x = before(net, z)
        there = (mask[:, :, None] & mask[:, None, :]).unsqueeze(-1)
        count = mask.sum(dim=1).to(z.dtype)[:, None, None, None]
        third = torch.einsum("bikc,bjkc->bijc", left(net, x) * there, right(net, x) * there) / count.sqrt()
        return torch.sigmoid(gate(net, x)) * out(net, after(net, third))
    return piece


def block(name):
    rows, cols, think = tied_rows(name + "_row"), columns(name + "_col"), transition(name + "_msa", WIDTH)
    outer, third, ponder = outer_mean(name + "_outer"), triangle(name + "_tri"), transition(name + "_pair", PAIR)

    @with_layers(rows, cols, think, outer, third, ponder)
    def piece(net, m, z, weight, mask):
        update, attention = rows(net, m, z, weight, mask)
        m = m + update
        m = m + cols(net, m, weight)
        m = m + think(net, m)
        z = z + outer(net, m, weight)
        z = z + third(net, z, mask)
        return m, z + ponder(net, z), attention
    return piece


def average_product(maps, mask):
    """Average product correction of the maps made symmetric, over real residues."""
    there = (mask[:, :, None] & mask[:, None, :]).unsqueeze(1)
    maps = 0.5 * (maps + maps.transpose(-1, -2)) * there
    rows, whole = maps.sum(dim=-1), maps.sum(dim=(-1, -2))
    return maps - rows[..., :, None] * rows[..., None, :] / whole[..., None, None]


def whole_net():
    parts = [block(f"block{number}") for number in range(BLOCKS)]
    carry_norm, carry_bins = norm("carry_norm", PAIR), dense("carry_bins", len(EDGES) + 1, PAIR, bias=False)
    first, second = dense("first", WIDTH, PAIR), dense("second", WIDTH, PAIR)
    touch = dense("touch", PAIR + HEADS * BLOCKS, 1, start=0.3)
    bins = dense("bins", PAIR, len(EDGES) + 1, start=0.3)

    def once(net, msa, weight, mask, carried):
        m = F.embedding(msa, net.layers["letters"].weight)
        place = torch.arange(msa.shape[-1], device=msa.device)
        offset = (place[:, None] - place[None, :]).clamp(-REACH, REACH) + REACH
        z = F.embedding(offset, net.layers["offsets"].weight) + first(net, m[:, 0])[:, :, None] + second(net, m[:, 0])[:, None]
        if carried is not None:
            z = z + carry_norm(net, carried[0]) + carry_bins(net, carried[1].softmax(dim=-1))
        maps = []
        for part in parts:
            m, z, attention = part(net, m, z, weight, mask)
            maps.append(attention)
        z = 0.5 * (z + z.transpose(1, 2))
        corrected = average_product(torch.cat(maps, dim=1), mask).permute(0, 2, 3, 1)
        return z, touch(net, torch.cat([z, corrected], dim=-1)).squeeze(-1), bins(net, z)

    @with_layers(
        *parts, carry_norm, carry_bins, first, second, touch, bins,
        letters=lambda: nn.Embedding(len(LETTERS) + 1, WIDTH), offsets=lambda: nn.Embedding(2 * REACH + 1, PAIR),
    )
    def forward(net, msa, weight, mask):
        carried = None
        for _ in range(RECYCLES):
            z, _, distances = once(net, msa, weight, mask, carried)
            carried = (z.detach(), distances.detach())
        _, contacts, distances = once(net, msa, weight, mask, carried)
        return {"contacts": contacts, "distances": distances}
    return forward


class Net(nn.Module):
    def __init__(self, piece, dropout=0.1):
        super().__init__()
        self.layers = nn.ModuleDict()
        self.dropout = dropout
        self.piece = piece
        piece.grow(self)

    def forward(self, msa, weight, mask):
        return self.piece(self, msa, weight, mask)


def build_model():
    return Net(whole_net())


# ---------------------------------------------------------------- data

def encode(rows):
    """The query, then the rows with the fewest gaps, at most ROWS in all; and the weight of each of them."""
    coded = torch.tensor([[LETTERS.index(letter) for letter in row] for row in rows])
    gaps = (coded[1:] == GAP).sum(dim=1)
    order = torch.sort(gaps, stable=True).indices[: ROWS - 1] + 1
    coded = torch.cat([coded[:1], coded[order]])
    real = coded != GAP
    both = real[:, None] & real[None]
    same = ((coded[:, None] == coded[None]) & both).sum(-1) / both.sum(-1).clamp(min=1)
    return coded, 1.0 / (same >= 0.8).sum(dim=1).float()


def distances_of(places):
    """Distances of the alpha carbons; -1 where one of the two was not seen."""
    seen = torch.tensor([place is not None for place in places])
    xyz = torch.tensor([place or [0.0, 0.0, 0.0] for place in places], dtype=torch.float64)
    away = (xyz[:, None] - xyz[None]).square().sum(-1).sqrt()
    return away.masked_fill(~(seen[:, None] & seen[None]), -1.0).float()


def build_dataset(split):
    with open(f"data/{split}.json") as handle:
        families = json.load(handle)
    return [(*encode(family["msa"]), distances_of(family["ca"])) for family in families]


def collate(samples):
    rows, length = (max(sample[0].shape[axis] for sample in samples) for axis in (0, 1))

    def padded(x, shape, value):
        result = x.new_full(shape, value)
        result[tuple(slice(size) for size in x.shape)] = x
        return result

    msa = torch.stack([padded(s[0], (rows, length), PAD) for s in samples])
    weight = torch.stack([padded(s[1], (rows,), 0.0) for s in samples])
    distances = torch.stack([padded(s[2], (length, length), -1.0) for s in samples])
    return msa, weight, msa[:, 0] != PAD, distances


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=2, collate_fn=collate)


# ---------------------------------------------------------------- training

def far_pairs(labels, least):
    place = torch.arange(labels.shape[-1], device=labels.device)
    return (labels >= 0) & (place[None, :] - place[:, None] >= least)


def per_protein(values, pairs):
    """The mean over a protein's pairs, then over proteins."""
    return ((values * pairs).sum(dim=(1, 2)) / pairs.sum(dim=(1, 2)).clamp(min=1)).mean()


def loss(outputs, labels):
    touching = ((labels < CONTACT) & (labels >= 0)).to(outputs["contacts"].dtype)
    plain = F.binary_cross_entropy_with_logits(outputs["contacts"], touching, reduction="none")
    focus = (1.0 - torch.exp(-plain.detach())) ** 2 * (0.25 + 0.5 * touching)
    wanted = (labels.unsqueeze(-1) > EDGES.to(labels)).sum(dim=-1)
    binned = F.cross_entropy(outputs["distances"].permute(0, 3, 1, 2), wanted, reduction="none", label_smoothing=0.05)
    return 4.0 * per_protein(focus * plain, far_pairs(labels, APART)) + 0.3 * per_protein(binned, far_pairs(labels, 2))


def metric(outputs, labels):
    pairs = far_pairs(labels, APART)
    scores = outputs["contacts"].masked_fill(~pairs, -1e4)
    precisions = []
    for score, truth, row in zip(scores, labels, labels.diagonal(dim1=1, dim2=2)):
        top = score.flatten().topk(max(1, int((row >= 0).sum()) // 2)).indices
        precisions.append((truth.flatten()[top] < CONTACT).double().mean())
    centres = torch.cat([EDGES[:1] - 1.0, (EDGES[1:] + EDGES[:-1]) / 2, EDGES[-1:] + 2.0]).to(labels)
    expected = (outputs["distances"].softmax(dim=-1) * centres).sum(dim=-1)
    near = far_pairs(labels, 2) & (labels < EDGES[-1])
    return {"top_half": torch.stack(precisions).mean(), "off_by": per_protein((expected - labels).abs(), near)}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.99), eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=8, T_mult=2, eta_min=3e-4)


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    optimizer.zero_grad()
    value = loss(model(*inputs), labels)
    value.backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.1 / parameter.grad.norm().clamp(min=0.1))
    optimizer.step()
    return value.detach()


# ---------------------------------------------------------------- use

def read_a3m(path):
    """Small letters are insertions against the query and are left out."""
    rows = []
    with open(path) as handle:
        for line in handle:
            if line.startswith(">"):
                rows.append("")
            else:
                rows[-1] += "".join(letter for letter in line.strip() if not letter.islower() and letter != ".")
    return rows


@torch.no_grad()
def predict(path, model):
    """The likeliest contacts of the query, as many as it has residues."""
    msa, weight = encode(read_a3m(path))
    weight = weight.to(next(model.parameters()).dtype)
    outputs = model(msa[None], weight[None], torch.ones(1, msa.shape[1], dtype=torch.bool))
    chance = torch.sigmoid(outputs["contacts"][0]).triu(APART)
    best = chance.flatten().topk(msa.shape[1])
    pairs = torch.stack([best.indices // msa.shape[1], best.indices % msa.shape[1]], dim=1)
    return {"pairs": pairs.numpy(), "chance": best.values.numpy()}
