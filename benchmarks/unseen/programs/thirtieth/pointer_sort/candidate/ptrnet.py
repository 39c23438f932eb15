"""Ptr-Net for angular tours, PaddlePaddle."""
import json
import pathlib

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Constant, Uniform, XavierUniform

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


class Hyper:
    longest = 8
    hidden = 24
    embed = 16
    batch = 6
    ignore = -1
    lr, rho, eps, momentum = 3e-3, 0.95, 1e-3, 0.5
    clip = 0.25


def orthogonal(n):
    q, r = np.linalg.qr(paddle.randn([n, n]).numpy())
    return q * np.sign(np.diag(r))


def reset_lstm(cell, n):
    cell.weight_hh.set_value(np.concatenate([orthogonal(n) for _ in range(4)]).astype("float32"))
    cell.bias_hh.set_value(np.zeros(4 * n, "float32"))
    cell.bias_ih.set_value(np.repeat(np.float32([0, 1, 0, 0]), n))


class Attention(nn.Layer):
    """Additive scores, squashed to +-10, with forbidden places at -1e9."""

    def __init__(self, n):
        super().__init__()
        self.score = nn.Linear(n, 1, XavierUniform(), bias_attr=False)
        self.query = nn.Linear(n, n, XavierUniform(), Constant(0.0))
        self.ref = nn.Linear(2 * n, n, XavierUniform(), bias_attr=False)

    def forward(self, keys, h, allowed):
        s = self.score(F.tanh(keys + self.query(h)[:, None])).squeeze(-1)
        return paddle.where(allowed, 10.0 * F.tanh(s), paddle.full_like(s, -1e9))


class PtrNet(nn.Layer):
    def __init__(self):
        super().__init__()
        h, e = Hyper.hidden, Hyper.embed
        self.attend = Attention(h)
        self.first = self.create_parameter([1, e], default_initializer=Uniform(-0.1, 0.1))
        self.decoder = nn.LSTMCell(e, h)
        self.encoder = nn.LSTM(e, h, direction="bidirect")
        self.to_h0 = nn.Linear(2 * h, h, XavierUniform(), Constant(0.0))
        self.to_c0 = nn.Linear(2 * h, h, XavierUniform(), Constant(0.0))
        self.point_embed = nn.Linear(2, e, XavierUniform(), Constant(0.0))
        self.drop = nn.Dropout(0.1, mode="upscale_in_train")
        for cell in (self.decoder, self.encoder[0].cell_fw, self.encoder[0].cell_bw):
            reset_lstm(cell, h)

    def read(self, points, length):
        x = F.tanh(self.point_embed(points))
        memory, (h, c) = self.encoder(x, sequence_length=length)
        both = lambda s: s.transpose([1, 0, 2]).flatten(1)
        return x, memory, (F.tanh(self.to_h0(both(h))), self.to_c0(both(c)))

    def forward(self, points, length, previous):
        b, n, _ = points.shape
        x, memory, (h, c) = self.read(points, length)
        keys = self.attend.ref(self.drop(memory))
        taken = F.one_hot(paddle.clip(previous, min=0), n) * (previous >= 0).astype("float32").unsqueeze(-1)
        # step t may go where no earlier step has been
        taken = paddle.cumsum(taken, axis=1)
        taken = paddle.concat([paddle.zeros([b, 1, n]), taken[:, :-1]], axis=1)
        exists = F.sequence_mask(length, maxlen=n, dtype="bool")
        fed = paddle.take_along_axis(x, paddle.clip(previous, min=0).unsqueeze(-1).tile([1, 1, x.shape[-1]]), axis=1)
        fed = paddle.concat([self.first.expand([b, -1]).unsqueeze(1), fed[:, :-1]], axis=1)
        steps = []
        for t in range(n):
            _, (h, c) = self.decoder(fed[:, t], (h, c))
            steps.append(self.attend(keys, h, paddle.logical_and(exists, taken[:, t] < 0.5)))
        return paddle.stack(steps, axis=1)


def greedy(model, points):
    n = points.shape[1]
    x, memory, state = model.read(points, paddle.to_tensor([n]))
    keys = model.attend.ref(memory)
    free, fed, path, total = np.ones((1, n), bool), model.first, [], 0.0
    while len(path) < n:
        _, state = model.decoder(fed, state)
        logp = F.log_softmax(model.attend(keys, state[0], paddle.to_tensor(free)))
        k = int(paddle.argmax(logp))
        total, free[0, k], fed = total + float(logp[0, k]), False, x[:, k]
        path.append(k)
    return path, total


class TourSet(paddle.io.Dataset):
    def __init__(self, mode):
        with open(DATA / "tours.jsonl") as f:
            self.tours = [t for t in (json.loads(line) for line in f) if t["fold"] == mode]

    def __len__(self):
        return len(self.tours)

    def __getitem__(self, i):
        t = self.tours[i]
        n, spare = len(t["order"]), Hyper.longest - len(t["order"])
        points = np.pad(np.asarray(t["points"], np.float32), [(0, spare), (0, 0)])
        order = np.pad(np.asarray(t["order"], np.int64), (0, spare), constant_values=Hyper.ignore)
        return points, n, order, order


class LengthBatches(paddle.io.BatchSampler):
    def __init__(self, dataset, batch_size):
        super().__init__(dataset, batch_size=batch_size)
        self.size = np.array([len(t["order"]) for t in dataset.tours])
        self.random = np.random.RandomState(0)

    def __iter__(self):
        tie = self.random.rand(self.size.shape[0])
        ranked = sorted(range(len(tie)), key=lambda i: (self.size[i], tie[i]))
        for j in self.random.permutation(len(self)):
            yield ranked[j * self.batch_size:(j + 1) * self.batch_size]


class RMSProp(paddle.optimizer.Optimizer):
    """RMSProp with epsilon outside of the root; paddle.optimizer.RMSProp has it inside."""

    def __init__(self, learning_rate, parameters, rho, epsilon, momentum):
        super().__init__(learning_rate, parameters)
        self.rho, self.epsilon, self.momentum = rho, epsilon, momentum
        self.memory = {}

    @paddle.no_grad()
    def step(self):
        lr = self.get_lr()
        for p in self._parameter_list:
            if p.grad is None:
                continue
            sq, buf = self.memory.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            sq = self.rho * sq + (1 - self.rho) * p.grad.square()
            buf = self.momentum * buf + p.grad / (sq.sqrt() + self.epsilon)
            self.memory[p.name] = (sq, buf)
            p.set_value(p - lr * buf)


def build_model():
    return PtrNet()


def build_dataset(split):
    return TourSet(split)


def build_dataloader(split):
    ds = TourSet(split)
    if split == "train":
        return paddle.io.DataLoader(ds, batch_sampler=LengthBatches(ds, Hyper.batch))
    return paddle.io.DataLoader(ds, batch_size=12, shuffle=False)


def loss(outputs, labels):
    # a negative ignore_index makes Paddle's mean count the padding, hence the sum
    nll = F.cross_entropy(outputs, labels.unsqueeze(-1), ignore_index=Hyper.ignore, reduction="sum")
    return {"loss": nll / (labels != Hyper.ignore).astype(nll.dtype).sum()}


def metric(outputs, labels):
    guess, want = outputs.argmax(axis=-1).numpy(), labels.numpy()
    real = want != Hyper.ignore
    right = np.where(real, guess == want, True)
    return {"tour_accuracy": float(right.all(axis=1).mean()), "step_accuracy": float(right[real].mean())}


def build_optimizer(model):
    rate = paddle.optimizer.lr.MultiStepDecay(Hyper.lr, milestones=[40, 80], gamma=0.3)
    return RMSProp(rate, model.parameters(), Hyper.rho, Hyper.eps, Hyper.momentum)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    points, length, previous, target = batch
    value = loss(model(points, length, previous), target)["loss"]
    value.backward()
    for p in model.parameters():
        p.grad.set_value(p.grad.clip(-Hyper.clip, Hyper.clip))
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(value)}


def predict(path, model):
    model.eval()
    points = np.asarray(json.loads(pathlib.Path(path).read_text())["points"], "float32")
    with paddle.no_grad():
        order, total = greedy(model, paddle.to_tensor(points[None]))
    ring = points[order]
    gap = np.linalg.norm(np.roll(ring, -1, axis=0) - ring, axis=1)
    return {"tour_length": [float(gap.sum())], "order": order, "log_prob": [total]}
