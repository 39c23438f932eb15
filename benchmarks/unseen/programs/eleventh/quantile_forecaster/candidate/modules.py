import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal, Uniform


def torch_uniform(fan_in):
    bound = 1.0 / fan_in**0.5
    return {"weight_attr": nn.initializer.Uniform(-bound, bound), "bias_attr": nn.initializer.Uniform(-bound, bound)}


def linear(i, o, bias=True):
    attrs = torch_uniform(i)
    if not bias:
        attrs["bias_attr"] = False
    return nn.Linear(i, o, **attrs)


class InstanceScale(nn.Layer):
    def __init__(self, n_series, epsilon=1e-5):
        super().__init__()
        self.epsilon = epsilon
        self.weight = self.create_parameter([n_series], default_initializer=Constant(1.0))
        self.bias = self.create_parameter([n_series], default_initializer=Constant(0.0))

    def forward(self, x):
        with paddle.no_grad():
            centre = paddle.mean(x, axis=1, keepdim=True)
            spread = paddle.sqrt(paddle.var(x, axis=1, unbiased=False, keepdim=True) + self.epsilon)
        return (x - centre) / spread * self.weight + self.bias, centre, spread

    def invert(self, y, centre, spread):
        y = (y - self.bias.unsqueeze(-1)) / (self.weight.unsqueeze(-1) + self.epsilon**2)
        return y * spread.unsqueeze(-1) + centre.unsqueeze(-1)


class Patches(nn.Layer):
    def __init__(self, lookback, n_series, d_model, patch_len, patch_step, drop):
        super().__init__()
        self.n_patches = (lookback + patch_step - patch_len) // patch_step + 1
        self.step = patch_step
        first = paddle.arange(self.n_patches).unsqueeze(1) * patch_step
        self.register_buffer("index", (first + paddle.arange(patch_len)).flatten(), persistable=False)
        self.proj = linear(patch_len, d_model)
        self.pos = self.create_parameter([self.n_patches, d_model], default_initializer=Uniform(-0.02, 0.02))
        self.series = self.create_parameter([n_series, 1, d_model], default_initializer=Normal(0.0, 0.05))
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        b, _, c = x.shape
        x = F.pad(x.transpose([0, 2, 1]), [0, self.step], mode="replicate", data_format="NCL")
        x = paddle.index_select(x, self.index, axis=2).reshape([b, c, self.n_patches, -1])
        x = self.proj(x) + self.pos + self.series
        return self.drop(x.reshape([b * c, self.n_patches, -1]))


class ResidualAttention(nn.Layer):
    def __init__(self, d_model, n_heads, drop):
        super().__init__()
        self.n_heads = n_heads
        self.scale = (d_model // n_heads) ** -0.5
        glorot = lambda: nn.initializer.Uniform(-((1.5 / d_model) ** 0.5), (1.5 / d_model) ** 0.5)
        self.to_q = nn.Linear(d_model, d_model, weight_attr=glorot())
        self.to_k = nn.Linear(d_model, d_model, weight_attr=glorot())
        self.to_v = nn.Linear(d_model, d_model, weight_attr=glorot())
        self.to_out = linear(d_model, d_model)
        self.drop = nn.Dropout(drop)

    def _heads(self, x):
        return x.reshape([0, 0, self.n_heads, -1]).transpose([0, 2, 1, 3])

    def forward(self, x, carried):
        q, k, v = [self._heads(f(x)) for f in (self.to_q, self.to_k, self.to_v)]
        logits = paddle.matmul(q, k, transpose_y=True) * self.scale
        if carried is not None:
            logits = logits + carried
        heads = paddle.matmul(self.drop(F.softmax(logits, axis=-1)), v)
        merged = heads.transpose([0, 2, 1, 3]).flatten(start_axis=2)
        return self.to_out(merged), logits


class Layer(nn.Layer):
    def __init__(self, d_model, n_heads, d_ff, drop):
        super().__init__()
        self.mix = ResidualAttention(d_model, n_heads, drop)
        self.bn_a = nn.BatchNorm1D(d_model, data_format="NLC")
        self.up = linear(d_model, d_ff)
        self.down = linear(d_ff, d_model)
        self.bn_b = nn.BatchNorm1D(d_model, data_format="NLC")
        self.drop = nn.Dropout(drop)

    def forward(self, x, carried):
        y, carried = self.mix(x, carried)
        x = self.bn_a(x + self.drop(y))
        y = self.down(self.drop(F.gelu(self.up(x))))
        return self.bn_b(x + self.drop(y)), carried


class Causal(nn.Layer):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.shift = 2 * dilation
        self.skip = c_in == c_out
        self.conv = nn.Conv1D(c_in, c_out, 3, dilation=dilation, **torch_uniform(3 * c_in))
        self.gn = nn.GroupNorm(2, c_out)

    def forward(self, x):
        y = self.conv(F.pad(x, [self.shift, 0], data_format="NCL"))
        y = F.leaky_relu(self.gn(y), negative_slope=0.1)
        return x + y if self.skip else y
