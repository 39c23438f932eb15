import torch
import torch.nn.functional as F


class ForecastLoss:
    """Pinball loss that trusts near steps more, and a Huber loss on the slope of the median."""

    def __init__(self, cfg):
        self.cfg = cfg

    def pinball(self, forecast, target, seen):
        levels = forecast.new_tensor(self.cfg.quantiles)
        error = target.unsqueeze(-1) - forecast
        each = torch.maximum(levels * error, (levels - 1) * error).sum(-1)
        weight = self.cfg.horizon_decay ** torch.arange(each.shape[1], dtype=each.dtype)
        weight = weight / weight.mean()
        weight = weight[None, :, None] * seen
        return (each * weight).sum() / weight.sum().clamp(min=1.0)

    def slope(self, forecast, target, seen):
        both = seen[:, 1:] * seen[:, :-1]
        each = F.huber_loss(forecast.diff(dim=1), target.diff(dim=1), reduction="none", delta=self.cfg.slope_delta)
        return (each * both).sum() / both.sum().clamp(min=1.0)

    def __call__(self, forecast, target):
        target = target.to(forecast.dtype)
        hole = torch.isnan(target)
        seen = (~hole).to(forecast.dtype)
        target = target.masked_fill(hole, 0.0)
        pinball = self.pinball(forecast, target, seen)
        slope = self.slope(forecast[..., 1], target, seen)
        return {"loss": pinball + self.cfg.slope_weight * slope, "pinball": pinball, "slope": slope}


def evaluate(forecast, target, quantiles):
    """Weighted quantile loss, normalised deviation, RMSE, and how many values the outer quantiles cover."""
    forecast = forecast.detach().double()
    target = target.detach().double()
    seen = ~torch.isnan(target)
    y, f = target[seen], forecast[seen]
    level = torch.tensor(quantiles, dtype=torch.float64)
    error = y[:, None] - f
    loss = 2 * torch.where(error >= 0, level * error, (level - 1) * error)
    size = y.abs().sum()
    return {
        "wql": (loss.sum(0) / size).mean().item(),
        "nd": ((y - f[:, 1]).abs().sum() / size).item(),
        "rmse": (y - f[:, 1]).square().mean().sqrt().item(),
        "coverage": ((y >= f[:, 0]) & (y <= f[:, 2])).double().mean().item(),
    }
