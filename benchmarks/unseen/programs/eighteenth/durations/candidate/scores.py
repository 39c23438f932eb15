"""Evaluation in numpy."""
import numpy as np

from .network import CUTS


def harrell(risk, time, event):
    earlier = time[:, None] < time[None, :]
    same_but_censored = (time[:, None] == time[None, :]) & (event[None, :] == 0)
    usable = (earlier | same_but_censored) & (event[:, None] > 0)
    margin = risk[:, None] - risk[None, :]
    points = np.where(margin > 1e-6, 1.0, np.where(margin < -1e-6, 0.0, 0.5))
    return float(points[usable].sum() / usable.sum())


class CensoringCurve:
    """Kaplan-Meier curve of the censoring times; at equal times events leave first."""

    def __init__(self, time, event, floor=0.05):
        self.times = np.unique(time[event == 0])
        lost = np.array([np.sum((time == t) & (event == 0)) for t in self.times])
        at_risk = np.array([np.sum(time > t) for t in self.times]) + lost
        self.curve = np.concatenate([[1.0], np.cumprod(1.0 - lost / at_risk)])
        self.floor = floor

    def __call__(self, t, before=False):
        position = np.searchsorted(self.times, t, side="left" if before else "right")
        return np.maximum(self.curve[position], self.floor)


def integrated_brier(hazard, time, event):
    survival = np.cumprod(1.0 / (1.0 + np.exp(hazard)), axis=1)
    kept = CensoringCurve(time, event)
    own = kept(time, before=True)
    grid = np.array(CUTS[:-1])
    values = []
    for s, cut in zip(survival.T, grid):
        gone = (time <= cut) & (event > 0)
        values.append(np.mean(np.where(gone, s ** 2 / own, 0.0) + np.where(time > cut, (1 - s) ** 2 / kept(cut), 0.0)))
    return float(np.trapezoid(values, grid) / (grid[-1] - grid[0]))


def report(outputs, target):
    target = target.numpy()
    time, event = target[:, 0].astype("float64"), target[:, 1]
    return {"concordance": harrell(outputs["risk"].numpy(), time, event),
            "integrated_brier": integrated_brier(outputs["hazard"].numpy().astype("float64"), time, event)}
