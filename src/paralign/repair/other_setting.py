"""Edits of the candidate's settings files: another value in the place of one.

What the reference has under a like name, or in the same place, comes first; then numbers that only it has; then what is taken for one
another by mistake.
"""

from __future__ import annotations

import ast
import math
import re
import time
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.model import SourceLine
from paralign.repair.edits.sentences import instead, tried
from paralign.repair.elsewhere import functions_of, run_by
from paralign.repair.named_literals import COMMON, far
from paralign.repair.named_values import Named, likeness, of_settings, of_sources
from paralign.repair.proposals import Proposal, is_number, literal_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.model import Divergence
    from paralign.repair.edited_settings import Settings
    from paralign.repair.edited_source import Source
    from paralign.repair.settings_scan import Entry

ID = "setting"

#: beside other proposals: the value that the reference has under the same name; the one at its place between equal ones; one that only
#: the reference has; one that follows from such a one; what is taken for one another: a list's axes, truth values, numbers, neighbours
NAMED, PLACED, ODD, DERIVED, SHIFTED, FLIPPED, LESS, MORE, TURNED, DROPPED = 3.0, 2.4, 2.0, 1.2, 1.4, 0.9, 0.8, 0.7, 0.6, 0.4

#: an entry that a list lacks, where only the reference has the text; one that it has in a statement with another entry of the list
ADDED, ADDED_BESIDE = 1.2, 2.4

#: what a value loses that is not the reference's own but follows from it; that stands in its sources, not its settings; for each power of
#: ten between both, from the second on
FOLLOWS, WRITTEN, DECADE = 0.6, 0.6, 0.3

#: what a number loses in the place of one of another sign, a broken one in that of a whole one, and a text that is quite unlike
OTHER_SIGN, NO_COUNT, UNLIKE = 0.9, 0.6, 0.8

#: how often a count may be as large as it was, where nothing but chance tells: a layer or a run of such a size would take all the time
GROWN = 16

#: what a number loses that the reference has as often, if it is none up to so many as every program has
KNOWN, SMALL = 0.4, 10

#: what odd numbers of the reference lose in the place of one that it has as often
NO_SURPLUS = 0.4

#: how like two names are from which on they may mean one setting; from which on they do
ALIKE, SAME = 0.5, 0.9

#: what a value loses that the reference has in the same place
RIGHTLY_PLACED = 0.3

#: what a value earns that stands on a named line; whose key stands near one; in what the stage runs; and loses that only others use
NAMED_LINE, NEAR, RUN, UNUSED = 1.2, 0.9, 0.3, -0.8

#: proposals of all files, values of one name, and numbers of the reference that are tried in each place
MOST, VALUES, FEW = 400, 4, 6

#: entries of a list that is written anew: a longer one is a table
ENTRIES = 8

#: values of a file from which on it is data; numbers of pairs that are looked at for values in the same place
DATA, PAIRS = 400, 40_000

#: values in a row that only the reference has otherwise
PLACES = 3

#: what each further proposal of a value loses, so that those of others are tried between them
CROWD = 0.03


@dataclass(frozen=True)
class _Due:
    """A value that may be the right one, and how much speaks for it."""

    value: Any
    weight: float
    told: bool = True


def proposals(
    stage: str,
    doubtful: Iterable[str],
    settings: tuple[list[Settings], list[Settings]],
    sources: tuple[list[Source], list[Source]],
    points: list[Divergence],
    until: float = math.inf,
) -> list[Proposal]:
    """Edits of the candidate's settings, the likeliest first.

    Args:
        stage: that diverges.
        doubtful: other stages that are not known to be right.
        settings: files of the reference and of the candidate.
        sources: Python files of the reference and of the candidate.
        points: of the stage.
        until: when to stop thinking of edits, by ``time.monotonic()``.
    """
    theirs, own = ([file for file in files if 0 < len(file.entries) <= DATA] for files in settings)
    if not own or time.monotonic() > until:
        return []
    settings = theirs, own
    found: list[Proposal] = []
    known = _known(settings, sources)
    uses = _Uses(stage, doubtful, sources[1], points)
    for file in settings[1]:
        placed, agreed = _places(file, known.theirs, until)
        right: set[Entry] = set()
        for entry in file.entries:
            if time.monotonic() > until:
                return _likeliest(found)
            due, same = _named(entry, known)
            if same or entry.value is ... or _list_of(entry, file) in known.lists:
                right.add(entry)  # an edit of it could only make good a fault elsewhere
                continue
            due += [_Due(each, PLACED - _away(entry.value, each)) for each in placed.get(entry, ())]
            less = RIGHTLY_PLACED * (entry in agreed) + KNOWN * (_tells(entry.value) and not known.surplus[float(entry.value)])
            found += _written(file, entry, _further(entry, due, known), uses.gain(entry, file) - less)
        found += _exchanged(file, uses, agreed | right)
    return _likeliest(found)


def _likeliest(found: list[Proposal]) -> list[Proposal]:
    return sorted(found, key=lambda each: -each.weight)[:MOST]


@dataclass(frozen=True)
class _Known:
    """What both sides have.

    Args:
        theirs: values of the reference with their names; those of its settings files come first.
        files: how many settings files it has.
        lists: its lists of several entries, as text.
        lacking: numbers that it has more often than the candidate.
        surplus: numbers that the candidate has more often.
        texts: words that only the reference has, each with those beside it.
    """

    theirs: list[Named]
    files: int
    lists: set[str]
    lacking: Counter[float]
    surplus: Counter[float]
    texts: dict[str, set[str]]


def _known(settings: tuple[list[Settings], list[Settings]], sources: tuple[list[Source], list[Source]]) -> _Known:
    theirs, own = (of_settings(files) + of_sources(texts, len(files)) for files, texts in zip(settings, sources, strict=True))
    lists = {str(each.value) for each in theirs if isinstance(each.value, list) and len(each.value) > 1}
    return _Known(theirs, len(settings[0]), lists, _surplus(theirs, own), _surplus(own, theirs), _lacked_texts(sources, settings[1]))


def _further(entry: Entry, due: list[_Due], known: _Known) -> list[_Due]:
    """Values that may be right, what follows from them, and what no name tells."""
    follow = [
        _Due(other, each.weight - FOLLOWS - 0.1 * place, told=False)
        for each in due
        for place, other in enumerate(_derived(entry.value, each.value))
    ]
    return due + follow + _odd(entry, known.lacking, known.surplus) + _mistaken(entry) + _added(entry, known.texts)


def _tells(value: Any) -> bool:
    """Whether a number is one that two programs hardly have by chance."""
    return is_number(value) and not (abs(value) <= SMALL and value == int(value))


def _list_of(entry: Entry, file: Settings) -> str:
    """The list that a value is, or is an entry of, as text."""
    around = [each for each in file.entries if each.items > 1 and each.start <= entry.start and entry.end <= each.end]
    return str(around[0].value) if around else ""


def _written(file: Settings, entry: Entry, due: list[_Due], gain: float) -> Iterator[Proposal]:
    """Proposals of one value, each text once."""
    have = file.text[entry.start : entry.end]
    best: dict[str, _Due] = {}
    for each in due:
        text = file.written(entry, each.value)
        if text and text != have and (text not in best or best[text].weight < each.weight):
            best[text] = each
    for place, (text, each) in enumerate(sorted(best.items(), key=lambda pair: -pair[1].weight)):
        words = instead(have, text, entry.name) if each.told else tried(have, text, entry.name)
        yield Proposal(ID, file.edit(entry.start, entry.end, text), words[0], words[1], each.weight + gain - CROWD * place)


def _named(entry: Entry, known: _Known) -> tuple[list[_Due], bool]:
    """Values of the reference under names like this one, and whether one is the same.

    That is only asked of the likest name.
    """
    alike = [(ratio, each) for each in known.theirs if _fits(entry, each.value) and (ratio := likeness(entry.keys, each.keys)) >= ALIKE]
    if not alike:
        return [], False
    alike.sort(key=lambda pair: (-pair[0], pair[1].home))
    best = alike[0][0]
    if any(_same(entry.value, each.value) for ratio, each in alike if ratio >= min(best, SAME + 0.1) - 1e-9):
        turned = "momentum" in entry.name.lower() and isinstance(entry.value, float)  # one framework's is the other's share that is kept
        return [_Due(round(1 - entry.value, 12), NAMED - FOLLOWS, told=False)] if turned else [], best >= SAME and not turned
    found: list[_Due] = []
    for ratio, each in alike:
        if any(_same(other.value, each.value) for other in found):
            continue
        less = 0.3 * len(found) + WRITTEN * (each.home >= known.files) + _away(entry.value, each.value)
        found.append(_Due(each.value, NAMED * min(1.0, ratio) + 0.2 * (ratio > 1.0) - less))
        if len(found) == VALUES:
            break
    return found, False


def _away(have: Any, value: Any) -> float:
    """What a value loses that is far from the one that it takes the place of."""
    if isinstance(have, str) and isinstance(value, str):
        return UNLIKE * (1 - SequenceMatcher(None, have.lower(), value.lower(), autojunk=False).ratio())
    if not is_number(have) or not is_number(value) or not have:
        return 0.0
    if not value or (have < 0) != (value < 0):
        return OTHER_SIGN
    if isinstance(have, int) and value != int(value):
        return NO_COUNT
    return DECADE * min(4.0, max(0.0, abs(math.log10(abs(have)) - math.log10(abs(value))) - 1.0))


def _fits(entry: Entry, value: Any) -> bool:
    """Whether a value of the reference may stand in a place."""
    have = entry.value
    if isinstance(have, list) or isinstance(value, list):
        return isinstance(have, list) and isinstance(value, list) and max(len(have), len(value)) <= ENTRIES
    if isinstance(have, bool) or isinstance(value, bool):
        return isinstance(have, bool) and isinstance(value, bool)
    if isinstance(value, str):
        return isinstance(have, str) and _is_word(value) and _is_word(have)
    return is_number(value) and (is_number(have) or have is None or (isinstance(have, str) and _is_numeric(have)))


def _is_word(text: str) -> bool:
    """Whether a text names a choice, as ``mean`` does: no path, no sentence."""
    return re.fullmatch(r"[A-Za-z][\w-]{1,40}", text) is not None


def _is_numeric(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?", text) is not None


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one: 1 and 1.0, a list and a tuple."""
    if isinstance(one, list) or isinstance(other, list):
        return isinstance(one, list) and isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one.lower().replace("_", "") == other.lower().replace("_", "")  # a class and its name in a table
    return bool(one == other)


def _surplus(some: list[Named], others: list[Named]) -> Counter[float]:
    """Numbers that one side has more often than the other."""
    counts = [Counter(float(each.value) for each in side if is_number(each.value)) for side in (some, others)]
    return counts[0] - counts[1]


def _places(file: Settings, theirs: list[Named], until: float) -> tuple[dict[Entry, list[Any]], set[Entry]]:
    """Values that stand between equal ones in a file of the reference's.

    And entries that are among equal ones themselves.
    """
    own = file.scalars
    found: dict[Entry, list[Any]] = {}
    agreed: set[Entry] = set()
    told = [literal_key(each.value) for each in own]
    for home in sorted({each.home for each in theirs}):
        values = [each.value for each in theirs if each.home == home and not isinstance(each.value, list)]
        if len(told) * len(values) > PAIRS or time.monotonic() > until:
            continue
        blocks = SequenceMatcher(None, told, [literal_key(each) for each in values], autojunk=False).get_opcodes()
        for number, (tag, start, end, first, last) in enumerate(blocks):
            if tag == "equal" and end - start > 1:
                agreed |= set(own[start:end])
            around = [blocks[at] for at in (number - 1, number + 1) if 0 <= at < len(blocks)]
            if tag == "replace" and end - start == last - first <= PLACES and all(each[0] == "equal" for each in around):
                for entry, value in zip(own[start:end], values[first:last], strict=True):
                    if _fits(entry, value):
                        found.setdefault(entry, []).append(value)
    return found, agreed


def _odd(entry: Entry, lacking: Counter[float], surplus: Counter[float]) -> list[_Due]:
    """Numbers that the reference has more often, and what follows from them."""
    have = entry.value
    if not is_number(have) or not lacking:
        return []
    less = 0.0 if surplus[float(have)] else NO_SURPLUS
    near = [each for each in lacking if each != have and _may_stand_for(have, each)]
    near.sort(key=lambda each: (each in COMMON, far(float(have), each)))
    due = [_Due(each, ODD - less - 0.15 * place - 0.5 * (each in COMMON) - _away(have, each)) for place, each in enumerate(near[:FEW])]
    derived = [other for each in near if each not in COMMON for other in _derived(have, each)]
    derived.sort(key=lambda other: far(float(have), float(other)))
    return due + [_Due(other, DERIVED - less - 0.1 * place, told=False) for place, other in enumerate(derived[:FEW])]


def _may_stand_for(have: Any, number: float) -> bool:
    """Whether a number may stand in place of another: for a whole one, one of its size."""
    if isinstance(have, float):
        return True
    return number == int(number) and abs(number) <= GROWN * abs(have)


def _derived(have: Any, value: Any) -> list[float]:
    """What a port may have in place of a number.

    The radius of a window, a share that is kept, a square, a part of a hundred.
    """
    if not is_number(have) or not is_number(value):
        return []
    if isinstance(have, int):
        found = [(value - 1) / 2, value * 2 + 1, value / 2, value * 2, value - 1, value + 1]
    else:
        value = float(value)
        found = [
            1 - value,
            value / 2,
            value * 2,
            *((1 / value, math.sqrt(value), value * value) if value > 0 else ()),
            value / 100,
            value * 100,
        ]
    values = [round(float(each), 12) for each in found if math.isfinite(each) and (each > 0) == (value > 0)]
    return [each for each in values if each not in (have, value) and (isinstance(have, float) or each == int(each))]


def _lacked_texts(sources: tuple[list[Source], list[Source]], settings: list[Settings]) -> dict[str, set[str]]:
    """Words that only the reference has as texts.

    Each with the other texts of the statements in which it stands.
    """
    own = {text for source in sources[1] for text in _texts(source.tree)}
    own |= {each.value for file in settings for each in file.entries if isinstance(each.value, str)}
    found: dict[str, set[str]] = {}
    for source in sources[0]:
        for statement in source.statements():
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.For, ast.With, ast.If, ast.Try)):
                continue  # its parts come by themselves
            texts = set(_texts(statement))
            for text in texts - own:
                found.setdefault(text, set()).update(texts)
    return found


def _texts(tree: ast.AST) -> Iterator[str]:
    """The words that stand as texts in a piece of code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_word(node.value):
            yield node.value


def _added(entry: Entry, lacked: dict[str, set[str]]) -> list[_Due]:
    """A list of words with one more that only the reference has."""
    have = entry.value
    if not isinstance(have, list) or not have or len(have) >= ENTRIES or not all(isinstance(each, str) for each in have):
        return []
    beside = {text: bool(texts & set(have)) for text, texts in lacked.items()}
    order = sorted(lacked, key=lambda text: not beside[text])[:FEW]
    return [_Due([*have, text], (ADDED_BESIDE if beside[text] else ADDED) - 0.1 * place) for place, text in enumerate(order)]


def _mistaken(entry: Entry) -> list[_Due]:
    """What is taken for one another by mistake."""
    have = entry.value
    if isinstance(have, bool):
        return [_Due(not have, FLIPPED, told=False)]
    if isinstance(have, list):
        return _lists(have)
    if isinstance(have, int):
        return [_Due(have - 1, LESS, told=False), _Due(have + 1, MORE, told=False), _Due(-have, DROPPED, told=False)]
    if isinstance(have, float):
        due = [-have, round(1 - have, 12), have * 10, have / 10, have * 2, have / 2]
        return [_Due(float(f"{each:.12g}"), DROPPED - 0.05 * place, told=False) for place, each in enumerate(due)]
    return []


def _lists(have: list[Any]) -> list[_Due]:
    """A list with neighbours exchanged, an entry left out, or axes one more or less."""
    if len(have) > ENTRIES:
        return []
    due = [_Due([*have[:at], have[at + 1], have[at], *have[at + 2 :]], TURNED, told=False) for at in range(len(have) - 1)]
    due += [_Due([*have[:at], *have[at + 1 :]], DROPPED, told=False) for at in range(len(have)) if len(have) > 1]
    numbers = _numbers(have)
    if len(numbers) > 1 and all(isinstance(each, int) and not isinstance(each, bool) for each in numbers):
        due += [_Due(_moved(have, by), SHIFTED, told=False) for by in (1, -1)]
    return due


def _numbers(value: Any) -> list[Any]:
    return [inner for each in value for inner in _numbers(each)] if isinstance(value, list) else [value]


def _moved(value: Any, by: int) -> Any:
    return [_moved(each, by) for each in value] if isinstance(value, list) else value + by


def _exchanged(file: Settings, uses: _Uses, right: set[Entry]) -> Iterator[Proposal]:
    """Two neighbours of a table, of one kind, with each other's values."""
    for one, other in zip(file.scalars, file.scalars[1:], strict=False):
        together = one.keys[:-1] == other.keys[:-1] and isinstance(one.keys[-1], str) and isinstance(other.keys[-1], str)
        if not together or one in right or other in right or not is_number(one.value) or not is_number(other.value):
            continue
        texts = file.text[one.start : one.end], file.text[other.start : other.end]
        if _same(one.value, other.value) or other.start < one.end:
            continue
        text = texts[1] + file.text[one.end : other.start] + texts[0]
        words = tried(f"{one.name}: {texts[0]}, {other.name}: {texts[1]}", f"{one.name}: {texts[1]}, {other.name}: {texts[0]}")
        gain = max(uses.gain(one, file), uses.gain(other, file))
        yield Proposal(ID, file.edit(one.start, other.end, text), words[0], words[1], DROPPED + gain)


class _Uses:
    """Where the candidate's sources use a key.

    Args:
        stage: that diverges.
        doubtful: other stages that are not known to be right.
        sources: of the candidate.
        points: whose lines, and lines that led there.
    """

    def __init__(self, stage: str, doubtful: Iterable[str], sources: list[Source], points: list[Divergence]) -> None:
        self._lines = _lines_of(points)
        self._near: set[str] = set()
        self._run: set[str] = set()
        self._all: set[str] = set()
        for source in sources:
            lines = {line for path, line in self._lines if path == source.path}
            for home in functions_of(source.tree, lines):
                self._near.update(_words(home))
            self._all.update(_words(source.tree))
        for _, node in run_by(stage, doubtful, sources):
            self._run.update(_words(node))

    def gain(self, entry: Entry, file: Settings) -> float:
        """What a value earns by where its key is used."""
        if (file.path, file.line_at(entry.start)) in self._lines:
            return NAMED_LINE
        keys = [str(key) for key in entry.keys if isinstance(key, str)]
        dotted = next((path for at in range(len(keys) - 1) if (path := ".".join(keys[at:])) in self._all), None)
        name = dotted or entry.name
        if name in self._near:
            around = [key for key in keys[:-1] if key in self._all]
            return NEAR if dotted or not around or set(around) & self._near else RUN
        if name in self._run:
            return RUN
        return UNUSED if name in self._all else 0.0


def _lines_of(points: list[Divergence]) -> set[tuple[Path, int]]:
    """The candidate's lines that divergences name, and those that led there."""
    found = set()
    for point in points:
        own = point.candidate
        texts = [] if own is None else [own.source, *own.lines]
        for each in map(SourceLine.of, texts):
            if each is not None:
                found.add((Path(each.file).resolve(), each.line))
    return found


def _words(tree: ast.AST) -> Iterator[str]:
    """The names and the words of texts of a piece of code."""
    for node in ast.walk(tree):
        for part in ("id", "attr", "arg"):
            name = getattr(node, part, None)
            if isinstance(name, str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 200:  # noqa: PLR2004 - a key, no prose
            yield node.value
            yield from re.findall(r"[\w-]+", node.value)
