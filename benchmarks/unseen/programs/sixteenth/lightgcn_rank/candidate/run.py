"""LightGCN for books, in Paddle."""
import json

import numpy as np
import paddle
import paddle.nn.functional as F

from shelf.learning import optimizer_for, pairwise_loss
from shelf.network import BookGraph
from shelf.tables import Lists, Shelf, batches, options

ini = options()
shelf = Shelf(ini)


def build_model():
    return BookGraph(shelf)


def build_dataset(split):
    return Lists(shelf, split)


def build_dataloader(split):
    return batches(shelf, split)


def loss(outputs, labels):
    section = ini["loss"]
    return pairwise_loss(*outputs, labels, section.getfloat("temperature"), section.getfloat("penalty"))


def metric(outputs, labels):
    """Of each list NDCG at k, recall at k and the reciprocal rank of the first relevant book; means over the lists."""
    k = ini.getint("metric", "k")
    scores, stars = outputs[0].numpy(), labels.numpy()
    ndcg, recall, first = [], [], []
    for row, relevance in zip(scores, stars):
        real = relevance >= 0
        order = np.argsort(-row[real], kind="stable")
        ranked = relevance[real][order].astype("float64")
        ideal = np.sort(ranked)[::-1]
        discount = np.log2(np.arange(2, len(ranked) + 2))[:k]
        ndcg.append(((2.0 ** ranked[:k] - 1) / discount).sum() / ((2.0 ** ideal[:k] - 1) / discount).sum())
        relevant = np.flatnonzero(ranked > 0)
        recall.append((relevant < k).sum() / min(k, len(relevant)))
        first.append(1.0 / (relevant[0] + 1))
    return {f"ndcg@{k}": np.mean(ndcg), f"recall@{k}": np.mean(recall), "mrr": np.mean(first)}


def build_optimizer(model):
    return optimizer_for(model, ini)


def build_scheduler(optimizer):
    return optimizer.schedule


def _candidates(request):
    person = shelf.person[request["user"]]
    keep = np.ones(len(shelf.titles), dtype=bool)
    if not request.get("seen"):
        keep[shelf.read[shelf.read[:, 0] == person][:, 1]] = False
    if request.get("genre"):
        keep &= shelf.genre_names[shelf.genre] == request["genre"]
    return person, np.flatnonzero(keep)


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        requests = json.load(f)
    people, books, _ = model.states()
    result = []
    for request in requests:
        person, keep = _candidates(request)
        keep = paddle.to_tensor(keep)
        scores = paddle.mv(paddle.gather(books, keep), people[person]) + paddle.gather(model.popularity, keep)
        values, places = paddle.topk(scores, request["top"])
        result.append({
            "user": request["user"],
            "books": [shelf.titles[i] for i in paddle.gather(keep, places).tolist()],
            "scores": F.sigmoid(values).numpy(),
        })
    return result


if __name__ == "__main__":
    paddle.seed(ini.getint("training", "seed"))
    net = build_model()
    opt = build_optimizer(net)
    loader = build_dataloader("train")
    for epoch in range(ini.getint("training", "epochs")):
        loader.batch_sampler.epoch = epoch
        net.train()
        for batch in loader:
            value = loss(net(batch["readers"], batch["books"]), batch["labels"])
            value["loss"].backward()
            opt.step()
            opt.clear_grad()
            opt.schedule.step()
        net.eval()
        first = next(iter(build_dataloader("val")))
        print(epoch, float(value["loss"]), metric(net(first["readers"], first["books"]), first["labels"]))
