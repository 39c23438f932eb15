import math

import paddle
import paddle.nn.functional as F

from .digits import GREYS


def code_length(out):
    """Bits a pixel."""
    nats = -(out["logp"] + out["logdet"]) / out["z"].shape[1] + math.log(GREYS)
    return nats / math.log(2.0)


def objective(out, kinds, share=0.1):
    nll = code_length(out).mean()
    classes = F.cross_entropy(out["class_logits"], kinds)
    return {"loss": nll + share * classes, "nll": nll, "classes": classes}


def adam(flow):
    rate = paddle.optimizer.lr.CosineAnnealingDecay(2e-3, T_max=12, eta_min=1e-4)
    return paddle.optimizer.Adam(rate, beta1=0.9, beta2=0.99, parameters=flow.parameters(), weight_decay=1e-3, grad_clip=paddle.nn.ClipGradByValue(0.05))
