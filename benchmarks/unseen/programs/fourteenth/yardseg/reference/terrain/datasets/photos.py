import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class PhotoMasks(Dataset):
    def __init__(self, root, split, transforms):
        self.root, self.transforms = root, transforms
        self.names = (root / f"{split}.txt").read_text().split()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        name = self.names[i]
        image = Image.open(self.root / "images" / f"{name}.jpg").convert("RGB")
        # palette images: the indices are the labels
        mask = Image.fromarray(np.array(Image.open(self.root / "masks" / f"{name}.png")))
        return self.transforms(image, mask)
