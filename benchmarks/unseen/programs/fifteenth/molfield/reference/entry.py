import torch
from torch.utils.data import DataLoader

from molnet.config import CFG
from molnet.graph import MoleculeDataset, collate
from molnet.graph.collate import collate_graphs
from molnet.graph.dataset import energy_statistics, featurize
from molnet.graph.xyz import read_xyz
from molnet.model import MolNet
from molnet.train import engine, objectives


def build_model():
    return MolNet(CFG.model, len(CFG.data.species), CFG.data.cutoff)


def build_dataset(split):
    return MoleculeDataset(split)


def build_dataloader(split):
    return DataLoader(
        build_dataset(split),
        batch_size=CFG.data.batch_size,
        shuffle=split == "train",
        collate_fn=collate,
    )


def loss(outputs, labels):
    return objectives.field_loss(outputs, labels, CFG.loss)


def metric(outputs, labels):
    return objectives.field_metrics(outputs, labels, energy_statistics()[1])


def build_optimizer(model):
    return engine.make_optimizer(model, CFG.optim)


def build_scheduler(optimizer):
    return engine.make_scheduler(optimizer, CFG.optim)


def train_step(model, optimizer, batch):
    return engine.train_step(model, optimizer, batch, CFG)["loss"]


@torch.no_grad()
def predict(path, model):
    model.eval()
    frame = read_xyz(path)[0]
    graph = collate_graphs([featurize(frame)])
    graph["vectors"] = graph["vectors"].to(model.atom_ref.weight.dtype)
    out = model(graph)
    mean, std = energy_statistics()
    energy = out["energy"].item() * std + len(frame.symbols) * mean
    return {"energy": float(energy), "forces": out["forces"].numpy() * std}
