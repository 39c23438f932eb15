"""Building blocks."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, TruncatedNormal

trunc_normal = TruncatedNormal(std=0.02, a=-0.04, b=0.04)  # the bounds are values, not deviations


def dense(in_features, out_features):
    return nn.Linear(
        in_features,
        out_features,
        weight_attr=paddle.ParamAttr(initializer=trunc_normal),
        bias_attr=paddle.ParamAttr(initializer=Constant(0.0)),
    )


class DropPath(nn.Layer):
    """Stochastic depth: drops the branch of single clips."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        keep = 1.0 - self.rate
        shape = [x.shape[0]] + [1] * (x.ndim - 1)
        mask = (paddle.rand(shape, dtype=x.dtype) < keep).astype(x.dtype)
        return x * mask / keep


class TubeletEmbedding(nn.Layer):
    def __init__(self, channels, dim, tubelet):
        super().__init__()
        fan_in = channels * tubelet[0] * tubelet[1] * tubelet[2]
        self.proj = nn.Conv3D(
            channels,
            dim,
            kernel_size=tubelet,
            stride=tubelet,
            weight_attr=paddle.ParamAttr(initializer=Normal(0.0, fan_in**-0.5)),
            bias_attr=paddle.ParamAttr(initializer=Constant(0.0)),
        )

    def forward(self, video):
        features = self.proj(video)                       # [B, D, T, H, W]
        return features.flatten(3).transpose([0, 2, 3, 1])  # [B, T, S, D]


class Attention(nn.Layer):
    """Multi-head attention over the second-last axis of [B, G, N, D], group by group."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = dense(dim, 3 * dim)
        self.out = dense(dim, dim)

    def forward(self, x):
        b, g, n, d = x.shape
        qkv = self.qkv(x).reshape([b, g, n, 3, self.num_heads, self.head_dim])
        q, k, v = qkv.transpose([3, 0, 1, 4, 2, 5]).unbind(0)
        weights = F.softmax(paddle.matmul(q, k, transpose_y=True) / self.head_dim**0.5, axis=-1)
        mixed = paddle.matmul(weights, v).transpose([0, 1, 3, 2, 4]).reshape([b, g, n, d])
        return self.out(mixed)


class Mlp(nn.Layer):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = dense(dim, hidden)
        self.act = nn.GELU(approximate=True)
        self.down = dense(hidden, dim)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Branch(nn.Layer):
    """Norm, a layer, its scale and stochastic depth, added to what came in."""

    def __init__(self, layer, dim, drop_path, layer_scale, epsilon, over_time=False):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.layer = layer
        self.scale = self.create_parameter([dim], default_initializer=Constant(layer_scale))
        self.drop_path = DropPath(drop_path)
        self.over_time = over_time

    def forward(self, x):
        y = self.norm(x)
        if self.over_time:
            y = self.layer(y.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])
        else:
            y = self.layer(y)
        return x + self.drop_path(y * self.scale)


class Block(nn.Layer):
    def __init__(self, cfg, drop_path):
        super().__init__()
        dim, common = cfg.embed_dim, (drop_path, cfg.layer_scale, cfg.epsilon)
        self.time = Branch(Attention(dim, cfg.num_heads), dim, *common, over_time=True)
        self.space = Branch(Attention(dim, cfg.num_heads), dim, *common)
        self.mlp = Branch(Mlp(dim, cfg.mlp_ratio * dim), dim, *common)

    def forward(self, x):
        return self.mlp(self.space(self.time(x)))
