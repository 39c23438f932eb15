"""Paddle port: entry points for training, evaluation."""
import paddle
from paddle.io import BatchSampler, DataLoader

import evaluation
from network import DeepWide, Config
from table import DiabetesTable


def build_dataset(split):
    return DiabetesTable("data/diabetes.csv", training=split == "train")


def build_dataloader(split):
    ds = build_dataset(split)
    return DataLoader(ds, batch_sampler=BatchSampler(ds, batch_size=32, shuffle=False), return_list=True)


def build_model():
    return DeepWide(Config())


def loss(pred, target):
    # Huber: quadratic below delta, linear above it
    delta = 0.5
    err = (pred - target).abs()
    quad = paddle.clip(err, max=delta)
    return (0.5 * quad * quad + delta * (err - quad)).mean()


def metric(pred, target):
    return evaluation.scores(pred.numpy(), target.numpy())


class Duo:
    def __init__(self, net):
        steep, flat = [], []
        for name, p in net.named_parameters():
            top = name.split(".")[0]
            (steep if top in ("periodic", "sex", "linear_part") else flat).append(p)
        self.sched_flat = paddle.optimizer.lr.CosineAnnealingDecay(2e-3, T_max=20, eta_min=1e-4)
        self.sched_steep = paddle.optimizer.lr.MultiStepDecay(0.05, milestones=[6, 11], gamma=0.3)
        self.parts = [
            paddle.optimizer.Momentum(self.sched_steep, momentum=0.9, use_nesterov=True, parameters=steep),
            paddle.optimizer.AdamW(self.sched_flat, beta1=0.9, beta2=0.98, weight_decay=0.05, parameters=flat),
        ]

    def step(self):
        for o in self.parts:
            o.step()

    def clear_grad(self, set_to_zero=False):
        for o in self.parts:
            o.clear_grad(set_to_zero)


class DuoSchedule:
    def __init__(self, duo):
        self.members = (duo.sched_flat, duo.sched_steep)

    def step(self):
        for s in self.members:
            s.step()


def build_optimizer(net):
    return Duo(net)


def build_scheduler(duo):
    return DuoSchedule(duo)
