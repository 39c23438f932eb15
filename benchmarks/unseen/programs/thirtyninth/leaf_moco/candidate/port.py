"""MoCo on leaf shapes for PaddlePaddle, arranged as one class that knows how it is trained."""
import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import functional as F
from paddle.nn.initializer import Assign, Uniform

N_SPECIES = 4


def uniform(fan_in):
    bound = fan_in ** -0.5
    return paddle.ParamAttr(initializer=Uniform(-bound, bound))


def conv(cin, cout, k, bias=True, **kw):
    attr = uniform(cin // kw.get("groups", 1) * k * k)
    return nn.Conv2D(cin, cout, k, weight_attr=attr, bias_attr=attr if bias else False, **kw)


def dense(n_in, n_out):
    return nn.Linear(n_in, n_out, weight_attr=uniform(n_in), bias_attr=uniform(n_in))


class GeneralisedMean(nn.Layer):
    def __init__(self, power=3.0, floor=1e-4):
        super().__init__()
        self.floor = floor
        self.p = self.create_parameter([1], default_initializer=Assign(np.array([power], "float32")))

    def forward(self, x):
        mean = paddle.mean(paddle.pow(paddle.clip(x, min=self.floor), self.p), axis=[2, 3])
        return paddle.pow(mean, 1.0 / self.p)


class LeafEncoder(nn.Layer):
    def __init__(self, width=16, dim=12):
        super().__init__()
        self.stem = conv(1, 8, 3, bias=False, stride=2, padding=1)
        self.norm1 = nn.InstanceNorm2D(8)
        self.depth = conv(8, 8, 3, bias=False, padding=2, dilation=2, groups=8)
        self.point = conv(8, width, 1)
        self.norm2 = nn.GroupNorm(4, width)
        self.down = conv(width, width, 4, stride=2, padding=1, groups=4)
        self.pool = GeneralisedMean()
        self.proj = nn.Sequential(dense(width, width), nn.ReLU(), dense(width, dim))
        self.act1, self.act2, self.act3 = nn.LeakyReLU(0.1), nn.Mish(), nn.Softplus()

    def forward(self, x):
        x = self.act1(self.norm1(self.stem(x)))
        x = self.act2(self.norm2(self.point(self.depth(x))))
        h = self.pool(self.act3(self.down(x)))
        return F.normalize(self.proj(h), axis=1), h


class LeafModule(nn.Layer):
    hparams = dict(queue=24, dim=12, tau=0.2, m=0.9, lr=2e-3, wd=1e-2, max_norm=0.8,
                   first_cycle=9, cycle_factor=2, lr_min=0.0, smooth=0.05, aux=0.3)

    def __init__(self):
        super().__init__()
        hp = self.hparams
        self.encoder_q = LeafEncoder(dim=hp["dim"])
        self.encoder_k = LeafEncoder(dim=hp["dim"])
        self.encoder_k.set_state_dict(self.encoder_q.state_dict())
        for p in self.encoder_k.parameters():
            p.stop_gradient = True
        self.classify = dense(16, N_SPECIES)
        noise = np.random.RandomState(1).randn(hp["dim"], hp["queue"]).astype("float32")
        self.register_buffer("queue", F.normalize(paddle.to_tensor(noise), axis=0))
        self.register_buffer("cursor", paddle.zeros([1], dtype="int64"))

    def forward(self, view_q, view_k):
        q, h = self.encoder_q(view_q)
        with paddle.no_grad():
            k = self.encoder_k(view_k)[0]
        pos = (q * k).sum(axis=1, keepdim=True)
        neg = paddle.matmul(q, self.queue.detach().clone())
        return {"contrast": paddle.concat([pos, neg], axis=1) / self.hparams["tau"],
                "species": self.classify(h), "key": k}

    @classmethod
    def compute_loss(cls, outputs, species):
        hp = cls.hparams
        contrast = -F.log_softmax(outputs["contrast"], axis=1)[:, 0].mean()
        soft = F.one_hot(species, N_SPECIES).astype(outputs["species"].dtype)
        soft = soft * (1.0 - hp["smooth"]) + hp["smooth"] / N_SPECIES
        aux = F.cross_entropy(outputs["species"], soft, soft_label=True)
        return contrast + hp["aux"] * aux

    def momentum_update(self):
        m = self.hparams["m"]
        with paddle.no_grad():
            for slow, fast in zip(self.encoder_k.parameters(), self.encoder_q.parameters()):
                slow.set_value(m * slow + (1.0 - m) * fast)

    def push(self, keys):
        """Write the keys as columns from the cursor on, around the end."""
        with paddle.no_grad():
            total, start, n = self.queue.shape[1], int(self.cursor.item()), keys.shape[0]
            where = paddle.to_tensor([(start + i) % total for i in range(n)])
            rows = paddle.scatter(self.queue.t(), where, keys.astype(self.queue.dtype), overwrite=True)
            self.queue.set_value(rows.t())
            self.cursor.set_value(paddle.to_tensor([(start + n) % total], dtype="int64"))

    def fit_batch(self, optimizer, batch):
        a, b, species = batch
        self.momentum_update()
        outputs = self(a, b)
        value = self.compute_loss(outputs, species)
        value.backward()
        nn.utils.clip_grad_norm_([p for p in self.parameters() if not p.stop_gradient], self.hparams["max_norm"])
        optimizer.step()
        optimizer.clear_grad()
        self.push(outputs["key"])
        return value.detach()

    def make_optimizer(self):
        hp = self.hparams
        rate = paddle.optimizer.lr.CosineAnnealingWarmRestarts(
            hp["lr"], T_0=hp["first_cycle"], T_mult=hp["cycle_factor"], eta_min=hp["lr_min"])
        trainable = [(n, p) for n, p in self.named_parameters() if not p.stop_gradient]
        return paddle.optimizer.AdamW(rate, weight_decay=hp["wd"], parameters=[
            {"params": [p for _, p in trainable if p.ndim > 1]},
            {"params": [p for n, p in trainable if p.ndim < 2 and "pool" not in n], "weight_decay": 0.0},
            {"params": [p for n, p in trainable if "pool" in n], "weight_decay": 0.0, "learning_rate": 10.0},
        ])


class LeafPairs(Dataset):
    side = 20

    def __init__(self, split):
        super().__init__()
        with np.load("data/leaves.npz") as z:
            self.x, self.y = z[f"{split}_x"], z[f"{split}_y"]
        self.random = split == "train"

    def _crop(self, img, rs):
        span = img.shape[0] - self.side + 1
        if self.random:
            r0 = rs.randint(span)
            c0 = rs.randint(span)
        else:
            r0 = c0 = span // 2
        return img[r0:r0 + self.side, c0:c0 + self.side].astype("float32") / 255.0

    def _view(self, img, rs):
        v = self._crop(img, rs)
        if self.random:
            v = np.fliplr(v) if rs.uniform() < 0.5 else v
            gain, shift = rs.uniform(0.7, 1.3), rs.uniform(-0.1, 0.1)
            v = np.ascontiguousarray(v * np.float32(gain) + np.float32(shift))
            r, c = rs.randint(0, self.side - 5, size=2)
            v[r:r + 5, c:c + 5] = v.mean()
        return ((v - 0.4) / 0.25)[np.newaxis]

    def __getitem__(self, idx):
        rs = np.random.RandomState((77 * idx + 5) % 10007)
        first = self._view(self.x[idx], rs)
        return first, self._view(self.x[idx], rs), self.y[idx]

    def __len__(self):
        return self.y.shape[0]


def build_model():
    return LeafModule()


def loss(outputs, labels):
    return LeafModule.compute_loss(outputs, labels)


def metric(outputs, labels):
    y = labels.numpy()
    contrast, cls, key = (outputs[n].numpy() for n in ("contrast", "species", "key"))
    sim = key @ key.T
    np.fill_diagonal(sim, -np.inf)
    neighbour = float(np.mean(y[sim.argmax(axis=1)] == y)) if y.size > 1 else 0.0
    return {"instance_top1": float(np.mean(contrast.argmax(axis=1) == 0)),
            "species_accuracy": float(np.mean(cls.argmax(axis=1) == y)), "neighbour": neighbour}


def build_dataset(split):
    return LeafPairs(split)


def build_dataloader(split):
    return DataLoader(LeafPairs(split), batch_size=6, drop_last=(split == "train"))


def build_optimizer(model):
    return model.make_optimizer()


def train_step(model, optimizer, batch):
    return model.fit_batch(optimizer, batch)


def predict(path, model):
    pixels = np.load(path)[:, np.newaxis, 2:22, 2:22].astype("float32") / 255.0
    with paddle.no_grad():
        z, h = model.encoder_q(paddle.to_tensor((pixels - 0.4) / 0.25).astype(model.queue.dtype))
        return {"embedding": z.numpy(), "species": F.softmax(model.classify(h), axis=1).numpy()}
