"""Scores of the notes that may come before a note, and of nobody."""
import torch
from torch import nn

from . import relations
from .blocks import Block
from .embed import NoteEmbedding


class LinkScores(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.later = nn.Linear(width, rank)
        self.earlier = nn.Linear(width, rank)
        self.weight = nn.Parameter(torch.empty(rank, rank))
        self.pair = nn.Sequential(nn.Linear(4, 12), nn.ELU(), nn.Linear(12, 1, bias=False))
        self.nobody = nn.Linear(width, 1)
        nn.init.orthogonal_(self.weight)
        nn.init.constant_(self.nobody.bias, -1.0)

    def forward(self, x, pairs, allowed):
        score = self.later(x) @ self.weight @ self.earlier(x).mT / self.weight.shape[0] ** 0.5
        score = score + self.pair(pairs).squeeze(-1)
        # nobody is compared with the mean of the allowed notes, so that its score does not depend on their number
        count = allowed.sum(dim=-1, keepdim=True).clamp(min=1)
        level = (score * allowed).sum(dim=-1, keepdim=True) / count
        score = torch.cat([self.nobody(x) + level.detach(), score], dim=-1)
        open_ = torch.cat([torch.ones_like(allowed[..., :1]), allowed], dim=-1)
        logp = score.masked_fill(~open_, -torch.inf).log_softmax(dim=-1)
        return logp.masked_fill(~open_, 0.0), open_


class VoiceLinker(nn.Module):
    def __init__(self, width=32, heads=4, hidden=40, rank=16, depth=2):
        super().__init__()
        self.embed = NoteEmbedding(width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(depth))
        self.links = LinkScores(width, rank)

    def forward(self, cls, octave, pitch, onset, length, beat, real):
        bucket = relations.interval_bucket(pitch)
        distance = (onset.unsqueeze(2) - onset.unsqueeze(1)).abs()
        together = relations.sounding(onset, length, real)
        x = self.embed(cls, octave, length, beat)
        for block in self.blocks:
            x = block(x, bucket, distance, together, real)
        allowed = relations.may_follow(onset, length, real)
        logp, open_ = self.links(x, relations.pair_features(pitch, onset, length), allowed)
        return {"logp": logp, "open": open_.to(logp.dtype)}
