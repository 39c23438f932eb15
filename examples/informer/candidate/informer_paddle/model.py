"""The Informer, ported."""

from paddle import nn
from paddle.nn import functional

from paralign import init

from .attention import AttentionLayer, FullAttention, ProbAttention
from .breaks import broken
from .embedding import DataEmbedding

SEEN, KNOWN, AHEAD = 48, 24, 12
COLUMNS = 3


class FeedForward(nn.Layer):
    def __init__(self, width, hidden, dropout):
        super().__init__()
        self.conv1 = nn.Conv1D(width, hidden, 1)
        self.conv2 = nn.Conv1D(hidden, width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.dropout(functional.gelu(self.conv1(x.transpose([0, 2, 1])), approximate=broken("gelu")))
        return self.dropout(self.conv2(x)).transpose([0, 2, 1])


class EncoderLayer(nn.Layer):
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


class Distilling(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1D(width, width, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm1D(width, momentum=0.1 if broken("bn_momentum") else 0.9)

    def forward(self, x):
        x = functional.elu(self.norm(self.conv(x.transpose([0, 2, 1]))))
        return functional.max_pool1d(x, 3, stride=2, padding=1).transpose([0, 2, 1])


class DecoderLayer(nn.Layer):
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


class Informer(nn.Layer):
    """Values, float ``[B, L, C]``, and stamps, int64 ``[B, L, 2]``, of both halves -> forecast, float ``[B, 12, C]``."""

    def __init__(self, columns=COLUMNS, width=32, heads=4, hidden=64, layers=2, factor=3, dropout=0.05):
        super().__init__()
        settings = (width, heads, hidden, factor, dropout)
        self.encoder_embedding = DataEmbedding(columns, width, dropout)
        self.decoder_embedding = DataEmbedding(columns, width, dropout)
        self.encoder = nn.LayerList([EncoderLayer(*settings) for _ in range(layers)])
        self.distilling = nn.LayerList([Distilling(width) for _ in range(layers - 1)])
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = DecoderLayer(*settings)
        self.decoder_norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, columns)
        if not broken("init"):
            self.initialise()

    def initialise(self):
        """PyTorch's initial weights: its layers' defaults, and what the reference sets itself."""
        init.default_like_torch(self)
        for embedding in (self.encoder_embedding, self.decoder_embedding):
            init.kaiming_normal_(embedding.value.conv, mode="fan_in", nonlinearity="leaky_relu")

    def encode(self, values, stamps):
        x = self.encoder[0](self.encoder_embedding(values, stamps))
        for distil, layer in zip(self.distilling, self.encoder[1:], strict=True):
            x = layer(distil(x))
        return x if broken("norm") else self.encoder_norm(x)

    def forward(self, values, stamps, known, known_stamps):
        memory = self.encode(values, stamps)
        x = self.decoder_norm(self.decoder(self.decoder_embedding(known, known_stamps), memory))
        return self.projection(x)[:, -AHEAD:]


def fix_keys(model, seed):
    """Let every call sample the same keys, or, with None, draw them anew again."""
    for layer in model.sublayers():
        if isinstance(layer, ProbAttention):
            layer.seed = seed
