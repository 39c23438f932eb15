"""Decision transformer on logged trajectories: python train_dt.py"""

from torch.utils.data import DataLoader

from dt.config import settings
from dt.groups import layerwise_groups, polynomial_schedule
from dt.lamb import Lamb
from dt.objective import policy_loss, policy_metric
from dt.policy import DecisionTransformer
from dt.rollout import act, read_probe
from dt.trajectories import ACTION, STATE, ReturnSampler, TrajectoryWindows


def build_model():
    return DecisionTransformer(len(STATE), len(ACTION), settings.model)


def build_dataset(split):
    return TrajectoryWindows(split, settings.data)


def build_dataloader(split):
    d = settings.data
    dataset = build_dataset(split)
    sampler = ReturnSampler(dataset, d.draws, d.seed) if split == "train" else None
    return DataLoader(dataset, batch_size=d.batch_size, sampler=sampler)


def loss(outputs, target):
    return policy_loss(outputs, target, settings.loss)


def metric(outputs, target):
    return policy_metric(outputs, target)


def build_optimizer(model):
    o = settings.optimizer
    return Lamb(
        layerwise_groups(model, o),
        lr=o.lr,
        betas=(o.beta1, o.beta2),
        eps=o.eps,
        max_grad_norm=o.max_grad_norm,
        max_weight_norm=o.max_weight_norm,
    )


def build_scheduler(optimizer):
    return polynomial_schedule(optimizer, settings.schedule)


def predict(path, model):
    actions, returns = act(model, *read_probe(path), settings.data)
    return {"actions": actions, "returns": returns}


def main(epochs=8):
    model, loader = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    for epoch in range(epochs):
        for *inputs, target in loader:
            optimizer.zero_grad()
            losses = loss(model(*inputs), target)
            losses["loss"].backward()
            optimizer.step()
            scheduler.step()
        print(epoch, {name: round(value.item(), 4) for name, value in losses.items()})
    return model


if __name__ == "__main__":
    main()
