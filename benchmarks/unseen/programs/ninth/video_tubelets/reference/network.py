"""The parameters, as a tree that the functions index by name."""
import torch
from torch import nn

from .functional import network


def tree(spec):
    """A nested dict of tensors as nested ParameterDicts and ModuleDicts."""
    leaves = {k: nn.Parameter(v) for k, v in spec.items() if torch.is_tensor(v)}
    branches = {k: tree(v) for k, v in spec.items() if not torch.is_tensor(v)}
    return Node(leaves, branches)


class Node(nn.Module):
    def __init__(self, leaves, branches):
        super().__init__()
        for name, parameter in leaves.items():
            self.register_parameter(name, parameter)
        for name, module in branches.items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._parameters[name] if name in self._parameters else self._modules[name]


def truncated(*shape, std=0.02):
    return nn.init.trunc_normal_(torch.empty(*shape), std=std, a=-2 * std, b=2 * std)


def dense(inputs, outputs):
    return {"weight": truncated(outputs, inputs), "bias": torch.zeros(outputs)}


def norm(width):
    return {"weight": torch.ones(width), "bias": torch.zeros(width)}


def attention(arch):
    d = arch.width
    return {"norm": norm(d), "qkv": dense(d, 3 * d), "out": dense(d, d), "scale": torch.full((d,), arch.scale_start)}


def specification(arch):
    d, (dt, dy, dx) = arch.width, arch.tubelet
    fan = arch.channels * dt * dy * dx
    block = lambda: {
        "time": attention(arch),
        "space": attention(arch),
        "mlp": {"norm": norm(d), "up": dense(d, arch.ratio * d), "down": dense(arch.ratio * d, d), "scale": torch.full((d,), arch.scale_start)},
    }
    return {
        "embed": {"weight": torch.randn(d, arch.channels, dt, dy, dx) * fan**-0.5, "bias": torch.zeros(d)},
        "positions": {
            "time": truncated(arch.frames // dt, d),
            "space": truncated((arch.size // dy) * (arch.size // dx), d),
        },
        "blocks": {str(i): block() for i in range(arch.depth)},
        "norm": norm(d),
        "head": dense(d, arch.classes),
    }


class VideoTransformer(nn.Module):
    def __init__(self, arch):
        super().__init__()
        self.arch = arch
        for name, part in specification(arch).items():
            self.add_module(name, tree(part))

    def forward(self, video):
        return network(video, self._modules, self.arch, self.training)
