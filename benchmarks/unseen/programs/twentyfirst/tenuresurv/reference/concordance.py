import numpy as np


def harrell(risk, time, event):
    """Concordant share of comparable pairs; equal risks count one half."""
    num = den = 0.0
    for i in np.flatnonzero(event == 1):
        later = (time > time[i]) | ((time == time[i]) & (event == 0))
        den += later.sum()
        num += (risk[i] > risk[later]).sum() + 0.5 * (risk[i] == risk[later]).sum()
    return num / den if den else 0.5


def censoring_curve(time, event):
    """Kaplan-Meier of the censoring times: sorted times and the curve after each; leavers go first at a tie."""
    times = np.unique(time)
    g, curve = 1.0, []
    for t in times:
        at_risk = (time >= t).sum() - ((time == t) & (event == 1)).sum()
        censored = ((time == t) & (event == 0)).sum()
        if at_risk > 0:
            g *= 1 - censored / at_risk
        curve.append(g)
    return times, np.array(curve)


def survival(hazard_logits):
    return np.cumprod(1 / (1 + np.exp(np.asarray(hazard_logits, dtype=np.float64))), axis=1)


def brier(prob, time, event, horizon):
    times, curve = censoring_curve(time, event)
    def g(t, before):
        k = np.searchsorted(times, t, side="left" if before else "right")
        return 1.0 if k == 0 else max(curve[k - 1], 1e-3)
    score = 0.0
    for p, t, e in zip(prob, time, event):
        if t <= horizon and e == 1:
            score += p ** 2 / g(t, True)
        elif t > horizon:
            score += (1 - p) ** 2 / g(horizon, False)
    return score / len(prob)


def evaluate(risk, hazard, time, event, cfg):
    column = cfg.edges.index(cfg.horizon)
    alive = survival(hazard)[:, column]
    return {"c_index": harrell(risk, time, event), "brier": brier(alive, time, event, cfg.horizon)}
