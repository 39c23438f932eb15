import paddle
from paddle import nn
import paddle.nn.functional as F
from paddle.nn.initializer import Normal, XavierUniform, Constant


def time_mask(lengths, steps, dtype):
    return (paddle.arange(steps).unsqueeze(0) < lengths.unsqueeze(1)).astype(dtype)


class SampleVarBatchNorm(nn.BatchNorm2D):
    """Paddle tracks the population variance; the original tracks the sample variance (n - 1)."""

    def forward(self, x):
        before = self._variance.clone()
        y = super().forward(x)
        if self.training:
            n = x.shape[0] * x.shape[2] * x.shape[3]
            kept = self._momentum * before
            self._variance.set_value(kept + (self._variance - kept) * (n / (n - 1.0)))
        return y


class ConvBlock(nn.Layer):
    def __init__(self, c_in, c_out, kernel, stride):
        super().__init__()
        pad = [k // 2 for k in kernel]
        fan_out = c_out * kernel[0] * kernel[1]
        self.conv = nn.Conv2D(c_in, c_out, kernel, stride=stride, padding=pad, bias_attr=False,
                              weight_attr=paddle.ParamAttr(initializer=Normal(0.0, (2.0 / fan_out) ** 0.5)))
        self.bn = SampleVarBatchNorm(c_out, momentum=0.9, epsilon=1e-5)
        self.geometry = kernel[1], stride[1], pad[1]

    def forward(self, x, lengths):
        k, s, p = self.geometry
        x = self.conv(x)
        lengths = (lengths + 2 * p - k) // s + 1
        keep = time_mask(lengths, x.shape[3], x.dtype)[:, None, None, :]
        x = self.bn(x * keep) * keep
        return F.hardtanh(x, min=0.0, max=20.0), lengths


class Acoustic(nn.Layer):
    def __init__(self, bins=20, width=8, units=24, depth=2, symbols=9, p_drop=0.1):
        super().__init__()
        self.front1 = ConvBlock(1, width, (5, 5), (2, 2))
        self.front2 = ConvBlock(width, width, (5, 3), (2, 1))
        bins = -(-(-(-bins // 2)) // 2)
        self.gru = nn.GRU(bins * width, units, num_layers=depth, direction="bidirect")
        self.ln = nn.LayerNorm(units * 2)
        self.dropout = nn.Dropout(p_drop)
        self.classify = nn.Linear(units * 2, symbols, weight_attr=paddle.ParamAttr(initializer=XavierUniform()),
                                  bias_attr=paddle.ParamAttr(initializer=Constant(0.0)))

    def forward(self, feats, feat_lens):
        x = feats.unsqueeze(1).transpose([0, 1, 3, 2])
        x, lens = self.front1(x, feat_lens)
        x, lens = self.front2(x, lens)
        x = x.flatten(1, 2).transpose([0, 2, 1])
        x, _ = self.gru(x, sequence_length=lens)
        x = self.classify(self.dropout(self.ln(x)))
        return F.log_softmax(x, axis=-1), lens
