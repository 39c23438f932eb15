import torch
import torch.nn.functional as F
from torch import nn

from .quantizer import ProductQuantizer

REGISTRY = {}


def register(name):
    def put(cls):
        REGISTRY[name] = cls
        return cls

    return put


@register("res")
class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(4, ch), nn.SiLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.GroupNorm(4, ch), nn.SiLU(), nn.Conv2d(ch, ch, 1))

    def forward(self, x):
        return x + self.body(x)


@register("down")
class Down(nn.Conv2d):
    def __init__(self, a, b):
        super().__init__(a, b, 4, stride=2, padding=1, padding_mode="reflect")


@register("unshrink")
class Unshrink(nn.ConvTranspose2d):
    def __init__(self, a, b):
        super().__init__(a, b, 4, stride=2, padding=1)


@register("smooth_up")
class SmoothUp(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))


ENCODER = [("down", 3, 24), ("res", 24), ("down", 24, 32), ("res", 32)]
DECODER = [("res", 32), ("unshrink", 32, 24), ("res", 24), ("smooth_up", 24, 16)]


def stack(plan):
    return nn.Sequential(*(REGISTRY[name](*args) for name, *args in plan))


class MosaicVQ(nn.Module):
    def __init__(self, groups=2, codes=24):
        super().__init__()
        self.encoder = stack(ENCODER)
        self.to_code = nn.Conv2d(32, 16, 1)
        self.quantizer = ProductQuantizer(16, groups, codes)
        self.from_code = nn.Conv2d(16, 32, 1)
        self.decoder = stack(DECODER)
        self.to_rgb = nn.Conv2d(16, 3, 3, padding=1)
        self.apply(self.initialise)

    @staticmethod
    def initialise(m):
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            nn.init.constant_(m.bias, 0.01)
        if isinstance(m, Residual):
            nn.init.normal_(m.body[5].weight, std=0.02)

    def forward(self, image):
        z = self.to_code(self.encoder(image))
        q, codes = self.quantizer(z)
        x = self.decoder(self.from_code(z + (q - z).detach()))
        return {"recon": torch.tanh(self.to_rgb(F.silu(x))), "latent": z, "quant": q.detach(), "codes": codes}
