"""Ground truth at half resolution: bumps that sum to the number of bees, and discs."""
import numpy as np
from scipy.spatial.distance import cdist

K = 3
FRACTION = 0.3
BOUNDS = (1.0, 3.5)
DISC = 2.5


def bump_sizes(bees):
    """Narrow where bees are crowded (mean distance of the nearest K)."""
    if len(bees) < 2:
        return np.full(len(bees), BOUNDS[1])
    ordered = np.sort(cdist(bees, bees), axis=1)
    return np.clip(FRACTION * ordered[:, 1:K + 1].mean(1), *BOUNDS)


def squared_distances(bees, shape):
    """[bees, height, width]"""
    rows, columns = np.arange(shape[0]), np.arange(shape[1])
    dx = columns[None, None, :] - bees[:, 0, None, None]
    dy = rows[None, :, None] - bees[:, 1, None, None]
    return dx ** 2 + dy ** 2


def blocks(grid, step):
    height, width = grid.shape
    return grid.reshape(height // step, step, width // step, step)


def truth_maps(bees, shape, step=2):
    bees = np.reshape(bees, (-1, 2))
    if bees.shape[0] == 0:
        empty = np.zeros((shape[0] // step, shape[1] // step), "float32")
        return np.stack([empty, empty])
    d2 = squared_distances(bees, shape)
    bumps = np.exp(-0.5 * d2 / bump_sizes(bees)[:, None, None] ** 2)
    bumps /= bumps.sum(axis=(1, 2), keepdims=True)
    disc = (d2 <= DISC ** 2).any(axis=0).astype("float64")
    density = blocks(bumps.sum(axis=0), step).sum(axis=(1, 3))
    return np.stack([density, blocks(disc, step).max(axis=(1, 3))]).astype("float32")
