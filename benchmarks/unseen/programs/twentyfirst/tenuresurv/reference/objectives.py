import torch
import torch.nn.functional as F


def efron(risk, time, event):
    """Negative partial log likelihood with Efron's treatment of ties, per event."""
    shift = risk.detach().max()
    weight = (risk - shift).exp()
    total = risk.new_zeros(())
    for t in torch.unique(time[event > 0]):
        dying = (time == t) & (event > 0)
        d = int(dying.sum())
        at_risk = weight[time >= t].sum()
        tied = weight[dying].sum()
        share = torch.arange(d, dtype=risk.dtype, device=risk.device) / d
        total = total + (risk[dying] - shift).sum() - (at_risk - share * tied).log().sum()
    return -total / event.sum().clamp(min=1)


def discrete_hazard(logits, time, event, edges):
    """Each interval that was lived through counts; of the last one only whether it ended in leaving."""
    edges = torch.as_tensor(edges, dtype=time.dtype, device=time.device)
    interval = torch.bucketize(time.contiguous(), edges)
    steps = torch.arange(logits.shape[1], device=time.device)
    known = steps < interval[:, None]
    ends = (steps == interval[:, None]) & (event > 0)[:, None]
    cell = F.binary_cross_entropy_with_logits(logits, ends.to(logits.dtype), reduction="none")
    return (cell * (known | ends)).sum(1).mean()


def tenure_loss(outputs, labels, cfg):
    time, event = labels[:, 0], labels[:, 1]
    partial = efron(outputs["risk"], time, event)
    hazard = discrete_hazard(outputs["hazard"], time, event, cfg.edges)
    centre = outputs["risk"].mean().square()
    return {"loss": partial + cfg.hazard_weight * hazard + cfg.centre_weight * centre,
            "partial": partial, "hazard": hazard}
