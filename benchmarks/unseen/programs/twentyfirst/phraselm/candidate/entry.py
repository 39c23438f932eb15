import paddle
from paddle.optimizer.lr import LambdaDecay

from . import beam, corpus, objectives
from .factor_opt import FactorOptimizer
from .nets import CharModel

RATE, WARMUP, EPOCHS, MAX_NORM = 0.02, 12, 8, 1.0


def build_model():
    return CharModel(len(corpus.VOCAB))


def transforms(split="train"):
    return corpus.STEPS


def build_dataset(split):
    return corpus.Phrases(split)


def build_dataloader(split):
    return corpus.loader(split)


def loss(outputs, labels):
    return objectives.language_loss(outputs, labels)


def metric(outputs, labels):
    return objectives.scores(outputs, labels)


def inverse_root(step):
    n = step + 1
    return n / WARMUP if n < WARMUP else (WARMUP / n) ** 0.5


def build_optimizer(model):
    decayed = [layer.weight.name for layer in model.sublayers() if isinstance(layer, paddle.nn.Linear)]
    return FactorOptimizer(LambdaDecay(RATE, inverse_root), model.parameters(), decayed)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    tokens, targets = batch
    parts = objectives.language_loss(model(tokens), targets)
    parts["loss"].backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), max_norm=MAX_NORM)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(parts["loss"]), "norm": float(norm)}


@paddle.no_grad()
def predict(path, model):
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f.read().split("\n") if line.strip()]
    answers = [beam.answer(model, corpus.hide_numbers(corpus.normalise(line))) for line in lines]
    return {key: [a[key] for a in answers] for key in ("text", "score", "surprise", "ended")}


def main():
    paddle.seed(3)
    model, data = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    for epoch in range(EPOCHS):
        data.batch_sampler.epoch = epoch
        model.train()
        for batch in data:
            step = train_step(model, optimizer, batch)
            optimizer._learning_rate.step()
        model.eval()
        with paddle.no_grad():
            x, y = next(iter(build_dataloader("val")))
            print(epoch, step, metric(model(x), y))
    return model


if __name__ == "__main__":
    main()
