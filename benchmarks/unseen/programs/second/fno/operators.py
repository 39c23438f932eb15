import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class FourierLayer(nn.Layer):
    """spectral convolution and pointwise convolution, both on [B, C, H, W]"""

    def __init__(self, width, rows, cols):
        super().__init__()
        init = nn.initializer.Uniform(0.0, 1.0 / width ** 2)
        self.low = self.create_parameter([width, width, rows, cols, 2], default_initializer=init)
        self.high = self.create_parameter([width, width, rows, cols, 2], default_initializer=init)
        self.point = nn.Conv2D(width, width, 1)
        self.rows, self.cols = rows, cols

    @staticmethod
    def times(re, im, w):
        wr, wi = w[..., 0], w[..., 1]
        e = lambda a, b: paddle.einsum("bixy,ioxy->boxy", a, b)
        return e(re, wr) - e(im, wi), e(re, wi) + e(im, wr)

    def spectral(self, x):
        h, w = x.shape[2:]
        f = paddle.fft.rfft2(x)
        re, im = paddle.real(f), paddle.imag(f)
        r, c = self.rows, self.cols
        top = self.times(re[:, :, :r, :c], im[:, :, :r, :c], self.low)
        bottom = self.times(re[:, :, h - r:, :c], im[:, :, h - r:, :c], self.high)
        middle = paddle.zeros([x.shape[0], x.shape[1], h - 2 * r, c], dtype=x.dtype)
        parts = []
        for t, b in zip(top, bottom):
            s = paddle.concat([t, middle, b], axis=2)
            parts.append(F.pad(s, [0, w // 2 + 1 - c, 0, 0]))
        return paddle.fft.irfft2(paddle.complex(*parts), s=[h, w])

    def forward(self, x):
        return instance(self.spectral(instance(x))) + self.point(x)


def instance(x, eps=1e-5):
    m = x.mean(axis=[2, 3], keepdim=True)
    v = ((x - m) ** 2).mean(axis=[2, 3], keepdim=True)
    return (x - m) * paddle.rsqrt(v + eps)


class NeuralOperator(nn.Layer):
    def __init__(self, width=8, rows=3, cols=4, margin=2):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, 1))
        self.spectral = nn.LayerList([FourierLayer(width, rows, cols) for _ in range(2)])
        self.lift = nn.Linear(3, width)
        self.margin = margin

    def forward(self, x):
        b, h, w, _ = x.shape
        ys, xs = paddle.meshgrid(paddle.linspace(0, 1, h, dtype=x.dtype), paddle.linspace(0, 1, w, dtype=x.dtype))
        pos = paddle.stack([ys, xs], axis=-1).expand([b, h, w, 2])
        t = self.lift(paddle.concat([x, pos], axis=-1)).transpose([0, 3, 1, 2])
        t = nn.ZeroPad2D([0, self.margin, 0, self.margin])(t)
        first, second = self.spectral
        t = second(F.gelu(first(t)))
        return self.project(t[:, :, :h, :w].transpose([0, 2, 3, 1]))[..., 0]
