"""Harbour House, who answers the call: the PPO policy over recorded days, in Paddle.

The network is a handful of closures over one layer that owns all the parameters; nothing below has a state.
"""
import json
import math
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn.initializer import Constant, Normal, Orthogonal, Uniform

N_FLOORS, N_LIFTS, N_RING = 10, 4, 20
FILES = Path(__file__).resolve().parents[1] / "data"
RECORDED = dict(train=["monday", "tuesday"], val=["friday"])
HYPER = dict(gamma=0.985, lam=0.92, clip=0.2, value_clip=0.4, value=0.5, entropy=0.01)
OBSERVED = ("cars", "stops", "hall", "call", "hour", "alive")

# ------------------------------------------------------------------------------------------------ what was recorded


def around(floor, direction):
    """Where a floor lies on the ring: upwards first, then down from the top."""
    return floor if direction >= 0 else N_RING - floor - 1


def snapshot(event):
    lifts = event["cars"]
    state = [[c["floor"], c["dir"], c["load"] / 12.0, c["door"], c["speed"] / 2.5] for c in lifts]
    to_stop = np.zeros((N_LIFTS, N_RING), dtype="float32")
    for row, c in zip(to_stop, lifts):
        row[[around(*s) for s in c["stops"]]] = 1.0
    waited = np.zeros(N_RING, dtype="float32")
    for floor, direction, seconds in event["waiting"]:
        np.maximum.at(waited, around(floor, direction), np.float32(np.log1p(seconds / 10.0)))
    return dict(
        cars=np.array(state, dtype="float32"),
        stops=to_stop,
        hall=waited,
        call=np.array(event["call"], dtype="int64"),
        hour=np.array(event["t"] / 3600.0, dtype="float32"),
        alive=np.array([float(c["in_service"]) for c in lifts], dtype="float32"),
    )


def estimate(day):
    """Advantages from the last decision to the first; what follows a day that was cut off is estimated."""
    log = day["events"]
    following, v_next, result = day["closed_at"], day["last_value"] * float(day["cut_off"]), []
    carry = 0.0
    for e in log[::-1]:
        g = HYPER["gamma"] ** ((following - e["t"]) / 10.0)
        carry = e["reward"] + g * v_next - e["value"] + g * HYPER["lam"] * carry
        result.append(carry)
        following, v_next = e["t"], e["value"]
    return result[::-1]


class Recorded(Dataset):
    def __init__(self, split):
        super().__init__()
        self.items = []
        for name in RECORDED[split]:
            day = json.loads((FILES / f"{name}.json").read_text())
            for e, a in zip(day["events"], estimate(day)):
                goal = [e["choice"], e["logp"], a, a + e["value"], e["value"]]
                self.items.append(dict(snapshot(e), labels=np.array(goal, dtype="float32")))

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


# ------------------------------------------------------------------------------------------------ the network


def owner():
    """A layer without a forward of its own, and the closures that put parameters into it."""
    layer = nn.Layer()

    def put(name, shape, start):
        layer.add_parameter(name, layer.create_parameter(shape, default_initializer=start))

    def matrix(name, rows, columns, gain=2 ** 0.5, bias=True):
        put(f"{name}_weight", [rows, columns], Orthogonal(gain))
        if bias:
            put(f"{name}_bias", [columns], Constant(0.0))

    def kernel(name, c_in, c_out, size):
        edge = (c_in * size) ** -0.5
        put(f"{name}_kernel", [c_out, c_in, size], Uniform(-edge, edge))
        put(f"{name}_offset", [c_out], Constant(0.0))

    return layer, put, matrix, kernel


def linear(p, name, x):
    return F.linear(x, getattr(p, f"{name}_weight"), getattr(p, f"{name}_bias", None))


def convolve(p, name, x):
    """Over the closed ring: its ends are laid against each other."""
    k = getattr(p, f"{name}_kernel")
    r = k.shape[-1] // 2
    closed = paddle.concat([x[:, :, -r:], x, x[:, :, :r]], axis=2)
    return F.conv1d(closed, k, getattr(p, f"{name}_offset"))


def bell(p, name, hours, width, hour):
    mids = paddle.to_tensor(hours, dtype=hour.dtype)
    return paddle.matmul(paddle.exp(-paddle.square((hour[:, None] - mids) / width)), getattr(p, name))


def travel(cars, call):
    floor, heading = cars[:, :, 0].astype("int64"), cars[:, :, 1].astype("int64")
    turned = lambda f, d: paddle.where(d < 0, N_RING - 1 - f, f)
    start, goal = turned(floor, heading), turned(call[:, 0], call[:, 1])[:, None]
    along = paddle.mod(goal - start, paddle.full_like(start, N_RING))
    steps = paddle.where(heading == 0, paddle.abs(floor - call[:, :1]), along)
    on_ring = paddle.arange(N_RING)
    from_lift = paddle.mod(on_ring - start[:, :, None], paddle.full([1], N_RING, dtype="int64"))
    passed = paddle.logical_and(from_lift > 0, from_lift < along[:, :, None])
    return steps, passed, start, goal


def run_network(p, cars, stops, hall, call, hour, alive):
    kind = hall.dtype
    steps, passed, start, goal = travel(cars, call)
    seats = F.one_hot(start, N_RING).astype(kind)

    free = ((1 - cars[:, :, 2]) * alive)[:, None]
    crowd = paddle.bmm(free, seats)
    planned = paddle.bmm(alive[:, None], stops)
    ring = F.silu(convolve(p, "near", paddle.concat([hall[:, None], crowd, planned], axis=1)))
    ring = ring + F.silu(convolve(p, "far", ring))

    pace, dwell = F.softplus(p.pace), F.softplus(p.dwell)
    eta = pace * steps.astype(kind) + dwell * (stops * passed.astype(kind)).sum(-1)

    by_lift = paddle.einsum("bcr,bwr->bcw", seats, ring)
    by_call = paddle.einsum("bcr,bwr->bcw", F.one_hot(goal, N_RING).astype(kind), ring).expand_as(by_lift)
    height = paddle.cos(cars[:, :, :1] * (math.pi / N_FLOORS))
    about = paddle.concat([cars[:, :, 2:], paddle.log1p(eta)[:, :, None], height, by_lift, by_call], axis=-1)
    lift = F.tanh(linear(p, "lift", about))

    other = alive[:, None, :] * (1 - paddle.eye(N_LIFTS, dtype=kind))
    other = other / paddle.clip(other.sum(-1, keepdim=True), min=1.0)
    lift = F.tanh(lift + linear(p, "company", paddle.bmm(other, lift)))

    rush = bell(p, "rush", [8.5, 12.5, 17.5], 1.2, hour)
    liking = linear(p, "liking", lift).squeeze(-1) * paddle.exp(rush)[:, None] - 0.1 * eta
    liking = paddle.where(alive > 0, liking, paddle.full_like(liking, -1e9))

    odds = F.softmax(liking).detach()
    calm = bell(p, "calm", [10.5, 15.0, 21.0], 2.0, hour)[:, None]
    scene = paddle.concat([paddle.bmm(odds[:, None], lift).squeeze(1), ring.mean(axis=-1), calm], axis=-1)
    worth = linear(p, "worth", F.tanh(linear(p, "scene", scene)))
    return dict(logits=liking, value=worth[:, 0], eta=eta)


def build_model(width=12, hidden=24):
    layer, put, matrix, kernel = owner()
    kernel("near", 3, width, 5)
    kernel("far", width, width, 5)
    matrix("lift", 5 + 2 * width, hidden)
    matrix("company", hidden, hidden, gain=1.0, bias=False)
    matrix("liking", hidden, 1, gain=0.3, bias=False)
    matrix("scene", hidden + width + 1, 16)
    matrix("worth", 16, 1, gain=1.0)
    put("pace", [1], Constant(-1.0))
    put("dwell", [1], Constant(0.0))
    put("rush", [3], Normal(0.0, 0.1))
    put("calm", [3], Normal(0.0, 0.1))
    return Policy(layer)


class Policy(nn.Layer):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, cars, stops, hall, call, hour, alive):
        return run_network(self.weights, cars, stops, hall, call, hour, alive)


# ------------------------------------------------------------------------------------------------ PPO


def of_choice(logits, choice):
    every = F.log_softmax(logits, axis=-1)
    return every, paddle.take_along_axis(every, choice.astype("int64")[:, None], axis=1)[:, 0]


def loss(outputs, labels):
    choice, before, gain, target, judged = paddle.unbind(labels, axis=1)
    every, now = of_choice(outputs["logits"], choice)
    gain = (gain - gain.mean()) / (paddle.std(gain) + 1e-6)
    ratio = paddle.exp(now - before)
    held = paddle.clip(ratio, 1 - HYPER["clip"], 1 + HYPER["clip"])
    surrogate = paddle.minimum(gain * ratio, gain * held)
    value = outputs["value"]
    step = paddle.clip(value - judged, -HYPER["value_clip"], HYPER["value_clip"])
    wrong = paddle.maximum(paddle.square(value - target), paddle.square(judged + step - target))
    disorder = -paddle.einsum("bc,bc->b", F.softmax(outputs["logits"], axis=-1), every)
    return 0.5 * HYPER["value"] * wrong.mean() - surrogate.mean() - HYPER["entropy"] * disorder.mean()


def metric(outputs, labels):
    choice, before, _, target, _ = paddle.unbind(labels, axis=1)
    every, now = of_choice(outputs["logits"], choice)
    change = now - before
    left = paddle.var(target - outputs["value"])
    picked = paddle.argmax(outputs["logits"], axis=-1)
    return dict(
        kl=(paddle.expm1(change) - change).mean(),
        explained=1 - left / paddle.var(target),
        same=(picked == choice.astype("int64")).astype("float32").mean(),
        seconds=4.0 * (paddle.exp(every) * outputs["eta"]).sum(-1).mean(),
    )


def build_optimizer(model):
    inner = model.weights
    judging = [p for n, p in inner.named_parameters() if n.split("_")[0] in ("scene", "worth", "calm")]
    acting = [p for n, p in inner.named_parameters() if n.split("_")[0] not in ("scene", "worth", "calm")]
    rate = paddle.optimizer.lr.LinearLR(learning_rate=3e-3, total_steps=32, start_factor=1.0, end_factor=0.1)
    groups = [{"params": acting}, {"params": judging, "learning_rate": 2.0}]
    return paddle.optimizer.Adam(rate, beta1=0.9, beta2=0.98, epsilon=1e-5, parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    seen = {k: batch[k] for k in OBSERVED}
    value = loss(model(**seen), batch["labels"])
    optimizer.clear_grad()
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    optimizer.step()
    return dict(loss=value.detach(), norm=norm)


build_dataset = Recorded
build_dataloader = lambda split: DataLoader(Recorded(split), batch_size=12, shuffle=False, drop_last=False)


def predict(path, model):
    kind = model.weights.pace.dtype
    one = {k: paddle.to_tensor(v[None]) for k, v in snapshot(json.loads(Path(path).read_text())).items()}
    one = {k: v if k == "call" else v.astype(kind) for k, v in one.items()}
    with paddle.no_grad():
        out = model(**one)
    odds = F.softmax(out["logits"], axis=-1).numpy()[0]
    return dict(chances=odds, car=int(odds.argmax()), value=out["value"].numpy()[0])
