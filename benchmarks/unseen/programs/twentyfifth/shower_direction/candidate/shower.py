"""Paddle port: direction and energy of air showers."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

import blocks  # noqa: E402
import events  # noqa: E402

WIDTH, HEADS, DEPTH, FREQS, HIDDEN = 24, 3, 2, 3, 32
BATCH = 8
EPOCHS, STEPS = 8, 9


def build_model():
    def call(m, feats, mask, whole):
        place = feats[:, :, :3]
        dist2 = paddle.square(place.unsqueeze(2) - place.unsqueeze(1)).sum(axis=-1)
        x = m.embed(feats)
        for i in range(DEPTH):
            x = m.attend[i](x, mask, dist2)
            x = m.feed[i](x)
        return m.head(m.pool(x, mask, feats[:, :, 4]), whole)

    return blocks.Unit(call, [
        ("embed", blocks.make_embedding(WIDTH, FREQS)),
        ("attend", nn.LayerList([blocks.make_attention(WIDTH, HEADS, DEPTH) for _ in range(DEPTH)])),
        ("feed", nn.LayerList([blocks.make_feed(WIDTH, HIDDEN, DEPTH) for _ in range(DEPTH)])),
        ("pool", blocks.make_pool(WIDTH)),
        ("head", blocks.make_head(WIDTH, 2, HIDDEN)),
    ])


def build_dataset(split):
    frame = events.table(split)
    hits = np.load(events.ROOT / "hits.npy").astype("float64")
    zenith = np.radians(frame.zenith.to_numpy())
    azimuth = np.radians(frame.azimuth.to_numpy())
    weight = events.weight_table()[events.band_of(frame.zenith.to_numpy())]
    turns = np.zeros(len(frame))
    if split == "train":
        for i in range(len(frame)):
            turns[i] = np.random.RandomState(9000 + i).uniform(-np.pi, np.pi)
    target = events.unit(zenith, azimuth + turns).astype("float32")

    class Showers(paddle.io.Dataset):
        def __len__(self):
            return len(frame)

        def __getitem__(self, i):
            first, count = frame["first"][i], frame["count"][i]
            mine = hits[first:first + count]
            if turns[i]:
                mine = events.rotated(mine, turns[i])
            labels = {"dir": target[i],
                      "loge": np.float32(frame.log_energy[i]),
                      "weight": np.float32(weight[i])}
            return events.features(mine) + (labels,)

    return Showers()


def build_dataloader(split):
    data = build_dataset(split)
    if split != "train":
        return paddle.io.DataLoader(data, batch_size=BATCH)
    turn = iter(range(10 ** 9))

    class Order(paddle.io.BatchSampler):
        def __init__(self):
            self.batch_size = BATCH

        def __len__(self):
            return len(data) // BATCH

        def __iter__(self):
            order = np.random.default_rng([3, next(turn)]).permutation(len(data))
            yield from order[:len(self) * BATCH].reshape(-1, BATCH).tolist()

    return paddle.io.DataLoader(data, batch_sampler=Order())


def loss(outputs, labels):
    kappa = outputs["kappa"]
    share = labels["weight"] / labels["weight"].sum()
    mean = lambda values: (values * share).sum()  # noqa: E731
    cos = (outputs["dir"] * labels["dir"]).sum(axis=-1)
    # log sinh(k) - k cos = k (1 - cos) + log(1 - exp(-2k)) - log 2
    vmf = kappa * (1 - cos) + paddle.log1p(-paddle.exp(-2 * kappa)) + math.log(2 * math.pi) - paddle.log(kappa)
    var = outputs["var"]
    var = paddle.maximum(var, paddle.full_like(var, 0.05)).detach() + (var - var.detach())
    energy = 0.5 * (paddle.log(var) + (outputs["loge"] - labels["loge"]) ** 2 / var)
    goal = -paddle.log(1.02 - cos.detach())
    honest = F.smooth_l1_loss(paddle.log(kappa), goal, reduction="none")
    parts = {"vmf": mean(vmf), "energy": mean(energy), "honest": mean(honest)}
    parts["loss"] = sum(c * parts[n] for n, c in (("vmf", 1.0), ("energy", 0.7), ("honest", 0.2)))
    return parts


def metric(outputs, labels):
    a = outputs["dir"].numpy().astype("float64")
    b = labels["dir"].numpy().astype("float64")
    angle = np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), (a * b).sum(axis=1)))
    turn = np.degrees(np.arctan2(a[:, 1], a[:, 0]) - np.arctan2(b[:, 1], b[:, 0]))
    turn = turn - 360.0 * np.floor((turn + 180.0) / 360.0)
    miss = (outputs["loge"] - labels["loge"]).numpy().astype("float64")
    pull = miss / np.sqrt(outputs["var"].numpy().astype("float64"))
    return {"angle_median": float(np.median(angle)),
            "angle_68": float(np.percentile(angle, 68)),
            "azimuth_off": float(np.abs(turn).mean()),
            "energy_bias": float(miss.mean()),
            "energy_std": float(miss.std(ddof=1)),
            "covered": float(np.mean(np.abs(pull) < 1))}


class RootDecay(paddle.optimizer.lr.LRScheduler):
    """Rises over ``warm`` steps, falls with the root of the step, and ends in a straight line."""

    def __init__(self, peak, total, warm, cool):
        self.total, self.warm, self.cool = total, warm, cool
        super().__init__(peak)

    def get_lr(self):
        n = self.last_epoch + 1
        if n <= self.warm:
            return self.base_lr * n / self.warm
        lr = self.base_lr * (self.warm / n) ** 0.5
        left = self.total - self.last_epoch
        return lr * max(left, 1) / self.cool if left < self.cool else lr


def build_optimizer(model):
    return paddle.optimizer.RMSProp(
        learning_rate=RootDecay(2e-3, EPOCHS * STEPS, warm=12, cool=15),
        rho=0.95, epsilon=1e-3, momentum=0.8, centered=True,
        parameters=model.parameters(),
        weight_decay=1e-3,
        grad_clip=nn.ClipGradByGlobalNorm(1.0))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def pieces(batch):
    cut = batch[0].shape[0] * 5 // 8
    for lo, hi in ((0, cut), (cut, batch[0].shape[0])):
        yield [x[lo:hi] for x in batch[:-1]], {k: v[lo:hi] for k, v in batch[-1].items()}


def train_step(model, optimizer, batch):
    model.train()
    whole = batch[-1]["weight"].sum()
    seen = []
    for inputs, labels in pieces(batch):
        share = labels["weight"].sum() / whole
        parts = loss(model(*inputs), labels)
        (parts["loss"] * share).backward()
        seen.append({n: float(parts[n] * share) for n in ("loss", "vmf")})
    optimizer.step()
    optimizer.clear_grad()
    return {n: sum(s[n] for s in seen) for n in ("loss", "vmf")}


def predict(path, model):
    with open(path) as f:
        hits = np.asarray(json.load(f)["hits"], dtype="float64")
    angles = np.linspace(-0.45, 0.45, 4)
    stacked = [np.stack(part) for part in zip(*[events.features(events.rotated(hits, a)) for a in angles])]
    before = model.training
    model.eval()
    with paddle.no_grad():
        out = model(*[paddle.to_tensor(part) for part in stacked])
    model.train() if before else model.eval()
    out = {k: v.numpy().astype("float64") for k, v in out.items()}
    back = np.concatenate([events.rotated(d[None], -a) for d, a in zip(out["dir"], angles)])
    mean = (back * out["kappa"][:, None]).sum(axis=0)
    mean /= np.linalg.norm(mean)
    loge = np.average(out["loge"], weights=1 / out["var"])
    return {"zenith": np.degrees(np.arctan2(np.linalg.norm(mean[:2]), mean[2:])),
            "azimuth": np.degrees(np.arctan2(mean[1:2], mean[:1])) % 360,
            "log_energy": np.array([loge]),
            "kappa": np.array([np.median(out["kappa"])]),
            "hits_used": np.array([min(len(hits), events.LIMIT)])}
