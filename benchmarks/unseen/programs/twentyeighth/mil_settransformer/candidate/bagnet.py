"""Multi-instance learning with a Set Transformer, in Paddle."""
import json
import os
from collections import OrderedDict, defaultdict
from types import MappingProxyType

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal, Uniform, XavierUniform

HERE = os.path.dirname(os.path.abspath(__file__))
ITEMS = os.path.join(HERE, "..", "data", "items.csv")
CFG = MappingProxyType(dict(feats=5, width=24, heads=3, inducing=4, items=12, batch_size=8, lr=2e-3, decay=0.02,
                            pos_weight=1.6, count_weight=0.3, clip=0.5, restart=28, lr_min=1e-5))


def linear(i, o):
    k = 1 / np.sqrt(i)
    return nn.Linear(i, o, weight_attr=paddle.ParamAttr(initializer=Uniform(-k, k)),
                     bias_attr=paddle.ParamAttr(initializer=Uniform(-k, k)))


class Block(nn.Layer):
    """Attention of x over mem, post-norm; attention is Paddle's layer with separate projections."""

    def __init__(self, d=CFG["width"], heads=CFG["heads"]):
        super().__init__()
        self.norms = nn.LayerList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.fc1, self.fc2 = linear(d, 2 * d), linear(2 * d, d)
        self.mha = nn.MultiHeadAttention(d, heads, need_weights=True, bias_attr=Constant(0.0))
        fused = (6 / (4 * d)) ** 0.5            # as one [3d, d] matrix would be drawn
        for proj in (self.mha.q_proj, self.mha.k_proj, self.mha.v_proj):
            Uniform(-fused, fused)(proj.weight)
        Uniform(-d ** -0.5, d ** -0.5)(self.mha.out_proj.weight)

    def forward(self, x, mem, keep=None):
        a, w = self.mha(x, mem, mem, attn_mask=keep)
        x = self.norms[0](a + x)
        x = self.norms[1](self.fc2(F.gelu(self.fc1(x))) + x)
        return x, w


class Induced(nn.Layer):
    def __init__(self):
        super().__init__()
        m, d = CFG["inducing"], CFG["width"]
        # fans of a [1, m, d] tensor: in = m * d, out = d
        self.latents = self.create_parameter([1, m, d], default_initializer=XavierUniform(fan_in=m * d, fan_out=d))
        self.read, self.write = Block(), Block()

    def forward(self, x, keep):
        lat = paddle.tile(self.latents, [x.shape[0], 1, 1])
        lat, _ = self.read(lat, x, keep)
        return self.write(x, lat)[0]


class BagNet(nn.Layer):
    def __init__(self, log_odds):
        super().__init__()
        d = CFG["width"]
        self.head = nn.LayerDict(OrderedDict(logit=linear(d, 1), count=linear(d, 1)))
        self.query = self.create_parameter([1, 1, d], default_initializer=Normal(0.0, 0.02))
        self.pooling = Block()
        self.induced = Induced()
        self.selfattn = Block()
        self.embed = linear(CFG["feats"], d)
        self.register_buffer("log_odds", paddle.to_tensor(log_odds, dtype="float32"))

    def forward(self, x, size):
        keep = F.sequence_mask(size, maxlen=x.shape[1], dtype="bool").unsqueeze([1, 2])
        h = self.embed(x)
        h = self.induced(h, keep)
        h, _ = self.selfattn(h, h, keep)
        z, w = self.pooling(self.query.expand([x.shape[0], 1, -1]), h, keep)
        z = z.squeeze(1)
        return {"logit": self.head["logit"](z).squeeze(-1) + self.log_odds,
                "count": F.softplus(self.head["count"](z)).squeeze(-1),
                "attention": w.mean(axis=1).squeeze(1)}


def read_items(split):
    bags = defaultdict(list)
    with open(ITEMS) as f:
        head = f.readline().strip().split(",")
        for line in f:
            row = dict(zip(head, line.strip().split(",")))
            if row["split"] == split:
                bags[int(row["bag"])].append([float(row[f"f{k}"]) for k in range(CFG["feats"])] + [int(row["rare"])])
    return [np.array(bags[k], "float64") for k in sorted(bags)]


class BagDataset(paddle.io.Dataset):
    def __init__(self, split):
        self.bags = read_items(split)

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        b = self.bags[i]
        x = np.zeros([CFG["items"], CFG["feats"]], "float32")
        x[:len(b)] = b[:, :-1]
        n = np.float32(b[:, -1].sum())
        return x, np.int64(len(b)), {"y": np.float32(n > 0), "n": n}


def build_model():
    rate = np.mean([b[:, -1].max() for b in read_items("train")])
    return BagNet(float(np.log(rate) - np.log1p(-rate)))


def build_dataset(split):
    return BagDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(BagDataset(split), batch_size=CFG["batch_size"], shuffle=split == "train")


def loss(outputs, labels):
    y, n = labels["y"], labels["n"]
    bag = F.binary_cross_entropy_with_logits(outputs["logit"], y, pos_weight=paddle.to_tensor(CFG["pos_weight"]))
    count = F.poisson_nll_loss(outputs["count"], n, log_input=False, epsilon=1e-6)
    return {"loss": bag + CFG["count_weight"] * count, "bag": bag, "count": count}


def metric(outputs, labels):
    s, y = outputs["logit"].numpy(), labels["y"].numpy() > 0.5
    pairs = [np.sign(a - b) * 0.5 + 0.5 for a in s[y] for b in s[~y]]
    return {"auc": float(np.mean(pairs)) if pairs else 0.5,
            "mae": float(np.abs(outputs["count"].numpy() - labels["n"].numpy()).mean()),
            "focus": float(outputs["attention"].numpy().max(axis=1).mean())}


class Belief(paddle.optimizer.Optimizer):
    def __init__(self, learning_rate, parameters, decay_of, beta1=0.9, beta2=0.999, epsilon=1e-6):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self._b1, self._b2, self._eps, self._decay_of = beta1, beta2, epsilon, decay_of
        self._moments, self._t = {}, 0

    @paddle.no_grad()
    def step(self):
        self._t += 1
        lr = self.get_lr()
        c1, c2 = 1 - self._b1 ** self._t, 1 - self._b2 ** self._t
        for p in self._parameter_list:
            if p.grad is None:
                continue
            g = p.grad
            m, s = self._moments.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            m = self._b1 * m + (1 - self._b1) * g
            s = self._b2 * s + (1 - self._b2) * paddle.square(g - m) + self._eps
            self._moments[p.name] = (m, s)
            new = p * (1 - lr * self._decay_of(p)) - (lr / c1) * m / (paddle.sqrt(s / c2) + self._eps)
            p.set_value(new)


def build_optimizer(model):
    decayed = {p.name for n, p in model.named_parameters() if n.endswith("weight") and len(p.shape) == 2}
    sched = paddle.optimizer.lr.CosineAnnealingWarmRestarts(CFG["lr"], T_0=CFG["restart"], eta_min=CFG["lr_min"])
    return Belief(sched, model.parameters(), lambda p: CFG["decay"] if p.name in decayed else 0.0)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    x, size, labels = batch
    model.clear_gradients()
    parts = loss(model(x, size), labels)
    parts["loss"].backward()
    for p in model.parameters():
        p.grad.set_value(p.grad.clip(-CFG["clip"], CFG["clip"]))
    optimizer.step()
    return {k: float(v) for k, v in parts.items()}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    items = np.asarray(json.load(open(path))["items"], dtype="float32")
    out = model(paddle.to_tensor(items[np.newaxis]), paddle.to_tensor([len(items)], dtype="int64"))
    att = out["attention"].numpy()[0]
    return {"probability": F.sigmoid(out["logit"]).numpy(), "count": out["count"].numpy(), "attention": att,
            "key_item": [int(np.argmax(att))]}
