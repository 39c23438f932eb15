import argparse
import math

import torch


def get_args(argv=()):
    p = argparse.ArgumentParser()
    p.add_argument("--levels", type=int, default=2)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--alpha", type=float, default=0.05)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.99))
    p.add_argument("--l2", type=float, default=1e-3)
    p.add_argument("--grad-value", type=float, default=0.05)
    p.add_argument("--t-max", type=int, default=12)
    p.add_argument("--eta-min", type=float, default=1e-4)
    p.add_argument("--y-weight", type=float, default=0.1)
    p.add_argument("--levels-of-grey", type=int, default=17)
    return p.parse_args(list(argv))


def gaussian_logp(x, mean, logs):
    return -0.5 * (math.log(2 * math.pi) + 2 * logs + (x - mean) ** 2 * torch.exp(-2 * logs))


def squeeze2d(x, factor=2):
    b, c, h, w = x.shape
    x = x.view(b, c, h // factor, factor, w // factor, factor)
    return x.permute(0, 1, 3, 5, 2, 4).reshape(b, c * factor * factor, h // factor, w // factor)
