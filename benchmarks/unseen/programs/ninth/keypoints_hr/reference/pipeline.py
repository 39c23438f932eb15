"""Steps from a picture and its joints to a sample; each takes and returns a dict."""
import numpy as np

from .registry import TRANSFORMS


def bilinear(image, x, y):
    """Values of the picture at points, black outside."""
    h, w, _ = image.shape
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    out = np.zeros(x.shape + (image.shape[2],), dtype="float64")
    for dy in (0, 1):
        for dx in (0, 1):
            xi, yi = x0 + dx, y0 + dy
            weight = (1 - np.abs(x - xi)) * (1 - np.abs(y - yi))
            inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
            values = image[yi.clip(0, h - 1), xi.clip(0, w - 1)].astype("float64")
            out += (weight * inside)[..., None] * values
    return out


@TRANSFORMS.register
class CropToBox:
    """A square around the box, `margin` times its longer side, resampled to size x size."""

    def __init__(self, size, margin):
        self.size, self.margin = size, margin

    def __call__(self, sample):
        x, y, w, h = sample["bbox"]
        side = max(w, h) * self.margin
        left, top = x + w / 2 - side / 2, y + h / 2 - side / 2
        step = side / self.size
        grid = (np.arange(self.size) + 0.5) * step - 0.5
        gx, gy = np.meshgrid(left + grid, top + grid)
        joints = (sample["joints"] - [left, top] + 0.5) / step - 0.5
        scale = max(w, h) / step
        return {**sample, "image": bilinear(sample["image"], gx, gy).astype("float32"), "joints": joints, "scale": scale}


@TRANSFORMS.register
class FlipOdd:
    """Mirrors every other person; left and right joints change places."""

    def __init__(self, pairs):
        self.pairs = pairs

    def __call__(self, sample):
        if sample["index"] % 2 == 0:
            return sample
        joints, visible = sample["joints"].copy(), sample["visible"].copy()
        joints[:, 0] = sample["image"].shape[1] - 1 - joints[:, 0]
        for a, b in self.pairs:
            joints[[a, b]] = joints[[b, a]]
            visible[[a, b]] = visible[[b, a]]
        return {**sample, "image": sample["image"][:, ::-1], "joints": joints, "visible": visible}


@TRANSFORMS.register
class Standardise:
    def __init__(self, mean, std):
        self.mean, self.std = np.array(mean, dtype="float32"), np.array(std, dtype="float32")

    def __call__(self, sample):
        image = (sample["image"] - self.mean) / self.std
        return {**sample, "image": np.ascontiguousarray(image.transpose(2, 0, 1))}


@TRANSFORMS.register
class GaussianTarget:
    """A bump of height 1 at each joint, cut off at three deviations; no bump for joints that are not labelled."""

    def __init__(self, stride, sigma, occluded):
        self.stride, self.sigma, self.occluded = stride, sigma, occluded

    def __call__(self, sample):
        _, h, w = sample["image"].shape
        ys, xs = np.mgrid[: h // self.stride, : w // self.stride]
        centres = (sample["joints"] + 0.5) / self.stride - 0.5
        squared = (xs - centres[:, 0, None, None]) ** 2 + (ys - centres[:, 1, None, None]) ** 2
        maps = np.exp(-squared / (2 * self.sigma**2)) * (squared <= (3 * self.sigma) ** 2)
        weights = np.array([0.0, self.occluded, 1.0])[sample["visible"]]
        maps = maps * (weights > 0)[:, None, None]
        return {**sample, "heatmaps": maps.astype("float32"), "weights": weights.astype("float32")}
