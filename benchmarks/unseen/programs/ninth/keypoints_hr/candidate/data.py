import json
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

from . import config
from . import transforms as _  # registers  # noqa: F401
from .plugins import create

ROOT = Path(__file__).resolve().parents[1] / "data"


def build_transforms(split):
    return [create(spec) for spec in (config.train_transforms if split == "train" else config.val_transforms)]


class Persons(Dataset):
    def __init__(self, split):
        super().__init__()
        content = json.loads((ROOT / "annotations.json").read_text())
        files = {entry["id"]: entry["file_name"] for entry in content["images"] if entry["split"] == split}
        self.records = []
        for note in content["annotations"]:
            if note["image_id"] in files:
                triples = np.array(note["keypoints"], dtype=np.float64).reshape(-1, 3)
                self.records.append((note["image_id"], files[note["image_id"]], note["bbox"], triples))
        self.records.sort(key=lambda record: record[0])
        self.transforms = build_transforms(split)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        _, file, bbox, triples = self.records[index]
        image = np.load(ROOT / "images" / file)
        note = {"index": index, "bbox": bbox, "joints": triples[:, :2], "visible": triples[:, 2].astype(int)}
        for transform in self.transforms:
            image, note = transform(image, note)
        return image, {
            "heatmaps": note["heatmaps"],
            "joints": note["joints"].astype(np.float32),
            "weights": note["weights"],
            "scale": np.float32(note["scale"]),
        }


def collate(samples):
    images, labels = zip(*samples)
    return np.stack(images), {key: np.stack([label[key] for label in labels]) for key in labels[0]}


def build_loader(split):
    return DataLoader(
        Persons(split), batch_size=config.batch_size, shuffle=False, drop_last=split == "train", collate_fn=collate
    )
