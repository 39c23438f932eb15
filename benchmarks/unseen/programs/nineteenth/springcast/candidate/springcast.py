import numpy as np
import paddle

from . import scoring, tracks
from .predictor import ManyFutures

PEAK = 4e-3
READER_FACTOR = 0.5
EPOCHS, UPDATES = 4, 11
L2 = 1e-3
MAX_NORM = 0.5


def build_model():
    return ManyFutures()


def build_dataset(split):
    return tracks.TrackSet(split)


def build_dataloader(split):
    return tracks.loader(split)


def transforms(split):
    return tracks.steps_for(split)


def loss(outputs, labels):
    return scoring.forecast_loss(outputs, labels)


def metric(outputs, labels):
    return scoring.forecast_metrics(outputs, labels)


def build_optimizer(model):
    cycle = paddle.optimizer.lr.OneCycleLR(PEAK, total_steps=EPOCHS * UPDATES, divide_factor=10.0, end_learning_rate=PEAK / 10 / 50, phase_pct=0.25)
    reader = model.reader.parameters()
    own = {id(p) for p in reader}
    others = [p for p in model.parameters() if id(p) not in own]
    groups = [{"params": reader, "learning_rate": READER_FACTOR}, {"params": others}]
    return paddle.optimizer.Adam(cycle, beta1=0.9, beta2=0.99, parameters=groups, weight_decay=L2)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    terms = loss(model(batch["past"], batch["seen"], batch["kind"]), batch["labels"])
    optimizer.clear_grad()
    terms["loss"].backward()
    terms["norm"] = paddle.nn.utils.clip_grad_norm_(model.parameters(), max_norm=MAX_NORM)
    optimizer.step()
    return {k: v.detach() for k, v in terms.items()}


def fit():
    model = build_model()
    optimizer = build_optimizer(model)
    batches = build_dataloader("train")
    for epoch in range(EPOCHS):
        batches.batch_sampler.sampler.epoch = epoch
        for batch in batches:
            train_step(model, optimizer, batch)
            optimizer._learning_rate.step()
        with paddle.no_grad():
            rows = [metric(model(b["past"], b["seen"], b["kind"]), b["labels"]) for b in build_dataloader("val")]
        print(epoch, {k: np.mean([r[k] for r in rows]) for k in rows[0]})


def thin_out(paths, chance, near):
    """Keeps a mode only where it ends far from all likelier ones that were kept."""
    kept = []
    for k in range(len(chance)):
        ends = paths[kept, -1]
        if len(kept) and np.min(np.linalg.norm(ends - paths[k, -1], axis=-1)) < near:
            chance[k] = 0
        else:
            kept.append(k)
    return chance / chance.sum()


def predict(path, model, near=0.3):
    model.eval()
    archive = np.load(path)
    scene = {"id": 0, "pos": archive["pos"], "seen": archive["seen"], "kind": archive["kind"]}
    for step in transforms("val"):
        scene = step(scene)
    batch = {k: paddle.to_tensor(v[None]) for k, v in tracks.model_inputs(scene).items()}
    batch["past"] = batch["past"].astype(model.anchors.dtype)
    with paddle.no_grad():
        pred = model(**batch)
        chance = paddle.nn.functional.softmax(pred["logit"][0], axis=-1).numpy()
    order = np.argsort(-chance, axis=-1, kind="stable")
    chance = np.take_along_axis(chance, order, axis=-1)
    paths = np.take_along_axis(pred["mean"][0].numpy(), order[:, :, None, None], axis=1) * tracks.UNIT + scene["origin"]
    chance = np.stack([thin_out(p, c, near) for p, c in zip(paths, chance)])
    return {"paths": paths, "prob": chance}


if __name__ == "__main__":
    fit()
