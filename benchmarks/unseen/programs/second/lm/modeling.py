import paddle
from paddle import nn
from paddle.nn import functional as F


class RootMeanSquare(nn.Layer):
    def __init__(self, width, epsilon=1e-5):
        super().__init__()
        self.gain = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.epsilon = epsilon

    def forward(self, h):
        dtype = h.dtype
        h = h.astype("float32")
        var = h.square().mean(axis=-1, keepdim=True)
        return self.gain * (h * paddle.rsqrt(var + self.epsilon)).astype(dtype)


def apply_rope(x, table):
    """x: [B, T, H, D]; table: cosines and sines of the half [T, D/2]"""
    cos, sin = (t[None, :, None, :] for t in table)
    half = x.shape[-1] // 2
    lo, hi = x[..., :half], x[..., half:]
    return paddle.concat([lo * cos - hi * sin, hi * cos + lo * sin], axis=-1)


class DecoderLayer(nn.Layer):
    def __init__(self, width, n_q, n_kv, inner, p):
        super().__init__()
        self.n_q, self.n_kv, self.hd = n_q, n_kv, width // n_q
        lin = lambda a, b: nn.Linear(a, b, bias_attr=False)
        self.norm_in = RootMeanSquare(width)
        self.q_proj = lin(width, width)
        self.k_proj = lin(width, n_kv * self.hd)
        self.v_proj = lin(width, n_kv * self.hd)
        self.o_proj = lin(width, width)
        self.norm_post = RootMeanSquare(width)
        self.gate_proj = lin(width, inner)
        self.up_proj = lin(width, inner)
        self.down_proj = lin(inner, width)
        self.dropout = nn.Dropout(p)

    def attend(self, h, rope, bias, past):
        b, t, w = h.shape
        q = apply_rope(self.q_proj(h).reshape([b, t, self.n_q, self.hd]), rope)
        k = apply_rope(self.k_proj(h).reshape([b, t, self.n_kv, self.hd]), rope)
        v = self.v_proj(h).reshape([b, t, self.n_kv, self.hd])
        if past is not None:
            k, v = paddle.concat([past[0], k], axis=1), paddle.concat([past[1], v], axis=1)
        # grouped queries: no repetition of the keys, the group is an axis
        q5 = q.reshape([b, t, self.n_kv, self.n_q // self.n_kv, self.hd])
        scores = paddle.einsum("btkgd,bskd->bkgts", q5, k) * self.hd ** -0.5
        probs = F.softmax(scores + bias, axis=-1)
        ctx = paddle.einsum("bkgts,bskd->btkgd", probs, v)
        return self.o_proj(ctx.reshape([b, t, w])), (k, v)

    def forward(self, h, rope, bias, past=None):
        a, present = self.attend(self.norm_in(h), rope, bias, past)
        h = h + self.dropout(a)
        n = self.norm_post(h)
        return h + self.dropout(self.down_proj(F.silu(self.gate_proj(n)) * self.up_proj(n))), present


class CausalLM(nn.Layer):
    def __init__(self, vocab_size=40, width=32, depth=2, n_q=4, n_kv=2, inner=48, p=0.1, positions=32):
        super().__init__()
        self.blocks = nn.LayerList([DecoderLayer(width, n_q, n_kv, inner, p) for _ in range(depth)])
        self.final_norm = RootMeanSquare(width)
        self.wte = nn.Embedding(vocab_size, width, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, 0.1)))
        hd = width // n_q
        freq = paddle.pow(paddle.to_tensor(10000.0, dtype="float32"), -paddle.arange(0, hd, 2, dtype="float32") / hd)
        angle = paddle.arange(positions, dtype="float32").unsqueeze(1) * freq.unsqueeze(0)
        self.register_buffer("angle", angle, persistable=False)

    def forward(self, tokens, pasts=None, use_cache=False):
        t = tokens.shape[1]
        seen = 0 if pasts is None else pasts[0][0].shape[1]
        h = self.wte(tokens)
        angle = self.angle[seen:seen + t]
        rope = (angle.cos().astype(h.dtype), angle.sin().astype(h.dtype))
        pos = paddle.arange(seen + t)
        bias = paddle.where(pos[seen:].unsqueeze(1) >= pos.unsqueeze(0), paddle.zeros([], h.dtype), paddle.full([], -1e30, h.dtype))
        presents = []
        for i, block in enumerate(self.blocks):
            h, kv = block(h, rope, bias, None if pasts is None else pasts[i])
            presents.append(kv)
        logits = paddle.matmul(self.final_norm(h), self.wte.weight, transpose_y=True).astype("float32")
        return (logits, presents) if use_cache else logits

    def greedy(self, tokens, steps):
        out, pasts, feed = [tokens], None, tokens
        with paddle.no_grad():
            while steps:
                logits, pasts = self(feed, pasts, use_cache=True)
                feed = logits[:, -1:].argmax(axis=-1)
                out.append(feed)
                steps -= 1
        return paddle.concat(out, axis=1), logits[:, -1, :]
