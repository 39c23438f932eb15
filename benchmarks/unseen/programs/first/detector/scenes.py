import numpy as np
from paddle.io import Dataset

HEIGHT, WIDTH, CLASSES = 32, 40, 3


def whiten(image):
    return (image - np.float32(0.5)) / np.float32(0.3)


class SceneSet(Dataset):
    def __init__(self, split):
        self.length, self.start = {"train": (12, 100)}.get(split, (7, 500))

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(self.start + index)
        image = rng.random((HEIGHT, WIDTH, 3)).astype("float32")
        rows = []
        for _ in range(int(rng.integers(1, 5))):
            kind = int(rng.integers(CLASSES))
            left, top = rng.integers(0, WIDTH - 12), rng.integers(0, HEIGHT - 12)
            size = rng.integers(8, 24, 2)
            right, bottom = np.minimum([left, top] + size, [WIDTH, HEIGHT])
            image[top:bottom, left:right, kind] += 1
            rows.append([left, top, right, bottom, kind])
        padding = [[-1] * 5] * (4 - len(rows))
        return whiten(image).transpose(2, 0, 1), np.array(rows + padding, dtype="float32")
