import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader
from paddle.optimizer.lr import LRScheduler

from bert import BertConfig, RelativeBertForMaskedLM
from bert.config import SolverConfig
from bert.corpus import IGNORED, MASK, NAMES, MaskedSentences, Tokenizer, pad_collate

CORPUS = "weather.txt"
tokenizer = Tokenizer(CORPUS)
solver = SolverConfig()


def build_model():
    model = RelativeBertForMaskedLM(BertConfig(vocab_size=len(tokenizer)))
    normal = paddle.nn.initializer.Normal(0.0, 0.12)
    for layer in model.sublayers():
        if isinstance(layer, (paddle.nn.Linear, paddle.nn.Embedding)):
            normal(layer.weight)
    return model


def build_dataset(split):
    return MaskedSentences(CORPUS, tokenizer, split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=6, shuffle=False, collate_fn=pad_collate)


def masked_mean(values, mask):
    mask = mask.astype(values.dtype)
    return (values * mask).sum() / mask.sum()


def loss(outputs, labels):
    """cross entropy by hand: the ignored places take word 0 and weigh nothing"""
    mask = labels != IGNORED
    target = paddle.where(mask, labels, paddle.zeros_like(labels))
    log_prob = F.log_softmax(outputs["logits"], axis=-1)
    nll = -paddle.take_along_axis(log_prob, target.unsqueeze(-1), axis=-1).squeeze(-1)
    return masked_mean(nll, mask)


def metric(outputs, labels):
    gold = labels.numpy()
    mask = gold != IGNORED
    logits = outputs["logits"].numpy()[mask].astype("float64")
    gold = gold[mask]
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :3]
    shifted = logits - logits.max(-1, keepdims=True)
    log_z = np.log(np.exp(shifted).sum(-1))
    nll = log_z - shifted[np.arange(len(gold)), gold]
    return {
        "acc": float(np.mean(order[:, 0] == gold)),
        "acc3": float(np.mean((order == gold[:, None]).any(1))),
        "ppl": float(np.exp(min(nll.mean(), 20.0))),
    }


class WarmupLinear(LRScheduler):
    def __init__(self, peak, warmup, total, floor, last_epoch=-1):
        self.warmup, self.total, self.floor = warmup, total, floor
        super().__init__(learning_rate=peak, last_epoch=last_epoch)

    def get_lr(self):
        done = self.last_epoch
        if done < self.warmup:
            factor = (done + 1) / self.warmup
        else:
            factor = max(self.floor, (self.total - done) / (self.total - self.warmup))
        return self.base_lr * factor


def without_decay(model):
    """names of biases, norms and the position table"""
    names = {p.name for p in model.parameters() if len(p.shape) < 2}
    names.add(model.position.table.weight.name)
    return names


def build_optimizer(model):
    exempt = without_decay(model)
    schedule = WarmupLinear(solver.rate, solver.warmup_steps, solver.total_steps, solver.floor)
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        beta1=solver.beta1,
        beta2=solver.beta2,
        epsilon=solver.epsilon,
        parameters=model.parameters(),
        weight_decay=solver.decay,
        apply_decay_param_fun=lambda name: name not in exempt,
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    with open(path) as f:
        ids, types = tokenizer(f.read().split())
    with paddle.no_grad():
        logits = model(paddle.to_tensor(ids).unsqueeze(0), paddle.to_tensor(types).unsqueeze(0))["logits"]
    rows = logits[0].numpy()[ids == MASK]
    rows[:, :len(NAMES)] = -np.inf
    exp = np.exp(rows - rows.max(axis=1, keepdims=True))
    prob = exp / exp.sum(axis=1, keepdims=True)
    best = np.argsort(-prob, axis=1, kind="stable")[:, :5]
    return {"words": [[tokenizer.itos[j] for j in row] for row in best], "prob": np.take_along_axis(prob, best, axis=1)}
