"""FT-Transformer (Gorishniy et al. 2021)."""
import math

import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn import initializer as I


def linear(cin, cout):
    """A linear map that starts as PyTorch's does."""
    bound = cin**-0.5
    return nn.Linear(
        cin,
        cout,
        weight_attr=ParamAttr(initializer=I.Uniform(-bound, bound)),
        bias_attr=ParamAttr(initializer=I.Uniform(-bound, bound)),
    )


class Tokeniser(nn.Layer):
    """A token for each number, for each category, and one that collects."""

    def __init__(self, numbers, bins, dim):
        super().__init__()
        uniform = I.Uniform(-(dim**-0.5), dim**-0.5)
        self.weight = self.create_parameter([numbers, dim], default_initializer=uniform)
        self.table = nn.Embedding(sum(bins), dim, weight_attr=ParamAttr(initializer=uniform))
        self.bias = self.create_parameter([numbers + len(bins), dim], default_initializer=uniform)
        self.collect = self.create_parameter([dim], default_initializer=uniform)

    def forward(self, numbers, codes):
        values = paddle.einsum("bn,nd->bnd", numbers, self.weight)
        tokens = paddle.concat([values, self.table(codes)], axis=1) + self.bias
        first = self.collect.expand([tokens.shape[0], 1, self.collect.shape[0]])
        return paddle.concat([first, tokens], axis=1)


def by_head(x, matrices):
    """Paddle's matmul has no backward pass for operands of 4 and 3 axes."""
    return paddle.matmul(x, matrices.unsqueeze(0))


class Heads(nn.Layer):
    """Attention whose matrices are kept head by head."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        depth = dim // heads
        std = dim**-0.5

        def drawn(shape, std):
            return self.create_parameter(shape, default_initializer=I.Normal(0.0, std))

        self.query = drawn([heads, dim, depth], std)
        self.key = drawn([heads, dim, depth], std)
        self.value = drawn([heads, dim, depth], std)
        self.value_bias = self.create_parameter([heads, 1, depth], is_bias=True)
        self.out = drawn([heads, depth, dim], std / math.sqrt(2))
        self.out_bias = self.create_parameter([dim], is_bias=True)
        self.depth = depth
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, rows=None):
        """`rows`: how many tokens ask, all if left out."""
        asking = x if rows is None else x[:, :rows]
        x = x.unsqueeze(1)
        q = by_head(asking.unsqueeze(1), self.query)
        k = by_head(x, self.key)
        v = by_head(x, self.value) + self.value_bias
        scores = paddle.matmul(q, k, transpose_y=True) / math.sqrt(self.depth)
        mixed = paddle.matmul(self.dropout(F.softmax(scores, axis=-1)), v)
        return by_head(mixed, self.out).sum(axis=1) + self.out_bias


class Block(nn.Layer):
    def __init__(self, c, first):
        super().__init__()
        self.before = nn.Identity() if first else nn.LayerNorm(c.dim, epsilon=c.eps)
        self.heads = Heads(c.dim, c.heads, c.dropout)
        self.norm = nn.LayerNorm(c.dim, epsilon=c.eps)
        self.up = linear(c.dim, 2 * c.hidden)
        self.down = linear(c.hidden, c.dim)
        self.dropout = nn.Dropout(c.dropout)
        self.scale = self.create_parameter([c.dim], default_initializer=I.Constant(c.scale))

    def forward(self, x, rows=None):
        y = self.heads(self.before(x), rows)
        if rows is not None:
            x = x[:, :rows]
        x = x + self.dropout(y)
        value, gate = self.up(self.norm(x)).chunk(2, axis=-1)
        return x + self.scale * self.down(self.dropout(value * F.relu(gate)))


class Network(nn.Layer):
    def __init__(self, c, numbers, bins):
        super().__init__()
        self.tokeniser = Tokeniser(numbers, bins, c.dim)
        self.blocks = nn.LayerList([Block(c, first=i == 0) for i in range(c.blocks)])
        self.norm = nn.LayerNorm(c.dim, epsilon=c.eps)
        self.head = linear(c.dim, 1)

    def forward(self, numbers, codes):
        x = self.tokeniser(numbers, codes)
        last = len(self.blocks) - 1
        for i, block in enumerate(self.blocks):
            x = block(x, rows=1 if i == last else None)
        state = self.norm(x[:, 0])
        return self.head(F.relu(state)).squeeze(-1), state


class Averaged(nn.Layer):
    """A network and the moving average of its parameters, which evaluates."""

    def __init__(self, make):
        super().__init__()
        self.online, self.average = make(), make()
        self.average.set_state_dict(self.online.state_dict())
        for p in self.average.parameters():
            p.stop_gradient = True
        self.register_buffer("updates", paddle.zeros([], dtype="int64"))

    def train(self):
        super().train()
        self.average.eval()
        return self

    def forward(self, numbers, codes):
        logits, state = self.online(numbers, codes)
        with paddle.no_grad():
            smooth, _ = self.average(numbers, codes)
        return {"logits": logits, "state": state, "average": smooth}

    @paddle.no_grad()
    def follow(self, decay, warmup):
        self.updates.set_value(self.updates + 1)
        n = int(self.updates)
        decay = min(decay, (1 + n) / (warmup + n))
        for kept, new in zip(self.average.parameters(), self.online.parameters()):
            kept.set_value(decay * kept + (1 - decay) * new)
        return decay
