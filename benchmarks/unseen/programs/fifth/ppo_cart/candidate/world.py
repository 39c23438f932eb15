"""Environment and sample collection (numpy only)."""
import numpy as np

SETTINGS = dict(seed=11, max_steps=10, gravity=0.03, thrust=0.09, noise=0.02)


class PodEnv:
    def __init__(self, seed, max_steps, gravity, thrust, noise):
        self.max_steps, self.g, self.power, self.sigma = max_steps, gravity, thrust, noise
        self._rng = np.random.RandomState(seed)

    def reset(self):
        x = self._rng.uniform(-0.8, 0.8)
        vx = self._rng.uniform(-0.05, 0.05)
        self.pos = np.array([x, 1.0])
        self.vel = np.array([vx, 0.0])
        self.fuel = 1.0
        self.elapsed = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.vel * 10.0, [self.fuel]]).astype("float32")

    @property
    def legal(self):
        mask = np.ones(4, dtype="float32")
        if self.fuel <= 0.05:
            mask[3] = 0.0
        return mask

    def step(self, action):
        if action in (1, 2):
            sign = -1.0 if action == 1 else 1.0
            self.vel[0] += sign * self.power * 0.5
        elif action == 3 and self.fuel > 0.05:
            self.vel[1] += self.power
            self.fuel -= 0.1
        self.vel += np.array([self.sigma * self._rng.randn(), -self.g])
        self.pos += self.vel
        self.elapsed += 1
        out_of_bounds = abs(self.pos[0]) > 1.0
        touched = self.pos[1] <= 0.0
        reward = -0.05 * np.sqrt(self.pos[0] ** 2 + self.vel[0] ** 2)
        reward += (1.0 - min(1.0, abs(self.vel[1]) * 4.0)) if touched else 0.0
        reward -= 1.0 if out_of_bounds else 0.0
        done = bool(out_of_bounds or touched)
        timeout = self.elapsed >= self.max_steps and not done
        return self._obs(), reward, done, timeout


def heuristic(obs, legal, rng):
    x, y, vx, vy = (float(c) for c in obs[:4])
    lean = 1.5 * x + 0.3 * vx
    scores = np.array([0.0, lean, -lean, -vy - y])
    scores[legal < 0.5] = -1e8
    scores -= scores.max()
    logp = scores - np.log(np.sum(np.exp(scores)))
    pick = int((logp + rng.gumbel(size=logp.shape[0])).argmax())
    return pick, float(logp[pick]), 0.6 - 0.5 * abs(x) - 0.1 * abs(vy)


def run_episodes(policy, env, horizon, rng):
    rows, obs = [], env.reset()
    for _ in range(horizon):
        mask = env.legal
        action, logp, value = policy(obs, mask, rng)
        following, reward, done, timeout = env.step(action)
        next_value = policy(following, env.legal, np.random.RandomState(0))[2]
        rows.append(dict(obs=obs, legal=mask, action=action, logp=logp, value=value, reward=reward,
                         done=done, timeout=timeout, next_value=next_value))
        obs = env.reset() if done or timeout else following
    return rows


def add_advantages(rows, gamma, lam):
    trace = 0.0
    for row in rows[::-1]:
        alive = 0.0 if row["done"] else 1.0
        td = row["reward"] + gamma * alive * row["next_value"] - row["value"]
        if row["done"] or row["timeout"]:
            trace = 0.0
        trace = td + gamma * lam * trace
        row["adv"] = trace
        row["ret"] = trace + row["value"]
    return rows
