import paddle
import paddle.nn.functional as F
from paddle import nn

CARDINALITY = (11, 5, 17)


class CrossLayer(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.bias = self.create_parameter([size], is_bias=True)
        self.weight = self.create_parameter([size], default_initializer=nn.initializer.Normal(std=0.1))

    def forward(self, origin, x):
        return origin * (x * self.weight).sum(axis=1, keepdim=True) + self.bias + x


class ClickNet(nn.Layer):
    def __init__(self, k=8, vocabulary=23, dense=3):
        super().__init__()
        self.intercept = self.create_parameter([1], is_bias=True)
        self.weights = nn.LayerList([nn.Embedding(n, 1) for n in CARDINALITY])
        self.vectors = nn.LayerList([nn.Embedding(n, k) for n in CARDINALITY])
        self.word_vectors = self.create_parameter([vocabulary, k], default_initializer=nn.initializer.Normal())
        self.scale = nn.BatchNorm1D(dense)
        self.d1, self.d2 = nn.Linear(dense, 16), nn.Linear(16, k)
        f = len(CARDINALITY) + 2
        self.pairs = [(i, j) for i in range(1, f) for j in range(i)]
        self.cross = nn.LayerList([CrossLayer(f * k), CrossLayer(f * k)])
        self.t1 = nn.Linear(len(self.pairs) + k + f * k, 16)
        self.act = nn.PReLU(num_parameters=16)
        self.t2 = nn.Linear(16, 1)
        self.drop = nn.Dropout(0.3)

    def bag(self, words):
        """mean of the vectors of the words; 0 is padding"""
        there = (words > 0).astype(self.word_vectors.dtype).unsqueeze(-1)
        total = (F.embedding(words, self.word_vectors) * there).sum(axis=1)
        return total / paddle.clip(there.sum(axis=1), min=1.0)

    def forward(self, dense, cats, words):
        columns = paddle.unbind(cats, axis=1)
        linear = paddle.add_n([w(c) for w, c in zip(self.weights, columns)])
        d = F.relu(self.d2(F.relu(self.d1(self.scale(dense)))))
        fields = [d] + [v(c) for v, c in zip(self.vectors, columns)] + [self.bag(words)]
        products = paddle.stack([(fields[i] * fields[j]).sum(axis=-1) for i, j in self.pairs], axis=1)
        second = products.sum(axis=1, keepdim=True)  # the factorisation machine is the sum of all pairs
        flat = paddle.concat(fields, axis=1)
        x = flat
        for layer in self.cross:
            x = layer(flat, x)
        deep = self.t2(self.drop(self.act(self.t1(paddle.concat([d, products, x], axis=1)))))
        return (deep + second + linear + self.intercept)[:, 0]
