import math

import torch
import torch.nn.functional as F
from torch import nn

from .registry import BLOCKS, MODELS

LETTERS = 26
FIRST = 2  # 0 is no slot, 1 is an empty slot, 2 is A


@MODELS.register
class CrosswordFiller(nn.Module):
    def __init__(self, dim, dropout, clue, pattern, init, buckets, clue_len, slots):
        super().__init__()
        common = {"dim": dim, "scale": init["scale"], "dropout": dropout}
        self.dim = dim
        self.words = nn.Embedding(buckets + 1, dim, padding_idx=0)
        self.word_place = nn.Parameter(torch.zeros(clue_len, dim))
        self.letters = nn.Embedding(LETTERS + FIRST, dim, padding_idx=0)
        self.from_start = nn.Embedding(slots, dim)
        self.from_end = nn.Embedding(slots, dim)
        self.clue_blocks = nn.ModuleList(self.make(c, common) for c in clue)
        self.pool = BLOCKS.build({"type": "AttentionPool", "dim": dim})
        self.film = BLOCKS.build({"type": "Film", "dim": dim, "extra": 2})
        self.slot_blocks = nn.ModuleList(self.make(c, common) for c in pattern)
        self.norm = nn.LayerNorm(dim)
        self.letter_bias = nn.Parameter(torch.zeros(LETTERS))
        self.repeat = nn.Parameter(torch.full((LETTERS,), -0.2))
        self.hard = nn.Linear(2 * dim + 1, 1)
        for table in (self.words, self.letters, self.from_start, self.from_end):
            nn.init.normal_(table.weight, std=init["embedding_std"])
        with torch.no_grad():
            self.words.weight[0].zero_()
            self.letters.weight[0].zero_()
        nn.init.normal_(self.word_place, std=0.02)
        nn.init.xavier_uniform_(self.hard.weight)
        nn.init.constant_(self.hard.bias, 0.5)

    @staticmethod
    def make(cfg, common):
        return BLOCKS.build(cfg, **common)

    def read_clue(self, clue):
        x = self.words(clue)
        mask = (clue > 0).to(x.dtype)
        x = (x + self.word_place) * mask.unsqueeze(-1)
        for block in self.clue_blocks:
            x = block(x, mask)
        return self.pool(x, mask)

    def forward(self, clue, pattern, flags):
        meaning = self.read_clue(clue)
        mask = (pattern > 0).to(meaning.dtype)
        length = (pattern > 0).sum(1, keepdim=True)
        start = torch.arange(pattern.shape[1], device=pattern.device).expand_as(pattern)
        end = (length - 1 - start).clamp(min=0)
        x = self.letters(pattern) + self.from_start(start) + self.from_end(end)
        x = self.film(x, torch.cat([meaning, flags], dim=-1))
        for block in self.slot_blocks:
            x = block(x, mask)
        x = self.norm(x)
        logits = x @ self.letters.weight[FIRST:].t() / math.sqrt(self.dim) + self.letter_bias
        used = F.one_hot(pattern, LETTERS + FIRST)[:, :, FIRST:].sum(1).to(x.dtype)
        logits = logits + (self.repeat * torch.log1p(used)).unsqueeze(1)
        mean = (x * mask.unsqueeze(-1)).sum(1) / length.to(x.dtype)
        empty = (pattern == 1).sum(1, keepdim=True).to(x.dtype) / length.to(x.dtype)
        hard = F.softplus(self.hard(torch.cat([meaning, mean, empty], dim=-1))).squeeze(-1)
        return {"letters": logits, "hard": hard}
