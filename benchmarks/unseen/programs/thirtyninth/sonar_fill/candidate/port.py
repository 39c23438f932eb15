# Gap filling of sonar traces in Paddle; flat script with globals and small closures.
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Uniform

N, C = 48, 12
BATCH_SIZE = 4
BASE_LR, WARMUP, LAST, EXPONENT, LOWEST = 3e-3, 5, 40, 1.5, 0.02
MAX_NORM = 0.15


def init_like(fan_in):
    k = 1.0 / np.sqrt(fan_in)
    return paddle.ParamAttr(initializer=Uniform(-k, k))


def make_dilated(dilation):
    def build():
        return SNConv(C, C, 3, padding=dilation, dilation=dilation, groups=2)
    return build


def make_residual(scale):
    return lambda layer, x: x + paddle.tanh(layer(x)) * scale


def unit(vector):
    return vector / paddle.clip(paddle.sqrt((vector * vector).sum()), min=1e-12)


class SNConv(nn.Layer):
    def __init__(self, cin, cout, k, stride=1, padding=0, dilation=1, groups=1):
        super().__init__()
        attr = init_like(cin // groups * k)
        self.weight = self.create_parameter([cout, cin // groups, k], attr=attr)
        self.bias = self.create_parameter([cout], attr=attr, is_bias=True)
        self.conv_args = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        start = np.random.RandomState(cin + cout).randn(cout).astype("float32")
        self.register_buffer("u", paddle.to_tensor(start / np.linalg.norm(start)))

    def forward(self, x):
        mat = self.weight.flatten(start_axis=1)
        with paddle.no_grad():
            fixed = mat.detach()
            v = unit(paddle.matmul(self.u, fixed))
            u = unit(paddle.matmul(fixed, v))
            if self.training:
                self.u.set_value(u)
        sigma = (u * paddle.matmul(mat, v)).sum()
        return F.conv1d(x, self.weight / sigma, self.bias, **self.conv_args)


add_scaled = make_residual(0.7)


class Filler(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enc = SNConv(2, C, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(3, C)
        self.mid = nn.LayerList([make_dilated(d)() for d in (1, 2, 4)])
        self.gate = nn.Linear(2 * C, C, weight_attr=init_like(2 * C), bias_attr=init_like(2 * C))
        # the reference's default counts the fan of a transposed convolution by its outputs
        self.up = nn.Conv1DTranspose(C, 6, 3, stride=2, padding=1, output_padding=1,
                                     weight_attr=init_like(6 * 3), bias_attr=init_like(6 * 3))
        self.out = nn.Conv1D(6 + C, 1, 3, padding=1, padding_mode="replicate",
                             weight_attr=init_like((6 + C) * 3), bias_attr=init_like((6 + C) * 3))

    def forward(self, trace):
        signal, mask = trace[:, 0:1], trace[:, 1:2]
        h = F.leaky_relu(self.norm(self.enc(trace)), negative_slope=0.2)
        wide = paddle.repeat_interleave(h, 2, axis=-1)
        for layer in self.mid:
            h = add_scaled(layer, h)
        half = h.shape[-1] // 2
        pooled = paddle.stack([h[:, :, :half].mean(axis=-1), h[:, :, half:].mean(axis=-1)], axis=-1)
        h = h * F.sigmoid(self.gate(pooled.flatten(start_axis=1))).unsqueeze(-1)
        guess = self.out(paddle.concat([F.elu(self.up(h)), wide], axis=1))
        return signal * mask + guess * (1 - mask)


def build_model():
    return Filler()


def loss(outputs, labels):
    charbonnier = paddle.sqrt(paddle.square(outputs - labels) + 1e-6).mean()

    def spectrum(x):
        z = paddle.fft.rfft(x, axis=-1)
        return (paddle.square(paddle.real(z)) + paddle.square(paddle.imag(z))) / N

    return charbonnier + 0.1 * paddle.square(spectrum(outputs) - spectrum(labels)).mean()


def metric(outputs, labels):
    true = labels.numpy()
    err = np.square(outputs.numpy() - true).mean(axis=(1, 2))
    top = np.abs(true).max(axis=(1, 2))
    return {"psnr": float((10 * np.log10(top ** 2 / err)).mean()), "rmse": float(np.sqrt(err.mean()))}


class GapSet(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.traces = np.load("data/" + split + ".npy")
        self.flip = split == "train"

    def __getitem__(self, i):
        rs = np.random.RandomState(60 + i)
        full = self.traces[i]
        if self.flip and rs.rand() < 0.5:
            full = np.ascontiguousarray(full[::-1])
        at = rs.randint(4, 32)
        n = rs.randint(5, 12)
        place = np.arange(len(full))
        keep = ((place < at) | (place >= at + n)).astype("float32")
        return np.stack([full * keep, keep]), full[np.newaxis]

    def __len__(self):
        return len(self.traces)


def build_dataset(split):
    return GapSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(GapSet(split), batch_size=BATCH_SIZE)


def warm_poly(step):
    if step < WARMUP:
        return (step + 1) / WARMUP
    left = max(0.0, 1 - (step - WARMUP) / (LAST - WARMUP))
    return max(LOWEST, left ** EXPONENT)


def build_optimizer(model):
    rate = paddle.optimizer.lr.LambdaDecay(BASE_LR, warm_poly)
    return paddle.optimizer.Adam(rate, parameters=model.parameters(), weight_decay=1e-3)


def train_step(model, optimizer, batch):
    traces, full = batch
    value = loss(model(traces), full)
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.clear_grad()
    return float(value)


def predict(path, model):
    raw = np.load(path)
    known = ~np.isnan(raw)
    x = np.stack([np.nan_to_num(raw), known.astype("float32")], axis=1).astype("float32")
    with paddle.no_grad():
        return model(paddle.to_tensor(x).astype(model.enc.weight.dtype)).numpy()[:, 0]
