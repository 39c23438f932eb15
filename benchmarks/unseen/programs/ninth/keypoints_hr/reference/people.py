"""People in annotations.json, one sample each."""
import json
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .registry import EXPERIMENT, HERE, TRANSFORMS
from . import pipeline  # registers the steps  # noqa: F401

FOLDER = os.path.join(os.path.dirname(HERE), "data")


def steps(split):
    configs = [c for c in EXPERIMENT["pipeline"] if split == "train" or c["type"] != "FlipOdd"]
    return [TRANSFORMS.build(config) for config in configs]


class People(Dataset):
    def __init__(self, split):
        with open(os.path.join(FOLDER, "annotations.json")) as handle:
            content = json.load(handle)
        images = {image["id"]: image for image in content["images"] if image["split"] == split}
        self.people = sorted((p for p in content["annotations"] if p["image_id"] in images), key=lambda p: p["image_id"])
        self.images = images
        self.steps = steps(split)

    def __len__(self):
        return len(self.people)

    def raw(self, index):
        person = self.people[index]
        points = np.array(person["keypoints"], dtype="float64").reshape(-1, 3)
        image = np.load(os.path.join(FOLDER, "images", self.images[person["image_id"]]["file_name"]))
        return {"index": index, "image": image, "bbox": person["bbox"], "joints": points[:, :2], "visible": points[:, 2].astype(int)}

    def __getitem__(self, index):
        sample = self.raw(index)
        for step in self.steps:
            sample = step(sample)
        labels = {
            "heatmaps": torch.from_numpy(sample["heatmaps"]),
            "joints": torch.from_numpy(sample["joints"].astype("float32")),
            "weights": torch.from_numpy(sample["weights"]),
            "scale": torch.tensor(sample["scale"], dtype=torch.float32),
        }
        return torch.from_numpy(sample["image"]), labels


def loader(split):
    return DataLoader(People(split), batch_size=EXPERIMENT["batch"], drop_last=split == "train")
