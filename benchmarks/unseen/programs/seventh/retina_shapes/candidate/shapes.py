import numpy as np
import paddle
from paddle.io import DataLoader, Dataset
from PIL import Image

from .settings import CFG


class Shapes(Dataset):
    def __init__(self, split):
        super().__init__()
        self.count, self.first = CFG["sets"][split]
        self.augment = split == "train"

    def __len__(self):
        return self.count

    def draw(self, rng):
        height, width = rng.randint(40, 70, 2)
        canvas = rng.randint(0, 60, (height, width, 3)).astype("uint8")
        count = rng.randint(1, 5)
        kinds = rng.randint(0, CFG["classes"], count)
        rects = []
        for kind in kinds:
            w, h = rng.uniform(10, 30, 2)
            left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
            rects.append((left, top, left + w, top + h))
            canvas[int(top):int(top + h), int(left):int(left + w), kind] = rng.randint(150, 255)
        return canvas, np.array(rects), kinds

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError
        rng = np.random.RandomState(self.first + index)
        image, rects, kinds = self.draw(rng)
        if self.augment and rng.rand() < CFG["flip"]:
            image = image[:, ::-1]
            rects = rects.copy()
            rects[:, [0, 2]] = image.shape[1] - rects[:, [2, 0]]
        image, rects = fit(image, rects, CFG["input"])
        image = (image.astype("float32") - np.float32(CFG["pixel_mean"])) / np.float32(CFG["pixel_std"])
        padded = np.zeros((3, CFG["input"], CFG["input"]), "float32")
        padded[:, :image.shape[0], :image.shape[1]] = image.transpose(2, 0, 1)
        rows = np.full((CFG["boxes"], 5), -1.0, "float32")
        rows[:len(rects)] = np.concatenate([rects, kinds[:, None]], 1)
        return padded, rows


def fit(image, rects, size):
    height, width = image.shape[:2]
    factor = size / max(height, width)
    new = np.array([int(width * factor + 0.5), int(height * factor + 0.5)])
    image = Image.fromarray(np.ascontiguousarray(image)).resize(tuple(int(n) for n in new), Image.BILINEAR)
    return np.asarray(image), rects * np.tile(new / [width, height], 2)


def loader(split):
    train = split == "train"
    return DataLoader(Shapes(split), batch_size=CFG["batch"], shuffle=train, drop_last=train, num_workers=0)
