import numpy as np
import torch

from ppo import CFG
from ppo.agent import ActorCritic
from ppo.env import Lander
from ppo.losses import ppo_loss
from ppo.rollout import collect, gae, scripted


class ClippedAdam(torch.optim.Adam):
    def __init__(self, params, max_norm, **kw):
        super().__init__(params, **kw)
        self.max_norm = max_norm

    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], self.max_norm)
        return super().step(closure)


def build_model():
    return ActorCritic(**CFG["model"])


def build_loss():
    return lambda outputs, batch: ppo_loss(outputs, batch, CFG["ppo"])


def build_optimizer(model):
    o = CFG["optim"]
    return ClippedAdam(model.parameters(), o["max_grad_norm"], lr=o["lr"], eps=o["eps"])


def build_scheduler(optimizer):
    o = CFG["optim"]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: max(o["lr_floor"], 1.0 - u / o["updates"]))


class RolloutDataset(torch.utils.data.Dataset):
    def __init__(self):
        p = CFG["ppo"]
        self.b = collect(scripted, Lander(CFG["env"]), p["rollout"], np.random.RandomState(5))
        self.b["adv"], self.b["ret"] = gae(self.b, p["gamma"], p["lam"])

    def __len__(self):
        return len(self.b["reward"])

    def __getitem__(self, i):
        b = self.b
        return {"obs": b["obs"][i], "legal": b["legal"][i], "action": int(b["action"][i]),
                **{k: np.float32(b[k][i]) for k in ("logp", "value", "adv", "ret")}}


def build_dataset():
    return RolloutDataset()


def inputs():
    r = np.random.RandomState(21)
    obs = (r.randn(24, 5) * [1, 1, 4, 4, 0.3] + [0, 0.5, 0, 0, 0.5]).astype(np.float32)
    legal = np.ones((24, 4), np.float32)
    legal[r.rand(24) < 0.3, 3] = 0.0
    return {"obs": obs, "legal": legal}


def labels():
    r = np.random.RandomState(22)
    return {"action": r.randint(0, 3, 24).astype(np.int64), "logp": (-1.1 + 0.3 * r.randn(24)).astype(np.float32),
            "value": r.randn(24).astype(np.float32), "adv": (1.5 * r.randn(24) + 0.4).astype(np.float32),
            "ret": (r.randn(24) * 1.2).astype(np.float32)}


def metric(outputs, labels):
    lp = torch.log_softmax(outputs["logits"], -1).numpy()
    v = outputs["value"].numpy()
    ratio = np.exp(lp[np.arange(len(v)), labels["action"]] - labels["logp"])
    ret = labels["ret"]
    return {"explained_var": float(1 - np.var(ret - v) / np.var(ret)),
            "clip_frac": float(np.mean(np.abs(ratio - 1) > CFG["ppo"]["clip"])),
            "approx_kl": float(np.mean((ratio - 1) - np.log(ratio))),
            "greedy_agree": float(np.mean(lp.argmax(-1) == labels["action"])),
            "entropy": float(-np.mean(np.sum(np.exp(lp) * lp, -1)))}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
