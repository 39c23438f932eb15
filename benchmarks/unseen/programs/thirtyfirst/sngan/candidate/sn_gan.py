import json
import os

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Assign, Constant, Normal

CFG = {"z_dim": 8, "classes": 3, "g_channels": [16, 12, 8], "d_channels": [8, 12], "batch": 6,
       "lr_g": 1e-3, "lr_d": 4e-3, "betas": (0.5, 0.9), "flat": 56, "fall": 56}
_here = os.path.dirname(os.path.abspath(__file__))
W = lambda: paddle.ParamAttr(initializer=Normal(0.0, 0.1))  # noqa: E731


class ShapeDataset(paddle.io.Dataset):
    def __init__(self, split):
        z = np.load(os.path.join(_here, "..", "data", split + ".npz"))
        self.items = list(zip((z["image"].astype("float32") / 127.5 - 1)[:, None], z["kind"], z["noise"]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        image, kind, noise = self.items[i]
        return image, kind, noise, kind


class SpectralMixin:
    """Layers that divide their weight by its largest singular value; rows = output channels."""

    out_axis = 0

    def start(self):
        n = self.weight.shape[self.out_axis]
        self.register_buffer("left", paddle.full([n], 1.0 / n ** 0.5))

    def normed(self):
        w = self.weight if self.out_axis == 0 else self.weight.T
        w = w.reshape([w.shape[0], -1])
        with paddle.no_grad():
            right = F.normalize(paddle.mv(w.T, self.left), axis=0)
            left = F.normalize(paddle.mv(w, right), axis=0)
            if self.training:
                self.left.set_value(left)
        return self.weight / paddle.dot(left, paddle.mv(w, right))


class SNConv(nn.Conv2D, SpectralMixin):
    def __init__(self, cin, cout):
        super().__init__(cin, cout, 4, stride=2, padding=1, weight_attr=W(), bias_attr=Constant(0.0))
        self.start()

    def forward(self, x):
        return F.conv2d(x, self.normed(), self.bias, stride=2, padding=1)


class SNLinear(nn.Linear, SpectralMixin):
    out_axis = 1

    def __init__(self, cin, cout):
        super().__init__(cin, cout, weight_attr=W())
        self.start()

    def forward(self, x):
        return F.linear(x, self.normed(), self.bias)


class Film(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        table = np.zeros((CFG["classes"], 2 * channels), "float32")
        self.table = nn.Embedding(*table.shape, weight_attr=Assign(table))
        # scales near one, shifts zero
        noise = paddle.normal(1.0, 0.02, [CFG["classes"], channels])
        self.table.weight.set_value(paddle.concat([noise, paddle.zeros_like(noise)], axis=1))

    def forward(self, x, kind):
        scale, shift = self.table(kind).unsqueeze([2, 3]).split(2, axis=1)
        mean = x.mean([2, 3], keepdim=True)
        var = paddle.square(x - mean).mean([2, 3], keepdim=True)
        return scale * (x - mean) / paddle.sqrt(var + 1e-4) + shift


class Gen(nn.Layer):
    def __init__(self):
        super().__init__()
        a, b, c = CFG["g_channels"]
        self.to_image = nn.Conv2D(c, 1, 3, padding=1, weight_attr=W())
        self.ups = nn.LayerList([nn.Conv2DTranspose(a, b, 4, stride=2, padding=1, weight_attr=W(), bias_attr=False),
                                 nn.Conv2DTranspose(b, c, 4, stride=2, padding=1, weight_attr=W())])
        self.films = nn.LayerList([Film(a), Film(b)])
        self.fc = nn.Linear(CFG["z_dim"], a * 9, weight_attr=W())

    def forward(self, noise, kind):
        h = self.fc(noise).reshape([noise.shape[0], -1, 3, 3])
        for film, up in zip(self.films, self.ups):
            h = up(F.relu(film(h, kind)))
        return paddle.tanh(self.to_image(F.relu(h)))


class Disc(nn.Layer):
    def __init__(self):
        super().__init__()
        a, b = CFG["d_channels"]
        self.embed = nn.Embedding(CFG["classes"], b, weight_attr=W())
        self.head = SNLinear(b, 1)
        self.body = nn.Sequential(SNConv(1, a), nn.LeakyReLU(0.1), SNConv(a, b), nn.LeakyReLU(0.1))

    def forward(self, x, kind):
        h = self.body(x).sum(axis=[2, 3])
        return self.head(h)[:, 0] + paddle.einsum("bc,bc->b", self.embed(kind), h)


class SNGAN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.disc, self.gen = Disc(), Gen()

    def forward(self, image, kind, noise):
        fake = self.gen(noise, kind)
        return {"image": fake, "real": self.disc(image, kind), "fake": self.disc(fake, kind)}


def hinge_d(real, fake):
    return paddle.clip(1 - real, min=0).mean() + paddle.clip(1 + fake, min=0).mean()


def build_model():
    return SNGAN()


def build_dataset(split):
    return ShapeDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(ShapeDataset(split), batch_size=CFG["batch"], shuffle=split == "train")


def loss(outputs, labels):
    d, g = hinge_d(outputs["real"], outputs["fake"]), -outputs["fake"].mean()
    return {"d": d, "g": g, "loss": d + 0.5 * g}


def metric(outputs, labels):
    real, fake, image = (outputs[k].numpy() for k in ("real", "fake", "image"))
    return {"gap": float((real - fake).mean()), "d_accuracy": float((np.mean(real > 0) + np.mean(fake < 0)) / 2),
            "spread": float(image.std(0, ddof=1).mean())}


def build_optimizer(model):
    rate = paddle.optimizer.lr.LambdaDecay(CFG["lr_d"], lambda k: np.clip(1 - (k - CFG["flat"]) / CFG["fall"], 0.0, 1.0).item())
    b1, b2 = CFG["betas"]
    return paddle.optimizer.Adam(rate, beta1=b1, beta2=b2, parameters=[
        {"params": model.disc.parameters()}, {"params": model.gen.parameters(), "learning_rate": CFG["lr_g"] / CFG["lr_d"]}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    image, kind, noise = batch[:3]
    fake = model.gen(noise, kind)
    d_loss = hinge_d(model.disc(image, kind), model.disc(fake.detach(), kind))
    d_loss.backward()
    # the generator's gradient passes through the discriminator, but leaves nothing there
    players = model.disc.parameters()
    for p in players:
        p.stop_gradient = True
    g_loss = -paddle.mean(model.disc(fake, kind))
    g_loss.backward()
    for p in players:
        p.stop_gradient = False
    optimizer.step()
    optimizer.clear_grad()
    return {"d": float(d_loss), "g": float(g_loss), "loss": float(d_loss) + float(g_loss)}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as f:
        query = json.load(f)
    kind = paddle.to_tensor(query["kind"], dtype="int64")
    image = model.gen(paddle.to_tensor(query["noise"], dtype="float32"), kind)
    return {"score": model.disc(image, kind).numpy().tolist(), "image": (image.numpy() + 1) * 127.5}
