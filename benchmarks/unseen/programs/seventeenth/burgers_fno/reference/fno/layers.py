import torch
from torch import nn


class SpectralConv1d(nn.Module):
    """Multiplies the lowest Fourier modes by a matrix each; all others are dropped."""

    def __init__(self, cin, cout, modes):
        super().__init__()
        self.cout, self.modes = cout, modes
        self.weight = nn.Parameter(torch.rand(cin, cout, modes, 2) / (cin * cout))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = spectrum.new_zeros(x.shape[0], self.cout, spectrum.shape[-1])
        out[..., : self.modes] = torch.einsum(
            "bim,iom->bom", spectrum[..., : self.modes], torch.view_as_complex(self.weight)
        )
        return torch.fft.irfft(out, n=x.shape[-1])


class FiLM(nn.Module):
    """Scales and shifts channels as a condition says."""

    def __init__(self, channels):
        super().__init__()
        self.linear = nn.Linear(1, 2 * channels)

    def forward(self, x, condition):
        scale, shift = self.linear(condition[:, None]).unsqueeze(-1).chunk(2, dim=1)
        return x * (1 + scale) + shift


class FourierBlock(nn.Module):
    def __init__(self, width, modes, last):
        super().__init__()
        self.norm = nn.InstanceNorm1d(width, affine=True)
        self.spectral = SpectralConv1d(width, width, modes)
        self.pointwise = nn.Conv1d(width, width, 1)
        self.film = FiLM(width)
        self.activation = nn.Identity() if last else nn.GELU()

    def forward(self, x, condition):
        y = self.norm(x)
        y = self.spectral(y) + self.pointwise(y)
        return x + self.activation(self.film(y, condition))
