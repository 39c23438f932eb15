"""An image folder, ``root/<class>/<number>.png``, and the preprocessing of an ImageNet evaluation."""

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Resize:
    """Scale the shorter side to ``size``."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        width, height = image.size
        short = min(width, height)
        return image.resize((int(self.size * width / short), int(self.size * height / short)), Image.BILINEAR)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        left, top = (round((side - self.size) / 2) for side in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


class ToTensor:
    """Image -> float32 ``[3, H, W]`` in [0, 1]."""

    def __call__(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, tensor):
        return (tensor - self.mean) / self.std


def preprocessing():
    return [Resize(256), CenterCrop(224), ToTensor(), Normalize(MEAN, STD)]


def load(path, transforms):
    image = Image.open(path).convert("RGB")
    for transform in transforms:
        image = transform(image)
    return image


class ImageFolder(Dataset):
    """Pairs of an image, float32 ``[3, 224, 224]``, and its label; the classes take turns, so every batch holds both."""

    def __init__(self, root, transforms):
        self.transforms = transforms
        self.classes = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self.paths = sorted(root.glob("*/*.png"), key=lambda path: (path.name, path.parent.name))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return load(path, self.transforms), self.classes.index(path.parent.name)


def build_dataloader(dataset, *, shuffle=False, batch_size=8):
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, num_workers=0)
