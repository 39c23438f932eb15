"""What is said of a fault by its kind, wherever a stage gets one sentence.

It is the same on the terminal, on the page and elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.errors import one_line
from paralign.model import SourceLine, argument_differences
from paralign.report.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paralign.model import TracedValue

#: kind of a fault -> what to say of its operation; other kinds say it in their first note
SENTENCES = {
    "different": "{op}: right inputs, another result",
    "missing": "the reference does {step} first, which is missing here",
    "extra": "{op}: this step is not there in the reference",
    "miswired": "{op} takes another value than in the reference",
    "order": "{op}: the right elements, in another order",
    "given": "a parameter, buffer or constant that goes into {op} is none of the reference's",
    "region": "right inputs, another result, by other steps than the reference's",
}

#: arguments that a sentence names
_NAMED = 2

#: digits of a number in a sentence, characters of a value
_DIGITS, _VALUE = 6, 60

#: what belongs to the name of a framework's operation and tells a porter nothing
_DIALECT = frozenset({"aten", "prims", "default", "Tensor", "Scalar", "dim", "int", "float", "self", "_C_ops"})


def operation(module: str, called: str) -> str:
    """An operation as a porter calls it: the layer, else the function's name.

    '' where neither is known.

    Args:
        module: the path of the module that it is in.
        called: its name in the framework, with the kind of the layer behind it.

    >>> operation("bn", "aten.native_batch_norm.default (BatchNorm2d)"), operation("", "aten.tanh.default")
    ('bn (BatchNorm2d)', 'tanh')
    """
    function, _, layer = called.partition(" (")
    kind = layer.rstrip(")")
    if not layer:
        plain = [part for part in function.split(".") if part and part not in _DIALECT]
        kind = ".".join(plain) or function
    if module and kind:
        return f"{module} ({kind})"
    return module or kind


def parted(kind: str, reference: Mapping[str, Any] | None, candidate: Mapping[str, Any] | None) -> str:
    """Arguments that differ between two operations of one kind, as a part of a sentence.

    '' where none is known to.
    """
    if kind != "different" or reference is None or candidate is None:
        return ""
    found = argument_differences(reference, candidate)[:_NAMED]
    return "".join(say("; {name}={own} here, {due} in the reference", name=name, own=repr(own), due=repr(due)) for name, own, due in found)


def valued(value: TracedValue | None) -> str:
    """Both sides' values at a line, as a part of a sentence.

    '' where the reference's is not known.
    """
    if value is None or value.reference is None:
        return ""
    own, due = _apart(value.candidate, value.reference)
    return say("; {own} here, {due} in the reference", own=own, due=due)


def _apart(own: Any, due: Any) -> tuple[str, str]:
    """Two values in few characters, but in enough to tell one from the other."""
    brief = _brief(own), _brief(due)
    return brief if brief[0] != brief[1] else (one_line(repr(own)), one_line(repr(due)))


def _brief(value: Any) -> str:
    """A value in few characters, whose beginning tells most."""
    text = f"{value:.{_DIGITS}g}" if isinstance(value, float) else one_line(repr(value))
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def difference(kind: str, value: TracedValue | None, arguments: tuple[Any, Any], relation: str) -> str:
    """How the two sides differ at a line, as a part of a sentence.

    Values, else arguments, else how the result comes about.

    Args:
        kind: of the fault.
        value: that was followed to the line.
        arguments: of the reference's operation and the candidate's, None where there is no such operation.
        relation: how the result comes from the reference's, in the language that is spoken.
    """
    told = valued(value) or parted(kind, *arguments)
    if told or not relation:
        return told
    return say("; {more}", more=relation)


def steps(region: Sequence[str]) -> str:
    """The lines of the steps at fault, as a part of a sentence.

    '' of a single line, which is named anyway.
    """
    return say("; steps: {lines}", lines=in_short(region)) if len(region) > 1 else ""


def in_short(lines: Sequence[str]) -> str:
    """Lines of code in few words, each file once.

    >>> in_short(["net.py:67", "net.py:68", "net.py:69", "net.py:72", "ops.py:3"])
    'net.py:67-69, 72, ops.py:3'
    """
    files: dict[str, list[int]] = {}
    for text in lines:
        line = SourceLine.of(text)
        if line is not None:
            files.setdefault(line.file, []).append(line.line)
    return ", ".join(f"{one_line(file)}:{_ranges(numbers)}" for file, numbers in files.items())


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers of lines in order, neighbours as a range."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
