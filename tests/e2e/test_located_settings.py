"""Faults in what a port is set up with, and beside the step that shows them: the line to be edited is named first, and no other."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F

SIDE, SIZES = 8, (3.3, 7.7)


class Down(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inner, outer, 3, padding=1), nn.InstanceNorm2d(outer, affine=True, eps=1e-3)

    def forward(self, x):
        return torch.tanh(self.norm(self.conv(x)))


def anchors():
    places = torch.arange(SIDE, dtype=torch.float32) + 0.5
    y, x = torch.meshgrid(places, places, indexing="ij")
    return torch.cat([torch.stack([x, y], -1), torch.tensor(SIZES).expand(SIDE, SIDE, 2)], -1).flatten(0, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Down(3, 8), Down(8, 8)
        self.mixed, self.gate, self.new = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        self.wide, self.head, self.word = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 8, 1)
        self.register_buffer("anchors", anchors(), persistent=False)

    def forward(self, x):
        x = self.second(self.first(x))
        x = x + torch.tanh(self.mixed(x))
        g = torch.sigmoid(self.gate(x))
        x = (1 - g) * x + g * torch.tanh(self.new(x))
        x = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5)
        force = torch.norm(x, dim=(2, 3), keepdim=True)
        x = x * (force / (force.mean(1, keepdim=True) + 1e-6))
        strength = x.amax(1, keepdim=True)
        x = F.avg_pool2d(F.pad(self.wide(x) * strength, (0, 1, 0, 1), mode="replicate"), 2, stride=1)
        x = x + torch.tanh(self.word(x) * 3.5) + torch.sigmoid(self.word(x.flip(1)) * 3.5)
        shifts = self.head(x).flatten(2).transpose(1, 2) * x.new_tensor([0.1, 0.1, 0.2, 0.2])
        centres = self.anchors[:, :2] + shifts[..., :2] * self.anchors[:, 2:]
        return torch.cat([centres, self.anchors[:, 2:] * shifts[..., 2:].exp()], -1)


def build_model():
    torch.manual_seed(3)
    model = Net()
    for name, parameter in model.named_parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model
"""

CANDIDATE = """
import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

SIDE, SIZES = 8, (3.3, 7.7)


class Down(nn.Layer):
    def __init__(self, inner, outer, epsilon=1e-3):
        super().__init__()
        self.conv = nn.Conv2D(inner, outer, 3, padding=1)
        self.norm = nn.InstanceNorm2D(outer, epsilon=epsilon)

    def forward(self, x):
        return paddle.tanh(self.norm(self.conv(x)))


class Norm:
    def __init__(self, epsilon=1e-5):
        self.epsilon = epsilon

    def __call__(self, x):
        return x / paddle.sqrt((x * x).mean(1, keepdim=True) + self.epsilon)


class Coder:
    def __init__(self, weights=(10.0, 10.0, 5.0, 5.0)):
        self.weights = weights

    def __call__(self, shifts, boxes):
        wx, wy, ww, wh = self.weights
        x = boxes[:, 0] + shifts[:, :, 0] / wx * boxes[:, 2]
        y = boxes[:, 1] + shifts[:, :, 1] / wy * boxes[:, 3]
        w = paddle.exp(shifts[:, :, 2] / ww) * boxes[:, 2]
        h = paddle.exp(shifts[:, :, 3] / wh) * boxes[:, 3]
        return paddle.stack([x, y, w, h], axis=-1)


def anchors():
    places = np.arange(SIDE) + 0.5
    xs, ys = np.meshgrid(places, places)
    width = np.full_like(xs, SIZES[0])
    height = np.full_like(xs, SIZES[1])
    boxes = np.stack([xs, ys, width, height], axis=-1)
    return boxes.reshape(-1, 4).astype("float32")


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(*[Down(3, 8), Down(8, 8)])
        self.mixed, self.gate, self.new = nn.Conv2D(8, 8, 3, padding=1), nn.Conv2D(8, 8, 1), nn.Conv2D(8, 8, 1)
        self.wide, self.word, self.head = nn.Conv2D(8, 8, 1), nn.Conv2D(8, 8, 1), nn.Conv2D(8, 4, 1)
        self.rms = Norm()
        self.coder = Coder()
        self.anchors = anchors()

    def smoothed(self, x):
        x = F.pad(x, [0, 1, 0, 1], mode="replicate")
        return F.avg_pool2d(x, kernel_size=2, stride=1)

    def respond(self, x):
        force = paddle.sqrt((x * x).sum([2, 3], keepdim=True))
        share = force / (paddle.mean(force, axis=1, keepdim=True) + 1e-6)
        return x * share

    def mix(self, inputs):
        x = self.mixed(inputs)
        y = x.flatten(2)
        y = paddle.tanh(y)
        return inputs + y.reshape(inputs.shape)

    def said(self, x):
        return self.word(x) * 3.5

    def forward(self, x):
        x = self.mix(self.down(x))
        x = x + F.sigmoid(self.gate(x)) * (paddle.tanh(self.new(x)) - x)
        x = self.respond(self.rms(x))
        strength = x.max(axis=1, keepdim=True)
        x = self.smoothed(self.wide(x) * strength)
        x = x + paddle.tanh(self.said(x)) + F.sigmoid(self.said(x.flip(1)))
        shifts = self.head(x).flatten(2).transpose([0, 2, 1])
        return self.coder(shifts, paddle.to_tensor(self.anchors).astype(shifts.dtype))


def build_model():
    return Net()
"""

#: name -> what is replaced, by what, and what stands on the line to be named
FAULTS = {
    "one of two norms on a line": ("Down(8, 8)]", "Down(8, 8, 1e-2)]", "Down(8, 8, 1e-2)"),
    "both norms": ("outer, epsilon=epsilon", "outer", "nn.InstanceNorm2D(outer)"),
    "a small epsilon among other ways": ("epsilon=1e-5", "epsilon=1e-6", "+ self.epsilon"),
    "a constant of the module": ("SIZES = 8, (3.3, 7.7)", "SIZES = 8, (3.3, 6.6)", "SIZES = 8, (3.3, 6.6)"),
    "a grid the other way round": ("np.meshgrid(places, places)", 'np.meshgrid(places, places, indexing="ij")', 'indexing="ij"'),
    "parts of a grid exchanged where they are taken": ("np.stack([xs, ys,", "np.stack([ys, xs,", "np.stack([ys, xs,"),
    "a setting that two lines read": ("weights=(10.0, 10.0, 5.0, 5.0)", "weights=(1.0, 1.0, 5.0, 5.0)", "self.coder = Coder()"),
    "a number in one line": ("shifts[:, :, 1] / wy", "shifts[:, :, 1] / 5.0", "shifts[:, :, 1] / 5.0"),
    "a mean over axes of one element": ("paddle.mean(force, axis=1,", "paddle.mean(force, axis=[2, 3],", "paddle.mean(force, axis=[2, 3],"),
    "a factor behind the function that it belongs into": (
        "self.smoothed(self.wide(x) * strength)",
        "self.smoothed(self.wide(x)) * strength",
        "self.smoothed(self.wide(x)) * strength",
    ),
    "a second name for another value": ("x = self.mixed(inputs)", "x = inputs = self.mixed(inputs)", "x = inputs = self.mixed(inputs)"),
    "another value by its own name": ("return inputs + y", "return x + y", "return x + y"),
    "a step that a helper lacks": ("return self.word(x) * 3.5", "return self.word(x)", "return self.word(x)"),
    "a step that one use of a helper lacks": ("paddle.tanh(self.said(x))", "paddle.tanh(self.word(x))", "paddle.tanh(self.word(x))"),
}

COUNT = itertools.count()


def side(path, framework):
    spec = importlib.util.spec_from_file_location(f"settings_{next(COUNT)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Side(framework=framework, functions={"build_model": module.build_model})


def checked(folder, text):
    for name, source in (("reference.py", REFERENCE), ("candidate.py", text)):
        (folder / name).write_text(source)
    torch.manual_seed(7)
    sides = side(folder / "reference.py", "torch"), side(folder / "candidate.py", "paddle")
    return check(*sides, inputs=torch.randn(2, 3, 8, 8).numpy(), stages=["forward"], out=folder / "result")["forward"]


def test_the_port_is_right(tmp_path):
    stage = checked(tmp_path, CANDIDATE)
    assert (stage.verdict, stage.divergences) == ("aligned", [])


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_line_is_named_first(tmp_path, name):
    old, new, wanted = FAULTS[name]
    assert CANDIDATE.count(old) == 1
    stage = checked(tmp_path, CANDIDATE.replace(old, new))
    assert stage.verdict == "diverged"
    file, _, line = stage.divergences[0].candidate.source.rpartition(":")
    assert file == str(tmp_path / "candidate.py")
    assert wanted in (tmp_path / "candidate.py").read_text().splitlines()[int(line) - 1]
