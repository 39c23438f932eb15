import numpy as np
import paddle
from paddle import nn

from denoiser import Denoiser


def cosine_alpha_bar(steps, offset=0.008, ceiling=0.999):
    grid = np.arange(steps + 1) / steps
    curve = np.cos((grid + offset) / (1 + offset) * np.pi / 2) ** 2
    beta = np.minimum(1.0 - curve[1:] / curve[:-1], ceiling)
    return np.cumprod(1.0 - beta)


class Process(nn.Layer):
    """forward noising, the network and the algebra of v"""

    def __init__(self, steps=50):
        super().__init__()
        self.steps = steps
        self.denoiser = Denoiser()
        kept = cosine_alpha_bar(steps)
        self.register_buffer("signal", paddle.to_tensor(np.sqrt(kept).astype("float32")))
        self.register_buffer("sigma", paddle.to_tensor(np.sqrt(1.0 - kept).astype("float32")))
        self.register_buffer("ratio", paddle.to_tensor((kept / (1.0 - kept)).astype("float32")))

    def forward(self, x0, t, noise=None):
        noise = paddle.randn(x0.shape).astype(x0.dtype) if noise is None else noise
        a = paddle.gather(self.signal, t).astype(x0.dtype).reshape([-1, 1, 1, 1])
        s = paddle.gather(self.sigma, t).astype(x0.dtype).reshape([-1, 1, 1, 1])
        noisy = a * x0 + s * noise
        v = self.denoiser(noisy, t)
        return {"v": v, "target": a * noise - s * x0, "x0_hat": a * noisy - s * v,
                "snr": paddle.gather(self.ratio, t).astype(x0.dtype)}

    @paddle.no_grad()
    def sample(self, x, count=4):
        path = np.rint(np.linspace(self.steps - 1, 0, count)).astype("int64").tolist()
        for now, after in zip(path, path[1:] + [None]):
            v = self.denoiser(x, paddle.full([x.shape[0]], now, dtype="int64"))
            a, s = float(self.signal[now]), float(self.sigma[now])
            clean = paddle.clip(a * x - s * v, -1.0, 1.0)
            if after is None:
                return clean
            x = float(self.signal[after]) * clean + float(self.sigma[after]) * (a * v + s * x)


class AveragedWeights:
    def __init__(self, model, decay=0.995, skip=1):
        self.decay, self.skip, self.calls = decay, skip, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @paddle.no_grad()
    def update(self, model):
        self.calls += 1
        keep = min(self.decay, (1.0 + self.calls) / (10.0 + self.calls)) if self.calls > self.skip else 0.0
        for name, p in model.named_parameters():
            self.shadow[name] = keep * self.shadow[name] + (1.0 - keep) * p.detach()
