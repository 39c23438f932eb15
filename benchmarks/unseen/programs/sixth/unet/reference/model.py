"""Attention U-Net with a deep supervision head."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DoubleConv(nn.Module):
    """(conv => BN => ReLU) * 2"""

    def __init__(self, in_ch, out_ch, dropout=0.0):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(in_ch, out_ch, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_ch),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
            nn.Conv2d(out_ch, out_ch, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_ch),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.block(x)


class Down(nn.Module):
    def __init__(self, in_ch, out_ch, dropout=0.0):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(in_ch, out_ch, dropout)

    def forward(self, x):
        return self.conv(self.pool(x))


class AttentionGate(nn.Module):
    """Additive attention of Oktay et al., 2018."""

    def __init__(self, gate_ch, skip_ch, inter_ch):
        super().__init__()
        self.w_g = nn.Sequential(nn.Conv2d(gate_ch, inter_ch, 1), nn.BatchNorm2d(inter_ch))
        self.w_x = nn.Sequential(nn.Conv2d(skip_ch, inter_ch, 1), nn.BatchNorm2d(inter_ch))
        self.psi = nn.Conv2d(inter_ch, 1, 1)

    def forward(self, g, x):
        a = F.leaky_relu(self.w_g(g) + self.w_x(x), 0.1)
        return x * torch.sigmoid(self.psi(a))


class Up(nn.Module):
    def __init__(self, in_ch, skip_ch, out_ch, attention=True):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.reduce = nn.Conv2d(in_ch, out_ch, 1)
        self.gate = AttentionGate(out_ch, skip_ch, out_ch // 2) if attention else None
        self.conv = DoubleConv(out_ch + skip_ch, out_ch)

    def forward(self, x, skip):
        x = self.reduce(self.up(x))
        # odd sizes: pad to the skip connection
        dh = skip.size(2) - x.size(2)
        dw = skip.size(3) - x.size(3)
        x = F.pad(x, [dw // 2, dw - dw // 2, dh // 2, dh - dh // 2])
        if self.gate is not None:
            skip = self.gate(x, skip)
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        widths = [cfg.base * 2**i for i in range(cfg.depth + 1)]
        self.stem = DoubleConv(cfg.in_channels, widths[0])
        self.downs = nn.ModuleList(
            Down(widths[i], widths[i + 1], cfg.dropout if i == cfg.depth - 1 else 0.0) for i in range(cfg.depth)
        )
        self.ups = nn.ModuleList(
            Up(widths[i + 1], widths[i], widths[i], cfg.attention) for i in reversed(range(cfg.depth))
        )
        self.head = nn.Conv2d(widths[0], cfg.num_classes, 1)
        self.aux_head = nn.Conv2d(widths[1], cfg.num_classes, 1)
        self.apply(self._init)
        # rare foreground: start from a prior of 1 in 10
        nn.init.constant_(self.head.bias, -2.1972246)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.ones_(m.weight)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        size = x.shape[-2:]
        x = self.stem(x)
        skips = []
        for down in self.downs:
            skips.append(x)
            x = down(x)
        aux = None
        for i, up in enumerate(self.ups):
            x = up(x, skips.pop())
            if i == len(self.ups) - 2:
                aux = F.interpolate(self.aux_head(x), size=size, mode="bilinear", align_corners=False)
        return {"out": self.head(x), "aux": aux}
