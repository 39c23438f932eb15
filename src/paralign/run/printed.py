"""What a program prints, as words and numbers, and which lines belong together."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

#: lines of one run that are read: a program that prints more writes a log, not a result
MOST = 2_000

#: words in common, of all words, from which two lines without an equal counterpart are held to say the same thing
LIKE = 0.5

#: a number that stands for itself: not part of a name (resnet50), a version (1.2.3) or a file (01.png)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)(?!\w|\.\w)", re.IGNORECASE)

#: the name of a file that may hold weights, in quotes or not: what stands before its ending, and the ending
_WEIGHTS = re.compile(
    r"(?<![^\s'\"=:,;(\[{])([^\s'\"=:,;()\[\]{}]*)\.(?:pth|pt|bin|ckpt|safetensors|pdparams|pdiparams|pdmodel|pdopt|onnx)(?![\w.]*\w)"
)

#: what stands for the name of a side's own weights in a line's words, and for the ending of any other such name
WEIGHTS, ENDING = "<weights>", ".weights"

#: what stands for a number in a line's words
MARK = "#"


@dataclass(frozen=True)
class Number:
    """A printed number.

    ``unit`` is the value of its last digit, 0 for whole numbers, which are exact.
    """

    value: float
    unit: float
    text: str


@dataclass(frozen=True)
class Line:
    """A printed line, from 1.

    ``words`` has ``#`` in place of each number, and ``<weights>`` in place of the name of the side's own weights; of the name of
    any other such file the ending is left out. ``stems`` leaves out endings alone.
    """

    number: int
    text: str
    words: str
    stems: str
    numbers: tuple[Number, ...] = ()


@dataclass
class Lines:
    """The lines of one run; ``left_out`` counts those that are not results."""

    kept: list[Line] = field(default_factory=list)
    left_out: int = 0


def parse(text: str, wanted: str = "", weights: Iterable[str] = ()) -> Lines:
    r"""The lines of an output that are not blank.

    Args:
        text: what was printed.
        wanted: a regular expression; lines in which it is not found are left out.
        weights: files of the side's own weights; folders before a name are not looked at.

    >>> parse("top1: 0.970 cat\n").kept[0].words
    'top1: # cat'
    """
    found = Lines()
    own = {_last(name) for name in weights}
    pattern = re.compile(wanted) if wanted else None
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        stripped = line.rpartition("\r")[2].strip()  # a progress bar overwrites itself
        if not stripped:
            continue
        if len(found.kept) >= MOST or (pattern is not None and pattern.search(stripped) is None):
            found.left_out += 1
            continue
        numbers = tuple(_number(match.group()) for match in _NUMBER.finditer(_WEIGHTS.sub(WEIGHTS, stripped)))
        found.kept.append(Line(number, stripped, _words(stripped, own), _words(stripped), numbers))
    return found


def _last(path: str) -> str:
    """The name of a file, without the folders before it."""
    return re.split(r"[/\\]", path)[-1]


def _words(text: str, own: Collection[str] = ()) -> str:
    """A line without its numbers, endings of weights, and names of the side's own.

    Numbers in names of weights stay.
    """
    parts, end = [], 0
    for name in _WEIGHTS.finditer(text):
        parts += [_NUMBER.sub(MARK, text[end : name.start()]), WEIGHTS if _last(name.group()) in own else name[1] + ENDING]
        end = name.end()
    return " ".join("".join([*parts, _NUMBER.sub(MARK, text[end:])]).split())


def weights_in(words: Iterable[str]) -> list[str]:
    """The files among the words of a command that may hold weights.

    >>> weights_in(["run.py", "--weights=runs/net.pt", "cat.png"])
    ['runs/net.pt']
    """
    return [match.group() for word in words for match in _WEIGHTS.finditer(word)]


def say_the_same(one: Line, other: Line) -> bool:
    """Whether two lines differ in numbers and names of weights alone."""
    return one.words == other.words or one.stems == other.stems


def _number(text: str) -> Number:
    mantissa, _, exponent = text.lower().partition("e") if "inf" not in text.lower() else (text, "", "")
    digits = len(mantissa.partition(".")[2])
    if "." not in mantissa and not exponent:
        return Number(float(text), 0.0, text)
    return Number(float(text), 10.0 ** (int(exponent or 0) - digits), text)


def matched(reference: Sequence[Line], candidate: Sequence[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Lines of both sides that say the same thing, in order.

    Those of equal words first, then those between them that are alike.
    """
    matcher = difflib.SequenceMatcher(None, [line.words for line in reference], [line.words for line in candidate], autojunk=False)
    for kind, first, past_first, second, past_second in matcher.get_opcodes():
        one, other = list(reference[first:past_first]), list(candidate[second:past_second])
        if kind == "equal":
            yield from zip(one, other, strict=True)
        else:
            yield from _alike(one, other)


def _alike(reference: list[Line], candidate: list[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Pair lines of a differing stretch, each with the first that is like it."""
    rest = list(candidate)
    for line in reference:
        place = next((n for n, other in enumerate(rest) if likeness(line, other) >= LIKE), None)
        if place is None:
            yield line, None
            continue
        for skipped in rest[:place]:
            yield None, skipped
        yield line, rest[place]
        rest = rest[place + 1 :]
    for other in rest:
        yield None, other


def likeness(one: Line, other: Line) -> float:
    """The share of words that two lines have in common, from 0 to 1.

    Names before a colon and numbers count as words.
    """
    first, second = (re.findall(r"[^\W_]+|#", line.words.lower()) for line in (one, other))
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


def varying(first: Sequence[Line], second: Sequence[Line]) -> dict[str, float]:
    """What changes between two runs of one program.

    Stems of a line, which both sides' lines share -> the greatest relative distance of its numbers.

    A line that only one run has, or whose words differ, is infinitely far.
    """
    found: dict[str, float] = {}
    for one, other in matched(first, second):
        if one is None or other is None or one.words != other.words:
            for line in (one, other):
                if line is not None:
                    found[line.stems] = float("inf")
            continue
        far = max((_apart(a, b) for a, b in zip(one.numbers, other.numbers, strict=True)), default=0.0)
        if far > 0:
            found[one.stems] = max(far, found.get(one.stems, 0.0))
    return found


def _apart(one: Number, other: Number) -> float:
    if one.text == other.text:
        return 0.0
    size = max(abs(one.value), abs(other.value))
    if size and size != float("inf"):
        return abs(one.value - other.value) / size
    return float("inf")
