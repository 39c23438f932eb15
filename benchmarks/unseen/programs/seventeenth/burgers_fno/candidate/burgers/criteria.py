import math

import paddle

from . import CFG
from .pde_data import SCALING


def slope(u):
    """du/dx on the unit circle by its Fourier series, without the highest mode."""
    n = u.shape[-1]
    wave = 2 * math.pi * paddle.arange(n // 2, dtype=u.dtype)
    c = paddle.fft.rfft(u)[..., : n // 2]
    return paddle.fft.irfft(paddle.complex(-wave * c.imag(), wave * c.real()), n=n)


def ratio(error, truth):
    return paddle.linalg.norm(error, axis=-1) / paddle.linalg.norm(truth, axis=-1)


def one_step(out, truth):
    error = SCALING.unpack(out) - truth
    return paddle.mean(ratio(error, truth)) + CFG["loss"]["h1"] * paddle.mean(ratio(slope(error), slope(truth)))


@paddle.no_grad()
def scores(out, labels):
    truth = labels["next"]
    error = SCALING.unpack(out) - truth
    power = paddle.fft.rfft(error, norm="forward").abs().square()
    a, b = CFG["report"]["bands"]

    def rms(part):
        return part.sum(axis=-1).mean().sqrt()

    return {
        "relative_l2": ratio(error, truth).mean(),
        "worst": error.abs().max(axis=-1).mean(),
        "mass": error.mean(axis=-1).abs().max(),
        "low": rms(power[:, :a]),
        "middle": rms(power[:, a:b]),
        "high": rms(power[:, b:]),
    }
