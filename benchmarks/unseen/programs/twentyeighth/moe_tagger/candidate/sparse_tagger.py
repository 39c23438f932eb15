"""Tagging with sparse experts (PaddlePaddle): one Linear pair per expert, routed token by token."""
import json
import os.path as osp

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.distributed.fleet.utils import recompute
from paddle.nn.initializer import Constant, Normal, TruncatedNormal, Uniform

DATA = osp.join(osp.dirname(osp.dirname(osp.abspath(__file__))), "data")
with open(osp.join(DATA, "moe.json")) as f:
    _conf = json.load(f)
M, TR, TAG_NAMES = _conf["model"], _conf["train"], _conf["tags"]


def _u(fan):
    return Uniform(-fan ** -0.5, fan ** -0.5)


class Expert(nn.Layer):
    def __init__(self, dim, hidden):
        super().__init__()
        def tn(fan):
            s = fan ** -0.5
            return TruncatedNormal(0.0, s, a=-2 * s, b=2 * s)       # Paddle's cuts are values, not deviations
        self.up = nn.Linear(dim, hidden, weight_attr=tn(dim), bias_attr=Constant(0.0))
        self.down = nn.Linear(hidden, dim, weight_attr=tn(hidden), bias_attr=Constant(0.0))

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=True))


class SparseMoE(nn.Layer):
    def __init__(self):
        super().__init__()
        e = M["experts"]
        self.experts = nn.LayerList([Expert(M["dim"], M["hidden"]) for _ in range(e)])
        self.gate = nn.Linear(M["dim"], e, weight_attr=_u(M["dim"]), bias_attr=False)
        self.register_buffer("usage", paddle.ones([e]) / e)

    def forward(self, x, mask):
        p = F.softmax(self.gate(x), axis=-1)
        best, who = paddle.topk(p, M["top_k"], axis=-1)
        best = best / best.sum(axis=-1, keepdim=True)
        y = paddle.zeros_like(x)
        for k, expert in enumerate(self.experts):
            chosen = (who == k).astype(x.dtype)
            weight = (best * chosen).sum(axis=-1, keepdim=True)     # nought where the expert was not chosen
            y = y + weight * expert(x)
        w = mask / mask.sum()
        first = F.one_hot(who[:, 0], M["experts"])
        return y, paddle.matmul(w, first), paddle.matmul(w, p)


class MixerLayer(nn.Layer):
    def __init__(self):
        super().__init__()
        d = M["dim"]
        self.depthwise = nn.Conv1D(d, d, 3, padding=1, groups=d, weight_attr=_u(3), bias_attr=_u(3))
        self.ffn = SparseMoE()
        self.ln_ffn = nn.LayerNorm(d, epsilon=1e-6)
        self.ln_mix = nn.LayerNorm(d, epsilon=1e-6)
        self.pointwise = nn.Linear(d, d, weight_attr=_u(d), bias_attr=_u(d))

    def forward(self, x, mask):
        h = self.ln_mix(x) * mask.unsqueeze(2)
        h = self.depthwise(h.transpose([0, 2, 1])).transpose([0, 2, 1])
        x = self.pointwise(h) + x
        y, frac, mean = self.ffn(self.ln_ffn(x).reshape([-1, M["dim"]]), mask.reshape([-1]))
        return x + y.reshape(x.shape), frac, mean


class SparseTagger(nn.Layer):
    def __init__(self):
        super().__init__()
        self.tagger = nn.Linear(M["dim"], len(TAG_NAMES), weight_attr=_u(M["dim"]), bias_attr=_u(M["dim"]))
        self.stack = nn.Sequential(*[MixerLayer() for _ in range(M["layers"])])
        self.embedding = nn.Embedding(M["vocab"], M["dim"], weight_attr=Normal(0.0, 0.5))
        with paddle.no_grad():        # pads start at nought; masks keep their lookups out of every gradient
            self.embedding.weight[0] = 0.0
        self.vocab_bias = self.create_parameter([M["vocab"]], is_bias=True)

    def forward(self, ids):
        mask = paddle.not_equal(ids, paddle.zeros_like(ids)).astype("float32")
        x = self.embedding(ids)
        fracs, means = [], []
        for layer in self.stack:
            if self.training:
                x, f, m = recompute(layer, x, mask)
            else:
                x, f, m = layer(x, mask)
            fracs.append(f)
            means.append(m)
        fracs, means = paddle.stack(fracs).detach(), paddle.stack(means)
        aux = (fracs * means).sum(axis=1).mean() * M["experts"]
        lm = paddle.matmul(x, self.embedding.weight, transpose_y=True) + self.vocab_bias
        return {"tags": self.tagger(x), "lm": lm, "aux": aux, "load": fracs}


class SentenceSet(paddle.io.Dataset):
    def __init__(self, split):
        with open(osp.join(DATA, split + ".tsv")) as f:
            self.table = np.array([[int(v) for v in ln.split()] for ln in f], dtype="int64")
        self.n = self.table.shape[1] // 2

    def __getitem__(self, i):
        ids, tags = self.table[i, :self.n], self.table[i, self.n:]
        return ids, {"tags": tags, "next": np.append(ids[1:], np.int64(0))}

    def __len__(self):
        return len(self.table)


def build_model():
    return SparseTagger()


def build_dataset(split):
    return SentenceSet(split)


def build_dataloader(split):
    kw = dict(shuffle=True, drop_last=True) if split == "train" else {}
    return paddle.io.DataLoader(build_dataset(split), batch_size=TR["batch"], **kw)


def loss(outputs, labels):
    y = labels["tags"]
    valid = (y >= 0).astype("float32")
    logp = F.log_softmax(outputs["tags"])
    logp = paddle.take_along_axis(logp, paddle.clip(y, min=0).unsqueeze(-1), axis=-1).squeeze(-1)
    tag = -(paddle.square(1.0 - paddle.exp(logp)) * logp * valid).sum() / valid.sum()
    lm = F.cross_entropy(outputs["lm"], labels["next"].unsqueeze(-1), ignore_index=0)
    total = tag + TR["lm_weight"] * lm + TR["aux_weight"] * outputs["aux"]
    return {"loss": total, "tag": tag, "lm": lm, "balance": outputs["aux"]}


def metric(outputs, labels):
    y, nxt = labels["tags"].numpy(), labels["next"].numpy()
    hit = (outputs["tags"].numpy().argmax(2) == y)[y != -100]
    order = np.argsort(-outputs["lm"].numpy(), axis=-1, kind="stable")[..., :3]
    top3 = (order == nxt[..., None]).any(-1)[nxt > 0]
    return {"acc": float(hit.mean()), "lm_top3": float(top3.mean()),
            "max_load": float(outputs["load"].numpy().mean(0).max())}


def set_rates(model):
    """Layer-wise rates live on the parameters themselves (optimize_attr)."""
    rate, n = TR["layer_rate"], M["layers"]
    for i, layer in enumerate(model.stack):
        for p in layer.parameters():
            p.optimize_attr["learning_rate"] = rate ** (n - i)
    model.embedding.weight.optimize_attr["learning_rate"] = rate ** (n + 1)


class RootDecay(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, warmup):
        self.warmup = warmup
        super().__init__(peak)

    def get_lr(self):
        t = self.last_epoch + 1
        return self.base_lr * min((self.warmup / t) ** 0.5, t / self.warmup)


def build_optimizer(model):
    set_rates(model)
    plain = set()
    for layer in model.sublayers(include_self=True):
        for key, p in layer.named_parameters(include_sublayers=False):
            if isinstance(layer, nn.LayerNorm) or "bias" in key:
                plain.add(p.name)
    return paddle.optimizer.AdamW(learning_rate=RootDecay(TR["lr"], TR["warmup"]), beta2=0.98, epsilon=1e-7,
                                  parameters=model.parameters(), weight_decay=TR["wd"],
                                  apply_decay_param_fun=lambda n: n not in plain,
                                  grad_clip=nn.ClipGradByGlobalNorm(TR["clip"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    out = model(batch[0])
    parts = loss(out, batch[1])
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    for layer, frac in zip(model.stack, out["load"]):
        layer.ffn.usage.set_value(0.9 * layer.ffn.usage + 0.1 * frac)
    return {k: v.item() for k, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f, paddle.no_grad():
        out = model(paddle.to_tensor([json.load(f)["ids"]], dtype="int64"))
    p = F.softmax(out["tags"][0], axis=-1).numpy()
    return {"tags": " ".join(TAG_NAMES[k] for k in p.argmax(1)), "confidence": p.max(1), "load": out["load"].numpy()}
