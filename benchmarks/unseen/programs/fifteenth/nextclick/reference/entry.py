from functools import lru_cache

from torch.utils.data import DataLoader

from recsys import engine, losses, models  # noqa: F401
from recsys.config import load_config
from recsys.data import ClickLog, SequenceDataset, collate
from recsys.inference import recommend
from recsys.metrics import ranking_metrics
from recsys.registry import LOSSES, MODELS

CFG = load_config()
CRITERION = LOSSES.build(
    CFG.loss["name"], **{k: v for k, v in CFG.loss.items() if k != "name"}
)


@lru_cache(maxsize=None)
def click_log():
    return ClickLog(CFG.data)


def build_model():
    return MODELS.build(
        CFG.model.name,
        cfg=CFG.model,
        num_items=len(click_log().vocab),
        max_len=CFG.data.max_len,
    )


def build_dataset(split):
    return SequenceDataset(click_log(), split)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(
        build_dataset(split),
        batch_size=CFG.data.batch_size,
        shuffle=train,
        drop_last=train,
        collate_fn=collate,
    )


def loss(outputs, labels):
    return CRITERION(outputs, labels)


def metric(outputs, labels):
    return ranking_metrics(outputs, labels, CFG.eval["k"])


def build_optimizer(model):
    return engine.make_optimizer(model, CFG.optim)


def build_scheduler(optimizer):
    return engine.make_scheduler(optimizer, CFG.optim)


def train_step(model, optimizer, batch):
    return engine.train_step(model, optimizer, batch, CRITERION, CFG.optim)


def predict(path, model):
    with open(path) as f:
        codes = [line.strip() for line in f if line.strip()]
    history = click_log().vocab.encode(codes)
    ids, values = recommend(model, history, CFG.data.max_len)
    return {"items": [click_log().vocab.items[i] for i in ids], "scores": values}
