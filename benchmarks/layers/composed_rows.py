"""Steps of rows, ``("rows", width)``, and of anything."""
# ruff: noqa: ARG001 - every step is called alike

from __future__ import annotations

from composed_step import Step, module, parameter, plain

ACTIVATIONS = [
    "F.relu(x)", "F.relu6(x)", "F.leaky_relu(x, 0.2)", "F.leaky_relu(x, 0.01)", "F.elu(x, 0.7)", "F.selu(x)", "F.celu(x, 1.3)", "F.gelu(x)",
    "F.gelu(x, approximate=«'tanh'|True»)", "F.silu(x)", "F.mish(x)", "F.softplus(x)", "F.softplus(x, beta=2)", "F.softsign(x)",
    "F.tanhshrink(x)",
    "F.hardtanh(x, -0.8, 1.1)", "F.hardswish(x)", "F.hardsigmoid(x)", "F.«logsigmoid|log_sigmoid»(x)", "T.tanh(x)", "F.sigmoid(x)",
    "F.softshrink(x, 0.2)", "F.hardshrink(x, 0.2)",
]  # fmt: skip

FORMULAS = [
    "T.«clamp|clip»(x, -0.9, 1.2)", "T.where(x > 0.1, x, 0.3 * x)", "T.sqrt(x * x + 0.01)", "x * T.sigmoid(1.7 * x)",
    "T.«clamp(x, min=-0.5)|clip(x, min=-0.5)»",
    "T.sign(x) * T.log1p(T.abs(x))", "T.exp(-x * x) + 0.1 * x", "T.erf(x)", "T.atan(x) * 0.6", "T.maximum(x, 0.2 * x)",
    "x / (1.0 + T.abs(x))",
    "T.sin(x) + 0.3 * x", "T.pow(x, 2) * 0.3 + x", "T.where(T.abs(x) < 1.0, 0.5 * x * x, T.abs(x) - 0.5)",
]  # fmt: skip


def activation(rng, shape):
    text = rng.choice(ACTIVATIONS)
    return plain("activation", shape, f"x = {text}")


def formula(rng, shape):
    return plain("formula", shape, f"x = {rng.choice(FORMULAS)}")


def normalised(rng, shape):
    return plain("normalise", shape, "x = F.normalize(x, «dim|axis»=-1)" if shape[0] != "image" else "x = F.normalize(x, «dim|axis»=1)")


def softmax(rng, shape):
    return plain("softmax", shape, f"x = F.softmax(x, «dim|axis»=-1) * {float(shape[-1])}")


def scaled(rng, shape):
    return module("scale", shape, parameter((shape[1], 1, 1) if shape[0] == "image" else (shape[-1],), 1.0), "x = x * self.@a")


def row_norm(rng, shape):
    return module("batch norm", shape, f"nn.BatchNorm1«d|D»({shape[1]}, «momentum=0.2|momentum=0.8»)")


def products(rng, shape):
    d = shape[1]
    if d > 8:
        return None
    return plain("outer product", ("rows", d * d), "x = T.einsum('bi,bj->bij', x, x).flatten(1)")


def bilinear(rng, shape):
    d, out = shape[1], rng.randint(3, 6)
    if d > 12:
        return None
    return module("bilinear", ("rows", out), f"nn.Bilinear({d}, {d}, {out})", "x = self.@a(x, T.tanh(x))")


def tied(rng, shape):
    d, inner = shape[1], rng.randint(3, 8)
    lines = ["h = T.tanh(T.matmul(x, self.@a))", "x = x + T.matmul(h, self.@a.«t|t»())"]
    return Step("tied weights", shape, {"a": parameter((d, inner), round(d**-0.5, 2))}, lines)


def matrix(rng, shape):
    d, out = shape[1], rng.randint(4, 9)
    lines = ["x = T.matmul(x, self.@a) + self.@b"]
    return Step("matmul", ("rows", out), {"a": parameter((d, out), round(d**-0.5, 2)), "b": parameter((out,), 0.1)}, lines)
