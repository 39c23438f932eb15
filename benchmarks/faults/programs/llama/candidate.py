"""The port to Paddle of the Llama-like decoder."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WORDS, WIDTH, HEADS, GROUPS, HEAD, ROTARY, BASE = 160, 48, 4, 2, 12, 8, 50000.0


class RMSNorm(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * paddle.rsqrt(variance + 1e-6)
        return self.weight * x


def angles(length, dtype):
    frequencies = 1.0 / BASE ** (paddle.arange(0, ROTARY, 2).astype(dtype) / ROTARY)
    positions = paddle.arange(length).astype(dtype)
    angle = paddle.outer(positions, frequencies)
    angle = paddle.concat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return paddle.concat([-second, first], -1)


def rotate(x, cos, sin):
    turned, kept = x[..., :ROTARY], x[..., ROTARY:]
    turned = turned * cos + rotate_half(turned) * sin
    return paddle.concat([turned, kept], -1)


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, HEADS * HEAD, bias_attr=False)
        self.k_proj = nn.Linear(WIDTH, GROUPS * HEAD, bias_attr=False)
        self.v_proj = nn.Linear(WIDTH, GROUPS * HEAD, bias_attr=False)
        self.o_proj = nn.Linear(HEADS * HEAD, WIDTH, bias_attr=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q_proj(x).reshape([batch, length, HEADS, HEAD]).transpose([0, 2, 1, 3])
        k = self.k_proj(x).reshape([batch, length, GROUPS, HEAD]).transpose([0, 2, 1, 3])
        v = self.v_proj(x).reshape([batch, length, GROUPS, HEAD]).transpose([0, 2, 1, 3])
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        k = k.repeat_interleave(HEADS // GROUPS, 1)
        v = v.repeat_interleave(HEADS // GROUPS, 1)
        scores = q @ k.transpose([0, 1, 3, 2]) / HEAD**0.5
        future = paddle.triu(paddle.ones([length, length]), 1).astype("bool")
        scores = scores.masked_fill(future, float("-inf"))
        weights = F.softmax(scores, -1)
        x = (weights @ v).transpose([0, 2, 1, 3]).reshape([batch, length, HEADS * HEAD])
        return self.o_proj(x)


class MLP(nn.Layer):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, 96, bias_attr=False)
        self.up_proj = nn.Linear(WIDTH, 96, bias_attr=False)
        self.down_proj = nn.Linear(96, WIDTH, bias_attr=False)

    def forward(self, x):
        gate = F.silu(self.gate_proj(x))
        return self.down_proj(gate * self.up_proj(x))


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.input_norm = RMSNorm(WIDTH)
        self.attention = Attention()
        self.post_norm = RMSNorm(WIDTH)
        self.mlp = MLP()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.LayerList([Block() for _ in range(3)])
        self.norm = RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias_attr=False)

    def forward(self, ids):
        x = self.embed(ids)
        x = x * WIDTH**0.5
        cos, sin = angles(ids.shape[1], x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return 10.0 * paddle.tanh(logits / 10.0)


def build_model():
    return Llama()


def loss(outputs, labels):
    logits = outputs[:, :-1].reshape([-1, WORDS])
    wanted = labels[:, 1:].reshape([-1])
    entropy = F.cross_entropy(logits, wanted, reduction="sum") / wanted.size
    squared = paddle.logsumexp(logits, -1).square().mean()
    return entropy + 1e-2 * squared


def build_optimizer(model):
    schedule = paddle.optimizer.lr.StepDecay(2e-3, step_size=1, gamma=0.8)
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-5,
        parameters=model.parameters(),
        weight_decay=0.1,
        grad_clip=nn.ClipGradByGlobalNorm(0.5),
    )
