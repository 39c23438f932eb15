"""The way of one sample through the user's own lines and composed transforms.

Python's trace function is set for this thread and put back on leaving. Watched are frames of the user's own files, and frames of
any file that go through a list of callables, as a composition of transforms does. After each line, values that are new or have changed
become steps, each with the line, and with the steps that the line read.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
import time
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from paralign.worker.process.files import PACKAGE, real_place, system_folders

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.dtypes import Typed

#: steps that are recorded, lines that are looked at, bytes that are kept, at most
STEPS, LINES, BYTES = 400, 100_000, 1 << 29

#: seconds that looking may take
PATIENCE = 30.0

#: bytes of an array up to which every byte counts for telling whether it was changed in place; of larger ones a part
WHOLE = 1 << 22

#: times that one line's value is recorded
TIMES = 16

#: single numbers and texts of one line that are recorded at least, by whatever names: a table that is read word by word would fill a
#: capture; as many as ``times`` where that is more, for a loop that is to be followed
SINGLE = 24

#: the longest list that counts as one value
LISTED = 1 << 16

#: entries of a container that are looked at, and how deep
ENTRIES, DEPTH = 12, 3

#: numbers and arrays outside functions are recorded up to this size: they are constants
SMALL = 64

#: frames of paralign itself are never watched
_OURS = PACKAGE + os.sep

#: frames of their own in Python below 3.12
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})

#: where Python's own library lies
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep

#: Python 3.11 cannot parse in two threads at once: sides of live objects run in threads of one process
_PARSING = threading.Lock()

Convert = Callable[[Any], "Optional[Typed]"]


class Step(NamedTuple):
    """One value and the line that made it.

    ``inputs`` are numbers of earlier steps that the line read.
    """

    number: int
    value: "Typed"
    source: str
    op: str
    kind: str
    function: str
    inputs: Tuple[int, ...]


class Statement(NamedTuple):
    """A statement.

    Its first line, the names that it reads (``self x`` for an attribute), the attributes of ``self`` that it sets.
    """

    line: int
    reads: Set[str]
    stores: Set[str]


class _Frame:
    """What is known of a frame under way.

    The line that runs, the leaves of its locals, and what led to what holds no array.

    ``origin`` are the steps that the line which called it has read, ``called`` those that frames below have returned to its line.
    """

    def __init__(self, composed: List[Any], line: int, origin: Set[int]) -> None:
        self.composed, self.line, self.origin = composed, line, origin
        self.known: Dict[str, Tuple[int, int]] = {}
        self.opaque: Dict[str, Tuple[int, Set[int]]] = {}
        self.called: Set[int] = set()


class Tracer:
    """Collects the steps of what runs inside :meth:`watching`.

    Args:
        convert: a value as an array, or None for what is no array.
        made: the line that built an object, where it is known.
        most: steps that are recorded; 0 for 400.
        times: how often one line's value is recorded; 0 for 16: loops over pixels would fill a capture.

    Attributes:
        steps: in the order in which they were made.
        result: path within what the outermost watched frame returned -> the number of the step that made it.
        exhausted: there was more than is recorded.
    """

    def __init__(self, convert: Convert, made: Callable[[Any], Optional[str]], *, most: int = 0, times: int = 0) -> None:
        self._most, self._most_times = most or STEPS, times or TIMES
        self.steps: List[Step] = []
        self.result: Dict[str, int] = {}
        self.exhausted = False
        self._until = time.monotonic() + PATIENCE
        self._convert, self._made = convert, made
        self._system = system_folders()
        self._files: Dict[str, bool] = {}
        self._frames: Dict[int, _Frame] = {}
        self._seen: Dict[int, Tuple[Any, int, int]] = {}
        self._lines: Dict[str, Dict[int, Statement]] = {}
        self._constants: Dict[Tuple[str, str], int] = {}
        self._times: Dict[Tuple[str, int, str], int] = {}
        self._singles: Dict[Tuple[str, int], int] = {}
        self._count, self._bytes = 0, 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Trace this thread; an earlier trace function is put back on leaving."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            self._frames.clear()

    def _step(self, value: Any, mark: int) -> Optional[int]:
        """The number of the step that made an object as it now is.

        Numbers of Python are no objects of their own.
        """
        known = self._seen.get(id(value))
        if known is not None and known[0] is value and known[2] == mark:
            return known[1]
        return None

    def continued(self) -> "Tracer":
        """Another tracer that knows what this one has seen so far, with bounds of its own."""
        other = Tracer(self._convert, self._made, most=self._most, times=self._most_times)
        other.steps, other._seen = list(self.steps), dict(self._seen)
        return other

    # -- events ----------------------------------------------------------------------------------------------------------------

    def _called(self, frame: "FrameType", event: str, _: Any) -> Any:
        if event != "call" or self.exhausted or frame.f_code.co_filename.startswith(_OURS):
            return None
        composed = self._composed(frame)
        if not composed and not self._is_users(frame.f_code.co_filename):
            return None
        above, caller = self._above(frame)
        state = _Frame(composed, frame.f_lineno, self._read(above, caller) if above is not None and caller is not None else set())
        for path, leaf in _leaves(_own(frame)):
            value = self._convert(leaf)
            mark = _mark(leaf, value)
            known = self._step(leaf, mark)
            if known is None and value is not None and value.array.ndim and above is not None and caller is not None:
                line = self._statement(above.f_code, caller.line).line
                known = self._keep(
                    leaf, value, mark, f"{above.f_code.co_filename}:{line}", path, "argument", above.f_code.co_name, state.origin
                )
            state.known[path] = -1 if known is None else known, mark
            if known is None:
                state.opaque[path] = id(leaf), state.origin
        self._frames[id(frame)] = state
        return self._inside

    def _inside(self, frame: "FrameType", event: str, arg: Any) -> Any:
        state = self._frames.get(id(frame))
        if state is None or self.exhausted:
            return None
        if event == "line":
            self._look(frame, state)
            if self._statement(frame.f_code, frame.f_lineno).line != self._statement(frame.f_code, state.line).line:
                state.called = set()
            state.line = frame.f_lineno
        elif event == "return":
            self._look(frame, state)
            self._returned(frame, state, arg)
            del self._frames[id(frame)]
        return self._inside

    # -- looking ---------------------------------------------------------------------------------------------------------------

    def _look(self, frame: "FrameType", state: _Frame) -> None:
        """Make steps of the locals that the line just run has made or changed."""
        self._count += 1
        if self._count > LINES or time.monotonic() > self._until:
            self.exhausted = True
            return
        for path, leaf in _leaves({**_own(frame), **self._stored(frame, state)}):
            value = self._convert(leaf)
            if value is None:
                if state.opaque.get(path, (None,))[0] != id(leaf):
                    state.opaque[path] = id(leaf), self._read(frame, state)
                continue
            state.opaque.pop(path, None)
            mark, before = _mark(leaf, value), state.known.get(path)
            known = self._step(leaf, mark)
            if known is not None:
                state.known[path] = known, mark
            elif before is None or before[1] != mark:
                self._add(frame, state, path, leaf, value, mark)
            if self.exhausted:
                return

    def _returned(self, frame: "FrameType", state: _Frame, result: Any) -> None:
        """Make steps of what a frame returns, where no local holds it."""
        reads = self._statement(frame.f_code, state.line).reads
        self.result = {}
        for path, leaf in _leaves({"return": result}):
            value = self._convert(leaf)
            if value is None:
                continue
            mark = _mark(leaf, value)
            known = self._step(leaf, mark)
            if known is None and _plain(leaf):
                known = next((n for p, (n, m) in state.known.items() if m == mark and n >= 0 and p.split(".")[0] in reads), None)
            if known is None:
                self._add(frame, state, path, leaf, value, mark)
                known = state.known.get(path, (-1, 0))[0]
            if known >= 0:
                self.result[path.partition(".")[2]] = known
        caller = self._above(frame)[1]
        if caller is not None:
            caller.called |= set(self.result.values())

    def _add(self, frame: "FrameType", state: _Frame, path: str, leaf: Any, value: "Typed", mark: int) -> None:
        here = (frame.f_code.co_filename, state.line, path)
        self._times[here] = self._times.get(here, 0) + 1
        full = self._times[here] > self._most_times
        if not full and value.array.ndim == 0:
            line = frame.f_code.co_filename, state.line
            self._singles[line] = self._singles.get(line, 0) + 1
            full = self._singles[line] > max(SINGLE, self._most_times)
        if full:
            before = -1 if _plain(leaf) else state.known.get(path, (-1, 0))[0]  # an array goes on from what is recorded of it
            state.known[path] = before, mark
            return
        first, inputs = self._statement(frame.f_code, state.line).line, self._read(frame, state)
        transform = next((t for t in _own(frame).values() if any(t is one for one in state.composed)), None) if state.composed else None
        source, op, kind = f"{frame.f_code.co_filename}:{first}", path.split(".", 1)[0].replace(" ", "."), "line"
        if transform is not None:
            source = self._made(transform) or self._caller(frame) or source
            op, kind = str(getattr(transform, "__name__", None) or type(transform).__name__), "transform"
        elif not self._is_users(frame.f_code.co_filename):
            source = self._caller(frame) or source
        number = self._keep(leaf, value, mark, source, op, kind, frame.f_code.co_name, inputs)
        state.known[path] = -1 if number is None else number, mark

    def _keep(
        self, leaf: Any, value: "Typed", mark: int, source: str, op: str, kind: str, function: str, inputs: Set[int]
    ) -> Optional[int]:
        """The number of a new step; None where there is no more room."""
        self._bytes += value.array.nbytes
        if len(self.steps) >= self._most or self._bytes > BYTES:
            self.exhausted = True
            return None
        number = len(self.steps)
        self.steps.append(Step(number, value._replace(array=value.array.copy()), source, op, kind, function, tuple(sorted(inputs))))
        if not _plain(leaf):
            self._seen[id(leaf)] = leaf, number, mark
        return number

    def _read(self, frame: "FrameType", state: _Frame) -> Set[int]:
        """The steps that made what the line reads, directly or through what holds no array."""
        reads = self._statement(frame.f_code, state.line).reads
        found = set(state.called) | self._outside(frame, reads)
        if frame.f_code.co_name in _COMPREHENSIONS:  # what it goes through has no name in its own frame
            found |= state.origin
        for path, (number, _) in state.known.items():
            if path.split(".", 1)[0] in reads:
                found |= {number} if number >= 0 else state.origin
        for path, (_, made) in state.opaque.items():
            if path.split(".", 1)[0] in reads:
                found |= made
        return found

    def _above(self, frame: "FrameType") -> "Tuple[Optional[FrameType], Optional[_Frame]]":
        """The nearest watched frame that called a frame."""
        above = frame.f_back
        while above is not None:
            if id(above) in self._frames:
                return above, self._frames[id(above)]
            above = above.f_back
        return None, None

    # -- what frames are -------------------------------------------------------------------------------------------------------

    def _composed(self, frame: "FrameType") -> List[Any]:
        """The callables in a list that a frame or its object was given; empty without one."""
        code = frame.f_code
        if code.co_filename.startswith(_LIBRARY) and "-packages" not in code.co_filename:  # Python's own: argparse has actions
            return []
        if not code.co_argcount or (code.co_name.startswith("__") and code.co_name != "__call__"):
            return []
        owner = frame.f_locals.get(code.co_varnames[0])
        held = list(getattr(owner, "__dict__", {}).values()) if code.co_varnames[0] == "self" else []
        held += [v for v in frame.f_locals.values() if isinstance(v, (list, tuple))]
        for value in held:
            members = list(dict.values(value)) if isinstance(value, dict) else value
            if isinstance(members, (list, tuple)) and members and all(callable(m) and not isinstance(m, type) for m in members):
                return list(members)
        return []

    def _is_users(self, path: str) -> bool:
        if path not in self._files:
            real = real_place(path)
            self._files[path] = not path.startswith("<") and not any(real.startswith(folder + os.sep) for folder in self._system)
        return self._files[path]

    def _caller(self, frame: "FrameType") -> Optional[str]:
        """The user's line that led to a frame of a library."""
        above = frame.f_back
        while above is not None:
            if self._is_users(above.f_code.co_filename):
                return f"{above.f_code.co_filename}:{above.f_lineno}"
            above = above.f_back
        return None

    def _stored(self, frame: "FrameType", state: _Frame) -> Dict[str, Any]:
        """The attributes of ``self`` that the line just run has set."""
        stores = self._statement(frame.f_code, state.line).stores
        held = _attributes(frame) if stores else {}
        return {f"self {name}": held[name] for name in stores if name in held}

    def _outside(self, frame: "FrameType", reads: Set[str]) -> Set[int]:
        """The steps that made what a line reads of ``self`` and of its module.

        Constants of a module become steps here.
        """
        found: Set[int] = set()
        held = _attributes(frame)
        for name in reads:
            if name.startswith("self "):
                for _, leaf in _leaves({name: held.get(name[5:])}):
                    known = self._seen.get(id(leaf))
                    found |= {known[1]} if known is not None and known[0] is leaf else set()
            elif name not in frame.f_locals and name in frame.f_globals:
                number = self._constant(frame, name)
                found |= {number} if number is not None else set()
        return found

    def _constant(self, frame: "FrameType", name: str) -> Optional[int]:
        """The step of a constant of the frame's module."""
        path, leaf = frame.f_code.co_filename, frame.f_globals[name]
        if (path, name) not in self._constants:
            value = self._convert(leaf) if self._is_users(path) else None
            line = _assigned(path, name) if value is not None and 1 < value.array.size <= SMALL else None
            if value is None or line is None:
                return None
            self._constants[path, name] = len(self.steps)
            self.steps.append(Step(len(self.steps), value, f"{path}:{line}", name, "constant", "", ()))
        return self._constants[path, name]

    def _statement(self, code: "CodeType", line: int) -> "Statement":
        """The statement at a line."""
        if code.co_filename not in self._lines:
            self._lines[code.co_filename] = _statements(code.co_filename)
        return self._lines[code.co_filename].get(line, Statement(line, set(code.co_varnames), set()))


def _own(frame: "FrameType") -> Dict[str, Any]:
    return {name: value for name, value in frame.f_locals.items() if name != "self"}


def _attributes(frame: "FrameType") -> Dict[str, Any]:
    """What the object of a method holds; of a module its buffers as well."""
    held = getattr(frame.f_locals.get("self"), "__dict__", {})
    buffers = held.get("_buffers")
    return {**held, **buffers} if isinstance(buffers, dict) else held


def _plain(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float, complex))


def _leaves(values: Any, path: str = "", depth: int = 0) -> Iterator[Tuple[str, Any]]:
    """Path and value of what is in containers and is none; lists of numbers are values."""
    if isinstance(values, dict):
        items = list(dict.items(values))[: None if depth == 0 else ENTRIES]
    elif isinstance(values, (list, tuple)) and not _whole(values):
        items = list(enumerate(values))[:ENTRIES]
    else:
        yield path, values
        return
    if depth < DEPTH:
        for name, value in items:
            yield from _leaves(value, f"{path}.{name}" if path else str(name), depth + 1)


def _whole(values: Any) -> bool:
    """Whether a list is one value: only numbers, or only texts."""
    if not values or len(values) > LISTED:
        return False
    if all(isinstance(v, str) for v in values):
        return True
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _mark(leaf: Any, value: "Optional[Typed]") -> int:
    """A checksum of what an object holds: it tells what was changed in place."""
    if value is None:
        return id(leaf)
    array = value.array
    if array.nbytes > WHOLE:
        array = array.reshape(-1)[:: array.nbytes // WHOLE + 1] if array.flags.c_contiguous else array[:1]
    array = np.ascontiguousarray(array)
    return zlib.crc32(array.view(np.uint8).reshape(-1).data) if array.size else 0


def _tree(path: str) -> ast.Module:
    """A file's syntax; of one that cannot be read, that of nothing."""
    try:
        with open(path, encoding="utf-8") as file, _PARSING:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.parse("")


def _assigned(path: str, name: str) -> Optional[int]:
    """The one line of a module that assigns a name; None where none does, or several."""
    lines = [
        node.lineno
        for node in _tree(path).body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and part.id == name
    ]
    return lines[0] if len(lines) == 1 else None


def _statements(path: str) -> Dict[int, Statement]:
    """Line -> its innermost statement."""
    found: Dict[int, Statement] = {}
    for node in ast.walk(_tree(path)):  # outer statements come first, inner ones overwrite their lines
        if isinstance(node, ast.stmt):
            statement = _statement_of(node)
            for line in range(node.lineno, max(_last_own_line(node), node.lineno) + 1):
                found[line] = statement
    return found


def _last_own_line(node: ast.stmt) -> int:
    """The last line of a statement before its body, if it has one."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return int(body[0].lineno) - 1
    return int(getattr(node, "end_lineno", node.lineno))


def _own_parts(node: ast.stmt) -> List[ast.AST]:
    """What a statement computes itself: all of it, or its head where it has a body."""
    if not getattr(node, "body", None):
        return [node]
    parts: List[ast.AST] = []
    for name in ("test", "iter", "items", "subject"):
        part = getattr(node, name, None)
        if isinstance(part, list):
            parts += part
        elif part is not None:
            parts.append(part)
    return parts


def _statement_of(node: ast.stmt) -> Statement:
    """The names that a statement reads, and the attributes of ``self`` that it sets."""
    augmented = isinstance(node, ast.AugAssign)  # it reads what it stores
    reads: Set[str] = set()
    stores: Set[str] = set()
    for part in _own_parts(node):
        for inner in ast.walk(part):
            name = _read_name(inner)
            if not name:
                continue
            context = getattr(inner, "ctx", None)
            if augmented or isinstance(context, ast.Load):
                reads.add(name)
            if isinstance(inner, ast.Attribute) and isinstance(context, ast.Store):
                stores.add(inner.attr)
    return Statement(node.lineno, reads, stores)


def _read_name(node: ast.AST) -> str:
    """A name, an attribute of ``self`` as ``self x``; '' of all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self {node.attr}"
    return ""
