"""Encoders over padded sequences."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def length_mask(lengths, size):
    """True where a position holds something."""
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)


class Recurrent(nn.Module):
    """Bidirectional GRU over sequences of given lengths, normalised."""

    def __init__(self, inputs, hidden, eps):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden, eps=eps)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return self.norm(states)


class AttentionPool(nn.Module):
    """Weighs positions by their likeness to a learnt context vector."""

    def __init__(self, width, hidden, temperature):
        super().__init__()
        self.project = nn.Linear(width, hidden)
        self.context = nn.Parameter(torch.empty(hidden))
        self.temperature = temperature

    def forward(self, states, mask):
        keys = torch.tanh(self.project(states))
        scores = keys @ self.context / self.temperature
        weights = masked_softmax(scores, mask)
        return torch.einsum("bt,btd->bd", weights, states), weights
