import json
import math
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr
from paddle.geometric import segment_mean, segment_sum, send_u_recv
from paddle.io import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "settings.json")) as _f:
    S = json.load(_f)


def uniform(fan):
    k = 1 / math.sqrt(fan)
    return ParamAttr(initializer=nn.initializer.Uniform(-k, k))


def dense(i, o):
    return nn.Linear(i, o, weight_attr=uniform(i), bias_attr=uniform(i))


def edge_list(record):
    """Atoms, a 2 x 2E edge index holding each bond both ways, and bond lengths."""
    z = np.array([S["elements"].index(c) for c in record["atoms"]], "int64")
    b = np.array(record["bonds"], "int64")
    index = np.concatenate([b, b[:, ::-1]]).T.copy()
    d = np.tile(np.array(record["length"], "float32"), 2)
    return z, index, d


class MoleculeSet(Dataset):
    def __init__(self, split):
        with open(os.path.join(HERE, os.pardir, "data", "molecules.json")) as f:
            everything = json.load(f)
        held_out = everything[4::5]
        if split == "train":
            everything = [m for k, m in enumerate(everything) if k % 5 != 4]
        else:
            everything = held_out
        self.mols = everything

    def __len__(self):
        return len(self.mols)

    def __getitem__(self, k):
        m = self.mols[k]
        z, index, d = edge_list(m)
        y = {"role": np.array(m["role"], "int64"), "energy": np.float32(m["energy"])}
        return z, index, d, np.zeros_like(z), y


def merge(batch):
    sizes = [len(s[0]) for s in batch]
    starts = np.cumsum([0] + sizes[:-1])
    z = np.concatenate([s[0] for s in batch])
    index = np.hstack([s[1] + start for s, start in zip(batch, starts)])
    d = np.concatenate([s[2] for s in batch])
    ids = np.repeat(np.arange(len(batch), dtype="int64"), sizes)
    role = np.concatenate([s[4]["role"] for s in batch])
    energy = np.array([s[4]["energy"] for s in batch], "float32")
    as_t = paddle.to_tensor
    return as_t(z), as_t(index), as_t(d), as_t(ids), {"role": as_t(role), "energy": as_t(energy)}


class Round(nn.Layer):
    def __init__(self, dim, heads, n_basis):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.cell = nn.GRUCell(dim, dim)
        self.message = dense(dim + n_basis, dim)
        self.query = self.create_parameter([dim], default_initializer=nn.initializer.Normal(0.0, 0.3))

    def edge_softmax(self, score, dst, n):
        peak = paddle.full([n, self.heads], -1e30)
        s = score.detach()
        for h in range(self.heads):  # no gradient flows through the shift
            mask = paddle.where(dst.unsqueeze(0) == paddle.arange(n).unsqueeze(1), s[:, h].unsqueeze(0), paddle.full([1], -1e30))
            peak[:, h] = mask.max(axis=1)
        e = paddle.exp(score - paddle.gather(peak, dst))
        denom = paddle.scatter_nd_add(paddle.zeros([n, self.heads]), dst.unsqueeze(-1), e)
        return e / (paddle.gather(denom, dst) + 1e-9)

    def forward(self, h, src, dst, basis):
        n = h.shape[0]
        m = F.leaky_relu(self.message(paddle.concat([paddle.gather(h, src), basis], axis=1)), negative_slope=0.2)
        score = (m * self.query).reshape([-1, self.heads, self.dim // self.heads]).sum(-1)
        alpha = self.edge_softmax(score, dst, n)
        m = m * paddle.repeat_interleave(alpha, self.dim // self.heads, axis=1)
        own = paddle.arange(m.shape[0])
        pooled = send_u_recv(m, own, dst, reduce_op="sum", out_size=n)
        _, h = self.cell(pooled, h)
        return h


class MoleculeNet(nn.Layer):
    def __init__(self, dim, heads, rounds, roles):
        super().__init__()
        self.log_var = self.create_parameter([2], is_bias=True)
        self.role_head = dense(dim, roles)
        self.out_hidden, self.out = dense(2 * dim, dim), dense(dim, 1)
        self.layers = nn.LayerList([Round(dim, heads, 8) for _ in range(rounds)])
        self.table = nn.Embedding(len(S["elements"]), dim,
                                  weight_attr=ParamAttr(initializer=nn.initializer.Normal(0.0, 1.0)))
        self.mu = paddle.linspace(1.0, 1.7, 8)

    def forward(self, z, index, d, ids):
        src, dst = index[0], index[1]
        basis = paddle.exp(-40.0 * paddle.square(d.unsqueeze(-1) - self.mu))
        h = self.table(z)
        for layer in self.layers:
            h = layer(h, src, dst, basis)
        pooled = paddle.concat([segment_sum(h, ids), segment_mean(h, ids)], axis=-1)
        energy = self.out(F.elu(self.out_hidden(pooled)))[:, 0]
        return energy, self.role_head(h), self.log_var


def build_model():
    return MoleculeNet(**S["model"])


def build_dataset(split):
    return MoleculeSet(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=S["batch"], shuffle=(split == "train"), collate_fn=merge)


def loss(outputs, labels):
    energy, role, s = outputs
    gap = paddle.abs(energy - labels["energy"].reshape(energy.shape))
    beta = 0.5
    huber = paddle.where(gap < beta, gap * gap / (2 * beta), gap - beta / 2).mean()
    ce = F.cross_entropy(role, labels["role"], weight=paddle.to_tensor(S["role_weight"], dtype="float32"))
    total = sum(paddle.exp(-s[i]) * t + s[i] / 2 for i, t in enumerate((huber, ce)))
    return {"role": ce, "energy": huber, "loss": total}


def metric(outputs, labels):
    energy, role, s = [o.numpy() for o in outputs]
    y, c = labels["energy"].numpy().reshape(energy.shape), labels["role"].numpy()
    guess = role.argmax(1)
    res = {f"recall_{k}": float((guess[c == k] == k).mean()) if (c == k).any() else 0.0 for k in range(role.shape[1])}
    res.update(acc=float((guess == c).mean()), mae=float(np.abs(energy - y).mean()),
               rmse=float(np.sqrt(np.mean((energy - y) ** 2))), sigma_energy=float(np.exp(s[0] / 2)))
    return res


def build_optimizer(model):
    lr = paddle.optimizer.lr.ExponentialDecay(S["lr"], gamma=S["gamma"])
    main = [p for n, p in model.named_parameters() if n != "log_var"]
    # a group's learning_rate is a factor on the schedule; a float weight_decay is L2 in the gradient
    groups = [{"params": [model.log_var], "learning_rate": S["log_var_lr"] / S["lr"], "weight_decay": 0.0},
              {"params": main, "weight_decay": S["wd"]}]
    return paddle.optimizer.Adam(learning_rate=lr, parameters=groups, grad_clip=nn.ClipGradByValue(S["clip"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *graph, y = batch
    parts = loss(model(*graph), y)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        graphs = json.load(f)["graphs"]
    samples = [(*edge_list(g), None, {"role": np.zeros(1, "int64"), "energy": 0.0}) for g in graphs]
    z, index, d, ids, _ = merge(samples)
    with paddle.no_grad():
        energy, role, _ = model(z, index, d, ids)
    letters = np.array(list("tbj"))[role.argmax(-1).numpy()]
    ids = ids.numpy()
    return {"formula": " ".join(g["atoms"] for g in graphs),
            "roles": ["".join(letters[ids == k]) for k in range(len(graphs))],
            "energy": energy.numpy().tolist()}
