import numpy as np
import paddle
import paddle.nn.functional as F

from .plugin import part


@part("criterion", "focal_severity")
def focal_severity(seen, focus, beta, knot, severity):
    """``seen``: how often each class occurs in the training set."""
    rare = (1.0 - beta) / (1.0 - np.power(beta, np.maximum(seen, 1)))
    rare = rare / rare.mean()

    def huber(gap):
        gap = gap.abs()
        return paddle.where(gap < knot, 0.5 * gap * gap / knot, gap - 0.5 * knot)

    def measure(outputs, labels):
        logits, wanted = outputs["fault"], labels["fault"].astype("int64")
        chosen = F.one_hot(wanted, logits.shape[-1]).astype(logits.dtype)
        logp = (F.log_softmax(logits, axis=-1) * chosen).sum(axis=-1)
        weight = paddle.to_tensor(rare, dtype=logits.dtype)[wanted]
        focal = -weight * (1.0 - logp.exp()).pow(focus) * logp
        faulty = (wanted > 0).astype(logits.dtype)
        gaps = huber(outputs["severity"] - labels["severity"].astype(logits.dtype)) * faulty
        gaps = gaps.sum() / faulty.sum().clip(min=1.0)
        return {"loss": focal.sum() / weight.sum() + severity * gaps, "focal": focal.mean(), "severity": gaps}

    return measure
