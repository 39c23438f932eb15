"""Registration of plates with Paddle."""
import csv
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plate_geometry as geo  # noqa: E402
from plate_config import DATA, LIMITS, C  # noqa: E402
from plate_parts import RiseThenSteps, Similarity, conv, correlation, plain_linear, small_linear  # noqa: E402


class PlateNet(nn.Layer):
    def __init__(self):
        super().__init__()
        c1, c2 = C.channels
        g1, g2 = C.groups
        self.conv1 = conv(1, c1, 5, stride=2)
        self.norm1 = nn.GroupNorm(g1, c1)
        self.conv2 = conv(c1, c2, 3, stride=2)
        self.norm2 = nn.GroupNorm(g2, c2)
        self.match = conv((2 * C.reach + 1) ** 2, 8, 3)
        self.hidden = plain_linear(8 * (C.side // 4) ** 2, C.hidden)
        self.out = small_linear(C.hidden, 6)

    def features(self, x):
        for layer, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            x = F.silu(norm(layer(x)))
        return F.normalize(x, axis=1, epsilon=1e-6)

    def guess(self, anchor, moving):
        y = F.relu(self.match(correlation(anchor, self.features(moving), C.reach)))
        y = paddle.tanh(self.out(paddle.tanh(self.hidden(y.flatten(1)))))
        return (y * paddle.to_tensor(LIMITS)).reshape([-1, 2, 3]) + paddle.eye(2, 3)

    def forward(self, fixed, moving):
        anchor = self.features(fixed)
        first = theta = self.guess(anchor, moving)
        warped = geo.warp(moving, theta)
        for _ in range(C.passes - 1):
            theta = geo.compose(theta, self.guess(anchor, warped))
            warped = geo.warp(moving, theta)
        return {"theta": theta, "first": first, "warped": warped, "fixed": fixed}


def build_model():
    return PlateNet()


# -------------------------------------------------------------------- data
def standard(img):
    x = img.astype("float32")
    return ((x - x.mean()) / (x.std() + np.float32(1e-3)))[None]


def truths(split):
    with open(os.path.join(DATA, "truth.csv")) as f:
        for row in csv.DictReader(f):
            if row["split"] == split:
                yield np.array([float(row[k]) for k in C.columns]).reshape(2, 3), C.grades[row["grade"]]


class Pairs(Dataset):
    def __init__(self, split):
        super().__init__()
        self.images = np.load(os.path.join(DATA, split + ".npy"))
        self.truth = list(truths(split))
        turned = range(C.swap_every - 1, len(self.images), C.swap_every) if split == "train" else ()
        self.turned = set(turned)

    def __len__(self):
        return len(self.truth)

    def __getitem__(self, i):
        theta, quality = self.truth[i]
        one, two = self.images[i]
        if i in self.turned:
            one, two, theta = two, one, geo.invert(theta)
        label = {"theta": theta.astype("float32"), "quality": np.asarray(quality, "float32")}
        return standard(one), standard(two), label


def build_dataset(split):
    return Pairs(split)


def build_dataloader(split):
    pairs = build_dataset(split)
    if split == "train":
        order = np.random.default_rng(C.order_seed).permutation(len(pairs))
        return DataLoader(pairs, batch_sampler=np.split(order, range(C.batch, len(order), C.batch)))
    return DataLoader(pairs, batch_size=C.batch)


# ---------------------------------------------------------- loss and metric
def loss(outputs, labels):
    match = Similarity(C.window)(outputs["fixed"], outputs["warped"])
    share = labels["quality"] * (C.hard - match)
    share = share / share.sum()

    def fit(theta):
        e = F.smooth_l1_loss(theta, labels["theta"], reduction="none", delta=C.huber) / C.huber
        return paddle.dot(e.flatten(1).sum(axis=1), share)

    parts = {
        "final": fit(outputs["theta"]),
        "first": fit(outputs["first"]),
        "volume": paddle.log(geo.det(outputs["theta"]).clip(min=0.05)).square().mean(),
    }
    total = sum(C.weights[k] * v for k, v in parts.items())
    return {"loss": total, "match": match.mean(), **parts}


def metric(outputs, labels):
    est, truth = (x["theta"].numpy().astype("float64") for x in (outputs, labels))
    gap = (geo.move(est, geo.CORNERS) - geo.move(truth, geo.CORNERS)) * C.side / 2
    err = np.sqrt((gap**2).sum(axis=2)).mean(axis=1)
    turn = [np.arctan2(t[:, 1, 0], t[:, 0, 0]) for t in (est, truth)]
    pairs = zip(outputs["fixed"].numpy().astype("float64"), outputs["warped"].numpy().astype("float64"))
    return {
        "corner": float(err.mean()),
        "corner_p90": float(np.percentile(err, 90)),
        "near": float(np.mean(err < C.near)),
        "turn": float(np.degrees(np.abs(turn[0] - turn[1])).mean()),
        "size": float(np.abs(np.log(geo.det(est) / geo.det(truth))).mean()),
        "ncc": float(np.mean([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs])),
    }


# ---------------------------------------------------------------- training
def build_optimizer(model):
    body, head, decayed = [], [], set()
    for name, p in model.named_parameters():
        (head if name.split(".")[0] in C.head else body).append(p)
        if len(p.shape) > 1:
            decayed.add(p.name)
    return paddle.optimizer.AdamW(
        RiseThenSteps(C.lr, C.warmup, C.warmup_from, C.step, C.gamma),
        beta1=C.beta1,
        beta2=C.beta2,
        epsilon=C.epsilon,
        parameters=[{"params": body}, {"params": head, "learning_rate": C.head_scale}],
        weight_decay=C.decay,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=nn.ClipGradByNorm(C.clip),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def pieces(batch, size):
    fixed, moving, labels = batch
    n = fixed.shape[0]
    for k in range(0, n, size):
        cut = slice(k, min(k + size, n))
        yield fixed[cut], moving[cut], {key: v[cut] for key, v in labels.items()}, (cut.stop - cut.start) / n


def train_step(model, optimizer, batch):
    model.train()
    seen = {"loss": 0.0, "final": 0.0}
    for fixed, moving, labels, share in pieces(batch, C.micro):
        parts = loss(model(fixed, moving), labels)
        (parts["loss"] * share).backward()
        seen = {k: v + share * parts[k].detach() for k, v in seen.items()}
    optimizer.step()
    optimizer.clear_grad()
    return seen


# --------------------------------------------------------------- inference
def predict(path, model):
    pair = np.load(path).astype("float32")
    h, w = pair.shape[1:]
    small = F.interpolate(paddle.to_tensor(pair[:, None]), size=[C.side, C.side], mode="bilinear", align_corners=False)
    one, two = (paddle.to_tensor(standard(x[0])[None]) for x in small.numpy())
    model.eval()
    with paddle.no_grad():
        theta = model(one, two)["theta"]
        warped = geo.warp(paddle.to_tensor(pair[1][None, None]), theta, (h, w), "zeros").numpy()[0, 0]
    theta = theta.numpy().astype("float64")
    close = abs(geo.det(theta)[0] - 1) < C.aligned_within
    return {
        "theta": theta[0],
        "pixel_map": geo.to_pixels(theta[0], h, w),
        "warped": warped,
        "rms": [float(np.sqrt(np.mean((warped - pair[0]) ** 2)))],
        "verdict": "aligned" if close else "scaled",
    }
