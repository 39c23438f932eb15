"""Criterion, scores, optimizer."""
import paddle
import paddle.nn.functional as F


def smoothed_nll(logits, gold, smoothing, pad):
    size = logits.shape[-1]
    logp = F.log_softmax(logits, axis=-1)
    right = paddle.take_along_axis(logp, gold.unsqueeze(-1), axis=-1).squeeze(-1)
    others = logp.sum(-1) - right - logp[:, :, pad]
    mask = (gold != pad).astype(logp.dtype)
    per_token = -(1.0 - smoothing) * right - smoothing / (size - 2) * others
    return (per_token * mask).sum() / mask.sum()


def report(logits, gold, pad):
    mask = (gold != pad).astype(logits.dtype)
    hit = (logits.argmax(-1) == gold).astype(logits.dtype) * mask
    nll = F.cross_entropy(logits, gold, ignore_index=pad, reduction="sum")
    return {
        "symbols": hit.sum() / mask.sum(),
        "dates": (hit.sum(1) == mask.sum(1)).astype("float32").mean(),
        "perplexity": paddle.exp(nll / mask.sum()),
    }


class InverseRoot(paddle.optimizer.lr.LRScheduler):
    """The schedule of 'Attention is all you need'; paddle's NoamDecay begins with a rate of zero, this one does not."""

    def __init__(self, width, factor, warmup):
        self.peak = factor / (width * warmup) ** 0.5
        self.warmup = warmup
        super().__init__(learning_rate=1.0)

    def get_lr(self):
        n = self.last_epoch + 1
        if n < self.warmup:
            return self.peak * n / self.warmup
        return self.peak * (self.warmup / n) ** 0.5


def adam(net, width, beta1, beta2, eps, factor, warmup, clip):
    return paddle.optimizer.Adam(
        learning_rate=InverseRoot(width, factor, warmup),
        beta1=beta1,
        beta2=beta2,
        epsilon=eps,
        parameters=net.parameters(),
        grad_clip=paddle.nn.ClipGradByGlobalNorm(clip),
    )
