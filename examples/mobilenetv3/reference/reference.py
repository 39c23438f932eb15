"""The reference side: the functions that paralign calls, each handing out a part of the package ``mobilenetv3``."""

import os
from pathlib import Path

import torch
from mobilenetv3 import data, parallel
from mobilenetv3 import train as training
from mobilenetv3.metric import accuracy
from mobilenetv3.model import MobileNetV3Small
from torch.nn import functional

PROJECT = Path(__file__).resolve().parents[1]
EPOCHS = 2


def build_model():
    weights = PROJECT / "mobilenet_v3_small.pth"
    if not weights.exists():
        raise FileNotFoundError(f"{weights} is not there: run {PROJECT / 'prepare.py'} first")
    model = MobileNetV3Small()
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model


def build_untrained():
    return MobileNetV3Small()


def transforms(split):  # noqa: ARG001 - every split is prepared alike
    return data.preprocessing()


def build_dataset(split):
    return data.ImageFolder(PROJECT / "data" / split, transforms(split))


def build_dataloader(split):
    samples = build_dataset(split)
    if parallel.processes() == 1:
        return data.build_dataloader(samples, shuffle=split == "train")
    return parallel.training_loader(samples, batch_size=8) if split == "train" else data.build_dataloader(parallel.share(samples))


def metric(outputs, labels):
    top1, top5 = accuracy(outputs, labels)
    return {"acc_top1": top1, "acc_top5": top5}


def loss(outputs, labels):
    return functional.cross_entropy(outputs, labels)


def build_optimizer(model):
    return training.build_optimizer(model)


def build_scheduler(optimizer):
    return training.build_scheduler(optimizer)


def in_double(split):
    return data.ImageFolder(PROJECT / "data" / split, [*transforms(split), torch.Tensor.double])


def train(log):
    """A short training, of ``EPOCHS`` epochs; in float64, because trained weights' gradients are so small that float32 rounds them away."""
    model = log.model(MobileNetV3Small().double())
    optimizer = log.optimizer(training.build_optimizer(model, 0.005))
    scheduler = build_scheduler(optimizer)
    loaders = {split: data.build_dataloader(in_double(split), shuffle=split == "train", batch_size=16) for split in ("train", "val")}
    for epoch in range(log.resume(lambda stem: training.load(stem, model, optimizer, scheduler)), EPOCHS):
        training.train_one_epoch(model, loaders["train"], optimizer, log, epoch)
        scheduler.step()
        log.evaluation(epoch, **training.evaluate(model, loaders["val"], metric)[1])
        log.checkpoint(epoch, lambda stem: training.save(stem, model, optimizer, scheduler))


def distribute(model):
    parallel.begin(int(os.environ["WORLD_SIZE"]))
    return parallel.wrap(model)


def evaluate(model):
    loader = build_dataloader("val")
    return parallel.averaged(training.evaluate(model, loader, metric)[1], len(loader.dataset))


def save(model, folder):
    if parallel.rank() == 0:
        torch.save(model.state_dict(), Path(folder) / "model.pth")


@torch.no_grad()
def predict(path, model):
    dataset = build_dataset("val")
    model.eval()
    probabilities = model(data.load(path, dataset.transforms)[None])[0].softmax(0)
    class_id = int(probabilities.argmax())
    return {"class_id": class_id, "class_name": name(class_id, dataset.classes), "probabilities": probabilities}


def name(class_id, classes):
    """The head has more outputs than the folder has classes: top-5 needs more than five to mean anything."""
    return classes[class_id] if class_id < len(classes) else f"unused {class_id}"
