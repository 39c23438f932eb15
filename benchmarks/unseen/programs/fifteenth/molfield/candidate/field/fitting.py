import paddle
import paddle.nn.functional as F

from . import constants as C
from .molecules import scale
from .ops import huber


def objective(outputs, labels):
    atoms = labels["sizes"].astype(outputs["energy"].dtype)
    energy = huber(outputs["energy"] / atoms, labels["energy"] / atoms, C.DELTAS["energy"])
    forces = huber(outputs["forces"], labels["forces"], C.DELTAS["forces"])
    return C.WEIGHTS["energy"] * energy + C.WEIGHTS["forces"] * forces


@paddle.no_grad()
def errors(outputs, labels):
    _, std = scale()
    atoms = labels["sizes"].astype("float64")
    energy = (outputs["energy"] - labels["energy"]).astype("float64") / atoms
    forces = (outputs["forces"] - labels["forces"]).astype("float64") * std
    alike = F.cosine_similarity(outputs["forces"], labels["forces"], axis=-1)
    return {
        "energy_mae": float(energy.abs().mean()) * std,
        "force_mae": float(forces.abs().mean()),
        "force_rmse": float(forces.square().sum(axis=-1).mean().sqrt()),
        "force_cos": float(alike.mean()),
    }


def momentum(model):
    tables = [model.kinds.weight, model.base.weight]
    known = {p.name for p in tables}
    rest = [p for p in model.parameters() if p.name not in known]
    matrices = [p for p in rest if p.ndim > 1]
    vectors = [p for p in rest if p.ndim == 1]
    return paddle.optimizer.Momentum(
        learning_rate=C.RATE,
        momentum=C.MOMENTUM,
        use_nesterov=True,
        parameters=[
            {"params": vectors},
            {"params": matrices, "weight_decay": C.L2},
            {"params": tables, "learning_rate": C.TABLE_RATE},
        ],
    )


def per_epoch(optimizer):
    rates = paddle.optimizer.lr.ExponentialDecay(C.RATE, gamma=C.RATE_PER_EPOCH)
    optimizer.set_lr_scheduler(rates)
    return rates


class Average:
    def __init__(self, model, decay, delay, every):
        self.decay, self.delay, self.every = decay, delay, every
        self.count = 0
        self.values = [p.detach().clone() for p in model.parameters()]

    def blend(self, model):
        self.count += 1
        keep = min(self.decay, self.count / (self.count + self.delay))
        parameters = model.parameters()
        with paddle.no_grad():
            self.values = [
                keep * old + (1.0 - keep) * new
                for old, new in zip(self.values, parameters)
            ]
            if self.count % self.every == 0:
                for parameter, value in zip(parameters, self.values):
                    parameter.set_value(value)


def fit_batch(model, optimizer, batch):
    if getattr(model, "average", None) is None:
        model.average = Average(model, **C.AVERAGE)
    model.train()
    graph, labels = batch
    cost = objective(model(graph), labels)
    cost.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), max_norm=C.MAX_NORM)
    optimizer.step()
    optimizer.clear_grad()
    model.average.blend(model)
    return float(cost)
