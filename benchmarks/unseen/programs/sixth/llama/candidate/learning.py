import math

import paddle
import paddle.nn.functional as F

from .corpus import SKIP


def objective(scores, wanted, z=1e-3):
    scored = (wanted != SKIP).astype(scores.dtype)
    log_z = paddle.logsumexp(scores, axis=-1)
    picked = paddle.take_along_axis(scores, wanted.clip(min=0).unsqueeze(-1), axis=-1).squeeze(-1)
    each = (log_z - picked) + z * log_z * log_z
    return (each * scored).sum() / scored.sum()


@paddle.no_grad()
def evaluate(scores, wanted):
    scores = scores.reshape([-1, scores.shape[-1]])
    wanted = wanted.flatten()
    rows = paddle.nonzero(wanted != SKIP).flatten()
    scores, wanted = scores.index_select(rows), wanted.index_select(rows)
    surprise = F.cross_entropy(scores, wanted)
    best = paddle.topk(scores, 5, axis=-1)[1]
    hits = (best == wanted.unsqueeze(-1)).astype(scores.dtype)
    return {
        "perplexity": paddle.exp(surprise),
        "bits_per_byte": surprise / math.log(2.0),
        "accuracy": hits[:, 0].mean(),
        "top5": hits.sum(axis=-1).mean(),
    }


class WarmCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, warmup, steps, floor, last_epoch=-1):
        self.warmup, self.steps, self.floor = warmup, steps, floor
        super().__init__(peak, last_epoch)

    def get_lr(self):
        step = self.last_epoch
        if step < self.warmup:
            return self.base_lr * (step + 1) / self.warmup
        share = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        low = self.base_lr * self.floor
        return low + (self.base_lr - low) * (1 + math.cos(math.pi * share)) / 2


def optimizer_for(decoder, peak=3e-3, decay=0.1):
    matrices = {p.name for p in decoder.parameters() if len(p.shape) > 1}
    return paddle.optimizer.AdamW(
        learning_rate=WarmCosine(peak, warmup=3, steps=60, floor=0.1),
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        parameters=decoder.parameters(),
        weight_decay=decay,
        apply_decay_param_fun=lambda name: name in matrices,
    )
