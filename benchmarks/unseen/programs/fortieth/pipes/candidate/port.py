"""Organ tuning in PaddlePaddle: mistuning in cents and wobble of a pipe."""

import math
import wave as wavefile
from functools import partial, reduce
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, Dataset
from paddle.nn.initializer import Assign, Constant, KaimingUniform, Normal

SAMPLE_RATE = 8000
PIECE, FRAME, HOP = 768, 256, 128
RANKS = ("principal", "flute", "reed")
N_TEETH = 6
GRID = np.linspace(-50.0, 50.0, 41)
TINY = 1e-3
lrelu = partial(F.leaky_relu, negative_slope=0.2)


def const(values, like):
    return paddle.to_tensor(values, dtype=like.dtype)


# --- data -------------------------------------------------------------------------------------------------------


def knowledge(rank, midi, celsius):
    warm = (273.15 + celsius) / 291.15  # of the absolute temperature at which the organ is tuned
    hertz = 440.0 * 2.0 ** ((midi - 69) / 12) * math.sqrt(warm)
    one_hot = [1.0 if rank == r else 0.0 for r in RANKS]
    return np.array([hertz] + one_hot + [(celsius - 18.0) / 5.0], dtype="float32")


def to_float(sound):
    return sound.astype("float32") / 2 ** 15


class PipeSet(Dataset):
    def __init__(self, split):
        super().__init__()
        sounds = np.load("data/waves.npy")
        table = [line.split(",") for line in Path("data/pipes.csv").read_text().splitlines()[1:]]
        mine = np.array([i for i, row in enumerate(table) if row[0] == split])
        self.order = np.random.RandomState(2).permutation(mine) if split == "train" else mine
        self.table, self.sounds = table, sounds

    def __len__(self):
        return len(self.order)

    def __getitem__(self, k):
        i = self.order[k]
        _, rank, midi, celsius, cents, wobble = self.table[i]
        label = np.array([float(cents), float(wobble)], dtype="float32")
        return to_float(self.sounds[i]), knowledge(rank, int(midi), float(celsius)), label


def build_dataset(split):
    return PipeSet(split)


def build_dataloader(split):
    pipes = PipeSet(split)
    return DataLoader(pipes, batch_sampler=BatchSampler(pipes, batch_size=6, drop_last=split == "train"))


# --- network: parameters in one layer, the computation in functions of them --------------------------------------


def hear(window, sound):
    """B x samples -> log power B x frames x frequencies, log energy B x frames"""
    sound = sound - sound.mean(axis=1, keepdim=True)
    frames = paddle.signal.frame(sound, FRAME, HOP).transpose([0, 2, 1])
    z = paddle.fft.rfft(frames * window)
    power = z.real() ** 2 + z.imag() ** 2
    return paddle.log(power + TINY), paddle.log(power.sum(axis=-1) + TINY)


def teeth(stretch, hertz, rank, like):
    """Where the harmonics lie, as weights of the frequencies next to them: B x harmonics x grid x frequencies."""
    k = paddle.arange(1, N_TEETH + 1, dtype=like.dtype)
    stretched = k * paddle.sqrt(1 + paddle.matmul(rank, stretch).unsqueeze(1) * k * k)
    places = paddle.einsum("bk,g->bkg", hertz.unsqueeze(1) * stretched, const(2.0 ** (GRID / 1200), like))
    places = (places * (FRAME / SAMPLE_RATE)).clip(max=FRAME // 2 - 1e-3)
    bins = paddle.arange(FRAME // 2 + 1, dtype=like.dtype)
    return F.relu(1.0 - (places.unsqueeze(-1) - bins).abs())


def standard(x):
    mean = x.mean(axis=-1, keepdim=True)
    deviation = paddle.sqrt(((x - mean) ** 2).mean(axis=-1, keepdim=True))
    return (x - mean) / (deviation + 1e-3)


def conv(net, name, groups=1):
    w, b = getattr(net, f"{name}_weight"), getattr(net, f"{name}_bias", None)
    return lambda x: F.conv1d(x, w, b, padding="SAME", groups=groups)


def through(*functions):
    return lambda x: reduce(lambda value, f: f(value), functions, x)


def plus(f):
    return lambda x: x + f(x)


class PipeNet(paddle.nn.Layer):
    def __init__(self, width=16, taps=5):
        super().__init__()
        n_frames = 1 + (PIECE - FRAME) // HOP
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)

        def knob(name, shape, init):
            self.add_parameter(name, self.create_parameter(shape, default_initializer=init))

        def kernel(name, n_in, n_out, size):
            knob(f"{name}_weight", [n_out, n_in, size], KaimingUniform(negative_slope=0.2, nonlinearity="leaky_relu"))
            if n_out > 1:
                knob(f"{name}_bias", [n_out], Constant(0.0))

        kernel("enter", N_TEETH, width, taps)
        kernel("pair", width // 2, width, taps)
        kernel("join", width, width, 1)
        kernel("leave", width, 1, taps)
        knob("hann", [FRAME], Assign(hann.astype("float32")))
        knob("stiffness", [len(RANKS)], Constant(1e-4))
        knob("timbre", [len(RANKS), N_TEETH], Normal(0.0, 0.1))
        knob("by_energy", [], Constant(0.5))
        knob("by_time", [n_frames], Assign(np.linspace(-0.5, 0.5, n_frames).astype("float32")))
        knob("log_sharp", [], Constant(0.0))
        knob("shake_weight", [4], Normal(0.0, 0.1))
        knob("shake_bias", [], Constant(-0.5))
        self.register_buffer("quiet", paddle.zeros([FRAME // 2 + 1]))

    def above_quiet(self, level):
        above = level - self.quiet.clone()
        if self.training:
            now = level.detach().mean(axis=[0, 1])
            self.quiet.set_value(0.9 * self.quiet + 0.1 * now)
        return above

    def spectrum_at(self, level, energy, hertz, rank):
        share = F.softmax(self.by_energy * energy + self.by_time, axis=1)
        level = paddle.einsum("bt,btf->bf", share, level)  # linear, so frames may go first
        return paddle.einsum("bf,bkgf->bkg", level, teeth(self.stiffness, hertz, rank, level))

    def forward(self, sound, info):
        hertz, rank, celsius = info[:, 0], info[:, 1:4], info[:, 4]
        level, energy = hear(self.hann, sound)
        x = standard(self.spectrum_at(self.above_quiet(level), energy, hertz, rank))
        x = x * N_TEETH * F.softmax(paddle.matmul(rank, self.timbre), axis=1).unsqueeze(2)
        middle = plus(through(conv(self, "pair", groups=2), lrelu, conv(self, "join")))
        read = through(conv(self, "enter"), lrelu, middle, lrelu, conv(self, "leave"))
        logits = paddle.exp(self.log_sharp) * read(x).squeeze(1)

        share = F.softmax(logits, axis=-1)
        cents = paddle.matmul(share, const(GRID, logits))
        doubt = -(share * F.log_softmax(logits, axis=-1)).sum(axis=-1)
        jumps = (energy[:, 1:] - energy[:, :-1]).abs().mean(axis=1)
        shake = paddle.stack([energy.std(axis=1), jumps, doubt, celsius], axis=1)
        return {
            "logits": logits,
            "cents": cents,
            "wobble": F.softplus(paddle.matmul(shake, self.shake_weight) + self.shake_bias),
        }


def build_model():
    return PipeNet()


# --- loss and metric ----------------------------------------------------------------------------------------------


def bump(cents, sigma=4.0):
    """A bell round the true cents, on the grid, with sum 1."""
    bell = paddle.exp(-((const(GRID, cents) - cents.unsqueeze(1)) ** 2) / (2 * sigma ** 2))
    return bell / bell.sum(axis=1, keepdim=True)


def log_cosh(x):
    x = x.abs()
    return x + paddle.log1p(paddle.exp(-2.0 * x)) - math.log(2.0)


def loss(outputs, labels):
    cents, wobble = labels.unbind(axis=1)
    shape = -(bump(cents) * F.log_softmax(outputs["logits"], axis=1)).sum(axis=1).mean()
    place = F.smooth_l1_loss(outputs["cents"], cents, delta=5.0)
    shake = log_cosh(outputs["wobble"] - wobble).mean()
    return shape + 0.02 * place + 0.5 * shake


def metric(outputs, labels):
    error = outputs["cents"] - labels[:, 0]
    off = error.abs()
    a, b = (x - x.mean() for x in (outputs["wobble"], labels[:, 1]))
    return {
        "mae": off.mean(),
        "p90": paddle.quantile(off, 0.9),
        "in_5": (off <= 5).astype(off.dtype).mean(),
        "bias": error.mean(),
        "wobble_r": (a * b).sum() / paddle.sqrt((a * a).sum() * (b * b).sum()),
    }


# --- training -----------------------------------------------------------------------------------------------------


def warm_restarts(high, low, first, grow):
    """Half a cosine from `high` to `low`, again and again, each `grow` times as long as the one before."""

    def factor(epoch):
        period = first
        while epoch >= period:
            epoch -= period
            period *= grow
        return (low + (high - low) * (1 + math.cos(math.pi * epoch / period)) / 2) / high

    return paddle.optimizer.lr.LambdaDecay(high, factor)


def build_optimizer(model):
    rate = warm_restarts(4e-3, 1e-4, first=8, grow=2)
    return paddle.optimizer.Adam(rate, beta1=0.9, beta2=0.99, epsilon=1e-7, parameters=model.parameters(), amsgrad=True)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def unit_norm(x):
    return paddle.sqrt((x * x).flatten(1).sum(axis=1)).reshape([-1] + [1] * (x.ndim - 1))


@paddle.no_grad()
def hold_back(parameters, share=0.04, smallest=1e-3):
    """Adaptive clipping by unit: |gradient| <= share x |weights|."""
    for p in parameters:
        if p.ndim > 1:
            allowed = share * unit_norm(p).clip(min=smallest)
            size = unit_norm(p.grad)
            factor = paddle.where(size > allowed, allowed / size.clip(min=1e-6), paddle.ones_like(size))
            p.grad.set_value(p.grad * factor)


def train_step(model, optimizer, batch):
    sound, info, labels = batch
    model.train()
    out = model(sound, info)
    value = loss(out, labels)
    value.backward()
    hold_back(model.parameters())
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        model.hann.set_value(model.hann * (FRAME / 2 / model.hann.sum()))
    return {"loss": value.detach(), "cents": F.l1_loss(out["cents"].detach(), labels[:, 0])}


# --- use ----------------------------------------------------------------------------------------------------------


@paddle.no_grad()
def predict(path, model):
    rank, midi, celsius = Path(path).stem.split("_")
    with wavefile.open(str(path)) as f:
        sound = to_float(np.frombuffer(f.readframes(-1), dtype="<i2"))
    pieces = np.stack([sound[i:i + PIECE] for i in range(0, len(sound) - PIECE + 1, 512)])
    info = np.tile(knowledge(rank, int(midi), float(celsius)), (len(pieces), 1))
    kind = model.quiet.dtype
    out = model(paddle.to_tensor(pieces).astype(kind), paddle.to_tensor(info).astype(kind))
    middle = paddle.median(out["cents"], mode="min")
    return {"cents": float(middle), "pieces": out["cents"].numpy(), "wobble": float(out["wobble"].mean())}
