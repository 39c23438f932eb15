import numpy as np
from paddle.io import Dataset


class Rotate:
    def __call__(self, image, index):
        return np.rot90(image, index % 4)


class ShiftedCrop:
    def __init__(self, size, moving):
        self.size, self.moving = size, moving

    def __call__(self, image, index):
        room = image.shape[0] - self.size
        top, left = (index % (room + 1), 2 * index % (room + 1)) if self.moving else (room // 2, room // 2)
        return image[top:top + self.size, left:left + self.size]


class Standardize:
    mean = np.array([0.44, 0.42, 0.40], "float32")
    std = np.array([0.21, 0.20, 0.19], "float32")

    def __call__(self, image, index=0):
        image = image.astype("float32") / 255.0
        return np.ascontiguousarray(((image - self.mean) / self.std).transpose(2, 0, 1))


class TextureFolder(Dataset):
    def __init__(self, split, file="textures.npz", size=24, border=28):
        super().__init__()
        train = split == "train"
        with np.load(file) as z:
            images, labels = z["images"], z["labels"]
        part = np.arange(len(labels)) < border
        part = part if train else ~part
        self.images, self.labels = images[part], labels[part].astype("int64")
        self.steps = [ShiftedCrop(size, train), Standardize()]
        if train:
            self.steps.insert(0, Rotate())

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        for step in self.steps:
            image = step(image, index)
        return image, self.labels[index]
