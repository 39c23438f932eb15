"""Student / teacher pair for semi-supervised digits."""
import math

import torch
import torch.nn.functional as F
from torch import nn

RAMP_UPDATES = 60


class Stage(nn.Module):
    def __init__(self, cin, cout, groups):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(groups, cout, eps=1e-4)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


class Classifier(nn.Module):
    def __init__(self, widths=(12, 24), classes=10, scale=4.0):
        super().__init__()
        self.first = Stage(1, widths[0], 3)
        self.second = Stage(widths[0], widths[1], 4)
        self.mix = nn.Linear(2 * widths[1], 32)
        self.proto = nn.Parameter(torch.empty(classes, 32))
        self.scale = scale
        self.reset()

    def reset(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, a=0.1, mode="fan_out", nonlinearity="leaky_relu")
        nn.init.xavier_uniform_(self.mix.weight, gain=math.sqrt(2.0))
        nn.init.constant_(self.mix.bias, 0.05)
        nn.init.normal_(self.proto, std=32 ** -0.5)

    def forward(self, x):
        x = F.max_pool2d(self.first(x), 2)
        x = self.second(x)
        pooled = torch.cat([x.mean(dim=(2, 3)), x.std(dim=(2, 3), unbiased=False)], dim=1)
        z = F.normalize(F.gelu(self.mix(pooled)), dim=1, eps=1e-6)
        w = F.normalize(self.proto, dim=1, eps=1e-6)
        return self.scale * z @ w.t()


class MeanTeacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = Classifier()
        self.teacher = Classifier()
        self.teacher.load_state_dict(self.student.state_dict())
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.register_buffer("updates", torch.zeros(1))

    def ramp(self):
        t = torch.clamp(self.updates / RAMP_UPDATES, max=1.0)
        return torch.exp(-5.0 * (1.0 - t) ** 2)

    def forward(self, weak, strong):
        with torch.no_grad():
            target = self.teacher(weak)
        return {
            "logits": self.student(strong),
            "clean": self.student(weak),
            "target": target,
            "ramp": self.ramp(),
        }
