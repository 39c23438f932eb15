"""Object-centric scenes in PaddlePaddle."""
import itertools
import json
import pathlib
import tomllib

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
OPT = tomllib.loads((HERE / "options.toml").read_text())
SC, MO, SO = OPT["scene"], OPT["model"], OPT["solver"]
KINDS = SC["kinds"]


def position_grid(n):
    r = np.linspace(0, 1, n, dtype="float32")
    x, y = np.meshgrid(r, r)
    return np.stack([x, y, 1 - x, 1 - y], axis=-1)


class PositionMixin:
    """Adds `pos_<name>`: a projection and the grid it reads."""

    def add_position(self, name, n):
        setattr(self, f"pos_{name}", nn.Linear(4, MO["width"]))
        self.register_buffer(f"grid_{name}", paddle.to_tensor(position_grid(n)))

    def position(self, name):
        return getattr(self, f"pos_{name}")(getattr(self, f"grid_{name}"))


class Grouping(nn.Layer):
    def __init__(self):
        super().__init__()
        d = MO["width"]
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, MO["mlp"]), nn.ReLU(), nn.Linear(MO["mlp"], d))
        self.cell = nn.GRUCell(d, d)
        self.query = nn.Sequential(nn.LayerNorm(d, bias_attr=False), nn.Linear(d, d, bias_attr=False))
        self.norm = nn.LayerNorm(d)
        self.key, self.value = nn.Linear(d, d, bias_attr=False), nn.Linear(d, d, bias_attr=False)
        self.start = self.create_parameter([MO["num_slots"], d],
                                           default_initializer=nn.initializer.Normal(mean=0.0, std=0.3))

    def forward(self, x):
        d, b = MO["width"], x.shape[0]
        x = self.norm(x)
        k, v = self.key(x), self.value(x)
        start = paddle.tile(self.start.unsqueeze(0), [b, 1, 1])
        slots = start
        for r in range(MO["rounds"]):
            if r + 1 == MO["rounds"]:
                # implicit differentiation, first order: only the last round is differentiated,
                # the learnt start gets the straight-through gradient
                slots = start + (slots - start).detach()
            logits = paddle.matmul(k, self.query(slots) / d ** 0.5, transpose_y=True)
            a = F.softmax(logits, axis=2) + MO["attn_eps"]
            w = a / paddle.sum(a, axis=1, keepdim=True)
            u = paddle.matmul(w, v, transpose_x=True)
            slots, _ = self.cell(u.reshape([-1, d]), slots.reshape([-1, d]))
            slots = slots.reshape([b, -1, d])
            slots = slots + self.mlp(slots)
        return slots, a


class Scenery(PositionMixin, nn.Layer):
    def __init__(self):
        nn.Layer.__init__(self)
        d = MO["width"]
        self.head = nn.Linear(d, 4 + len(KINDS))
        xavier = nn.initializer.XavierUniform()
        self.up1 = nn.Conv2DTranspose(d, d // 2, 4, stride=2, padding=1, weight_attr=xavier)
        self.up2 = nn.Conv2DTranspose(d // 2, 2, 4, stride=2, padding=1, weight_attr=xavier, bias_attr=False)
        self.add_position("low", SC["size"] // 4)
        self.add_position("full", SC["size"])
        self.conv1 = nn.Conv2D(1, d, 5, padding=2, weight_attr=xavier)
        self.conv2 = nn.Conv2D(d, d, 3, padding=1, weight_attr=xavier)
        self.token = nn.Sequential(("ln", nn.LayerNorm(d)), ("fc1", nn.Linear(d, d)), ("relu", nn.ReLU()),
                                   ("fc2", nn.Linear(d, d)))
        self.grouping = Grouping()

    def encode(self, image):
        h = F.relu(self.conv2(F.relu(self.conv1(image))))
        h = paddle.transpose(h, [0, 2, 3, 1]) + self.position("full")
        return self.token(paddle.flatten(h, 1, 2))

    def decode(self, slots):
        b, s, d = slots.shape
        n = SC["size"] // 4
        z = slots.reshape([b * s, 1, 1, d]) + self.position("low")
        z = self.up2(F.elu(self.up1(z.transpose([0, 3, 1, 2]))))
        z = z.reshape([b, s, 2, 4 * n, 4 * n])
        return z[:, :, 0], F.softmax(z[:, :, 1], axis=1)

    def forward(self, image):
        slots, attn = self.grouping(self.encode(image))
        grey, masks = self.decode(slots)
        p = self.head(slots)
        objects = paddle.concat([F.sigmoid(p[:, :, :4]), p[:, :, 4:]], axis=2)
        return {"recon": paddle.sum(grey * masks, axis=1, keepdim=True), "masks": masks, "attention": attn,
                "objects": objects}


def draw(scene):
    n = SC["size"]
    picture = np.full([n, n], 0.1, dtype="float32")
    owner = np.zeros([n, n], dtype="int64")
    ys, xs = np.arange(n)[:, None], np.arange(n)[None, :]
    for k, o in enumerate(scene, start=1):
        u, v = xs - o["x"] * (n - 1), ys - o["y"] * (n - 1)
        if o["shape"] == "disc":
            on = u ** 2 + v ** 2 <= o["r"] ** 2
        else:
            on = (np.abs(u) <= o["r"]) & (np.abs(v) <= o["r"])
        picture = np.where(on, np.float32(o["shade"]), picture)
        owner = np.where(on, k, owner)
    return picture[None], owner


class SceneSet(paddle.io.Dataset):
    def __init__(self, split):
        with open(HERE.parent / "data" / "scenes.json") as f:
            self.scenes = json.load(f)[split]

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, i):
        picture, owner = draw(self.scenes[i])
        rows = [[o["x"], o["y"], o["shade"], 1.0] + [float(o["shape"] == k) for k in KINDS] for o in self.scenes[i]]
        rows += [[0.0] * (4 + len(KINDS))] * (MO["num_slots"] - len(rows))
        return picture, {"image": picture, "objects": np.array(rows, dtype="float32"), "seg": owner}


def build_model():
    return Scenery()


def build_dataset(split):
    return SceneSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(SceneSet(split), batch_size=SO["batch"], shuffle=split == "train", drop_last=True)


def set_costs(pred, true):
    p, t = pred.unsqueeze(2), true.unsqueeze(1)
    gap = (p[..., :3] - t[..., :3]).abs()
    geo = paddle.where(gap <= 0.2, 0.5 * gap ** 2, 0.2 * (gap - 0.1)).sum(axis=-1)
    kind = paddle.sum(F.log_softmax(p[..., 4:], axis=-1) * t[..., 4:], axis=-1)
    here, q = t[..., 3], p[..., 3]
    shape = paddle.broadcast_shape(here.shape, q.shape)
    bce = F.binary_cross_entropy(q.expand(shape), here.expand(shape), reduction="none")
    return here * (5 * geo - 0.5 * kind) + bce


PERMS = np.array(list(itertools.permutations(range(MO["num_slots"]))))


def best_permutation(cost):
    c = cost.numpy().astype("float64")
    totals = c[:, np.arange(c.shape[1])[None], PERMS].sum(-1)           # [B, S!]
    return PERMS[totals.argmin(1)]


def loss(outputs, labels):
    rec = paddle.square(outputs["recon"] - labels["image"]).sum(axis=[1, 2, 3]).mean()
    cost = set_costs(outputs["objects"], labels["objects"])
    pick = F.one_hot(paddle.to_tensor(best_permutation(cost.detach())), cost.shape[2])
    sets = paddle.sum(cost * pick) / cost.shape[0]
    return {"loss": rec + SO["set_weight"] * sets, "recon": rec, "set": sets}


def adjusted_rand(a, b):
    table = np.zeros([a.max() + 1, b.max() + 1])
    np.add.at(table, (a, b), 1)
    c2 = lambda v: (v * (v - 1) / 2).sum()
    index, ra, rb, n = c2(table), c2(table.sum(1)), c2(table.sum(0)), c2(np.array([len(a)]))
    chance = ra * rb / n if n else 0.0
    return 1.0 if (ra + rb) / 2 == chance else (index - chance) / ((ra + rb) / 2 - chance)


def metric(outputs, labels):
    perm = best_permutation(set_costs(outputs["objects"], labels["objects"]))
    p = outputs["objects"].numpy()
    t = np.take_along_axis(labels["objects"].numpy(), perm[:, :, None], axis=1)
    real = t[:, :, 3] > 0.5
    p, t = p[real], t[real]
    seg, own = outputs["masks"].numpy().argmax(1), labels["seg"].numpy()
    return {"distance": float(np.hypot(*(p - t)[:, :2].T).mean()),
            "shape_acc": float(np.mean(p[:, 4:].argmax(1) == t[:, 4:].argmax(1))),
            "fg_ari": float(np.mean([adjusted_rand(s[o > 0], o[o > 0]) for s, o in zip(seg, own)]))}


class LookaheadAdam(paddle.optimizer.Adam):
    """Adam (AMSGrad) whose weights are pulled to slow ones every few steps."""

    def __init__(self, *args, every, pull, **kwargs):
        super().__init__(*args, **kwargs)
        self._every, self._pull, self._slow, self._calls = every, pull, None, 0

    def _all(self):
        return [p for g in self._param_groups for p in g["params"]]

    def step(self):
        if self._slow is None:
            self._slow = [p.detach().clone() for p in self._all()]
        super().step()
        self._calls += 1
        if self._calls % self._every == 0:
            with paddle.no_grad():
                for i, p in enumerate(self._all()):
                    self._slow[i] = self._slow[i] * (1 - self._pull) + p * self._pull
                    p.set_value(self._slow[i])


def build_optimizer(model):
    cell = model.grouping.cell.parameters()
    known = {p.name for p in cell}
    sched = paddle.optimizer.lr.LambdaDecay(
        SO["lr"], lambda n: min((n + 1) / SO["warmup"], 1.0) * 2.0 ** (-n / SO["half_life"]))
    return LookaheadAdam(sched, SO["beta1"], SO["beta2"], amsgrad=True,
                         parameters=[{"params": cell, "learning_rate": SO["gru_rate"]},
                                     {"params": [p for p in model.parameters() if p.name not in known]}],
                         **SO["lookahead"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    picture, labels = batch
    parts = loss(model(picture), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), SO["clip"])
    optimizer.step()
    optimizer.clear_grad()
    return dict({k: float(v) for k, v in parts.items()}, norm=float(norm))


def predict(path, model):
    image = np.array(json.loads(pathlib.Path(path).read_text())["image"], "float32")
    model.eval()
    with paddle.no_grad():
        out = model(paddle.to_tensor(image[None, None]))
    obj = out["objects"].numpy()[0]
    return {"mask": np.argmax(out["masks"].numpy()[0], axis=0), "recon": out["recon"].numpy()[0, 0],
            "present": obj[:, 3], "shapes": " ".join(KINDS[k] for k in np.argmax(obj[:, 4:], axis=1))}
