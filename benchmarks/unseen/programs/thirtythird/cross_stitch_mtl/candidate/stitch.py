"""Two tasks, two towers, cross-stitch units. PaddlePaddle."""
import json
import math
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Normal, TruncatedNormal

DATA = Path(__file__).resolve().parents[1] / "data"
LAYERS = {}


def layer(cls):
    LAYERS[cls.__name__.lower()] = cls
    return cls


def make(kind, *args, **kw):
    return LAYERS[kind](*args, **kw)


def pixels(images):
    x = np.asarray(images, dtype="float32")
    return ((x / np.float32(255) - np.float32(0.25)) / np.float32(0.35))[..., None, :, :]


class ShapeData(paddle.io.Dataset):
    def __init__(self, split):
        raw = np.load(DATA / f"{split}.npz")
        twice = 2.0 * raw["angle"].astype("float64")
        self.x = pixels(raw["image"])
        self.y = {"shape": raw["shape"].astype("int64"), "has": raw["has_angle"],
                  "dir": np.stack([np.cos(twice), np.sin(twice)], 1).astype("float32")}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], {k: np.asarray(v[i]) for k, v in self.y.items()}


def conv(i, o, k, groups=1, bias=False, **kw):
    fan_out = o * k * k             # torch counts all filters, groups or not
    return nn.Conv2D(i, o, k, groups=groups, padding=k // 2, weight_attr=Normal(0.0, math.sqrt(2.0 / fan_out)),
                     bias_attr=None if bias else False, **kw)


def dense(i, o):
    return nn.Linear(i, o, weight_attr=TruncatedNormal(std=0.1, a=-0.2, b=0.2))


@layer
class Unit(nn.Layer):
    """Depthwise, pointwise, norm, swish and the channel gate."""

    def __init__(self, i, o, stride, reduce=4):
        super().__init__()
        self.squeeze, self.excite = dense(o, o // reduce), dense(o // reduce, o)
        self.gn = nn.GroupNorm(num_groups=4, num_channels=o)
        self.point = conv(i, o, 1)
        self.depth = conv(i, i, 3, groups=i, stride=stride)

    def gate(self, x):
        w = F.adaptive_avg_pool2d(x, 1).flatten(1)
        w = self.excite(F.relu(self.squeeze(w)))
        return paddle.clip(w / 6.0 + 0.5, 0.0, 1.0).reshape([-1, x.shape[1], 1, 1])

    def forward(self, x):
        x = F.swish(self.gn(self.point(self.depth(x))))
        return x * self.gate(x)


@layer
class Mix(nn.Layer):
    def __init__(self, channels, own=0.9):
        super().__init__()
        start = np.full([2, 2, channels], 1 - own, "float32")
        start[[0, 1], [0, 1]] = own
        self.table = self.create_parameter(start.shape, attr=paddle.ParamAttr(learning_rate=10.0),
                                           default_initializer=Assign(start))

    def forward(self, a, b):
        w = self.table.unsqueeze([-1, -2])
        return tuple(w[t, 0] * a + w[t, 1] * b for t in range(2))


class StitchNet(nn.Layer):
    def __init__(self, widths=(8, 12, 16)):
        super().__init__()
        self.out_dir, self.out_shape = dense(widths[-1], 2), dense(widths[-1], 3)
        self.sigma = self.create_parameter([2], attr=paddle.ParamAttr(learning_rate=10.0),
                                           default_initializer=Assign(np.array([0.0, -0.5], "float32")))
        self.first = nn.LayerList([conv(1, widths[0], 3, bias=True) for _ in "ab"])
        stages = []
        for n, (i, o) in enumerate(zip(widths, widths[1:])):
            stages.append(nn.LayerList([make("unit", i, o, 1 + (n == 0)) for _ in "ab"] + [make("mix", o)]))
        self.stages = nn.LayerList(stages)

    def stage(self, k, a, b):
        left, right, mix = self.stages[k]
        return mix(left(a), right(b))

    def forward(self, x):
        a, b = (f(x) for f in self.first)
        for k in range(len(self.stages)):
            a, b = self.stage(k, a, b)
        a, b = (0.5 * (h.flatten(2).max(-1) + h.flatten(2).mean(-1)) for h in (a, b))
        return {"log_var": self.sigma, "dir": paddle.tanh(self.out_dir(b)), "shape": self.out_shape(a)}


def build_model():
    return StitchNet()


def build_dataset(split):
    return ShapeData(split)


def build_dataloader(split):
    fit = split == "train"
    return paddle.io.DataLoader(build_dataset(split), batch_size=8, shuffle=fit, drop_last=fit)


def loss(outputs, labels):
    logp = F.log_softmax(outputs["shape"])
    ce = F.nll_loss(logp, labels["shape"])
    has = labels["has"].astype("float32")
    sq = paddle.square(outputs["dir"] - labels["dir"]).sum(-1)
    reg = paddle.dot(sq, has) / paddle.clip(has.sum(), min=1.0)
    w = paddle.exp(-outputs["log_var"])
    return {"loss": w[0] * ce + w[1] * reg / 2 + outputs["log_var"].mean(), "shape": ce, "dir": reg}


class HalfAngle(paddle.metric.Metric):
    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        self.errors = []

    def name(self):
        return "angle_deg"

    def update(self, pred, true):
        z = (pred[:, 0] + 1j * pred[:, 1]) * (true[:, 0] - 1j * true[:, 1])
        self.errors.extend(np.degrees(np.abs(np.angle(z)) / 2).tolist())

    def accumulate(self):
        return float(np.mean(self.errors)) if self.errors else 0.0


def metric(outputs, labels):
    keep = labels["has"].numpy()
    m = HalfAngle()
    m.update(outputs["dir"].numpy()[keep], labels["dir"].numpy()[keep])
    hit = paddle.metric.accuracy(outputs["shape"], labels["shape"].unsqueeze(-1))
    return {m.name(): m.accumulate(), "acc": float(hit)}


def build_optimizer(model, epochs=8, steps=14, base=3e-3):
    warm = steps
    span = epochs * steps - warm
    curve = paddle.optimizer.lr.LambdaDecay(base, lambda t: (t + 1) / warm if t < warm else
                                            math.cos(math.pi / 2 * min(1.0, (t - warm) / span)) ** 2)
    decayed = {p.name for layer in model.sublayers() if isinstance(layer, (nn.Linear, nn.Conv2D))
               for p in (layer.weight,)}
    return paddle.optimizer.AdamW(curve, parameters=model.parameters(), weight_decay=0.05,
                                  apply_decay_param_fun=lambda name: name in decayed)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    image, labels = batch
    model.train()
    terms = loss(model(image), labels)
    terms["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in terms.items()}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    out = model(paddle.to_tensor(pixels(json.loads(Path(path).read_text())["images"])))
    c, s = out["dir"].numpy().T
    return {"angle": np.arctan2(s, c) / 2, "prob": F.softmax(out["shape"], axis=-1).numpy()}
