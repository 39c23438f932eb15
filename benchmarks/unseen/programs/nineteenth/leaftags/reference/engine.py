"""Entry: everything that the outside calls."""
from pathlib import Path

import numpy as np
import torch

from . import data, metrics
from .config import CFG
from .losses import HierarchicalBCE
from .model import HierarchicalTagger

T = CFG.train
LABELS = np.stack([data.TREE.encode(r["labels"]) for r in data.read_rows("train")])
criterion = HierarchicalBCE(LABELS.sum(0))


def build_model():
    return HierarchicalTagger(prior=LABELS.mean(0))


def transforms(split):
    return data.make_transforms(split)


def build_dataset(split):
    return data.NoteDataset(split)


def build_dataloader(split):
    return data.make_loader(split)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return metrics.evaluate(outputs.detach().double().cpu().numpy(), labels.detach().cpu().numpy())


def layer_of(name):
    if name.startswith("embed."):
        return 0
    if name.startswith("blocks."):
        return 1 + int(name.split(".")[1])
    return 1 + len(CFG.model.dilations) + (0 if name.startswith(("pool.", "tree.")) else 1)


def build_optimizer(model):
    top = 2 + len(CFG.model.dilations)
    groups = {}
    for name, p in model.named_parameters():
        plain = p.ndim < 2 or name.startswith("embed.")
        key = (layer_of(name), plain)
        g = groups.setdefault(key, {"params": [], "lr": T.lr * T.layer_decay ** (top - key[0]), "weight_decay": 0.0 if plain else T.weight_decay})
        g["params"].append(p)
    return torch.optim.AdamW(list(groups.values()), betas=T.betas, eps=T.eps)


def build_scheduler(optimizer):
    def rate(step):
        step += 1
        return step / T.warmup if step < T.warmup else (T.warmup / step) ** 0.5

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def train_step(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(batch["tokens"]), batch["labels"])
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), T.clip)
    optimizer.step()
    return {"loss": value.detach(), "norm": norm}


def validate(model):
    model.eval()
    with torch.no_grad():
        pairs = [(model(b["tokens"]), b["labels"]) for b in build_dataloader("val")]
    return torch.cat([p[0] for p in pairs]).double().numpy(), torch.cat([p[1] for p in pairs]).numpy()


def fit(model, epochs=T.epochs):
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(epochs):
        loader.batch_sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            train_step(model, optimizer, batch)
            scheduler.step()
        print(epoch, metrics.evaluate(*validate(model)))
    return model


def predict(path, model):
    """Tags of the notes of a text file, one a line; thresholds are tuned on the validation set."""
    logits, labels = validate(model)
    cut = metrics.tune_thresholds(metrics.top_down(1 / (1 + np.exp(-logits))), labels > 0.5)
    steps = transforms("val")
    tokens = []
    for line in Path(path).read_text().splitlines():
        if line.strip():
            s = {"id": len(tokens), "text": line}
            for t in steps:
                s = t(s)
            tokens.append({"tokens": s["tokens"], "labels": np.zeros(len(data.TREE), dtype=np.float32)})
    model.eval()
    with torch.no_grad():
        prob = torch.sigmoid(model(data.collate(tokens)["tokens"]).double()).numpy()
    prob = metrics.top_down(prob)
    tags = prob > cut
    for row in tags:  # a tag brings its ancestors
        for i in np.flatnonzero(row):
            for a in data.TREE.ancestors(int(i)):
                row[a] = True
    return {"probability": prob, "tags": tags.astype(np.int64)}


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(build_model(), 6)
