import numpy as np
from PIL import Image
from torch.utils.data import Dataset

from ..config import DATA
from .masking import mask_from_order, random_order
from .transforms import build_transform


class PictureFolder(Dataset):
    def __init__(self, split, cfg):
        self.cfg = cfg.picture
        self.mask_ratio = cfg.mae.mask_ratio
        self.num_patches = (cfg.picture.size // cfg.mae.patch) ** 2
        self.transform = build_transform(cfg.picture, split == "train")
        lines = (DATA / f"{split}.txt").read_text().splitlines()
        self.files = [line for line in lines if line and not line.startswith("#")]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        rng = np.random.default_rng([self.cfg.seed, index])
        img = Image.open(DATA / "pictures" / self.files[index]).convert("RGB")
        x = self.transform(img, rng)
        order = random_order(self.num_patches, rng)
        labels = {"image": x, "mask": mask_from_order(order, self.mask_ratio)}
        return (x, order), labels
