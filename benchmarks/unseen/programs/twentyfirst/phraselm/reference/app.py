import torch

from . import score, search, text
from .adafactor import Adafactor
from .layers import PhraseLM

LR, WARMUP, EPOCHS, CLIP = 0.02, 12, 8, 1.0


def build_model():
    return PhraseLM(len(text.ALPHABET))


def transforms(split="train"):
    return text.PIPELINE


def build_dataset(split):
    return text.PhraseSet(split)


def build_dataloader(split):
    return text.loader(split)


def loss(outputs, labels):
    return score.smoothed(outputs, labels)


def metric(outputs, labels):
    return score.report(outputs, labels)


def build_optimizer(model):
    decay = [p for n, p in model.named_parameters() if n.endswith("weight") and not n.startswith("embed") and "table" not in n]
    rest = [p for p in model.parameters() if all(p is not q for q in decay)]
    return Adafactor([{"params": decay, "weight_decay": 0.05}, {"params": rest}], lr=LR)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / WARMUP, (WARMUP / (s + 1)) ** 0.5))


def train_step(model, optimizer, batch):
    tokens, targets = batch
    parts = loss(model(tokens), targets)
    optimizer.zero_grad()
    parts["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return {"loss": parts["loss"].item(), "norm": norm.item()}


@torch.no_grad()
def predict(path, model):
    with open(path, encoding="utf-8") as f:
        prompts = [text.mask_digits(text.clean(line)) for line in f if line.strip()]
    found = [search.complete(model, p) for p in prompts]
    return {key: [f[key] for f in found] for key in ("text", "score", "surprise", "ended")}


def main():
    torch.manual_seed(3)
    model, data = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    for epoch in range(EPOCHS):
        data.batch_sampler.epoch = epoch
        model.train()
        for batch in data:
            step = train_step(model, optimizer, batch)
            scheduler.step()
        model.eval()
        with torch.no_grad():
            print(epoch, step, [metric(model(x), y) for x, y in build_dataloader("val")][0])
    return model


if __name__ == "__main__":
    main()
