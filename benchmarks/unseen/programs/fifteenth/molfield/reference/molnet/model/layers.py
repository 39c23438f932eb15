import math

import torch
from torch import nn
from torch.nn import functional as F

from .scatter import scatter_mean, scatter_softmax, scatter_sum


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - math.log(2.0)


def mlp(n_in, n_hidden, n_out):
    return nn.Sequential(
        nn.Linear(n_in, n_hidden), ShiftedSoftplus(), nn.Linear(n_hidden, n_out)
    )


class GraphNorm(nn.Module):
    """Normalises every channel over the atoms of a molecule."""

    def __init__(self, channels, eps=1e-3):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.mean_scale = nn.Parameter(torch.ones(channels))

    def forward(self, x, graph, num_graphs):
        mean = scatter_mean(x, graph, num_graphs)
        x = x - mean[graph] * self.mean_scale
        var = scatter_mean(x * x, graph, num_graphs)
        return self.weight * x / (var[graph] + self.eps).sqrt() + self.bias


class Interaction(nn.Module):
    def __init__(self, channels, num_rbf, mean_degree):
        super().__init__()
        self.norm = GraphNorm(channels)
        self.lin_in = nn.Linear(channels, channels, bias=False)
        self.filter = mlp(num_rbf, channels, channels)
        self.update = mlp(channels, channels, channels)
        self.scale = mean_degree**-0.5

    def forward(self, x, edges, rbf, envelope, graph, num_graphs):
        send, recv = edges
        h = self.lin_in(self.norm(x, graph, num_graphs))
        w = self.filter(rbf) * envelope[:, None]
        message = scatter_sum(h[send] * w, recv, x.shape[0]) * self.scale
        return x + self.update(message)


class AttentionPool(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.score = nn.Linear(channels, 1, bias=False)
        self.value = nn.Linear(channels, hidden)

    def forward(self, x, graph, num_graphs):
        alpha = scatter_softmax(self.score(x).squeeze(-1), graph, num_graphs)
        return scatter_sum(alpha[:, None] * torch.tanh(self.value(x)), graph, num_graphs)


class ForceHead(nn.Module):
    def __init__(self, channels, num_rbf):
        super().__init__()
        self.net = mlp(2 * channels + num_rbf, channels, 1)

    def forward(self, x, edges, rbf, envelope, unit):
        send, recv = edges
        feats = torch.cat([x[recv], x[send], rbf], dim=-1)
        size = self.net(feats) * envelope[:, None]
        return scatter_sum(size * unit, recv, x.shape[0])
