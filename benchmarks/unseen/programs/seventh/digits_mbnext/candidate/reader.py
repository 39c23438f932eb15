import random

import numpy as np
import paddle
from paddle.vision import transforms as T
from PIL import Image
from sklearn.datasets import load_digits

PIXELS = {"mean": [0.3052], "std": [0.3613]}


class Turn(T.BaseTransform):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def _apply_image(self, image):
        angle = random.uniform(-self.most, self.most)
        return image.rotate(angle, Image.BILINEAR)


class Cut(T.BaseTransform):
    """A random window."""

    def __init__(self, side):
        super().__init__()
        self.side = side

    def _apply_image(self, image):
        x = random.randint(0, image.size[0] - self.side)
        y = random.randint(0, image.size[1] - self.side)
        return T.functional.crop(image, y, x, self.side, self.side)


class Light(T.BaseTransform):
    def __init__(self, amount):
        super().__init__()
        self.amount = amount

    def _apply_image(self, x):
        return paddle.clip(x * (1 + random.uniform(-self.amount, self.amount)), 0, 1)


def pipeline(split):
    if split == "train":
        steps = [T.Resize((36, 36), interpolation="bicubic"), Turn(12), Cut(32), T.ToTensor(), Light(0.3)]
    else:
        steps = [T.Resize((36, 36), interpolation="bicubic"), T.CenterCrop(32), T.ToTensor()]
    return T.Compose(steps + [T.Normalize(**PIXELS)])


class DigitSet(paddle.io.Dataset):
    def __init__(self, split, most=96):
        super().__init__()
        source = load_digits()
        order = np.arange(len(source.target))
        order = order[order % 5 == 4] if split == "val" else order[order % 5 != 4]
        self.order = order[:most]
        self.pixels, self.labels = source.images, source.target
        self.transform = pipeline(split)

    def __len__(self):
        return len(self.order)

    def __getitem__(self, index):
        place = self.order[index]
        image = Image.fromarray(np.rint(self.pixels[place] / 16 * 255).astype(np.uint8))
        return self.transform(image), int(self.labels[place])


def reader(split):
    train = split == "train"
    return paddle.io.DataLoader(DigitSet(split), batch_size=16, shuffle=train, drop_last=train)
