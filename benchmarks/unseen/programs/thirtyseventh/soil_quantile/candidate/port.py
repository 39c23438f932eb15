"""Soil carbon quantiles, Paddle script."""
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

data = Path(__file__).resolve().parent.parent / "data"
taus = (0.1, 0.5, 0.9)
n_in, n_mid, tau_gate = 12, 16, 0.7
lr_low, lr_high, half_cycle = 5e-4, 6e-3, 7
noisy = True


class SoftSelection(nn.Layer):
    def __init__(self):
        super().__init__()
        self.logits = self.create_parameter([4, n_in], default_initializer=nn.initializer.Constant(0.0))

    def forward(self, x):
        z = self.logits
        if self.training and noisy:
            u = paddle.clip(paddle.rand(z.shape, dtype=z.dtype), 1e-6, 1 - 1e-6)
            z = z - paddle.log(-paddle.log(u))
        p = F.softmax(z / tau_gate, axis=-1)
        return paddle.concat([x * p.sum(axis=0), paddle.matmul(x, p, transpose_y=True)], axis=-1)


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(n_mid)
        self.a = nn.Linear(n_mid, n_mid)
        self.b = nn.Linear(n_mid, n_mid)

    def forward(self, x):
        return x + self.b(F.softplus(self.a(self.norm(x)), beta=2.0))


class QuantileNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.gate = SoftSelection()
        self.enter = nn.Linear(n_in + 4, n_mid)
        self.middle = nn.Sequential(Block(), Block())
        self.leave = nn.Linear(n_mid, len(taus))

    def forward(self, x):
        raw = self.leave(self.middle(self.enter(self.gate(x))))
        first, gaps = raw[:, 0:1], F.softplus(raw[:, 1:])
        return paddle.cumsum(paddle.concat([first, gaps], axis=1), axis=1)


def load(split):
    return np.load(data / f"{split}_x.npy"), np.load(data / f"{split}_y.npy")


class SoilSet(paddle.io.Dataset):
    def __init__(self, split):
        reference = load("train")[0]
        x, self.y = load(split)
        self.x = (x - reference.mean(axis=0)) / reference.std(axis=0, ddof=1)
        self.drop = 0.1 if split == "train" else 0.0

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        x = self.x[i].copy()
        if self.drop:
            x[np.random.RandomState(i).rand(n_in) < self.drop] = 0
        return x, self.y[[i]]


def build_model():
    return QuantileNet()


def build_dataset(split):
    return SoilSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(SoilSet(split), batch_size=8, shuffle=False)


def loss(outputs, labels):
    total = 0.0
    for i, tau in enumerate(taus):
        e = labels[:, 0] - outputs[:, i]
        total = total + (tau * F.relu(e) + (1 - tau) * F.relu(-e)).mean()
    return total


def metric(outputs, labels):
    low, mid, high = outputs.numpy().T
    y = labels.numpy().ravel()
    return {"coverage": float(np.mean((low <= y) & (y <= high))),
            "mae": float(np.mean(np.abs(mid - y), dtype="float64"))}


def zigzag(low, high, half, shrink):
    def factor(step):
        cycle, inside = divmod(step, 2 * half)
        height = inside / half if inside <= half else 2 - inside / half
        return (low + (high - low) * height * shrink ** cycle) / high
    return factor


def build_optimizer(model):
    schedule = paddle.optimizer.lr.LambdaDecay(lr_high, zigzag(lr_low, lr_high, half_cycle, 0.8))
    return paddle.optimizer.Adam(schedule, parameters=model.parameters(), weight_decay=1e-3,
                                 grad_clip=nn.ClipGradByValue(max=0.02, min=-0.02))


def train_step(model, optimizer, batch):
    features, target = batch
    value = loss(model(features), target)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()
