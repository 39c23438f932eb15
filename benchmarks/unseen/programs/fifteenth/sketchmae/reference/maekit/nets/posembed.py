import numpy as np


def sincos_1d(dim, pos):
    omega = np.arange(dim // 2, dtype=np.float64) / (dim / 2.0)
    omega = 1.0 / 10000**omega
    out = np.einsum("m,d->md", pos.reshape(-1), omega)
    return np.concatenate([np.sin(out), np.cos(out)], axis=1)


def sincos_2d(dim, grid, cls_token=True):
    coords = np.arange(grid, dtype=np.float64)
    xs, ys = np.meshgrid(coords, coords)
    table = np.concatenate([sincos_1d(dim // 2, xs), sincos_1d(dim // 2, ys)], axis=1)
    if cls_token:
        table = np.concatenate([np.zeros([1, dim]), table], axis=0)
    return table
