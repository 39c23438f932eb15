import numpy as np
import paddle
from paddle import nn
from paddle.nn.initializer import Constant, Normal


def sinusoids(length, width):
    angle = np.arange(length)[:, None] / np.power(10000.0, np.arange(0, width, 2)[None] / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape([length, width]).astype("float32")


class Rewriter(nn.Layer):
    """Transformer of Paddle's own layers, with one table of embeddings for both sides and for the output."""

    def __init__(self, size, pad, width, heads, inner, encoder_layers, decoder_layers, dropout, max_length):
        super().__init__()
        self.pad, self.scale = pad, width ** 0.5
        self.table = nn.Embedding(size, width, weight_attr=Normal(0.0, width ** -0.5))
        self.register_buffer("where", paddle.to_tensor(sinusoids(max_length, width)), persistable=False)
        self.drop = nn.Dropout(dropout)
        self.reader = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, inner, dropout=dropout, activation="relu",
                                       normalize_before=False),
            encoder_layers)
        self.writer = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(width, heads, inner, dropout=dropout, activation="relu",
                                       normalize_before=False),
            decoder_layers)
        self.out_bias = self.create_parameter([size], is_bias=True, default_initializer=Constant(0.0))

    def vectors(self, ids):
        return self.drop(self.table(ids) * self.scale + self.where[:ids.shape[1]])

    def read(self, source):
        visible = (source != self.pad).unsqueeze([1, 2])
        return self.reader(self.vectors(source), src_mask=visible), visible

    def write(self, prefix, memory, visible):
        n = prefix.shape[1]
        earlier = paddle.tril(paddle.ones([n, n], dtype="int32")).astype("bool")
        own = paddle.logical_and((prefix != self.pad).unsqueeze([1, 2]), earlier)
        state = self.writer(self.vectors(prefix), memory, tgt_mask=own, memory_mask=visible)
        return paddle.matmul(state, self.table.weight, transpose_y=True) + self.out_bias

    def forward(self, source, target):
        memory, visible = self.read(source)
        return self.write(target, memory, visible)
