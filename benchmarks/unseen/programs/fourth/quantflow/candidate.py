"""Quantile forecaster in PaddlePaddle. The network is one file; parameters of the blocks are built by a few factories."""
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader

from flow.series import SlidingWindows, Standardizer, fill, load_table
from flow.yogi import Yogi

CONFIG = {
    "model": {"width": 16, "heads": 4, "stores": 3, "dropout": 0.1, "kernel": 3, "dilations": [1, 2, 4], "norm_eps": 1e-3},
    "data": {"path": "sales.csv", "past": 24, "horizon": 6, "stride": 5, "share": 0.7, "batch": 8},
    "loss": {"levels": [0.1, 0.5, 0.9], "discount": 0.9},
    "train": {"rate": 4e-3, "warm": 5, "steps": 50, "decay": 1e-3, "clip": 0.5},
}
M = CONFIG["model"]


def build_dataset(split):
    c = CONFIG["data"]
    return SlidingWindows(c["path"], split, c["past"], c["horizon"], c["stride"], c["share"])


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=CONFIG["data"]["batch"], shuffle=False, drop_last=False)


class Gate(nn.Layer):
    """dropout, gated linear unit, sum with the skip, norm"""

    def __init__(self, width, dropout=0.0):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, epsilon=M["norm_eps"])

    def forward(self, x, skip):
        value, gate = self.linear(self.drop(x)).chunk(2, axis=-1)
        return self.norm(skip + value * F.sigmoid(gate))


class Residual(nn.Layer):
    def __init__(self, n_in, n_out=None, context=False):
        super().__init__()
        n_out = n_out or n_in
        width = M["width"]
        self.up = nn.Linear(n_in, width)
        if context:
            self.context = nn.Linear(width, width, bias_attr=False)
        self.down = nn.Linear(width, n_out)
        if n_in != n_out:
            self.shortcut = nn.Linear(n_in, n_out)
        self.gate = Gate(n_out, M["dropout"])

    def forward(self, x, context=None):
        hidden = self.up(x)
        if context is not None:
            hidden = hidden + self.context(context)
        skip = self.shortcut(x) if hasattr(self, "shortcut") else x
        return self.gate(self.down(F.elu(hidden)), skip)


class Selection(nn.Layer):
    def __init__(self, variables):
        super().__init__()
        width = M["width"]
        self.lift = nn.LayerList([nn.Linear(1, width) for _ in range(variables)])
        self.each = nn.LayerList([Residual(width) for _ in range(variables)])
        self.weigh = Residual(variables * width, variables, context=True)

    def forward(self, x, context):
        lifted = [layer(column) for layer, column in zip(self.lift, paddle.split(x, x.shape[-1], axis=-1))]
        weights = F.softmax(self.weigh(paddle.concat(lifted, axis=-1), context.unsqueeze(1)), axis=-1)
        values = paddle.stack([layer(v) for layer, v in zip(self.each, lifted)], axis=2)
        return paddle.einsum("btvd,btv->btd", values, weights), weights


class LocalBlock(nn.Layer):
    def __init__(self, kernel, dilation):
        super().__init__()
        width = M["width"]
        self.conv = nn.Conv1D(width, 2 * width, kernel, dilation=dilation, padding=[(kernel - 1) * dilation, 0])

    def forward(self, x):
        y = self.conv(x.transpose([0, 2, 1]))
        return F.glu(y, axis=1).transpose([0, 2, 1]) + x


class SharedValueAttention(nn.Layer):
    def __init__(self):
        super().__init__()
        width, self.heads = M["width"], M["heads"]
        size = width // self.heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, size)
        self.project = nn.Linear(size, width, bias_attr=False)
        self.drop = nn.Dropout(M["dropout"])
        self.scale = 1 / math.sqrt(size)

    def forward(self, query, memory, allowed):
        q = self.query(query).reshape([0, 0, self.heads, -1])
        k = self.key(memory).reshape([0, 0, self.heads, -1])
        scores = paddle.einsum("bqhe,bkhe->bhqk", q, k) * self.scale
        scores = paddle.where(allowed, scores, paddle.full_like(scores, -1e30))
        weights = F.softmax(scores, axis=-1).mean(axis=1)
        return self.project(paddle.bmm(self.drop(weights), self.value(memory))), weights


class QuantFlow(nn.Layer):
    def __init__(self):
        super().__init__()
        width = M["width"]
        self.stores = nn.Embedding(M["stores"], width)
        self.for_selection = Residual(width)
        self.for_enrichment = Residual(width)
        self.past_selection = Selection(4)
        self.future_selection = Selection(3)
        self.local = nn.LayerList([LocalBlock(M["kernel"], d) for d in M["dilations"]])
        self.local_gate = Gate(width)
        self.enrich = Residual(width, context=True)
        self.attention = SharedValueAttention()
        self.attention_gate = Gate(width)
        self.positionwise = Residual(width)
        self.last_gate = Gate(width)
        self.head = nn.Linear(width, len(CONFIG["loss"]["levels"]))

    def forward(self, past, future, store):
        vector = self.stores(store)
        select = self.for_selection(vector)
        p, past_weights = self.past_selection(past, select)
        f, future_weights = self.future_selection(future, select)
        x = paddle.concat([p, f], axis=1)
        local = x
        for block in self.local:
            local = block(local)
        local = self.local_gate(local, x)
        rich = self.enrich(local, self.for_enrichment(vector).unsqueeze(1))
        ahead, total = future.shape[1], x.shape[1]
        allowed = paddle.tril(paddle.ones([total, total]))[total - ahead:].astype("bool")
        mixed, attention = self.attention(rich[:, -ahead:], rich, allowed)
        mixed = self.attention_gate(mixed, rich[:, -ahead:])
        y = self.last_gate(self.positionwise(mixed), local[:, -ahead:])
        low, middle, high = paddle.unbind(self.head(y), axis=-1)
        quantiles = paddle.stack([middle - F.softplus(low), middle, middle + F.softplus(high)], axis=-1)
        return {"quantiles": quantiles, "attention": attention, "select": (past_weights, future_weights)}


def build_model():
    return QuantFlow()


def hour_weights(mask):
    hours = paddle.arange(mask.shape[1]).astype(mask.dtype)
    return mask * paddle.pow(paddle.full_like(hours, CONFIG["loss"]["discount"]), hours)


def loss(outputs, labels):
    target, mask = labels.unbind(axis=-1)
    weight = hour_weights(mask).unsqueeze(-1)
    levels = paddle.to_tensor(CONFIG["loss"]["levels"], dtype=target.dtype)
    error = target.unsqueeze(-1) - outputs["quantiles"]
    pinball = F.relu(error) * levels + F.relu(-error) * (1 - levels)
    return (pinball * weight).sum() / weight.sum()


def metric(outputs, labels):
    q = outputs["quantiles"].numpy().astype("float64")
    y, w = np.moveaxis(labels.numpy().astype("float64"), -1, 0)
    levels = np.array(CONFIG["loss"]["levels"])
    error = y[..., None] - q
    risk = (w[..., None] * np.where(error > 0, levels * error, (levels - 1) * error)).sum((0, 1))
    risk = 2 * risk / np.sum(np.abs(y) * w)
    result = {f"risk{round(100 * level)}": float(r) for level, r in zip(levels, risk)}
    hit = np.logical_and(q[..., 0] <= y, y <= q[..., -1])
    result["coverage"] = float(np.average(hit, weights=w))
    absolute = np.abs(error[..., 1]) * w
    result["mae"] = float((absolute.sum(1) / np.maximum(w.sum(1), 1)).mean())
    return result


def build_optimizer(model):
    c = CONFIG["train"]

    def factor(step):
        if step < c["warm"]:
            return (step + 1) / (c["warm"] + 1)
        progress = (step - c["warm"]) / (c["steps"] - c["warm"])
        return 0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0))

    rate = paddle.optimizer.lr.LambdaDecay(c["rate"], lr_lambda=factor)
    return Yogi(rate, model.parameters(), decay=c["decay"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    value = loss(model(**inputs), batch["labels"])
    value.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), CONFIG["train"]["clip"])
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()


@paddle.no_grad()
def predict(path, model):
    c = CONFIG["data"]
    scaler = Standardizer(load_table(c["path"]), c["share"])
    table = load_table(path)
    key = next(iter(table))
    hours, sales, temp = table[key]
    rows = scaler.encode(key, hours, fill(sales)[0], temp)
    x = paddle.to_tensor(rows[None]).astype(model.head.weight.dtype)
    past, future = x[:, :c["past"]], x[:, c["past"]:, 1:]
    out = model(past, future, paddle.to_tensor([key]))
    sales = np.clip(scaler.decode(key, out["quantiles"][0].numpy()), 0, None)
    return {"hours": hours[c["past"]:].astype("int64"), "sales": sales, "attention": out["attention"][0].numpy()}
