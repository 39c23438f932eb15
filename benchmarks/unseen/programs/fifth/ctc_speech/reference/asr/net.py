import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class MaskConv(nn.Module):
    """convolutions that keep the padded frames at zero"""

    def __init__(self, *stages):
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, x, lengths):
        for s in self.stages:
            x = s(x)
            if isinstance(s, nn.Conv2d):
                k, st, p = s.kernel_size[1], s.stride[1], s.padding[1]
                lengths = torch.div(lengths + 2 * p - k, st, rounding_mode="floor") + 1
            mask = torch.arange(x.size(3), device=x.device)[None] >= lengths[:, None]
            x = x.masked_fill(mask[:, None, None, :], 0)
        return x, lengths


class SpeechNet(nn.Module):
    def __init__(self, n_mels=20, channels=8, hidden=24, layers=2, n_out=9, dropout=0.1):
        super().__init__()
        self.conv = MaskConv(
            nn.Conv2d(1, channels, (5, 5), stride=(2, 2), padding=(2, 2), bias=False), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20),
            nn.Conv2d(channels, channels, (5, 3), stride=(2, 1), padding=(2, 1), bias=False), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20))
        freq = math.ceil(math.ceil(n_mels / 2) / 2)
        self.rnn = nn.GRU(freq * channels, hidden, layers, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(2 * hidden)
        self.head = nn.Linear(2 * hidden, n_out)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, feats, feat_lens):
        x, lens = self.conv(feats.transpose(1, 2).unsqueeze(1), feat_lens)     # B C F T
        b, c, f, t = x.shape
        x = x.reshape(b, c * f, t).transpose(1, 2)
        packed = pack_padded_sequence(x, lens.cpu(), batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=t)
        x = self.head(self.drop(self.norm(x)))
        return F.log_softmax(x, -1), lens
