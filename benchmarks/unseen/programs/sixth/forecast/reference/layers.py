import torch
import torch.nn as nn


class RevIN(nn.Module):
    """Reversible instance normalisation (Kim et al., ICLR 2022)."""

    def __init__(self, num_features, eps=1e-5, affine=True):
        super().__init__()
        self.eps = eps
        self.affine = affine
        if affine:
            self.affine_weight = nn.Parameter(torch.ones(num_features))
            self.affine_bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x, mode):
        if mode == "norm":
            self._get_statistics(x)
            x = (x - self.mean) / self.stdev
            if self.affine:
                x = x * self.affine_weight + self.affine_bias
        elif mode == "denorm":
            if self.affine:
                x = (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps)
            x = x * self.stdev + self.mean
        return x

    def _get_statistics(self, x):
        self.mean = torch.mean(x, dim=1, keepdim=True).detach()
        self.stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + self.eps).detach()


class MovingAvg(nn.Module):
    """Moving average that repeats the ends."""

    def __init__(self, kernel_size, stride=1):
        super().__init__()
        self.kernel_size = kernel_size
        self.avg = nn.AvgPool1d(kernel_size=kernel_size, stride=stride, padding=0)

    def forward(self, x):
        front = x[:, 0:1, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        x = torch.cat([front, x, end], dim=1)
        return self.avg(x.permute(0, 2, 1)).permute(0, 2, 1)


class SeriesDecomp(nn.Module):
    def __init__(self, kernel_size):
        super().__init__()
        self.moving_avg = MovingAvg(kernel_size)

    def forward(self, x):
        mean = self.moving_avg(x)
        return x - mean, mean


def fourier_basis(n_freq, backcast, forecast):
    """cos and sin of 0..n_freq-1 turns an input window, past and future."""
    t = torch.arange(backcast + forecast, dtype=torch.float64) / backcast
    k = torch.arange(n_freq, dtype=torch.float64)[:, None]
    basis = torch.cat([torch.cos(2 * torch.pi * k * t), torch.sin(2 * torch.pi * k * t)], dim=0).float()
    return basis[:, :backcast], basis[:, backcast:]


class SeasonalityBlock(nn.Module):
    """N-BEATS block with a Fourier basis; weights are shared by all channels."""

    def __init__(self, args):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(args.seq_len + args.mark_dim, args.d_model),
            nn.ReLU(),
            nn.Linear(args.d_model, args.d_model),
            nn.ReLU(),
            nn.Dropout(args.dropout),
        )
        self.theta_b = nn.Linear(args.d_model, 2 * args.n_freq, bias=False)
        self.theta_f = nn.Linear(args.d_model, 2 * args.n_freq, bias=False)
        back, fore = fourier_basis(args.n_freq, args.seq_len, args.pred_len)
        self.register_buffer("back", back, persistent=False)
        self.register_buffer("fore", fore, persistent=False)

    def forward(self, x, mark):
        h = self.fc(torch.cat([x, mark], dim=-1))
        return self.theta_b(h) @ self.back, self.theta_f(h) @ self.fore
