"""Scoring of chess moves: policy over the legal moves, win-draw-loss, plies until the end."""
import json

import torch

from . import optim
from .dataset import Positions, loader
from .moves import table
from .net import ChessNet
from .objective import scores, total_loss
from .planes import encode


def build_model():
    return ChessNet()


def build_dataset(split):
    return Positions(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    return total_loss(outputs, labels)


def metric(outputs, labels):
    return scores(outputs, labels)


def build_optimizer(model):
    return optim.sgd(model)


def build_scheduler(optimizer):
    return optim.schedule(optimizer)


def train_step(model, optimizer, batch):
    return optim.step(model, optimizer, batch, total_loss)


@torch.no_grad()
def predict(path, model):
    """For each position: expected score, and the probabilities of its moves in the file's order."""
    dtype = next(model.parameters()).dtype
    answers = []
    with open(path) as f:
        studies = json.load(f)
    for study in studies:
        planes, white = encode(study["fen"])
        moves, mask = table(study["moves"], white, width=len(study["moves"]))
        out = model(torch.from_numpy(planes)[None].to(dtype), torch.from_numpy(moves)[None], torch.from_numpy(mask)[None])
        win, draw, _ = out["wdl"][0].softmax(dim=0)
        answers.append({"score": float(win + 0.5 * draw), "moves": out["policy"][0].exp().numpy()})
    return answers
