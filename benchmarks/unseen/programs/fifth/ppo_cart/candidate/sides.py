import numpy as np
import paddle
import paddle.nn.functional as F

from objective import PPOObjective
from policy import Policy
from world import SETTINGS, PodEnv, add_advantages, heuristic, run_episodes

HP = {"gamma": 0.97, "lam": 0.9, "horizon": 96, "lr": 7e-4, "eps": 1e-5, "grad_norm": 0.5, "updates": 20, "floor": 0.1}


def build_model():
    return Policy(obs_dim=5, n_actions=4, width=32, clip=5.0)


def build_loss():
    return PPOObjective(clip=0.2, vf_clip=0.3, vf_coef=0.5, ent_coef=0.01)


def build_optimizer(model):
    return paddle.optimizer.Adam(learning_rate=HP["lr"], epsilon=HP["eps"], parameters=model.parameters(),
                                 grad_clip=paddle.nn.ClipGradByGlobalNorm(HP["grad_norm"]))


def build_scheduler(optimizer):
    def shrink(update):
        return max(HP["floor"], 1.0 - update / HP["updates"])
    schedule = paddle.optimizer.lr.LambdaDecay(HP["lr"], lr_lambda=shrink)
    optimizer.set_lr_scheduler(schedule)
    return schedule


class Transitions(paddle.io.Dataset):
    def __init__(self):
        rows = run_episodes(heuristic, PodEnv(**SETTINGS), HP["horizon"], np.random.RandomState(5))
        self.rows = add_advantages(rows, HP["gamma"], HP["lam"])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        sample = {"obs": row["obs"], "legal": row["legal"], "action": int(row["action"])}
        for key in ("logp", "value", "adv", "ret"):
            sample[key] = np.float32(row[key])
        return sample


def build_dataset():
    return Transitions()


def inputs():
    r = np.random.RandomState(21)
    obs = (r.randn(24, 5) * [1, 1, 4, 4, 0.3] + [0, 0.5, 0, 0, 0.5]).astype("float32")
    legal = np.ones((24, 4), "float32")
    legal[r.rand(24) < 0.3, 3] = 0.0
    return {"obs": obs, "legal": legal}


def labels():
    r = np.random.RandomState(22)
    action = r.randint(0, 3, 24).astype("int64")
    logp = (-1.1 + 0.3 * r.randn(24)).astype("float32")
    value = r.randn(24).astype("float32")
    adv = (1.5 * r.randn(24) + 0.4).astype("float32")
    ret = (r.randn(24) * 1.2).astype("float32")
    return {"action": action, "logp": logp, "value": value, "adv": adv, "ret": ret}


def metric(outputs, labels):
    logp = F.log_softmax(outputs["logits"], axis=-1).numpy()
    value = outputs["value"].numpy()
    taken = np.take_along_axis(logp, labels["action"][:, None], axis=1)[:, 0]
    ratio = np.exp(taken - labels["logp"])
    residual = labels["ret"] - value
    return {"explained_var": float(1.0 - residual.var() / labels["ret"].var()),
            "clip_frac": float((np.abs(ratio - 1.0) > 0.2).mean()),
            "approx_kl": float((ratio - 1.0 - np.log(ratio)).mean()),
            "greedy_agree": float((logp.argmax(1) == labels["action"]).mean()),
            "entropy": float(-(np.exp(logp) * logp).sum(1).mean())}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
