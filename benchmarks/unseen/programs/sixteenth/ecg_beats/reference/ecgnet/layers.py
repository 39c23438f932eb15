"""Building blocks."""
import torch
from torch import nn


class SqueezeExcite(nn.Module):
    def __init__(self, channels, ratio):
        super().__init__()
        self.reduce = nn.Conv1d(channels, channels // ratio, 1)
        self.expand = nn.Conv1d(channels // ratio, channels, 1)

    def forward(self, x):
        gate = torch.relu(self.reduce(x.mean(dim=-1, keepdim=True)))
        return x * torch.sigmoid(self.expand(gate))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, se_ratio):
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm1d(outputs)
        self.conv2 = nn.Conv1d(outputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.bn2 = nn.BatchNorm1d(outputs)
        self.se = SqueezeExcite(outputs, se_ratio)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.AvgPool1d(3, stride, padding=1) if stride != 1 else nn.Identity(),
                nn.Conv1d(inputs, outputs, 1, bias=False),
                nn.BatchNorm1d(outputs),
            )

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.se(self.bn2(self.conv2(out)))
        return torch.relu(out + self.shortcut(x))


class SpectralBranch(nn.Module):
    """Small convolutional network over the log power spectrogram of each lead."""

    def __init__(self, leads, n_fft, hop, channels):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.conv1 = nn.Conv2d(leads, channels[0], 3, padding=1)
        self.pool = nn.AvgPool2d(2, ceil_mode=True)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 3, padding=1)
        self.act = nn.GELU()

    def spectrogram(self, x):
        batch, leads, length = x.shape
        spec = torch.stft(
            x.reshape(batch * leads, length), self.n_fft, hop_length=self.hop,
            window=self.window.to(x.dtype), center=True, return_complex=True,
        )
        power = spec.real ** 2 + spec.imag ** 2
        return torch.log(power + 1e-3).reshape(batch, leads, *power.shape[1:])

    def forward(self, x):
        spec = self.spectrogram(x)
        spec = spec - spec.mean(dim=(2, 3), keepdim=True)
        out = self.pool(self.act(self.conv1(spec)))
        return self.act(self.conv2(out)).mean(dim=(2, 3))
