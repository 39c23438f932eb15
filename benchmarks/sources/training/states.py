"""Files of a training, seeds, scaled losses: each function gives what came back."""

import copy
import io
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.backends.cudnn as cudnn
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.register_buffer("count", torch.tensor([3, 4]))

    def forward(self, x):
        return (self.first * x).sum()


def _trained(net, optimizer, steps=2):
    for at in range(steps):
        optimizer.zero_grad()
        net(torch.tensor(0.5 + at)).backward()
        optimizer.step()


def a_model():
    net, other = Net(), Net()
    _trained(net, optim.SGD(net.parameters(), lr=0.1))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        torch.save(net.state_dict(), path)
        other.load_state_dict(torch.load(path, map_location="cpu"))
    return other.first.detach(), other.count


def a_checkpoint():
    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    _trained(net, optimizer)
    scheduler.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        torch.save({"epoch": 3, "best": 0.25, "names": ["a", "b"], "model": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, path)
        _trained(net, optimizer)
        state = torch.load(path, map_location=torch.device("cpu"), weights_only=False)
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    _trained(net, optimizer)
    scheduler.step()
    return state["epoch"], state["best"], len(state["names"]), net.first.detach(), scheduler.get_last_lr()


def in_memory():
    file = io.BytesIO()
    torch.save({"x": torch.tensor([1.0, 2.0]), "n": 2}, file)
    file.seek(0)
    state = torch.load(file)
    return state["x"], state["n"]


def a_missing_name():
    state = Net().state_dict()
    del state["first"]
    try:
        Net().load_state_dict(state)
    except RuntimeError:
        return 1
    return 0


def the_best_so_far():
    net = Net()
    best = copy.deepcopy(net.state_dict())
    _trained(net, optim.SGD(net.parameters(), lr=0.1))
    changed = net.first.detach().clone()
    net.load_state_dict(best)
    return changed, net.first.detach()


def seeds():
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    torch.cuda.manual_seed_all(3)
    cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    first = torch.rand(4)
    torch.manual_seed(3)
    again = torch.rand(4)
    return bool((first == again).all()), random.random(), np.random.rand()


def a_scaled_loss():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    for at in range(3):
        optimizer.zero_grad()
        loss = net(torch.tensor(0.5 + at))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
    return net.first.detach()


def half_precision_switched_off():
    net = Net()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        return net(torch.tensor(0.3)).detach()


def half_precision():
    x = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        return torch.matmul(x, x).float()
