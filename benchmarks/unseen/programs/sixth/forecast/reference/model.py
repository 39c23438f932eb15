import torch
import torch.nn as nn

from .layers import RevIN, SeasonalityBlock, SeriesDecomp


class Model(nn.Module):
    """RevIN -> decomposition -> linear trend + Fourier N-BEATS for the seasonal part."""

    def __init__(self, args):
        super().__init__()
        self.seq_len, self.pred_len = args.seq_len, args.pred_len
        self.revin = RevIN(args.enc_in)
        self.decomp = SeriesDecomp(args.kernel_size)
        self.linear_trend = nn.Linear(args.seq_len, args.pred_len)
        self.blocks = nn.ModuleList(SeasonalityBlock(args) for _ in range(args.n_blocks))
        self.channel_gate = nn.Parameter(torch.zeros(args.enc_in))
        self.mix = nn.Conv1d(args.enc_in, args.enc_in, kernel_size=3, padding=1, padding_mode="replicate", bias=False)
        self.reset_parameters()

    def reset_parameters(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.constant_(self.linear_trend.weight, 1.0 / self.seq_len)
        nn.init.normal_(self.mix.weight, std=0.05)

    def forward(self, x_enc, x_mark):
        # x_enc: (batch, seq_len, channels), x_mark: (batch, seq_len, mark_dim)
        x = self.revin(x_enc, "norm")
        seasonal, trend = self.decomp(x)
        trend = self.linear_trend(trend.transpose(1, 2))
        residual = seasonal.transpose(1, 2)
        mark = x_mark[:, -1:, :].expand(-1, residual.size(1), -1)
        season = torch.zeros_like(trend)
        for block in self.blocks:
            backcast, forecast = block(residual, mark)
            residual = residual - backcast
            season = season + forecast
        gate = 2 * torch.sigmoid(self.channel_gate)[None, :, None]
        out = trend + gate * season
        out = out + self.mix(out)
        return self.revin(out.transpose(1, 2), "denorm")
