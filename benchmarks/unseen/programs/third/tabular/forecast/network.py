import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from .registry import HEADS, LAYERS
from .settings import SETTINGS

M = SETTINGS["model"]


def fill_bins(x, grid):
    """[B, n] and edges [bins + 1, n] -> [B, n * bins]; only the outer bins go below 0 and above 1"""
    edges = paddle.to_tensor(grid.T, dtype=x.dtype)
    left, size = edges[:, :-1], paddle.clip(edges[:, 1:] - edges[:, :-1], min=1e-4)
    share = (x.unsqueeze(2) - left) / size
    inner = share[:, :, 1:-1].clip(0.0, 1.0)
    return paddle.concat([share[:, :, :1].clip(max=1.0), inner, share[:, :, -1:].clip(min=0.0)], axis=2).flatten(1)


@LAYERS.add("gated")
class Gated(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1D(width, **M["norm"])
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x):
        value, gate = self.linear(self.norm(x)).chunk(2, axis=-1)
        return (x + value * F.sigmoid(gate)) * 0.5 ** 0.5


@LAYERS.add("narrow")
class Narrow(nn.Layer):
    def __init__(self, width, shrink=2):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon=1e-6)
        self.body = nn.Sequential(nn.Linear(width, width // shrink), nn.GELU(approximate=True), nn.Linear(width // shrink, width))

    def forward(self, x):
        return x + self.body(self.norm(x))


@HEADS.add("levels")
class Levels(nn.Linear):
    def __init__(self, width, task):
        super().__init__(width, len(task["levels"]))

    def forward(self, h):
        lowest, steps = super().forward(h).split([1, -1], axis=1)
        return paddle.cumsum(paddle.concat([lowest, F.softplus(steps)], axis=1), axis=1)


@HEADS.add("rate")
class Rate(nn.Linear):
    def __init__(self, width, task, limit=6.0):
        super().__init__(width, 1)
        self.limit = limit

    def forward(self, h):
        return super().forward(h).flatten().clip(-self.limit, self.limit)


class MultiTask(nn.Layer):
    def __init__(self, preparation):
        super().__init__()
        cats, tasks = SETTINGS["data"]["categories"], SETTINGS["tasks"]
        numbers = len(SETTINGS["data"]["numbers"])
        self.grid = preparation.grid
        self.tables = nn.LayerList([nn.Embedding(len(preparation.levels[c]) + 1, M["embedding"]) for c in cats])
        self.enter = nn.Linear(len(cats) * M["embedding"] + numbers * M["bins"] + 3, M["width"])
        self.trunk = nn.Sequential(*(LAYERS.make(kind, M["width"]) for kind in M["layers"]))
        self.experts = nn.LayerList([nn.Linear(M["width"], M["expert_width"]) for _ in range(M["experts"])])
        self.gates = nn.LayerList([nn.Linear(M["width"], M["experts"], bias_attr=False) for _ in tasks])
        self.heads = nn.LayerList([HEADS.make(t["head"], M["expert_width"], t) for t in tasks])
        self.names = [t["name"] for t in tasks]
        self.log_var = self.create_parameter([len(tasks)], default_initializer=nn.initializer.Assign(np.array(M["log_var"], "float32")))

    def forward(self, cats, nums):
        n = self.grid.shape[1]
        known = [table(code) for table, code in zip(self.tables, cats.unbind(axis=1))]
        x = paddle.concat([*known, fill_bins(nums[:, :n], self.grid), nums[:, n:]], axis=1)
        x = self.trunk(self.enter(x))
        opinions = paddle.stack([F.elu(expert(x), alpha=0.5) for expert in self.experts], axis=1)
        out = {"log_var": self.log_var}
        for name, gate, head in zip(self.names, self.gates, self.heads):
            trust = F.softmax(gate(x), axis=-1)
            out[name] = head(paddle.einsum("be,bed->bd", trust, opinions))
        return out
