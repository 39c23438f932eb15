"""Translation with additive attention, ported to PaddlePaddle."""
import numpy as np
import paddle
import paddle.nn.functional as F

from translation import text
from translation.network import Seq2Seq
from translation.options import opt
from translation.search import translate

build_dataset = text.Bitext
build_dataloader = text.loader


def build_model():
    return Seq2Seq()


def coverage_penalty(attn, keep):
    before = paddle.cumsum(attn, axis=1) - attn
    overlap = paddle.minimum(attn, before).sum(axis=-1)
    return (overlap * keep).sum()


def loss(outputs, labels):
    logits = outputs["logits"]
    n = logits.shape[-1]
    keep = (labels != text.PAD).astype(logits.dtype)
    target = F.one_hot(labels, n).astype(logits.dtype)
    target = (1.0 - opt.smoothing) * target + opt.smoothing / n
    token = F.cross_entropy(logits, target, soft_label=True, reduction="none").squeeze(-1)
    return ((token * keep).sum() + opt.coverage * coverage_penalty(outputs["attn"], keep)) / keep.sum()


def metric(outputs, labels):
    logits = outputs["logits"].numpy().astype("float64")
    gold = labels.numpy()
    keep = gold != text.PAD
    order = np.argsort(-logits, axis=-1)[..., :5]
    hit = order[..., 0] == gold
    logp = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
    nll = -np.take_along_axis(logp, gold[..., None], axis=-1)[..., 0]
    return {
        "accuracy": hit[keep].mean(),
        "ppl": np.exp(nll[keep].mean()),
        "exact": np.mean([h[k].all() for h, k in zip(hit, keep)]),
        "top5": (order == gold[..., None]).any(-1)[keep].mean(),
    }


class Noam(paddle.optimizer.lr.LRScheduler):
    def __init__(self, width, factor, warmup):
        self.scale, self.warmup = factor / width ** 0.5, warmup
        super().__init__(learning_rate=1.0)

    def get_lr(self):
        n = self.last_epoch + 1
        return self.scale * (n / self.warmup ** 1.5 if n < self.warmup else n ** -0.5)


def build_optimizer(model):
    rate = Noam(opt.hidden, opt.factor, opt.warmup)
    beta1, beta2 = opt.betas
    return paddle.optimizer.Adam(rate, beta1=beta1, beta2=beta2, epsilon=opt.eps, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    batch = dict(batch)
    labels = batch.pop("labels")
    value = loss(model(**batch), labels)
    value.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), max_norm=opt.clip)
    optimizer.step()
    optimizer.clear_grad()
    return value


def predict(path, model):
    with open(path, encoding="utf-8") as handle:
        pairs = [translate(model, text.source_ids(line)) for line in handle]
    return {
        "text": [" ".join(text.french.words[i] for i in ids) for ids, _ in pairs],
        "ids": [ids for ids, _ in pairs],
        "scores": [float(score) for _, score in pairs],
    }
