"""Numpy transforms of (image, annotation) pairs."""
import numpy as np

from .plugins import plugin


def resample(image, columns, rows):
    """Bilinear values at the crossings of rows and columns; zero beyond the border."""
    h, w = image.shape[:2]
    padded = np.zeros((h + 2, w + 2, image.shape[2]), dtype=np.float64)
    padded[1:-1, 1:-1] = image

    def neighbours(position, limit):
        first = np.floor(position).astype(int)
        share = position - first
        return np.clip(first + 1, 0, limit + 1), np.clip(first + 2, 0, limit + 1), share

    top, bottom, v = neighbours(rows, h)
    left, right, u = neighbours(columns, w)
    u, v = u[None, :, None], v[:, None, None]
    upper = padded[top][:, left] * (1 - u) + padded[top][:, right] * u
    lower = padded[bottom][:, left] * (1 - u) + padded[bottom][:, right] * u
    return upper * (1 - v) + lower * v


@plugin("crop")
class Crop:
    def __init__(self, size, margin):
        self.size = size
        self.margin = margin

    def __call__(self, image, note):
        x, y, w, h = note["bbox"]
        longer = max(w, h)
        side = longer * self.margin
        origin = np.array([x + w / 2 - side / 2, y + h / 2 - side / 2])
        pixel = side / self.size
        centres = (np.arange(self.size) + 0.5) * pixel - 0.5
        patch = resample(image, origin[0] + centres, origin[1] + centres)
        note = dict(note)
        note["joints"] = (note["joints"] - origin + 0.5) / pixel - 0.5
        note["scale"] = longer / pixel
        return patch.astype(np.float32), note


@plugin("flip_odd")
class FlipOdd:
    def __init__(self, pairs):
        self.pairs = pairs

    def __call__(self, image, note):
        if note["index"] % 2:
            order = list(range(len(note["joints"])))
            for a, b in self.pairs:
                order[a], order[b] = b, a
            width = image.shape[1]
            joints = note["joints"][order]
            joints[:, 0] = width - 1 - joints[:, 0]
            note = dict(note, joints=joints, visible=note["visible"][order])
            image = image[:, ::-1]
        return image, note


@plugin("standardise")
class Standardise:
    def __init__(self, mean, std):
        self.mean = np.array(mean, np.float32).reshape(-1, 1, 1)
        self.std = np.array(std, np.float32).reshape(-1, 1, 1)

    def __call__(self, image, note):
        chw = np.transpose(image, (2, 0, 1))
        return np.ascontiguousarray((chw - self.mean) / self.std), note


@plugin("heatmaps")
class Heatmaps:
    def __init__(self, stride, sigma, occluded):
        self.stride = stride
        self.sigma = sigma
        self.weight_of = {0: 0.0, 1: occluded, 2: 1.0}

    def draw(self, x, y, height, width):
        dx = np.arange(width)[None, :] - x
        dy = np.arange(height)[:, None] - y
        squared = dx**2 + dy**2
        bump = np.exp(-squared / (2 * self.sigma**2))
        bump[squared > (3 * self.sigma) ** 2] = 0
        return bump

    def __call__(self, image, note):
        height, width = (size // self.stride for size in image.shape[1:])
        weights = np.array([self.weight_of[int(v)] for v in note["visible"]], dtype=np.float32)
        maps = np.zeros((len(weights), height, width), dtype=np.float32)
        for k, (x, y) in enumerate((note["joints"] + 0.5) / self.stride - 0.5):
            if weights[k] > 0:
                maps[k] = self.draw(x, y, height, width)
        return image, dict(note, heatmaps=maps, weights=weights)
