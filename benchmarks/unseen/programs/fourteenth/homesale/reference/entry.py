import torch
from torch.utils.data import DataLoader

from fttab import SETTINGS
from fttab.nn import FTTransformer
from fttab.objective import UncertaintyLoss, listing_metrics
from fttab.optim import make_optimizer, make_schedule
from fttab.prep import ListingTable, TrainNoise, collate, get_encoder
from fttab.prep.encoder import read_rows

objective = UncertaintyLoss(SETTINGS("loss", "huber_beta", float))


def build_model():
    enc = get_encoder()
    return FTTransformer(
        len(enc.numeric), enc.cardinalities, len(enc.classes),
        dim=SETTINGS("model", "dim", int),
        heads=SETTINGS("model", "heads", int),
        layers=SETTINGS("model", "layers", int),
        ffn_mult=SETTINGS("model", "ffn_mult", float),
        dropout=SETTINGS("model", "dropout", float),
    )


def build_dataset(split):
    noise = TrainNoise(SETTINGS("loader", "drop_numeric", float)) if split == "train" else None
    return ListingTable(split, noise)


def build_dataloader(split):
    return DataLoader(build_dataset(split), SETTINGS("loader", "batch_size", int),
                      shuffle=split == "train", drop_last=split == "train", collate_fn=collate)


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return listing_metrics(outputs, labels, get_encoder().price_std)


def build_optimizer(model):
    return make_optimizer(model, SETTINGS)


def build_scheduler(optimizer):
    return make_schedule(optimizer, SETTINGS)


def train_step(model, optimizer, batch):
    model.train()
    inputs, labels = batch
    parts = SETTINGS("optim", "micro_batches", int)
    optimizer.zero_grad()
    total = 0.0
    splits = zip(*(x.chunk(parts) for x in inputs))
    label_splits = [dict(zip(labels, values)) for values in zip(*(v.chunk(parts) for v in labels.values()))]
    for x, y in zip(splits, label_splits):
        value = objective(model(*x), y) / parts
        value.backward()
        total += value.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS("optim", "clip", float))
    optimizer.step()
    return total


@torch.no_grad()
def predict(path, model):
    model.eval()
    enc = get_encoder()
    out = model(*map(torch.from_numpy, enc.inputs(read_rows(path))))
    log_price = out["price"] * enc.price_std + enc.price_mean
    return {"speed": out["speed"].softmax(-1).numpy(), "price": log_price.exp().numpy()}
