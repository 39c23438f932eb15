import numpy as np
from paddle.io import Dataset

CHANNEL_MEAN = np.array([0.485, 0.456, 0.406], "float32").reshape(3, 1, 1)
CHANNEL_STD = np.array([0.229, 0.224, 0.225], "float32").reshape(3, 1, 1)


def paint(index, canvas=20):
    rng = np.random.RandomState(900 + index)
    ys, xs = np.meshgrid(np.arange(canvas), np.arange(canvas), indexing="ij")
    picture = np.stack([40 + 6 * xs, 60 + 5 * ys, 30 + 3 * (xs + ys)], axis=2)
    cx, cy = rng.randint(4, 16), rng.randint(4, 16)
    radius = rng.randint(3, 6)
    inside = np.square(xs - cx) + np.square(ys - cy) <= radius * radius
    picture[inside] = rng.randint(0, 256, 3)
    bar = rng.randint(0, 18)
    picture[bar:bar + 2, :] = rng.randint(0, 256, 3)
    return picture.clip(0, 255).astype("uint8")


class Pictures(Dataset):
    def __init__(self, count=12, crop=16):
        super().__init__()
        self.count, self.crop = count, crop

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.RandomState(17 * index + 1)
        picture = paint(index)
        slack = picture.shape[0] - self.crop + 1
        y0 = rng.randint(0, slack)
        x0 = rng.randint(0, slack)
        window = picture[y0:y0 + self.crop, x0:x0 + self.crop]
        if rng.rand() < 0.5:
            window = np.flip(window, axis=1)
        chw = window.transpose(2, 0, 1).astype("float32") / np.float32(255)
        return (chw - CHANNEL_MEAN) / CHANNEL_STD
