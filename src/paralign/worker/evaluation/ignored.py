"""Which label a side leaves out, where the labels that are compared have none such.

The number is looked for in the labels of other splits, and in what the side's metric and loss hold their labels against. A number
from code counts only if an experiment shows that the side leaves it out.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from paralign.worker.datasets.data import split_batch
from paralign.worker.evaluation.metrics import as_tensors, joined_batches
from paralign.worker.evaluation.probes import Given, filled, find, labelled, left_out_by_labels, rows_of
from paralign.worker.process.files import system_folders
from paralign.worker.protocol import Evaluate, Ignorable, IgnoredLabel, IgnoredLabels
from paralign.worker.sides import stateful
from paralign.worker.sides.frames import is_users
from paralign.worker.sides.session import takes_nothing
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: batches of another split whose labels are read
BATCHES = 8

#: seconds after which no further batch of other splits is read, and no further number tried
PATIENCE = 10.0

#: numbers that are tried by an experiment, of two calls each; real code compares with few
TRIED = 16

#: what names of arguments and attributes have in common that say which label is left out
NAMED = "ignor"

#: functions and methods that compare which element is greater, and all that compare elements with a number
ORDERING = frozenset(("ge", "gt", "le", "lt", "greater", "greater_equal", "less", "less_equal", "greater_than", "less_than"))
COMPARING = frozenset(("eq", "ne", "equal", "not_equal", "masked_fill", "full_like", "isin")) | ORDERING

#: which of the later samples get other scores: all, each second, each third; right answers that were lost may be regained in one of them
TURNED = ((0, 1), (0, 2), (1, 3))

#: relative difference up to which two results of a metric or a loss are one
SAME = 1e-4


@dataclass(frozen=True)
class Clue:
    """A number that may be a label to be left out, and where it stands.

    One that is ``named`` so is left out wherever scores beside it do not count; any other only where the result is that without it.

    ``beyond``: whether code only compares labels with a bound at or beside which it lies.
    """

    value: int
    source: str
    named: bool = False
    beyond: bool = False


def ignorable(session: Session, writer: CaptureWriter, options: Ignorable, values: Dict[str, Capture]) -> IgnoredLabels:  # noqa: ARG001 - every task has these
    """The numbers that other splits' labels or the side's code leave out.

    None where the labels that are compared have one themselves: it is used then.
    """
    evaluation = values["evaluation"]
    together = joined_batches(evaluation, Evaluate.answer(evaluation).batches)
    given = find(*together) if together is not None else None
    if given is None or given.target is None or left_out_by_labels(given) is not None:
        return IgnoredLabels()
    function = stateful.function_of(session) if options.function == "metric" else session.function("loss")
    trial = _Trial(session, given, function)
    untried = session.device != "cpu"  # a label out of range ends the process there
    info = np.iinfo(given.numbers.dtype)
    found: Dict[int, IgnoredLabel] = {}
    for clue in _of_splits(session, given, options.splits):
        if clue.value not in found and info.min <= clue.value <= info.max:
            ignores = not untried and trial.leaves_out(clue)
            found[clue.value] = IgnoredLabel(clue.value, clue.source, ignores, in_data=True)
    until = time.monotonic() + PATIENCE
    fitting = (clue for clue in _of_code(session, given, function) if info.min <= clue.value <= info.max)
    for clue in islice(fitting, TRIED):
        if clue.value not in found and (untried or trial.leaves_out(clue)):
            found[clue.value] = IgnoredLabel(clue.value, clue.source, not untried, in_data=False, beyond=clue.beyond)
        if time.monotonic() > until:
            break
    return IgnoredLabels(list(found.values()), untried)


# -- labels of other splits --------------------------------------------------------------------------------------------------------


def _of_splits(session: Session, given: Given, splits: Tuple[str, ...]) -> Iterator[Clue]:
    """Numbers below 0, or 255, in the first labels of other splits."""
    if "build_dataloader" not in session.functions or takes_nothing(session.functions["build_dataloader"]):
        return  # there is one set, whatever the split is called
    until = time.monotonic() + PATIENCE
    for split in splits:
        session.seed()
        with suppress(Exception):  # a split that there is not, or that cannot be read, tells nothing
            for batch in islice(session.function("build_dataloader")(split), BATCHES):
                labels = _labels(session, batch, given.target or "")
                value = None if labels is None else left_out_by_labels(given, labels)
                if value is not None:
                    yield Clue(value, split, named=True)
                    break
                if time.monotonic() > until:
                    return


def _labels(session: Session, batch: Any, path: str) -> Any:
    """The labels of a batch at ``path``; None where they are no whole numbers."""
    found = dict(leaves(split_batch(batch)[1], session.adapter.is_tensor))
    array = _array(session, found[path])
    return array if array.dtype.kind in "iu" else None


# -- what code compares labels with ------------------------------------------------------------------------------------------------


def _of_code(session: Session, given: Given, function: Callable[..., Any]) -> Iterator[Clue]:
    """Numbers that are no class and that a function's code compares with or calls ignored."""
    seen = _Seen()
    outputs, labels = as_tensors(session, given.outputs), as_tensors(session, given.labels)
    session.seed()
    with suppress(Exception), session.adapter.no_grad(), seen.watching():  # what it raises is told by its own stage
        function(outputs, labels)
    classes = given.values.shape[given.axis]
    told = set()
    for clue in sorted(seen.clues, key=lambda clue: (not clue.named, clue.beyond)):
        is_class = 0 <= clue.value < classes
        is_vague = session.device != "cpu" and not clue.named  # what is not tried there is told, if it is worth it
        if is_class or is_vague or clue.value in told:
            continue
        told.add(clue.value)
        yield clue


@dataclass
class _Seen:
    """What the code that runs compares with, and what it calls ignored.

    Names are looked up when its functions return.
    """

    clues: List[Clue] = field(default_factory=list)
    _comparisons: Dict["CodeType", List["_Comparison"]] = field(default_factory=dict)
    _folders: List[str] = field(default_factory=system_folders)
    _users: Dict[str, bool] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the functions that return."""
        before = sys.getprofile()
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _event(self, frame: "FrameType", event: str, _: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        if code.co_filename not in self._users:
            self._users[code.co_filename] = is_users(code.co_filename, self._folders)
        is_own = self._users[code.co_filename]
        self._of_arguments(frame, is_own=is_own)
        if not is_own:
            return
        if code not in self._comparisons:
            self._comparisons[code] = _comparisons(code)
        for comparison in self._comparisons[code]:
            value = _looked_up(comparison.operand, frame)
            if value is not None:
                place = f"{code.co_filename}:{comparison.line}"
                self.clues += [
                    Clue(value + shift, place, comparison.named, comparison.of_order or shift != 0) for shift in comparison.shifts
                ]

    def _of_arguments(self, frame: "FrameType", *, is_own: bool) -> None:
        """Keep an argument that is called one to be ignored and is not the default.

        Inside a library, one without a default may be the library's own number.
        """
        code = frame.f_code
        names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if NAMED in name]
        for name in names:
            value, usual = _number(frame.f_locals.get(name)), _default(frame, name)
            is_given = value != usual and (is_own or usual is not inspect.Parameter.empty)
            if value is not None and is_given:
                self.clues.append(Clue(value, f"{name} of {code.co_name}()", named=True))


@dataclass(frozen=True)
class _Comparison:
    """An operand that elements are compared with.

    ``shifts``: how far from it the numbers are that the comparison tells apart. ``of_order``: whether it compares which is greater.
    """

    operand: ast.expr
    line: int
    shifts: Tuple[int, ...]
    named: bool = False
    of_order: bool = False


def _comparisons(code: "CodeType") -> List[_Comparison]:
    """Every comparison in the source of a function; none where there is no source."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # typed at a prompt, made by exec(), or a part of an expression
        return []
    found: List[_Comparison] = []
    for node in ast.walk(tree):
        line = first + getattr(node, "lineno", 1) - 1
        if isinstance(node, ast.Compare):
            equal = all(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops)
            shifts = (0,) if equal else (0, -1, 1)
            found += [_Comparison(each, line, shifts, of_order=not equal) for each in (node.left, *node.comparators)]
        elif isinstance(node, ast.Call):
            found += [_Comparison(each.value, line, (0,), named=True) for each in node.keywords if each.arg and NAMED in each.arg]
            name = _name(node.func)
            if name in COMPARING:
                found += [_Comparison(each, line, (0, -1, 1), of_order=name in ORDERING) for each in node.args]
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _looked_up(operand: ast.expr, frame: "FrameType") -> Optional[int]:
    """The whole number that an operand is: written, named, or an attribute.

    None for any other operand.
    """
    if isinstance(operand, ast.UnaryOp) and isinstance(operand.op, ast.USub):
        value = _looked_up(operand.operand, frame)
        return None if value is None else -value
    return _number(_value(operand, frame))


def _value(operand: ast.expr, frame: "FrameType") -> Any:
    if isinstance(operand, ast.Constant):
        return operand.value
    if isinstance(operand, ast.Name):
        return frame.f_locals.get(operand.id, frame.f_globals.get(operand.id))
    if isinstance(operand, ast.Attribute):
        held = getattr(_value(operand.value, frame), "__dict__", None)  # no property of the user's is run
        return held.get(operand.attr) if held is not None else None
    return None


def _number(value: Any) -> Optional[int]:
    if type(value) is int or isinstance(value, np.integer):
        return int(value)
    return None


def _default(frame: "FrameType", name: str) -> Any:
    """What the function of a frame takes for an argument that is not given.

    ``Parameter.empty`` where that is not known.
    """
    code = frame.f_code
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    known = [frame.f_globals.get(code.co_name), *(vars(kind).get(code.co_name) for kind in type(owner).__mro__)]
    for each in known:
        function = inspect.unwrap(each) if callable(each) else None
        if function is not None and getattr(function, "__code__", None) is code:
            parameter = inspect.signature(function).parameters.get(name)
            return parameter.default if parameter is not None else inspect.Parameter.empty
    return inspect.Parameter.empty


# -- the experiment ----------------------------------------------------------------------------------------------------------------


@dataclass
class _Trial:
    """An experiment: does a function leave out samples of a label?

    With the label on half of the samples, the result has to be that of the others.
    """

    session: Session
    given: Given
    function: Callable[..., Any]
    _known: Dict[str, List[Any]] = field(default_factory=dict)

    def leaves_out(self, clue: Clue) -> bool:
        """Whether the samples of this label do not count."""
        with suppress(Exception), self.session.adapter.no_grad():  # a function that refuses a label does not leave it out
            return self._leaves_out(clue)
        return False

    def _leaves_out(self, clue: Clue) -> bool:
        given = self.given
        half = (len(given.numbers) + 1) // 2
        outputs, labels = labelled(given, lambda a: filled(a, clue.value, half))
        result = self._result(outputs, labels)
        turned = [self._turned(range(half + first, len(given.numbers), step)) for first, step in TURNED]
        if not self._known:
            self._known["given"] = self._result(given.outputs, given.labels)
            self._known["half"] = self._result(*rows_of(given, half))
        if not all(_same(result, self._result(other, labels)) for other in turned):
            return False
        if all(_same(self._known["given"], self._result(other, given.labels)) for other in turned):
            return False  # the function looks at no such scores
        return clue.named or _same(result, self._known["half"])

    def _turned(self, rows: Iterable[int]) -> Any:
        """The outputs with the scores of some samples turned round by one class."""
        path, axis = self.given.scores or "", self.given.axis
        value = self.given.outputs[1][path]
        array = value.array.copy()
        chosen = list(rows)
        array[chosen] = np.roll(array[chosen], 1, axis)
        return self.given.outputs[0], {**self.given.outputs[1], path: value._replace(array=array)}

    def _result(self, outputs: Any, labels: Any) -> List[Any]:
        session = self.session
        session.seed()
        made = self.function(as_tensors(session, outputs), as_tensors(session, labels))
        return [_array(session, leaf) for _, leaf in leaves(made, session.adapter.is_tensor)]


def _array(session: Session, leaf: Any) -> Any:
    """A leaf as an array; a text as one of texts."""
    value = to_value(leaf, session.adapter)
    return np.asarray(value if isinstance(value, str) else value.array)


def _same(one: List[Any], other: List[Any]) -> bool:
    """Whether two results hold the same numbers, rounding aside."""
    if [array.shape for array in one] != [array.shape for array in other]:
        return False
    return all(_alike(a, b) for a, b in zip(one, other))


def _alike(one: Any, other: Any) -> bool:
    if one.dtype.kind not in "fciub":
        return bool((one == other).all())
    return np.allclose(one, other, rtol=SAME, atol=SAME**2, equal_nan=True)
