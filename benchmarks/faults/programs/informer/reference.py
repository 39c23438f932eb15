"""An Informer-like encoder: circular convolution, attention of the most active queries only, distilling; trained by AdaBelief; PyTorch."""

import numpy as np
import torch
from given import windows
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LENGTH, HORIZON = 32, 4, 24, 6


def sampled_keys(length, count):
    """Which keys each query is measured on, the same on both sides."""
    return np.random.default_rng(0).integers(0, length, (length, count))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, WIDTH, 3, padding=1, padding_mode="circular", bias=False)

    def position(self, length, dtype):
        place = torch.arange(length).to(dtype)[:, None]
        speed = torch.exp(torch.arange(0, WIDTH, 2).to(dtype) * -(np.log(10000.0) / WIDTH))
        table = torch.zeros(length, WIDTH, dtype=dtype)
        table[:, 0::2] = torch.sin(place * speed)
        table[:, 1::2] = torch.cos(place * speed)
        return table

    def forward(self, x):
        value = self.conv(x.permute(0, 2, 1)).transpose(1, 2)
        return value + self.position(x.shape[1], x.dtype)


class ProbAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, HEADS, -1).transpose(1, 2)
        k = self.key(x).view(batch, length, HEADS, -1).transpose(1, 2)
        v = self.value(x).view(batch, length, HEADS, -1).transpose(1, 2)
        count = min(length, 3 * int(np.ceil(np.log(length))))
        chosen = torch.from_numpy(sampled_keys(length, count))
        sample = k[:, :, chosen]
        measured = (q.unsqueeze(-2) * sample).sum(-1)
        activity = measured.max(-1)[0] - measured.sum(-1) / length
        top = activity.topk(count, sorted=True)[1]
        index = top.unsqueeze(-1).expand(-1, -1, -1, q.shape[-1])
        active = q.gather(2, index)
        scores = active @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = torch.softmax(scores, -1)
        context = v.mean(2, keepdim=True).expand(-1, -1, length, -1)
        context = context.scatter(2, index, weights @ v)
        context = context.transpose(1, 2).reshape(batch, length, WIDTH)
        return self.out(context)


class Distil(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        x = self.conv(x.transpose(1, 2))
        x = F.elu(self.norm(x))
        x = F.max_pool1d(x, 3, stride=2, padding=1)
        return x.transpose(1, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = ProbAttention()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.conv1 = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.conv2 = nn.Conv1d(2 * WIDTH, WIDTH, 1)
        self.norm2 = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        y = F.gelu(self.conv1(x.transpose(1, 2)))
        y = self.conv2(y).transpose(1, 2)
        return self.norm2(x + y)


class Informer(nn.Module):
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
    torch.manual_seed(8)
    model = Informer()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data += 0.2 * torch.randn_like(parameter)
        else:
            parameter.data *= 1.6
    model.train()
    with torch.no_grad():
        for step in range(10):
            model(torch.from_numpy(windows(8, LENGTH, seed=50 + step)))
    return model


def inputs():
    return windows(4, LENGTH, seed=1)


def labels():
    return windows(4, LENGTH + HORIZON, seed=2)[:, LENGTH:, 0]


def loss(outputs, labels):
    return F.huber_loss(outputs, labels, delta=0.5)


class AdaBelief(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "decay": 0.01})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, parameter.grad, self.state[parameter], group)

    def update(self, parameter, gradient, state, group):
        if not state:
            state.update(step=0, mean=torch.zeros_like(gradient), spread=torch.zeros_like(gradient))
        state["step"] += 1
        state["mean"].lerp_(gradient, 1 - group["beta1"])
        surprise = gradient - state["mean"]
        state["spread"] = group["beta2"] * state["spread"] + (1 - group["beta2"]) * surprise**2 + group["eps"] ** 2
        mean = state["mean"] / (1 - group["beta1"] ** state["step"])
        spread = state["spread"] / (1 - group["beta2"] ** state["step"])
        parameter.mul_(1 - group["lr"] * group["decay"])
        parameter.sub_(group["lr"] * mean / (spread.sqrt() + group["eps"]))


def build_optimizer(model):
    return AdaBelief(model.parameters(), lr=2e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=10, cycle_momentum=False)
