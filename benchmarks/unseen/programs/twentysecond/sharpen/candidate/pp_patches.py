import numpy as np
import paddle
from pp_settings import DATA, get


def bell(radius, sigma):
    weights = np.array([np.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)])
    return weights / weights.sum()


def blur_matrix(n, stride=2):
    """(n // stride, n) matrix: blur with mirrored borders, every `stride`-th row kept."""
    radius = get("patches.blur.radius")
    taps = bell(radius, get("patches.blur.sigma"))
    m = np.zeros((n, n))
    for i in range(n):
        for k, w in zip(range(-radius, radius + 1), taps):
            j = abs(i + k)
            if j >= n:
                j = 2 * (n - 1) - j
            m[i, j] += w
    return m[::stride]


def shrink(img):
    h, w = img.shape[:2]
    return np.einsum("ih,hwc,jw->ijc", blur_matrix(h), img, blur_matrix(w))


def whiten(low):
    planes = [
        (low[..., c] - m) / s
        for c, (m, s) in enumerate(zip(get("patches.channel_mean"), get("patches.channel_std")))
    ]
    return np.stack(planes).astype("float32")


def turned(img, i):
    for _ in range(i % 4):
        img = img.transpose(1, 0, 2)[::-1]
    if i % 8 >= 4:
        img = np.fliplr(img)
    return img


def level_input(noise):
    return np.array([noise / get("patches.level_unit")], dtype="float32")


class PatchSet(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        stored = np.load(DATA / (split + ".npy")).astype("float64") / 255.0
        self.images = [turned(img, i) for i, img in enumerate(stored)] if split == "train" else list(stored)
        noise = get("patches.noise")
        self.noise = [noise[i % len(noise)] for i in range(len(stored))]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        low = shrink(self.images[i])
        rng = np.random.default_rng(get("patches.noise_seed") + i)
        low = low + self.noise[i] * rng.standard_normal(low.shape)
        high = np.moveaxis(self.images[i], -1, 0).astype("float32")
        return whiten(np.minimum(np.maximum(low, 0.0), 1.0)), level_input(self.noise[i]), high


class Batches(paddle.io.BatchSampler):
    def __init__(self, split, data):
        self.size = get("patches.batch_size")
        self.order = list(range(len(data)))
        if split == "train":
            self.order = np.random.default_rng(get("patches.shuffle_seed")).permutation(len(data)).tolist()
            self.order = self.order[: len(data) // self.size * self.size]

    def __iter__(self):
        for start in range(0, len(self.order), self.size):
            yield self.order[start : start + self.size]

    def __len__(self):
        return -(-len(self.order) // self.size)
