"""Decomposable attention with a small convolution under it."""
import math

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Assign, Constant, Normal, Uniform, XavierUniform

CLOSED = -1e4


def par(init, **kw):
    return paddle.ParamAttr(initializer=init, **kw)


def like_torch(i, o):
    """nn.Linear with torch's own initialisation."""
    edge = i ** -0.5
    return nn.Linear(i, o, weight_attr=par(Uniform(-edge, edge)), bias_attr=par(Uniform(-edge, edge)))


class Words(nn.Layer):
    def __init__(self, s, size, table_rate):
        super().__init__()
        d, k = s["features"], s["window"]
        self.embed = nn.Embedding(size, d, padding_idx=0,
                                  weight_attr=par(Normal(0.0, s["table_std"]), learning_rate=table_rate))
        self.conv = nn.Conv1D(d, d, k, padding=(k - 1) // 2, data_format="NLC",
                              weight_attr=par(Normal(0.0, math.sqrt(2.0 / (d * k)))), bias_attr=par(Constant(0.0)))

    def forward(self, ids, keep):
        x = self.embed(ids) * keep
        return (x + F.gelu(self.conv(x), approximate=True)) * keep


class Entailment(nn.Layer):
    def __init__(self, s, size, prior, table_rate):
        super().__init__()
        d, c = s["features"], s["compare"]
        self.encoder = Words(s, size, table_rate)
        self.attend = nn.Linear(d, d, weight_attr=par(XavierUniform(gain=math.sqrt(2.0))), bias_attr=par(Constant(0.0)))
        self.compare = like_torch(4 * d, c)
        self.norm = nn.LayerNorm(c, epsilon=s["layer_norm_epsilon"])
        self.hidden = like_torch(4 * c + 4, s["hidden"])
        self.dropout = nn.Dropout(s["drop"])
        self.out = nn.Linear(s["hidden"], 3, weight_attr=par(Normal(0.0, s["last_std"])), bias_attr=par(Constant(0.0)))
        self.sharpness = self.create_parameter([1], default_initializer=Assign([0.0]))
        self.register_buffer("prior", paddle.log(paddle.to_tensor(prior, dtype="float32")))

    def summary(self, x, other, keep):
        joint = paddle.concat((x, other, x - other, x * other), axis=2)
        y = self.norm(F.gelu(self.compare(joint)))
        mean = paddle.einsum("btc,bt->bc", y, keep) / keep.sum(axis=1, keepdim=True)
        top = paddle.where(keep.unsqueeze(2) > 0, y, paddle.full_like(y, CLOSED)).max(axis=1)
        return [mean, top]

    def forward(self, premise, hypothesis, clues):
        keep_p = (premise != 0).astype("float32")
        keep_h = (hypothesis != 0).astype("float32")
        p = self.encoder(premise, keep_p.unsqueeze(2))
        h = self.encoder(hypothesis, keep_h.unsqueeze(2))
        score = paddle.einsum("bid,bjd->bij", F.relu(self.attend(h)), F.relu(self.attend(p)))
        score = score / math.sqrt(h.shape[2])
        over_p = F.softmax(score + CLOSED * (1 - keep_p).unsqueeze(1), axis=2)
        over_h = F.softmax(score + CLOSED * (1 - keep_h).unsqueeze(2), axis=1)
        from_h = paddle.einsum("bij,bid->bjd", over_h, h)
        from_p = paddle.einsum("bij,bjd->bid", over_p, p)
        features = self.summary(p, from_h, keep_p) + self.summary(h, from_p, keep_h) + [clues]
        z = self.dropout(F.tanh(self.hidden(paddle.concat(features, axis=1))))
        return {
            "logits": self.out(z) * paddle.exp(self.sharpness) + self.prior,
            "attention": over_p,
            "mask": keep_h,
        }
