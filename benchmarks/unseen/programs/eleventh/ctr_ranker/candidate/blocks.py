# -*- coding: utf-8 -*-
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I


def affine(n_in, n_out):
    """A linear layer that starts as the original framework's does."""
    bound = n_in**-0.5
    return nn.Linear(
        n_in,
        n_out,
        weight_attr=paddle.ParamAttr(initializer=I.Uniform(-bound, bound)),
        bias_attr=paddle.ParamAttr(initializer=I.Uniform(-bound, bound)),
    )


class SharedLookup(nn.Layer):
    """One matrix for all fields."""

    def __init__(self, sizes, width, sigma):
        super().__init__()
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self.register_buffer("starts", paddle.to_tensor(starts, dtype="int64"), persistable=False)
        self.matrix = nn.Embedding(sum(sizes), width, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, sigma)))

    def forward(self, ids, column=None):
        shift = self.starts if column is None else self.starts[column]
        return self.matrix(ids + shift)


class TargetAttention(nn.Layer):
    def __init__(self, width, hidden=16):
        super().__init__()
        self.inner = affine(4 * width, hidden)
        self.act = nn.PReLU()
        self.outer = affine(hidden, 1)

    def forward(self, target, past, valid):
        target = paddle.tile(target.unsqueeze(1), [1, past.shape[1], 1])
        mixed = paddle.concat([target, past, target - past, target * past], axis=-1)
        strength = F.sigmoid(self.outer(self.act(self.inner(mixed))))
        return masked_mean(strength * past, valid)


def masked_mean(sequence, valid):
    count = paddle.clip(valid.sum(axis=1, keepdim=True), min=1.0)
    return paddle.matmul(valid.unsqueeze(1), sequence).squeeze(1) / count


class CrossLayer(nn.Layer):
    def __init__(self, width, rank):
        super().__init__()
        glorot = I.XavierNormal()
        self.squeeze = nn.Linear(width, rank, weight_attr=paddle.ParamAttr(initializer=glorot), bias_attr=False)
        self.expand = nn.Linear(rank, width, weight_attr=paddle.ParamAttr(initializer=glorot))

    def forward(self, base, x):
        return x + base * self.expand(paddle.tanh(self.squeeze(x)))


class DeepBlock(nn.Layer):
    def __init__(self, n_in, n_out, rate):
        super().__init__()
        self.fc = affine(n_in, n_out)
        self.bn = nn.BatchNorm1D(n_out, momentum=0.95)
        self.act = nn.PReLU(num_parameters=n_out)
        self.drop = nn.Dropout(rate)

    def forward(self, x):
        return self.drop(self.act(self.bn(self.fc(x))))


class Encoder(nn.Layer):
    """One of the two towers; its vectors have length one."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc1 = affine(n_in, 2 * n_out)
        self.ln = nn.LayerNorm(2 * n_out, epsilon=1e-6)
        self.fc2 = affine(2 * n_out, n_out)

    def forward(self, *parts):
        h = self.ln(self.fc1(paddle.concat(parts, axis=-1)))
        return F.normalize(self.fc2(F.gelu(h)), axis=-1)
