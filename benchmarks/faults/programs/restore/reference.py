"""A network that restores pictures: convolutions down and up, instance and group norm, dilation, sub-pixel upsampling; PyTorch."""

import torch
from given import images
from torch import nn
from torch.nn import functional as F

WIDTH = 16


def attention_over_channels(x, weight, bias):
    """Channels weighted by a one-dimensional convolution over their means."""
    y = x.mean((2, 3)).unsqueeze(1)
    y = F.conv1d(y, weight, bias, padding=1)
    return x * y.sigmoid().squeeze(1)[:, :, None, None]


class Down(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.pad = nn.ReflectionPad2d(1)
        self.conv = nn.Conv2d(inner, outer, 3, stride=2)
        self.norm = nn.InstanceNorm2d(outer, affine=True, eps=1e-3)
        self.act = nn.PReLU(outer)

    def forward(self, x):
        return self.act(self.norm(self.conv(self.pad(x))))


class Dense(nn.Module):
    """Dilated convolutions, each of all that came before it."""

    def __init__(self, width):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(width + width // 2 * n, width // 2, 3, padding=2**n, dilation=2**n) for n in range(3)])
        self.norm = nn.GroupNorm(2, width // 2)
        self.fuse = nn.Conv2d(width + width // 2 * 3, width, 1)
        self.weight = nn.Parameter(torch.randn(1, 1, 3) * 0.5)
        self.bias = nn.Parameter(torch.randn(1) * 0.5)

    def forward(self, x):
        found = [x]
        for conv in self.convs:
            found.append(F.elu(self.norm(conv(torch.cat(found, 1)))))
        y = attention_over_channels(self.fuse(torch.cat(found, 1)), self.weight, self.bias)
        return x + 0.2 * y


class Up(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, 4 * outer, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        return F.leaky_relu(self.shuffle(self.conv(x)), 0.1)


class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, WIDTH, 5, padding=2, padding_mode="circular")
        self.down1, self.down2 = Down(WIDTH, 2 * WIDTH), Down(2 * WIDTH, 4 * WIDTH)
        self.dense = Dense(4 * WIDTH)
        self.up1 = Up(4 * WIDTH, 2 * WIDTH)
        self.join = nn.Conv2d(4 * WIDTH, 2 * WIDTH, 3, padding=1, groups=4)
        self.up2 = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 3, stride=2, padding=1, output_padding=1)
        self.leave = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x):
        low = F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False, antialias=False)
        low = F.interpolate(low, size=x.shape[2:], mode="bicubic", align_corners=True)
        first = F.softplus(self.enter(x), beta=2)
        second = self.down1(first)
        y = self.dense(self.down2(second))
        y = torch.cat([self.up1(y), second], 1)
        y = F.mish(self.join(y))
        y = self.up2(y) * first.amax(1, keepdim=True)
        y = F.avg_pool2d(F.pad(y, (0, 1, 0, 1), mode="replicate"), 2, stride=1)
        detail = torch.tanh(self.leave(F.normalize(y, dim=1)))
        return (low + detail).clamp(-2.0, 2.0)


def build_model():
    torch.manual_seed(7)
    model = Restorer()
    for name, parameter in model.named_parameters():
        if "norm" in name or "act" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif parameter.ndim == 4:
            parameter.data *= 1.8
    return model


def inputs():
    return images(2, 32, seed=9)


def labels():
    return images(2, 32, seed=10)


def loss(outputs, labels):
    squared = (outputs - labels) ** 2
    flat = (outputs[..., 1:] - outputs[..., :-1]).abs().mean() + (outputs[..., 1:, :] - outputs[..., :-1, :]).abs().mean()
    return torch.sqrt(squared + 1e-6).mean() + 0.05 * flat
