# -*- coding: utf-8 -*-
import paddle
from paddle import nn

from blocks import CrossLayer, DeepBlock, Encoder, SharedLookup, TargetAttention, affine, masked_mean
from columns import SPARSE

USER, ITEM, BRAND, CATEGORY, DEVICE = range(5)


class ClickRanker(nn.Layer):
    def __init__(self, dim, cross_layers, cross_rank, hidden, tower, dropout, buckets, numeric=5):
        super().__init__()
        sizes = [buckets[c] for c in SPARSE]
        n_flat = dim * (len(SPARSE) + 1) + numeric
        self.lookup = SharedLookup(sizes, dim, 0.1)
        self.wide = SharedLookup(sizes, 1, 0.01)
        self.wide_numeric = affine(numeric, 1)
        self.interest = TargetAttention(dim)
        self.crosses = nn.LayerList([CrossLayer(n_flat, cross_rank) for _ in range(cross_layers)])
        widths = [n_flat] + list(hidden)
        self.mlp = nn.Sequential(*[DeepBlock(a, b, dropout) for a, b in zip(widths[:-1], widths[1:])])
        self.top = affine(n_flat + widths[-1], 1)
        self.user_encoder = Encoder(3 * dim, tower)
        self.item_encoder = Encoder(3 * dim + 1, tower)

    @staticmethod
    def second_order(v):
        square_of_sum = paddle.square(paddle.sum(v, axis=1))
        sum_of_square = paddle.sum(paddle.square(v), axis=1)
        return 0.5 * paddle.sum(square_of_sum - sum_of_square, axis=1)

    def first_order(self, sparse, dense):
        return self.wide(sparse).sum(axis=[1, 2]) + self.wide_numeric(dense)[:, 0]

    def forward(self, dense, sparse, history):
        emb = self.lookup(sparse)
        past = self.lookup(history, ITEM)
        valid = (history != 0).astype(past.dtype)
        taste = self.interest(emb[:, ITEM], past, valid)
        stack = paddle.concat([emb, taste.unsqueeze(1)], axis=1)

        flat = paddle.concat([paddle.flatten(stack, start_axis=1), dense], axis=1)
        crossed = flat
        for layer in self.crosses:
            crossed = layer(flat, crossed)
        score = self.top(paddle.concat([crossed, self.mlp(flat)], axis=1))[:, 0]
        score = score + self.first_order(sparse, dense) + self.second_order(stack)

        user = self.user_encoder(emb[:, USER], emb[:, DEVICE], masked_mean(past, valid))
        item = self.item_encoder(emb[:, ITEM], emb[:, BRAND].detach(), emb[:, CATEGORY], dense[:, 0:1])
        return {"logit": score, "user": user, "item": item, "norm": paddle.square(emb).sum(axis=[1, 2])}
