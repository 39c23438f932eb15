import torch

from . import train
from .data import DequantisedDigits, get_loader
from .glow import Glow
from .utils import get_args

args = get_args()


def build_model():
    return Glow(args)


def loss(outputs, labels):
    return train.compute_loss(outputs, labels, args)


def metric(outputs, labels):
    bpd = train.bits_per_dim(outputs, args.levels_of_grey)
    accuracy = (outputs["class_logits"].argmax(1) == labels).float().mean()
    return {"bits_per_dim": bpd.mean().item(), "worst": bpd.max().item(), "spread": bpd.std().item(), "accuracy": accuracy.item()}


def build_optimizer(model):
    return train.make_optimizer(model, args)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.t_max, eta_min=args.eta_min)


def train_step(model, optimizer, batch):
    return train.step(model, optimizer, batch, args)


def build_dataset(split):
    return DequantisedDigits(split, args.levels_of_grey)


def build_dataloader(split):
    return get_loader(split, args)
