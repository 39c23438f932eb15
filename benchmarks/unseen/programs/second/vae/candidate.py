import os

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset
from PIL import Image

from blocks import Up, down

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")
K, Z = 5, 6


class ConditionalVAE(nn.Layer):
    def __init__(self, w=8):
        super().__init__()
        # generator
        self.gen_in = nn.Linear(Z + K, 32 * w)
        self.gen = nn.LayerList([Up(2 * w, w, True), Up(w, 1, False)])
        # recognition network
        self.c1, self.n1 = down(1 + K, w)
        self.c2, self.n2 = down(w, 2 * w)
        self.mean = nn.Linear(32 * w, Z)
        self.log_var = nn.Linear(32 * w, Z)

    def encode(self, img, cond):
        n, _, h, w = img.shape
        planes = paddle.broadcast_to(cond.reshape([n, K, 1, 1]), [n, K, h, w])
        t = paddle.concat([img, planes], axis=1)
        for conv, norm in ((self.c1, self.n1), (self.c2, self.n2)):
            t = F.leaky_relu(norm(conv(t)), 0.2)
        t = t.reshape([n, -1])
        return self.mean(t), paddle.clip(self.log_var(t), min=-6.0, max=6.0)

    def decode(self, code, cond):
        t = F.elu(self.gen_in(paddle.concat([code, cond], axis=-1)))
        t = paddle.reshape(t, [t.shape[0], -1, 4, 4])
        for stage in self.gen:
            t = stage(t)
        return t

    def forward(self, img, target):
        cond = F.one_hot(target, K).astype(img.dtype)
        m, lv = self.encode(img, cond)
        code = m
        if self.training:
            code = code + paddle.exp(lv / 2) * paddle.randn(m.shape, dtype=m.dtype)
        return {"recon": self.decode(code, cond), "mu": m, "logvar": lv}


def build_model():
    return ConditionalVAE()


def loss(outputs, labels):
    n = labels.shape[0]
    rec = F.binary_cross_entropy_with_logits(outputs["recon"], labels, reduction="none").sum() / n
    m, lv = outputs["mu"], outputs["logvar"]
    kl = 0.5 * (m.square() + paddle.exp(lv) - 1.0 - lv).sum(axis=1).mean()
    return {"loss": rec + 0.7 * kl, "bce": rec, "kld": kl}


def metric(outputs, labels):
    d = F.sigmoid(outputs["recon"]) - labels
    return {"psnr": -10.0 * float(paddle.log10((d * d).mean())), "active_units": int((paddle.var(outputs["mu"], axis=0) > 0.01).sum())}


def read_gray(path):
    im = Image.open(path).convert("L").resize((16, 16), Image.BILINEAR)
    return np.asarray(im).astype("float32")[np.newaxis] / 255.0


class DigitSet(Dataset):
    def __init__(self, split):
        super().__init__()
        self.items = []
        with open(os.path.join(FOLDER, "list.csv")) as f:
            f.readline()
            for line in f:
                name, label, part = line.strip().split(",")
                if part == split:
                    self.items.append((os.path.join(FOLDER, name), int(label)))

    def __getitem__(self, i):
        path, label = self.items[i]
        a = read_gray(path)
        return a, label, a

    def __len__(self):
        return len(self.items)


def build_dataset(split):
    return DigitSet(split)


def build_dataloader(split):
    ds = DigitSet(split)
    return DataLoader(ds, batch_sampler=BatchSampler(ds, batch_size=4))


def build_optimizer(model):
    sched = paddle.optimizer.lr.ExponentialDecay(2e-3, gamma=0.95)
    return paddle.optimizer.Adam(sched, beta1=0.5, beta2=0.999, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    with paddle.no_grad():
        x = paddle.to_tensor(read_gray(path)[None], dtype=model.mean.weight.dtype)
        x = paddle.tile(x, [K, 1, 1, 1])
        rec = F.sigmoid(model(x, paddle.arange(K))["recon"])
        e = (rec - x).square().mean(axis=[1, 2, 3])
        best = int(e.argmin())
    return {"image": rec[best], "errors": e, "best": best}
