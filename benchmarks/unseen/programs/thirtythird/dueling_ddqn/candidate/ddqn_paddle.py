"""Offline dueling DDQN, Paddle."""
import json
import pathlib
from types import SimpleNamespace

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset, WeightedRandomSampler
from paddle.nn import functional as F
from paddle.nn import initializer as I

DATA = pathlib.Path(__file__).parent.parent / "data"
HP = SimpleNamespace(state=6, actions=4, hidden=48, discount=0.95, horizon=3, polyak=0.98,
                     lr=0.002, batch_size=9, updates=14, priority=0.6)


def n_step(rew, end, horizon, g):
    """Vectorised over the memory: returns, index of the bootstrap state, its discount."""
    n = len(rew)
    ret, alive, pos = np.zeros(n), np.ones(n, bool), np.arange(n)
    for k in range(horizon):
        here = np.minimum(pos, n - 1)
        ret += np.where(alive, g ** k * rew[here].astype("float64"), 0.0)
        alive &= ~end[here]
        pos = pos + alive
    return ret.astype("float32"), pos, np.where(alive, g ** horizon, 0.0).astype("float32")


class Memory(Dataset):
    def __init__(self, file):
        arrays = dict(np.load(file))
        self.states, self.actions, self.rewards = (arrays[k] for k in ("obs", "act", "rew"))
        self.returns, self.boot, self.discounts = n_step(arrays["rew"], arrays["end"], HP.horizon, HP.discount)

    def __len__(self):
        return self.states.shape[0]

    def __getitem__(self, i):
        target = dict(action=self.actions[i], ret=self.returns[i], disc=self.discounts[i])
        return self.states[i], self.states[self.boot[i]], target


class MLP(nn.Sequential):
    def __init__(self, *dims, last_gain=None):
        mods = []
        for k, (a, b) in enumerate(zip(dims, dims[1:])):
            final = last_gain is not None and k == len(dims) - 2
            init = I.Orthogonal(gain=last_gain if final else 2.0 ** 0.5)
            mods.append(nn.Linear(a, b, weight_attr=init))      # zero bias is Paddle's own default
            if not final:
                mods.append(nn.ELU())
        super().__init__(*mods)


class QNet(nn.Layer):
    def __init__(self):
        super().__init__()
        h = HP.hidden
        self.adv = MLP(h, h // 2, HP.actions, last_gain=0.01)
        self.val = MLP(h, h // 2, 1, last_gain=1.0)
        self.trunk = MLP(HP.state, h, h)

    def forward(self, s):
        z = self.trunk(s)
        adv = self.adv(z)
        return adv + (self.val(z) - adv.mean(axis=-1, keepdim=True))


class DDQN(nn.Layer):
    def __init__(self, loc, scale):
        super().__init__()
        self.lagged = QNet()
        self.net = QNet()
        for p in self.lagged.parameters():
            p.stop_gradient = True
        self.lagged.set_state_dict(self.net.state_dict())
        self.register_buffer("loc", paddle.to_tensor(loc))
        self.register_buffer("scale", paddle.to_tensor(scale))

    def whiten(self, s):
        return paddle.clip((s - self.loc) / (self.scale + 1e-6), min=-4.0, max=4.0)

    def forward(self, state, after):
        both = self.net(self.whiten(paddle.concat([state, after])))
        q, q_after = paddle.split(both, 2)
        with paddle.no_grad():
            choice = F.one_hot(paddle.argmax(q_after, axis=-1), HP.actions)
            boot = (self.lagged(self.whiten(after)) * choice).sum(axis=-1)
        return {"boot": boot.detach(), "q": q}

    @paddle.no_grad()
    def track(self):
        src = self.net.state_dict()
        for k, v in self.lagged.state_dict().items():
            v.set_value(HP.polyak * v + (1.0 - HP.polyak) * src[k])


def build_dataset(split):
    return Memory(DATA / f"{split}.npz")


def build_model():
    s = build_dataset("train").states
    return DDQN(s.mean(0, dtype="float64").astype("float32"), s.std(0, ddof=1, dtype="float64").astype("float32"))


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        prio = np.power(np.abs(data.rewards) + 0.05, HP.priority)
        sampler = WeightedRandomSampler(prio, num_samples=HP.batch_size * HP.updates, replacement=True)
        return DataLoader(data, batch_sampler=BatchSampler(sampler=sampler, batch_size=HP.batch_size))
    return DataLoader(data, batch_size=HP.batch_size)


def taken(outputs, labels):
    q = paddle.take_along_axis(outputs["q"], labels["action"][:, None], axis=1)[:, 0]
    return q, labels["ret"] + labels["disc"] * outputs["boot"]


def loss(outputs, labels):
    q, goal = taken(outputs, labels)
    err = (q - goal).abs()
    inner = paddle.clip(err, max=0.5)
    huber = (0.5 * inner ** 2 + 0.5 * (err - inner)).mean()
    # the conservative gap is the cross-entropy of the logged action
    gap = F.cross_entropy(outputs["q"], labels["action"])
    return {"loss": huber + 0.1 * gap, "huber": huber, "gap": gap}


def metric(outputs, labels):
    q, goal = (t.numpy() for t in taken(outputs, labels))
    table = outputs["q"].numpy()
    return {"q_max": float(table.max()), "td_mae": float(np.abs(q - goal).mean()),
            "agree": float((table.argmax(-1) == labels["action"].numpy()).mean())}


def build_optimizer(model):
    decay = paddle.optimizer.lr.PolynomialDecay(HP.lr, decay_steps=90, end_lr=0.1 * HP.lr, power=1.0)
    return paddle.optimizer.Adam(decay, epsilon=1e-5, parameters=model.net.parameters(),
                                 grad_clip=nn.ClipGradByValue(0.05))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    model.train()
    terms = loss(model(*inputs), labels)
    terms["loss"].backward()
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    model.track()
    return {name: float(t) for name, t in terms.items()}


def predict(path, model):
    d = json.loads(pathlib.Path(path).read_text())
    model.eval()
    with paddle.no_grad():
        q = model.net(model.whiten(paddle.to_tensor(d["obs"], dtype="float32"))).numpy()
    legal = np.array(d["legal"])
    legal = legal | ~legal.any(axis=1, keepdims=True)
    return {"action": np.where(legal, q, -np.inf).argmax(1), "q": q}
