"""Contrastive gestures, Paddle: everything of a training in one Layer."""
import math
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

DATA = Path(__file__).resolve().parent.parent / "data"
OPTIONS = {"hidden": 10, "out": 8, "queue": 24, "temperature": 0.2, "momentum": 0.9, "classes": 4, "lr": 4e-3}


class SequenceEncoder(nn.Layer):
    def __init__(self, hidden, out):
        super().__init__()
        self.gru = nn.GRU(3, hidden, direction="bidirect")
        self.score = nn.Linear(hidden * 2, 1)
        self.project = nn.Linear(hidden * 4, out)

    def forward(self, x, lengths):
        states, final = self.gru(x, sequence_length=lengths)
        steps = x.shape[1]
        valid = paddle.arange(steps).unsqueeze(0) < lengths.unsqueeze(1)
        energy = self.score(F.tanh(states))[:, :, 0]
        energy = paddle.where(valid, energy, paddle.full_like(energy, -math.inf))
        alpha = F.softmax(energy, axis=1)
        pooled = paddle.bmm(alpha.unsqueeze(1), states).squeeze(1)
        return self.project(paddle.concat([pooled, final[0], final[1]], axis=-1))


class GestureTask(nn.Layer):
    def __init__(self, hidden, out, queue, temperature, momentum, classes, lr):
        super().__init__()
        self.encoder = SequenceEncoder(hidden, out)
        self.slow = SequenceEncoder(hidden, out)
        self.slow.set_state_dict(self.encoder.state_dict())
        for p in self.slow.parameters():
            p.stop_gradient = True
        self.probe = nn.Linear(out, classes)
        self.register_buffer("queue", F.normalize(paddle.randn([queue, out]), axis=1))
        self.register_buffer("place", paddle.zeros([1], dtype="int64"))
        self.temperature, self.momentum, self.lr = temperature, momentum, lr

    def forward(self, x, other, lengths):
        z = self.encoder(x, lengths)
        q = F.normalize(z, axis=1)
        with paddle.no_grad():
            k = F.normalize(self.slow(other, lengths), axis=1)
        own = paddle.sum(q * k, axis=1, keepdim=True)
        others = paddle.matmul(q, self.queue.clone().detach(), transpose_y=True)
        contrast = paddle.concat([own, others], axis=1) / self.temperature
        return {"contrast": contrast, "probe": self.probe(z.detach()), "keys": k}

    @staticmethod
    def criterion(outputs, labels):
        logits = outputs["contrast"]
        contrast = (paddle.logsumexp(logits, axis=1) - logits[:, 0]).mean()
        logp = F.log_softmax(outputs["probe"], axis=1)
        true = paddle.take_along_axis(logp, labels.unsqueeze(1), axis=1).squeeze(1)
        probe = -(0.9 * true + 0.1 * logp.mean(axis=1)).mean()
        return contrast + 0.5 * probe

    def optimizer(self):
        schedule = paddle.optimizer.lr.CosineAnnealingDecay(self.lr, T_max=40)
        return paddle.optimizer.Adam(schedule, weight_decay=1e-3, parameters=[
            {"params": self.encoder.parameters()},
            {"params": self.probe.parameters(), "learning_rate": 2.0}])

    @paddle.no_grad()
    def update_slow(self):
        m = self.momentum
        for s, f in zip(self.slow.parameters(), self.encoder.parameters()):
            s.set_value(m * s + (1 - m) * f)

    @paddle.no_grad()
    def push(self, keys):
        n = self.queue.shape[0]
        start = int(self.place.item())
        where = (np.arange(keys.shape[0]) + start) % n
        self.queue.set_value(paddle.scatter(self.queue, paddle.to_tensor(where), keys, overwrite=True))
        self.place.set_value(paddle.to_tensor([(start + keys.shape[0]) % n], dtype="int64"))

    def step(self, optimizer, batch):
        self.update_slow()
        x, other, lengths, labels = batch
        out = self(x, other, lengths)
        value = self.criterion(out, labels)
        value.backward()
        nn.utils.clip_grad_norm_(self.encoder.parameters(), 0.3)
        optimizer.step()
        optimizer.clear_grad()
        self.push(out["keys"])
        return value.detach()


class GestureSet(paddle.io.Dataset):
    def __init__(self, split):
        content = np.load(DATA / f"{split}.npz")
        self.signals, self.lengths, self.kinds = (content[k] for k in "xnc")
        self.offset = 0 if split == "train" else 5000

    def __len__(self):
        return self.lengths.size

    @staticmethod
    def distort(signal, n, dice):
        a = dice.uniform(-0.4, 0.4)
        rotation = np.eye(3)
        rotation[:2, :2] = [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]
        out = np.matmul(signal, rotation.astype("float32")) * np.float32(dice.uniform(0.9, 1.1))
        out += dice.normal(0, 0.05, out.shape).astype("float32")
        return np.where(np.arange(len(out))[:, None] < n, out, np.float32(0))

    def __getitem__(self, i):
        dice = np.random.RandomState(self.offset + i)
        first = self.distort(self.signals[i], self.lengths[i], dice)
        second = self.distort(self.signals[i], self.lengths[i], dice)
        return first, second, self.lengths[i], self.kinds[i]


def build_model():
    return GestureTask(**OPTIONS)


def build_dataset(split):
    return GestureSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(GestureSet(split), batch_size=10, shuffle=False)


loss = GestureTask.criterion


def metric(outputs, labels):
    scores = outputs["contrast"].numpy()
    rank = np.sum(scores[:, 1:] > scores[:, [0]], axis=1)
    guess = outputs["probe"].numpy().argmax(axis=1)
    return {"recall_at_3": float(np.mean(rank < 3)), "probe": float(np.mean(guess == labels.numpy()))}


def build_optimizer(model):
    return model.optimizer()


def train_step(model, optimizer, batch):
    return model.step(optimizer, batch)
