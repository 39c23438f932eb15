"""Callables of PyTorch that are handed on as values, written out once.

They have PyTorch's arguments, and what Paddle makes of them.
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.parameters import Kind, Parameter, literal
from paralign.catalogue.source_fixes import simplified
from paralign.port.names.values import Form, Use
from paralign.port.plans.call_plan import ByHand, Plan
from paralign.port.plans.conversions import conversions, signature_of
from paralign.port.plans.operators import OF_ONE_TYPE, as_calls, is_operator
from paralign.port.plans.planning import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.catalogue.parameters import Signature, Table

#: tensors of a layer that are no parameters: assigned, they are other tensors, and the old ones stay as they are
STATISTICS = frozenset({"running_mean", "running_var"})

_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Adapter:
    """A class or function that takes PyTorch's arguments.

    Those that nobody executed it with are not among ``takes``.
    """

    torch: str
    takes: tuple[Parameter, ...]
    made: Plan
    conditions: tuple[str, ...]

    @property
    def is_class(self) -> bool:
        """Whether it is derived from Paddle's class.

        It can then be a base class, and its objects are known to ``isinstance``.
        """
        return not self.made.template and self.torch.rpartition(".")[2][:1].isupper()

    def fits(self, positional: int, keywords: set[str]) -> bool:
        """Whether it takes a call with so many positional arguments and these keywords."""
        places = [each for each in self.takes if each.kind is Kind.PLAIN]
        return positional <= len(places) and keywords <= {each.name for each in self.takes}

    def text(self, name: str) -> str:
        """Its definition."""
        signature = ", ".join(_parameters(self.takes))
        said = f'"""{self.torch} with PyTorch\'s arguments."""'
        if not self.is_class:
            return f"def {name}({signature}):\n    {said}\n    return {self._body()}\n"
        attributes = conversions().attributes.get(self.torch, {})
        kept = "".join(f"        self.{attribute} = {value}\n" for attribute, value in attributes.items())
        others = self._others(attributes)
        kept += "".join(_renamed(name, ours) for name, ours in others) + _bound_anew(others)
        return (
            f"class {name}({self.made.port}):\n    {said}\n\n    _is_adapter = True\n\n"
            f"    def __init__({', '.join(['self', *_parameters(self.takes)])}):\n        super().__init__({self._given()})\n{kept}"
        )

    def _others(self, attributes: Mapping[str, str]) -> list[tuple[str, str]]:
        """Attributes that Paddle's class has under another name, and that are not kept beside it."""
        found = {name: ours for head, names in conversions().layers.items() if self.torch.startswith(head) for name, ours in names.items()}
        return [(name, ours) for name, ours in found.items() if name not in attributes]

    def _body(self) -> str:
        if self.made.template:
            return _HOLE.sub(self._hole, self.made.template)
        return f"{self.made.port}({self._given()})"

    def _given(self) -> str:
        made = self.made
        going = [each.name for each in self.takes if each.name not in made.removed]
        parts = [f"{made.keywords.get(name) or name}={name}" for name in going]
        parts += [f"{name}={simplified(_HOLE.sub(self._hole, template))}" for name, template in made.added.items()]
        return ", ".join(parts)

    def _hole(self, found: re.Match[str]) -> str:
        name = found.group(1)
        if name in {each.name for each in self.takes}:
            return name
        return self.made.bound.text(name) or "None"


def _renamed(name: str, ours: str) -> str:
    """An attribute by PyTorch's name: read and set as the one of Paddle."""
    if name in STATISTICS:
        return f"\n    {name} = property(lambda self: self.{ours})\n"
    return f"\n    {name} = property(lambda self: self.{ours}, lambda self, value: setattr(self, {ours!r}, value))\n"


def _bound_anew(others: list[tuple[str, str]]) -> str:
    """How statistics are assigned.

    Paddle's layers keep what is given to a property under its own name, too.
    """
    names = {name: ours for name, ours in others if name in STATISTICS}
    if not names:
        return ""
    return (
        f"\n    def __setattr__(self, name, value):\n        ours = {names!r}.get(name)\n        if ours is None:\n"
        "            return super().__setattr__(name, value)\n"
        "        for each in ('_mean', '_variance'):  # both, so that their order stays\n"
        "            if each in self._parameters:\n                self._buffers[each] = self._parameters.pop(each)\n"
        "        self._buffers[ours] = value if value.stop_gradient else value.detach()\n"
    )


def _parameters(takes: tuple[Parameter, ...]) -> list[str]:
    """Parameters as a definition lists them."""
    found: list[str] = []
    for each in takes:
        if each.kind is Kind.KEYWORD and "*" not in found:
            found.append("*")
        found.append(each.name if each.default is None else f"{each.name}={each.default}")
    return found


@cache
def adapter_of(name: str, paddle: Table) -> Adapter | None:
    """An adapter for a callable; None where nothing that was executed says how to write one."""
    signature = signature_of(name)
    if not signature.known or name.startswith("torch.Tensor."):
        return None
    taken: list[Parameter] = []
    for each in signature.parameters:
        if each.kind in (Kind.ARGUMENTS, Kind.KEYWORDS) or not each.name.isidentifier():
            continue
        if each.default is None:
            taken.append(each)
    made = _planned(name, taken, paddle)
    if made is None or "{*}" in made.template or _is_overloaded(signature):
        return None
    gap, way = False, conversions().calls.get(name)
    either = way is not None and bool(way.either or way.single)
    for each in signature.parameters:
        if each.kind in (Kind.ARGUMENTS, Kind.KEYWORDS) or each.default is None or not _is_literal(each):
            continue
        kept = Parameter(each.name, Kind.KEYWORD, each.default) if gap else each
        one = _planned(name, [*taken, kept], paddle, keep=not made.template and not either)
        if one is not None:
            taken, made = [*taken, kept], one
        gap = gap or one is None  # what stands behind it cannot be given by position
    made.template = _of_any_type(name, made.template)
    order = [each.name for each in signature.parameters]
    taken.sort(key=lambda each: (each.kind is Kind.KEYWORD, order.index(each.name)))
    return Adapter(name, tuple(taken), made, tuple(dict.fromkeys(made.conditions)))


def _of_any_type(name: str, template: str) -> str:
    """The template of a callable that may be given tensors of several types."""
    table = conversions()
    if is_start(name):
        return given_back(template)
    for of_several in (table.joined, table.bounded, table.paired):
        if name in of_several:
            return of_several[name]
    return as_calls(template) if is_operator(template) and name not in OF_ONE_TYPE else template


def _is_overloaded(signature: Signature) -> bool:
    """Whether a parameter must be given that follows one with a default.

    ``randint(low=0, high, size)``: how many are given decides what they mean.
    """
    needed = [each.default is None for each in signature.parameters if each.kind is Kind.PLAIN]
    return any(later and not sooner for sooner, later in itertools.pairwise(needed))


def is_start(name: str) -> bool:
    """Whether a callable gives a tensor its first values."""
    return name.startswith("torch.nn.init.") and name.endswith("_")


def given_back(template: str) -> str:
    """The template of a call that starts a tensor, so that it gives the tensor back.

    Paddle's give nothing.

    >>> given_back("paddle.nn.initializer.Constant(0.0)({tensor})")
    '_started(paddle.nn.initializer.Constant(0.0), {tensor})'
    """
    return re.sub(r"^(.*)\(\{tensor\}(.*)\)$", r"_started(\1, {tensor}\2)", template)


def _is_literal(each: Parameter) -> bool:
    try:
        literal(each.default)
    except ValueError:
        return False
    return True


def _planned(name: str, parameters: list[Parameter], paddle: Table, *, keep: bool = False) -> Plan | None:
    """How the callable is written where these arguments are given, whatever their values are.

    ``keep``: under Paddle's name, with none of PyTorch's in a template: a class stays one, which others are derived from.
    """
    keywords = [ast.keyword(each.name, ast.Name(each.name, ast.Load())) for each in parameters]
    try:
        made = plan(Use(name, 0, 0, 0, 0, Form.CALL, keywords=keywords), paddle)
    except ByHand:
        return None
    if keep and made.template:
        return None
    return made
