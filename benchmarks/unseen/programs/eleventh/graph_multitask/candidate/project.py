import paddle
from paddle.optimizer.lr import PolynomialDecay

from gnn import GraphTasks
from graph_data import CONF, Molecules, batches
from objectives import assess, combine


def build_model():
    return GraphTasks(**CONF["net"])


def build_dataset(split):
    return Molecules(split)


def build_dataloader(split):
    return batches(split)


def loss(outputs, labels):
    return combine(outputs, labels)


def metric(outputs, labels):
    return assess(outputs, labels)


def build_optimizer(model):
    conf = CONF["optimizer"]
    tables = ("atom_table.weight", "bond_table.weight")
    decayed, free = [], []
    for name, p in model.named_parameters():
        if name == "uncertainty":
            continue
        (decayed if p.ndim > 1 and name not in tables else free).append(p)
    schedule = PolynomialDecay(conf["lr"], end_lr=0.0, **CONF["schedule"])
    return paddle.optimizer.Momentum(
        learning_rate=schedule,
        momentum=conf["momentum"],
        use_nesterov=True,
        parameters=[
            {"params": decayed, "weight_decay": conf["l2"]},
            {"params": free},
            {"params": [model.uncertainty], "learning_rate": conf["variance_factor"]},
        ],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def limit_gradients(parameters, value, norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    with paddle.no_grad():
        for g in grads:
            g.set_value(paddle.clip(g, -value, value))
        total = paddle.sqrt(sum(paddle.sum(g * g) for g in grads))
        factor = paddle.clip(norm / (total + 1e-6), max=1.0)
        for g in grads:
            g.set_value(g * factor)
    return total


def train_step(model, optimizer, batch):
    labels = batch["labels"]
    outputs = model(**{name: value for name, value in batch.items() if name != "labels"})
    value = combine(outputs, labels)["loss"]
    value.backward()
    total = limit_gradients(model.parameters(), **CONF["clip"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value.detach(), "norm": total}
