import torch
import torch.nn.functional as F


class UncertaintyLoss:
    def __init__(self, beta):
        self.beta = beta

    def __call__(self, out, target):
        ce = F.cross_entropy(out["speed"], target["speed"])
        err = F.smooth_l1_loss(out["price"], target["price"], beta=self.beta, reduction="none")
        mask = target["priced"]
        reg = (err * mask).sum() / mask.sum().clamp(min=1.0)
        s_cls, s_reg = out["log_vars"]
        return torch.exp(-s_cls) * ce + 0.5 * torch.exp(-s_reg) * reg + 0.5 * (s_cls + s_reg)


def listing_metrics(out, target, price_std):
    pred = out["speed"].argmax(-1)
    classes = target["speed"].unique()
    recalls = [(pred[target["speed"] == c] == c).float().mean() for c in classes]
    on = target["priced"] > 0.5
    err = out["price"][on] - target["price"][on]
    spread = target["price"][on] - target["price"][on].mean()
    return {
        "accuracy": (pred == target["speed"]).float().mean().item(),
        "balanced_accuracy": torch.stack(recalls).mean().item(),
        "log_price_mae": err.abs().mean().item() * price_std,
        "r2": 1.0 - (err.pow(2).sum() / spread.pow(2).sum()).item(),
    }
