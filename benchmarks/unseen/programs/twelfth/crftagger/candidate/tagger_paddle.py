import numpy as np
import paddle

from chain import best_paths, likelihood_loss
from fit import make_optimizer, train_step
from network import SequenceTagger
from scoring import report
from text import TAGS, WORDS, Sentences, batches, numbers, pad


def build_model():
    return SequenceTagger()


def build_dataset(split):
    return Sentences(split)


def build_dataloader(split):
    return batches(split)


def loss(outputs, labels):
    return likelihood_loss(outputs, labels)


def build_optimizer(model):
    return make_optimizer(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def metric(outputs, labels):
    paths, _ = best_paths(outputs, labels >= 0)
    gold = [[t for t in row if t >= 0] for row in labels.tolist()]
    right = [np.equal(p, g) for p, g in zip(paths, gold)]
    figures = report([[TAGS[t] for t in p] for p in paths], [[TAGS[t] for t in g] for g in gold])
    figures["accuracy"] = float(np.concatenate(right).mean())
    return figures


def predict(path, model):
    with open(path, encoding="utf-8") as f:
        sentences = [line.split() for line in f if line.strip()]
    batch = {key: paddle.to_tensor(value) for key, value in pad([numbers(s) for s in sentences]).items()}
    with paddle.no_grad():
        paths, values = best_paths(model(**batch), batch["words"] != WORDS["<pad>"])
    return {"tags": [" ".join(TAGS[t] for t in p) for p in paths], "score": np.array(values)}
