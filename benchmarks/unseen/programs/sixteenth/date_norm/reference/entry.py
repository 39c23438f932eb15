"""Date normalisation with a small transformer."""
import torch

from datenorm import corpus, criterion, search, training
from datenorm.transformer import Transformer
from datenorm.vocabulary import Vocabulary, load_config, normalise

CONFIG = load_config()
VOCABULARY = Vocabulary()
CRITERION = criterion.LabelSmoothing(len(VOCABULARY), CONFIG["loss"]["smoothing"])


def build_model():
    return Transformer(len(VOCABULARY), **CONFIG["model"])


def build_dataset(split):
    return corpus.DatePairs(split, VOCABULARY, CONFIG["max_source"])


def build_dataloader(split):
    return corpus.make_loader(split, VOCABULARY, CONFIG)


def loss(outputs, labels):
    return CRITERION(outputs, labels)


def metric(outputs, labels):
    return criterion.accuracies(outputs, labels)


def build_optimizer(model):
    return training.make_optimizer(model, CONFIG["optimizer"])


def build_scheduler(optimizer):
    return training.make_scheduler(optimizer, CONFIG["model"]["width"], CONFIG["optimizer"])


def train_step(model, optimizer, batch):
    return training.step(model, optimizer, batch, CRITERION, CONFIG["optimizer"]["clip"])


def predict(path, model):
    answers = []
    with open(path) as handle:
        for line in handle:
            text = normalise(line)
            if not text or text.startswith("#"):
                continue
            source = torch.tensor(VOCABULARY.encode(text)[: CONFIG["max_source"]] + [2])
            ids, score = search.beam_search(model, source, **CONFIG["decode"])
            answers.append({"text": text, "iso": VOCABULARY.decode(ids), "score": score})
    return answers


def main():
    torch.manual_seed(0)
    model = build_model()
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    loader = build_dataloader("train")
    for epoch in range(CONFIG["epochs"]):
        loader.batch_sampler.epoch = epoch
        model.train()
        for batch in loader:
            log = train_step(model, optimizer, batch)
            scheduler.step()
        print(epoch, log)


if __name__ == "__main__":
    main()
