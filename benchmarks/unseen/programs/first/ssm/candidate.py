import numpy as np
import paddle
import paddle.nn.functional as F

from mamba import MambaConfig, MambaLM
from schedule import warmup_cosine


def build_model():
    return MambaLM(MambaConfig(vocab=23, width=10, layers=2))


def loss(out, labels):
    logits, target = out["logits"][:, :-1, :], labels[:, 1:]
    valid = (target >= 0).astype(logits.dtype)
    safe = target.clip(min=0)
    each = F.cross_entropy(logits, safe.unsqueeze(-1), reduction="none").squeeze(-1)
    return (each * valid).sum() / valid.sum()


def metric(out, labels):
    logits, target = out["logits"][:, :-1].numpy().astype("float64"), labels[:, 1:].numpy()
    rows = target != -100
    logits, target = logits[rows], target[rows]
    shifted = logits - logits.max(axis=1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    nll = -logp[np.arange(len(target)), target]
    best = np.argsort(-logits, axis=1, kind="stable")[:, :5]
    return {"ppl": float(np.exp(nll.mean())), "top5": float((best == target[:, None]).any(axis=1).mean())}


def build_optimizer(model):
    undecayed = {n for n, p in model.named_parameters() if len(p.shape) == 1 or n.endswith("log_a")}
    names = {p.name: n for n, p in model.named_parameters()}
    return paddle.optimizer.AdamW(
        learning_rate=warmup_cosine(4e-3, warmup=4, total=12, lowest=4e-4),
        beta1=0.9,
        beta2=0.95,
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: names[name] not in undecayed,
        parameters=model.parameters(),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate
