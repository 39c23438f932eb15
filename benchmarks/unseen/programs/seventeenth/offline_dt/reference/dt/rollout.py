import csv

import numpy as np
import torch

from .trajectories import STATE, pad_left, state_statistics


def read_probe(path):
    with open(path, newline="") as f:
        target = float(f.readline().split(":")[1])
        rows = list(csv.DictReader(f))
    return target, np.array([[float(r[k]) for k in STATE] for r in rows]), [float(r["reward"]) for r in rows]


@torch.no_grad()
def act(model, target, states, rewards, d):
    """The actions that the policy takes along the recorded states, asked for a return."""
    mean, std = state_statistics(d.state_eps)
    states = (states - mean) / std
    returns, actions = [target / d.return_scale], []
    like = next(model.parameters())
    for t in range(len(states)):
        start = max(0, t + 1 - d.context)
        taken = np.array(actions[start:t] + [[0.0, 0.0]])  # the action to come is not known yet
        parts = (
            pad_left(states[start : t + 1], d.context),
            pad_left(taken, d.context, d.action_pad),
            pad_left(np.array(returns[start:])[:, None], d.context),
            pad_left(np.arange(start, t + 1), d.context, 0),
            pad_left(np.ones(t + 1 - start), d.context),
        )
        tensors = [torch.from_numpy(part)[None] for part in parts]
        tensors = [x.to(like.dtype) if x.is_floating_point() else x for x in tensors]
        actions.append(model(*tensors)["actions"][0, -1].tolist())
        returns.append((returns[-1] - rewards[t] / d.return_scale) / d.discount)
    return np.array(actions), np.array(returns[:-1])
