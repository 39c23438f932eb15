import torch
from torch import nn

from .ring import RingConv1d


class RowGRU(nn.Module):
    """Walks up the rows; the state of a column sees its neighbours of the row."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.gates = RingConv1d(2 * dim, 2 * dim)
        self.fresh = RingConv1d(2 * dim, dim)
        with torch.no_grad():
            self.gates.bias[:dim] = -1.0

    def forward(self, x):
        b, c, rows, w = x.shape
        state = x.new_zeros(b, c, w)
        for r in range(rows):
            now = x[:, :, r]
            update, reset = torch.sigmoid(self.gates(torch.cat([now, state], 1))).split(self.dim, 1)
            fresh = torch.tanh(self.fresh(torch.cat([now, reset * state], 1)))
            state = (1 - update) * state + update * fresh
        return state
