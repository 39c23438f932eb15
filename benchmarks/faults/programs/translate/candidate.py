"""The port to Paddle of the translator."""

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HEADS, WORDS, LENGTH = 32, 4, 120, 12


class Norm(nn.Layer):
    def __init__(self, width, epsilon=1e-5):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.epsilon = epsilon

    def forward(self, x):
        squares = paddle.mean(x * x, axis=-1, keepdim=True)
        return self.weight * (x / paddle.sqrt(squares + self.epsilon))


class Recurrence(nn.Layer):
    def __init__(self):
        super().__init__()
        self.new = nn.Linear(2 * WIDTH, WIDTH)
        self.gates = nn.Linear(2 * WIDTH, 2 * WIDTH)

    def step(self, x, h):
        gates = F.sigmoid(self.gates(paddle.concat([x, h], axis=-1)))
        update, reset = gates[:, :WIDTH], gates[:, WIDTH:]
        new = paddle.tanh(self.new(paddle.concat([x, reset * h], axis=-1)))
        return h + update * (new - h)

    def forward(self, x):
        states = [paddle.zeros([x.shape[0], WIDTH], dtype=x.dtype)]
        for number in range(x.shape[1]):
            states.append(self.step(x[:, number], states[-1]))
        return paddle.stack(states[1:], axis=1)


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.kv = nn.Linear(WIDTH, 2 * WIDTH)
        self.o = nn.Linear(WIDTH, WIDTH)

    def split(self, x):
        return x.reshape([x.shape[0], x.shape[1], HEADS, WIDTH // HEADS]).transpose([0, 2, 1, 3])

    def forward(self, x, memory, allowed):
        k, v = paddle.split(self.kv(memory), 2, axis=-1)
        q, k, v = self.split(self.q(x)), self.split(k), self.split(v)
        scores = paddle.matmul(q, k, transpose_y=True) * (WIDTH // HEADS) ** -0.5
        scores = paddle.where(allowed, scores, paddle.full_like(scores, -1e30))
        y = paddle.matmul(F.softmax(scores, axis=-1), v)
        y = y.transpose([0, 2, 1, 3])
        return self.o(y.reshape([y.shape[0], y.shape[1], WIDTH]))


class Experts(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = self.create_parameter([4, WIDTH, 2 * WIDTH])
        self.outer = self.create_parameter([4, 2 * WIDTH, WIDTH])
        self.router = nn.Linear(WIDTH, 4, bias_attr=False)

    def route(self, x):
        logits = self.router(x)
        best, which = paddle.topk(logits, 2, axis=-1)
        weights = F.softmax(best, axis=-1)
        chosen = F.one_hot(which, 4).astype(x.dtype)
        return (chosen * weights.unsqueeze(-1)).sum(axis=-2)

    def forward(self, x):
        weights = self.route(x)
        total = 0
        for number in range(4):
            y = F.gelu(x @ self.inner[number], approximate=True)
            y = y @ self.outer[number]
            total = total + weights[:, :, number : number + 1] * y
        return total


class Layer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention, self.cross, self.experts = Attention(), Attention(), Experts()
        self.norm1 = Norm(WIDTH)
        self.norm2 = Norm(WIDTH)
        self.norm3 = Norm(WIDTH)

    def forward(self, x, memory, causal, padding):
        y = self.norm1(x)
        x = x + self.attention(y, y, causal)
        x = x + self.cross(self.norm2(x), memory, padding)
        return x + self.experts(self.norm3(x))


def sinusoids(length, width):
    place = np.arange(length)[:, None]
    rate = 1.0 / 10000.0 ** (np.arange(0, width, 2) / width)
    table = np.zeros((length, width))
    table[:, 0::2] = np.sin(place * rate)
    table[:, 1::2] = np.cos(place * rate)
    return table.astype("float32")


class Translator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = Norm(WIDTH)
        self.layers = nn.LayerList([Layer(), Layer()])
        self.recurrence = Recurrence()
        self.embed = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.table = sinusoids(2 * LENGTH, WIDTH)

    def embedded(self, words):
        return self.embed(words) * WIDTH**0.5

    def forward(self, source, target):
        memory = self.recurrence(self.embedded(source))
        padding = (source != 0).unsqueeze([1, 2])
        valid = (target != 0).astype("int64")
        places = paddle.cumsum(valid, axis=1) * valid
        x = self.embedded(target) + F.embedding(places, paddle.to_tensor(self.table).astype(self.embed.weight.dtype))
        order = paddle.arange(target.shape[1])
        causal = order.unsqueeze(0) <= order.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, memory, causal, padding)
        x = self.norm(x)
        logits = paddle.matmul(x, self.embed.weight, transpose_y=True)
        last = valid.sum(axis=1) - 1
        rows = paddle.arange(x.shape[0])
        return {"logits": logits, "last": paddle.gather_nd(x, paddle.stack([rows, last], axis=-1))}


def build_model():
    return Translator()


def loss(outputs, labels):
    logits = outputs["logits"].reshape([-1, WORDS])
    words = labels.flatten()
    chances = F.log_softmax(logits, axis=-1)
    own = paddle.take_along_axis(chances, words.unsqueeze(-1), axis=-1).squeeze(-1)
    each = -0.9 * own - 0.1 * chances.mean(axis=-1)
    kept = (words != 0).astype(logits.dtype)
    penalty = (outputs["last"] ** 2).sum(axis=-1).mean()
    return (each * kept).sum() / kept.sum() + 0.01 * penalty
