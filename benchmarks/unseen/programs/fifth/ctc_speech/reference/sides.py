import numpy as np
import torch

from asr.data import ToySpeech
from asr.net import SpeechNet


def build_model():
    return SpeechNet()


class CTCWithConfidence(torch.nn.Module):
    """CTC plus a small penalty on over-confident frames (only frames inside the utterance)"""

    def __init__(self, beta=0.05):
        super().__init__()
        self.ctc = torch.nn.CTCLoss(blank=0, reduction="mean", zero_infinity=True)
        self.beta = beta

    def forward(self, outputs, batch):
        logp, lens = outputs
        ctc = self.ctc(logp.transpose(0, 1), batch["tokens"], lens, batch["token_lens"])
        ent = -(logp.exp() * logp).sum(-1)
        mask = (torch.arange(logp.size(1))[None] < lens[:, None]).to(logp.dtype)
        return ctc - self.beta * (ent * mask).sum() / mask.sum()


def build_loss():
    return CTCWithConfidence()


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=1 / 1.1)


def build_dataset():
    return ToySpeech()


def inputs():
    r = np.random.RandomState(31)
    x = r.randn(4, 36, 20).astype(np.float32)
    lens = np.array([36, 29, 33, 22])
    for i, n in enumerate(lens):
        x[i, n:] = 0
    return x, lens.astype(np.int64)


def labels():
    r = np.random.RandomState(32)
    return {"tokens": r.randint(1, 9, (4, 6)).astype(np.int64), "token_lens": np.array([6, 4, 5, 2], np.int64)}


def edit_distance(a, b):
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return d[-1]


def greedy(logp, n):
    best = logp[:n].argmax(-1).tolist()
    return [k for i, k in enumerate(best) if k != 0 and (i == 0 or best[i - 1] != k)]


def metric(outputs, labels):
    logp, lens = outputs
    err = total = wrong = 0
    conf = []
    for i in range(len(lens)):
        n = int(lens[i])
        hyp = greedy(logp[i], n)
        ref = labels["tokens"][i, :labels["token_lens"][i]].tolist()
        e = edit_distance(hyp, ref)
        err, total, wrong = err + e, total + len(ref), wrong + (e > 0)
        conf.append(float(logp[i, :n].max(-1).values.mean()))
    return {"cer": err / total, "ser": wrong / len(lens), "conf": float(np.mean(conf))}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
