"""A hypernetwork writes the weights of a small SIREN for each picture (Sitzmann et al. 2020)."""
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
CODE, HID, W0, POINTS = 6, 10, 20.0, 32
SHAPES = [(2, HID), (HID, HID), (HID, 1)]


class Patches(Dataset):
    """Pixels of one picture in a fixed shuffled order, POINTS at a time; every fifth patch is for validation."""

    def __init__(self, split):
        pics = torch.from_numpy(np.load(DATA / "pictures.npy")).float() / 127.5 - 1
        n, side = len(pics), pics.shape[1]
        line = torch.linspace(-1, 1, side)
        self.coords = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2)
        self.values = pics.view(n, -1, 1)
        order = torch.from_numpy(np.random.RandomState(0).permutation(side * side)).view(-1, POINTS)
        rows = [(p, o) for o in order for p in range(n)]
        self.rows = [r for i, r in enumerate(rows) if (i % 4 == 3) == (split == "val")]
        if split == "train":
            self.rows = self.rows * 2

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        p, o = self.rows[i]
        return torch.tensor(p), self.coords[o], self.values[p, o]


class Hyper(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.codes = nn.Embedding(n, CODE, max_norm=None)
        self.body = nn.Sequential(nn.Linear(CODE, 24), nn.SiLU())
        self.heads = nn.ModuleList(nn.Linear(24, i * o + o) for i, o in SHAPES)
        nn.init.normal_(self.codes.weight, std=1 / math.sqrt(CODE))
        nn.init.kaiming_uniform_(self.body[0].weight, a=math.sqrt(5))
        nn.init.uniform_(self.body[0].bias, -1 / math.sqrt(CODE), 1 / math.sqrt(CODE))
        for k, (head, (i, o)) in enumerate(zip(self.heads, SHAPES)):
            nn.init.normal_(head.weight, std=1e-2)
            bound = 1 / i if k == 0 else math.sqrt(6 / i) / W0
            nn.init.uniform_(head.bias, -bound, bound)  # the SIREN law lives in the biases

    def forward(self, index, coords):
        z = self.body(self.codes(index))
        x, size = coords, 0.0
        for k, (head, (i, o)) in enumerate(zip(self.heads, SHAPES)):
            w = head(z)
            size = size + w.pow(2).mean(1)
            x = torch.baddbmm(w[:, i * o :].unsqueeze(1), x, w[:, : i * o].view(-1, i, o))
            if k + 1 < len(SHAPES):
                x = torch.sin(W0 * x)
        return x, size, self.codes(index)


def build_model():
    return Hyper(len(np.load(DATA / "pictures.npy")))


def build_dataset(split):
    return Patches(split)


def build_dataloader(split):
    return DataLoader(Patches(split), batch_size=6, shuffle=split == "train")


def loss(outputs, labels):
    x, size, code = outputs
    mse = (x - labels).pow(2).mean()
    return {"loss": mse + 1e-3 * size.mean() + 1e-2 * code.square().mean(), "mse": mse}


def metric(outputs, labels):
    mse = (outputs[0] - labels).pow(2).mean(dim=(1, 2))
    return {"psnr": (10 * torch.log10(4 / mse)).mean().item()}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-5, amsgrad=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=16, T_mult=2, eta_min=1e-4)


def train_step(model, optimizer, batch):
    model.train()
    index, coords, values = batch
    out = loss(model(index, coords), values)
    optimizer.zero_grad()
    out["loss"].backward()
    optimizer.step()
    return {k: v.item() for k, v in out.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    q = json.loads(Path(path).read_text())
    line = torch.linspace(-1, 1, q["size"])
    grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(1, -1, 2)
    x, _, code = model(torch.tensor([q["picture"]]), grid)
    return {"picture": x.view(q["size"], q["size"]).numpy(), "code": code[0].numpy()}
