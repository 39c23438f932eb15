import torch
from torch.nn import functional as F


def field_loss(outputs, labels, cfg):
    sizes = labels["sizes"].to(outputs["energy"].dtype)
    energy = F.huber_loss(
        outputs["energy"] / sizes, labels["energy"] / sizes, delta=cfg.energy_delta
    )
    forces = F.huber_loss(outputs["forces"], labels["forces"], delta=cfg.force_delta)
    return cfg.energy_weight * energy + cfg.force_weight * forces


@torch.no_grad()
def field_metrics(outputs, labels, std):
    sizes = labels["sizes"].double()
    energy = (outputs["energy"] - labels["energy"]).double().abs() * std / sizes
    error = (outputs["forces"] - labels["forces"]).double() * std
    cosine = F.cosine_similarity(outputs["forces"], labels["forces"], dim=-1)
    return {
        "energy_mae": energy.mean().item(),
        "force_mae": error.abs().mean().item(),
        "force_rmse": error.pow(2).sum(dim=-1).mean().sqrt().item(),
        "force_cos": cosine.mean().item(),
    }
