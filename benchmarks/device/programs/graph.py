"""A graph: sums at nodes by index, whose order a GPU does not promise; RMSprop."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

NODES = 30


class Convolution(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.own, self.other = nn.Linear(given, made), nn.Linear(given, made, bias=False)

    def forward(self, x, edges):
        messages = self.other(x)[edges[0]]
        summed = torch.zeros(len(x), messages.shape[1], dtype=x.dtype, device=x.device).index_add(0, edges[1], messages)
        degree = torch.zeros(len(x), dtype=x.dtype, device=x.device).scatter_add(0, edges[1], torch.ones_like(messages[:, 0]))
        return self.own(x) + summed / degree.clamp(min=1.0)[:, None]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Convolution(12, 48), Convolution(48, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, x, edges):
        x = F.leaky_relu(self.first(x, edges), 0.2)
        return self.head(torch.tanh(self.second(x, edges)))


def build_model():
    return Net()


class Graphs:
    def __init__(self, seed):
        self.seed = seed

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        drawn = np.random.RandomState(100 * self.seed + index)
        x = drawn.randn(NODES, 12).astype("float32")
        return x, drawn.randint(0, NODES, (2, 400)), (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)


def build_dataset(split):
    return Graphs(1 if split == "train" else 2)


def build_dataloader(split):
    return DataLoader(build_dataset(split), None)


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def metric(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).float().mean())}


def build_optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
