"""Decomposable attention with a small convolution under it."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from .text import PAD


class Encoder(nn.Module):
    def __init__(self, cfg, size):
        super().__init__()
        self.embed = nn.Embedding(size, cfg["dim"], padding_idx=PAD)
        self.conv = nn.Conv1d(cfg["dim"], cfg["dim"], cfg["kernel"], padding=cfg["kernel"] // 2)

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1).float()
        x = self.embed(ids) * mask
        local = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return (x + F.gelu(local, approximate="tanh")) * mask


class Entailment(nn.Module):
    def __init__(self, cfg, size, prior):
        super().__init__()
        self.cfg = cfg
        d, c = cfg["dim"], cfg["compare"]
        self.encoder = Encoder(cfg, size)
        self.attend = nn.Linear(d, d)
        self.compare = nn.Linear(4 * d, c)
        self.norm = nn.LayerNorm(c, eps=cfg["norm_eps"])
        self.hidden = nn.Linear(4 * c + 4, cfg["hidden"])
        self.dropout = nn.Dropout(cfg["dropout"])
        self.out = nn.Linear(cfg["hidden"], 3)
        self.sharpness = nn.Parameter(torch.zeros(1))
        self.register_buffer("prior", torch.log(prior))
        self.reset()

    def reset(self):
        cfg = self.cfg
        nn.init.normal_(self.encoder.embed.weight, std=cfg["embed_std"])
        with torch.no_grad():
            self.encoder.embed.weight[PAD].zero_()
        nn.init.kaiming_normal_(self.encoder.conv.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.encoder.conv.bias)
        nn.init.xavier_uniform_(self.attend.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.zeros_(self.attend.bias)
        nn.init.normal_(self.out.weight, std=cfg["out_std"])
        nn.init.zeros_(self.out.bias)

    def align(self, a, b, mask_a, mask_b):
        fa, fb = F.relu(self.attend(a)), F.relu(self.attend(b))
        score = fa @ fb.transpose(1, 2) / math.sqrt(fa.shape[-1])
        to_b = score.masked_fill(~mask_b.unsqueeze(1), -1e4).softmax(-1)
        to_a = score.masked_fill(~mask_a.unsqueeze(2), -1e4).softmax(1)
        return to_b, to_a.transpose(1, 2)

    def match(self, x, other, mask):
        joint = torch.cat([x, other, x - other, x * other], -1)
        y = self.norm(F.gelu(self.compare(joint)))
        m = mask.unsqueeze(-1)
        mean = (y * m).sum(1) / m.sum(1)
        top = y.masked_fill(~m, -1e4).max(1).values
        return torch.cat([mean, top], -1)

    def forward(self, premise, hypothesis, surface):
        mask_p, mask_h = premise != PAD, hypothesis != PAD
        p, h = self.encoder(premise), self.encoder(hypothesis)
        h_to_p, p_to_h = self.align(h, p, mask_h, mask_p)
        seen = [self.match(p, p_to_h @ h, mask_p), self.match(h, h_to_p @ p, mask_h)]
        z = torch.tanh(self.hidden(torch.cat(seen + [surface], -1)))
        logits = self.out(self.dropout(z)) * self.sharpness.exp() + self.prior
        return {"logits": logits, "attention": h_to_p, "mask": mask_h.float()}
