"""Weighted MSE of the maps with hard joints counted twice, and a wing loss of the places."""
import math

import torch

from .registry import LOSSES


def wing(difference, width, curvature):
    """Logarithmic near zero, linear from `width` on."""
    size = difference.abs()
    offset = width - width * math.log(1 + width / curvature)
    return torch.where(size < width, width * torch.log1p(size / curvature), size - offset)


@LOSSES.register
class HeatmapAndWing:
    def __init__(self, hard, hard_share, width, curvature, wing_share):
        self.hard, self.hard_share = hard, hard_share
        self.width, self.curvature, self.wing_share = width, curvature, wing_share

    def __call__(self, outputs, labels):
        weights = labels["weights"]
        error = (outputs["heatmaps"] - labels["heatmaps"]).square().mean(dim=(2, 3)) * weights
        all_joints = error.sum() / weights.sum().clamp(min=1e-6)
        hard_joints = error.topk(self.hard, dim=1).values.mean()
        maps = (1 - self.hard_share) * all_joints + self.hard_share * hard_joints
        distance = wing(outputs["joints"] - labels["joints"], self.width, self.curvature).sum(dim=-1)
        places = (distance * weights).sum() / weights.sum().clamp(min=1e-6)
        return {"loss": maps + self.wing_share * places, "maps": maps, "places": places}
