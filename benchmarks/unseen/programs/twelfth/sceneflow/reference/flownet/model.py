import torch
from torch import nn

from .config import CONFIG
from .layers import CostVolume, SetConv
from .pointops import three_interpolate


class FlowHead(nn.Module):
    """Features to a bounded flow."""

    def __init__(self, cin, width, slope, bound=None):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, width, 1)
        self.norm = nn.GroupNorm(4, width)
        self.act = nn.LeakyReLU(slope)
        self.conv2 = nn.Conv1d(width, 3, 1)
        self.bound = bound

    def forward(self, x):
        x = self.conv2(self.act(self.norm(self.conv1(x))))
        return x if self.bound is None else x.clamp(-self.bound, self.bound)


class SceneFlowNet(nn.Module):
    def __init__(self, cfg=CONFIG.net):
        super().__init__()
        (n1, n2), (w1, w2) = cfg.levels, cfg.widths
        self.enc1 = SetConv(n1, cfg.neighbours, 1, w1)
        self.enc2 = SetConv(n2, cfg.neighbours, w1[-1], w2)
        self.cost = CostVolume(w2[-1], cfg.cost_width, cfg.cost_neighbours, cfg.slope)
        self.coarse = FlowHead(cfg.cost_width + w2[-1], 32, cfg.slope)
        self.refine = FlowHead(w1[-1] + 3 + cfg.cost_width + 1, 24, cfg.slope, bound=1.5)
        self.reset_parameters()

    def reset_parameters(self):
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.Conv2d)):
                nn.init.kaiming_normal_(module.weight, a=CONFIG.net.slope, mode="fan_in", nonlinearity="leaky_relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.constant_(module.bias, 0.05)
        nn.init.normal_(self.refine.conv2.weight, std=0.02)

    def forward(self, source, target):
        """Both clouds are [B, N, 4]: position and intensity."""
        p0, f0 = source[..., :3], source[..., 3:].transpose(1, 2)
        q0, g0 = target[..., :3], target[..., 3:].transpose(1, 2)
        p1, f1 = self.enc1(p0, f0)
        q1, g1 = self.enc1(q0, g0)
        p2, f2 = self.enc2(p1, f1)
        q2, g2 = self.enc2(q1, g1)
        cost = self.cost(p2, q2, f2, g2)
        coarse = self.coarse(torch.cat([f2, cost], 1))
        coarse_up = three_interpolate(p0, p2, coarse)
        skip = three_interpolate(p0, p1, f1)
        cost_up = three_interpolate(p0, p2, cost)
        residual = self.refine(torch.cat([skip, coarse_up, cost_up, f0], 1))
        return {
            "flow": (coarse_up + residual).transpose(1, 2),
            "coarse": coarse_up.transpose(1, 2),
        }
