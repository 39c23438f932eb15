"""Which call to make at the bridge table."""
import json

import torch

from .bridge.batching import batches, collate
from .bridge.calls import CALLS
from .bridge.objective import objective
from .bridge.policy import Bidder
from .bridge.positions import Positions, to_sample
from .bridge.scores import scores
from .bridge.start import initialise
from .bridge.training import accumulate, adam, noam


def build_model():
    return initialise(Bidder())


def build_dataset(split):
    return Positions(split)


def build_dataloader(split):
    return batches(Positions(split))


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return scores(outputs, labels)


def build_optimizer(model):
    return adam(model)


def build_scheduler(optimizer):
    return noam(optimizer)


def train_step(model, optimizer, batch):
    return accumulate(model, optimizer, batch, objective)


def predict(path, model):
    with open(path) as handle:
        sample = {**to_sample(json.load(handle)), "bid": 0, "tricks": 0}
    batch = collate([sample])
    batch.pop("labels")
    kind = next(model.parameters()).dtype
    batch = {k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()}
    with torch.no_grad():
        out = model(**batch)
    prob = (out["logp"].exp() * batch["legal"])[0]
    best = prob.topk(3)
    return {"calls": [CALLS[i] for i in best.indices.tolist()], "prob": best.values.numpy(),
            "tricks": torch.sigmoid(out["tricks"]).sum().item()}
