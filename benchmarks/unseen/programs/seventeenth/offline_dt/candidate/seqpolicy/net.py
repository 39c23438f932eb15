import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal

from .opts import opts


def fc(n_in, n_out, std=opts.init_std):
    return nn.Linear(
        n_in, n_out, weight_attr=paddle.ParamAttr(initializer=Normal(std=std)), bias_attr=paddle.ParamAttr(initializer=Constant(0.0))
    )


class Layer(nn.Layer):
    """A pre-norm transformer layer."""

    def __init__(self):
        super().__init__()
        small = opts.init_std * (2 * opts.n_layer) ** -0.5
        self.ln_a = nn.LayerNorm(opts.dim)
        self.qkv = fc(opts.dim, 3 * opts.dim)
        self.proj = fc(opts.dim, opts.dim, small)
        self.ln_b = nn.LayerNorm(opts.dim)
        self.up = fc(opts.dim, opts.ffn)
        self.down = fc(opts.ffn, opts.dim, small)

    def attend(self, x, blocked):
        b, n, d = x.shape
        h = opts.n_head
        q, k, v = [t.reshape([b, n, h, d // h]).transpose([0, 2, 1, 3]) for t in self.qkv(x).split(3, axis=-1)]
        logits = paddle.matmul(q * (d // h) ** -0.5, k, transpose_y=True)
        logits = paddle.where(blocked, paddle.full_like(logits, -1e4), logits)
        mixed = paddle.matmul(F.softmax(logits, axis=-1), v)
        return self.proj(mixed.transpose([0, 2, 1, 3]).flatten(2))

    def forward(self, x, blocked):
        x = x + self.attend(self.ln_a(x), blocked)
        return x + self.down(F.gelu(self.up(self.ln_b(x)), approximate=True))


class SequencePolicy(nn.Layer):
    def __init__(self, n_state, n_action):
        super().__init__()
        self.time = nn.Embedding(opts.n_time, opts.dim, weight_attr=paddle.ParamAttr(initializer=Normal(std=opts.init_std)))
        self.tok_r = fc(1, opts.dim)
        self.tok_s = fc(n_state, opts.dim)
        self.tok_a = fc(n_action, opts.dim)
        self.ln_in = nn.LayerNorm(opts.dim)
        self.layers = nn.LayerList([Layer() for _ in range(opts.n_layer)])
        self.ln_out = nn.LayerNorm(opts.dim)
        self.to_action = fc(opts.dim, n_action)
        self.to_return = fc(opts.dim, 1)

    @staticmethod
    def blocked(mask):
        """B x 1 x 3K x 3K, true where a token may not look."""
        b, k = mask.shape
        keys = paddle.stack([mask] * 3, axis=2).reshape([b, 1, 1, 3 * k])
        future = paddle.triu(paddle.ones([3 * k, 3 * k], dtype="int32"), diagonal=1).astype("bool")
        return paddle.logical_or(future, keys < 0.5)

    def forward(self, states, actions, returns, times, mask):
        b, k = times.shape
        when = self.time(times).unsqueeze(2)
        triple = paddle.stack([self.tok_r(returns), self.tok_s(states), self.tok_a(actions)], axis=2) + when
        x = self.ln_in(triple.reshape([b, 3 * k, opts.dim]))
        blocked = self.blocked(mask)
        for layer in self.layers:
            x = layer(x, blocked)
        x = self.ln_out(x)
        return {
            "actions": F.tanh(self.to_action(x[:, 1::3])),
            "returns": self.to_return(x[:, 2::3]).squeeze(-1),
        }
