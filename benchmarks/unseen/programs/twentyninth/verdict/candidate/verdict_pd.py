"""Does a sentence follow from another? Soft labels from several annotators (PaddlePaddle)."""
import json
import os
import sys

import numpy as np
import paddle

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)
from entail_pd import corpus, criteria, layers, update  # noqa: E402

with open(os.path.join(HERE, "settings.json")) as handle:
    SETTINGS = json.load(handle)
TABLE = corpus.read_table(os.path.join(os.path.dirname(HERE), "data", "pairs.csv"))
READER = corpus.Reader(TABLE, SETTINGS["tokens"])

loss = criteria.Criterion(**SETTINGS["criterion"])
metric = criteria.metric


def build_dataset(split):
    return corpus.PairSet(TABLE, split, READER)


def build_dataloader(split):
    pairs, s = build_dataset(split), SETTINGS["batches"]
    if split == "train":
        return paddle.io.DataLoader(pairs, batch_sampler=corpus.LengthBatches(pairs, s["size"], s["seed"]))
    return paddle.io.DataLoader(pairs, batch_size=s["size"])


def class_prior():
    votes = build_dataset("train").votes
    return (votes / votes.sum(axis=1, keepdims=True)).mean(axis=0)


def build_model():
    return layers.Entailment(SETTINGS["net"], READER.size, class_prior(), SETTINGS["update"]["table_rate"])


def build_optimizer(model):
    return update.make_optimizer(model, SETTINGS["update"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    premise, hypothesis, clues, labels = batch
    parts = loss(model(premise, hypothesis, clues), labels)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {name: float(value) for name, value in parts.items()}


def say(probs):
    first, second = np.argsort(-probs)[:2]
    mark = "" if probs[first] - probs[second] > 0.1 else "?"
    return corpus.NAMES[first] + mark


def predict(path, model):
    model.eval()
    with open(path) as f:
        case = json.load(f)
    columns = zip(*(READER(case["premise"], h) for h in case["hypotheses"]))
    with paddle.no_grad():
        out = model(*(paddle.to_tensor(np.stack(c)) for c in columns))
    probs = paddle.nn.functional.softmax(out["logits"], axis=-1).numpy()
    best = out["attention"].numpy().argmax(axis=2)
    source = ["-"] + corpus.split_words(case["premise"])
    room = SETTINGS["tokens"]["width"] - 1
    links = []
    for row, hypothesis in zip(best, case["hypotheses"]):
        words = corpus.split_words(hypothesis)[:room]
        links.append(" ".join(f"{word}>{source[j]}" for word, j in zip(words, row[1:])))
    return {
        "probs": probs,
        "entropy": -np.sum(probs * np.log(probs), axis=1),
        "verdicts": [say(row) for row in probs],
        "links": links,
    }
