import math

import torch
from torch import nn

from .blocks import EnvFiLM
from .registry import BLOCKS, MODELS, POOLS


@MODELS.register()
class IVNet(nn.Module):
    """IV sweep of a photovoltaic string -> fault class and severity."""

    def __init__(self, stem, stages, env, pool, head, classes):
        super().__init__()
        kernel = stem["kernel"]
        self.stem = nn.Sequential(
            nn.Conv1d(stem["in_channels"], stem["channels"], kernel, padding=kernel // 2, padding_mode="replicate"),
            nn.GroupNorm(stem["groups"], stem["channels"]),
            nn.GELU(approximate="tanh"),
        )
        self.stages = nn.ModuleList([BLOCKS.build(s) for s in stages])
        width = stages[-1]["channels"]
        self.film = EnvFiLM(env["features"], env["hidden"], width)
        self.pool = POOLS.build(pool, channels=width)
        self.trunk = nn.Linear(2 * width + 1, head["hidden"])
        self.drop = nn.Dropout(head["dropout"])
        self.fault = nn.Linear(head["hidden"], classes)
        self.level = nn.Linear(head["hidden"], classes)
        self.apply(self._reset)
        nn.init.normal_(self.pool.query, std=0.2)
        nn.init.constant_(self.level.bias, -0.5)

    @staticmethod
    def _reset(module):
        if isinstance(module, nn.Conv1d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=1 / math.sqrt(module.in_features))
            nn.init.zeros_(module.bias)

    def forward(self, curve, env):
        x = self.stem(curve)
        for stage in self.stages:
            x = stage(x)
        x = self.film(x, env)
        power = nn.functional.avg_pool1d(curve[:, 1:2], 2).squeeze(1)
        pooled, knee = self.pool(x, power)
        h = self.drop(nn.functional.elu(self.trunk(torch.cat([pooled, knee.unsqueeze(1)], dim=1))))
        logits = self.fault(h)
        share = logits.softmax(dim=1).detach()
        severity = (share[:, 1:] * torch.sigmoid(self.level(h))[:, 1:]).sum(1)
        return {"fault": logits, "severity": severity, "knee": knee}
