"""The two towers of the hum retriever (PyTorch)."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sound import CONF

M = CONF["model"]


def start_gru(gru):
    for name, p in gru.named_parameters():
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(p)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(p)
        else:
            nn.init.zeros_(p)
            if name.startswith("bias_ih"):
                with torch.no_grad():
                    p[gru.hidden_size:2 * gru.hidden_size] = 1.0


class BandNorm(nn.Module):
    """Standardises each band by running statistics over the true frames."""

    def __init__(self, bands, momentum):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(bands))
        self.register_buffer("var", torch.ones(bands))

    def forward(self, x, mask):
        if self.training:
            with torch.no_grad():
                rows = x[mask]
                self.mean.lerp_(rows.mean(0), self.momentum)
                self.var.lerp_(rows.var(0), self.momentum)
        x = (x - self.mean) / torch.sqrt(self.var + 1e-5)
        return x * mask.unsqueeze(-1)


class AudioTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(CONF["audio"]["bands"], M["width"], 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(M["width"], M["width"], 3, padding=1, groups=2)
        self.gru = nn.GRU(M["width"], M["audio_state"], batch_first=True)
        self.proj = nn.Linear(2 * M["audio_state"], M["joint"])
        start_gru(self.gru)

    def forward(self, x, frames):
        n = torch.div(frames + 1, 2, rounding_mode="floor")
        x = F.elu(self.conv1(x.transpose(1, 2)))
        mask = torch.arange(x.shape[2])[None] < n[:, None]
        x = x * mask[:, None]
        x = x + F.elu(self.conv2(x)) * mask[:, None]
        y, _ = self.gru(x.transpose(1, 2))
        m = mask.unsqueeze(-1).float()
        count = m.sum(1)
        mean = (y * m).sum(1) / count
        var = ((y - mean[:, None]) ** 2 * m).sum(1) / count
        return F.normalize(self.proj(torch.cat([mean, (var + 1e-4).sqrt()], 1)), dim=1)


class TuneTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.pitch = nn.Embedding(2 * CONF["symbols"]["reach"] + 2, M["pitch_dim"], padding_idx=0)
        self.duration = nn.Embedding(8, M["duration_dim"], padding_idx=0)
        self.gru = nn.GRU(M["pitch_dim"] + M["duration_dim"], M["tune_state"], batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * M["tune_state"], M["joint"])
        for e in (self.pitch, self.duration):
            nn.init.normal_(e.weight, std=0.5)
            with torch.no_grad():
                e.weight[0].zero_()
        start_gru(self.gru)

    def forward(self, pitch, duration, notes):
        x = torch.cat([self.pitch(pitch), self.duration(duration)], -1)
        packed = pack_padded_sequence(x, notes.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.shape[1])
        past = torch.arange(x.shape[1])[None] >= notes[:, None]
        y = y.masked_fill(past.unsqueeze(-1), -torch.inf).amax(1)
        return F.normalize(self.proj(y), dim=1)


class Retriever(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = BandNorm(CONF["audio"]["bands"], M["stat_momentum"])
        self.audio = AudioTower()
        self.tune = TuneTower()
        self.key = nn.Sequential(nn.Linear(M["joint"], 12), nn.Tanh(), nn.Linear(12, 1))
        self.scale = nn.Parameter(torch.tensor([math.log(1.0 / M["temperature"])]))
        self.teacher = copy.deepcopy(self.audio)
        for p in self.teacher.parameters():
            p.requires_grad_(False)

    def forward(self, mel, frames, pitch, duration, notes):
        mask = torch.arange(mel.shape[1])[None] < frames[:, None]
        x = self.norm(mel, mask)
        audio = self.audio(x, frames)
        tune = self.tune(pitch, duration, notes)
        with torch.no_grad():
            teacher = self.teacher(x, frames)
        return {"audio": audio, "tune": tune, "teacher": teacher,
                "scale": self.scale.exp(), "key": self.key(audio).squeeze(1)}
