import torch
import torch.nn as nn

import segments


class SegmentMixin:
    """What all modules that look at parts of a batch share."""

    @staticmethod
    def scale_gradient(x, factor):
        return x * factor + x.detach() * (1 - factor)

    @staticmethod
    def mlp(inner, hidden, outer):
        return nn.Sequential(nn.Linear(inner, hidden), nn.SiLU(), nn.Linear(hidden, outer))


class RadialBasis(nn.Module):
    def __init__(self, count, low, high):
        super().__init__()
        self.register_buffer("centers", torch.linspace(low, high, count))
        self.gamma = ((count - 1) / (high - low)) ** 2 * 0.5

    def forward(self, length):
        return torch.exp(-self.gamma * (length[:, None] - self.centers) ** 2)


class GraphNorm(nn.Module):
    """Normalises over the nodes of each graph; how much of the mean goes is learnt."""

    def __init__(self, width, eps=1e-3):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.mean_scale = nn.Parameter(torch.ones(width))

    def forward(self, x, graph, count):
        x = x - segments.mean(x, graph, count)[graph] * self.mean_scale
        var = segments.mean(x * x, graph, count)[graph]
        return self.weight * x / (var + self.eps).sqrt() + self.bias


class GatedLayer(nn.Module):
    """Messages weighed by gates that edges and both of their ends decide; edges are updated too."""

    def __init__(self, width, dropout):
        super().__init__()
        self.self_ = nn.Linear(width, width)
        self.message = nn.Linear(width, width, bias=False)
        self.gate_to = nn.Linear(width, width)
        self.gate_from = nn.Linear(width, width, bias=False)
        self.gate_edge = nn.Linear(width, width, bias=False)
        self.node_norm = GraphNorm(width)
        self.edge_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h, e, edges, graph, count):
        source, target = edges
        raw = self.gate_to(h)[target] + self.gate_from(h)[source] + self.gate_edge(e)
        gate = torch.sigmoid(raw)
        gathered = segments.total(gate * self.message(h)[source], target, len(h))
        gathered = gathered / (segments.total(gate, target, len(h)) + 1e-2)
        update = torch.relu(self.node_norm(self.self_(h) + gathered, graph, count))
        return h + self.dropout(update), e + torch.relu(self.edge_norm(raw))


class MultiTaskGraphNet(nn.Module, SegmentMixin):
    def __init__(self, width=16, layers=2, heads=2, basis=8, kinds=3, props=2, dropout=0.15, auxiliary_gradient=0.2):
        super().__init__()
        self.auxiliary_gradient = auxiliary_gradient
        self.atom = nn.Embedding(6, width, padding_idx=0)
        self.numbers = nn.Linear(2, width)
        self.basis = RadialBasis(basis, 0.8, 2.4)
        self.radial = nn.Linear(basis, width)
        self.bond = nn.Embedding(4, width)
        self.layers = nn.ModuleList(GatedLayer(width, dropout) for _ in range(layers))
        self.attend = nn.Linear(width, heads)
        self.read = nn.Sequential(nn.Linear((heads + 1) * width, 24), nn.BatchNorm1d(24, eps=1e-4), nn.SiLU(), nn.Dropout(dropout))
        self.kind = nn.Linear(24, kinds)
        self.props = nn.Linear(24, props)
        self.ends = self.mlp(2 * width, width, 1)
        self.log_variance = nn.Parameter(torch.zeros(3))
        self.reset()

    def reset(self):
        nn.init.normal_(self.bond.weight, std=0.3)
        for layer in self.layers:
            for linear in (layer.self_, layer.message):
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.constant_(self.attend.bias, 0.1)

    def forward(self, atoms, numbers, edges, bond, length, graph):
        count = int(graph.max()) + 1
        h = self.atom(atoms) + self.numbers(numbers)
        e = self.radial(self.basis(length)) + self.bond(bond)
        for layer in self.layers:
            h, e = layer(h, e, edges, graph, count)

        weight = segments.softmax(self.attend(h), graph, count)
        heads = segments.total(weight[:, :, None] * h[:, None, :], graph, count).flatten(1)
        z = self.read(torch.cat([heads, segments.mean(h, graph, count)], 1))

        # both directions of a bond get one answer; the task may only pull a little at the trunk
        a, b = self.scale_gradient(h, self.auxiliary_gradient)[edges]
        guess = self.ends(torch.cat([a + b, (a - b).abs()], 1)).squeeze(1)
        error = segments.mean((guess - length.log())[:, None] ** 2, graph[edges[0]], count).squeeze(1)
        return {"kind": self.kind(z), "props": self.props(z), "bond_error": error, "log_variance": self.log_variance}
