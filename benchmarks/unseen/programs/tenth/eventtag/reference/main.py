"""Entry points of the original."""
import torch
import torch.nn.functional as F

from .corpus import Clips, loader
from .net import Tagger
from .settings import S


def build_model():
    return Tagger()


def build_dataset(split):
    return Clips(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    known = labels >= 0
    target = labels.clamp(min=0)
    weight = torch.tensor(S.loss.pos_weight, dtype=outputs["frame"].dtype, device=labels.device)
    each = F.binary_cross_entropy_with_logits(outputs["frame"], target, pos_weight=weight, reduction="none")
    frame = (each * known).sum() / known.sum().clamp(min=1)
    present = target.amax(dim=1)
    clip = F.binary_cross_entropy(outputs["clip"].clamp(1e-6, 1 - 1e-6), present)
    return {"loss": frame + S.loss.clip_weight * clip, "frame": frame, "clip": clip}


def metric(outputs, labels):
    known = labels >= 0
    truth = labels > 0.5
    guess = (torch.sigmoid(outputs["frame"]) > 0.5) & known
    truth = truth & known
    tp = (guess & truth).sum().item()
    fp = (guess & ~truth).sum(-1)
    fn = (truth & ~guess).sum(-1)
    f1 = 2 * tp / max(2 * tp + fp.sum().item() + fn.sum().item(), 1)
    subs = torch.minimum(fp, fn)
    error = (subs + (fp - subs) + (fn - subs)).sum().item() / max(truth.sum().item(), 1)
    present = truth.any(1)
    precisions = []
    for c in range(present.shape[1]):
        score, pos = outputs["clip"][:, c], present[:, c]
        if not pos.any():
            continue
        above = score[None, :] >= score[pos][:, None]
        precisions.append(((above & pos).sum(1).double() / above.sum(1)).mean().item())
    return {"f1": f1, "error_rate": error, "map": sum(precisions) / max(len(precisions), 1)}


def build_optimizer(model):
    o = S.optim
    recurrent = [p for n, p in model.named_parameters() if n.startswith("rnn.")]
    others = [p for n, p in model.named_parameters() if not n.startswith("rnn.")]
    groups = [{"params": others}, {"params": recurrent, "lr": o.rate * o.recurrent_factor, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=o.rate, momentum=o.momentum, nesterov=o.nesterov, weight_decay=o.decay)


def build_scheduler(optimizer):
    o = S.optim

    def factor(step):
        if step < o.warmup:
            return (step + 1) / o.warmup
        return o.gamma ** ((step - o.warmup) // o.every)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
