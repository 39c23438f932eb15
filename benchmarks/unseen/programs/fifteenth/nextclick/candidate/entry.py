import paddle
import paddle.nn.functional as F

from clicks import training
from clicks.nn.recommender import NextClick
from clicks.objective import objective, ranking
from clicks.pipeline.corpus import the_corpus, to_numbers
from clicks.pipeline.feed import dataset_for, loader_for, right_aligned
from clicks.settings import SETTINGS


def loss(outputs, labels):
    return objective(outputs, labels, SETTINGS.objective)


def metric(outputs, labels):
    return ranking(outputs, labels, SETTINGS.ranking.cutoff)


def build_dataset(split):
    return dataset_for(split)


def build_dataloader(split):
    return loader_for(split)


def build_model():
    return NextClick(the_corpus().n_items, SETTINGS.feed.window, SETTINGS.net)


def build_optimizer(model):
    return training.adam(model, SETTINGS.adam)


def build_scheduler(optimizer):
    return training.schedule(optimizer, SETTINGS.adam, SETTINGS.cosine)


def train_step(model, optimizer, batch):
    return training.step(model, optimizer, batch, loss, SETTINGS.adam)


def predict(path, model, top=10):
    with open(path) as f:
        codes = f.read().split()
    corpus = the_corpus()
    past = to_numbers(codes, corpus.numbers)
    model.eval()
    with paddle.no_grad():
        clicks = paddle.to_tensor(right_aligned(past, SETTINGS.feed.window)[None, :])
        scores = model(clicks)[0, -1]
        blocked = paddle.zeros_like(scores)
        blocked[[0] + sorted(set(past))] = -float("inf")
        best, numbers = paddle.topk(F.softmax(scores + blocked, axis=-1), top)
    return {
        "items": [corpus.names[int(n)] for n in numbers],
        "scores": best.numpy(),
    }
