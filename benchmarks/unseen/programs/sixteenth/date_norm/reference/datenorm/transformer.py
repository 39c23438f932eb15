import math

import torch
from torch import nn

from .attention import Attention, FeedForward, Sublayer
from .vocabulary import PAD


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout)
        self.sublayers = nn.ModuleList(Sublayer(width, dropout) for _ in range(2))

    def forward(self, x, mask):
        x = self.sublayers[0](x, self.attention(x, x, mask))
        return self.sublayers[1](x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout)
        self.sublayers = nn.ModuleList(Sublayer(width, dropout) for _ in range(3))

    def forward(self, x, memory, self_mask, memory_mask):
        x = self.sublayers[0](x, self.self_attention(x, x, self_mask))
        x = self.sublayers[1](x, self.cross_attention(x, memory, memory_mask))
        return self.sublayers[2](x, self.feed_forward(x))


class Positions(nn.Module):
    def __init__(self, width, max_length):
        super().__init__()
        position = torch.arange(max_length, dtype=torch.float64)[:, None]
        rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
        table = torch.zeros(max_length, width, dtype=torch.float64)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Transformer(nn.Module):
    """One embedding for written dates, ISO dates and the output (Press & Wolf 2017)."""

    def __init__(self, symbols, width, heads, inner, encoder_layers, decoder_layers, dropout, max_length):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(symbols, width)
        self.positions = Positions(width, max_length)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(width, heads, inner, dropout) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(width, heads, inner, dropout) for _ in range(decoder_layers))
        self.generator = nn.Linear(width, symbols)
        self.generator.weight = self.embedding.weight
        self.reset_parameters()

    def reset_parameters(self):
        for name, parameter in self.named_parameters():
            if name == "embedding.weight":
                nn.init.normal_(parameter, std=self.width ** -0.5)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def embed(self, ids):
        return self.dropout(self.positions(self.embedding(ids) * math.sqrt(self.width)))

    def encode(self, source):
        mask = (source != PAD)[:, None, None, :]
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return x, mask

    def decode(self, target, memory, memory_mask):
        length = target.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=target.device).tril()
        mask = (target != PAD)[:, None, None, :] & causal
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.generator(x)

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))
