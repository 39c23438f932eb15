"""Paddle port of the hum retriever: entry points."""
import math
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

from conf import AUDIO, TRAIN  # noqa: E402
from descent import Nesterov, restarts  # noqa: E402
from nets import Retriever, before  # noqa: E402
from tapes import Hums, encode, hear, log_mel, padded, songbook  # noqa: E402

LOSS, OPT = TRAIN["loss"], TRAIN["optimizer"]


def build_model():
    return Retriever()


def build_dataset(split):
    return Hums(split)


class Order(paddle.io.Sampler):
    def __init__(self, n):
        super().__init__(None)
        self.n, self.walks = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        seed = 1234 + 10 * self.walks
        self.walks += 1
        return iter(np.random.default_rng(seed).permutation(self.n).tolist())


def build_dataloader(split):
    data = build_dataset(split)
    size = int(OPT["batch"])
    if split == "train":
        batches = paddle.io.BatchSampler(sampler=Order(len(data)), batch_size=size, drop_last=True)
        return paddle.io.DataLoader(data, batch_sampler=batches)
    return paddle.io.DataLoader(data, batch_size=size)


def soft_cross_entropy(logits, target):
    return -(target * F.log_softmax(logits, axis=1)).sum(axis=1).mean()


def blend(hard, soft):
    return LOSS["soft"] * soft + (1 - LOSS["soft"]) * hard


def loss(outputs, labels):
    a, t, scale = outputs["audio"], outputs["tune"], outputs["scale"]
    sims = paddle.matmul(a, t, transpose_y=True) * scale
    tune = labels["tune"]
    same = paddle.equal(tune.unsqueeze(1), tune.unsqueeze(0)).astype("float32")
    hard = F.label_smooth(same / same.sum(axis=1, keepdim=True), epsilon=LOSS["smoothing"])
    guess = (paddle.matmul(outputs["teacher"], t, transpose_y=True) * scale).detach()
    rows = soft_cross_entropy(sims, blend(hard, F.softmax(guess, axis=1)))
    columns = soft_cross_entropy(sims.T, blend(hard, F.softmax(guess, axis=0).T))
    contrast = (rows + columns) / 2
    match = paddle.square(a - outputs["teacher"]).sum(axis=1).mean()
    key = F.smooth_l1_loss(outputs["key"], labels["key"], delta=LOSS["key_delta"])
    total = contrast + LOSS["match"] * match + LOSS["key"] * key
    return {"loss": total, "contrast": contrast, "match": match, "key": key}


def metric(outputs, labels):
    tune = labels["tune"].numpy()
    _, first = np.unique(tune, return_index=True)
    sims = outputs["audio"].numpy() @ outputs["tune"].numpy()[first].T
    right = tune[:, None] == tune[first]
    own = (sims * right).sum(axis=1)
    rank = 1 + np.count_nonzero(sims > own[:, None], axis=1)
    other = np.where(right, -np.inf, sims).max(axis=1)
    off = np.abs(outputs["key"].numpy() - labels["key"].numpy()) * LOSS["key_scale"]
    found = {"recall%d" % k: np.mean(rank <= k) for k in (1, 3)}
    found.update(mrr=np.mean(1 / rank), margin=np.mean(own - other),
                 key_mae=off.mean(), key_in_tune=np.mean(off < 1))
    return {k: float(v) for k, v in found.items()}


def rules(name, p):
    factor = TRAIN["factors"].get(name, 1.0)
    decay = OPT["decay"] if p.ndim > 1 and name not in TRAIN["factors"] else 0.0
    return factor, decay


def build_optimizer(model):
    cycles = TRAIN["cycles"]
    rate = paddle.optimizer.lr.LambdaDecay(OPT["rate"], restarts(cycles["first"], cycles["factor"]))
    return Nesterov(model.named_parameters(), rate, OPT["momentum"], rules)


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def clip(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = paddle.sqrt(paddle.add_n([paddle.square(g).sum() for g in grads]))
    shrink = paddle.clip(limit / (norm + 1e-6), max=1.0)
    for g in grads:
        g.multiply_(shrink)
    return norm


@paddle.no_grad()
def after_step(model):
    limits = TRAIN["scale"]
    model.scale.set_value(paddle.clip(model.scale, math.log(limits["least"]), math.log(limits["most"])))
    keep = TRAIN["teacher"]["keep"]
    for old, new in model.teacher_pairs():
        old.set_value(keep * old + (1 - keep) * new)


def train_step(model, optimizer, batch):
    model.train()
    parts = loss(model(*batch[:-1]), batch[-1])
    parts["loss"].backward()
    norm = clip(model.parameters(), OPT["clip"])
    optimizer.step()
    optimizer.clear_grad()
    after_step(model)
    return {"loss": parts["loss"].detach(), "match": parts["match"].detach(), "norm": norm}


def window_starts(total, size):
    last = max(total - size, 0)
    starts = np.arange(0, last + 1, size // 2)
    return starts if starts[-1] == last else np.append(starts, last)


def predict(path, model):
    frames = log_mel(hear(path))
    size = AUDIO["frames"]
    starts = window_starts(len(frames), size)
    mel, n = map(np.array, zip(*[padded(frames[s:s + size]) for s in starts]))
    book = songbook()
    tokens = [paddle.to_tensor(np.array(c)) for c in zip(*[encode(t["notes"]) for t in book])]
    was = model.training
    model.eval()
    with paddle.no_grad():
        n = paddle.to_tensor(n)
        audio = model.audio(model.norm(paddle.to_tensor(mel), before(n, size)), n)
        weight = n.astype("float32") / n.sum().astype("float32")
        whole = F.normalize(paddle.matmul(weight.unsqueeze(0), audio), axis=1)
        sims = paddle.matmul(model.tune(*tokens), whole.T).squeeze(1)
        share = F.softmax(model.scale.exp() * sims, axis=0).numpy()
        key = np.sort(model.key(audio).numpy(), axis=0)[(len(starts) - 1) // 2]
    if was:
        model.train()
    order = np.argsort(-sims.numpy(), kind="stable")
    return {"best": [book[i]["name"] for i in order[:3]], "share": share,
            "key": key * LOSS["key_scale"] + LOSS["key_mean"], "pieces": np.array([len(starts)])}
