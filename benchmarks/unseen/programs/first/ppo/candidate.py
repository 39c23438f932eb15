import paddle
import paddle.nn.functional as F

from agent import Policy
from optim import RMSProp
from storage import Storage

CLIP = 0.2


def build_model():
    return Policy()


def build_dataset(split):
    return Storage(seed={"train": 2}.get(split, 3))


def build_dataloader(split):
    storage = build_dataset(split)
    for start in range(0, len(storage), 16):
        obs, legal, targets = storage.slice(start, start + 16)
        yield obs, legal, targets


def log_prob(logits, action):
    return paddle.take_along_axis(F.log_softmax(logits, axis=1), action.unsqueeze(1), axis=1).squeeze(1)


def loss(out, y):
    logits, value = out
    advantage = y["adv"]
    ratio = (log_prob(logits, y["act"]) - y["logp"]).exp()
    surrogate = paddle.minimum(ratio * advantage, ratio.clip(1 - CLIP, 1 + CLIP) * advantage)
    pg = -surrogate.mean()
    near = y["val"] + (value - y["val"]).clip(-CLIP, CLIP)
    vl = paddle.maximum((value - y["ret"]).square(), (near - y["ret"]).square()).mean() / 2
    logp = F.log_softmax(logits, axis=1)
    entropy = -(logp.exp() * logp).sum(axis=1).mean()
    return {"loss": pg + 0.5 * vl - 0.01 * entropy, "pg": pg, "vl": vl, "entropy": entropy}


def metric(out, y):
    logits, value = out
    change = log_prob(logits, y["act"]) - y["logp"]
    ratio = change.exp()
    clipped = (ratio - 1).abs() > CLIP
    residual = (y["ret"] - value).var()
    return {
        "approx_kl": float((ratio - 1 - change).mean()),
        "clip_frac": float(clipped.astype("float32").mean()),
        "explained_variance": float(1 - residual / y["ret"].var()),
    }


def build_optimizer(model):
    return RMSProp(model.parameters(), 7e-3, rho=0.95, epsilon=1e-5, max_norm=0.5)


class Anneal:
    def __init__(self, optimizer):
        self.optimizer, self.start, self.count = optimizer, optimizer.lr, 0

    def step(self):
        self.count += 1
        self.optimizer.lr = self.start * max(0.1, 1.0 - self.count / 12)


def build_scheduler(optimizer):
    return Anneal(optimizer)
