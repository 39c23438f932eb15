import numpy as np
from paddle.io import Dataset

FEATURES, ACTIONS, STEPS, ENVS = 7, 4, 10, 4


def record(seed):
    rng = np.random.RandomState(seed)
    scale, shift = np.linspace(0.5, 4, FEATURES), np.linspace(-2, 3, FEATURES)
    obs = rng.randn(STEPS, ENVS, FEATURES) * scale + shift
    act = rng.randint(0, ACTIONS, (STEPS, ENVS))
    legal = rng.rand(STEPS, ENVS, ACTIONS) < 0.8
    legal |= np.eye(ACTIONS, dtype=bool)[rng.randint(0, ACTIONS, (STEPS, ENVS))]
    reward = 3 * rng.randn(STEPS, ENVS)
    done = rng.rand(STEPS, ENVS) < 0.15
    value = 0.5 * rng.randn(STEPS + 1, ENVS)
    logp = np.log(0.5 * rng.rand(STEPS, ENVS) + 0.2)
    return obs, act, legal, reward, done, value, logp


def advantages(reward, done, value, gamma=0.97, lam=0.9):
    alive = 1.0 - done.astype("float64")
    delta = np.clip(reward, -5, 5) + gamma * value[1:] * alive - value[:-1]
    out = np.empty_like(delta)
    carry = 0.0
    for t in range(len(delta) - 1, -1, -1):
        carry = delta[t] + gamma * lam * alive[t] * carry
        out[t] = carry
    return out


class Storage(Dataset):
    def __init__(self, seed):
        obs, act, legal, reward, done, value, logp = record(seed)
        chosen = np.take_along_axis(legal, act[..., None], axis=-1)[..., 0]
        act = np.where(chosen, act, np.argmax(legal, axis=-1))
        adv = advantages(reward, done, value)
        ret = adv + value[:-1]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        self.obs = obs.reshape(-1, FEATURES).astype("float32")
        self.legal = legal.reshape(-1, ACTIONS)
        columns = {"adv": adv, "ret": ret, "val": value[:-1], "logp": logp}
        self.targets = {k: v.reshape(-1).astype("float32") for k, v in columns.items()}
        self.targets["act"] = act.reshape(-1).astype("int64")

    def __len__(self):
        return STEPS * ENVS

    def slice(self, start, stop):
        s = np.s_[start:stop]
        return self.obs[s], self.legal[s], {k: v[s] for k, v in self.targets.items()}

    def __getitem__(self, i):
        return (self.obs[i], self.legal[i]), {k: v[i] for k, v in self.targets.items()}
