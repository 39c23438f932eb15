"""Clip tagger on Paddle: log-mel front end, conv + BiLSTM, attention pooling, weight averaging."""
import os
import wave

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader
from paddle.nn.initializer import Assign, Constant, Orthogonal, Uniform, XavierNormal

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data"))


class C:
    sr, n, fft, hop, mels, hidden = 4000, 2000, 128, 64, 20, 10
    names = ["hum", "chirp", "click", "beep"]
    pos_weight = [1.0, 1.8, 2.2, 4.0]
    micro, ema, clip, lr, steps, power = 2, 0.9, 0.8, 4e-3, 112, 1.5


def filterbank(sr, fft, mels):
    hz_to_mel = lambda f: 2595.0 * np.log10(1.0 + f / 700.0)
    mel_to_hz = lambda m: 700.0 * (10.0 ** (m / 2595.0) - 1.0)
    points = mel_to_hz(np.linspace(hz_to_mel(0.0), hz_to_mel(sr / 2), mels + 2))
    grid = np.arange(fft // 2 + 1) * sr / fft
    rise = (grid[None] - points[:-2, None]) / np.diff(points)[:-1, None]
    fall = (points[2:, None] - grid[None]) / np.diff(points)[1:, None]
    return np.clip(np.minimum(rise, fall), 0, None).astype("float32")          # mels x bins


class ClipSet(paddle.io.Dataset):
    def __init__(self, split):
        arch = np.load(os.path.join(ROOT, "clips.npz"))
        cut = {"train": np.s_[:112], "val": np.s_[112:]}[split]
        self.pcm, self.y, self.augment = arch["pcm"][cut], arch["tags"][cut], split == "train"

    def __getitem__(self, i):
        x = self.pcm[i] / np.float32(2 ** 15)
        if self.augment:
            k = (i * 37) % C.n
            x = np.concatenate([x[C.n - k:], x[:C.n - k]])
        return x, self.y[i].astype("float32")

    def __len__(self):
        return self.pcm.shape[0]


def attr(init):
    return paddle.ParamAttr(initializer=init)


def uni(fan):
    r = fan ** -0.5
    return attr(Uniform(-r, r))


class LogMel(nn.Layer):
    def __init__(self):
        super().__init__()
        n = np.arange(C.fft)
        self.hann = paddle.to_tensor(0.5 - 0.5 * np.cos(2 * np.pi * n / C.fft), dtype="float32")
        self.fb = paddle.to_tensor(filterbank(C.sr, C.fft, C.mels))
        self.log_gain = self.create_parameter([C.mels, 1], default_initializer=Constant(0.0))

    def forward(self, x):
        s = paddle.signal.stft(x, n_fft=C.fft, hop_length=C.hop, window=self.hann, center=True, pad_mode="reflect")
        energy = paddle.real(s) ** 2 + paddle.imag(s) ** 2
        m = paddle.log1p(paddle.matmul(self.fb, energy) * 100.0) * paddle.exp(self.log_gain)
        return (m - m.mean(axis=[1, 2], keepdim=True)) / (m.std(axis=[1, 2], keepdim=True) + 1e-5)


def forget_bias(hidden):
    b = np.zeros(4 * hidden, "float32")
    b[hidden:2 * hidden] = 1
    return b


class TagNet(nn.Layer):
    def __init__(self):
        super().__init__()
        k, h = len(C.names), C.hidden
        self.logmel = LogMel()
        self.wide = nn.Conv1D(C.mels, 16, 5, padding="SAME", weight_attr=uni(C.mels * 5), bias_attr=uni(C.mels * 5))
        self.narrow = nn.Conv1D(16, 16, 3, padding="SAME", weight_attr=uni(48), bias_attr=uni(48))
        self.slope = self.create_parameter([16], default_initializer=Constant(0.25))
        self.ln = nn.LayerNorm(16)
        self.rnn = nn.LSTM(16, h, direction="bidirectional", weight_ih_attr=attr(XavierNormal()),
                           weight_hh_attr=attr(Orthogonal()), bias_ih_attr=attr(Assign(forget_bias(h))),
                           bias_hh_attr=attr(Constant(0.0)))
        self.score = nn.Linear(2 * h, k, weight_attr=uni(2 * h), bias_attr=attr(Constant(-1.0)))
        self.focus = nn.Linear(2 * h, k, weight_attr=uni(2 * h), bias_attr=False)

    def forward(self, x):
        z = F.prelu(self.wide(self.logmel(x)), self.slope)
        z = F.max_pool1d(z, kernel_size=2, stride=2, ceil_mode=True)
        z = self.ln((z + F.elu(self.narrow(z))).transpose([0, 2, 1]))
        z = self.rnn(z)[0]
        weight, frame = F.softmax(self.focus(z), axis=1), self.score(z)
        return {"attention": weight, "frame": frame, "clip": paddle.einsum("btk,btk->bk", weight, frame)}


class WithAverage(nn.Layer):
    def __init__(self):
        super().__init__()
        self.live, self.slow = TagNet(), TagNet()
        self.slow.set_state_dict(self.live.state_dict())
        for p in self.slow.parameters():
            p.stop_gradient = True
        self.register_buffer("count", paddle.zeros([], dtype="int64"))

    def forward(self, x):
        return self.live(x)

    @paddle.no_grad()
    def follow(self):
        self.count.set_value(self.count + 1)
        n = int(self.count)
        keep = min((1 + n) / (10 + n), C.ema)
        for s, p in zip(self.slow.parameters(), self.live.parameters()):
            s.set_value(keep * s + (1 - keep) * p)


def build_model():
    return WithAverage()


def build_dataset(split):
    return ClipSet(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=8, shuffle=split == "train", drop_last=False)


def loss(outputs, labels):
    z, a, f = outputs["clip"], outputs["attention"], outputs["frame"]
    pw = paddle.to_tensor(C.pos_weight)
    bce = (F.softplus(-z) * labels * pw + F.softplus(z) * (1 - labels)).mean()
    entropy = -(a * paddle.log(a + 1e-8)).sum(axis=1).mean()
    rough = paddle.square(f[:, 1:] - f[:, :-1]).mean()
    return {"bce": bce, "attention": entropy, "loss": bce + 0.01 * entropy + 0.05 * rough}


def metric(outputs, labels):
    from sklearn.metrics import average_precision_score
    z, y = outputs["clip"].numpy(), labels.numpy().astype(bool)
    on = z > 0
    res = {"subset": float((on == y).all(axis=1).mean()), "hamming": float((on ^ y).mean())}
    aps = []
    for k, name in enumerate(C.names):
        tp, any_ = (on & y)[:, k].sum(), on[:, k].sum() + y[:, k].sum()
        res["f1_" + name] = float(2 * tp / max(any_, 1))
        if y[:, k].any():
            aps.append(average_precision_score(y[:, k], z[:, k]))
    res["map"] = float(np.mean(aps)) if aps else 0.0
    return res


def build_optimizer(model):
    decay = paddle.optimizer.lr.PolynomialDecay(C.lr, decay_steps=C.steps, end_lr=0.0, power=C.power)
    return paddle.optimizer.Adam(decay, beta1=0.9, beta2=0.99, epsilon=1e-8, amsgrad=True,
                                 parameters=model.live.parameters(), grad_clip=nn.ClipGradByGlobalNorm(C.clip))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    x, y = batch
    n, shown = x.shape[0], 0.0
    size = -(-n // C.micro)
    for at in range(0, n, size):
        xs, ys = x[at:at + size], y[at:at + size]
        share = xs.shape[0] / n
        value = loss(model(xs), ys)["loss"]
        (value * share).backward()                       # gradients add up until clear_grad
        shown += float(value) * share
    norm = float(sum((p.grad.astype("float64") ** 2).sum() for p in model.live.parameters())) ** 0.5
    optimizer.step()
    optimizer.clear_grad()
    model.follow()
    return {"norm": norm, "loss": shown}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    with wave.open(os.fspath(path)) as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), "<i2")
    x = paddle.to_tensor(pcm / np.float32(2 ** 15)).unsqueeze(0)
    tags = F.sigmoid(model.slow(x)["clip"]).numpy()[0]
    return {"best": C.names[int(np.argmax(tags))], "seconds": [pcm.size / C.sr], "tags": tags,
            "timeline": F.sigmoid(model.live(x)["frame"]).numpy()[0]}
