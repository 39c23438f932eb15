"""Masked server logs, ported to Paddle."""
import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from .lib import corpus
from .lib.layers import EncoderLayer, WordScores, WordTable

ARGS = dict(dim=16, n_head=4, max_dist=3, depth=2, p=0.1)
TRAIN = dict(lr=3e-3, warmup=4, total=40, chunk=3, max_norm=1.0, smoothing=0.1)


class LogModel(nn.Layer):
    def __init__(self, n_words, dim, n_head, max_dist, depth, p):
        super().__init__()
        self.scale = dim ** 0.5
        self.embed = WordTable(n_words, dim, corpus.PAD_ID)
        self.drop = nn.Dropout(p)
        self.blocks = nn.LayerList([EncoderLayer(dim, n_head, max_dist, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, epsilon=1e-6)
        self.head = WordScores(self.embed)

    def forward(self, tokens):
        h = self.drop(self.embed(tokens) * self.scale)
        is_pad = tokens == corpus.PAD_ID
        for block in self.blocks:
            h = block(h, is_pad)
        return self.head(self.norm(h), self.embed)


def build_model():
    return LogModel(len(corpus.load_vocab()), **ARGS)


def summed_loss(outputs, labels):
    eps, n_words = TRAIN["smoothing"], outputs.shape[-1]
    keep = labels != corpus.IGNORE
    logp = F.log_softmax(outputs, axis=-1)
    true = paddle.where(keep, labels, paddle.zeros_like(labels))
    picked = paddle.take_along_axis(logp, true.unsqueeze(-1), axis=-1).squeeze(-1)
    each = -(1 - eps) * picked - eps * logp.sum(axis=-1) / n_words
    return (each * keep.astype(each.dtype)).sum(), keep.astype(each.dtype).sum()


def loss(outputs, labels):
    total, count = summed_loss(outputs, labels)
    return total / count


def metric(outputs, labels):
    true = labels.numpy().ravel()
    scores = outputs.numpy().reshape(len(true), -1)
    keep = true != corpus.IGNORE
    true, scores = true[keep], scores[keep]
    own = np.take_along_axis(scores, true[:, None], axis=1)
    rank = 1 + np.count_nonzero(scores > own, axis=1)
    return {"hit1": float(np.mean(rank < 2)), "hit5": float(np.mean(rank < 6)), "mrr": float(np.mean(1.0 / rank))}


def build_dataset(split):
    return corpus.MlmDataset("data/%s.log" % split)


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), batch_size=6, shuffle=False)


def ratio(step):
    warm, total = TRAIN["warmup"], TRAIN["total"]
    if step < warm:
        return (step + 1.0) / warm
    return (1 + math.cos(math.pi * min(1.0, (step - warm) / (total - warm)))) / 2


def build_optimizer(model):
    lr = paddle.optimizer.lr.LambdaDecay(TRAIN["lr"], lr_lambda=ratio)
    return paddle.optimizer.Adam(lr, beta1=0.9, beta2=0.99, epsilon=1e-7, parameters=model.parameters())


def train_step(model, optimizer, batch):
    tokens, labels = batch["tokens"], batch["labels"]
    count = (labels != corpus.IGNORE).sum()
    seen = []
    for at in range(0, tokens.shape[0], TRAIN["chunk"]):
        part, _ = summed_loss(model(tokens[at:at + TRAIN["chunk"]]), labels[at:at + TRAIN["chunk"]])
        part = part / count.astype(part.dtype)
        part.backward()
        seen.append(part.detach())
    nn.utils.clip_grad_norm_(model.parameters(), TRAIN["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return paddle.add_n(seen)


def predict(path, model):
    scores = []
    for ids in corpus.encode_file(path):
        n = len(ids)
        masked = np.where(np.eye(n, dtype=bool), corpus.MASK_ID, np.tile(np.array(ids), (n, 1)))
        with paddle.no_grad():
            logp = F.log_softmax(model(paddle.to_tensor(masked.astype("int64"))), axis=-1).numpy()
        scores.append(float(sum(logp[i, i, w] for i, w in enumerate(ids))))
    return np.array(scores)
