"""Floor plans with PaddlePaddle."""
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as init

import plan_files as files

D, H, LAYERS = 16, 4, 2
N_FEAT = 5 + files.RETURNS
N_ROOM, N_HOUSE = len(files.ROOM_NAMES), len(files.HOUSE_NAMES)


# ---------------------------------------------------------------- layers
def dense(n_in, n_out, bias=True, bias_value=None):
    bound = 1 / math.sqrt(n_in)
    law = init.Uniform(-bound, bound)
    b_law = law if bias_value is None else init.Constant(bias_value)
    return nn.Linear(n_in, n_out, weight_attr=paddle.ParamAttr(initializer=law),
                     bias_attr=paddle.ParamAttr(initializer=b_law) if bias else False)


class Round(nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv = dense(D, 3 * D, bias=False)
        self.rel = nn.Embedding(len(files.LINK_CODE), D,
                                weight_attr=paddle.ParamAttr(initializer=init.Normal(0.0, 0.3)))
        self.score = dense(D, 1, bias=False)
        self.cell = nn.GRUCell(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, h, codes, mask):
        b, n = h.shape[:2]
        q, k, v = paddle.split(self.qkv(h), 3, axis=-1)
        kind = self.rel(codes)
        pair = F.leaky_relu(q.unsqueeze(2) + k.unsqueeze(1) + kind, negative_slope=0.2)
        weighed = pair * self.score.weight[:, 0]
        raw = weighed.reshape([b, n, n, H, D // H]).sum(axis=-1)
        raw = raw.transpose([0, 3, 1, 2])
        barred = (codes == files.LINK_CODE["none"]).unsqueeze(1).astype(raw.dtype)
        att = F.softmax(raw * (1 - barred) - 1e9 * barred, axis=-1)
        said = (v.unsqueeze(1) + kind).reshape([b, n, n, H, D // H])
        said = said.transpose([0, 3, 1, 2, 4])                        # b, head, to, from, d
        msg = paddle.matmul(att.unsqueeze(3), said).squeeze(3)        # b, head, to, d
        msg = msg.transpose([0, 2, 1, 3]).reshape([b * n, D])
        _, new = self.cell(msg, h.reshape([b * n, D]))
        return self.norm(new.reshape([b, n, D])) * mask.unsqueeze(-1), att


class PlanNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.offset = self.create_parameter([1], default_initializer=init.Constant(0.5))
        self.enter = dense(N_FEAT, D)
        self.rounds = nn.LayerList([Round() for _ in range(LAYERS)])
        self.rooms = dense(2 * D, N_ROOM)
        self.gate = dense(D, 1, bias_value=1.0)
        self.dwelling = dense(2 * D + N_ROOM, N_HOUSE)
        self.heat = dense(2 * D + N_ROOM, 1)

    def summary(self, h, mask):
        gate = F.sigmoid(self.gate(h)) * mask.unsqueeze(-1)
        soft = (gate * h).sum(axis=1) / paddle.clip(gate.sum(axis=1), min=1e-3)
        hard = paddle.max(h - 1e9 * (1 - mask).unsqueeze(-1), axis=1)
        return soft, hard

    def forward(self, feats, codes, mask):
        h = first = F.tanh(self.enter(feats)) * mask.unsqueeze(-1)
        seen = []
        for layer in self.rounds:
            h, att = layer(h, codes, mask)
            seen.append(att)
        rooms = self.rooms(paddle.concat([first, h], axis=-1))
        with paddle.no_grad():
            belief = (F.softmax(rooms, axis=-1) * mask.unsqueeze(-1)).sum(axis=1)
        whole = paddle.concat([*self.summary(h, mask), belief], axis=-1)
        heat = self.heat(whole)[:, 0] + self.offset * paddle.log(mask.sum(axis=1))
        return {"rooms": rooms, "dwelling": self.dwelling(whole), "heat": heat,
                "attention": paddle.stack(seen, axis=1)}


def build_model():
    return PlanNet()


# ---------------------------------------------------------------- data
class Plans(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.plans = files.read(files.split_file(split))

    def __getitem__(self, i):
        plan = self.plans[i]
        return (*files.arrays(plan), files.answers(plan))

    def __len__(self):
        return len(self.plans)


class Strided(paddle.io.BatchSampler):
    STRIDE, ADVANCE = 37, 7

    def __init__(self, n, batch):
        self.n, self.batch, self.start = n, batch, 0

    def __len__(self):
        return (self.n + self.batch - 1) // self.batch

    def __iter__(self):
        order = (self.start + self.STRIDE * np.arange(self.n)) % self.n
        self.start += self.ADVANCE
        for part in np.split(order, range(self.batch, self.n, self.batch)):
            yield [int(i) for i in part]


def build_dataset(split):
    return Plans(split)


def build_dataloader(split):
    plans = build_dataset(split)
    if split != "train":
        return paddle.io.DataLoader(plans, batch_size=13)
    return paddle.io.DataLoader(plans, batch_sampler=Strided(len(plans), 11))


# ---------------------------------------------------------------- loss, metric
GAMMA = 1.5
ALPHA = [1.0, 0.8, 1.2, 1.2, 0.9]
SHARES = {"rooms": 1.0, "dwelling": 0.5, "heat": 2.0, "sharp": 0.02}


def loss(outputs, labels):
    kinds = labels["rooms"]
    real = (kinds >= 0).astype("float32")
    onehot = F.one_hot(paddle.clip(kinds, min=0), N_ROOM)
    logp = (F.log_softmax(outputs["rooms"], axis=-1) * onehot).sum(axis=-1)
    alpha = paddle.matmul(onehot, paddle.to_tensor(ALPHA))
    each = -alpha * paddle.pow(1 - paddle.exp(logp), GAMMA) * logp * real
    terms = {"rooms": paddle.mean(each.sum(axis=1) / real.sum(axis=1)),
             "dwelling": F.cross_entropy(outputs["dwelling"], labels["dwelling"])}
    d = paddle.abs(outputs["heat"] - labels["heat"])
    inner = paddle.clip(d, max=0.5)
    terms["heat"] = paddle.mean(inner * (d - 0.5 * inner))
    att = outputs["attention"]
    entropy = -(att * paddle.log(att + 1e-9)).sum(axis=-1).mean(axis=[1, 2])
    terms["sharp"] = (entropy * real).sum() / real.sum()
    return {"loss": sum(SHARES[k] * v for k, v in terms.items()), **terms}


def metric(outputs, labels):
    logits, kinds = outputs["rooms"].numpy(), labels["rooms"].numpy()
    real = kinds >= 0
    guess = logits.argmax(-1)
    hit = guess == kinds
    recall = [hit[kinds == c].mean() for c in range(N_ROOM) if (kinds == c).any()]
    order = np.argsort(-logits, axis=-1)[..., :2]
    top2 = (order == kinds[..., None]).any(-1)
    heat, true = outputs["heat"].numpy(), labels["heat"].numpy()
    return {"room_acc": float(hit[real].mean()),
            "room_recall": float(np.mean(recall)),
            "room_top2": float(top2[real].mean()),
            "plans_right": float((hit | ~real).all(1).mean()),
            "dwelling_acc": float((outputs["dwelling"].numpy().argmax(1) == labels["dwelling"].numpy()).mean()),
            "heat_r2": float(1 - ((true - heat) ** 2).sum() / ((true - true.mean()) ** 2).sum()),
            "heat_factor": float(np.exp(np.abs(true - heat).mean()))}


# ---------------------------------------------------------------- training
class WarmRoot(paddle.optimizer.lr.LRScheduler):
    """Up in a line, then down with the root of the step, never below a floor."""

    def __init__(self, rate, warm, floor):
        self.warm, self.floor = warm, floor
        super().__init__(learning_rate=rate)

    def get_lr(self):
        t = self.last_epoch + 1
        if t <= self.warm:
            return self.base_lr * t / self.warm
        return self.base_lr * max((self.warm / t) ** 0.5, self.floor)


def rate_share(name):
    top, *below = name.split(".")
    depth = {"enter": LAYERS, "rounds": LAYERS - 1 - int(below[0]) if top == "rounds" else 0}.get(top, 0)
    return 0.7 ** depth


def build_optimizer(model):
    groups = {}
    for name, p in model.named_parameters():
        decay = 0.05 if len(p.shape) > 1 and ".rel." not in name else 0.0
        group = groups.setdefault((rate_share(name), decay), {"params": []})
        group["params"].append(p)
    for (share, decay), group in groups.items():
        group.update(learning_rate=share, weight_decay=decay)
    return paddle.optimizer.AdamW(learning_rate=WarmRoot(8e-3, warm=10, floor=0.4),
                                  beta1=0.9, beta2=0.98, epsilon=1e-6,
                                  parameters=list(groups.values()))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def centre(model):
    """Takes from every output unit the mean of its gradient (a Linear keeps its inputs in rows)."""
    for layer in model.sublayers():
        if isinstance(layer, nn.Linear):
            layer.weight.grad = layer.weight.grad - layer.weight.grad.mean(axis=0, keepdim=True)
        elif isinstance(layer, nn.GRUCell):
            for w in (layer.weight_ih, layer.weight_hh):
                w.grad = w.grad - w.grad.mean(axis=1, keepdim=True)


def train_step(model, optimizer, batch):
    feats, codes, mask, labels = batch
    model.train()
    terms = loss(model(feats, codes, mask), labels)
    terms["loss"].backward()
    centre(model)
    for p in model.parameters():
        if p.grad is not None:
            p.grad = paddle.clip(p.grad, -0.1, 0.1)
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in terms.items()}


# ---------------------------------------------------------------- inference
def name_rooms(prob):
    prob = prob.copy()
    names = np.empty(len(prob), object)
    for single in ("hall", "kitchen"):
        c = files.ROOM_NAMES.index(single)
        i = int(prob[:, c].argmax())
        names[i] = single
        prob[:, c] = -2.0
        prob[i] = -1.0
    for i in range(len(prob)):
        if names[i] is None:
            names[i] = files.ROOM_NAMES[int(prob[i].argmax())]
    return names.tolist()


def predict(path, model):
    plan = files.read(path)
    n = len(plan["rooms"])
    model.eval()
    with paddle.no_grad():
        out = model(*[paddle.to_tensor(a[None]) for a in files.arrays(plan)])
    prob = F.softmax(out["rooms"][0, :n], axis=-1).numpy()
    house = F.softmax(out["dwelling"][0], axis=-1).numpy()
    heat = math.exp(float(out["heat"][0])) * 1000.0
    looks = out["attention"][0, LAYERS - 1].mean(axis=0).numpy()[:n, :n]
    np.fill_diagonal(looks, 0.0)
    return {"prob": prob, "names": " ".join(name_rooms(prob)),
            "dwelling": files.HOUSE_NAMES[int(house.argmax())], "dwelling_prob": house,
            "heat": [heat], "heat_per_area": [heat / sum(r["area"] for r in plan["rooms"])],
            "looks_at": looks.argmax(axis=1).tolist(), "looks": looks}
