import json
import os

import numpy as np
import paddle
import paddle.nn.functional as F

from net import Recogniser

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "feats")
ALPHABET = dict(enumerate("_abcdefg "))
INDEX = {c: i for i, c in ALPHABET.items()}


def build_model():
    return Recogniser(symbols=len(ALPHABET))


def loss(outputs, labels):
    scores, steps = outputs
    return F.ctc_loss(scores, labels["targets"].astype("int32"), steps.astype("int64"), labels["target_lengths"].astype("int64"), blank=0, reduction="mean")


def collapse(ids):
    out, last = [], None
    for i in ids:
        if i != last and i != 0:
            out.append(int(i))
        last = i
    return out


def distance(a, b):
    m = np.zeros((len(a) + 1, len(b) + 1), "int64")
    m[:, 0], m[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            m[i + 1, j + 1] = min(m[i, j + 1] + 1, m[i + 1, j] + 1, m[i, j] + int(a[i] != b[j]))
    return int(m[-1, -1])


def metric(outputs, labels):
    best, steps = outputs[0].argmax(axis=-1).numpy(), outputs[1].numpy()
    tl = labels["target_lengths"].numpy()
    wrong = sum(distance(collapse(best[: steps[i], i]), labels["targets"].numpy()[i, : tl[i]].tolist()) for i in range(len(tl)))
    return {"cer": wrong / tl.sum()}


def rate(step, warm=2):
    step = step + 1
    return warm ** 0.5 * min(step ** -0.5, step * warm ** -1.5)


def build_optimizer(model):
    return paddle.optimizer.AdamW(
        learning_rate=paddle.optimizer.lr.LambdaDecay(3e-3, rate), beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.01,
        parameters=model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def features(path):
    a = np.log1p(np.load(path))
    return (a - a.mean()) / (a.std(ddof=1) + 1e-5)


class Corpus(paddle.io.Dataset):
    def __init__(self, part):
        lines = open(os.path.join(DATA, "manifest.jsonl")).read().splitlines()
        self.rows = [(r["file"], r["text"]) for r in (json.loads(l) for l in lines) if r["split"] == part]

    def __getitem__(self, i):
        name, text = self.rows[i]
        return features(os.path.join(DATA, name)), np.array([INDEX[c] for c in text], "int64")

    def __len__(self):
        return len(self.rows)


build_dataset = Corpus


@paddle.no_grad()
def predict(path, model):
    a = paddle.to_tensor(features(path), dtype=model.out.weight.dtype)
    scores, steps = model(a.unsqueeze(0), paddle.to_tensor([a.shape[0]]))
    ids = collapse(scores.argmax(-1)[:, 0].tolist())
    return {"text": "".join(ALPHABET[i] for i in ids), "score": scores.max(axis=-1).sum()}
