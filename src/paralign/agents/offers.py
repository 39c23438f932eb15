"""What a tool takes, as data: the schema that agents read and the check of what they send."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from paralign.agents.confined import LONGEST_PATH, text
from paralign.errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.agents.confined import Root

#: entries of a list that a tool takes
MOST = 64


class Kind(Enum):
    """What an argument is."""

    PATH = "path"
    PATHS = "paths"
    TEXT = "text"
    CHOICE = "choice"
    CHOICES = "choices"
    WHOLE = "whole"
    WHOLES = "wholes"
    SECONDS = "seconds"
    FLAG = "flag"


#: kind -> JSON schema
_SCHEMAS: dict[Kind, dict[str, Any]] = {
    Kind.PATH: {"type": "string", "minLength": 1, "maxLength": LONGEST_PATH},
    Kind.PATHS: {"type": "array", "items": {"type": "string", "maxLength": LONGEST_PATH}, "minItems": 1, "maxItems": MOST},
    Kind.TEXT: {"type": "string", "minLength": 1},
    Kind.CHOICE: {"type": "string"},
    Kind.CHOICES: {"type": "array", "items": {"type": "string"}, "maxItems": MOST},
    Kind.WHOLE: {"type": "integer", "minimum": 1},
    Kind.WHOLES: {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": MOST},
    Kind.SECONDS: {"type": "number", "exclusiveMinimum": 0},
    Kind.FLAG: {"type": "boolean"},
}


@dataclass(frozen=True)
class Argument:
    """One argument of a tool.

    Args:
        name: what agents call it.
        kind: what it is.
        about: a sentence for them.
        required: whether it has to be given.
        choices: of ``CHOICE`` and ``CHOICES``.
        most: characters of a text, or the greatest number.
    """

    name: str
    kind: Kind
    about: str
    required: bool = False
    choices: tuple[str, ...] = ()
    most: int = 200

    def schema(self) -> dict[str, Any]:
        """As JSON schema."""
        found = {**_SCHEMAS[self.kind], "description": self.about}
        if self.kind is Kind.CHOICE:
            found["enum"] = list(self.choices)
        if self.kind is Kind.CHOICES:
            found["items"] = {"type": "string", "enum": list(self.choices)}
        if self.kind is Kind.TEXT:
            found["maxLength"] = self.most
        if self.kind in (Kind.WHOLE, Kind.SECONDS):
            found["maximum"] = self.most
        return found

    def read(self, value: Any, root: Root) -> Any:
        """The value that was sent, checked; paths as below the root.

        Raises:
            UsageError: it is of another kind, out of bounds, or no choice.
        """
        if self.kind is Kind.FLAG:
            if not isinstance(value, bool):
                raise UsageError(f"{self.name} must be true or false, not {quoted(value)}")
            return value
        if self.kind in (Kind.WHOLE, Kind.SECONDS):
            return self._number(value)
        if self.kind in (Kind.PATHS, Kind.CHOICES, Kind.WHOLES):
            return self._several(value, root)
        return self._one(value, root)

    def _several(self, value: Any, root: Root) -> list[Any]:
        if not isinstance(value, list):
            raise UsageError(f"{self.name} must be a list, not {quoted(value)}")
        if len(value) > MOST:
            raise UsageError(f"{self.name} has {len(value)} entries; at most {MOST} are taken")
        if self.kind is Kind.WHOLES:
            return [self._number(each) for each in value]
        return [self._one(each, root) for each in value]

    def _one(self, value: Any, root: Root) -> str | Path:
        if self.kind in (Kind.PATH, Kind.PATHS):
            return root.path(value, self.name)
        given = text(value, self.name, self.most)
        if self.choices and given not in self.choices:
            raise UsageError(
                f"{self.name} does not know {quoted(given)}{did_you_mean(given, self.choices)}", hint=f"choose: {', '.join(self.choices)}"
            )
        return given

    def _number(self, value: Any) -> int | float:
        wanted = (int, float) if self.kind is Kind.SECONDS else (int,)
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise UsageError(f"{self.name} must be a number, not {quoted(value)}")
        if not 0 < value <= self.most:
            raise UsageError(f"{self.name} must lie above 0 and be at most {self.most}, not {quoted(value)}")
        return value


@dataclass(frozen=True)
class Offer:
    """A tool as agents see it.

    ``writes``: it makes or replaces files; ``runs``: it runs the project's code.
    """

    name: str
    about: str
    arguments: tuple[Argument, ...]
    writes: bool = False
    runs: bool = False

    def schema(self) -> dict[str, Any]:
        """What the tool takes, as JSON schema."""
        return {
            "type": "object",
            "properties": {each.name: each.schema() for each in self.arguments},
            "required": [each.name for each in self.arguments if each.required],
            "additionalProperties": False,
        }

    def read(self, given: Any, root: Root) -> dict[str, Any]:
        """What was sent, checked.

        Raises:
            UsageError: an argument is unknown, missing, or wrong.
        """
        if not isinstance(given, dict):
            raise UsageError(f"the arguments of {self.name} must be an object, not {type(given).__name__}")
        known = {each.name: each for each in self.arguments}
        for name in given:
            if name not in known:
                raise UsageError(
                    f"{self.name} has no argument {quoted(name)}{did_you_mean(str(name), known)}", hint=f"it takes: {', '.join(known)}"
                )
        missing = [each.name for each in self.arguments if each.required and given.get(each.name) is None]
        if missing:
            raise UsageError(f"{self.name} needs the argument {missing[0]!r}")
        return {name: known[name].read(value, root) for name, value in given.items() if value is not None}
