"""WDSR-like x2 super-resolution for PaddlePaddle, weight norm written out."""
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, ROOT)
from options import Data, Net, Solver  # noqa: E402


class WNConv2D(nn.Layer):
    """w = g * v / ||v||, one gain per output channel."""

    def __init__(self, cin, cout, k, lr_mult=1.0):
        super().__init__()
        self.pad = (k - 1) // 2
        attr = lambda init: paddle.ParamAttr(initializer=init, learning_rate=lr_mult)
        self.v = self.create_parameter(
            [cout, cin, k, k], attr=attr(nn.initializer.KaimingNormal(fan_in=cin * k * k)))
        self.b = self.create_parameter([cout], attr=attr(nn.initializer.Constant(0.0)), is_bias=True)
        self.g = self.create_parameter([cout], attr=attr(nn.initializer.Assign(self.norm().numpy())))

    def norm(self):
        return self.v.square().sum(axis=[1, 2, 3]).sqrt()

    @property
    def weight(self):
        return self.v * (self.g / self.norm()).reshape([-1, 1, 1, 1])

    def forward(self, x):
        return F.conv2d(x, self.weight, self.b, padding=self.pad)


class WideBlock(nn.Layer):
    def __init__(self):
        super().__init__()
        wide = Net.width * Net.expand
        self.spatial = WNConv2D(Net.bottleneck, Net.width, 3)
        self.squeeze = WNConv2D(wide, Net.bottleneck, 1)
        self.expand = WNConv2D(Net.width, wide, 1)

    def forward(self, x):
        h = F.relu(self.expand(x))
        return paddle.add(x, Net.branch_gain * self.spatial(self.squeeze(h)))


class SuperNet(nn.Layer):
    def __init__(self):
        super().__init__()
        out = 3 * Net.scale ** 2
        mult = Solver.upscale_lr_mult
        self.register_buffer("rgb_mean", paddle.to_tensor(Net.rgb_mean).reshape([1, 3, 1, 1]), persistable=False)
        self.trunk = nn.Sequential(("first", WNConv2D(3, Net.width, 3)),
                                   *[(f"block{i}", WideBlock()) for i in range(Net.depth)])
        self.shortcut = WNConv2D(3, out, 5, lr_mult=mult)
        self.to_pixels = WNConv2D(Net.width, out, 3, lr_mult=mult)

    def forward(self, x):
        x = x - self.rgb_mean
        # shuffle is linear, so both branches are summed first
        y = self.to_pixels(self.trunk(x)) + self.shortcut(x)
        return F.pixel_shuffle(y, Net.scale) + self.rgb_mean


class PatchSet(paddle.io.Dataset):
    def __init__(self, mode="train"):
        photos = dict(np.load(os.path.join(ROOT, os.pardir, "data", "photos.npz")))
        keys = sorted(photos)
        keys = keys[-Data.held_out:] if mode == "val" else keys[:-Data.held_out]
        self.training = mode == "train"
        self.photos = [photos[k] for k in keys]
        p, st = Data.hr_patch, Data.stride
        self.index = [(n, r, c) for n, im in enumerate(self.photos)
                      for r in range(0, im.shape[0] - p + 1, st) for c in range(0, im.shape[1] - p + 1, st)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        n, r, c = self.index[i]
        hwc = self.photos[n][r:r + Data.hr_patch, c:c + Data.hr_patch]
        if self.training:
            hwc = hwc[:, ::-1] if i & 1 else hwc
            hwc = np.rot90(hwc, (i >> 1) & 3)
        hr = np.ascontiguousarray(hwc.transpose(2, 0, 1)).astype("float32") / np.float32(255)
        lr = sum(hr[:, dy::2, dx::2] for dy in (0, 1) for dx in (0, 1)) / np.float32(4)
        return lr, hr


def build_model():
    return SuperNet()


def build_dataset(split):
    return PatchSet(split)


def build_dataloader(split):
    ds = PatchSet(split)
    if split != "train":
        return paddle.io.DataLoader(ds, batch_size=4)
    sampler = paddle.io.BatchSampler(ds, shuffle=True, batch_size=Data.batch, drop_last=True)
    return paddle.io.DataLoader(ds, batch_sampler=sampler)


def loss(outputs, labels):
    diff = outputs - labels
    pixel = (diff * diff + 1e-6).sqrt().mean()
    edge = paddle.diff(diff, axis=3).abs().mean() + paddle.diff(diff, axis=2).abs().mean()
    return {"pixel": pixel, "edge": edge, "loss": pixel + 0.1 * edge}


LUMA = paddle.to_tensor([65.481, 128.553, 24.966]) / 255.0


def metric(outputs, labels):
    # the constant offset of 16 cancels in the difference
    d = paddle.einsum("nchw,c->nhw", outputs.clip(0, 1) - labels.clip(0, 1), LUMA)
    b = Net.scale
    mse = d[:, b:-b, b:-b].square().mean(axis=[1, 2])
    return {"psnr_y": float((-10.0 * paddle.maximum(mse, paddle.to_tensor(1e-10)).log10()).mean())}


def build_optimizer(model):
    cosine = paddle.optimizer.lr.LambdaDecay(
        Solver.base_lr,
        lambda t: (t + 1) / Solver.warmup_steps if t < Solver.warmup_steps else
        0.5 + 0.5 * float(np.cos(np.pi * (t - Solver.warmup_steps) / (Solver.max_steps - Solver.warmup_steps))))
    b1, b2 = Solver.betas
    return paddle.optimizer.Adam(cosine, beta1=b1, beta2=b2, epsilon=Solver.eps, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    low, high = batch
    model.train()
    parts = loss(model(low), high)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return parts


@paddle.no_grad()
def predict(path, model):
    model.eval()
    x = paddle.to_tensor(np.load(path).transpose(2, 0, 1)[None].astype("float32") / np.float32(255))
    both = model(paddle.concat([x, x.flip(axis=[3])]))
    y = 0.5 * (both[:1] + both[1:].flip(axis=[3]))
    y = y.clip(0.0, 1.0).transpose([0, 2, 3, 1])[0].numpy()
    return {"size": list(y.shape[:2]), "image": y}
