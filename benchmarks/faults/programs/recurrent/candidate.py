"""The port to Paddle of the forecaster, with an Adamax that computes what PyTorch's does."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HORIZON = 16, 6


class Cell(nn.Layer):
    """An LSTM cell; gates in the order input, forget, new, output."""

    def __init__(self, inner, outer):
        super().__init__()
        self.input = nn.Linear(inner, 4 * outer)
        self.hidden = nn.Linear(outer, 4 * outer)

    def forward(self, x, h, c):
        gates = self.input(x) + self.hidden(h)
        i, f, g, o = gates.chunk(4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * paddle.tanh(g)
        h = F.sigmoid(o) * paddle.tanh(c)
        return h, c


class Forecaster(nn.Layer):
    def __init__(self):
        super().__init__()
        self.gru = nn.BiRNN(nn.GRUCell(2, WIDTH), nn.GRUCell(2, WIDTH))
        self.query = nn.Linear(WIDTH, 2 * WIDTH)
        self.bridge = nn.Linear(2 * WIDTH, WIDTH)
        self.cell = Cell(1 + 2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x, lengths):
        start = paddle.zeros([x.shape[0], WIDTH], dtype=x.dtype)
        states, last = self.gru(x, (start, start))
        h = paddle.tanh(self.bridge(paddle.concat([last[0], last[1]], -1)))
        c = paddle.zeros_like(h)
        valid = paddle.arange(x.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
        y = x[:, -1, :1]
        steps = []
        for _ in range(HORIZON):
            scores = paddle.einsum("bw,btw->bt", self.query(h), states)
            scores = scores.masked_fill(~valid, -1e9)
            weights = F.softmax(scores / WIDTH**0.5, -1)
            context = paddle.einsum("bt,btw->bw", weights, states)
            h, c = self.cell(paddle.concat([y, context], -1), h, c)
            y = y + self.head(h)
            steps.append(y)
        return paddle.concat(steps, 1)


def build_model():
    return Forecaster()


def loss(outputs, labels):
    error = outputs - labels
    weights = paddle.linspace(1.0, 0.5, HORIZON, dtype=outputs.dtype)
    pinball = paddle.maximum(0.7 * error, -0.3 * error)
    return (weights * pinball).mean()


class Adamax(paddle.optimizer.Optimizer):
    """Adamax with epsilon where PyTorch has it: beside the gradient, inside the maximum."""

    def __init__(self, learning_rate, parameters, beta1, beta2, epsilon):
        super().__init__(learning_rate, parameters)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.first, self.greatest, self.count = {}, {}, 0

    @paddle.no_grad()
    def step(self):
        self.count += 1
        for parameter in self._parameter_list:
            if parameter.stop_gradient or parameter.grad is None:
                continue
            gradient, name = parameter.grad, parameter.name
            zero = paddle.zeros_like(gradient)
            first = self.beta1 * self.first.get(name, zero) + (1 - self.beta1) * gradient
            greatest = paddle.maximum(self.beta2 * self.greatest.get(name, zero), gradient.abs() + self.epsilon)
            self.first[name], self.greatest[name] = first, greatest
            rate = self.get_lr() / (1 - self.beta1**self.count)
            parameter.set_value(parameter - rate * first / greatest)


def build_optimizer(model):
    schedule = paddle.optimizer.lr.MultiStepDecay(5e-3, milestones=[1, 2], gamma=0.5)
    return Adamax(schedule, model.parameters(), beta1=0.9, beta2=0.99, epsilon=1e-4)
