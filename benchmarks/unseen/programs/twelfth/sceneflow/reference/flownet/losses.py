import torch
from torch import nn

from .config import CONFIG
from .pointops import gather_points, knn, square_distance


class ChamferLoss(nn.Module):
    """Robust two-sided distance; only points with a true counterpart count on the forward side."""

    def __init__(self, delta=0.3):
        super().__init__()
        self.delta = delta

    def robust(self, d):
        return torch.sqrt(d + self.delta ** 2) - self.delta

    def forward(self, warped, target, valid):
        d = square_distance(warped, target).clamp(min=0)
        forward = self.robust(d.min(2)[0])
        backward = self.robust(d.min(1)[0])
        forward = (forward * valid).sum(1) / valid.sum(1)
        return (forward + backward.mean(1)).mean()


class SmoothnessLoss(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, xyz, flow):
        index = knn(self.k + 1, xyz, xyz)[..., 1:]           # without the point itself
        offset = gather_points(flow, index) - flow.unsqueeze(2)
        return offset.abs().sum(-1).mean()


class FlowLoss(nn.Module):
    def __init__(self, cfg=CONFIG.train):
        super().__init__()
        self.cfg = cfg
        self.chamfer = ChamferLoss()
        self.smooth = SmoothnessLoss(cfg.smooth_neighbours)

    def supervised(self, flow, true, valid):
        error = ((flow - true) ** 2).sum(-1).add(1e-4).sqrt()
        return (error * valid).sum() / valid.sum()

    def forward(self, outputs, labels):
        source, target = labels["source"][..., :3], labels["target"][..., :3]
        valid, true = labels["valid"], labels["flow"]
        fine, coarse = self.cfg.level_weights
        sup = fine * self.supervised(outputs["flow"], true, valid)
        sup = sup + coarse * self.supervised(outputs["coarse"], true, valid)
        cham = self.chamfer(source + outputs["flow"], target, valid)
        smooth = self.smooth(source, outputs["flow"])
        total = sup + self.cfg.chamfer * cham + self.cfg.smooth * smooth
        return {"loss": total, "supervised": sup, "chamfer": cham, "smooth": smooth}
