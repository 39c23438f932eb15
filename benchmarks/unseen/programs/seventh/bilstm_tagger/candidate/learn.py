import paddle
import paddle.nn.functional as F

from .corpus import IGNORED

RARE, COMMON = 1.0, 0.4
RATE, WARMUP = 4e-3, 5


def masked_cross_entropy(logits, tags):
    kept = tags != IGNORED
    target = paddle.where(kept, tags, paddle.zeros_like(tags))
    nll = F.cross_entropy(logits, target.unsqueeze(-1), reduction="none").squeeze(-1)
    weight = paddle.where(target == 0, paddle.full_like(nll, COMMON), paddle.full_like(nll, RARE)) * kept.astype(nll.dtype)
    return (nll * weight).sum() / weight.sum()


def noam(step):
    step += 1
    return step / WARMUP if step <= WARMUP else (WARMUP / step) ** 0.5


def adamw(net):
    matrices = {p.name for p in net.parameters() if p.ndim >= 2}
    return paddle.optimizer.AdamW(
        learning_rate=paddle.optimizer.lr.LambdaDecay(RATE, noam),
        beta1=0.9, beta2=0.98, epsilon=1e-9,
        parameters=net.parameters(),
        weight_decay=0.05,
        apply_decay_param_fun=lambda name: name in matrices,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )
