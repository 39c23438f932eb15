import math

import torch
import torch.nn as nn

from .modules import Conv2dZeros, FlowStep, Split2d
from .utils import gaussian_logp, squeeze2d


class Glow(nn.Module):
    def __init__(self, args, channels=1, classes=10):
        super().__init__()
        self.alpha = args.alpha
        self.levels, self.splits = nn.ModuleList(), nn.ModuleList()
        c = channels
        for i in range(args.levels):
            c *= 4
            self.levels.append(nn.ModuleList([FlowStep(c, args.hidden) for _ in range(args.depth)]))
            if i < args.levels - 1:
                self.splits.append(Split2d(c))
                c //= 2
        self.learn_top = Conv2dZeros(2 * c, 2 * c)
        self.project_class = nn.Linear(c, classes)
        nn.init.normal_(self.project_class.weight, 0.0, 0.1)
        nn.init.zeros_(self.project_class.bias)

    def logit(self, x):
        x = self.alpha + (1 - 2 * self.alpha) * x
        logdet = math.log(1 - 2 * self.alpha) - torch.log(x) - torch.log1p(-x)
        return torch.log(x) - torch.log1p(-x), logdet.flatten(1).sum(1)

    def forward(self, x):
        x, logdet = self.logit(x)
        logp = torch.zeros_like(logdet)
        latents = []
        for i, level in enumerate(self.levels):
            x = squeeze2d(x)
            for step in level:
                x, logdet = step(x, logdet)
            if i < len(self.splits):
                x, z, logp = self.splits[i](x, logp)
                latents.append(z.flatten(1))
        mean, logs = self.learn_top(x.new_zeros(1, 2 * x.size(1), x.size(2), x.size(3))).chunk(2, 1)
        logp = logp + gaussian_logp(x, mean, logs).flatten(1).sum(1)
        latents.append(x.flatten(1))
        return {"z": torch.cat(latents, 1), "logdet": logdet, "logp": logp, "class_logits": self.project_class(x.mean((2, 3)))}
