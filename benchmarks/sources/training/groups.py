"""Optimizers and groups of parameters: each function gives the parameters after some updates."""

import torch
import torch.nn as nn
from torch.optim import SGD, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LambdaLR, MultiStepLR, OneCycleLR


class Part(nn.Module):
    def __init__(self, *values):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(values))
        self.matrix = nn.Parameter(torch.tensor([values, values[::-1]]))

    def forward(self, x):
        return (self.scale * x).sum() ** 2 + (self.matrix * self.matrix).sum() * x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Part(0.5, -1.0, 2.0)
        self.head = Part(1.5, 0.25, -0.75)

    def forward(self, x):
        return self.body(x) + self.head(x * 2)


def trained(net, optimizer, scheduler=None, steps=5):
    for at in range(steps):
        optimizer.zero_grad()
        loss = net(torch.tensor(0.1 + 0.05 * at))
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return [net.body.scale.detach(), net.body.matrix.detach(), net.head.scale.detach(), net.head.matrix.detach()]


def rates_of_groups():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01, momentum=0.9)
    return trained(net, optimizer), [group["lr"] for group in optimizer.param_groups]


def decay_by_dimensions():
    net = Net()
    decay, plain = [], []
    for name, parameter in net.named_parameters():
        (plain if parameter.ndim < 2 else decay).append(parameter)
    optimizer = AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95))
    return trained(net, optimizer)


def groups_in_a_variable():
    net = Net()
    groups = [
        {"params": [p for n, p in net.named_parameters() if n.startswith("body")], "lr": 1e-4, "weight_decay": 0.01, "name": "body"},
        {"params": [p for n, p in net.named_parameters() if not n.startswith("body")], "lr": 1e-2},
    ]
    optimizer = torch.optim.Adam(groups, lr=5e-3, weight_decay=0.2)
    return trained(net, optimizer)


def all_settings_of_groups():
    net = Net()
    optimizer = Adam([{"params": net.body.parameters(), "betas": (0.5, 0.9)}, {"params": net.head.parameters(), "eps": 1e-2}], lr=0.02)
    return trained(net, optimizer)


def momenta_of_groups():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "momentum": 0.5}, {"params": net.head.parameters(), "nesterov": True}], lr=0.01, momentum=0.9, weight_decay=0.3)
    return trained(net, optimizer)


def a_setting_that_paddle_has_for_all():
    net = Net()
    return trained(net, Adam([{"params": net.body.parameters(), "amsgrad": True}, {"params": net.head.parameters()}], lr=0.02))


def a_filter():
    net = Net()
    for parameter in net.body.parameters():
        parameter.requires_grad = False
    return trained(net, Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=0.02))


def a_list_of_parameters():
    net = Net()
    return trained(net, AdamW(list(net.head.parameters()) + [net.body.scale], lr=0.02))


def groups_under_a_schedule():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    scheduler = MultiStepLR(optimizer, [2, 4], gamma=0.5)
    return trained(net, optimizer, scheduler), scheduler.get_last_lr()


def groups_under_a_cosine():
    net = Net()
    optimizer = AdamW([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    scheduler = CosineAnnealingLR(optimizer, T_max=5)
    return trained(net, optimizer, scheduler), scheduler.get_last_lr()


def groups_under_a_cosine_with_a_floor():
    net = Net()
    optimizer = AdamW([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    return trained(net, optimizer, CosineAnnealingLR(optimizer, T_max=5, eta_min=1e-3))


def groups_under_one_cycle():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01, momentum=0.9)
    return trained(net, optimizer, OneCycleLR(optimizer, max_lr=[0.01, 0.1], total_steps=6))


def groups_under_one_cycle_for_all():
    net = Net()
    optimizer = Adam([{"params": net.body.parameters()}, {"params": net.head.parameters(), "weight_decay": 0.1}], lr=0.01)
    return trained(net, optimizer, OneCycleLR(optimizer, max_lr=0.1, total_steps=6))


def a_rule_a_group():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    return trained(net, optimizer, LambdaLR(optimizer, [lambda k: 0.9 ** k, lambda k: 0.5 ** k]))


def rates_of_groups_that_the_program_sets():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    before = trained(net, optimizer, steps=2)
    optimizer.param_groups[0]["lr"] = 0.004
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    return before, trained(net, optimizer, steps=2), [group["lr"] for group in optimizer.param_groups]


def a_decay_that_the_program_sets():
    net = Net()
    optimizer = SGD(net.parameters(), lr=0.01)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    return trained(net, optimizer)


def groups_of_another_optimizer():
    net = Net()
    optimizer = torch.optim.Adagrad([{"params": net.body.parameters(), "lr": 0.001}, {"params": net.head.parameters()}], lr=0.01)
    return trained(net, optimizer)


def an_optimizer_that_goes_on():
    net = Net()
    optimizer = Adam(net.parameters(), lr=0.02)
    trained(net, optimizer, steps=2)
    state = optimizer.state_dict()
    optimizer = Adam(net.parameters(), lr=0.02)
    optimizer.load_state_dict(state)
    return trained(net, optimizer, steps=2)


def an_optimizer_of_another_model():
    net = Net()
    optimizer = Adam(net.parameters(), lr=0.02)
    trained(net, optimizer, steps=2)
    state = optimizer.state_dict()
    net = Net()
    optimizer = Adam(net.parameters(), lr=0.02)
    optimizer.load_state_dict(state)
    return trained(net, optimizer, steps=2)


def the_rate_of_one_group_that_the_program_sets():
    net = Net()
    optimizer = SGD([{"params": net.parameters(), "lr": 0.5}], lr=0.1)
    for group in optimizer.param_groups:
        group["lr"] = 0.02
    return trained(net, optimizer), optimizer.param_groups[0]["lr"]


def equal_rates_under_a_cosine_with_a_floor():
    net = Net()
    optimizer = SGD([{"params": net.body.parameters(), "lr": 0.02}, {"params": net.head.parameters(), "lr": 0.02}], lr=0.1)
    return trained(net, optimizer, CosineAnnealingLR(optimizer, T_max=5, eta_min=1e-3))


def _groups(net):
    return [{"params": net.body.parameters(), "lr": 0.001, "weight_decay": 0.3}, {"params": net.head.parameters()}]


def two_phases():
    net = Net()
    first = trained(net, Adam(_groups(net), lr=0.02, weight_decay=0.2))
    later = Adam([net.body.scale, net.body.matrix, net.head.scale, net.head.matrix], lr=0.01)
    return first, trained(net, later), later.param_groups[0]["lr"]


def two_phases_of_a_whole_model():
    net = Net()
    first = trained(net, SGD(_groups(net), lr=0.01))
    return first, trained(net, SGD(net.parameters(), lr=0.002)), trained(net, AdamW(net.parameters(), lr=0.002))


def optimizers_of_one_model_in_turn():
    net = Net()
    one, other = SGD(_groups(net), lr=0.01, momentum=0.9), SGD(net.parameters(), lr=0.002, weight_decay=0.01)
    return [trained(net, optimizer, steps=2) for optimizer in (one, other, one)]


def _read(optimizer):
    names = ["lr", "weight_decay", "initial_lr", "momentum", "nesterov", "betas", "eps", "name", "scale_of_rate"]
    return [group.get(name, -7.0) for group in optimizer.param_groups for name in names if name != "name" or group.get(name) is None]


def settings_that_the_program_reads():
    net = Net()
    found = [_read(kind(net.parameters(), lr=0.1, weight_decay=0.25)) for kind in (SGD, Adam, AdamW)]
    found += [_read(kind(_groups(net), lr=0.1, weight_decay=0.25)) for kind in (SGD, Adam, AdamW)]
    scheduled = SGD(_groups(net), lr=0.1, momentum=0.9, nesterov=True)
    schedule = MultiStepLR(scheduled, [2, 4], gamma=0.5)
    trained(net, scheduled, schedule, steps=3)
    return found, _read(scheduled), scheduled.param_groups[0]["momentum"]


def the_name_of_a_group():
    net = Net()
    optimizer = Adam([{"params": net.body.parameters(), "name": "body"}, {"params": net.head.parameters(), "lr": 0.1}], lr=0.02)
    return [float(group.get("name", "none") == "body") for group in optimizer.param_groups], trained(net, optimizer)


def a_setting_that_paddle_does_not_have():
    optimizer = Adam(Net().parameters(), lr=0.02)
    return [float(group.get("amsgrad", True)) for group in optimizer.param_groups]


def a_rate_that_the_program_sets_beside_a_schedule():
    net = Net()
    optimizer = SGD(net.parameters(), lr=0.01)
    trained(net, optimizer, MultiStepLR(optimizer, [2], gamma=0.5), steps=3)
    for group in optimizer.param_groups:
        group["lr"] = 0.05
    return trained(net, optimizer)


def rms_with_a_schedule():
    net = Net()
    optimizer = RMSprop(net.parameters(), lr=0.01, alpha=0.9, eps=0.05, momentum=0.8)
    return trained(net, optimizer, ExponentialLR(optimizer, 0.7))


def rms_centered_in_groups():
    net = Net()
    optimizer = RMSprop([{"params": net.body.parameters(), "lr": 0.002}, {"params": net.head.parameters()}], lr=0.01, centered=True, weight_decay=0.1)
    return trained(net, optimizer)


def betas_of_other_kinds():
    made = (NAdam, {"momentum_decay": 0.01}), (RAdam, {}), (Adamax, {"weight_decay": 0.1})
    nets = [Net() for _ in made]
    return [trained(net, kind(net.parameters(), lr=0.01, betas=(0.8, 0.95), **more)) for net, (kind, more) in zip(nets, made)]
