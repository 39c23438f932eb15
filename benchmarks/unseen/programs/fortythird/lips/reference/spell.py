"""A speller that looks back at the frames for each letter, and knows where it has looked."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import letters


class Where(nn.Module):
    def __init__(self, state, seen, size):
        super().__init__()
        self.ask, self.have = nn.Linear(state, size), nn.Linear(seen, size, bias=False)
        self.trace = nn.Conv1d(2, 4, 5, padding=2, bias=False)
        self.place = nn.Linear(4, size, bias=False)
        self.score = nn.Parameter(torch.empty(size))
        self.sharp = nn.Parameter(torch.zeros(()))
        nn.init.normal_(self.score, std=1 / math.sqrt(size))

    def forward(self, state, keys, before, so_far, real):
        trace = self.trace(torch.stack([before, so_far], dim=1)).transpose(1, 2)
        energy = torch.tanh(self.ask(state).unsqueeze(1) + keys + self.place(trace)) @ self.score
        energy = energy * torch.exp(self.sharp)
        return torch.softmax(energy.masked_fill(real == 0, float("-inf")), dim=1)


class Speller(nn.Module):
    def __init__(self, seen, state=20, size=16, letter=12):
        super().__init__()
        self.letter = nn.Embedding(letters.SIZE, letter, padding_idx=letters.PAD)
        self.start = nn.Linear(seen, 2 * state)
        self.cell = nn.LSTMCell(letter + seen, state)
        self.where = Where(state, seen, size)
        self.to_letter = nn.Linear(state + seen, letter)
        self.bias = nn.Parameter(torch.zeros(letters.SIZE))
        nn.init.normal_(self.letter.weight, std=letter ** -0.5)
        with torch.no_grad():
            self.letter.weight[letters.PAD].zero_()
            self.cell.bias_hh.zero_()
            self.cell.bias_ih.zero_()
            self.cell.bias_ih[state:2 * state].fill_(1.0)    # remember at first

    def begin(self, seen, real):
        mean = (seen * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)
        h, c = torch.tanh(self.start(mean)).chunk(2, dim=1)
        nothing = torch.zeros_like(real)
        return h, c, torch.zeros_like(mean), nothing, nothing, self.where.have(seen)

    def step(self, state, letter, seen, real):
        h, c, context, before, so_far, keys = state
        h, c = self.cell(torch.cat([self.letter(letter), context], dim=1), (h, c))
        where = self.where(h, keys, before, so_far, real)
        context = torch.bmm(where.unsqueeze(1), seen).squeeze(1)
        logits = torch.tanh(self.to_letter(torch.cat([h, context], dim=1))) @ self.letter.weight.t() + self.bias
        return (h, c, context, where, so_far + where, keys), logits, where

    def forward(self, seen, real, given):
        state, spelled, looked = self.begin(seen, real), [], []
        for k in range(given.shape[1]):
            state, logits, where = self.step(state, given[:, k], seen, real)
            spelled.append(logits)
            looked.append(where)
        return torch.stack(spelled, dim=1), torch.stack(looked, dim=1)

    def greedy(self, seen, real):
        state, letter, out = self.begin(seen, real), torch.full((len(seen),), letters.BEGIN), []
        for _ in range(letters.LONGEST):
            state, logits, where = self.step(state, letter, seen, real)
            logits = logits[:, letters.END:]                 # neither padding nor a beginning
            letter = logits.argmax(1) + letters.END
            out.append((letter, F.log_softmax(logits, dim=1).amax(1), where))
        return out
