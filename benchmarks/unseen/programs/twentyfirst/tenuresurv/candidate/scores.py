"""Figures of a survival model, in numpy."""
import numpy as np
from scipy.special import expit


def curves(hazard_logits):
    return np.cumprod(1.0 - expit(np.asarray(hazard_logits, "float64")), axis=-1)


def c_index(risk, time, event):
    died = event.astype(bool)
    outlives = (time[None, :] > time[:, None]) | ((time[None, :] == time[:, None]) & ~died[None, :])
    comparable = outlives & died[:, None]
    if not comparable.any():
        return 0.5
    gap = risk[:, None] - risk[None, :]
    return float(((gap > 0) + 0.5 * (gap == 0))[comparable].mean())


class Censoring:
    """Kaplan-Meier curve of staying under observation."""

    def __init__(self, time, event):
        self.time = np.unique(time)
        present = (time[None] >= self.time[:, None]).sum(1)
        same = time[None] == self.time[:, None]
        leavers = (same & (event == 1)).sum(1)
        lost = (same & (event == 0)).sum(1)
        base = present - leavers
        self.curve = np.cumprod(1 - lost / np.maximum(base, 1))

    def at(self, t):
        return self._value(np.searchsorted(self.time, t, side="right"))

    def before(self, t):
        return self._value(np.searchsorted(self.time, t, side="left"))

    def _value(self, k):
        padded = np.concatenate([[1.0], np.maximum(self.curve, 1e-3)])
        return padded[k]


def brier_score(alive, time, event, horizon):
    km = Censoring(time, event)
    gone = (time <= horizon) & (event == 1)
    here = time > horizon
    terms = gone * alive ** 2 / km.before(time) + here * (1 - alive) ** 2 / km.at(horizon)
    return float(terms.mean())
