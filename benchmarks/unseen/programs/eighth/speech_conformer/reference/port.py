import torch
from torch.utils.data import DataLoader

from .conformer import Conformer
from .corpus import Buckets, Collate, Utterances
from .criterion import LabelSmoothing
from .evaluation import evaluate
from .schedule import noam
from .settings import SETTINGS

train_settings = SETTINGS.training
smoothed = LabelSmoothing(SETTINGS.encoder.classes, train_settings.smoothing, train_settings.ignore)


def build_model():
    return Conformer(SETTINGS.encoder)


def build_dataset(split):
    return Utterances(SETTINGS, split)


def build_dataloader(split):
    data = build_dataset(split)
    buckets = Buckets(data, train_settings.batch, train_settings.seed, shuffle=split == "train")
    return DataLoader(data, batch_sampler=buckets, collate_fn=Collate(train_settings.ignore))


def set_epoch(loader, epoch):
    loader.batch_sampler.set_epoch(epoch)


def first_batch():
    data = build_dataset("val")
    return Collate(train_settings.ignore)([data[i] for i in (0, 3, 4)])


def inputs():
    batch = first_batch()
    return {"feats": batch["feats"], "lengths": batch["lengths"]}


def labels():
    return first_batch()["labels"]


def loss(outputs, labels):
    return smoothed(outputs[0], labels)


def metric(outputs, labels):
    logits, lengths = outputs
    return evaluate(logits.detach().cpu().numpy(), lengths.cpu().numpy(), labels.cpu().numpy(), train_settings.ignore)


def build_optimizer(model):
    t = train_settings
    return torch.optim.Adam(model.parameters(), lr=1.0, betas=t.betas, eps=t.eps, weight_decay=t.decay)


def build_scheduler(optimizer):
    return noam(optimizer, SETTINGS.encoder.dim, train_settings.factor, train_settings.warmup)


def train_step(model, optimizer, batch):
    logits, lengths = model(batch["feats"], batch["lengths"])
    value = smoothed(logits, batch["labels"])
    optimizer.zero_grad()
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), train_settings.clip)
    if torch.isfinite(norm):
        optimizer.step()
    with torch.no_grad():
        counted = batch["labels"] != train_settings.ignore
        hits = ((logits.argmax(-1) == batch["labels"]) & counted).sum() / counted.sum()
    return {"loss": value.detach(), "norm": norm, "accuracy": hits}
