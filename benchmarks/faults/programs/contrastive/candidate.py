"""The port to Paddle of the network for pictures and captions; its losses are in losses.py."""

import paddle
from paddle import nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F

from .losses import contrast, focal, overlap

WORDS, WIDTH = 120, 24


class Round(PyLayer):
    """Rounds to eighths; the gradient passes where the value was inside [-0.5, 0.5]."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.round(x * 8) / 8

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * (x.abs() <= 0.5).astype(gradient.dtype)


class Pictures(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(3, 12, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2D(12, 24, 3, stride=2, padding=1)
        self.lateral = nn.Conv2D(12, 24, 1)
        self.proj = nn.Linear(24, WIDTH)

    def forward(self, x):
        low = F.relu(self.conv1(x))
        high = F.relu(self.conv2(low))
        high = F.interpolate(high, scale_factor=2, mode="nearest")
        strongest = paddle.amax(high, [2, 3])
        merged = self.lateral(low) + high
        return merged, self.proj(strongest)


class Captions(nn.Layer):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.word(ids).detach()
        x = F.softplus(self.mix(x))
        x = x.mean(1)
        return self.proj(x)


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.pictures = Pictures()
        self.captions = Captions()
        self.scale = self.create_parameter([])
        self.boxes = nn.Conv2D(24, 4, 1)
        self.objects = nn.Conv2D(24, 1, 1)

    def forward(self, image, ids):
        features, seen = self.pictures(image)
        read = self.captions(ids)
        seen = Round.apply(seen)
        seen = F.normalize(seen, axis=-1)
        read = F.normalize(read, axis=-1)
        scale = self.scale.clip(max=4.6).exp()
        boxes = self.boxes(features).flatten(2).transpose([0, 2, 1])
        objects = self.objects(features).flatten(1)
        return {"seen": seen, "read": read, "scale": scale, "boxes": boxes, "objects": objects}


def build_model():
    return Model()


def loss(outputs, labels):
    micro = [slice(0, 1), slice(1, 4)]
    total = sum(focal({"objects": outputs["objects"][part]}, labels["held"][part]) for part in micro) / len(micro)
    return contrast(outputs) + total + overlap(outputs, labels["held"], labels["boxes"])


def build_optimizer(model):
    towers = [*model.pictures.parameters(), *model.captions.parameters()]
    heads = [model.scale, *model.boxes.parameters(), *model.objects.parameters()]
    return paddle.optimizer.Momentum(
        learning_rate=paddle.optimizer.lr.StepDecay(0.1, 2, 0.5),
        momentum=0.9,
        parameters=[{"params": towers, "learning_rate": 0.1}, {"params": heads, "learning_rate": 1.0}],
        weight_decay=1e-2,
    )
