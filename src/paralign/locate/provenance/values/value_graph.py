"""A side's recorded expressions as a graph, and which numbers a part of it has seen."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import CaptureFormatError
from paralign.locate.provenance.values.settings_files import SettingsFiles
from paralign.locate.reaching import reached
from paralign.worker.instrumentation.events import LEFT
from paralign.worker.protocol import Provenance
from paralign.worker.provenance.recording import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from paralign.capture import Capture
    from paralign.locate.provenance.values.settings_files import Entry

    Numbers = npt.NDArray[np.float64]

#: numbers beyond this are none of float64
GREATEST = 1.7e308

#: kinds of events that hand a value on as it is
COPIES = frozenset({"parameter", "omitted", "return", "copy", "default"})

#: kinds of expressions that read a value from an object
READINGS = frozenset({"attribute", "item"})

#: a value that stands in a file of settings, which a program has read
SETTING = "setting"

#: how the names of roots begin that say how far the recording had come: up to the next event, or the last one
_BEGINNING, _COUNTING = ("begin:", "sight:"), ("step:", "model")

#: how the names of methods begin that read an entry: ``get``, ``getfloat``, ``pop``
_READERS = ("get", "pop")

#: kinds of expressions that give a line of a file: what is gone through, what is cut out of a text
_HANDED = frozenset({"element", "item"})

#: what a reading takes where nobody has seen how the value came to its object
_UNKNOWN = frozenset({"object", "index", "self"})

#: calls whose elements are pairs, the key or number of each before its value
_PAIRS = frozenset({"items", "enumerate"})

#: roles of what an event takes besides values: the object of a method counts, what decides between two values does not
_ASIDE = frozenset({"test"})


#: numbers of a list of settings: betas, the mean of a picture's channels
SHORT = 8

#: relative difference of root mean squares up to which two arrays of float32 may be one
SAME_RMS = 1e-5

#: numbers that stand in every program, and show nothing
COMMON = frozenset({0.0, 1.0, -1.0, 2.0, -2.0, 0.5})


@dataclass(eq=False)
class Left:
    """The conditions that left a value somewhere, and those that had left it there before.

    Those of before stand in one object: a loop that leaves a name alone has no list of all rounds in each round.
    """

    conditions: list[Expression | Left]

    @property
    def operands(self) -> list[Expression]:
        """Nothing: it makes no value."""
        return []


@dataclass(eq=False)
class Expression:
    """One value: where it was made and of what.

    ``kind`` and ``label`` are those of the recorder (``operation`` ``Add``, ``call`` ``np.cos``, ``constant`` …); ``inputs`` have the role
    that each value plays: an operand's place, an argument's name. ``mark`` is what was kept of the value.
    """

    number: int
    file: str
    line: int
    kind: str
    label: str
    mark: list[Any]
    numbers: Numbers | None
    inputs: list[tuple[str, Expression]] = field(default_factory=list, repr=False)
    users: list[Expression] = field(default_factory=list, repr=False)
    #: the number of the expression in the source: its evaluations share it
    site: int = -1
    #: the conditions that let it be evaluated, or left it the values that it took
    conditions: list[Expression | Left] = field(default_factory=list, repr=False)
    #: of an entry of a file: what is around it, its number among those of its key there, and how many these are
    turn: tuple[tuple[str, ...], int, int] | None = None

    @property
    def source(self) -> str:
        """The line, ``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def word(self) -> str:
        """What an operation is called, without the library's name."""
        return self.label.rpartition(".")[2]

    @property
    def is_own_call(self) -> bool:
        """Whether a call stands in a file of the user's."""
        return self.kind == "call" and bool(self.file)

    @property
    def is_copy(self) -> bool:
        """Whether the value is handed on as it is."""
        return self.kind in COPIES and bool(self.inputs)

    @property
    def uncopied(self) -> Expression:
        """What made the value, before it was handed on as it is."""
        made = self
        while made.is_copy:
            made = made.values[0][1]
        return made

    @property
    def values(self) -> list[tuple[str, Expression]]:
        """What the value was made of."""
        return [(role, each) for role, each in self.inputs if role not in _ASIDE]

    @property
    def scalar(self) -> Any:
        """The number, truth value or text; None for all else."""
        return self.mark[1] if self.mark[0] == "s" else None

    @property
    def operands(self) -> list[Expression]:
        """All that the value was made of, whatever its role."""
        return [inner for _, inner in self.inputs]

    @property
    def is_object(self) -> bool:
        """Whether the value is an object of which only the kind was kept."""
        return bool(self.mark[0] == "k")

    @property
    def size(self) -> int:
        """How many elements a list or an array has."""
        if self.mark[0] == "l":
            return len(self.mark[1])
        return math.prod(self.mark[1]) if self.mark[0] == "a" else 1

    @property
    def rms(self) -> float:
        """The root mean square of a number, a list of numbers, or an array."""
        if self.mark[0] == "a":
            return float(self.mark[2][0])
        held = [float(n) for n in (self.mark[1] if self.mark[0] == "l" else [self.mark[1]])]
        return math.sqrt(sum(n * n for n in held) / max(1, len(held)))


class ValueGraph:
    """The expressions of one side.

    Args:
        lines: of JSON, as the recorder writes them: the sites, then the events.
        pool: the distinct numbers of all arrays.
        roots: name -> number of the event that made what the name stands for.
        rates: the learning rates before each step of a schedule.
        files: that the side has read: what stands in files of settings is part of the graph.
    """

    def __init__(
        self,
        lines: Iterable[str],
        pool: Numbers,
        roots: dict[str, int],
        rates: Sequence[Sequence[float]] = (),
        files: Iterable[str] = (),
    ) -> None:
        self.rates = rates
        self.expressions: list[Expression] = []
        self._made: list[Expression] = []
        self._places: list[int] = []
        self._left_by: dict[int, Left] = {}
        self._choosing: dict[int, Left] = {}
        self._read((json.loads(line) for line in lines), pool)
        self._roots = {name: self._place_of(name, number) for name, number in roots.items()}
        self._add_settings(SettingsFiles(files))

    @classmethod
    def of(cls, capture: Capture) -> ValueGraph:
        """The expressions of a capture of the task ``provenance``.

        Raises:
            CaptureFormatError: lines that are none of the recorder's.
        """
        held = {r.name: r for r in capture.records}
        try:
            text = np.asarray(capture.array(held[EVENTS]), dtype=np.uint8).tobytes().decode()
            pool = np.asarray(capture.array(held["numbers"]), dtype=np.float64)
            answer = Provenance.answer(capture)
            return cls(text.splitlines(), pool, answer.roots, answer.rates, capture.manifest.files)
        except (ValueError, LookupError, TypeError) as fault:
            raise CaptureFormatError(f"the recorded expressions cannot be read: {fault}", where=str(capture.path)) from fault

    def _read(self, lines: Iterator[dict[str, Any]], pool: Numbers) -> None:
        sites = []
        for line in lines:
            if "file" in line:
                sites.append(line)
                continue
            self._places.append(len(self.expressions))
            if line["kind"] == LEFT:
                self._add_left(line["inputs"])
                continue
            site = sites[line["site"]]
            found = Expression(
                len(self.expressions), site["file"], site["line"], line["kind"], site["label"], line["mark"], _numbers(line["mark"], pool)
            )
            found.site = line["site"]
            conditions: list[Expression | Left] = [self._made[line["under"]]] if "under" in line else []
            for role, number in line["inputs"]:
                found.inputs.append((role, self._made[number]))
                self._made[number].users.append(found)
                conditions += [self._made[number]] if role == "test" else self._left(number)
            found.conditions = list(dict.fromkeys(conditions))
            self.expressions.append(found)
            self._made.append(found)

    def _add_left(self, inputs: Sequence[tuple[str, int]]) -> None:
        """Note a value that a condition left somewhere.

        It is the value itself, with the conditions that did so.
        """
        (_, value), *others = inputs
        conditions = self._left(value)
        for role, number in others:
            conditions.append(self._made[number] if role == "test" else self._chosen(number))
        self._left_by[len(self._made)] = Left(conditions)
        self._made.append(self._made[value])

    def _left(self, number: int) -> list[Expression | Left]:
        """What left a value where it is, if a condition did."""
        return [self._left_by[number]] if number in self._left_by else []

    def _chosen(self, number: int) -> Left:
        """The conditions of a value that was chosen itself."""
        if number in self._left_by:
            return self._left_by[number]
        return self._choosing.setdefault(number, Left(self._made[number].conditions))

    def _add_settings(self, settings: SettingsFiles) -> None:
        """Let values read from an object lead to the entry of a file of that name and value."""
        if not settings.entries:
            return
        known: dict[tuple[str, int, str], Expression] = {}
        walked = WalkedElements(self.expressions)
        for each in list(self.expressions):
            entry = _entry(each, settings, walked)
            if entry is None:
                continue
            place = entry.file, entry.line, entry.key
            if place not in known:
                known[place] = Expression(len(self.expressions), entry.file, entry.line, SETTING, entry.key, each.mark, each.numbers)
                known[place].turn = settings.turn(entry)
                self.expressions.append(known[place])
            each.inputs.append((SETTING, known[place]))
            known[place].users.append(each)

    def _place_of(self, name: str, number: int) -> int:
        """Where the event of a root stands among the expressions.

        Of a value that was left somewhere, where that was made.
        """
        if number < 0 or number >= len(self._made):
            return min(number, len(self.expressions))
        if number not in self._left_by or name.startswith(_BEGINNING):
            return self._places[number]
        return self._places[number] - 1 if name.startswith(_COUNTING) else self._made[number].number

    def in_schedule_step(self, number: int) -> list[Expression]:
        """What was computed when a schedule was advanced to a step, or before the first."""
        ends = [self._roots.get(f"step:{n}") for n in (number - 1, number)]
        first = 0 if ends[0] is None else ends[0] + 1
        return self.expressions[first : len(self.expressions) if ends[1] is None else ends[1] + 1]

    def place(self, name: str) -> int | None:
        """The number of an event that the recorder calls by a name."""
        return self._roots.get(name)

    def in_step(self, step: int) -> list[Expression]:
        """All that was done in a training step."""
        return self.expressions[self.place(f"begin:{step}") or 0 : self.place(f"begin:{step + 1}")]

    def sightings(self) -> list[tuple[int, str]]:
        """Which parameters and modules the user's functions took, before which event."""
        seen = [(number, name.split(":", 2)) for name, number in self._roots.items() if name.startswith("sight:")]
        return [(number, words[2]) for number, words in sorted(seen, key=lambda each: int(each[1][1]))]

    def root(self, name: str) -> Expression | None:
        """The expression that made what the recorder calls by a name; None where it is not known."""
        number = self._roots.get(name)
        return None if number is None else self.expressions[number]

    def roots(self, names: Iterable[str]) -> list[Expression]:
        """The known expressions that made what the recorder calls by some names."""
        found = map(self.root, names)
        return [root for root in found if root is not None]

    def building(self) -> list[Expression]:
        """What was computed between the model and the first step."""
        return self.expressions[(self._roots.get("model") or 0) + 1 : self._roots.get("step:0")]


class WalkedElements:
    """Which element a loop had: the key beside it, and the number of its turn.

    Args:
        expressions: of a whole recording, in their order.
    """

    def __init__(self, expressions: Iterable[Expression]) -> None:
        self._walked: dict[Expression, list[Expression]] = {}
        self._places: dict[Expression, tuple[Expression, int]] = {}
        for each in expressions:
            iterable = next((inner for role, inner in each.inputs if role == "iterable"), None) if each.kind == "element" else None
            if iterable is not None:
                elements = self._walked.setdefault(iterable, [])
                self._places[each] = iterable, len(elements)
                elements.append(each)

    def key(self, each: Expression) -> str | None:
        """The text beside a value where a dictionary's items are gone through; None elsewhere."""
        iterable, place = self._places.get(each, (None, 0))
        if iterable is None or iterable.word != "items" or place % 2 == 0:
            return None
        beside = self._walked[iterable][place - 1].scalar
        return beside if isinstance(beside, str) else None

    def turn(self, each: Expression) -> tuple[int, int] | None:
        """The number of the turn in which a loop had a value, and how many turns there were."""
        iterable, place = self._places.get(each, (None, 0))
        if iterable is None or iterable.word == "items":
            return None
        each_turn = 2 if iterable.word in _PAIRS else 1
        turns, rest = divmod(len(self._walked[iterable]), each_turn)
        return None if rest else (place // each_turn, turns)


def keys_of(each: Expression) -> list[str]:
    """What a reading asks its object for: an attribute, a text in brackets or for ``get``."""
    if each.kind == "attribute":
        return [each.label]
    if each.kind == "element":
        return [role for role, _ in each.inputs if not role.isdecimal()]
    texts = [inner.scalar for role, inner in each.inputs if role not in ("self", "object", "function") and isinstance(inner.scalar, str)]
    if each.kind == "item":
        return texts
    is_reader = each.kind == "call" and each.word.startswith(_READERS)
    return texts[::-1] if is_reader else []


def _entry(each: Expression, settings: SettingsFiles, walked: WalkedElements) -> Entry | None:
    """The entry of a file that a reading has its value from."""
    beside = walked.key(each)
    if beside is None and each.kind in _HANDED and isinstance(each.scalar, str):
        return settings.line(each.scalar)
    if each.mark[0] not in ("s", "l"):
        return None
    if each.kind in READINGS and not {role for role, _ in each.inputs} <= _UNKNOWN:
        return None
    asked = keys_of(each) if beside is None else [beside]
    keys = [key for key in asked if settings.has(key, each.mark[1])]
    if not keys:
        return None
    led = behind(each)
    around = [key for inner in led for key in keys_of(inner)]
    turns = [turn for inner in led if (turn := walked.turn(inner)) is not None]
    for key in keys:
        entry = settings.place(key, each.mark[1], [*keys, *around], turns)
        if entry is not None:
            return entry
    return None


def _numbers(mark: list[Any], pool: Numbers) -> Numbers | None:
    """The distinct numbers of a value; None for a value that is no number."""
    if mark[0] == "s":
        return np.array([float(mark[1])]) if _is_finite(mark[1]) else None
    if mark[0] == "l":
        return np.unique(np.array(mark[1], float)) if mark[1] and all(map(_is_finite, mark[1])) else None
    if mark[0] == "a" and mark[3] is not None:
        return pool[mark[3][0] : mark[3][0] + mark[3][1]]
    return None


def _is_finite(value: Any) -> bool:
    """Whether something is a number of float64."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= GREATEST


def behind(root: Expression) -> list[Expression]:
    """A value and all that it was made of."""
    return list(reached([root], lambda each: each.operands))


#: parts of names of functions whose results no constant decides
_DRAWN = ("rand", "normal", "uniform", "param", "shuffle", "choice", "permut", "sample", "seed", "dropout", "load")


#: attributes of tensors that none of their elements decides, and calls that ask the same
_FACTS, _ASKING = frozenset({"shape", "ndim", "dtype", "device", "place"}), frozenset({"len", "size", "dim"})


def of_numbers_alone(expressions: Iterable[Expression], held: Sequence[tuple[int, float]] = ()) -> list[Expression]:
    """The expressions made of constants only, in the order of their graph.

    ``held`` are size and root mean square of arrays that come from elsewhere, as parameters do.
    """
    given = list(expressions)
    sizes: dict[int, list[float]] = {}
    for size, rms in held:
        sizes.setdefault(size, []).append(rms)
    found = dict.fromkeys(each for each in given if each.kind == SETTING)
    for each in given:
        if each.mark[0] == "a" and any(math.isclose(each.rms, rms, rel_tol=SAME_RMS) for rms in sizes.get(each.size, ())):
            continue
        was_read = any(inner.kind == SETTING for _, inner in each.inputs)
        if was_read or _is_fact(each) or (not _comes_from_outside(each) and all(inner in found for _, inner in each.inputs)):
            found[each] = None
    return list(found)


def _is_fact(each: Expression) -> bool:
    """Whether a tensor is asked how large it is or of which type."""
    word = each.word
    if each.kind == "attribute":
        return word in _FACTS
    return each.kind == "call" and word in _ASKING and each.mark[0] in ("s", "l") and each.numbers is not None


def _comes_from_outside(each: Expression) -> bool:
    """Whether a value is drawn or loaded by a call, or was handed to the program."""
    if each.kind == "call":
        label = each.label.lower()
        return any(part in label for part in _DRAWN)
    return each.kind in ("input", "attribute", "item") and not each.inputs
