import itertools

import numpy as np
import paddle
import paddle.nn.functional as F

from acoustic import Acoustic, time_mask
from frontend import SpokenLetters


def build_model():
    return Acoustic()


def build_loss():
    return ctc_with_entropy


def ctc_with_entropy(outputs, batch, beta=0.05):
    logp, lens = outputs
    per_utt = F.ctc_loss(logp.transpose([1, 0, 2]), batch["tokens"].astype("int32"), lens, batch["token_lens"],
                         blank=0, reduction="none").reshape([-1])
    ctc = (per_utt / batch["token_lens"].astype(per_utt.dtype)).mean()
    entropy = -paddle.sum(logp.exp() * logp, axis=-1)
    inside = time_mask(lens, logp.shape[1], logp.dtype)
    return ctc - beta * (entropy * inside).sum() / inside.sum()


def build_optimizer(model):
    return paddle.optimizer.Momentum(learning_rate=0.02, momentum=0.9, use_nesterov=True,
                                     weight_decay=paddle.regularizer.L2Decay(1e-3), parameters=model.parameters())


def build_scheduler(optimizer):
    scheduler = paddle.optimizer.lr.StepDecay(optimizer.get_lr(), step_size=3, gamma=1.0 / 1.1)
    optimizer.set_lr_scheduler(scheduler)
    return scheduler


def build_dataset():
    return SpokenLetters()


def inputs():
    r = np.random.RandomState(31)
    feats = r.randn(4, 36, 20).astype("float32")
    lens = np.array([36, 29, 33, 22], dtype="int64")
    feats *= (np.arange(36)[None] < lens[:, None])[..., None]
    return feats.astype("float32"), lens


def labels():
    r = np.random.RandomState(32)
    return dict(tokens=r.randint(1, 9, (4, 6)).astype("int64"), token_lens=np.array([6, 4, 5, 2], dtype="int64"))


def levenshtein(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0] = np.arange(len(a) + 1)
    table[0, :] = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            swap = table[i - 1, j - 1] + int(a[i - 1] != b[j - 1])
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, swap)
    return int(table[-1, -1])


def collapse(path):
    return [k for k, _ in itertools.groupby(path) if k != 0]


def metric(outputs, labels):
    logp, lens = (t.numpy() for t in outputs)
    edits, sizes, confidence = [], [], []
    for row, steps, tokens, count in zip(logp, lens, labels["tokens"], labels["token_lens"]):
        hypothesis = collapse(row[:steps].argmax(axis=-1).tolist())
        edits.append(levenshtein(hypothesis, tokens[:count].tolist()))
        sizes.append(int(count))
        confidence.append(row[:steps].max(axis=-1).mean())
    return {"cer": sum(edits) / sum(sizes), "ser": float(np.mean([e > 0 for e in edits])), "conf": float(np.mean(confidence))}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
