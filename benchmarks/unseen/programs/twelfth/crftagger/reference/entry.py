import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from tagger import training
from tagger.config import BASE
from tagger.model import Tagger
from tagger.modules.crf import viterbi
from tagger.reader import Encoder, TaggedSentences, loader
from tagger.spans import f1

encoder = Encoder()


def build_untrained():
    return Tagger(vocabularies=encoder)


def build_model():
    model = build_untrained()
    vector = np.load(BASE / "checkpoints" / "tagger.npy")
    vector_to_parameters(torch.from_numpy(vector), model.parameters())
    return model


def build_dataset(split):
    return TaggedSentences(split)


def build_dataloader(split):
    return loader(split)


loss = training.nll
build_optimizer = training.optimizer
build_scheduler = training.schedule
train_step = training.train_step


def metric(outputs, labels):
    mask = labels >= 0
    paths, _ = viterbi(outputs, mask)
    name = encoder.tags.items.__getitem__
    gold = [[name(int(t)) for t in row[m]] for row, m in zip(labels, mask)]
    guess = [[name(t) for t in path] for path in paths]
    hits = sum(p == g for a, b in zip(guess, gold) for p, g in zip(a, b))
    return {**f1(guess, gold), "accuracy": hits / int(mask.sum())}


@torch.no_grad()
def predict(path, model):
    with open(path, encoding="utf-8") as f:
        lines = [line.split() for line in f if line.strip()]
    batch = encoder.collate([dict(zip(("words", "chars"), encoder.encode(tokens))) for tokens in lines])
    paths, score = viterbi(model(**batch), batch["words"] != encoder.words.pad)
    return {"tags": [" ".join(encoder.tags.items[t] for t in path) for path in paths], "score": score.numpy()}
