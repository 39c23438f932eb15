from verselm import corpus, generate, objective, optim
from verselm.config import Config
from verselm.model import VerseLM

CFG = Config()


def build_model():
    return VerseLM(CFG.model, len(corpus.load_tokenizer(CFG)), CFG.data.max_len)


def build_dataset(split):
    return corpus.Lines(CFG, split)


def build_dataloader(split):
    return corpus.build_loader(CFG, split)


def transforms(split):
    return corpus.build_transforms(CFG, corpus.load_tokenizer(CFG), split)


def loss(outputs, labels):
    return objective.language_loss(CFG, outputs["logits"], labels)


def metric(outputs, labels):
    return objective.scores(outputs["logits"], labels)


def build_optimizer(model):
    return optim.build_optimizer(CFG, model)


def build_scheduler(optimizer):
    return optim.build_scheduler(CFG, optimizer)


def predict(path, model):
    with open(path, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip()]
    tokenizer = corpus.load_tokenizer(CFG)
    return {
        "nll": generate.line_scores(model, tokenizer, lines, CFG.data.max_len).numpy(),
        "text": [generate.greedy(model, tokenizer, line, 6, CFG.data.max_len) for line in lines],
    }
