"""What the hazards are trained by, and what they are judged by."""
import torch
import torch.nn.functional as F

from .registry import LOSSES
from .settings import CONFIG


def log_chances(odds):
    """[stay, returned, renewed, lost] of each week, as logs; staying has the odds 0."""
    return F.log_softmax(torch.cat([torch.zeros_like(odds[..., :1]), odds], dim=-1), dim=-1)


def incidence(odds):
    """The chance that an end of each kind has come by the end of each week."""
    logs = log_chances(odds)
    before = torch.cumsum(logs[..., 0], dim=1) - logs[..., 0]
    return torch.cumsum(torch.exp(before.unsqueeze(-1) + logs[..., 1:]), dim=1)


@LOSSES.register("likelihood")
def likelihood(odds, labels):
    logs = log_chances(odds)
    week, event = labels[:, 0], labels[:, 1]
    weeks = torch.arange(odds.shape[1], device=odds.device)
    stayed = (weeks < week[:, None]).to(odds.dtype)
    total = (stayed * logs[..., 0]).sum(1)
    at = logs.gather(1, week.clamp(max=odds.shape[1] - 1)[:, None, None].expand(-1, 1, 4))[:, 0]
    end = at.gather(1, event[:, None])[:, 0]
    return -(total + torch.where(event > 0, end, torch.zeros_like(end))).mean()


@LOSSES.register("ranking")
def ranking(odds, labels, sigma):
    """Of two loans the one that ended first should have had the greater chance by then."""
    by = incidence(odds)
    week, event = labels[:, 0], labels[:, 1]
    loss, count = odds.new_zeros(()), 0
    for k in range(odds.shape[2]):
        ended = (event == k + 1).nonzero()[:, 0]
        if not len(ended):
            continue
        at = by[:, week[ended], k]                       # everybody's chance by the week of each that ended
        own = at[ended, torch.arange(len(ended))]
        later = (week[:, None] > week[ended]).to(odds.dtype)
        loss = loss + (later * torch.exp((at - own) / sigma)).sum()
        count = count + later.sum()
    return loss / torch.clamp(torch.as_tensor(count, dtype=odds.dtype), min=1.0)


def total(odds, labels):
    parts = {}
    for spec in CONFIG["loss"]:
        spec = dict(spec)
        name, weight = spec.pop("type"), spec.pop("weight")
        parts[name] = weight * LOSSES[name](odds, labels, **spec)
    return {"loss": sum(parts.values()), **parts}


@torch.no_grad()
def judge(odds, labels):
    """Concordance of returns (ties count half) and the Brier score at the end of the fourth week."""
    by, week, event = incidence(odds), labels[:, 0], labels[:, 1]
    good = pairs = 0.0
    for i in range(len(week)):
        if int(event[i]) != 1:
            continue
        rest = week > week[i]
        mine, theirs = by[i, week[i], 0], by[rest, week[i], 0]
        good += float((mine > theirs).sum()) + 0.5 * float((mine == theirs).sum())
        pairs += float(rest.sum())
    known = (event > 0) | (week > 3)
    gone = ((event > 0) & (week <= 3)).to(odds.dtype)
    brier = ((by[:, 3].sum(-1) - gone) ** 2)[known].mean()
    return {"concordance": good / max(pairs, 1.0), "brier": float(brier)}
