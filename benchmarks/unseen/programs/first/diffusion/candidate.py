import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from denoiser import Denoiser
from tables import noise_tables


class Diffusion(nn.Layer):
    def __init__(self, steps=50):
        super().__init__()
        self.denoiser = Denoiser(channels=2, width=8, temb=16)
        dtype = paddle.get_default_dtype()
        for name, table in noise_tables(steps).items():
            self.register_buffer(name, paddle.to_tensor(table.astype(dtype)))

    def at(self, name, t):
        return paddle.index_select(getattr(self, name), t).reshape([-1, 1, 1])

    def forward(self, x0, t, noise):
        signal, sigma = self.at("signal", t), self.at("sigma", t)
        xt = signal * x0 + sigma * noise
        v = self.denoiser(xt, t)
        estimate = paddle.clip(signal * xt - sigma * v, -1.0, 1.0)
        mean = self.at("on_x0", t) * estimate + self.at("on_xt", t) * xt
        return {
            "v": v,
            "target": signal * noise - sigma * x0,
            "weight": self.at("min_snr", t).flatten(),
            "mean": mean,
            "log_var": self.at("log_var", t).flatten(),
        }


def build_model():
    return Diffusion()


def loss(out, labels):
    error = paddle.square(out["v"] - out["target"]).mean(axis=[1, 2])
    return paddle.mean(error * out["weight"]) + 0.01 * F.l1_loss(out["mean"], labels)


def metric(out, labels):
    sq = np.square(out["mean"].numpy() - labels.numpy())
    psnr = 10 * np.log10(4 / sq.mean(axis=(1, 2)))
    return {"rmse": float(np.sqrt(sq.mean())), "psnr": float(psnr.mean())}


class WarmupCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warmup, total, floor):
        self.warmup, self.total, self.floor = warmup, total, floor
        super().__init__(base)

    def get_lr(self):
        i = self.last_epoch
        if i < self.warmup:
            return self.base_lr * (i + 1) / self.warmup
        done = (i - self.warmup) / (self.total - self.warmup)
        return self.base_lr * max(self.floor, (1 + np.cos(np.pi * done)) / 2)


def build_optimizer(model):
    return paddle.optimizer.AdamW(
        WarmupCosine(1e-3, warmup=4, total=16, floor=0.05),
        beta2=0.99,
        epsilon=1e-7,
        parameters=model.parameters(),
        grad_clip=nn.ClipGradByGlobalNorm(0.1),
    )


def build_scheduler(opt):
    return opt._learning_rate
