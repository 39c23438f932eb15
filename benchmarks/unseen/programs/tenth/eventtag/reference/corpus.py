import json
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .settings import S
from .spectral import Features

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def targets(item, frames):
    """[frames, classes]; 1 where an event covers the middle of a frame, -1 where nobody knows."""
    names = S.labels.names
    step = S.labels.stride * S.features.hop / S.features.rate
    middle = (np.arange(frames) + 0.5) * step
    out = np.zeros((frames, len(names)), "float32")
    for event in item["events"]:
        inside = (middle >= event["onset"]) & (middle < event["offset"])
        out[inside, names.index(event["label"])] = 1
    for name in item["unsure"]:
        out[:, names.index(name)] = -1
    if item["reliable_until"] is not None:
        out[middle >= item["reliable_until"]] = -1
    return out


class Clips(Dataset):
    def __init__(self, split):
        with np.load(os.path.join(ROOT, "clips.npz")) as z:
            pcm = z["pcm"]
        with open(os.path.join(ROOT, "events.json")) as handle:
            items = json.load(handle)
        feats = Features()
        made = [feats(torch.from_numpy(pcm[i["clip"]] / 32768.0)) for i in items]
        train = torch.cat([m[0] for m, i in zip(made, items) if i["fold"] == "train"], dim=1)  # [2, all frames, bands]
        self.mean = train.mean(dim=1, keepdim=True)
        self.std = train.std(dim=1, keepdim=True, unbiased=False)
        self.rows = [(m, i) for m, i in zip(made, items) if i["fold"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        (mel, descr), item = self.rows[index]
        mel = (mel - self.mean) / (self.std + 1e-5)
        return {
            "mel": mel.float(),
            "descr": descr.float(),
            "labels": torch.from_numpy(targets(item, mel.shape[1] // S.labels.stride)),
        }


def loader(split):
    return DataLoader(Clips(split), batch_size=4, shuffle=False, drop_last=split == "train")
