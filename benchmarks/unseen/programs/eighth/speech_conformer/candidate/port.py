import paddle
from paddle.io import DataLoader

from .conformer import Conformer
from .corpus import Buckets, Collate, Utterances
from .criterion import LabelSmoothing
from .evaluation import evaluate
from .schedule import noam
from .settings import SETTINGS

train_settings = SETTINGS.training
smoothed = LabelSmoothing(SETTINGS.encoder.classes, train_settings.smoothing, train_settings.ignore)


def build_model():
    return Conformer(SETTINGS.encoder)


def build_dataset(split):
    return Utterances(SETTINGS, split)


def build_dataloader(split):
    data = build_dataset(split)
    buckets = Buckets(data, train_settings.batch, train_settings.seed, shuffle=split == "train")
    return DataLoader(data, batch_sampler=buckets, collate_fn=Collate(train_settings.ignore))


def set_epoch(loader, epoch):
    loader.batch_sampler.set_epoch(epoch)


def loss(outputs, labels):
    return smoothed(outputs[0], labels)


def metric(outputs, labels):
    logits, lengths = outputs
    return evaluate(logits.detach().cpu().numpy(), lengths.cpu().numpy(), labels.cpu().numpy(), train_settings.ignore)


def build_optimizer(model):
    t = train_settings
    schedule = noam(SETTINGS.encoder.dim, t.factor, t.warmup)
    return paddle.optimizer.Adam(
        learning_rate=schedule,
        beta1=t.betas[0],
        beta2=t.betas[1],
        epsilon=t.eps,
        parameters=model.parameters(),
        weight_decay=t.decay,
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    logits, lengths = model(batch["feats"], batch["lengths"])
    value = smoothed(logits, batch["labels"])
    value.backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), train_settings.clip)
    if bool(paddle.isfinite(norm)):
        optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        counted = batch["labels"] != train_settings.ignore
        hits = paddle.logical_and(logits.argmax(axis=-1) == batch["labels"], counted)
        accuracy = hits.astype("float32").sum() / counted.astype("float32").sum()
    return {"loss": value.detach(), "norm": norm, "accuracy": accuracy}
