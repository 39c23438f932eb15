"""The frames in their order, and a judge who must not tell who speaks."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Remember(nn.Module):
    def __init__(self, n, hidden):
        super().__init__()
        self.scales = nn.ModuleList(nn.Conv1d(n, n, k, padding=k // 2, groups=n) for k in (3, 5))
        self.mix = nn.Linear(2 * n, n)
        self.rnn = nn.GRU(n, hidden, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, lengths, real):
        y = (x * real.unsqueeze(-1)).transpose(1, 2)
        y = torch.cat([conv(y) for conv in self.scales], dim=1).transpose(1, 2)
        x = x + torch.tanh(self.mix(y))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.drop(self.norm(out))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Stranger(nn.Module):
    """Who speaks, with the gradient turned round on its way to what is seen."""

    def __init__(self, n, speakers, strength=0.3):
        super().__init__()
        self.strength = strength
        self.inner, self.outer = nn.Linear(2 * n, n), nn.Linear(n, speakers)

    def forward(self, seen, real):
        seen = Reverse.apply(seen, self.strength)
        weight = (real / real.sum(1, keepdim=True)).unsqueeze(-1)
        mean = (seen * weight).sum(1)
        var = ((seen - mean.unsqueeze(1)) ** 2 * weight).sum(1)
        return self.outer(torch.relu(self.inner(torch.cat([mean, torch.sqrt(var + 1e-5)], dim=1))))
