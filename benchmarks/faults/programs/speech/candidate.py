"""The port to Paddle of the recogniser of speech."""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

FRAME, HOP, MELS, WIDTH, HEADS, LETTERS = 64, 32, 20, 32, 4, 18
LENGTH, FAR = 1024, 6


def hertz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_bank():
    top = 2595.0 * np.log10(1.0 + 4000.0 / 700.0)
    points = hertz(np.linspace(0.0, top, MELS + 2))
    frequencies = np.linspace(0.0, 4000.0, FRAME // 2 + 1)
    bank = np.zeros((FRAME // 2 + 1, MELS))
    for mel in range(MELS):
        left, middle, right = points[mel : mel + 3]
        rising = (frequencies - left) / (middle - left)
        falling = (right - frequencies) / (right - middle)
        bank[:, mel] = np.maximum(0.0, np.minimum(rising, falling))
    return bank


class Frontend(nn.Layer):
    def __init__(self, preemphasis=0.97, floor=1e-5):
        super().__init__()
        self.preemphasis, self.floor = preemphasis, floor
        time = np.arange(FRAME)
        self.window = 0.5 - 0.5 * np.cos(2 * np.pi * time / FRAME)
        turns = np.outer(time, np.arange(FRAME // 2 + 1)) / FRAME
        self.cosines = np.cos(2 * np.pi * turns)
        self.sines = np.sin(2 * np.pi * turns)
        self.bank = mel_bank()

    def constant(self, table, like):
        return paddle.to_tensor(table.astype("float32")).astype(like.dtype)

    def framed(self, signal):
        starts = np.arange((LENGTH - FRAME) // HOP + 1) * HOP
        index = starts[:, None] + np.arange(FRAME)[None]
        frames = paddle.gather(signal, paddle.to_tensor(index.reshape(-1)), axis=1)
        return frames.reshape([signal.shape[0], len(starts), FRAME])

    def normalised(self, mels, mask):
        count = mask.sum(axis=1, keepdim=True)
        centred = mels - (mels * mask).sum(axis=1, keepdim=True) / count
        variance = (centred * centred * mask).sum(axis=1, keepdim=True) / (count - 1)
        return centred / (paddle.sqrt(variance) + 1e-5) * mask

    def forward(self, signal, valid):
        late = signal[:, 1:] - self.preemphasis * signal[:, :-1]
        signal = paddle.concat([signal[:, :1], late], axis=1)
        frames = self.framed(signal) * self.constant(self.window, signal)
        real = paddle.matmul(frames, self.constant(self.cosines, signal))
        imaginary = paddle.matmul(frames, self.constant(self.sines, signal))
        power = real.square() + imaginary.square()
        mels = paddle.matmul(power, self.constant(self.bank, signal))
        mels = paddle.log(paddle.clip(mels, min=self.floor))
        return self.normalised(mels, valid.astype(mels.dtype).unsqueeze(-1))


class GatedConv(nn.Layer):
    def __init__(self, inner, outer, kernel, stride=1, dilation=1):
        super().__init__()
        self.weight_v = self.create_parameter([2 * outer, inner, kernel])
        self.weight_g = self.create_parameter([2 * outer, 1, 1], default_initializer=nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([2 * outer], is_bias=True)
        self.stride, self.dilation = stride, dilation
        self.padding = (kernel - 1) * dilation // 2

    def forward(self, x):
        length = self.weight_v.square().sum(axis=[1, 2], keepdim=True).sqrt()
        kernel = self.weight_v * (self.weight_g / length)
        y = F.conv1d(x, kernel, self.bias, stride=self.stride, padding=self.padding, dilation=self.dilation)
        y, gate = paddle.chunk(y, 2, axis=1)
        return y * F.sigmoid(gate)


class MLP(nn.Layer):
    def __init__(self, width, factor=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, factor * width)
        self.down = nn.Linear(factor * width, width)

    def forward(self, x):
        x = self.up(self.norm(x))
        x = x * F.sigmoid(x)
        return self.down(x)


class RelativeAttention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.bias = nn.Embedding(2 * FAR + 1, heads)

    def biases(self, length):
        place = np.arange(length)
        distance = np.clip(place[None, :] - place[:, None], -FAR, FAR) + FAR
        table = self.bias(paddle.to_tensor(distance))
        return table.transpose([2, 0, 1]).unsqueeze(0)

    def forward(self, x, valid):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).reshape([batch, length, 3, self.heads, width // self.heads])
        q, k, v = parts.transpose([2, 0, 3, 1, 4]).unbind(0)
        q = q * (width // self.heads) ** -0.5
        scores = paddle.matmul(q, k, transpose_y=True) + self.biases(length)
        blocked = (1.0 - valid.astype(x.dtype)) * -1e9
        scores = scores + blocked.unsqueeze([1, 2])
        y = paddle.matmul(F.softmax(scores, axis=-1), v)
        y = y.transpose([0, 2, 1, 3]).reshape([batch, length, width])
        return self.out(y)


class ConvModule(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.pointwise1 = nn.Conv1D(width, 2 * width, 1)
        self.depthwise = nn.Conv1D(width, width, 5, padding=2, groups=width)
        self.batch_norm = nn.BatchNorm1D(width)
        self.pointwise2 = nn.Conv1D(width, width, 1)

    def forward(self, x, valid):
        x = self.norm(x).transpose([0, 2, 1])
        x = F.glu(self.pointwise1(x), axis=1)
        x = x * valid.astype(x.dtype).unsqueeze(1)
        x = F.silu(self.batch_norm(self.depthwise(x)))
        return self.pointwise2(x).transpose([0, 2, 1])


class Recogniser(nn.Layer):
    def __init__(self):
        super().__init__()
        self.frontend = Frontend()
        self.conv1 = GatedConv(MELS, WIDTH, 3, stride=2)
        self.conv2 = GatedConv(WIDTH, WIDTH, 3, dilation=2)
        self.ffn1 = MLP(WIDTH)
        self.attention = RelativeAttention(WIDTH, HEADS)
        self.conv_module = ConvModule(WIDTH)
        self.ffn2 = MLP(WIDTH)
        self.se_down = nn.Linear(WIDTH, WIDTH // 4)
        self.se_up = nn.Linear(WIDTH // 4, WIDTH)
        self.final_norm = nn.LayerNorm(WIDTH)
        self.classifier = nn.Linear(WIDTH, LETTERS)

    def squeezed(self, x, valid):
        mask = valid.astype(x.dtype).unsqueeze(1)
        mean = (x * mask).sum(axis=2) / mask.sum(axis=2)
        weight = F.sigmoid(self.se_up(F.relu(self.se_down(mean))))
        return x * weight.unsqueeze(2)

    def conformer(self, x, valid):
        x = x + self.ffn1(x) / 2
        x = x + self.attention(x, valid)
        x = x + self.conv_module(x, valid)
        return x + self.ffn2(x) / 2

    def forward(self, signal, lengths):
        frames = (lengths - FRAME) // HOP + 1
        count = (LENGTH - FRAME) // HOP + 1
        valid = paddle.arange(count).unsqueeze(0) < frames.unsqueeze(1)
        x = self.frontend(signal, valid).transpose([0, 2, 1])
        x = self.conv1(x)
        x = x + self.conv2(x)
        valid = valid[:, ::2]
        x = self.squeezed(x, valid)
        x = self.conformer(x.transpose([0, 2, 1]), valid)
        logits = self.classifier(self.final_norm(x))
        chances = F.log_softmax(logits, axis=-1)
        return {"chances": chances.transpose([1, 0, 2]), "lengths": valid.astype("int64").sum(axis=1)}


def build_model():
    return Recogniser()
