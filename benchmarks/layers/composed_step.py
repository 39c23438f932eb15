"""A step of a composed model: a layer or a few expressions, drawn at random, in the spelling of both frameworks.

One text stands for both sides: of ``«torch|paddle»`` each takes its own part, ``T.`` is the framework, ``@a`` to ``@d`` are attributes
of the module. A step takes ``x`` and leaves its result in ``x``. Arguments whose defaults differ between the frameworks
are written out.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """``layers`` makes the module's attributes, ``lines`` are those of its forward; ``shape`` is that of the result, its kind first."""

    name: str
    shape: tuple
    layers: dict[str, str]
    lines: list[str]


def parameter(size, spread):
    """A parameter of normal numbers."""
    text = ", ".join(map(str, size))
    ours = f"nn.Parameter({spread} * torch.randn({text}))"
    return f"«{ours}|self.create_parameter([{text}], default_initializer=nn.initializer.Normal(0.0, {spread}))»"


def module(name, shape, made, call="x = self.@a(x)"):
    return Step(name, shape, {"a": made}, [call])


def plain(name, shape, *lines):
    return Step(name, shape, {}, list(lines))
