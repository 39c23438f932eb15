import torch

from . import settings

CFG = settings.algorithm


def value_loss(out, cfg=CFG):
    """Expectile regression of V towards the lower of both targets."""
    u = out["target_q"] - out["v"]
    above = (u > 0).to(u.dtype)
    weight = cfg["expectile"] * above + (1 - cfg["expectile"]) * (1 - above)
    return (weight * u ** 2).mean()


def critic_loss(out, labels, cfg=CFG):
    reward, alive = labels[:, 0], 1 - labels[:, 1]
    goal = reward + cfg["gamma"] * alive * out["next_v"]
    return ((out["q"] - goal.detach().unsqueeze(-1)) ** 2).mean(0).sum()


def actor_loss(out, cfg=CFG):
    advantage = (out["target_q"] - out["v"]).detach()
    weight = torch.exp(cfg["temperature"] * advantage).clamp(max=cfg["max_weight"])
    return -(weight * out["log_prob"]).mean()


def total(out, labels):
    parts = {"value": value_loss(out), "critic": critic_loss(out, labels), "actor": actor_loss(out)}
    return {"loss": sum(parts.values()), **parts}
