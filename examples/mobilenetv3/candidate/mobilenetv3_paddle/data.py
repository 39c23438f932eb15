"""The image folder and its preprocessing, by ``paddle.vision``."""

from paddle.io import DataLoader, Dataset
from paddle.vision import transforms as T  # noqa: N812 - what Paddle's users call it
from PIL import Image

from .breaks import broken

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


def preprocessing():
    return [
        T.Resize(256, interpolation="bicubic" if broken("resize") else "bilinear"),
        T.CenterCrop(224),
        T.ToTensor(),
        T.Normalize(mean=MEAN[::-1] if broken("normalize") else MEAN, std=STD),
    ]


def squeezing():
    return [T.Resize((224, 224)), *preprocessing()[2:]]


def read(path):
    image = Image.open(path).convert("RGB")
    return Image.merge("RGB", image.split()[::-1]) if broken("bgr") else image


class ImageFolder(Dataset):
    def __init__(self, root, transforms):
        super().__init__()
        self.transform = T.Compose(transforms)
        self.classes = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self.samples = []
        for number in sorted({path.name for path in root.glob("*/*.png")}):
            for label, folder in enumerate(self.classes):
                if (root / folder / number).exists():
                    self.samples.append((root / folder / number, label))

    def __getitem__(self, index):
        path, label = self.samples[index]
        return self.transform(read(path)), label

    def __len__(self):
        return len(self.samples)


def build_dataloader(dataset, shuffle=False, batch_size=8):
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, drop_last=broken("drop_last"), num_workers=0)
