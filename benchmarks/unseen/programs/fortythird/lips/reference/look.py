"""What is seen in each frame."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StandardConv(nn.Conv2d):
    """A convolution whose kernels have mean 0 and deviation 1 before they are used."""

    def __init__(self, n_in, n_out, kernel, stride=1, padding=0):
        super().__init__(n_in, n_out, kernel, stride, padding, bias=False)
        self.gain = nn.Parameter(torch.ones(n_out, 1, 1, 1))

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        fan_in = self.weight[0].numel()
        kernel = self.gain * (self.weight - mean) * torch.rsqrt((var * fan_in).clamp(min=1e-4))
        return F.conv2d(x, kernel, None, self.stride, self.padding)


def shift(x, frames, share=4):
    """Of [clip * frame, channel, ...], one part of the channels from the frame before, one from the frame after."""
    x = x.view(-1, frames, *x.shape[1:])
    n = x.shape[2] // share
    out = torch.zeros_like(x)
    out[:, 1:, :n] = x[:, :-1, :n]
    out[:, :-1, n:2 * n] = x[:, 1:, n:2 * n]
    out[:, :, 2 * n:] = x[:, :, 2 * n:]
    return out.flatten(0, 1)


class Squeeze(nn.Module):
    def __init__(self, n, less=4):
        super().__init__()
        self.down, self.up = nn.Conv2d(n, n // less, 1), nn.Conv2d(n // less, n, 1)

    def forward(self, x):
        y = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(F.relu(self.down(y)))) * 2


class Residual(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, n_in), nn.GroupNorm(4, n_out)
        self.conv1 = StandardConv(n_in, n_out, 3, stride, 1)
        self.conv2 = StandardConv(n_out, n_out, 3, 1, 1)
        self.squeeze = Squeeze(n_out)
        self.skip = StandardConv(n_in, n_out, 1) if n_in != n_out else None
        self.stride = stride

    def forward(self, x, frames):
        y = F.silu(self.norm1(x))
        z = self.conv1(shift(y, frames))
        z = self.squeeze(self.conv2(F.silu(self.norm2(z))))
        if self.skip is not None:
            x = self.skip(F.avg_pool2d(y, self.stride, ceil_mode=True, count_include_pad=False))
        return x + 0.7 * z


class Look(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv3d(2, 8, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False)
        self.norm = nn.InstanceNorm3d(8, affine=True)
        self.turn = nn.PReLU(8)
        self.blocks = nn.ModuleList([Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1)])
        self.last = nn.GroupNorm(4, 16)
        nn.init.kaiming_normal_(self.front.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, clip, real):
        x = self.turn(self.norm(self.front(clip))) * real[:, None, :, None, None]
        x = F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))
        b, c, t, h, w = x.shape
        x = x.transpose(1, 2).flatten(0, 1)
        for block in self.blocks:
            x = block(x, t)
        x = F.silu(self.last(x)).mean((2, 3))
        return x.view(b, t, -1)
