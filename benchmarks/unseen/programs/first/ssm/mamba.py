from dataclasses import dataclass

import paddle
import paddle.nn.functional as F
from paddle import nn


@dataclass
class MambaConfig:
    vocab: int
    width: int
    layers: int
    state: int = 4
    expand: int = 2
    kernel: int = 4
    rank: int = 3
    eps: float = 1e-5

    @property
    def inner(self):
        return self.width * self.expand


class RootNorm(nn.Layer):
    def __init__(self, width, eps):
        super().__init__()
        self.eps = eps
        self.scale = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))

    def forward(self, x):
        power = paddle.square(x.astype("float32")).mean(axis=-1, keepdim=True)
        normed = x.astype("float32") / paddle.sqrt(power + self.eps)
        return normed.astype(x.dtype) * self.scale


class SelectiveSSM(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        inner = cfg.inner
        self.gate_proj = nn.Linear(cfg.width, inner, bias_attr=False)
        self.value_proj = nn.Linear(cfg.width, inner, bias_attr=False)
        self.conv = nn.Conv1D(inner, inner, cfg.kernel, groups=inner)
        self.select = nn.Linear(inner, cfg.rank + 2 * cfg.state, bias_attr=False)
        self.step = nn.Linear(cfg.rank, inner)
        init = paddle.log(paddle.arange(1, cfg.state + 1).astype("float32")).tile([inner, 1])
        self.log_a = self.create_parameter([inner, cfg.state], default_initializer=nn.initializer.Assign(init))
        self.skip = self.create_parameter([inner], default_initializer=nn.initializer.Constant(1.0))
        self.back = nn.Linear(inner, cfg.width, bias_attr=False)

    def forward(self, u):
        cfg = self.cfg
        v = self.value_proj(u).transpose([0, 2, 1])
        v = F.pad(v, [cfg.kernel - 1, 0], data_format="NCL")
        v = F.silu(self.conv(v)).transpose([0, 2, 1])
        delta, write, read = paddle.split(self.select(v), [cfg.rank, cfg.state, cfg.state], axis=-1)
        delta = F.softplus(self.step(delta))
        decay = paddle.exp(-paddle.einsum("bld,dn->bldn", delta, self.log_a.exp()))
        drive = paddle.einsum("bld,bln->bldn", delta * v, write)
        state, states = None, []
        for keep, new in zip(decay.unbind(axis=1), drive.unbind(axis=1)):
            state = new if state is None else keep * state + new
            states.append(state)
        y = paddle.einsum("bldn,bln->bld", paddle.stack(states, axis=1), read)
        y = y + self.skip * v
        return self.back(y * F.silu(self.gate_proj(u)))


class Residual(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.mix = SelectiveSSM(cfg)
        self.norm = RootNorm(cfg.width, cfg.eps)

    def forward(self, x):
        return self.mix(self.norm(x)) + x


class MambaLM(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.blocks = nn.LayerList([Residual(cfg) for _ in range(cfg.layers)])
        self.last = RootNorm(cfg.width, cfg.eps)
        self.table = nn.Embedding(cfg.vocab, cfg.width)

    def forward(self, tokens):
        h = self.table(tokens)
        hidden = []
        for block in self.blocks:
            h = block(h)
            hidden.append(h)
        # output layer and embedding are one matrix
        logits = paddle.matmul(self.last(h), self.table.weight, transpose_y=True)
        return {"logits": logits, "hidden": hidden}
