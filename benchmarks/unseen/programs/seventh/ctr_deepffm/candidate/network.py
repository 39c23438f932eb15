import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, KaimingNormal, Normal


def rows(n, width):
    return nn.Embedding(n, width, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 0.1)))


def fc(cin, cout):
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=KaimingNormal(negative_slope=0.25, nonlinearity="leaky_relu")),
                     bias_attr=paddle.ParamAttr(initializer=Constant(0.0)))


class Bag(nn.Layer):
    """Pools the rows of several indices; index 0 is padding."""

    def __init__(self, n, width, average=True):
        super().__init__()
        self.rows = nn.Embedding(n, width, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 0.1)))
        with paddle.no_grad():
            self.rows.weight[0] = 0.0
        self.average = average

    def forward(self, ids):
        used = (ids > 0).astype(self.rows.weight.dtype).unsqueeze(-1)
        total = (self.rows(ids) * used).sum(axis=1)
        return total / used.sum(axis=1).clip(min=1) if self.average else total


class Wide(nn.Layer):
    def __init__(self, n, genres, numbers):
        super().__init__()
        self.ids = rows(n, 1)
        self.genres = Bag(genres, 1, average=False)
        self.numbers = fc(numbers, 1)
        self.constant = self.create_parameter([1], default_initializer=Constant(0.0))

    def forward(self, ids, numbers, genres):
        return self.ids(ids).sum(axis=1) + self.genres(genres) + self.numbers(numbers) + self.constant


class FieldPairs(nn.Layer):
    def __init__(self, n, fields, width):
        super().__init__()
        self.views = nn.LayerList([rows(n, width) for _ in range(fields)])
        self.pairs = fields * (fields - 1) // 2

    def forward(self, ids):
        seen = paddle.stack([view(ids) for view in self.views], axis=1)            # batch, seen by, field, width
        products = (seen * seen.transpose([0, 2, 1, 3])).sum(axis=-1)
        return paddle.triu(products, diagonal=1).sum(axis=[1, 2]).unsqueeze(-1) / self.pairs


class Dice(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.slope = self.create_parameter([width], default_initializer=Constant(0.25))

    def forward(self, x):
        gate = F.sigmoid(F.layer_norm(x, x.shape[-1:], epsilon=1e-8))
        return x * (self.slope + gate * (1 - self.slope))


class DeepPart(nn.Layer):
    def __init__(self, width, hidden, drop):
        super().__init__()
        self.crosses = nn.LayerList([fc(width, width), fc(width, width)])
        self.tower = nn.LayerList()
        size = width
        for h in hidden:
            self.tower.append(nn.Sequential(fc(size, h), nn.LayerNorm(h), Dice(h), nn.Dropout(drop)))
            size = h
        self.join = fc(width + size, 1)

    def forward(self, x):
        crossed = h = x
        for cross in self.crosses:
            crossed = crossed + x * cross(crossed)
        for layer in self.tower:
            h = layer(h)
        return self.join(paddle.concat([crossed, h], axis=-1))


def pairwise(x):
    """Sum of the scalar products of all pairs of rows."""
    gram = paddle.bmm(x, x.transpose([0, 2, 1]))
    return (gram.sum(axis=[1, 2]) - paddle.diagonal(gram, axis1=1, axis2=2).sum(axis=-1)).unsqueeze(-1) / 2


class ClickModel(nn.Layer):
    def __init__(self, n, fields, genres, numbers, width=8, pair_width=4, hidden=(32, 16), drop=0.1):
        super().__init__()
        self.wide = Wide(n, genres, numbers)
        self.rows = rows(n, width)
        self.genres = Bag(genres, width)
        self.field_pairs = FieldPairs(n, fields, pair_width)
        self.deep = DeepPart((fields + 1) * width + numbers, hidden, drop)

    def forward(self, ids, numbers, genres):
        vectors = paddle.concat([self.rows(ids), self.genres(genres).unsqueeze(1)], axis=1)
        score = self.wide(ids, numbers, genres) + pairwise(vectors) + self.field_pairs(ids)
        score = score + self.deep(paddle.concat([vectors.flatten(1), numbers], axis=-1))
        return score.squeeze(-1)
