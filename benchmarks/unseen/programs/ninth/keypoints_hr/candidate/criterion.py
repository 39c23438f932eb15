import math

import paddle
from paddle import nn

from .plugins import plugin


class WingLoss(nn.Layer):
    def __init__(self, width, curvature):
        super().__init__()
        self.width = width
        self.curvature = curvature
        self.shift = width * (1.0 - math.log(1.0 + width / curvature))

    def forward(self, prediction, target):
        size = paddle.abs(prediction - target)
        near = self.width * paddle.log(1.0 + size / self.curvature)
        far = size - self.shift
        return paddle.sum(paddle.where(size < self.width, near, far), axis=-1)


@plugin("heatmap_wing")
class HeatmapWingLoss(nn.Layer):
    def __init__(self, num_hard, hard_share, wing_width, wing_curvature, wing_share):
        super().__init__()
        self.num_hard = num_hard
        self.hard_share = hard_share
        self.wing_share = wing_share
        self.wing = WingLoss(wing_width, wing_curvature)

    def map_loss(self, maps, target, weights):
        per_joint = paddle.mean((maps - target) ** 2, axis=[2, 3]) * weights
        average = self.weighted(per_joint, weights)
        hardest, _ = paddle.topk(per_joint, self.num_hard, axis=1)
        return (1.0 - self.hard_share) * average + self.hard_share * paddle.mean(hardest)

    @staticmethod
    def weighted(values, weights):
        """Sum of what is weighted already, over the sum of weights."""
        return paddle.sum(values) / paddle.clip(paddle.sum(weights), min=1e-6)

    def forward(self, outputs, labels):
        weights = labels["weights"]
        maps = self.map_loss(outputs["heatmaps"], labels["heatmaps"], weights)
        distance = self.wing(outputs["joints"], labels["joints"])
        places = self.weighted(distance * weights, weights)
        return {"loss": maps + self.wing_share * places, "maps": maps, "places": places}
