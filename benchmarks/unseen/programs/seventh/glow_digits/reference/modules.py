import torch
import torch.nn as nn
import torch.nn.functional as F

from .utils import gaussian_logp


class ActNorm2d(nn.Module):
    """Scale and bias of each channel, set by the first batch so that it comes out with zero mean and unit deviation."""

    def __init__(self, channels, scale=1.0):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.logs = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.register_buffer("inited", torch.zeros(1, dtype=torch.uint8))
        self.scale = scale

    @torch.no_grad()
    def initialise(self, x):
        mean = x.mean(dim=(0, 2, 3), keepdim=True)
        var = ((x - mean) ** 2).mean(dim=(0, 2, 3), keepdim=True)
        self.bias.copy_(-mean)
        self.logs.copy_(torch.log(self.scale / (var.sqrt() + 1e-6)))
        self.inited.fill_(1)

    def forward(self, x, logdet):
        if self.training and not self.inited.item():
            self.initialise(x)
        x = (x + self.bias) * torch.exp(self.logs)
        return x, logdet + self.logs.sum() * x.shape[2] * x.shape[3]


class InvConv1x1(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x, logdet):
        c = self.weight.shape[0]
        logdet = logdet + torch.slogdet(self.weight)[1] * x.shape[2] * x.shape[3]
        return F.conv2d(x, self.weight.view(c, c, 1, 1)), logdet


class Conv2dZeros(nn.Module):
    def __init__(self, inp, out, logscale_factor=3.0):
        super().__init__()
        self.conv = nn.Conv2d(inp, out, 3, padding=1)
        nn.init.zeros_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)
        self.logs = nn.Parameter(torch.zeros(out, 1, 1))
        self.factor = logscale_factor

    def forward(self, x):
        return self.conv(x) * torch.exp(self.logs * self.factor)


class Coupling(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.conv1 = nn.Conv2d(channels // 2, hidden, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden, hidden, 1)
        self.conv3 = Conv2dZeros(hidden, channels)
        for conv in (self.conv1, self.conv2):
            nn.init.normal_(conv.weight, 0.0, 0.05)
            nn.init.zeros_(conv.bias)

    def forward(self, x, logdet):
        a, b = x.chunk(2, 1)
        h = F.relu(self.conv2(F.relu(self.conv1(a))))
        h = self.conv3(h)
        shift, scale = h[:, 0::2], torch.sigmoid(h[:, 1::2] + 2.0)
        b = (b + shift) * scale
        return torch.cat([a, b], 1), logdet + scale.log().flatten(1).sum(1)


class FlowStep(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.actnorm, self.invconv, self.coupling = ActNorm2d(channels), InvConv1x1(channels), Coupling(channels, hidden)

    def forward(self, x, logdet):
        for m in (self.actnorm, self.invconv, self.coupling):
            x, logdet = m(x, logdet)
        return x, logdet


class Split2d(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = Conv2dZeros(channels // 2, channels)

    def forward(self, x, logp):
        keep, out = x.chunk(2, 1)
        mean, logs = self.conv(keep).chunk(2, 1)
        return keep, out, logp + gaussian_logp(out, mean, logs).flatten(1).sum(1)
