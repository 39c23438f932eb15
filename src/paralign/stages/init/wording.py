"""Laws of initialisation in words: the rule, and what to write to have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters.profile import profile_of
from paralign.comparison.laws import Family
from paralign.init.fans import fans
from paralign.weights.layouts import layer, layout, neutral_leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.comparison.laws import Law
    from paralign.model import Record

    Rule = tuple[str, Callable[[int, int], float]]

#: how far a number may be from that of a rule, besides three standard errors
NEAR = 0.005

#: rules for the bound of a uniform law around zero, likeliest first
BOUNDS: tuple[Rule, ...] = (
    ("PyTorch's default U(±1/sqrt(fan_in))", lambda i, _: 1 / math.sqrt(i)),
    ("XavierUniform U(±sqrt(6/(fan_in + fan_out)))", lambda i, o: math.sqrt(6 / (i + o))),
    ("KaimingUniform U(±sqrt(6/fan_in))", lambda i, _: math.sqrt(6 / i)),
    ("KaimingUniform of fan_out U(±sqrt(6/fan_out))", lambda _, o: math.sqrt(6 / o)),
    ("LeCunUniform U(±sqrt(3/fan_in))", lambda i, _: math.sqrt(3 / i)),
    ("U(±1/sqrt(fan_out))", lambda _, o: 1 / math.sqrt(o)),
)

#: rules for the deviation of a normal law around zero, likeliest first
DEVIATIONS: tuple[Rule, ...] = (
    ("KaimingNormal N(0, sqrt(2/fan_in))", lambda i, _: math.sqrt(2 / i)),
    ("KaimingNormal of fan_out N(0, sqrt(2/fan_out))", lambda _, o: math.sqrt(2 / o)),
    ("XavierNormal N(0, sqrt(2/(fan_in + fan_out)))", lambda i, o: math.sqrt(2 / (i + o))),
    ("LeCunNormal N(0, 1/sqrt(fan_in))", lambda i, _: 1 / math.sqrt(i)),
)

#: kinds of layers that make a network a transformer for what the guide says of sensitivity
ATTENTIVE = frozenset({"multiheadattention", "layernorm", "transformerencoder", "transformerdecoder"})

#: neutral kinds of layers whose weight and bias PyTorch draws by the number of inputs
BY_FAN = frozenset({"linear", *(f"{kind}{axes}d" for kind in ("conv", "convtranspose") for axes in (1, 2, 3))})

#: how to know instead of being told
MEASURED = "the stage train measures it where [training] initialisations is set"

#: those that make it a convolutional one
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})


@dataclass(frozen=True)
class Reading:
    """How the laws of one tensor are named: by its fans; None where it has none.

    A bias has those of the layer's weight. ``kind`` is the neutral kind of its layer.
    """

    fans: tuple[int, int] | None
    kind: str = ""

    @classmethod
    def of(cls, record: Record, owned: list[Record], framework: str) -> Reading:
        """Of a tensor among those of its layer, in the layout of a framework."""
        kernels = [record, *(r for r in owned if r.attrs.get("leaf") in ("weight", "weight_orig", "weight_v"))]
        kind = layer(str(record.attrs.get("kind") or ""))
        for kernel in kernels:
            rank = len(kernel.shape)
            kernel_kind = layer(str(kernel.attrs.get("kind") or ""))
            if rank <= 1 or 0 in kernel.shape or kernel_kind == "embedding":
                continue
            axes = layout(framework, kernel_kind, neutral_leaf(kernel_kind, str(kernel.attrs.get("leaf", ""))), rank)
            shape = [kernel.shape[axes.index(axis)] for axis in range(rank)]
            return cls(fans(shape), kind)
        return cls(None, kind)

    def is_default(self, law: Law) -> bool:
        """Whether PyTorch's own layers of this kind start with such numbers."""
        if self.kind == "embedding":
            if law.family is not Family.NORMAL:
                return False
            return abs(law.mean) <= NEAR + 3 * law.error and abs(law.std - 1) <= NEAR + 3 * law.error
        return self.kind in BY_FAN and self.rule(law) == BOUNDS[0][0]

    def rule(self, law: Law) -> str:
        """The rule that gives such numbers; '' where none is known."""
        if self.fans is None or abs(law.mean) > 4 * max(law.error, NEAR) * law.std:
            return ""
        rules = {Family.UNIFORM: BOUNDS, Family.NORMAL: DEVIATIONS}.get(law.family, ())
        number = (law.high - law.low) / 2 if law.family is Family.UNIFORM else law.std
        slack = NEAR + 3 * law.error
        near = []
        for said, made in rules:
            apart = abs(number / made(*self.fans) - 1)
            if apart <= slack:
                near.append((apart, said))
        return min(near)[1] if near else ""

    def name(self, law: Law) -> str:
        """The rule where one is known, else the law."""
        return self.rule(law) or str(law)

    def names(self, laws: tuple[Law, Law]) -> tuple[str, str]:
        """What two laws are called.

        By their means and spreads too, where nothing else tells them apart.
        """
        return _apart(laws, self.name(laws[0]), self.name(laws[1]))

    def both(self, laws: tuple[Law, Law]) -> tuple[str, str]:
        """As :meth:`names`, with their rules and how well they fit."""
        return _apart(laws, self.said(laws[0]), self.said(laws[1]))

    def said(self, law: Law) -> str:
        """The law, with its rule and how well it fits."""
        rule = self.rule(law)
        said = f"{rule} = {law}" if rule else str(law)
        if law.fit is None or law.family is Family.OTHER:
            return said
        return f"{said} (fit p = {law.fit:.2g})"


def _apart(laws: tuple[Law, Law], one: str, other: str) -> tuple[str, str]:
    """What is said of two laws, so that it differs where they do."""
    first, second = laws
    if one != other or first.drawn or (first.mean, first.std) == (second.mean, second.std):
        return one, other
    return f"{one}, mean {first.mean:.6g}, std {first.std:.6g}", f"{other}, mean {second.mean:.6g}, std {second.std:.6g}"


def instead(law: Law, name: str, framework: str, *, is_default: bool) -> str:
    """What to write in the candidate to have a law.

    ``is_default``: PyTorch's own layer starts so, and what gives all layers PyTorch's defaults gives it too.
    """
    known = profile_of(framework)
    module = known.initialisers
    if not module:
        return f"draw {name.replace('parameters.', '')} from {law}"
    place = attribute_of("model", name)
    half = (law.high - law.low) / 2
    uniform = f"{_short(-half)}, {_short(half)}" if abs(law.mean) < NEAR * half * 4 else f"{_short(law.low)}, {_short(law.high)}"
    mean = 0.0 if abs(law.mean) < law.std / 20 else law.mean
    std = 1.0 if is_default else law.std  # that of an embedding; other layers' defaults are uniform
    call = {
        Family.CONSTANT: f"constant_({place}, {_short(law.mean)})",
        Family.IDENTITY: f"eye_({place})",
        Family.ORTHOGONAL: f"orthogonal_({place}, gain={_short(law.scale)})",
        Family.UNIFORM: f"uniform_({place}, {uniform})",
        Family.NORMAL: f"normal_({place}, {_short(mean)}, {_short(std)})",
        Family.TRUNCATED: f"trunc_normal_({place}, {_short(mean)}, {_short(law.scale)}, {_short(law.low)}, {_short(law.high)})",
    }.get(law.family)
    if call is None:
        return f"fill {place} as the reference does: no initialiser of {module} has this law"
    written = f"{module}.{call}"
    if is_default and known.initialises_all:
        written = f"{known.initialises_all}; this one alone: {module}.{call}"
    return f"{written}; then set the reference's zeros again" if law.zeros else written


def attribute_of(model: str, name: str) -> str:
    """A parameter as a program writes it, from the name that it has in its model.

    >>> attribute_of("model", "blocks.0.conv1.weight")
    'model.blocks[0].conv1.weight'
    """
    return model + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in name.split("."))


def _short(number: float) -> str:
    return f"{number:.4g}"


def sensitivity(kinds: set[str]) -> list[str]:
    """What the guide says of initialisation for such a network (3.8), and what measures it."""
    known = {layer(kind) for kind in kinds if kind}
    if known & ATTENTIVE:
        return [f"transformers are sensitive to initialisation (guide, 3.8): mend this before trainings are compared; {MEASURED}"]
    if known & CONVOLUTIONS:
        return [
            "convolutional classifiers are less sensitive to initialisation than transformers, networks that generate more (guide, 3.8); "
            + MEASURED
        ]
    return []
