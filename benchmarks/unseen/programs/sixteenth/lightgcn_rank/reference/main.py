"""Recommending books with LightGCN."""
import json

import torch

from lgcn import adagrad, config, data, objective, ranking
from lgcn.catalogue import Catalogue
from lgcn.model import LightGCN

CONFIG = config.load()
CATALOGUE = Catalogue(CONFIG)


def build_model():
    return LightGCN(CATALOGUE, CONFIG)


def build_dataset(split):
    return data.dataset(CATALOGUE, CONFIG, split)


def build_dataloader(split):
    return data.loader(CATALOGUE, CONFIG, split)


def loss(outputs, labels):
    scores, ego = outputs
    return objective.bpr_loss(scores, ego, labels, CONFIG.temperature, CONFIG.penalty)


def metric(outputs, labels):
    return ranking.evaluate(outputs[0], labels, CONFIG.k)


def build_optimizer(model):
    return adagrad.make_optimizer(model, CONFIG)


def build_scheduler(optimizer):
    return adagrad.make_scheduler(optimizer, CONFIG)


@torch.no_grad()
def predict(path, model):
    """Best books for each request: unread ones unless it says otherwise, of one genre where it names one."""
    with open(path) as handle:
        requests = json.load(handle)
    readers, books, _ = model.embeddings()
    answers = []
    for request in requests:
        index = CATALOGUE.reader_index[request["user"]]
        scores = books @ readers[index] + model.bias
        allowed = torch.ones(len(scores), dtype=torch.bool)
        if not request.get("seen", False):
            rated = CATALOGUE.ratings[CATALOGUE.ratings[:, 0] == index, 1]
            allowed[torch.from_numpy(rated)] = False
        if "genre" in request:
            allowed &= torch.from_numpy(CATALOGUE.genre == CATALOGUE.genres.index(request["genre"]))
        scores = scores.masked_fill(~allowed, float("-inf"))
        top = scores.topk(request["top"])
        answers.append({
            "user": request["user"],
            "books": [CATALOGUE.books[i] for i in top.indices.tolist()],
            "scores": torch.sigmoid(top.values).numpy(),
        })
    return answers


def main():
    torch.manual_seed(CONFIG.seed)
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(CONFIG.epochs):
        loader.sampler.epoch = epoch
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            value = loss(model(batch["readers"], batch["books"]), batch["labels"])
            value["loss"].backward()
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            results = [metric(model(b["readers"], b["books"]), b["labels"]) for b in build_dataloader("val")]
        print(epoch, float(value["loss"]), {key: float(results[0][key]) for key in results[0]})


if __name__ == "__main__":
    main()
