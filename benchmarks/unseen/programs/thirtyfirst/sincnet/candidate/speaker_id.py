import os
import wave
from functools import partial

import numpy as np
import paddle
from paddle import nn, optimizer as opt
from paddle.nn import functional as F

conf = {
    "sr": 8000, "chunk": 1600, "speakers": 5, "emb": 20, "batch_size": 6, "preemph": 0.97, "hop": 400,
    "sinc": {"filters": 12, "taps": 65, "stride": 4, "min_low": 50.0, "min_band": 50.0},
    "am": {"m": 0.2, "s": 16.0, "smooth": 0.1},
    "optim": {"lr": 2e-3, "cutoff_lr": 2e-4, "wd": 0.05, "beta2": 0.98, "warmup": 12, "steps": 112},
}
_data = partial(os.path.join, os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def normalise_wave(x):
    y = np.copy(x)
    y[1:] -= np.float32(conf["preemph"]) * x[:-1]
    return (y / np.maximum(np.abs(y).max(), np.float32(1e-4)))[np.newaxis]


class Waves(paddle.io.Dataset):
    def __init__(self, mode):
        archive = np.load(_data(mode + ".npz"))
        wav, self.ids = archive["wav"], archive["speaker"].astype("int64")
        skip = (wav.shape[1] - conf["chunk"]) // 2
        wav = wav[:, skip:skip + conf["chunk"]].astype("float32") / 32768.0
        self.wav = [normalise_wave(w) for w in wav]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.wav[i], self.ids[i]


class SincFilters(nn.Layer):
    def __init__(self, filters, taps, stride, min_low, min_band):
        super().__init__()
        sr, self.stride = conf["sr"], stride
        mel = np.linspace(2595 * np.log10(1 + 30 / 700), 2595 * np.log10(1 + (sr / 2 - min_low - min_band) / 700), filters + 1)
        edges = 700 * (np.power(10, mel / 2595) - 1) / sr
        assign = lambda v: nn.initializer.Assign(v.astype("float32"))  # noqa: E731
        self.width = self.create_parameter([filters, 1], default_initializer=assign(np.diff(edges)[:, None]))
        self.low = self.create_parameter([filters, 1], default_initializer=assign(edges[:-1, None]))
        self.floor = (min_low / sr, min_band / sr)
        half = taps // 2
        grid = 2 * np.pi * np.arange(-half, 0)
        self.register_buffer("grid", paddle.to_tensor(grid[None].astype("float32")), persistable=False)
        self.register_buffer("ham", paddle.to_tensor(np.hamming(taps)[None, :half].astype("float32")), persistable=False)

    def forward(self, x):
        f1 = self.low.abs() + self.floor[0]
        f2 = (f1 + self.floor[1] + self.width.abs()).clip(0.0, 0.5)
        side = 2 * (paddle.sin(f2 * self.grid) - paddle.sin(f1 * self.grid)) / self.grid * self.ham
        gap = 2 * (f2 - f1)
        kernel = paddle.concat([side / gap, paddle.ones_like(gap), paddle.flip(side, axis=[1]) / gap], axis=1)
        return F.conv1d(x, kernel.unsqueeze(1), stride=self.stride)


class TransposedLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.transpose([0, 2, 1])).transpose([0, 2, 1])


class FanOutNormal(nn.initializer.Initializer):
    """He normal by the outgoing side, for leaky ReLU with slope 0.2."""

    def __call__(self, param, block=None):
        shape = param.shape
        fan = shape[1] if len(shape) == 2 else shape[0] * int(np.prod(shape[2:]))
        std = float(np.sqrt(2.0 / (1 + 0.2 ** 2) / fan))
        return nn.initializer.Normal(0.0, std)(param, block)


INIT = dict(weight_attr=paddle.ParamAttr(initializer=FanOutNormal()))


class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        s = conf["sinc"]
        c = s["filters"]
        self.wave_norm = nn.GroupNorm(1, 1, weight_attr=False, bias_attr=False)
        self.frontend = SincFilters(**s)
        self.convs = nn.LayerList([nn.Conv1D(c, 16, 5, **INIT), nn.Conv1D(16, 16, 3, dilation=2, groups=2, **INIT)])
        self.norms = nn.LayerList([TransposedLayerNorm(k) for k in (c, 16, 16)])
        self.pool = nn.MaxPool1D(3, 3)
        self.score = nn.Conv1D(16, 1, 1, bias_attr=False, **INIT)
        self.fc = nn.Linear(32, conf["emb"], **INIT)

    def forward(self, x):
        feats = paddle.abs(self.frontend(self.wave_norm(x)))
        act = partial(F.leaky_relu, negative_slope=0.2)
        h = act(self.norms[0](self.pool(feats)))
        h = act(self.norms[1](self.pool(self.convs[0](h))))
        h = act(self.norms[2](self.convs[1](h)))
        alpha = F.softmax(self.score(h), axis=2)
        mu = paddle.sum(alpha * h, axis=2, keepdim=True)
        sigma = paddle.sqrt(paddle.sum(alpha * paddle.square(h - mu), axis=2) + 1e-5)
        return F.normalize(self.fc(paddle.concat([mu.squeeze(2), sigma], axis=1)), axis=1)


class SpeakerModel(nn.Layer):
    def __init__(self):
        super().__init__()
        n, d = conf["speakers"], conf["emb"]
        self.encoder = Encoder()
        self.prototypes = self.create_parameter([n, d], default_initializer=nn.initializer.Normal(std=d ** -0.5))

    def forward(self, wav):
        dvec = self.encoder(wav)
        return paddle.matmul(dvec, F.normalize(self.prototypes, axis=1), transpose_y=True), dvec


def build_model():
    return SpeakerModel()


def build_dataset(split):
    return Waves(split)


def build_dataloader(split):
    train = split == "train"
    return paddle.io.DataLoader(Waves(split), batch_size=conf["batch_size"], shuffle=train, drop_last=train)


def loss(outputs, labels):
    am = conf["am"]
    hot = F.one_hot(labels, conf["speakers"])
    target = F.label_smooth(hot, epsilon=am["smooth"])
    return F.cross_entropy(am["s"] * (outputs[0] - am["m"] * hot), target, soft_label=True)


def metric(outputs, labels):
    cos, emb = (o.numpy() for o in outputs)
    y = labels.numpy()
    pairs = np.equal.outer(y, y)
    np.fill_diagonal(pairs, False)
    return {"own_cosine": float(cos[np.arange(len(y)), y].mean()), "accuracy": float((cos.argmax(-1) == y).mean()),
            "within": float((emb @ emb.T)[pairs].mean()) if pairs.any() else 0.0}


def build_optimizer(model):
    o = conf["optim"]
    cosine = opt.lr.LambdaDecay(o["lr"], lambda k: (k + 1) / o["warmup"] if k < o["warmup"] else
                                (1 + np.cos(np.pi * (k - o["warmup"]) / (o["steps"] - o["warmup"]))) / 2)
    front = model.encoder.frontend.parameters()
    known = {p.name for p in front}
    no_decay = known | {p.name for p in model.parameters() if len(p.shape) == 1}
    others = [p for p in model.parameters() if p.name not in known]
    return opt.AdamW(cosine, beta2=o["beta2"], weight_decay=o["wd"], apply_decay_param_fun=lambda name: name not in no_decay,
                     parameters=[{"params": front, "learning_rate": o["cutoff_lr"] / o["lr"]}, {"params": others}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    cos, dvec = model(batch[0])
    cost = loss((cos, dvec), batch[1])
    cost.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": cost.detach(), "cos": cos.detach().mean()}


def predict(path, model):
    model.eval()
    with wave.open(str(path)) as f:
        pcm = np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype("float32") / 32768.0
    starts = range(0, len(pcm) - conf["chunk"] + 1, conf["hop"])
    batch = np.stack([normalise_wave(pcm[s:s + conf["chunk"]]) for s in starts])
    with paddle.no_grad():
        cos, dvec = model(paddle.to_tensor(batch))
        centre = F.normalize(dvec.mean(0), axis=0)
    return {"speaker": int(cos.numpy().mean(0).argmax()), "cosines": cos.numpy(), "dvector": centre.numpy()}
