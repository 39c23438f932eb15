import paddle
from paddle import nn
from paddle.nn import functional as F

from .layers import GatedConv, TemporalBlock, dense

ENCODERS = {}


def encoder(fn):
    ENCODERS[fn.__name__.split("_")[0]] = fn
    return fn


@encoder
def glu_encoder(cin, n):
    stack = []
    for cout, pool_t in zip(n.channels, n.pool_t):
        stack += [GatedConv(cin, cout, pool_t, n.norm_epsilon, n.norm_momentum), nn.Dropout(n.dropout)]
        cin = cout
    return nn.Sequential(*stack)


class CRNN(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        n = cfg.network
        self.every = cfg.frames_per_label
        self.encoder = ENCODERS[n.encoder](2, n)
        features = n.channels[-1] * (cfg.audio.n_mels // 8) + 3
        self.norm = nn.LayerNorm(features)
        self.gru = nn.GRU(features, n.gru_units, direction="bidirect")
        width = n.gru_units * 2
        self.temporal = nn.LayerList([TemporalBlock(width, n.kernel, d, n.dropout) for d in n.dilations])
        self.frame_head = dense(width, len(cfg.classes))
        self.attention = dense(width, len(cfg.classes))

    def features(self, mel, descr):
        maps = self.encoder(mel)
        length = descr.shape[1] // self.every
        maps = paddle.transpose(maps[:, :, :length], [0, 2, 1, 3])
        maps = paddle.flatten(maps, start_axis=2)
        pooled = F.avg_pool1d(descr.transpose([0, 2, 1]), kernel_size=self.every).transpose([0, 2, 1])
        return self.norm(paddle.concat([maps, pooled], axis=2))

    def forward(self, mel, descr):
        h, _ = self.gru(self.features(mel, descr))
        h = h.transpose([0, 2, 1])
        for block in self.temporal:
            h = block(h)
        h = h.transpose([0, 2, 1])
        frame = self.frame_head(h)
        score = paddle.clip(self.attention(h), -6.0, 6.0)
        alpha = F.softmax(score, axis=1)
        clip = paddle.sum(F.sigmoid(frame) * alpha, axis=1)
        return {"frame": frame, "clip": clip}
