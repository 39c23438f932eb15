import math
import numpy as np


class Lander:
    """A pod between two walls: 0 = idle, 1 = left, 2 = right, 3 = up (only with fuel)."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.RandomState(cfg["seed"])

    def reset(self):
        self.x, self.y = self.rng.uniform(-0.8, 0.8), 1.0
        self.vx, self.vy = self.rng.uniform(-0.05, 0.05), 0.0
        self.fuel, self.t = 1.0, 0
        return self.observe()

    def observe(self):
        return np.array([self.x, self.y, self.vx * 10.0, self.vy * 10.0, self.fuel], dtype=np.float32)

    def legal(self):
        return np.array([1, 1, 1, 1 if self.fuel > 0.05 else 0], dtype=np.float32)

    def step(self, a):
        c = self.cfg
        if a == 1:
            self.vx -= c["thrust"] * 0.5
        elif a == 2:
            self.vx += c["thrust"] * 0.5
        elif a == 3 and self.fuel > 0.05:
            self.vy += c["thrust"]
            self.fuel -= 0.1
        self.vx += c["noise"] * self.rng.randn()
        self.vy -= c["gravity"]
        self.x += self.vx
        self.y += self.vy
        self.t += 1
        crashed = abs(self.x) > 1.0
        landed = self.y <= 0.0
        reward = -0.05 * math.hypot(self.x, self.vx)
        if landed:
            reward += 1.0 - min(1.0, abs(self.vy) * 4.0)
        if crashed:
            reward -= 1.0
        terminated = crashed or landed
        truncated = (not terminated) and self.t >= c["max_steps"]
        return self.observe(), reward, terminated, truncated
