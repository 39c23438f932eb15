import re

import numpy as np
import paddle

from burgers import CFG, criteria, fit, pde_data
from burgers.operator import Operator


def build_model():
    return Operator()


def build_dataset(split):
    return pde_data.Steps(split)


def build_dataloader(split):
    data, order = pde_data.batches(split)
    return paddle.io.DataLoader(data, batch_sampler=order)


def loss(outputs, labels):
    return criteria.one_step(outputs, labels["next"])


def metric(outputs, labels):
    return criteria.scores(outputs, labels)


def build_optimizer(model):
    return fit.adam(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    u, nu, labels = batch
    return fit.update(model, optimizer, u, nu, labels)


@paddle.no_grad()
def predict(path, model):
    text = open(path).read()
    nu = float(re.search(r"viscosity\s*=\s*(\S+)", text).group(1))
    table = np.array([line.split() for line in text.splitlines() if not line.startswith("#")], dtype="float64")
    n = pde_data.SCALING.source[0].size
    dtype = model.lift.weight.dtype
    start = paddle.to_tensor(table[:: len(table) // n, 1]).astype(dtype).unsqueeze(0)
    scaled = paddle.to_tensor([float(pde_data.SCALING.pack_nu(nu))], dtype="float64").astype(dtype)
    states = fit.march(model, start, scaled, CFG["report"]["steps"])
    return {
        "states": states.numpy(),
        "energy": (0.5 * states.square().mean(axis=1)).numpy(),
        "front": criteria.slope(states).argmin(axis=1).numpy() / n,
    }
