import torch.nn as nn
import torch.nn.functional as F

from .layers import ConvNorm, Residual, StatsPool

NETS = {}


def register(name):
    def deco(cls):
        NETS[name] = cls
        return cls
    return deco


@register("resnet1d_se")
class ResNet1d(nn.Module):
    def __init__(self, n_mels, n_classes, widths, depths, se_ratio=4, dropout=0.0):
        super().__init__()
        self.stem = ConvNorm(n_mels, widths[0], 5)
        stages = []
        cin = widths[0]
        for i, (width, depth) in enumerate(zip(widths, depths)):
            blocks = []
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                dilation = 1 if stride == 2 else 2 ** j
                blocks.append(Residual(cin, width, stride, dilation, se_ratio))
                cin = width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.pool = StatsPool()
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(2 * cin, n_classes)
        self.apply(self._init)
        nn.init.normal_(self.head.weight, std=0.05)
        nn.init.zeros_(self.head.bias)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Conv1d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.stages(x)
        return self.head(self.drop(self.pool(x)))
