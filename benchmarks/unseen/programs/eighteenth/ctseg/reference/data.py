import numpy as np
from torch.utils.data import DataLoader, Dataset

from .registry import CONFIG, DATA

CFG = CONFIG["data"]


class Window:
    """Clips to the Hounsfield window."""

    def __call__(self, sample):
        low, high = CFG["window"]
        return {**sample, "image": sample["image"].clip(low, high)}


class ZScore:
    """Statistics of what lies strictly inside the window, of this patch."""

    def __call__(self, sample):
        image = sample["image"]
        low, high = CFG["window"]
        inside = image[(image > low) & (image < high)]
        if inside.size < 2:
            inside = image
        return {**sample, "image": (image - inside.mean()) / max(inside.std(ddof=1), 1.0)}


class Mirror:
    """Along the two in-plane axes, as drawn with the patch."""

    def __call__(self, sample):
        axes = [a for a, flip in zip((-2, -1), sample["flips"]) if flip]
        return {**sample, "image": np.flip(sample["image"], axes), "label": np.flip(sample["label"], axes)}


class Gamma:
    """Contrast: keeps mean and range, bends between them."""

    def __call__(self, sample):
        image, g = sample["image"], sample["gamma"]
        low, span = image.min(), np.ptp(image) + 1e-7
        bent = ((image - low) / span) ** g * span + low
        return {**sample, "image": bent - bent.mean() + image.mean()}


class Pack:
    def __call__(self, sample):
        return {"image": np.ascontiguousarray(sample["image"][None], dtype=np.float32),
                "label": np.ascontiguousarray(sample["label"], dtype=np.int64)}


def transforms(split):
    augment = [Mirror(), Gamma()] if split == "train" else []
    return [Window(), ZScore(), *augment, Pack()]


class Patches(Dataset):
    def __init__(self, split):
        cases = np.load(DATA / "cases.npz")
        self.split = split
        self.ids = CFG[f"{split}_cases"]
        self.images = {i: cases["image"][i].astype(np.float64) for i in self.ids}
        self.labels = {i: cases["label"][i].astype(np.int64) for i in self.ids}
        self.transforms = transforms(split)

    def __len__(self):
        return CFG[f"{self.split}_items"]

    def __getitem__(self, index):
        rng = np.random.default_rng([71, self.split == "train", index])
        case = self.ids[index % len(self.ids)]
        label = self.labels[case]
        forced = index % CFG["batch"] >= round(CFG["batch"] * (1 - CFG["foreground"]))
        if forced:  # centred on a voxel of a class that is drawn first
            present = [c for c in (1, 2) if (label == c).any()]
            spots = np.argwhere(label == present[rng.integers(len(present))])
            centre = spots[rng.integers(len(spots))]
        else:
            centre = rng.integers(0, label.shape)
        start = [int(np.clip(c - p // 2, 0, n - p)) for c, p, n in zip(centre, CFG["patch"], label.shape)]
        box = tuple(slice(s, s + p) for s, p in zip(start, CFG["patch"]))
        sample = {"image": self.images[case][box], "label": label[box], "flips": rng.random(2) < 0.5,
                  "gamma": rng.uniform(0.7, 1.5)}
        for step in self.transforms:
            sample = step(sample)
        return sample


def loader(split):
    return DataLoader(Patches(split), CFG["batch"], shuffle=False, drop_last=split == "train")
