"""Enzyme masked-residue model for Paddle: parameters live in a flat dict, the network is a set of functions."""
import csv
import functools

import numpy as np
import paddle
import paddle.nn.functional as F

AA = "ACDEFGHIKLMNPQRSTVWY"
CFG = dict(vocab=22, d=16, heads=4, dh=4, layers=2, reach=5, experts=4, top=2, hidden=24)
PAD_ID, MASK_ID = 0, 1
IGNORED = -100
MAX_LEN = 24
DROP = 0.1


def spec():
    """name -> (shape, how): a number is the deviation of a normal, a string 'ones' or 'zeros'."""
    d, h, k, e, f = (CFG[n] for n in ("d", "heads", "dh", "experts", "hidden"))
    r = 2 * CFG["reach"] + 1
    table = {"embedding": ([CFG["vocab"], d], 0.3), "bias": ([CFG["vocab"]], "zeros")}
    for i in range(CFG["layers"]):
        layer = {
            "wq": ([d, h, k], d ** -0.5), "wk": ([d, h, k], d ** -0.5), "wv": ([d, h, k], d ** -0.5),
            "wo": ([h, k, d], (h * k) ** -0.5),
            "rel_k": ([r, h, k], 0.1), "rel_b": ([r, h], "zeros"),
            "router": ([d, e], 0.5), "w1": ([e, d, f], d ** -0.5), "b1": ([e, f], "zeros"), "w2": ([e, f, d], f ** -0.5),
            "ln1_w": ([d], "ones"), "ln1_b": ([d], "zeros"), "ln2_w": ([d], "ones"), "ln2_b": ([d], "zeros"),
        }
        table.update({f"layer{i}_{n}": v for n, v in layer.items()})
    table.update({"final_w": ([d], "ones"), "final_b": ([d], "zeros")})
    return table


def sub(params, i):
    head = f"layer{i}_"
    return {n[len(head):]: v for n, v in params.items() if n.startswith(head)}


def ln(x, w, b):
    return F.layer_norm(x, x.shape[-1:], weight=w, bias=b, epsilon=1e-6)


def relative_index(t, reach):
    pos = np.arange(t)
    return paddle.to_tensor(np.clip(pos[None, :] - pos[:, None], -reach, reach) + reach)


def self_attention(w, x, visible):
    b, t, d = x.shape
    q, k, v = (paddle.einsum("btd,dhk->bhtk", x, w[n]) for n in ("wq", "wk", "wv"))
    idx = relative_index(t, CFG["reach"]).flatten()
    rel = paddle.index_select(w["rel_k"], idx, axis=0).reshape([t, t, CFG["heads"], CFG["dh"]])
    bias = paddle.index_select(w["rel_b"], idx, axis=0).reshape([t, t, CFG["heads"]])
    s = paddle.matmul(q, k, transpose_y=True) + paddle.einsum("bhqk,qjhk->bhqj", q, rel)
    s = s * CFG["dh"] ** -0.5 + paddle.transpose(bias, [2, 0, 1]).unsqueeze(0)
    s = s + (1.0 - visible.astype(s.dtype))[:, None, None, :] * -1e9
    ctx = paddle.matmul(F.softmax(s, axis=-1), v)
    return paddle.einsum("bhtk,hkd->btd", ctx, w["wo"])


def mixture(w, x, visible):
    gate = paddle.matmul(x, w["router"])
    value, index = paddle.topk(gate, k=CFG["top"], axis=-1)
    prob = F.softmax(value, axis=-1)
    onehot = F.one_hot(index, CFG["experts"]).astype(x.dtype)            # b t top e
    share = (onehot * prob.unsqueeze(-1)).sum(axis=2)
    hidden = F.gelu(paddle.einsum("btd,edf->btef", x, w["w1"]) + w["b1"], approximate=True)
    out = paddle.einsum("bte,btef,efd->btd", share, hidden, w["w2"])
    m = visible.astype(x.dtype).unsqueeze(-1)
    load = (onehot.sum(axis=2) * m).sum(axis=[0, 1]) / m.sum()
    importance = (F.softmax(gate, axis=-1) * m).sum(axis=[0, 1]) / m.sum()
    return out, paddle.sum(load * importance) * CFG["experts"] / CFG["top"]


def network(params, tokens, train):
    drop = functools.partial(F.dropout, p=DROP, training=train)
    visible = tokens != PAD_ID
    h = F.embedding(tokens, params["embedding"]) * CFG["d"] ** 0.5
    aux = []
    for i in range(CFG["layers"]):
        w = sub(params, i)
        h = h + drop(self_attention(w, ln(h, w["ln1_w"], w["ln1_b"]), visible))
        y, a = mixture(w, ln(h, w["ln2_w"], w["ln2_b"]), visible)
        h = h + drop(y)
        aux.append(a)
    h = ln(h, params["final_w"], params["final_b"])
    logits = paddle.matmul(h, params["embedding"], transpose_y=True) + params["bias"]
    return {"logits": logits, "balance": sum(aux) / len(aux)}


class Wrapped(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        named = {"zeros": paddle.nn.initializer.Constant(0.0), "ones": paddle.nn.initializer.Constant(1.0)}
        for name, (shape, how) in spec().items():
            init = named[how] if isinstance(how, str) else paddle.nn.initializer.Normal(0.0, how)
            self.add_parameter(name, self.create_parameter(shape, default_initializer=init))

    def forward(self, tokens):
        return network(dict(self.named_parameters()), tokens, self.training)


def build_model():
    return Wrapped()


def smoothed_ce(logits, target, eps=0.1):
    kept = target != IGNORED
    logp = F.log_softmax(logits, axis=-1)
    safe = paddle.where(kept, target, paddle.zeros_like(target))
    nll = -paddle.take_along_axis(logp, safe.unsqueeze(-1), axis=-1).squeeze(-1)
    uniform = -logp.mean(axis=-1)
    m = kept.astype(logits.dtype)
    return (((1 - eps) * nll + eps * uniform) * m).sum() / m.sum()


def loss(outputs, labels):
    ce = smoothed_ce(outputs["logits"], labels)
    return {"loss": ce + 0.02 * outputs["balance"], "ce": ce}


def metric(outputs, labels):
    keep = labels.numpy() != IGNORED
    logits = outputs["logits"].numpy().astype(np.float64)[keep]
    truth = labels.numpy()[keep]
    own = np.take_along_axis(logits, truth[:, None], axis=1)
    top = logits.max(axis=1, keepdims=True)
    lse = top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    place = 1 + np.sum(logits > own, axis=1)
    return {"perplexity": float(np.exp(np.mean(lse - own))), "top3": float(np.mean(place <= 3)),
            "mrr": float(np.mean(1.0 / place))}


def to_ids(seq):
    lookup = {a: n + 2 for n, a in enumerate(AA)}
    return np.fromiter((lookup[a] for a in seq), dtype="int64")


def masked_sample(seq, seed):
    rs = np.random.RandomState(seed)
    ids = to_ids(seq)
    n = ids.size
    pick = rs.rand(n) < 0.25
    pick[rs.randint(n)] = True
    dice = rs.rand(n)
    inputs = np.full(MAX_LEN, PAD_ID, "int64")
    target = np.full(MAX_LEN, IGNORED, "int64")
    inputs[:n] = np.where(pick & (dice < 0.8), MASK_ID, ids)
    target[:n] = np.where(pick, ids, IGNORED)
    (where,) = np.nonzero(pick & (dice >= 0.8) & (dice < 0.9))
    inputs[where] = rs.randint(2, CFG["vocab"], where.size)
    return inputs, target


def build_dataset(split):
    with open("data/enzymes.csv", newline="") as fh:
        seqs = [row["sequence"] for row in csv.DictReader(fh) if row["split"] == split]

    class Rows(paddle.io.Dataset):
        __len__ = lambda self: len(seqs)
        __getitem__ = lambda self, i: masked_sample(seqs[i], 40 + i)

    return Rows()


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), batch_size=5, shuffle=False)


def build_optimizer(model):
    base = 8e-3
    poly = paddle.optimizer.lr.PolynomialDecay(base, decay_steps=30, end_lr=0.0, power=2.0)
    rate = paddle.optimizer.lr.LinearWarmup(poly, warmup_steps=5, start_lr=0.1 * base, end_lr=base)
    return paddle.optimizer.Adam(rate, beta1=0.9, beta2=0.98, epsilon=1e-9, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    tokens, target = batch
    value = loss(model(tokens), target)
    value["loss"].backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25)
    optimizer.step()
    optimizer.clear_grad()
    return value


def predict(path, model):
    lines = open(path).read().split("\n")
    ids = to_ids("".join(x.strip() for x in lines if not x.startswith(">")))
    ids[::4] = MASK_ID
    with paddle.no_grad():
        scores = model(paddle.to_tensor(ids[None]))["logits"].numpy()[0, ::4]
    letters = "--" + AA
    return {"restored": "".join(letters[j] for j in scores.argmax(axis=1)), "scores": scores}
