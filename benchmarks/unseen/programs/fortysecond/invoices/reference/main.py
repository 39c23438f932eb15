"""Key fields of invoices: who sends it, its number, date, tax and total."""
import json

import torch
from torch import nn

from . import documents, embedding, encoder, head, losses, training  # noqa: F401, they register themselves
from .registry import CONFIG, LOSSES, MODULES, OPTIMIZERS, SCHEDULES


class FieldFinder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = MODULES.build(config["embedding"])
        self.encoder = MODULES.build(config["encoder"])
        self.head = MODULES.build(config["head"])
        self.std = config["init_std"]
        self.apply(self.begin)

    def begin(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, self.std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()

    def forward(self, grams, looks, boxes, present):
        x = self.embedding(grams, looks, boxes)
        return self.head(self.encoder(x, boxes, present), present)


def build_model():
    return FieldFinder(CONFIG)


def build_dataset(split):
    return documents.Invoices(split)


def build_dataloader(split):
    return documents.loader(split)


def loss(outputs, labels):
    return LOSSES.build(CONFIG["loss"])(outputs, labels)


def metric(outputs, labels):
    return losses.span_scores(outputs, labels)


def build_optimizer(model):
    return OPTIMIZERS.build(CONFIG["optimizer"], model)


def build_scheduler(optimizer):
    return SCHEDULES.build(CONFIG["schedule"], optimizer)


def train_step(model, optimizer, batch):
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    optimizer.zero_grad()
    value = loss(model(**inputs), batch["labels"])
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CONFIG["max_norm"])
    optimizer.step()
    return value.detach()


@torch.no_grad()
def predict(path, model):
    """The best span of every field, with its score; a field whose best score is below nought is not there."""
    with open(path) as f:
        document = json.load(f)
    kind = model.head.kind.weight.dtype
    batch = {k: torch.from_numpy(v).unsqueeze(0) for k, v in documents.encode(document).items()}
    logits = model(**{k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()})[0]
    size = logits.shape[-1]
    score, at = logits.flatten(1).max(dim=1)
    result = {}
    for i, name in enumerate(CONFIG["fields"]):
        first, last = divmod(int(at[i]), size)
        words = [w[0] for w in document["words"][first:last + 1]]
        result[name] = {"text": " ".join(words), "score": score[i].numpy(), "there": bool(score[i] > 0)}
    return result
