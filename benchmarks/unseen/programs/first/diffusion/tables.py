"""Noise schedule of the diffusion, in numpy."""
import numpy as np


def cosine_beta(steps, offset=0.008, largest=0.999):
    u = np.arange(steps + 1) / steps
    f = np.cos((u + offset) / (1 + offset) * np.pi / 2) ** 2
    return np.minimum(1 - f[1:] / f[:-1], largest)


def noise_tables(steps):
    beta = cosine_beta(steps)
    bar = np.cumprod(1 - beta)
    before = np.concatenate([[1.0], bar[:-1]])
    snr = bar / (1 - bar)
    return {
        "signal": np.sqrt(bar),
        "sigma": np.sqrt(1 - bar),
        "log_var": np.log(np.maximum(beta * (1 - before) / (1 - bar), 1e-20)),
        "on_x0": beta * np.sqrt(before) / (1 - bar),
        "on_xt": (1 - before) * np.sqrt(1 - beta) / (1 - bar),
        "min_snr": np.minimum(snr, 5) / (snr + 1),
    }
