import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.utils import weight_norm


class CausalConv(nn.Layer):
    """pads on the left only"""

    def __init__(self, cin, cout, dilation, k=3):
        super().__init__()
        self.left = dilation * (k - 1)
        self.conv = weight_norm(nn.Conv1D(cin, cout, k, dilation=dilation), dim=0)

    def forward(self, x):
        return self.conv(F.pad(x, [self.left, 0], mode="constant", value=0.0, data_format="NCL"))


class ResidualPair(nn.Layer):
    def __init__(self, cin, cout, dilation, p):
        super().__init__()
        self.skip = nn.Conv1D(cin, cout, 1) if cin != cout else nn.Identity()
        self.pair = nn.Sequential(
            CausalConv(cin, cout, dilation), nn.ReLU(), nn.Dropout(p),
            CausalConv(cout, cout, dilation), nn.ReLU(), nn.Dropout(p))

    def forward(self, x):
        return F.relu(self.skip(x) + self.pair(x))


class MixtureForecaster(nn.Layer):
    def __init__(self, series=2, widths=(8, 8, 12), horizon=2, parts=3):
        super().__init__()
        self.horizon, self.parts = horizon, parts
        self.weight_head = nn.Linear(widths[-1], parts)
        self.scale_head = nn.Linear(widths[-1], parts * horizon)
        self.place_head = nn.Linear(widths[-1], parts * horizon)
        ins = (series,) + tuple(widths[:-1])
        self.stack = nn.LayerList([ResidualPair(i, o, 2 ** n, 0.2) for n, (i, o) in enumerate(zip(ins, widths))])
        self.shift = self.create_parameter([series], is_bias=True)
        self.gain = self.create_parameter([series], default_initializer=nn.initializer.Constant(1.0))

    def forward(self, window):
        centre = window.mean(axis=1, keepdim=True)
        spread = paddle.sqrt(window.var(axis=1, unbiased=False, keepdim=True) + 1e-5)
        centre.stop_gradient = spread.stop_gradient = True
        t = ((window - centre) / spread * self.gain + self.shift).transpose([0, 2, 1])
        for block in self.stack:
            t = block(t)
        last = t[:, :, -1]
        c, s = centre[:, :, 0:1], spread[:, :, 0:1]
        shape = [-1, self.parts, self.horizon]
        place = self.place_head(last).reshape(shape) * s + c
        scale = (F.softplus(self.scale_head(last)).reshape(shape) + 1e-3) * s
        return F.log_softmax(self.weight_head(last), axis=-1), place, scale
