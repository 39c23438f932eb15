import json
import os

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Normal, Uniform

HERE = os.path.dirname(os.path.realpath(__file__))
PICTURES = np.load(os.path.join(HERE, "..", "data", "pictures.npy"))
H = dict(code=6, body=24, layers=[2, 10, 10, 1], w0=20.0, points=32, batch=6, lr=4e-3, min_lr=1e-4, first_cycle=16,
         weight_cost=1e-3, code_cost=1e-2)


def mesh(side):
    line = np.linspace(-1, 1, side, dtype="float32")
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)


class PixelDataset(paddle.io.Dataset):
    def __init__(self, split):
        count, side, _ = PICTURES.shape
        groups = np.random.RandomState(0).permutation(side * side).reshape(-1, H["points"])
        index = np.arange(len(groups) * count)
        index = index[index % 4 == 3] if split == "val" else np.tile(index[index % 4 != 3], 2)
        self.where, self.who = groups[index // count], index % count
        self.flat = (PICTURES.reshape(count, -1, 1).astype("float32") / np.float32(127.5)) - 1
        self.mesh = mesh(side)

    def __len__(self):
        return len(self.who)

    def __getitem__(self, i):
        return self.who[i], self.mesh[self.where[i]], self.flat[self.who[i], self.where[i]]


class ImplicitPictures(nn.Layer):
    def __init__(self):
        super().__init__()
        k = 1 / np.sqrt(H["code"])
        self.pairs = list(zip(H["layers"], H["layers"][1:]))
        limits = [1 / i if n == 0 else np.sqrt(6 / i) / H["w0"] for n, (i, _) in enumerate(self.pairs)]
        self.writers = nn.LayerList([
            nn.Linear(H["body"], i * o + o, weight_attr=Normal(0.0, 0.01), bias_attr=Uniform(-b, b)) for (i, o), b in zip(self.pairs, limits)])
        self.trunk = nn.Linear(H["code"], H["body"], weight_attr=Uniform(-k, k), bias_attr=Uniform(-k, k))
        self.latent = self.create_parameter([len(PICTURES), H["code"]], default_initializer=Normal(0.0, k))

    def forward(self, who, where):
        code = paddle.gather(self.latent, who.flatten())
        h = F.silu(self.trunk(code))
        cost, x = [], where
        for writer, (i, o) in zip(self.writers, self.pairs):
            if cost:  # between layers
                x = paddle.sin(H["w0"] * x)
            flat = writer(h)
            cost.append(paddle.square(flat).mean(-1))
            matrix, shift = paddle.split(flat, [i * o, o], axis=-1)
            x = paddle.bmm(x, matrix.reshape([-1, i, o])) + shift.unsqueeze(1)
        return x, paddle.add_n(cost), code


class WarmRestarts(paddle.optimizer.lr.LRScheduler):
    """Cosine from the top down, starting anew after 16, 32, 64 ... steps."""

    def get_lr(self):
        start, length = 0, H["first_cycle"]
        while self.last_epoch >= start + length:
            start, length = start + length, 2 * length
        phase = np.pi * (self.last_epoch - start) / length
        return float(H["min_lr"] + (self.base_lr - H["min_lr"]) * (1 + np.cos(phase)) / 2)


def build_model():
    return ImplicitPictures()


def build_dataset(split):
    return PixelDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(PixelDataset(split), batch_size=H["batch"], shuffle=(split == "train"))


def loss(outputs, labels):
    x, cost, code = outputs
    mse = F.mse_loss(x, labels)
    return {"mse": mse, "loss": mse + H["weight_cost"] * cost.mean() + H["code_cost"] * (code ** 2).mean()}


def metric(outputs, labels):
    err = ((outputs[0] - labels).numpy() ** 2).mean(axis=(1, 2))
    return {"psnr": float(np.mean(10 * np.log10(4 / err)))}


def build_optimizer(model):
    return paddle.optimizer.Adam(WarmRestarts(H["lr"]), epsilon=1e-5, amsgrad=True, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    out = loss(model(*batch[:-1]), batch[-1])
    out["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in out.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        query = json.load(f)
    side = query["size"]
    with paddle.no_grad():
        x, _, code = model(paddle.to_tensor([query["picture"]], dtype="int64"), paddle.to_tensor(mesh(side)[None]))
    return {"code": code.numpy()[0], "picture": x.reshape([side, side]).numpy()}
