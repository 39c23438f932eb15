import torch
import torch.nn.functional as F


def forecast_loss(pred, true, beta, decay, grad_weight):
    """Smooth L1 whose weight falls along the horizon, plus the slope's error."""
    horizon = pred.size(1)
    weight = decay ** torch.arange(horizon, dtype=pred.dtype, device=pred.device)
    weight = weight / weight.sum()
    point = F.smooth_l1_loss(pred, true, beta=beta, reduction="none").mean(-1)
    point = (point * weight).sum(1).mean()
    slope = F.l1_loss(pred.diff(dim=1), true.diff(dim=1))
    return point + grad_weight * slope


@torch.no_grad()
def forecast_metrics(pred, true):
    err = pred - true
    rse = err.pow(2).sum().sqrt() / (true - true.mean()).pow(2).sum().sqrt()
    smape = 200 * (err.abs() / (pred.abs() + true.abs() + 1e-8)).mean()
    p = pred - pred.mean(0)
    t = true - true.mean(0)
    corr = ((p * t).sum(0) / ((p * p).sum(0) * (t * t).sum(0) + 1e-12).sqrt()).mean()
    return {"mse": err.pow(2).mean(), "mae": err.abs().mean(), "rse": rse, "smape": smape, "corr": corr}
