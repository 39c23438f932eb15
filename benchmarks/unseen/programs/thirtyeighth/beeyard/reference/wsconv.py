"""A convolution whose kernels are standardised before use, with a learned gain."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class WSConv(nn.Conv2d):
    def __init__(self, inputs, outputs, size, stride=1, dilation=1):
        padding = dilation * (size - 1) // 2
        super().__init__(inputs, outputs, size, stride=stride, padding=padding, dilation=dilation)
        self.gain = nn.Parameter(torch.ones(outputs, 1, 1, 1))
        nn.init.normal_(self.weight, std=math.sqrt(2.0 / (outputs * size * size)))
        nn.init.zeros_(self.bias)

    def kernel(self):
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), unbiased=False, keepdim=True)
        count = self.weight[0].numel()
        scale = torch.rsqrt(torch.clamp(variance * count, min=1e-4)) * self.gain
        return (self.weight - mean) * scale

    def forward(self, x):
        return F.conv2d(x, self.kernel(), self.bias, self.stride, self.padding, self.dilation)
