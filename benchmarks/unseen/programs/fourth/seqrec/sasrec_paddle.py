import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

import attn_ops as ops
from listening import Listening, loader, pad_left

SETTINGS = dict(
    maxlen=12, width=24, depth=2, heads=2, drop=0.2,
    penalty=1e-3, topk=5,
    rate=3e-3, beta1=0.9, beta2=0.98, warmup=8, decay=1e-4,
)


class Block(nn.Layer):
    """only holds parameters; ops.multi_head and ops.feed_forward use them"""

    def __init__(self, width):
        super().__init__()
        self.norm_q = nn.LayerNorm(width)
        self.norm_f = nn.LayerNorm(width)
        for name in ("q", "k", "v", "o", "f1", "f2"):
            self.add_sublayer(name, nn.Linear(width, width))


class SequenceModel(nn.Layer):
    def __init__(self, items, maxlen, width, depth, heads, drop):
        super().__init__()
        self.heads, self.drop, self.maxlen = heads, drop, maxlen
        xavier = paddle.ParamAttr(initializer=nn.initializer.XavierNormal())
        self.songs = nn.Embedding(items + 1, width, padding_idx=0, weight_attr=xavier)
        self.places = self.create_parameter([maxlen, width], attr=xavier)
        self.blocks = nn.LayerList([Block(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.factor = width ** 0.5

    def encode(self, seq):
        x = self.songs(seq) * self.factor + self.places
        x = F.dropout(x, self.drop, training=self.training)
        alive = (seq > 0).astype(x.dtype).unsqueeze(-1)
        visible = ops.visible_keys(seq, self.maxlen)
        x = x * alive
        for block in self.blocks:
            q = ops.layer_norm(x, block.norm_q)
            x = q + ops.multi_head(block, q, x, visible, self.heads, self.drop, self.training)
            x = ops.feed_forward(block, ops.layer_norm(x, block.norm_f), self.drop, self.training)
            x = x * alive
        return ops.layer_norm(x, self.norm)

    def forward(self, seq, pos, neg, cand):
        feats = self.encode(seq)
        liked, other = self.songs(pos), self.songs(neg)
        pos_logits = paddle.einsum("bld,bld->bl", feats, liked)
        neg_logits = paddle.einsum("bld,bld->bl", feats, other)
        scores = paddle.einsum("bd,bcd->bc", feats[:, -1], self.songs(cand))
        size = liked.square().sum(axis=-1) + other.square().sum(axis=-1)
        return pos_logits, neg_logits, scores, size


def build_model():
    s = SETTINGS
    return SequenceModel(Listening("train").items, s["maxlen"], s["width"], s["depth"], s["heads"], s["drop"])


def build_dataset(split):
    return Listening(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    pos, neg, _, size = outputs
    mask = (labels != 0).astype(pos.dtype)
    bpr = -paddle.log(F.sigmoid(pos - neg) + 1e-10)
    bpr = (bpr * mask).sum() / mask.sum()
    return bpr + 0.5 * SETTINGS["penalty"] * (size * mask).sum() / labels.shape[0]


class Ranking:
    """sampled ranking against the negatives; the held-out song stands in column 0"""

    def __init__(self, k):
        self.k = k
        self.ranks = []

    def update(self, scores):
        self.ranks.append((scores[:, 1:] > scores[:, :1]).sum(axis=1))

    def result(self):
        rank = np.concatenate(self.ranks)
        inside = rank < self.k
        gain = np.where(inside, 1.0 / np.log2(rank + 2.0), 0.0)
        return {"ndcg": float(gain.mean()), "hr": float(inside.mean()), "mrr": float((1.0 / (rank + 1)).mean())}


def metric(outputs, labels):
    ranking = Ranking(SETTINGS["topk"])
    ranking.update(outputs[2].numpy())
    return ranking.result()


class InverseRoot(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, warmup):
        self.warmup = warmup
        super().__init__(learning_rate=peak)

    def get_lr(self):
        step = self.last_epoch + 1
        if step <= self.warmup:
            return self.base_lr * step / self.warmup
        return self.base_lr * (self.warmup / step) ** 0.5


def build_optimizer(model):
    s = SETTINGS
    return paddle.optimizer.Adam(
        learning_rate=InverseRoot(s["rate"], s["warmup"]),
        beta1=s["beta1"],
        beta2=s["beta2"],
        parameters=model.parameters(),
        weight_decay=paddle.regularizer.L2Decay(s["decay"]),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def recommend(model, session, k=10):
    seq = pad_left(session[-SETTINGS["maxlen"]:], SETTINGS["maxlen"])
    feats = model.encode(paddle.to_tensor(seq[None]))[:, -1]
    score = paddle.matmul(feats, model.songs.weight, transpose_y=True)[0].numpy()
    score[0] = -np.inf
    score[session] = -np.inf
    best = np.argsort(-score)[:k]
    return best, score[best]


def predict(path, model):
    session = np.loadtxt(path, dtype="int64")
    with paddle.no_grad():
        items, scores = recommend(model, session)
    return {"items": items, "scores": scores}


if __name__ == "__main__":
    paddle.seed(0)
    net = build_model()
    adam = build_optimizer(net)
    for epoch in range(3):
        net.train()
        for batch in build_dataloader("train"):
            y = batch.pop("labels")
            value = loss(net(**batch), y)
            value.backward()
            adam.step()
            adam.clear_grad()
            adam._learning_rate.step()
        print(epoch, float(value))
