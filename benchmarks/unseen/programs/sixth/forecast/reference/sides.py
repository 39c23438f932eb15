import torch

from .args import args
from .criterion import forecast_loss, forecast_metrics
from .data_loader import StationDataset, get_loader
from .model import Model


def build_model():
    return Model(args)


def loss(outputs, labels):
    return forecast_loss(outputs, labels, args.beta, args.decay, args.grad_weight)


def metric(outputs, labels):
    return forecast_metrics(outputs, labels)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=args.learning_rate, weight_decay=args.l2)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.lr_step, gamma=args.lr_gamma)


def build_dataset(split):
    return StationDataset(args, split)


def build_dataloader(split):
    return get_loader(args, split)
