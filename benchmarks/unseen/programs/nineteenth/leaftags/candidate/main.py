import numpy as np
import paddle

from . import corpus, evaluation, settings, solver
from .network import create_network
from .objective import TaggingLoss
from .taxonomy import taxonomy

TRAIN_TARGETS = np.stack([taxonomy.multi_hot(n["labels"]) for n in corpus.load_notes("train")])
tagging_loss = TaggingLoss(TRAIN_TARGETS.sum(axis=0))


def build_model():
    return create_network(TRAIN_TARGETS.mean(axis=0))


transforms = corpus.pipeline
build_dataset = corpus.Notes
build_dataloader = corpus.data_loader
build_optimizer = solver.make_optimizer


def build_scheduler(optimizer):
    return optimizer._learning_rate


def loss(outputs, labels):
    return tagging_loss(outputs, labels)


def metric(outputs, labels):
    return evaluation.report(outputs.numpy().astype("float64"), labels.numpy())


def train_step(model, optimizer, batch):
    value = loss(model(batch["tokens"]), batch["labels"])
    value.backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), settings.solver["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value.detach(), "norm": norm}


@paddle.no_grad()
def run_validation(model):
    model.eval()
    logits, target = [], []
    for batch in build_dataloader("val"):
        logits.append(model(batch["tokens"]).numpy())
        target.append(batch["labels"].numpy())
    return np.concatenate(logits).astype("float64"), np.concatenate(target)


def fit(model):
    optimizer = build_optimizer(model)
    loader = build_dataloader("train")
    for epoch in range(settings.solver["epochs"]):
        loader.batch_sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            train_step(model, optimizer, batch)
            optimizer._learning_rate.step()
        print(epoch, evaluation.report(*run_validation(model)))


@paddle.no_grad()
def predict(path, model):
    logits, target = run_validation(model)
    cuts = evaluation.pick_thresholds(evaluation.cap_by_parent(1.0 / (1.0 + np.exp(-logits))), target > 0.5)
    with open(path) as f:
        lines = [line.rstrip("\n") for line in f if line.strip()]
    samples = []
    for k, line in enumerate(lines):
        sample = {"id": k, "text": line}
        for step in transforms("val"):
            sample = step(sample)
        samples.append(dict(sample, labels=np.zeros(taxonomy.size, dtype="float32")))
    model.eval()
    prob = paddle.nn.functional.sigmoid(model(corpus.pad_batch(samples)["tokens"]).astype("float64")).numpy()
    prob = evaluation.cap_by_parent(prob)
    own = prob > cuts
    tags = (own.astype("int64") @ taxonomy.closure.astype("int64")) > 0
    return {"probability": prob, "tags": tags.astype("int64")}


if __name__ == "__main__":
    fit(build_model())
