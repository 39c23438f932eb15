"""What names of a program stand for, as far as its source says.

Modules, callables, objects of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


class Certainty(Enum):
    """How a call's name is known."""

    RESOLVED = "resolved"
    INFERRED = "inferred"
    GUESSED = "guessed"


class Form(Enum):
    """How a callable is used."""

    CALL = "call"
    METHOD = "method"
    PARTIAL = "partial"
    SUBCLASS = "subclass"
    REFERENCE = "reference"


@dataclass(frozen=True)
class Named:
    """A module or a callable, by its dotted name."""

    name: str
    certainty: Certainty = Certainty.RESOLVED


@dataclass(frozen=True)
class Partial:
    """A callable with some of its arguments."""

    of: Named
    positional: tuple[ast.expr, ...] = ()
    keywords: tuple[ast.keyword, ...] = ()


@dataclass(frozen=True)
class Instance:
    """An object of a class of a framework."""

    of: str
    certainty: Certainty = Certainty.INFERRED


@dataclass(eq=False)
class Class:
    """A class of the program: what it is derived from, and what its attributes are."""

    name: str
    bases: list[Named | Class] = field(default_factory=list)
    attributes: dict[str, Value] = field(default_factory=dict)
    methods: set[str] = field(default_factory=set)

    def lineage(self) -> list[Class]:
        """This class and those of the program that it is derived from."""
        found: list[Class] = []
        rest: list[Class] = [self]
        while rest:
            one = rest.pop(0)
            if one not in found:
                found.append(one)
                rest += [base for base in one.bases if isinstance(base, Class)]
        return found

    def framework_base(self) -> str | None:
        """The class of a framework that it is derived from."""
        for one in self.lineage():
            for base in one.bases:
                if isinstance(base, Named):
                    return base.name
        return None

    def attribute(self, name: str) -> Value:
        """An attribute of its own or of a class that it is derived from."""
        for one in self.lineage():
            if name in one.attributes:
                return one.attributes[name]
        return None

    def defines(self, name: str) -> bool:
        """Whether it or a class of the program that it is derived from has a method of this name."""
        return any(name in one.methods for one in self.lineage())

    def prepares_data(self) -> bool:
        """Whether it looks like a data set or a transform."""
        base = self.framework_base() or ""
        if base.endswith("Dataset"):
            return True
        return self.defines("__call__") and not base.startswith("torch.nn")


@dataclass(frozen=True)
class Object:
    """An object of a class of the program."""

    of: Class


@dataclass(frozen=True)
class Choice:
    """One of several values: branches, entries of a registry."""

    values: tuple[Value, ...]


@dataclass(frozen=True)
class Registry:
    """A dictionary with literal keys."""

    entries: tuple[tuple[object, Value], ...]


@dataclass(frozen=True)
class Space:
    """Names of another module of the program."""

    names: dict[str, Value]

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Super:
    """``super()`` in a method."""

    of: Class

    def __hash__(self) -> int:
        return id(self.of)


Value = Named | Partial | Instance | Class | Object | Choice | Registry | Space | Super | None

TENSOR = Instance("torch.Tensor")
GUESSED_TENSOR = Instance("torch.Tensor", Certainty.GUESSED)


def joined(first: Value, second: Value) -> Value:
    """Either of two values."""
    if first is None or second is None or first == second:
        return second if first is None else first
    values: list[Value] = []
    for each in (first, second):
        for value in each.values if isinstance(each, Choice) else (each,):
            if value not in values:
                values.append(value)
    return Choice(tuple(values[:CHOICES]))


#: values that a name may stand for before the rest is dropped: the largest registry of layers in torchvision has 9 entries
CHOICES = 64


@dataclass
class Use:
    """One place where a callable is used."""

    name: str
    line: int
    column: int
    end_line: int
    end_column: int
    form: Form = Form.CALL
    certainty: Certainty = Certainty.RESOLVED
    positional: list[ast.expr] = field(default_factory=list)
    keywords: list[ast.keyword] = field(default_factory=list)
    inside: str = ""
    data: bool = False
