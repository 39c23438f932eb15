"""The port to Paddle of the Informer-like encoder, with AdaBelief."""

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HEADS, LENGTH, HORIZON = 32, 4, 24, 6


def sampled_keys(length, count):
    """Which keys each query is measured on, the same on both sides."""
    return np.random.default_rng(0).integers(0, length, (length, count))


class Embedding(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1D(2, WIDTH, 3, padding=1, padding_mode="circular", bias_attr=False)

    def position(self, length, dtype):
        place = paddle.arange(length).astype(dtype).unsqueeze(1)
        speed = paddle.exp(paddle.arange(0, WIDTH, 2).astype(dtype) * -(np.log(10000.0) / WIDTH))
        waves = paddle.stack([paddle.sin(place * speed), paddle.cos(place * speed)], -1)
        return waves.reshape([length, WIDTH])

    def forward(self, x):
        value = self.conv(x.transpose([0, 2, 1])).transpose([0, 2, 1])
        return value + self.position(x.shape[1], x.dtype)


class ProbAttention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.query(x).reshape([batch, length, HEADS, -1]).transpose([0, 2, 1, 3])
        k = self.key(x).reshape([batch, length, HEADS, -1]).transpose([0, 2, 1, 3])
        v = self.value(x).reshape([batch, length, HEADS, -1]).transpose([0, 2, 1, 3])
        count = min(length, 3 * int(np.ceil(np.log(length))))
        chosen = paddle.to_tensor(sampled_keys(length, count).reshape(-1))
        sample = paddle.index_select(k, chosen, axis=2).reshape([batch, HEADS, length, count, -1])
        measured = (q.unsqueeze(-2) * sample).sum(-1)
        activity = measured.max(-1) - measured.sum(-1) / length
        top = paddle.topk(activity, count, sorted=True)[1]
        index = top.unsqueeze(-1).expand([-1, -1, -1, q.shape[-1]])
        active = paddle.take_along_axis(q, index, 2)
        scores = paddle.matmul(active, k, transpose_y=True) / q.shape[-1] ** 0.5
        weights = F.softmax(scores, -1)
        context = v.mean(2, keepdim=True).expand([-1, -1, length, -1])
        context = paddle.put_along_axis(context, index, weights @ v, 2)
        context = context.transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH])
        return self.out(context)


class Distil(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1D(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.BatchNorm1D(WIDTH)

    def forward(self, x):
        x = self.conv(x.transpose([0, 2, 1]))
        x = F.elu(self.norm(x))
        x = F.max_pool1d(x, 3, stride=2, padding=1)
        return x.transpose([0, 2, 1])


class Layer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = ProbAttention()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.conv1 = nn.Conv1D(WIDTH, 2 * WIDTH, 1)
        self.conv2 = nn.Conv1D(2 * WIDTH, WIDTH, 1)
        self.norm2 = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        y = F.gelu(self.conv1(x.transpose([0, 2, 1])))
        y = self.conv2(y).transpose([0, 2, 1])
        return self.norm2(x + y)


class Informer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding()
        self.layer1 = Layer()
        self.distil = Distil()
        self.layer2 = Layer()
        self.head = nn.Linear(WIDTH * LENGTH // 2, HORIZON)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        deviation = x.std(1, keepdim=True) + 1e-5
        y = self.embedding((x - mean) / deviation)
        y = self.layer1(y)
        y = self.distil(y)
        y = self.layer2(y)
        y = self.head(y.flatten(1))
        return y * deviation[:, :, 0] + mean[:, :, 0]


def build_model():
    return Informer()


def loss(outputs, labels):
    error = outputs - labels
    near = 0.5 * error * error
    return paddle.where(error.abs() < 0.5, near, 0.5 * (error.abs() - 0.25)).mean()


class AdaBelief(paddle.optimizer.Optimizer):
    def __init__(self, learning_rate, parameters):
        super().__init__(learning_rate, parameters)
        self.beta1, self.beta2, self.epsilon, self.decay = 0.9, 0.99, 1e-3, 0.01
        self.count, self.state = 0, {}

    @paddle.no_grad()
    def step(self):
        self.count += 1
        for parameter in self._parameter_list:
            if not parameter.stop_gradient and parameter.grad is not None:
                self.update(parameter, parameter.grad)

    def update(self, parameter, gradient):
        mean, spread = self.state.get(parameter.name, (paddle.zeros_like(gradient), paddle.zeros_like(gradient)))
        mean = self.beta1 * mean + (1 - self.beta1) * gradient
        surprise = gradient - mean
        spread = self.beta2 * spread + (1 - self.beta2) * surprise**2 + self.epsilon**2
        self.state[parameter.name] = mean, spread
        mean = mean / (1 - self.beta1**self.count)
        spread = spread / (1 - self.beta2**self.count)
        value = parameter * (1 - self.get_lr() * self.decay)
        value = value - self.get_lr() * mean / (spread.sqrt() + self.epsilon)
        parameter.set_value(value)


def build_optimizer(model):
    schedule = paddle.optimizer.lr.OneCycleLR(2e-3, total_steps=10, divide_factor=25.0, end_learning_rate=2e-3 / 25 / 1e4)
    return AdaBelief(schedule, model.parameters())
