"""Audio tower, tune tower and the retriever of both (Paddle)."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from conf import MODEL


def attr(law):
    return paddle.ParamAttr(initializer=law)


def conv1d(cin, cout, k, **kwargs):
    bound = 1 / math.sqrt(cin // kwargs.get("groups", 1) * k)
    law = I.Uniform(-bound, bound)
    return nn.Conv1D(cin, cout, k, weight_attr=attr(law), bias_attr=attr(law), **kwargs)


def linear(cin, cout):
    bound = 1 / math.sqrt(cin)
    law = I.Uniform(-bound, bound)
    return nn.Linear(cin, cout, weight_attr=attr(law), bias_attr=attr(law))


def embedding(spec):
    return nn.Embedding(spec["tokens"], spec["dim"], padding_idx=0, weight_attr=attr(I.Normal(0.0, 0.5)))


def before(counts, size):
    """True where the position lies before the count of its row."""
    return paddle.arange(size).unsqueeze(0) < counts.unsqueeze(1)


class BandNorm(nn.Layer):
    def __init__(self, bands, keep, epsilon):
        super().__init__()
        self.keep, self.epsilon = keep, epsilon
        self.register_buffer("mean", paddle.zeros([bands]))
        self.register_buffer("var", paddle.ones([bands]))

    @paddle.no_grad()
    def watch(self, rows):
        for kept, new in ((self.mean, rows.mean(axis=0)), (self.var, rows.var(axis=0, unbiased=True))):
            kept.set_value(self.keep * kept + (1 - self.keep) * new)

    def forward(self, x, mask):
        if self.training:
            self.watch(paddle.masked_select(x, mask.unsqueeze(-1).expand_as(x)).reshape([-1, x.shape[-1]]))
        x = (x - self.mean) * paddle.rsqrt(self.var + self.epsilon)
        return paddle.where(mask.unsqueeze(-1), x, paddle.zeros_like(x))


class Gru(nn.Layer):
    """A gated recurrent layer written out, one way or both, over rows of given lengths."""

    def __init__(self, cin, state, both=False):
        super().__init__()
        self.state = state
        self.ways = ["l0", "l0_reverse"] if both else ["l0"]
        gates = [0.0] * state + [1.0] * state + [0.0] * state
        plan = (("weight_ih", [3 * state, cin], I.XavierUniform()),
                ("weight_hh", [3 * state, state], I.Orthogonal()),
                ("bias_ih", [3 * state], I.Assign(gates)),
                ("bias_hh", [3 * state], I.Constant(0.0)))
        for way in self.ways:
            for name, shape, law in plan:
                self.add_parameter(name + "_" + way, self.create_parameter(shape, default_initializer=law))

    def walk(self, x, way):
        w_ih, w_hh, b_ih, b_hh = (getattr(self, n + "_" + way) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        given = paddle.matmul(x, w_ih, transpose_y=True) + b_ih
        h = paddle.zeros([x.shape[0], self.state])
        seen = []
        for t in range(x.shape[1]):
            from_x = given[:, t].chunk(3, axis=-1)
            from_h = (paddle.matmul(h, w_hh, transpose_y=True) + b_hh).chunk(3, axis=-1)
            reset = F.sigmoid(from_x[0] + from_h[0])
            update = F.sigmoid(from_x[1] + from_h[1])
            fresh = paddle.tanh(from_x[2] + reset * from_h[2])
            h = fresh + update * (h - fresh)
            seen.append(h)
        return paddle.stack(seen, axis=1)

    def forward(self, x, counts=None):
        y = self.walk(x, "l0")
        if len(self.ways) == 1:
            return y
        at = paddle.arange(x.shape[1]).unsqueeze(0)
        last = counts.unsqueeze(1) - 1
        turned = paddle.where(at <= last, last - at, at.expand([x.shape[0], -1])).unsqueeze(-1)
        flip = lambda v: paddle.take_along_axis(v, turned.expand_as(v), axis=1)  # noqa: E731
        return paddle.concat([y, flip(self.walk(flip(x), "l0_reverse"))], axis=-1)


class AudioTower(nn.Layer):
    def __init__(self, bands, width, groups, state, joint):
        super().__init__()
        self.conv1 = conv1d(bands, width, 5, stride=2, padding=2)
        self.conv2 = conv1d(width, width, 3, padding=1, groups=groups)
        self.gru = Gru(width, state)
        self.proj = linear(2 * state, joint)

    def forward(self, x, frames):
        x = F.elu(self.conv1(x.transpose([0, 2, 1])))
        mask = before((frames + 1) // 2, x.shape[2]).astype("float32")
        x = x * mask.unsqueeze(1)
        x = x + mask.unsqueeze(1) * F.elu(self.conv2(x))
        y = self.gru(x.transpose([0, 2, 1]))
        weight = (mask / mask.sum(axis=1, keepdim=True)).unsqueeze(-1)
        mean = (weight * y).sum(axis=1, keepdim=True)
        var = (weight * paddle.square(y - mean)).sum(axis=1)
        pooled = paddle.concat([mean.squeeze(1), paddle.sqrt(var + 1e-4)], axis=-1)
        return F.normalize(self.proj(pooled), axis=-1)


class TuneTower(nn.Layer):
    def __init__(self, pitch, duration, state, joint):
        super().__init__()
        self.pitch = embedding(pitch)
        self.duration = embedding(duration)
        self.gru = Gru(pitch["dim"] + duration["dim"], state, both=True)
        self.proj = linear(2 * state, joint)

    def forward(self, pitch, duration, notes):
        x = paddle.concat([self.pitch(pitch), self.duration(duration)], axis=-1)
        y = self.gru(x, notes)
        there = before(notes, x.shape[1]).unsqueeze(-1).expand_as(y)
        y = paddle.where(there, y, paddle.full_like(y, -1e4)).max(axis=1)
        return F.normalize(self.proj(y), axis=-1)


class Retriever(nn.Layer):
    def __init__(self):
        super().__init__()
        c = MODEL
        size = (c["bands"], c["width"], c["groups"], c["audio_state"], c["joint"])
        self.norm = BandNorm(c["bands"], c["stat_keep"], c["stat_epsilon"])
        self.audio = AudioTower(*size)
        self.tune = TuneTower(c["pitch"], c["duration"], c["tune_state"], c["joint"])
        self.key = nn.Sequential(linear(c["joint"], c["key_hidden"]), nn.Tanh(), linear(c["key_hidden"], 1))
        self.scale = self.create_parameter([1], default_initializer=I.Constant(-math.log(c["temperature"])))
        self.teacher = AudioTower(*size)
        for old, new in self.teacher_pairs():
            old.set_value(new)
            old.stop_gradient = True

    def teacher_pairs(self):
        return list(zip(self.teacher.parameters(), self.audio.parameters()))

    def forward(self, mel, frames, pitch, duration, notes):
        x = self.norm(mel, before(frames, mel.shape[1]))
        audio = self.audio(x, frames)
        with paddle.no_grad():
            teacher = self.teacher(x, frames)
        return {"audio": audio,
                "tune": self.tune(pitch, duration, notes),
                "teacher": teacher,
                "scale": paddle.exp(self.scale),
                "key": self.key(audio)[:, 0]}
