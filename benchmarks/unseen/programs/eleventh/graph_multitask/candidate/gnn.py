import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.geometric import segment_max, segment_mean, segment_sum
from paddle.nn.initializer import Constant, Normal, Uniform


def default_attr(fan_in):
    return paddle.ParamAttr(initializer=Uniform(-1.0 / math.sqrt(fan_in), 1.0 / math.sqrt(fan_in)))


def fc(n_in, n_out, weight=None, bias=True):
    weight = paddle.ParamAttr(initializer=weight) if weight is not None else default_attr(n_in)
    return nn.Linear(n_in, n_out, weight_attr=weight, bias_attr=default_attr(n_in) if bias else False)


def gather_sum(messages, at, like):
    """Sum of the messages that arrive at each node."""
    return paddle.index_add(paddle.zeros_like(like), at, 0, messages)


class GraphwiseNorm(nn.Layer):
    def __init__(self, width, epsilon=1e-3):
        super().__init__()
        self.epsilon = epsilon
        self.gamma = self.create_parameter([width], default_initializer=Constant(1.0))
        self.beta = self.create_parameter([width], default_initializer=Constant(0.0))
        self.alpha = self.create_parameter([width], default_initializer=Constant(1.0))

    def forward(self, x, graph):
        centre = paddle.index_select(segment_mean(x, graph), graph)
        x = x - self.alpha * centre
        power = paddle.index_select(segment_mean(paddle.square(x), graph), graph)
        return self.gamma * x * paddle.rsqrt(power + self.epsilon) + self.beta


class GatedConv(nn.Layer):
    def __init__(self, d, p_drop):
        super().__init__()
        he = lambda: Normal(0.0, math.sqrt(2.0 / d))
        self.own = fc(d, d, weight=he())
        self.value = fc(d, d, weight=he(), bias=False)
        self.gate_dst = fc(d, d)
        self.gate_src = fc(d, d, bias=False)
        self.gate_bond = fc(d, d, bias=False)
        self.norm = GraphwiseNorm(d)
        self.ln = nn.LayerNorm(d)
        self.drop = nn.Dropout(p_drop)

    def forward(self, node, edge, src, dst, graph):
        mix = self.gate_bond(edge)
        mix = mix + paddle.gather(self.gate_dst(node), dst) + paddle.gather(self.gate_src(node), src)
        gate = F.sigmoid(mix)
        arrived = gather_sum(gate * paddle.gather(self.value(node), src), dst, node)
        arrived = arrived / (gather_sum(gate, dst, node) + 1e-2)
        new = F.relu(self.norm(self.own(node) + arrived, graph))
        return node + self.drop(new), edge + F.relu(self.ln(mix))


class AttentiveReadout(nn.Layer):
    """Several softmaxes over the nodes of each graph, and their mean beside."""

    def __init__(self, d, n_heads):
        super().__init__()
        self.score = nn.Linear(d, n_heads, weight_attr=default_attr(d), bias_attr=Constant(0.1))

    def forward(self, node, graph):
        score = self.score(node)
        score = score - paddle.gather(segment_max(score.detach(), graph), graph)
        share = paddle.exp(score)
        share = share / paddle.gather(segment_sum(share, graph), graph)
        per_head = [segment_sum(share[:, k : k + 1] * node, graph) for k in range(share.shape[1])]
        return paddle.concat(per_head + [segment_mean(node, graph)], axis=1)


class GraphTasks(nn.Layer):
    def __init__(self, hidden, depth, n_heads, n_basis, span, p_drop, aux_pull):
        super().__init__()
        low, high = span
        self.aux_pull = aux_pull
        self.sharpness = 0.5 * ((n_basis - 1) / (high - low)) ** 2
        self.register_buffer("knots", paddle.linspace(low, high, n_basis))
        self.atom_table = nn.Embedding(6, hidden, padding_idx=0, weight_attr=Normal(0.0, 1.0))
        self.number_proj = fc(2, hidden)
        self.length_proj = fc(n_basis, hidden)
        self.bond_table = nn.Embedding(4, hidden, weight_attr=Normal(0.0, 0.3))
        self.convs = nn.LayerList([GatedConv(hidden, p_drop) for _ in range(depth)])
        self.readout = AttentiveReadout(hidden, n_heads)
        self.trunk = fc((n_heads + 1) * hidden, 24)
        self.trunk_bn = nn.BatchNorm1D(24, epsilon=1e-4)
        self.trunk_drop = nn.Dropout(p_drop)
        self.to_kind, self.to_props = fc(24, 3), fc(24, 2)
        self.bond_in, self.bond_out = fc(2 * hidden, hidden), fc(hidden, 1)
        self.uncertainty = self.create_parameter([3], default_initializer=Constant(0.0))

    def _edge_features(self, bond, length):
        bumps = paddle.exp(-self.sharpness * paddle.square(length.unsqueeze(1) - self.knots))
        return self.length_proj(bumps) + self.bond_table(bond)

    def _bond_errors(self, node, src, dst, length, graph, n_graphs):
        soft = self.aux_pull * node + (1.0 - self.aux_pull) * node.detach()
        a, b = paddle.gather(soft, src), paddle.gather(soft, dst)
        guess = self.bond_out(F.silu(self.bond_in(paddle.concat([a + b, paddle.abs(a - b)], axis=1))))[:, 0]
        wrong = paddle.square(guess - paddle.log(length))
        owner = paddle.gather(graph, src)
        sums = gather_sum(wrong, owner, paddle.zeros([n_graphs], dtype=wrong.dtype))
        count = paddle.bincount(owner, minlength=n_graphs).astype(wrong.dtype)
        return sums / paddle.clip(count, min=1.0)

    def forward(self, atoms, numbers, edges, bond, length, graph):
        src, dst = edges[0], edges[1]
        node = self.atom_table(atoms) + self.number_proj(numbers)
        edge = self._edge_features(bond, length)
        for conv in self.convs:
            node, edge = conv(node, edge, src, dst, graph)
        z = self.trunk_drop(F.silu(self.trunk_bn(self.trunk(self.readout(node, graph)))))
        return {
            "kind": self.to_kind(z),
            "props": self.to_props(z),
            "bond_error": self._bond_errors(node, src, dst, length, graph, z.shape[0]),
            "log_variance": self.uncertainty,
        }
