"""Figures that beekeepers read."""
import torch

from .photos import normalize, read_photo


def errors(outputs, target):
    mine, right = outputs[:, 0], target[:, 0]
    gap = mine.sum(dim=(1, 2)) - right.sum(dim=(1, 2))
    quarters = 0.0
    for half in (mine - right).chunk(2, dim=1):
        for quarter in half.chunk(2, dim=2):
            quarters = quarters + quarter.sum(dim=(1, 2)).abs()
    found = outputs[:, 1] > 0
    truth = target[:, 1] > 0.5
    overlap = (found & truth).sum() / (found | truth).sum().clamp(min=1)
    return {"mae": gap.abs().mean(), "rmse": gap.pow(2).mean().sqrt(), "game": quarters.mean(), "iou": overlap}


@torch.no_grad()
def count_photo(path, model, zones=4):
    """Bees on the photograph, seen as it is and mirrored, in all and for each zone from left to right."""
    image = normalize(read_photo(path)).unsqueeze(0).to(next(model.parameters()).dtype)
    straight = model(image)
    mirrored = model(image.flip(-1)).flip(-1)
    both = (straight + mirrored) / 2
    density = both[0, 0] * (torch.sigmoid(both[0, 1]) > 0.2)
    per_zone = torch.stack([zone.sum() for zone in density.chunk(zones, dim=1)])
    return {"count": both[0, 0].sum().item(), "zones": per_zone.numpy()}
