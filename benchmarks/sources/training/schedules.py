"""Schedules: each function gives the rates of 50 steps, and what the parameters became under them."""

import math

import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau, SequentialLR

LOSSES = [1.0, 0.9, 0.9, 0.95, 0.9, 0.89, 0.89, 0.89, 0.89, 0.89, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4] + [0.4] * 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.second = nn.Parameter(torch.tensor([[1.0, 0.25], [-0.5, 3.0]]))

    def forward(self, x):
        return (self.first * x).sum() + (self.second ** 2).sum() * x


def updated(net, optimizer, at):
    optimizer.zero_grad()
    loss = net(torch.tensor(0.1 + 0.01 * (at % 7)))
    loss.backward()
    optimizer.step()


def stepped(make, steps=50, momentum=0.9):
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=momentum)
    scheduler = make(optimizer)
    rates = [optimizer.param_groups[0]["lr"]]
    for at in range(steps):
        updated(net, optimizer, at)
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, net.first.detach(), net.second.detach()


def step_lr():
    return stepped(lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3))


def step_lr_with_defaults():
    return stepped(lambda o: lr_scheduler.StepLR(o, 30, last_epoch=-1))


def multi_step_lr():
    return stepped(lambda o: lr_scheduler.MultiStepLR(o, milestones=[30, 10, 20], gamma=0.2))


def exponential_lr():
    return stepped(lambda o: lr_scheduler.ExponentialLR(o, gamma=0.95))


def lambda_lr():
    def rule(step):
        return min(1.0, (step + 1) / 10) * 0.5 * (1 + math.cos(math.pi * step / 50))

    return stepped(lambda o: lr_scheduler.LambdaLR(o, lr_lambda=rule))


def multiplicative_lr():
    return stepped(lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9 + 0.001 * step))


def cosine():
    return stepped(lambda o: CosineAnnealingLR(o, T_max=20))


def cosine_with_a_floor():
    return stepped(lambda o: CosineAnnealingLR(o, 50, eta_min=1e-3))


def warm_restarts():
    return stepped(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=6, T_mult=2, eta_min=1e-4))


def warm_restarts_of_one_length():
    return stepped(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10))


def warm_restarts_by_parts_of_epochs():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)
    rates = []
    for epoch in range(10):
        for batch in range(5):
            updated(net, optimizer, batch)
            scheduler.step(epoch + batch / 5)
            rates.append(scheduler.get_last_lr()[0])
    return rates, net.first.detach()


def linear_lr():
    return stepped(lambda o: LinearLR(o, start_factor=0.1, total_iters=12))


def steps_that_are_named():
    found = []
    for make in (LinearLR, lambda o: lr_scheduler.StepLR(o, 4), lambda o: CosineAnnealingLR(o, 9), lambda o: lr_scheduler.PolynomialLR(o, 8)):
        optimizer = optim.SGD(Net().parameters(), lr=0.05)
        s = make(optimizer)
        for epoch in (3, 4, 2):
            optimizer.step()
            s.step(epoch)
            found.append(optimizer.param_groups[0]["lr"])
    return found


def linear_lr_with_defaults():
    return stepped(lambda o: LinearLR(o))


def constant_lr():
    return stepped(lambda o: lr_scheduler.ConstantLR(o, factor=0.25, total_iters=9))


def polynomial_lr():
    return stepped(lambda o: lr_scheduler.PolynomialLR(o, total_iters=40, power=2.0))


def one_cycle():
    return stepped(lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.3, total_steps=51))


def one_cycle_of_sgd_without_momentum():
    return stepped(lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.3, total_steps=51), momentum=0)


def one_cycle_linear():
    return stepped(lambda o: lr_scheduler.OneCycleLR(o, 0.3, epochs=10, steps_per_epoch=6, anneal_strategy="linear", cycle_momentum=False))


def one_cycle_of_three_phases():
    return stepped(lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=60, pct_start=0.25, three_phase=True, div_factor=10, final_div_factor=100.0))


def one_cycle_of_adam():
    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=30)
    for at in range(20):
        updated(net, optimizer, at)
        scheduler.step()
    return net.first.detach()


def one_cycle_of_adam_without_momentum():
    net = Net()
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=30, cycle_momentum=False)
    for at in range(20):
        updated(net, optimizer, at)
        scheduler.step()
    return net.first.detach()


def cyclic():
    return stepped(lambda o: lr_scheduler.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=6, step_size_down=9, mode="triangular2", cycle_momentum=False))


def cyclic_exponential():
    return stepped(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.97, cycle_momentum=False))


def cyclic_with_momentum():
    return stepped(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=5))


def cyclic_of_adam():
    net = Net()
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.001, 0.1, step_size_up=4)
    for at in range(20):
        updated(net, optimizer, at)
        scheduler.step()
    return net.first.detach()


def warm_up_then_cosine():
    def make(optimizer):
        warm = LinearLR(optimizer, start_factor=0.01, total_iters=5)
        cosine = CosineAnnealingLR(optimizer, T_max=45, eta_min=1e-5)
        return SequentialLR(optimizer, schedulers=[warm, cosine], milestones=[5])

    return stepped(make)


def three_in_a_row():
    def make(optimizer):
        parts = [lr_scheduler.ConstantLR(optimizer, 0.1, 4), lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.StepLR(optimizer, 6)]
        return SequentialLR(optimizer, parts, [4, 20])

    return stepped(make)


def a_row_with_restarts_and_a_rule():
    def make(optimizer):
        parts = [lr_scheduler.LambdaLR(optimizer, lambda k: (k + 1) / 8), lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)]
        return SequentialLR(optimizer, parts, milestones=[8])

    return stepped(make)


def a_row_with_a_product():
    def make(optimizer):
        parts = [LinearLR(optimizer), lr_scheduler.MultiplicativeLR(optimizer, lambda k: 0.9)]
        return SequentialLR(optimizer, parts, milestones=[3])

    return stepped(make)


def chained():
    def make(optimizer):
        return lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=4), lr_scheduler.ExponentialLR(optimizer, gamma=0.9)])

    return stepped(make)


def chained_with_cosine():
    def make(optimizer):
        return lr_scheduler.ChainedScheduler([LinearLR(optimizer, 0.5), CosineAnnealingLR(optimizer, 10)])

    return stepped(make)


def two_at_once():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    first = lr_scheduler.ExponentialLR(optimizer, 0.9)
    second = lr_scheduler.StepLR(optimizer, 5)
    for at in range(10):
        updated(net, optimizer, at)
        first.step()
        second.step()
    return optimizer.param_groups[0]["lr"]


def judged(losses, **settings):
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scheduler = ReduceLROnPlateau(optimizer, **settings)
    rates = []
    for at, loss in enumerate(losses):
        updated(net, optimizer, at)
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def plateau():
    rates = []
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scheduler = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2, threshold=1e-3)
    for at, loss in enumerate(LOSSES):
        updated(net, optimizer, at)
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, net.first.detach()


def plateau_that_cools_down():
    rates = []
    optimizer = optim.SGD(Net().parameters(), lr=0.05)
    plateau = ReduceLROnPlateau(optimizer, "max", factor=0.5, patience=1, threshold_mode="abs", cooldown=3, min_lr=1e-3, eps=1e-6)
    for loss in LOSSES:
        plateau.step(metrics=-loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def plateau_of_what_is_no_number():
    rates = []
    optimizer = optim.SGD(Net().parameters(), lr=0.05)
    scheduler = ReduceLROnPlateau(optimizer, patience=1)
    for loss in [float("nan"), float("nan"), 1.0, 0.5, float("nan"), 0.4, 0.6, 0.6, 0.6]:
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def a_plateau_after_a_warm_up():
    rates = []
    optimizer = optim.SGD(Net().parameters(), lr=0.05)
    warm = LinearLR(optimizer, 0.1, total_iters=3)
    plateau = ReduceLROnPlateau(optimizer, patience=0)
    for at, loss in enumerate(LOSSES):
        if at < 3:
            warm.step()
        else:
            plateau.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def a_schedule_that_goes_on():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4, 2)
    for at in range(9):
        updated(net, optimizer, at)
        scheduler.step()
    state = scheduler.state_dict()
    later = optim.SGD(net.parameters(), lr=0.05)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(later, 4, 2)
    scheduler.load_state_dict(state)
    rates = []
    for at in range(20):
        updated(net, later, at)
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    return rates


def a_row_that_goes_on():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    scheduler = SequentialLR(optimizer, [LinearLR(optimizer, 0.1), lr_scheduler.ExponentialLR(optimizer, 0.9)], [5])
    for at in range(9):
        scheduler.step()
    schedule, state = scheduler.state_dict(), optimizer.state_dict()
    later = optim.SGD(net.parameters(), lr=0.05)
    scheduler = SequentialLR(later, [LinearLR(later, 0.1), lr_scheduler.ExponentialLR(later, 0.9)], [5])
    scheduler.load_state_dict(schedule)
    later.load_state_dict(state)
    rates = []
    for at in range(9):
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    return rates


def rates_set_by_the_program():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    rates = []
    for at in range(20):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(math.pi * at / 20))
        updated(net, optimizer, at)
        rates.append(optimizer.param_groups[-1]["lr"])
    optimizer.param_groups[0]["lr"] *= 3
    updated(net, optimizer, 0)
    return rates, net.first.detach(), optimizer.param_groups[0]["lr"]


def _followed(first, second, stepped_first=3, momentum=0.9):
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=momentum)
    rates = []
    for make, steps in ((first, stepped_first), (second, 20)):
        scheduler = make(optimizer)
        for at in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            updated(net, optimizer, at)
            scheduler.step()
    return rates, optimizer.param_groups[0]["lr"], net.first.detach(), optimizer.param_groups[0]["initial_lr"]


def _halved(optimizer):
    return lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)


def a_second_cosine():
    return _followed(_halved, lambda o: CosineAnnealingLR(o, T_max=6, eta_min=1e-3))


def a_second_row_of_steps():
    return _followed(_halved, lambda o: lr_scheduler.MultiStepLR(o, [3, 9], gamma=0.3))


def a_second_warm_up():
    return _followed(_halved, lambda o: LinearLR(o, 0.2, total_iters=7))


def a_second_polynomial():
    return _followed(_halved, lambda o: lr_scheduler.PolynomialLR(o, total_iters=15, power=2.0))


def a_second_product():
    return _followed(_halved, lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 0.9))


def a_second_rule():
    return _followed(_halved, lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9 ** k))


def a_second_cosine_with_restarts():
    return _followed(_halved, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2))


def a_second_cycle():
    return _followed(_halved, lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=25))


def a_rule_after_a_cycle():
    return _followed(lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=5, cycle_momentum=False), lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9 ** k))


def a_rule_after_a_triangle():
    return _followed(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=4, cycle_momentum=False), lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9 ** k))


def a_second_one_after_a_plateau():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    plateau = ReduceLROnPlateau(optimizer, patience=0)
    for loss in LOSSES[:9]:
        plateau.step(loss)
    later, rates = lr_scheduler.LambdaLR(optimizer, lambda k: 0.9 ** k), []
    for at in range(9):
        updated(net, optimizer, at)
        later.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, net.first.detach()


def a_third_one():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    rates = []
    for make in (_halved, lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda o: CosineAnnealingLR(o, T_max=3)):
        scheduler = make(optimizer)
        for at in range(5):
            updated(net, optimizer, at)
            scheduler.step()
            rates.append(scheduler.get_last_lr()[0])
    return rates, net.first.detach()


def a_second_one_beside_a_start_that_is_never_stepped():
    return _followed(lambda o: LinearLR(o, 0.1), lambda o: CosineAnnealingLR(o, T_max=6), stepped_first=0)


def a_row_after_a_schedule():
    return _followed(_halved, lambda o: SequentialLR(o, [LinearLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [5]))
