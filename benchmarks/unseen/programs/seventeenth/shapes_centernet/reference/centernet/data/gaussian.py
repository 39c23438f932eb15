import numpy as np


def gaussian_radius(height, width, min_overlap):
    """The radius of CornerNet: within it a corner still gives a box of enough overlap."""
    b1 = height + width
    c1 = width * height * (1 - min_overlap) / (1 + min_overlap)
    r1 = (b1 - np.sqrt(b1**2 - 4 * c1)) / 2

    b2 = 2 * (height + width)
    c2 = (1 - min_overlap) * width * height
    r2 = (b2 - np.sqrt(b2**2 - 16 * c2)) / 8

    a3 = 4 * min_overlap
    b3 = -2 * min_overlap * (height + width)
    c3 = (min_overlap - 1) * width * height
    r3 = (b3 + np.sqrt(b3**2 - 4 * a3 * c3)) / (2 * a3)
    return min(r1, r2, r3)


def gaussian2d(radius):
    sigma = (2 * radius + 1) / 6
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return np.exp(-(x * x + y * y) / (2 * sigma * sigma))


def draw_gaussian(heatmap, cx, cy, radius):
    """Draws into heatmap, keeping the greater value where objects overlap."""
    patch = gaussian2d(radius)
    height, width = heatmap.shape
    left, right = min(cx, radius), min(width - cx, radius + 1)
    top, bottom = min(cy, radius), min(height - cy, radius + 1)
    region = heatmap[cy - top : cy + bottom, cx - left : cx + right]
    np.maximum(region, patch[radius - top : radius + bottom, radius - left : radius + right], out=region)
