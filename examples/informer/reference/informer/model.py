"""Encoder with distilling, decoder that gives all steps of a forecast at once."""

from torch import nn
from torch.nn import functional

from .attention import AttentionLayer, FullAttention, ProbAttention
from .embedding import DataEmbedding

SEEN, KNOWN, AHEAD = 48, 24, 12  # steps: into the encoder, of these into the decoder, forecast
COLUMNS = 3


class FeedForward(nn.Module):
    def __init__(self, width, hidden, dropout):
        super().__init__()
        self.conv1 = nn.Conv1d(width, hidden, 1)
        self.conv2 = nn.Conv1d(hidden, width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.dropout(functional.gelu(self.conv1(x.transpose(1, 2))))
        return self.dropout(self.conv2(x)).transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, hidden, factor, dropout):
        super().__init__()
        self.attention = AttentionLayer(ProbAttention(factor, dropout), width, heads)
        self.feed = FeedForward(width, hidden, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x, x, x)))
        return self.norm2(x + self.feed(x))


class Distilling(nn.Module):
    """Self-attention distilling (equation 5): half as many steps, ``[B, L, D]`` -> ``[B, (L + 1) // 2, D]``."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm1d(width)
        self.act = nn.ELU()
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(self.act(self.norm(self.conv(x.transpose(1, 2))))).transpose(1, 2)


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, hidden, factor, dropout):
        super().__init__()
        self.attention = AttentionLayer(ProbAttention(factor, dropout, causal=True), width, heads)
        self.cross = AttentionLayer(FullAttention(dropout), width, heads)
        self.feed = FeedForward(width, hidden, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory):
        x = self.norm1(x + self.dropout(self.attention(x, x, x)))
        x = self.norm2(x + self.dropout(self.cross(x, memory, memory)))
        return self.norm3(x + self.feed(x))


class Informer(nn.Module):
    """Values, float ``[B, L, C]``, and stamps, int64 ``[B, L, 2]``, of both halves -> forecast, float ``[B, 12, C]``."""

    def __init__(self, columns=COLUMNS, width=32, heads=4, hidden=64, layers=2, factor=3, dropout=0.05):
        super().__init__()
        settings = (width, heads, hidden, factor, dropout)
        self.encoder_embedding = DataEmbedding(columns, width, dropout)
        self.decoder_embedding = DataEmbedding(columns, width, dropout)
        self.encoder = nn.ModuleList(EncoderLayer(*settings) for _ in range(layers))
        self.distilling = nn.ModuleList(Distilling(width) for _ in range(layers - 1))
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = DecoderLayer(*settings)
        self.decoder_norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, columns)

    def encode(self, values, stamps):
        x = self.encoder[0](self.encoder_embedding(values, stamps))
        for distil, layer in zip(self.distilling, self.encoder[1:], strict=True):
            x = layer(distil(x))
        return self.encoder_norm(x)

    def forward(self, values, stamps, known, known_stamps):
        memory = self.encode(values, stamps)
        x = self.decoder_norm(self.decoder(self.decoder_embedding(known, known_stamps), memory))
        return self.projection(x)[:, -AHEAD:]


def fix_keys(model, seed):
    """Let every call sample the same keys, or, with None, draw them anew again."""
    for module in model.modules():
        if isinstance(module, ProbAttention):
            module.seed = seed
