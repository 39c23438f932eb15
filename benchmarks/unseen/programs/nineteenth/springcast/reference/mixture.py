import torch
import torch.nn.functional as F


def split(labels):
    return labels[..., :2], labels[..., 2]


def mixture_nll(out, labels, wta=0.5):
    """Laplace mixture over whole paths, per valid step, mean of the agents that have one; and the best mode's Huber loss."""
    truth, valid = split(labels)
    err = truth.unsqueeze(2) - out["mean"]
    log_p = (-torch.log(2 * out["scale"]) - err.abs() / out["scale"]).sum(-1)
    path = (log_p * valid.unsqueeze(2)).sum(-1)
    steps = valid.sum(-1)
    nll = -torch.logsumexp(F.log_softmax(out["logit"], -1) + path, -1) / steps.clamp(min=1)
    has = (steps > 0).to(nll.dtype)
    agents = has.sum().clamp(min=1)
    nll = (nll * has).sum() / agents
    dist = (err.norm(dim=-1).detach() * valid.unsqueeze(2)).sum(-1)
    best = dist.argmin(-1)[:, :, None, None, None].expand(-1, -1, 1, *err.shape[3:])
    chosen = out["mean"].gather(2, best).squeeze(2)
    huber = F.smooth_l1_loss(chosen, truth, beta=0.1, reduction="none").sum(-1)
    huber = (huber * valid).sum() / valid.sum().clamp(min=1)
    return {"loss": nll + wta * huber, "nll": nll, "huber": huber}


def displacement_metrics(out, labels, miss=0.4):
    """minADE, minFDE, misses and Brier-minFDE, of agents with a future; the last step is the last valid one."""
    truth, valid = split(labels)
    valid = valid > 0.5
    has = valid.any(-1)
    d = (out["mean"] - truth.unsqueeze(2)).norm(dim=-1).double()
    steps = valid.sum(-1)
    ade = (d * valid.unsqueeze(2)).sum(-1) / steps.clamp(min=1).unsqueeze(-1)
    index = torch.arange(valid.shape[-1], device=valid.device)
    last = torch.where(valid, index, -1).amax(-1).clamp(min=0)
    fde = d.gather(3, last[:, :, None, None].expand(-1, -1, d.shape[2], 1)).squeeze(-1)
    min_fde, k = fde.min(-1)
    p = torch.softmax(out["logit"].double(), -1).gather(2, k.unsqueeze(-1)).squeeze(-1)
    mean = lambda x: x[has].double().mean()
    return {"minADE": mean(ade.amin(-1)), "minFDE": mean(min_fde), "miss": mean(min_fde > miss), "brier_minFDE": mean(min_fde + (1 - p) ** 2)}
