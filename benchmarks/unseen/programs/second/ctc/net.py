import paddle
import paddle.nn as nn
import paddle.nn.functional as F


def length_mask(lengths, size, dtype):
    return (paddle.arange(size).unsqueeze(0) < lengths.unsqueeze(1)).astype(dtype)


class Recogniser(nn.Layer):
    """everything is batch first here: [N, T, C]"""

    def __init__(self, bins=12, units=16, depth=2, symbols=9, ahead=3):
        super().__init__()
        self.subsample = nn.Conv2D(1, 4, [5, 3], stride=2, padding=[2, 1])
        self.subsample_norm = nn.BatchNorm2D(4)
        sizes = [4 * ((bins + 1) // 2)] + [units] * (depth - 1)
        self.norms = nn.LayerList([nn.BatchNorm1D(s, data_format="NLC") for s in sizes[1:]])
        self.grus = nn.LayerList([nn.GRU(s, units, direction="bidirect") for s in sizes])
        self.ahead = nn.Conv1D(units, units, ahead, groups=units, bias_attr=False)
        self.out_norm = nn.BatchNorm1D(units, data_format="NLC")
        self.out = nn.Linear(units, symbols, bias_attr=False)
        self.units, self.look = units, ahead

    def forward(self, feats, lengths):
        steps = (lengths - 1) // 2 + 1
        x = feats.transpose([0, 2, 1]).unsqueeze(1)
        x = self.subsample(x)
        keep = length_mask(steps, x.shape[-1], x.dtype).unsqueeze([1, 2])
        x = self.subsample_norm(x * keep) * keep
        x = paddle.clip(x, 0.0, 20.0)
        x = x.flatten(1, 2).transpose([0, 2, 1])
        for i, gru in enumerate(self.grus):
            if i:
                x = self.norms[i - 1](x)
            x, _ = gru(x, sequence_length=steps)
            x = x[..., : self.units] + x[..., self.units:]
        x = F.pad(x.transpose([0, 2, 1]), [0, self.look - 1], data_format="NCL")
        x = paddle.clip(self.ahead(x), 0.0, 20.0).transpose([0, 2, 1])
        x = self.out(self.out_norm(x))
        return F.log_softmax(x, axis=-1).transpose([1, 0, 2]), steps
