"""Sliding windows over a whole volume, then clean-up of the mask."""
import numpy as np
import paddle
import paddle.nn.functional as F
from scipy import ndimage as ndi

from .volumes import HU, PATCH, tissue_statistics

OVERLAP, SIGMA, LESION, SMALLEST = 0.5, 1 / 8, 0.35, 12


def importance(shape):
    """Separable Gaussian, cut at four deviations, greatest in the middle."""
    total = np.ones(shape)
    for axis, n in enumerate(shape):
        line = np.zeros(n)
        line[n // 2] = 1.0
        line = ndi.gaussian_filter1d(line, n * SIGMA, mode="constant")
        total = total * line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    total = total / total.max()
    return np.clip(total, total[total > 0].min(), None)


def starts(length, window):
    stride = window * (1 - OVERLAP)
    pieces = int(np.ceil((length - window) / stride)) + 1
    return [int(s) for s in np.round(np.linspace(0, length - window, pieces))]


def tidy(mask):
    components, n = ndi.label(mask > 0)
    if n > 0:
        main = components == np.argmax(ndi.sum_labels(np.ones_like(mask), components, range(1, n + 1))) + 1
        mask = mask * main
        mask[ndi.binary_fill_holes(main) & ~main] = 1
    lesions, n = ndi.label(mask == 2, structure=ndi.generate_binary_structure(3, 3))
    sizes = np.bincount(lesions.ravel(), minlength=n + 1)
    small = np.flatnonzero(sizes < SMALLEST)
    mask[np.isin(lesions, small[small > 0])] = 1
    return mask


def posterior(network, x):
    plain = F.softmax(network(x)[0], axis=1)
    mirrored = F.softmax(network(paddle.flip(x, axis=[4]))[0], axis=1)
    return 0.5 * (plain + paddle.flip(mirrored, axis=[4]))


@paddle.no_grad()
def segment(path, network):
    with np.load(path) as stored:
        raw, spacing = stored["image"].astype("float64"), stored["spacing"]
    mean, std = tissue_statistics(raw)
    image = (np.clip(raw, *HU) - mean) / std
    lack = np.maximum(np.array(PATCH) - image.shape, 0)
    front = lack // 2
    image = np.pad(image, list(zip(front, lack - front)), mode="edge")
    dtype = str(network.parameters()[0].dtype).split(".")[-1]
    image, weight = image.astype(dtype), importance(PATCH).astype(dtype)
    votes, coverage = np.zeros((3, *image.shape), dtype), np.zeros(image.shape, dtype)
    for z in starts(image.shape[0], PATCH[0]):
        for y in starts(image.shape[1], PATCH[1]):
            for x in starts(image.shape[2], PATCH[2]):
                cut = np.s_[z:z + PATCH[0], y:y + PATCH[1], x:x + PATCH[2]]
                p = posterior(network, paddle.to_tensor(np.ascontiguousarray(image[cut])[None, None]))
                votes[(slice(None), *cut)] += p[0].numpy() * weight
                coverage[cut] += weight
    d, h, w = raw.shape
    probabilities = (votes / coverage)[:, front[0]:front[0] + d, front[1]:front[1] + h, front[2]:front[2] + w]
    mask = np.argmax(probabilities, axis=0)
    mask[np.logical_and(mask != 0, probabilities[2] > LESION)] = 2
    mask = tidy(mask)
    counts = np.array([(mask == c).sum() for c in (1, 2)])
    return {"probabilities": probabilities, "mask": mask.astype("int64"),
            "ml": counts * float(np.prod(spacing)) / 1000.0}
