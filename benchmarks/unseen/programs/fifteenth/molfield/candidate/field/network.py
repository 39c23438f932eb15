import paddle
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Orthogonal

from . import ops
from .constants import CUTOFF, ELEMENTS


def lin(n_in, n_out, bias=True):
    return nn.Linear(
        n_in,
        n_out,
        weight_attr=paddle.ParamAttr(initializer=Orthogonal()),
        bias_attr=paddle.ParamAttr(initializer=Constant(0.0)) if bias else False,
    )


class TwoLayer(nn.Layer):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.second = lin(n_hidden, n_out)
        self.first = lin(n_in, n_hidden)

    def forward(self, x):
        return self.second(ops.softplus0(self.first(x)))


class Round(nn.Layer):
    def __init__(self, width, n_radial, degree):
        super().__init__()
        for name, value in (("gain", 1.0), ("offset", 0.0), ("centring", 1.0)):
            parameter = self.create_parameter([width], default_initializer=Constant(value))
            self.add_parameter(name, parameter)
        self.degree = degree
        self.mixing = lin(width, width, bias=False)
        self.change = TwoLayer(width, width, width)
        self.edge_filter = TwoLayer(n_radial, width, width)

    def normalised(self, x, graph):
        mean = ops.over_molecules(x, graph, "mean")
        x = x - self.centring * ops.gather(mean, graph)
        power = ops.over_molecules(x ** 2, graph, "mean")
        return self.gain * x * paddle.rsqrt(ops.gather(power, graph) + 1e-3) + self.offset

    def forward(self, x, graph, source, to, radial, faded):
        sent = self.mixing(self.normalised(x, graph))
        weights = self.edge_filter(radial) * faded.unsqueeze(-1)
        received = paddle.geometric.send_ue_recv(
            sent, weights, source, to, message_op="mul", reduce_op="sum", out_size=x.shape[0]
        )
        return x + self.change(received / self.degree ** 0.5)


class Field(nn.Layer):
    def __init__(self, width, n_radial, rounds, pooled, degree):
        super().__init__()
        self.n_radial = n_radial
        self.push = TwoLayer(2 * width + n_radial, width, 1)
        self.importance = lin(width, 1, bias=False)
        self.content = lin(width, pooled)
        self.from_pool = lin(pooled, 1)
        self.per_atom = TwoLayer(width, width // 2, 1)
        self.rounds = nn.LayerList([Round(width, n_radial, degree) for _ in range(rounds)])
        self.kinds = nn.Embedding(
            len(ELEMENTS), width, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 1.0))
        )
        self.base = nn.Embedding(
            len(ELEMENTS), 1, weight_attr=paddle.ParamAttr(initializer=Constant(0.0))
        )

    def energies(self, x, species, graph):
        single = self.per_atom(x) + self.base(species)
        share = ops.softmax_in_molecules(self.importance(x), graph)
        pooled = ops.over_molecules(share * paddle.tanh(self.content(x)), graph)
        total = ops.over_molecules(single, graph) + self.from_pool(pooled)
        return total.squeeze(-1)

    def pushes(self, x, source, to, radial, faded, direction):
        ends = [ops.gather(x, to), ops.gather(x, source), radial]
        strength = self.push(paddle.concat(ends, axis=-1)) * faded.unsqueeze(-1)
        return ops.add_at(strength * direction, to, x.shape[0])

    def forward(self, batch):
        source, to = batch["edges"][0], batch["edges"][1]
        graph, vectors = batch["graph"], batch["vectors"]
        distance = paddle.sqrt((vectors ** 2).sum(axis=-1))
        direction = vectors / distance.unsqueeze(-1)
        radial = ops.gaussians(distance, self.n_radial, CUTOFF)
        faded = ops.fade(distance, CUTOFF)

        x = self.kinds(batch["species"])
        for one in self.rounds:
            x = one(x, graph, source, to, radial, faded)
        return {
            "forces": self.pushes(x, source, to, radial, faded, direction),
            "energy": self.energies(x, batch["species"], graph),
        }
