"""1-D ResNet over the beat, a spectral branch, and the RR intervals."""
import torch
from torch import nn

from .layers import BasicBlock, SpectralBranch


class BeatNet(nn.Module):
    def __init__(self, settings, leads=2, classes=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(leads, settings.stem, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm1d(settings.stem),
            nn.ReLU(),
            nn.MaxPool1d(3, 2, padding=1),
        )
        blocks, width = [], settings.stem
        for i, outputs in enumerate(settings.widths):
            blocks.append(BasicBlock(width, outputs, settings.kernel, 1 if i == 0 else 2, settings.se_ratio))
            width = outputs
        self.blocks = nn.Sequential(*blocks)
        self.spectral = SpectralBranch(leads, settings.n_fft, settings.hop, settings.spec_channels)
        self.rr = nn.Linear(3, settings.rr_hidden)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(2 * width + settings.spec_channels[-1] + settings.rr_hidden, classes)
        self.reset_parameters()

    def reset_parameters(self):
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.Conv2d)):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, BasicBlock):
                nn.init.constant_(module.bn2.weight, 0.25)

    def forward(self, signal, rr):
        features = self.blocks(self.stem(signal))
        pooled = torch.cat([features.mean(dim=-1), features.amax(dim=-1)], dim=1)
        joined = torch.cat([pooled, self.spectral(signal), torch.tanh(self.rr(rr))], dim=1)
        return self.head(self.dropout(joined))
