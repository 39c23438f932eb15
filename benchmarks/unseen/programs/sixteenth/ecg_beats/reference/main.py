"""ECG beat classification: what is needed to train and evaluate."""
import torch

from ecgnet.config import load_config
from ecgnet.dataset import BeatDataset, make_loader
from ecgnet.engine import classify_strip, train_one_batch
from ecgnet.losses import FocalLoss, effective_number_weights
from ecgnet.metrics import beat_metrics
from ecgnet.model import BeatNet
from ecgnet.optim import make_optimizer, make_scheduler

CONFIG = load_config()


def build_model():
    return BeatNet(CONFIG.model, classes=len(CONFIG.classes))


def build_dataset(split):
    return BeatDataset(CONFIG, split)


def build_dataloader(split):
    return make_loader(CONFIG, split)


def _criterion():
    targets = BeatDataset(CONFIG, "train").targets
    return FocalLoss(effective_number_weights(targets, len(CONFIG.classes), CONFIG.loss.beta), CONFIG.loss.gamma)


CRITERION = _criterion()


def loss(outputs, labels):
    return CRITERION(outputs, labels)


def metric(outputs, labels):
    return beat_metrics(outputs, labels)


def build_optimizer(model):
    return make_optimizer(model, CONFIG.optim)


def build_scheduler(optimizer):
    return make_scheduler(optimizer, CONFIG.schedule, len(build_dataloader("train")))


def train_step(model, optimizer, batch):
    return train_one_batch(model, optimizer, batch, CRITERION, CONFIG.optim.clip)


def predict(path, model):
    return classify_strip(model, path, CONFIG)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(CONFIG.schedule.epochs):
        loader.sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            log = train_step(model, optimizer, batch)
            scheduler.step()
        print(epoch, float(log["loss"]))
