"""ECG rate doubling with PaddlePaddle; the network is read from one line of text."""
import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Uniform
from paddle.nn.utils import weight_norm

NETWORK = ("reflect(4) > wconv(1,12,5) > leaky > glu(12,1) > glu(12,2) > mixch(2) > glu(12,4) > cut(4) "
           "> wdeconv(12,8) > elu > rgroup(8,2,3) > leaky > wconv(8,1,1)")
REGISTRY = {}


def layer(cls):
    REGISTRY[cls.__name__] = cls
    return cls


def conv1d(cin, cout, k, **kw):
    bound = 1 / math.sqrt(cin * k // kw.get("groups", 1))
    return weight_norm(nn.Conv1D(cin, cout, k, weight_attr=Uniform(-bound, bound), bias_attr=Uniform(-bound, bound), **kw))


@layer
class wconv(nn.Layer):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.conv = conv1d(cin, cout, k, padding=(k - 1) // 2)

    def forward(self, x):
        return self.conv(x)


@layer
class rgroup(nn.Layer):
    def __init__(self, ch, groups, k):
        super().__init__()
        self.k = k
        self.conv = conv1d(ch, ch, k, groups=groups)

    def forward(self, x):
        padded = F.pad(x, [self.k // 2, self.k // 2], mode="replicate", data_format="NCL")
        return self.conv(padded) + x


@layer
class glu(nn.Layer):
    def __init__(self, ch, rate):
        super().__init__()
        self.both = conv1d(ch, 2 * ch, 3, padding=rate, dilation=rate)
        self.mix = conv1d(ch, ch, 1)
        self.ch = ch

    def forward(self, x):
        y = self.both(x)
        gate = F.sigmoid(y[:, self.ch:])
        return self.mix(F.tanh(y[:, :self.ch]) * gate) + x


@layer
class wdeconv(nn.Layer):
    def __init__(self, cin, cout, k=5):
        super().__init__()
        bound = 1 / math.sqrt(cout * k)
        self.deconv = weight_norm(nn.Conv1DTranspose(cin, cout, k, stride=2, padding=2, output_padding=1,
                                                     weight_attr=Uniform(-bound, bound),
                                                     bias_attr=Uniform(-bound, bound)))

    def forward(self, x):
        return self.deconv(x)


@layer
class mixch(nn.Layer):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        n, c, t = x.shape
        y = paddle.reshape(x, [n, self.groups, c // self.groups, t])
        return paddle.reshape(paddle.transpose(y, [0, 2, 1, 3]), [n, c, t])


@layer
class cut(nn.Layer):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[:, :, self.n:x.shape[2] - self.n]


REGISTRY["reflect"] = lambda n: nn.Pad1D(n, mode="reflect")
REGISTRY["leaky"] = lambda: nn.LeakyReLU(negative_slope=0.2)
REGISTRY["elu"] = lambda: nn.ELU()


def parse(text):
    for word in text.split(">"):
        name, _, args = word.strip().rstrip(")").partition("(")
        yield REGISTRY[name](*[int(a) for a in args.split(",") if a])


class RateDoubler(nn.Layer):
    def __init__(self, text=NETWORK):
        super().__init__()
        self.gain = self.create_parameter([], default_initializer=Constant(0.5))
        self.body = nn.Sequential(*parse(text))

    def forward(self, low):
        straight = F.interpolate(low, scale_factor=2, mode="linear", align_corners=False, data_format="NCW")
        return straight + self.gain * self.body(low)


def build_model():
    return RateDoubler()


def spectrum(wave, size=32, hop=16):
    starts = range(0, wave.shape[-1] - size + 1, hop)
    frames = paddle.stack([wave[:, 0, s:s + size] for s in starts], axis=1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    z = paddle.fft.rfft(frames * paddle.to_tensor(hann).astype(wave.dtype), axis=-1)
    return paddle.sqrt(paddle.square(z.real()) + paddle.square(z.imag()) + 1e-6)


def huber(diff, beta):
    size = paddle.abs(diff)
    return paddle.where(size < beta, 0.5 * paddle.square(diff) / beta, size - 0.5 * beta).mean()


def loss(outputs, labels):
    time_term = paddle.mean(paddle.sqrt(paddle.square(outputs - labels) + 1e-6))
    est, ref = spectrum(outputs), spectrum(labels)
    frobenius = paddle.sqrt(paddle.sum(paddle.square(est - ref))) / paddle.sqrt(paddle.sum(paddle.square(ref)))
    return time_term + 0.3 * frobenius + 0.1 * huber(paddle.log(est) - paddle.log(ref), 0.5)


def metric(outputs, labels):
    est = outputs.numpy()[:, 0, :].astype("float64")
    ref = labels.numpy()[:, 0, :].astype("float64")
    noise = np.square(est - ref).sum(axis=-1)
    signal = np.square(ref).sum(axis=-1)
    spread = np.square(ref - ref.mean(axis=-1, keepdims=True)).sum(axis=-1)
    return {
        "snr_db": float(np.mean(10.0 * np.log10(signal / noise))),
        "prd": float(np.median(np.sqrt(noise / spread) * 100.0)),
        "peak_shift": float(np.mean(np.abs(np.argmax(est, -1) - np.argmax(ref, -1)))),
    }


class ECG(paddle.io.Dataset):
    LENGTH = 128

    def __init__(self, split):
        super().__init__()
        self.split = split
        self.signals = np.load("data/ecg_%s.npy" % split)

    def __len__(self):
        return self.signals.shape[0]

    def augmented(self, index, rs):
        at = rs.randint(0, 33)
        wave = self.signals[index][at:at + self.LENGTH].astype("float32") / 500
        wave = wave * np.float32(rs.uniform(0.7, 1.4))
        phase = rs.uniform(0, 2 * np.pi)
        wander = rs.uniform(0, 0.3) * np.sin(np.arange(self.LENGTH) * 2 * np.pi / self.LENGTH + phase)
        wave = wave + wander.astype("float32")
        return -wave if rs.rand() < 0.3 else wave

    def __getitem__(self, index):
        rs = np.random.RandomState(900 + index)
        if self.split == "train":
            wave = self.augmented(index, rs)
        else:
            rs_free = self.signals[index][16:16 + self.LENGTH]
            wave = rs_free.astype("float32") / 500
        half = wave.reshape(-1, 2).mean(axis=1) + 0.01 * rs.standard_normal(64).astype("float32")
        return half[np.newaxis].astype("float32"), wave[np.newaxis].astype("float32")


def build_dataset(split):
    return ECG(split)


def build_dataloader(split):
    return paddle.io.DataLoader(ECG(split), batch_size=4, shuffle=(split == "train"))


def build_optimizer(model):
    slow, normal = [], []
    for name, p in model.named_parameters():
        (slow if name.endswith("weight_g") or name == "gain" else normal).append(p)
    rate = paddle.optimizer.lr.CosineAnnealingWarmRestarts(4e-3, T_0=6, T_mult=2)
    return paddle.optimizer.AdamW(rate, amsgrad=True, grad_clip=nn.ClipGradByValue(0.02),
                                  parameters=[{"params": normal, "weight_decay": 0.05},
                                              {"params": slow, "learning_rate": 0.5, "weight_decay": 0.0}])


def train_step(model, optimizer, batch):
    low, high = batch
    value = loss(model(low), high)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(value)


def predict(path, model):
    low = paddle.to_tensor(np.load(path)[None, None]).astype(model.gain.dtype)
    with paddle.no_grad():
        return model(low).numpy()[0, 0]
