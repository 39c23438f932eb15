"""Layers of the stereo net: features, correlation volume, regularisation, soft arg-min."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Features(nn.Module):
    def __init__(self, ch, groups):
        super().__init__()
        self.stem = nn.Conv2d(2, ch, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(groups, ch)
        self.res = nn.Conv2d(ch, ch, 3, padding=2, dilation=2, bias=False)
        self.res_norm = nn.GroupNorm(groups, ch)
        self.head = nn.Conv2d(ch, ch, 1, bias=False)

    def forward(self, x):
        x = F.elu(self.norm(self.stem(x)), alpha=0.8)
        x = x + F.elu(self.res_norm(self.res(x)), alpha=0.8)
        return self.head(x)


class Volume(nn.Module):
    def __init__(self, groups, hidden):
        super().__init__()
        self.inner = nn.Conv3d(groups, hidden, 3, padding=1)
        self.act = nn.PReLU(hidden, init=0.2)
        self.depthwise = nn.Conv3d(hidden, hidden, 3, padding=1, groups=hidden, bias=False)
        self.outer = nn.Conv3d(hidden, 1, 1, bias=False)

    def forward(self, cost):
        h = self.act(self.inner(cost))
        h = h + self.depthwise(h)
        return self.outer(h)[:, 0]


def correlate(left, right, levels, groups):
    """cost[b, g, d, y, x] = mean over channels of group g of left[x] * right[x - d]."""
    b, c, h, w = left.shape
    slices = []
    for d in range(levels):
        moved = F.pad(right, (d, 0))[..., :w]
        slices.append((left * moved).view(b, groups, c // groups, h, w).mean(2))
    return torch.stack(slices, dim=2)


def soft_argmin(score, temperature):
    p = torch.softmax(score * temperature, dim=1)
    d = torch.arange(score.shape[1], dtype=score.dtype)
    return torch.einsum("bdyx,d->byx", p, d)


class StereoNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.features = Features(cfg["features"], cfg["norm_groups"])
        self.volume = Volume(cfg["groups"], cfg["hidden3d"])
        self.refine = nn.Conv2d(3, 8, 3, padding=1)
        self.refine_out = nn.Conv2d(8, 1, 3, padding=1)
        self.apply(self.init)
        nn.init.normal_(self.refine_out.weight, std=0.02)

    @staticmethod
    def init(m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_uniform_(m.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(m, nn.Conv3d):
            nn.init.xavier_normal_(m.weight)
        if isinstance(m, (nn.Conv2d, nn.Conv3d)) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, left, right):
        both = self.features(torch.cat([left, right], dim=0))
        fl, fr = both.chunk(2, dim=0)
        score = self.volume(correlate(fl, fr, self.cfg["levels"], self.cfg["groups"]))
        coarse = 2.0 * soft_argmin(score, self.cfg["temperature"])
        up = F.interpolate(coarse[:, None], scale_factor=2, mode="bilinear", align_corners=False)
        hint = torch.cat([up / 8.0, left], dim=1)
        delta = self.refine_out(F.relu6(self.refine(hint)))[:, 0]
        return {"fine": F.relu(up[:, 0] + delta), "coarse": coarse, "score": score}


def smoothness(disp, image, sharpness):
    """Edge-aware first differences, a term for each direction."""
    gx = image[:, :, 1:] - image[:, :, :-1]
    gy = image[:, 1:] - image[:, :-1]
    dx = (disp[:, :, 1:] - disp[:, :, :-1]).abs() * torch.exp(-sharpness * gx.abs())
    dy = (disp[:, 1:] - disp[:, :-1]).abs() * torch.exp(-sharpness * gy.abs())
    return dx.mean() + dy.mean()


def sample_right(values, disp):
    """values of the right view at x - disp (linear, border clamped)."""
    b, h, w = disp.shape
    x = torch.arange(w, dtype=disp.dtype) - disp
    y = torch.arange(h, dtype=disp.dtype)[None, :, None].expand(b, h, w)
    grid = torch.stack([2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1], dim=-1)
    return F.grid_sample(values[:, None], grid, mode="bilinear", padding_mode="border",
                         align_corners=True)[:, 0]
