import torch
import torch.nn as nn
import torch.nn.functional as F

from .settings import S

FRONTENDS = {}


def register(name):
    def add(cls):
        FRONTENDS[name] = cls
        return cls
    return add


@register("glu")
class GluFrontend(nn.Module):
    def __init__(self, cin, cfg):
        super().__init__()
        layers = []
        for width, pool in zip(cfg.widths, cfg.time_pool):
            layers.append(nn.ModuleDict({
                "conv": nn.Conv2d(cin, 2 * width, 3, padding=1, bias=False),
                "norm": nn.BatchNorm2d(2 * width, eps=cfg.bn_eps, momentum=cfg.bn_momentum),
                "pool": nn.AvgPool2d((pool + 1 if pool > 1 else 1, 2), stride=(pool, 2), padding=(pool // 2, 0)),
            }))
            cin = width
        self.layers = nn.ModuleList(layers)
        self.drop = nn.Dropout(cfg.drop)

    def forward(self, x):
        for layer in self.layers:
            x = F.glu(layer["norm"](layer["conv"](x)), dim=1)
            x = self.drop(layer["pool"](x))
        return x


@register("plain")
class PlainFrontend(nn.Module):
    def __init__(self, cin, cfg):
        super().__init__()
        self.convs = nn.ModuleList()
        for width, pool in zip(cfg.widths, cfg.time_pool):
            self.convs.append(nn.Sequential(nn.Conv2d(cin, width, 3, stride=(pool, 2), padding=1), nn.ReLU()))
            cin = width

    def forward(self, x):
        for conv in self.convs:
            x = conv(x)
        return x


class CausalBlock(nn.Module):
    def __init__(self, dim, kernel, dilation, drop):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(dim, dim, kernel, dilation=dilation, groups=2)
        self.mix = nn.Conv1d(dim, dim, 1)
        self.act = nn.PReLU(dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        y = self.act(self.conv(F.pad(x, (self.left, 0))))
        return x + self.drop(self.mix(y))


class Tagger(nn.Module):
    def __init__(self, cfg=S.model, classes=len(S.labels.names), bands=S.features.bands):
        super().__init__()
        self.front = FRONTENDS[cfg.frontend](2, cfg)
        wide = cfg.widths[-1] * (bands // 2 ** len(cfg.widths)) + 3
        self.stride = S.labels.stride
        self.norm = nn.LayerNorm(wide)
        self.rnn = nn.GRU(wide, cfg.hidden, batch_first=True, bidirectional=True)
        dim = 2 * cfg.hidden
        self.tcn = nn.Sequential(*[CausalBlock(dim, cfg.tcn_kernel, 2 ** i, cfg.drop) for i in range(cfg.tcn_layers)])
        self.frame = nn.Linear(dim, classes)
        self.attend = nn.Linear(dim, classes)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Conv2d, nn.Conv1d)):
            nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)

    def forward(self, mel, descr):
        x = self.front(mel)                                  # [B, C, T', F']
        frames = descr.shape[1] // self.stride
        x = x[:, :, :frames].permute(0, 2, 1, 3).flatten(2)
        d = F.avg_pool1d(descr.transpose(1, 2), self.stride).transpose(1, 2)
        x = self.norm(torch.cat([x, d], dim=-1))
        x, _ = self.rnn(x)
        x = self.tcn(x.transpose(1, 2)).transpose(1, 2)
        logits = self.frame(x)
        weights = torch.softmax(self.attend(x).clamp(-6, 6), dim=1)
        return {"frame": logits, "clip": (torch.sigmoid(logits) * weights).sum(1)}
