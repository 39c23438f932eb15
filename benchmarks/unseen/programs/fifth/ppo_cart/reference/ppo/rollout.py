import numpy as np


def collect(act, env, n, rng):
    keys = ("obs", "legal", "action", "logp", "value", "reward", "terminated", "truncated", "next_value")
    store = {k: [] for k in keys}
    obs = env.reset()
    for _ in range(n):
        legal = env.legal()
        a, logp, v = act(obs, legal, rng)
        nxt, r, term, trunc = env.step(a)
        _, _, nv = act(nxt, env.legal(), np.random.RandomState(0))
        for k, val in zip(keys, (obs, legal, a, logp, v, r, term, trunc, nv)):
            store[k].append(val)
        obs = env.reset() if (term or trunc) else nxt
    return {k: np.asarray(v) for k, v in store.items()}


def gae(batch, gamma, lam):
    n = len(batch["reward"])
    adv = np.zeros(n)
    last = 0.0
    for t in reversed(range(n)):
        # a time limit is not the end of the world: bootstrap through it, but cut the trace
        nonterm = 1.0 - float(batch["terminated"][t])
        cont = nonterm * (1.0 - float(batch["truncated"][t]))
        delta = batch["reward"][t] + gamma * batch["next_value"][t] * nonterm - batch["value"][t]
        last = delta + gamma * lam * cont * last
        adv[t] = last
    return adv, adv + batch["value"]


def scripted(obs, legal, rng):
    """behaviour policy for warm-up data: softmax over hand-set preferences"""
    x, y, vx, vy, fuel = [float(v) for v in obs]
    pref = np.array([0.0, 1.5 * x + 0.3 * vx, -1.5 * x - 0.3 * vx, -vy - y])
    pref = np.where(legal > 0.5, pref, -1e8)
    logp = pref - pref.max()
    logp = logp - np.log(np.exp(logp).sum())
    a = int(np.argmax(logp + rng.gumbel(size=4)))
    return a, float(logp[a]), 0.6 - 0.5 * abs(x) - 0.1 * abs(vy)
