"""Functions with a gradient of their own, hooks: each gives values and gradients."""

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

VALUES = [-2.0, -0.75, -0.25, 0.5, 1.0, 2.5]


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        inside = (x > ctx.low) & (x < ctx.high)
        return gradient * inside.float() * 2, None, None


class Product(Function):
    @staticmethod
    def forward(ctx, x, scale, y):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * y * scale, x + y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        of_x = of_y = None
        if ctx.needs_input_grad[0]:
            of_x = first * y * ctx.scale + second
        if ctx.needs_input_grad[2]:
            of_y = first * x * ctx.scale + second
        return of_x, None, of_y


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.weight * gradient, None


class Always(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + 3 * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, 3 * gradient


class WithSetup(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Reverse(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight
        self.scale = nn.Parameter(torch.tensor(VALUES))

    def forward(self, x):
        return Reversed.apply(x * self.scale, self.weight)


def _leaf(values=VALUES):
    return torch.tensor(values).requires_grad_(True)


def clip():
    x = _leaf()
    y = Clip.apply(x, -0.5, 1.5)
    (y * y).sum().backward()
    return y.detach(), x.grad


def clip_by_another_name():
    clip = Clip.apply
    x = _leaf()
    y = clip(x, -0.5, 1.5)
    y.sum().backward()
    return x.grad


def two_results():
    x, y = _leaf(), _leaf([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    first, second = Product.apply(x, 0.5, y)
    (first * first + second).sum().backward()
    return first.detach(), x.grad, y.grad


def one_result_is_not_used():
    x, y = _leaf(), _leaf([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    first, second = Product.apply(x, 0.5, y)
    second.sum().backward()
    return x.grad, y.grad


def one_argument_needs_no_gradient():
    x, y = _leaf(), torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    first, second = Product.apply(x, 0.5, y)
    (first + second).sum().backward()
    return x.grad


def a_gradient_that_nobody_needs():
    x, y = _leaf(), torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    z = Always.apply(x, y)
    (z * z).sum().backward()
    return x.grad


def straight_through():
    x = _leaf()
    (Rounded.apply(x) * x).sum().backward()
    return x.grad


def within_a_layer():
    layer = Reverse(0.1)
    x = _leaf()
    y = layer(x)
    (y * y).sum().backward()
    return y.detach(), x.grad, layer.scale.grad


def with_a_context_set_up_apart():
    x = _leaf()
    WithSetup.apply(x).sum().backward()
    return x.grad


def hook_of_a_tensor():
    x = _leaf()
    seen = []
    y = x * x
    y.register_hook(lambda g: seen.append(g.sum().item()))
    handle = x.register_hook(lambda g: g * 2)
    y.sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    return x.grad, seen


def gradient_of_an_inner_tensor():
    x = _leaf()
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, x.grad


def hooks_of_a_layer():
    layer = nn.ReLU()
    seen = []
    before = layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    after = layer.register_forward_hook(lambda module, inputs, output: seen.append(float(output.sum())))
    changed = layer.register_forward_hook(lambda module, inputs, output: output + 1)
    y = layer(torch.tensor(VALUES))
    before.remove()
    after.remove()
    changed.remove()
    return y, layer(torch.tensor(VALUES)), seen
