"""Hooks of layers, activations that are computed again, batch norm over processes: each function gives values and gradients."""

import torch
import torch.utils.checkpoint as again
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, way=0):
        if way == 1:
            x = checkpoint(self.first, x, use_reentrant=False)
        elif way == 2:
            x = again.checkpoint(self.first, x, use_reentrant=False, preserve_rng_state=False)
        else:
            x = self.first(x)
        return self.norm(self.second(torch.tanh(x)))


def _net():
    """A network whose weights are the same whichever way they are laid out."""
    net = Net()
    for at, weight in enumerate(net.parameters()):
        size = torch.arange(weight.shape[0]).float()
        v = size.unsqueeze(1) + torch.arange(weight.shape[-1]).float().unsqueeze(0) if weight.dim() == 2 else size
        weight.data.copy_(torch.sin(v * 1.3 + at) * 0.5)
    return net


def _x():
    return torch.sin(torch.arange(24).float() * 0.7).reshape(6, 4)


def _gradients(net, way=0):
    (net(_x(), way) ** 2).mean().backward()
    return [net.first.bias.grad, net.second.bias.grad, net.norm.bias.grad]


def plain():
    return _gradients(_net())


def checkpointed():
    return _gradients(_net(), 1)


def checkpointed_without_draws():
    return _gradients(_net(), 2)


def over_processes():
    return _gradients(nn.SyncBatchNorm.convert_sync_batchnorm(_net()))


def sync_layer_in_eval():
    return nn.SyncBatchNorm(4, momentum=0.2).eval()(_x())


def forward_hooks():
    net, seen = _net(), []
    net.first.register_forward_hook(lambda layer, inputs, output: seen.append((inputs[0].clone(), output.clone())))
    net.second.register_forward_hook(lambda layer, inputs, output: output * 2)
    net.second.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
    return [net.eval()(_x()), *seen[0]]


def _seen(needs, layer="first"):
    net, seen = _net(), []

    def hook(module, grad_input, grad_output):
        seen.extend(each.clone() for each in (*grad_input, *grad_output) if each is not None)

    getattr(net, layer).register_full_backward_hook(hook)
    x = _x()
    x.requires_grad_(needs)
    (net(x) ** 3).mean().backward()
    return seen


def backward_hook():
    return _seen(True)


def backward_hook_of_inputs_without_gradient():
    return _seen(False)


def backward_hook_in_the_middle():
    return _seen(False, "second")


def backward_hook_that_gives_another_gradient():
    net = _net()
    net.second.register_full_backward_hook(lambda module, grad_input, grad_output: tuple(each * 2 for each in grad_input))
    return _gradients(net)


def backward_hook_removed():
    net = _net()
    handle = net.second.register_full_backward_hook(lambda module, grad_input, grad_output: tuple(each * 2 for each in grad_input))
    handle.remove()
    return _gradients(net)


def hook_in_a_pass_without_gradients():
    net = _net()
    net.first.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    with torch.no_grad():
        return net.eval()(_x())


def own_generator():
    generator = torch.Generator()
    return torch.randn(3, generator=generator)


def group_added():
    net = _net()
    optimizer = torch.optim.SGD(net.first.parameters(), lr=0.1)
    optimizer.add_param_group({"params": net.second.parameters(), "lr": 0.2})
    return optimizer.param_groups[1]["lr"]


class _Split(nn.BatchNorm2d):
    def forward(self, x):
        mean, spread = self.running_mean, (self.running_var + self.eps).sqrt()
        return (x - mean[None, :, None, None]) / spread[None, :, None, None] * self.momentum


def statistics_of_an_own_norm():
    norm = _Split(3, momentum=0.25)
    norm.running_mean.copy_(torch.tensor([0.5, -1.0, 2.0]))
    norm.running_var = torch.tensor([1.0, 4.0, 0.25])
    plain = nn.BatchNorm2d(3).eval()
    plain.running_mean = norm.running_mean * 2
    plain.running_var *= 4
    x = torch.arange(12.0).reshape(1, 3, 2, 2)
    return norm(x), plain(x)


def own_type_of_a_state():
    return [value.dtype.is_floating_point and not value.dtype.is_complex for value in _net().parameters()]


class _Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("at", torch.ones(1, dtype=torch.long))

    def forward(self, x):
        return x[int(self.at) :] * float(self.at)


def buffer_as_a_number():
    return _Kept()(torch.arange(4.0))
