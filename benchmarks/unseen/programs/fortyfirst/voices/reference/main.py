"""Voices of hymns: which note follows which."""
import torch

from . import decode, hymn, objective, windows
from .links import VoiceLinker


def build_model():
    return VoiceLinker()


def build_dataset(split):
    return windows.Windows(split)


def build_dataloader(split):
    return windows.loader(split)


def loss(outputs, labels):
    return objective.total(outputs, labels)


def metric(outputs, labels):
    return decode.quality(outputs, labels)


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=6, T_mult=2, eta_min=0.002)


def train_step(model, optimizer, batch):
    *inputs, target = batch
    optimizer.zero_grad()
    value = loss(model(*inputs), target)
    value.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.02)
    optimizer.step()
    return value.detach()


@torch.no_grad()
def predict(path, model):
    notes, meter = hymn.load(path)
    dtype = next(model.parameters()).dtype
    found = []
    for piece in windows.cut(notes, hop=windows.SIZE):
        sample = [torch.from_numpy(a).unsqueeze(0) for a in windows.arrays(piece, meter)]
        out = model(*[a.to(dtype) if a.is_floating_point() else a for a in sample])
        logp, open_ = out["logp"][0], out["open"][0]
        found.append({"voices": decode.voices(logp, open_, len(piece)),
                      "sure": logp.exp().mul(open_).amax(dim=-1)[: len(piece)].numpy()})
    return found
