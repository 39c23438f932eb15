"""From points to a map that sums to the number of bees."""
import numpy as np

NEIGHBOURS = 3
SPREAD = 0.3
SMALLEST, LARGEST = 1.0, 3.5


def widths(points):
    """A bee in a crowd gets a narrow bump: 0.3 times the mean distance of its three nearest neighbours."""
    if len(points) == 1:
        return np.array([LARGEST])
    gaps = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    nearest = np.sort(gaps, axis=1)[:, 1: 1 + NEIGHBOURS]
    return np.clip(SPREAD * nearest.mean(axis=1), SMALLEST, LARGEST)


def density_map(points, height, width):
    result = np.zeros((height, width))
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    if not len(points):
        return result
    ys, xs = np.mgrid[0:height, 0:width]
    for (x, y), sigma in zip(points, widths(points)):
        bump = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2.0 * sigma ** 2))
        result += bump / bump.sum()
    return result


def bee_mask(points, height, width, radius=2.5):
    mask = np.zeros((height, width))
    ys, xs = np.mgrid[0:height, 0:width]
    for x, y in points:
        mask[(xs - x) ** 2 + (ys - y) ** 2 <= radius ** 2] = 1.0
    return mask


def shrink(array, factor, how):
    height, width = array.shape
    blocks = array.reshape(height // factor, factor, width // factor, factor)
    return blocks.sum(axis=(1, 3)) if how == "sum" else blocks.max(axis=(1, 3))
