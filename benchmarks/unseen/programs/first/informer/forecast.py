import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from attention import dense_attention, sparse_attention


def positions(count, width):
    place = np.arange(count)[:, None]
    rate = np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
    return np.stack([np.sin(place * rate), np.cos(place * rate)], axis=-1).reshape(count, width)


class Embed(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.values = nn.Conv1D(3, width, 3, bias_attr=False)
        self.stamps = nn.Linear(2, width, bias_attr=False)
        self.drop = nn.Dropout(0.05)
        self.table = positions(64, width)

    def forward(self, x, stamps):
        # circular padding along time
        ring = paddle.concat([x[:, -1:], x, x[:, :1]], axis=1)
        tokens = self.values(ring.transpose([0, 2, 1])).transpose([0, 2, 1])
        place = paddle.to_tensor(self.table[: x.shape[1]], dtype=x.dtype)
        return self.drop(tokens + self.stamps(stamps) + place)


class Heads(nn.Layer):
    def __init__(self, width, heads, rule, **options):
        super().__init__()
        self.heads, self.rule, self.options = heads, rule, options
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        cut = lambda t: t.reshape([t.shape[0], t.shape[1], self.heads, -1]).transpose([0, 2, 1, 3])
        y = self.rule(cut(self.q(x)), cut(self.k(memory)), cut(self.v(memory)), **self.options)
        return self.out(y.transpose([0, 2, 1, 3]).flatten(2))


def mlp(width, hidden):
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.05), nn.Linear(hidden, width), nn.Dropout(0.05))


class Encode(nn.Layer):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.mix = Heads(width, heads, sparse_attention)
        self.after_mix = nn.LayerNorm(width)
        self.mlp = mlp(width, hidden)
        self.after_mlp = nn.LayerNorm(width)

    def forward(self, x):
        x = self.after_mix(x + self.mix(x))
        return self.after_mlp(x + self.mlp(x))


class Halve(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1D(width, width, 3, padding=1, padding_mode="circular")
        self.bn = nn.BatchNorm1D(width)

    def forward(self, x):
        y = F.elu(self.bn(self.conv(x.transpose([0, 2, 1]))))
        return F.max_pool1d(y, 3, stride=2, padding=1).transpose([0, 2, 1])


class Decode(nn.Layer):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.own = Heads(width, heads, dense_attention, causal=True)
        self.cross = Heads(width, heads, dense_attention)
        self.mlp = mlp(width, hidden)
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(3)])

    def forward(self, x, memory):
        x = self.norms[0](x + self.own(x))
        x = self.norms[1](x + self.cross(x, memory))
        return self.norms[2](x + self.mlp(x))


class Forecaster(nn.Layer):
    def __init__(self, width, heads, hidden, horizon):
        super().__init__()
        self.horizon = horizon
        self.embed_past = Embed(width)
        self.embed_next = Embed(width)
        self.encoder = nn.Sequential(
            Encode(width, heads, hidden), Halve(width), Encode(width, heads, hidden), nn.LayerNorm(width))
        self.decoder = Decode(width, heads, hidden)
        self.head = nn.Linear(width, 3)

    def forward(self, past, past_stamps, start, stamps):
        memory = self.encoder(self.embed_past(past, past_stamps))
        y = self.decoder(self.embed_next(start, stamps), memory)
        return self.head(y)[:, -self.horizon :, :]
