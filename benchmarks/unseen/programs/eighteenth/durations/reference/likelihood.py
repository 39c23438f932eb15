"""Cox partial likelihood (Efron), discrete hazards, ranking; concordance and Brier score."""
import torch
import torch.nn.functional as F

from .model import INTERVALS


def cox_efron(risk, time, event):
    """Mean negative log partial likelihood per event; tied events share their risk sets by Efron's rule."""
    total = risk.new_zeros(())
    shift = risk.max().detach()
    weight = (risk - shift).exp()
    for t in torch.unique(time[event > 0]):
        dead = (time == t) & (event > 0)
        at_risk, tied, count = weight[time >= t].sum(), weight[dead].sum(), int(dead.sum())
        share = torch.arange(count, dtype=risk.dtype, device=risk.device) / count
        total = total + (risk[dead] - shift).sum() - (at_risk - share * tied).log().sum()
    return -total / event.sum().clamp(min=1)


def interval_of(time):
    borders = torch.tensor(INTERVALS, dtype=time.dtype, device=time.device)
    return torch.bucketize(time, borders)


def discrete_nll(hazard, time, event):
    """Survived intervals count as zeros, the last one as the event; the censored interval counts half."""
    k = interval_of(time).unsqueeze(1)
    steps = torch.arange(hazard.shape[1], device=hazard.device)
    target = (steps == k) * event.unsqueeze(1)
    mask = (steps < k).to(hazard.dtype) + (steps == k) * torch.where(event > 0, 1.0, 0.5).to(hazard.dtype).unsqueeze(1)
    losses = F.binary_cross_entropy_with_logits(hazard, target.to(hazard.dtype), reduction="none")
    return (losses * mask).sum(dim=1).mean()


def ranking(hazard, time, event, sigma=0.2):
    """Whoever has the event first should have the higher cumulative incidence by then."""
    incidence = 1 - torch.cumprod(1 - hazard.sigmoid(), dim=1)
    at = incidence[:, interval_of(time)].t()  # at[i, j]: incidence of j at i's time
    own = at.diagonal().unsqueeze(1)
    pairs = (time.unsqueeze(1) < time.unsqueeze(0)) & (event.unsqueeze(1) > 0)
    return (torch.exp((at - own) / sigma) * pairs).sum() / pairs.sum().clamp(min=1)


def objective(outputs, target):
    time, event = target[:, 0], target[:, 1]
    cox = cox_efron(outputs["risk"], time, event)
    nll = discrete_nll(outputs["hazard"], time, event)
    rank = ranking(outputs["hazard"], time, event)
    return {"loss": cox + 0.5 * nll + 0.2 * rank, "cox": cox.detach(), "nll": nll.detach(), "rank": rank.detach()}


def concordance(risk, time, event):
    """Harrell's index; an event and a censoring at one time are comparable, two events are not."""
    first = (event.unsqueeze(1) > 0) & ((time.unsqueeze(1) < time) | ((time.unsqueeze(1) == time) & (event == 0)))
    gap = risk.unsqueeze(1) - risk
    right = (first & (gap > 1e-6)).sum() + 0.5 * (first & (gap.abs() <= 1e-6)).sum()
    return right.double() / first.sum()


def censoring_survival(time, event, at, left=False):
    """Kaplan-Meier estimate of staying uncensored, at times; `left` for just before them."""
    value = torch.ones(len(at), dtype=torch.float64)
    for t in torch.unique(time[event == 0]):
        lost = ((time == t) & (event == 0)).sum()
        at_risk = (time > t).sum() + lost  # events at t have left before the censoring
        factor = 1 - lost.double() / at_risk
        value = torch.where((t < at) if left else (t <= at), value * factor, value)
    return value.clamp(min=0.05)


@torch.no_grad()
def evaluate(outputs, target):
    time, event = target[:, 0].double(), target[:, 1]
    survival = torch.cumprod(1 - outputs["hazard"].double().sigmoid(), dim=1)
    briers = []
    weight_own = 1 / censoring_survival(time, event, time, left=True)
    for k, border in enumerate(INTERVALS[:-1]):
        alive = time > border
        weight_now = 1 / censoring_survival(time, event, torch.full_like(time, border))
        s = survival[:, k]
        before = (time <= border) & (event > 0)
        briers.append((s.pow(2) * before * weight_own + (1 - s).pow(2) * alive * weight_now).mean())
    widths = torch.diff(torch.tensor(INTERVALS[:-1], dtype=torch.float64))
    b = torch.stack(briers)
    return {"concordance": concordance(outputs["risk"], time, event),
            "integrated_brier": ((b[1:] + b[:-1]) / 2 * widths).sum() / widths.sum()}
