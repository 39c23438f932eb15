import math

import torch
from torch import nn


def orthogonal_mlp(module, gain=math.sqrt(2)):
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.constant_(layer.bias, 0.0)


@torch.no_grad()
def small_uniform(layer, bound=3e-3):
    layer.weight.uniform_(-bound, bound)
    layer.bias.uniform_(-bound, bound)
