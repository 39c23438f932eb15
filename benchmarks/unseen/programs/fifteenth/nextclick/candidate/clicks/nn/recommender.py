import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

from .functional import attend, clicks_ago, heads_apart, heads_together, visible_keys


def linear(n_in, n_out, bias=True):
    return nn.Linear(
        n_in,
        n_out,
        weight_attr=paddle.ParamAttr(initializer=I.XavierNormal()),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)) if bias else False,
    )


def table(rows, width, std, padding=None):
    attr = paddle.ParamAttr(initializer=I.Normal(mean=0.0, std=std))
    return nn.Embedding(rows, width, padding_idx=padding, weight_attr=attr)


class Layer(nn.Layer):
    def __init__(self, net):
        super().__init__()
        width = net.width
        self.n_heads, self.reach, self.drop = net.n_heads, net.reach, net.drop
        self.norm_in = nn.LayerNorm(width, epsilon=net.eps)
        self.to_query = linear(width, width)
        self.to_key = linear(width, width, bias=False)
        self.to_value = linear(width, width)
        self.merge = linear(width, width)
        self.ago = self.create_parameter(
            [net.n_heads, net.reach + 1], default_initializer=I.Constant(0.0)
        )
        self.norm_mid = nn.LayerNorm(width, epsilon=net.eps)
        self.widen = linear(width, net.inner)
        self.narrow = linear(net.inner, width)

    def _dropped(self, x):
        return F.dropout(x, p=self.drop, training=self.training)

    def _look_back(self, asking, x, visible):
        q = heads_apart(self.to_query(asking), self.n_heads)
        k = heads_apart(self.to_key(x), self.n_heads)
        v = heads_apart(self.to_value(x), self.n_heads)
        ago = clicks_ago(x.shape[1], self.reach)
        bias = F.embedding(ago, self.ago.t()).transpose([2, 0, 1])
        return self.merge(heads_together(
            attend(q, k, v, bias, visible, self.drop, self.training)
        ))

    def _mix(self, x):
        x = F.gelu(self.widen(x), approximate=True)
        return self._dropped(self.narrow(self._dropped(x)))

    def forward(self, x, visible, keep):
        asking = self.norm_in(x)
        x = asking + self._look_back(asking, x, visible)
        x = self.norm_mid(x)
        return (x + self._mix(x)) * keep


class NextClick(nn.Layer):
    def __init__(self, n_items, window, net):
        super().__init__()
        width = net.width
        self.scale = width ** 0.5
        self.drop = net.drop
        self.popularity = self.create_parameter(
            [n_items], default_initializer=I.Constant(0.0)
        )
        self.items = table(n_items, width, std=width ** -0.5, padding=0)
        self.places = table(window, width, std=0.02)
        self.layers = nn.LayerList(Layer(net) for _ in range(net.depth))
        self.norm_out = nn.LayerNorm(width, epsilon=net.eps)

    def forward(self, clicks):
        real = clicks != 0
        keep = real.astype(self.items.weight.dtype).unsqueeze(-1)
        visible = visible_keys(real)

        places = paddle.arange(clicks.shape[1])
        x = self.items(clicks) * self.scale + self.places(places)
        x = F.dropout(x, p=self.drop, training=self.training) * keep
        for layer in self.layers:
            x = layer(x, visible, keep)
        x = self.norm_out(x)
        return paddle.matmul(x, self.items.weight, transpose_y=True) + self.popularity
