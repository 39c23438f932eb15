"""Self-attention of the ported encoder."""

import paddle
from paddle import nn
from paddle.nn import functional as F

WIDTH, HEADS = 48, 4


class SelfAttention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.reshape([x.shape[0], x.shape[1], HEADS, WIDTH // HEADS]).transpose([0, 2, 1, 3])

    def forward(self, x, bias):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = paddle.matmul(q, k, transpose_y=True) / (WIDTH // HEADS) ** 0.5
        scores = scores + bias
        weights = F.softmax(scores, -1)
        weights = self.dropout(weights)
        x = paddle.matmul(weights, v).transpose([0, 2, 1, 3])
        x = x.reshape([x.shape[0], x.shape[1], WIDTH])
        return self.output(x)
