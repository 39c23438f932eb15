import torch
from torch.distributions import StudentT


def pinball(quantiles, values, levels):
    """[B, H, Q]"""
    error = values[..., None] - quantiles
    levels = quantiles.new_tensor(levels)
    return torch.maximum(levels * error, (levels - 1) * error)


def forecast_loss(cfg, outputs, labels):
    labels = labels.to(outputs["loc"].dtype)
    values, observed = labels.unbind(-1)
    count = observed.sum().clamp(min=1)
    log_prob = StudentT(outputs["df"], outputs["loc"], outputs["scale"]).log_prob(values)
    nll = -(log_prob * observed).sum() / count
    quantile = (pinball(outputs["quantiles"], values, cfg.model.quantiles).sum(-1) * observed).sum() / count
    kl = outputs["kl"].mean().clamp(min=cfg.loss.free_bits)
    loss = nll + cfg.loss.quantile_weight * quantile + cfg.loss.kl_weight * kl
    return {"loss": loss, "nll": nll, "quantile": quantile, "kl": kl}


@torch.no_grad()
def scores(cfg, outputs, labels):
    values, observed = labels.to(outputs["loc"].dtype).unbind(-1)
    seen = observed > 0
    q = outputs["quantiles"]
    y = values[seen]
    median = q[..., cfg.model.quantiles.index(0.5)][seen]
    low, high = q[..., 0][seen], q[..., -1][seen]
    return {
        "crps": 2 * pinball(q, values, cfg.model.quantiles).mean(-1)[seen].mean().item(),
        "wmape": ((y - median).abs().sum() / y.abs().sum()).item(),
        "rmse": ((y - outputs["loc"][seen]) ** 2).mean().sqrt().item(),
        "coverage": ((y >= low) & (y <= high)).double().mean().item(),
        "width": (high - low).mean().item(),
    }
