import json
import math
import pathlib

import numpy as np
import paddle
import paddle.nn.functional as F

from modeling import CausalLM

PROMPTS = pathlib.Path(__file__).resolve().parent / "prompts"


def build_model():
    return CausalLM()


def token_nll(logits, target):
    """negative log likelihood and weight of each position"""
    w = (target != -100).astype(logits.dtype)
    safe = paddle.where(target == -100, paddle.zeros_like(target), target)
    lp = F.log_softmax(logits, axis=-1)
    return -paddle.take_along_axis(lp, safe.unsqueeze(-1), axis=-1).squeeze(-1), w


def loss(outputs, labels):
    nll, w = token_nll(outputs, labels)
    return (nll * w).sum() / w.sum()


def metric(outputs, labels):
    nll, w = token_nll(outputs, labels)
    best = paddle.topk(outputs, 5, axis=-1)[1]
    hit = (best == labels.unsqueeze(-1)).any(axis=-1).astype(w.dtype)
    return {"perplexity": math.exp(float((nll * w).sum() / w.sum())), "top5": float((hit * w).sum() / w.sum())}


def schedule(step):
    if step < 2:
        return (step + 1) / 3
    return 0.1 + 0.45 * (1 + math.cos((step - 2) / 8 * math.pi))


def build_optimizer(model):
    keep = {p.name for p in model.parameters() if p.ndim > 1}
    return paddle.optimizer.AdamW(
        learning_rate=paddle.optimizer.lr.LambdaDecay(1e-3, schedule), beta2=0.95, weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in keep, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


class CharBlocks(paddle.io.Dataset):
    def __init__(self, part, length=12):
        text = (PROMPTS / "corpus.txt").read_text()
        table = {c: i for i, c in enumerate(sorted(set(text)), start=1)}
        ids = np.array([table[c] for c in text], dtype="int64")
        n = int(len(ids) * 0.8)
        ids = ids[:n] if part == "train" else ids[n:]
        count = (len(ids) - 1) // length
        self.x = ids[:count * length].reshape(count, length)
        self.y = ids[1:count * length + 1].reshape(count, length)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def __len__(self):
        return len(self.x)


def build_dataset(split):
    return CharBlocks(split)


def predict(path, model):
    req = json.loads(pathlib.Path(path).read_text())
    ids, last = model.greedy(paddle.to_tensor([req["ids"]], dtype="int64"), req["max_new_tokens"])
    return {"ids": ids, "last": last}
