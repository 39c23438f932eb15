from .adabelief import build
from .likelihood import evaluate, mdn_loss
from .mixes import MixDataset, make_loader
from .model import MDN


def build_model():
    return MDN()


def loss(outputs, labels):
    return mdn_loss(outputs, labels)


def metric(outputs, labels):
    return evaluate(outputs, labels)


def build_optimizer(model):
    return build(model)


def build_dataset(split):
    return MixDataset(split)


def build_dataloader(split):
    return make_loader(split)


def train(log):
    """Four epochs on the whole table."""
    import torch

    model = log.model(build_model())
    optimizer = log.optimizer(build_optimizer(model))
    loader = make_loader("train")
    for epoch in range(4):
        model.train()
        for _, (x, y) in log.batches(loader, epoch):
            optimizer.zero_grad()
            cost = loss(model(x), y)
            cost.backward()
            optimizer.step()
            log.step(samples=len(x), loss=cost.item())
        model.eval()
        with torch.no_grad():
            parts = [evaluate(model(x), y) for x, y in make_loader("val")]
        log.evaluation(epoch, rmse=sum(float(p["rmse"]) for p in parts) / len(parts))
