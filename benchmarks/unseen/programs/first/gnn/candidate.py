import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from graphdata import GraphSet, join
from segments import segment_max, segment_softmax, segment_sum


class Attend(nn.Layer):
    """messages along edges, attention over the incoming ones of every node"""

    def __init__(self, width, heads, kinds):
        super().__init__()
        self.heads = heads
        glorot = nn.initializer.XavierUniform()
        self.query = self.create_parameter([heads, width // heads], default_initializer=glorot)
        self.key = self.create_parameter([heads, width // heads], default_initializer=glorot)
        self.transform = nn.Linear(width, width, bias_attr=False)
        self.relation = nn.Embedding(kinds, width)
        self.offset = self.create_parameter([width], is_bias=True)

    def forward(self, x, source, target, kind):
        n = x.shape[0]
        z = self.transform(x).reshape([n, self.heads, -1])
        score = paddle.gather(paddle.einsum("nhc,hc->nh", z, self.key), source)
        score = score + paddle.gather(paddle.einsum("nhc,hc->nh", z, self.query), target)
        weight = segment_softmax(F.leaky_relu(score, negative_slope=0.2), target, n)
        rel = self.relation(kind).reshape([-1, self.heads, z.shape[2]])
        message = weight.unsqueeze(2) * (paddle.gather(z, source) + rel)
        total = segment_sum(message.flatten(1), target, n)
        return F.elu(total + self.offset)


class Layer(nn.Layer):
    def __init__(self, width, heads=2, kinds=3):
        super().__init__()
        self.attend = Attend(width, heads, kinds)
        self.cell = nn.GRUCell(width, width)
        self.bn = nn.BatchNorm1D(width, momentum=0.8)

    def forward(self, x, source, target, kind):
        update, _ = self.cell(self.attend(x, source, target, kind), x)
        return self.bn(update)


class GraphRegressor(nn.Layer):
    def __init__(self, width=12):
        super().__init__()
        self.encode = nn.Linear(6, width)
        self.global_node = self.create_parameter([1, width], default_initializer=nn.initializer.Constant(0.0))
        self.convs = nn.LayerList([Layer(width), Layer(width)])
        self.global_update = nn.Linear(width, width)
        self.gate = nn.Linear(width, 1)
        self.head = nn.Sequential(nn.Linear(3 * width, width), nn.Softplus(), nn.Linear(width, 2))

    def forward(self, x, edges, kind, batch):
        graphs = int(batch.max().item()) + 1
        h = self.encode(x)
        hub = paddle.tile(self.global_node, [graphs, 1])
        sizes = segment_sum(paddle.ones([x.shape[0], 1], dtype=h.dtype), batch, graphs)
        for conv in self.convs:
            h = conv(h + paddle.gather(hub, batch), edges[0], edges[1], kind)
            hub = hub + F.relu(self.global_update(segment_sum(h, batch, graphs) / sizes))
        share = segment_softmax(self.gate(h), batch, graphs)
        pooled = segment_sum(share * h, batch, graphs)
        return self.head(paddle.concat([pooled, segment_max(h, batch, graphs), hub], axis=1))


def build_model():
    return GraphRegressor()


def build_dataset(split):
    return GraphSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(GraphSet(split), batch_size=5, collate_fn=join)


def loss(out, y):
    # log cosh without overflow
    d = (out - y).abs()
    return (d + F.softplus(-2.0 * d) - float(np.log(2.0))).mean()


def metric(out, y):
    a, b = out.numpy().astype("float64"), y.numpy().astype("float64")
    ac, bc = a - a.mean(0), b - b.mean(0)
    r = (ac * bc).sum(0) / np.sqrt((ac**2).sum(0) * (bc**2).sum(0))
    return {"pearson": float(r.mean()), "mae": float(np.abs(a - b).sum() / len(a))}


class SmoothLion:
    def __init__(self, parameters, lr=1e-3, beta1=0.9, beta2=0.99, decay=0.1):
        self.parameters = list(parameters)
        self.lr, self.beta1, self.beta2, self.decay = lr, beta1, beta2, decay
        self.momentum = {}

    @paddle.no_grad()
    def step(self):
        for i, p in enumerate(self.parameters):
            if p.stop_gradient or p.grad is None:
                continue
            g = p.grad
            m = self.momentum.get(i, paddle.zeros_like(p))
            c = self.beta1 * m + (1.0 - self.beta1) * g
            direction = c / (c.abs() + 1e-3)
            p.set_value(p - self.lr * (direction + self.decay * p))
            self.momentum[i] = self.beta2 * m + (1.0 - self.beta2) * g

    def clear_grad(self, set_to_zero=False):
        for p in self.parameters:
            p.clear_gradient(set_to_zero)


def build_optimizer(model):
    return SmoothLion(model.parameters())
