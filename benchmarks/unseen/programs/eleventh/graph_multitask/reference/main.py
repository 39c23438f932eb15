import torch

from graphs import GraphSet, loader
from network import MultiTaskGraphNet
from tasks import losses, metrics

LR, MOMENTUM, DECAY = 0.02, 0.9, 1e-2
UPDATES, POWER = 40, 1.5
CLIP_VALUE, CLIP_NORM = 0.4, 1.0


def build_model():
    return MultiTaskGraphNet()


def build_dataset(split):
    return GraphSet(split)


def build_dataloader(split):
    return loader(split)


def loss(outputs, labels):
    return losses(outputs, labels)


def metric(outputs, labels):
    return metrics(outputs, labels)


def build_optimizer(model):
    def kind(name, p):
        if name == "log_variance":
            return "variance"
        return "decay" if p.ndim == 2 and not name.startswith(("atom", "bond")) else "plain"

    sets = {"variance": [], "decay": [], "plain": []}
    for name, p in model.named_parameters():
        sets[kind(name, p)].append(p)
    return torch.optim.SGD(
        [
            {"params": sets["decay"], "weight_decay": DECAY},
            {"params": sets["plain"]},
            {"params": sets["variance"], "lr": LR * 0.25},
        ],
        lr=LR,
        momentum=MOMENTUM,
        nesterov=True,
    )


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=UPDATES, power=POWER)


def train_step(model, optimizer, batch):
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    parts = losses(model(**inputs), batch["labels"])
    optimizer.zero_grad()
    parts["loss"].backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), CLIP_VALUE)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()
    return {"loss": parts["loss"].detach(), "norm": norm}
