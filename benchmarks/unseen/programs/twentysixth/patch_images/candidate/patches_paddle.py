"""Patches of two photographs, PaddlePaddle version."""
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from PIL import Image
from paddle.io import DataLoader, Dataset
from paddle.nn.initializer import Constant, KaimingNormal, Normal
from sklearn.datasets import load_sample_images

LR = 0.05
STEPS, WARM = 8 * 14, 10
N_CLASS = 8
PATCH = 16
CHANNEL_STATS = np.array([[0.45, 0.42, 0.38], [0.27, 0.26, 0.28]], dtype="float32").reshape(2, 3, 1, 1)


def normalise(hwc):
    """uint8 HWC (or NHWC) -> float32 CHW (or NCHW)."""
    chw = np.moveaxis(np.asarray(hwc), -1, -3).astype("float32") / np.float32(255)
    return (chw - CHANNEL_STATS[0]) / CHANNEL_STATS[1]


class PhotoPatches(Dataset):
    SIZES = {"train": 168, "val": 48}

    def __init__(self, split):
        super().__init__()
        found = load_sample_images()
        by_name = {os.path.basename(n): im for n, im in zip(found.filenames, found.images)}
        self.split = split
        self.photos = []
        for name in ("china.jpg", "flower.jpg"):
            small = by_name[name][::5, ::5]
            left, right = small[:, :small.shape[1] // 2], small[:, small.shape[1] // 2:]
            self.photos.append(left if split == "train" else right)

    def __len__(self):
        return self.SIZES[self.split]

    def __getitem__(self, i):
        which, turns = divmod(i % N_CLASS, 4)
        photo = self.photos[which]
        gen = np.random.default_rng([1 if self.split == "train" else 0, i])
        y0, x0 = [int(gen.integers(s - PATCH + 1)) for s in photo.shape[:2]]
        crop = photo[y0:y0 + PATCH, x0:x0 + PATCH]
        if self.split == "train":
            crop = np.fliplr(crop) if gen.random() < 0.5 else crop
        return normalise(np.rot90(crop, turns)).copy(), np.array(i % N_CLASS, dtype="int64")


class BatchNorm(nn.Layer):
    """Batch norm whose running variance is the unbiased one (nn.BatchNorm2D keeps the biased one)."""

    def __init__(self, c, gain=1.0, rate=0.1, eps=1e-5):
        super().__init__()
        self.rate, self.eps = rate, eps
        self.weight = self.create_parameter([c], default_initializer=Constant(gain))
        self.bias = self.create_parameter([c], is_bias=True)
        self.register_buffer("_mean", paddle.zeros([c]))
        self.register_buffer("_variance", paddle.ones([c]))

    def forward(self, x):
        mean, var = self._mean, self._variance
        if self.training:
            mean = x.mean(axis=[0, 2, 3])
            var = (x - mean.reshape([1, -1, 1, 1])).square().mean(axis=[0, 2, 3])
            n = x.shape[0] * x.shape[2] * x.shape[3]
            with paddle.no_grad():
                self._mean.set_value((1 - self.rate) * self._mean + self.rate * mean)
                self._variance.set_value((1 - self.rate) * self._variance + self.rate * var * (n / (n - 1)))
        scale = self.weight * paddle.rsqrt(var + self.eps)
        shift = self.bias - mean * scale
        return x * scale.reshape([1, -1, 1, 1]) + shift.reshape([1, -1, 1, 1])


def conv(cin, cout, k=1, bias=True, **kw):
    fan_in = cin // kw.get("groups", 1) * k * k
    he = KaimingNormal(fan_in=fan_in, nonlinearity="relu")
    return nn.Conv2D(cin, cout, k, weight_attr=paddle.ParamAttr(initializer=he), bias_attr=None if bias else False, **kw)


def head(i):
    return nn.Linear(i, N_CLASS, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 0.01)))


class Squeeze(nn.Layer):
    def __init__(self, c, r=4):
        super().__init__()
        self.shrink, self.grow = conv(c, r), conv(r, c)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, output_size=1)
        s = self.grow(F.relu(self.shrink(s)))
        return x * F.relu6(s + 3.0) / 6.0


class Stage(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.shortcut = conv(cin, cout)
        self.dw = nn.Sequential(conv(cin, cin, 3, bias=False, stride=2, padding=1, groups=cin), BatchNorm(cin))
        self.pw = nn.Sequential(conv(cin, cout, bias=False), BatchNorm(cout, gain=0.5), Squeeze(cout))

    def forward(self, x):
        y = self.dw(x)
        y = self.pw(y * F.relu6(y + 3.0) / 6.0)
        return F.relu(y + self.shortcut(F.avg_pool2d(x, 2)))


class PatchNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.heads = nn.LayerList([head(16), head(40)])
        self.entry = nn.Sequential(conv(3, 10, 3, bias=False, padding=1), BatchNorm(10), nn.ReLU())
        self.stages = nn.LayerList([Stage(10, 16), Stage(16, 24)])
        self.drop = nn.Dropout2D(0.1)
        self.side = conv(24, 16)

    def forward(self, x):
        feats = [self.entry(x)]
        for stage in self.stages:
            feats.append(stage(feats[-1]))
        _, low, high = feats
        up = F.interpolate(self.side(high), size=low.shape[2:], mode="bilinear")
        peak = F.adaptive_max_pool2d(self.drop(low + up), 1).flatten(1)
        pooled = [f.flatten(2).mean(-1) for f in (low, high)]
        return self.heads[0](pooled[0]), self.heads[1](paddle.concat([pooled[1], peak], axis=-1))


def build_model():
    return PatchNet()


def build_dataset(split):
    return PhotoPatches(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=12, shuffle=(split == "train"), num_workers=0)


def loss(outputs, labels):
    soft = len(labels.shape) == 2
    terms = [F.cross_entropy(z, labels, soft_label=soft) for z in outputs]
    return 0.3 * terms[0] + 0.7 * terms[1]


def metric(outputs, labels):
    y = labels.numpy()
    early, late = [F.softmax(o, axis=-1).numpy() for o in outputs]
    acc = lambda p: float((p.argmax(1) == y).mean())
    top3 = lambda p: float(np.mean([t in np.argsort(-row)[:3] for row, t in zip(p, y)]))
    leave = early.max(1) > 0.2
    mixed = late.copy()
    mixed[leave] = early[leave]
    return {"exit_rate": float(leave.mean()), "adaptive_acc": acc(mixed),
            "photo_acc": float(((late.argmax(1) < 4) == (y < 4)).mean()),
            "early_acc": acc(early), "late_acc": acc(late),
            "early_top3": top3(early), "late_top3": top3(late)}


def build_optimizer(model):
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(LR, T_max=STEPS - WARM)
    lr = paddle.optimizer.lr.LinearWarmup(cosine, warmup_steps=WARM, start_lr=0.1 * LR, end_lr=LR)
    vectors = [p for p in model.parameters() if len(p.shape) == 1]
    heads = [h.weight for h in model.heads]
    taken = {p.name for p in vectors + heads}
    kernels = [p for p in model.parameters() if p.name not in taken]
    groups = [{"params": vectors, "weight_decay": 0.0},
              {"params": heads, "learning_rate": 3.0, "weight_decay": 5e-4},
              {"params": kernels, "weight_decay": 5e-4}]
    return paddle.optimizer.Momentum(lr, momentum=0.9, use_nesterov=True, parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    x, y = batch
    lam = np.random.beta(0.4, 0.4)
    partner = paddle.to_tensor(np.random.permutation(x.shape[0]))
    target = F.one_hot(y, N_CLASS)
    blend = lambda t: paddle.lerp(t.index_select(partner, axis=0), t, paddle.to_tensor(lam, dtype="float32"))
    out = loss(model(blend(x)), blend(target))
    out.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"lam": float(lam), "loss": float(out)}


def predict(path, model):
    picture = np.array(Image.open(path).convert("RGB"))
    h, w = (s // PATCH for s in picture.shape[:2])
    tiles = picture[:h * PATCH, :w * PATCH].reshape(h, PATCH, w, PATCH, 3).swapaxes(1, 2).reshape(-1, PATCH, PATCH, 3)
    model.eval()
    with paddle.no_grad():
        prob = F.softmax(model(paddle.to_tensor(normalise(tiles)))[1], axis=-1)
        mean = prob.mean(axis=0).numpy()
    k = int(mean.argmax())
    return {"label": f"{('china', 'flower')[k // 4]}@{k % 4 * 90}", "mean": mean,
            "tiles": prob.numpy().reshape(h, w, N_CLASS)}
