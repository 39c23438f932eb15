"""Mask-based separation in the complex STFT domain."""
import torch
from torch import nn

from .config import NetConfig


class Analysis(nn.Module):
    """Waveform -> complex spectrogram and back."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.register_buffer("window", torch.hann_window(cfg.n_fft, dtype=torch.float64).sqrt().float(), persistent=False)

    def encode(self, wave):
        return torch.stft(wave, self.cfg.n_fft, self.cfg.hop, window=self.window, return_complex=True)

    def decode(self, spec, length):
        return torch.istft(spec, self.cfg.n_fft, self.cfg.hop, window=self.window, length=length)

    def features(self, spec):
        """Power-compressed real and imaginary part, and log magnitude: (B, 3F, N)."""
        mag = torch.sqrt(spec.real ** 2 + spec.imag ** 2 + self.cfg.eps)
        gain = mag ** (self.cfg.power - 1.0)
        return torch.cat([spec.real * gain, spec.imag * gain, torch.log1p(mag)], dim=1)


class FeatureNorm(nn.Module):
    """Per-channel statistics over batch and frames, tracked with biased variance."""

    def __init__(self, channels, momentum):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 2))
            var = x.var(dim=(0, 2), unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean.detach(), self.momentum)
                self.var.lerp_(var.detach(), self.momentum)
        else:
            mean, var = self.mean, self.var
        return (x - mean[:, None]) / torch.sqrt(var[:, None] + 1e-4)


class GlobalLayerNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x):
        mean = x.mean(dim=(1, 2), keepdim=True)
        power = ((x - mean) ** 2).mean(dim=(1, 2), keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(power + 1e-5) + self.beta


class SqueezeGate(nn.Module):
    """Weights channels by what the whole clip holds."""

    def __init__(self, channels, ratio):
        super().__init__()
        self.down = nn.Linear(channels, channels // ratio)
        self.up = nn.Linear(channels // ratio, channels)

    def forward(self, x):
        clip = torch.cat([x.mean(dim=2, keepdim=True), x.amax(dim=2, keepdim=True)], dim=2).sum(dim=2)
        return x * torch.sigmoid(self.up(nn.functional.silu(self.down(clip)))).unsqueeze(2)


class ConvBlock(nn.Module):
    def __init__(self, cfg, dilation):
        super().__init__()
        pad = dilation * (cfg.kernel - 1) // 2
        self.expand = nn.Conv1d(cfg.bottleneck, cfg.hidden, 1)
        self.act1 = nn.PReLU()
        self.norm1 = GlobalLayerNorm(cfg.hidden)
        self.depthwise = nn.Conv1d(cfg.hidden, cfg.hidden, cfg.kernel, padding=pad, dilation=dilation,
                                   groups=cfg.hidden, padding_mode="replicate")
        self.act2 = nn.PReLU(cfg.hidden)
        self.norm2 = GlobalLayerNorm(cfg.hidden)
        self.gate = SqueezeGate(cfg.hidden, cfg.squeeze)
        self.residual = nn.Conv1d(cfg.hidden, cfg.bottleneck, 1)
        self.skip = nn.Conv1d(cfg.hidden, cfg.bottleneck, 1)

    def forward(self, x):
        y = self.norm1(self.act1(self.expand(x)))
        y = self.gate(self.norm2(self.act2(self.depthwise(y))))
        return x + self.residual(y), self.skip(y)


class Separator(nn.Module):
    def __init__(self, cfg=NetConfig()):
        super().__init__()
        self.cfg = cfg
        bins = cfg.stft.bins
        self.analysis = Analysis(cfg.stft)
        self.norm = FeatureNorm(3 * bins, cfg.norm_momentum)
        self.bottleneck = nn.Conv1d(3 * bins, cfg.bottleneck, 1)
        self.blocks = nn.ModuleList(ConvBlock(cfg, d) for d in cfg.dilations)
        self.act = nn.PReLU()
        self.mask = nn.Conv1d(cfg.bottleneck, cfg.sources * 2 * bins, 1)
        nn.init.xavier_normal_(self.mask.weight, gain=0.5)
        nn.init.zeros_(self.mask.bias)

    def forward(self, mix):
        """(B, T) -> (B, sources, T)"""
        spec = self.analysis.encode(mix)
        x = self.bottleneck(self.norm(self.analysis.features(spec)))
        total = 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        b, f, n = spec.shape
        m = self.mask(self.act(total)).view(b, self.cfg.sources, 2, f, n)
        m = self.cfg.mask_bound * torch.tanh(m)
        parts = torch.complex(m[:, :, 0], m[:, :, 1]) * spec.unsqueeze(1)
        waves = self.analysis.decode(parts.flatten(0, 1), mix.shape[-1]).view(b, self.cfg.sources, -1)
        # mixture consistency: what is left over is shared
        return waves + (mix.unsqueeze(1) - waves.sum(dim=1, keepdim=True)) / self.cfg.sources
