"""``--prove``: each converted class and function held against its original.

They are given what the original's forward pass hands to it.

Both models run once in float64, with the same weights and inputs, and every call of a layer is recorded. A class is proven where each of
its calls had the original's inputs and gave the original's outputs. A function of a module's top level is called by itself with what the
original was given, and is proven where it gives back what the original did. Everything else is said by name: nothing that was not
reached counts.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.digest import agree
from paralign.catalogue.lookup import entry_of
from paralign.dtypes import is_complex, is_floating, widen
from paralign.errors import WorkerFailed
from paralign.port.edits.ledger import Fate, FileFate
from paralign.port.proofs.line_facts import Fact, LineFact, Proof, Ran, counts, line_facts
from paralign.port.proofs.told_results import told_apart
from paralign.stages.weights import stage as weights
from paralign.worker.protocol import Forward, Functions, runs_of
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record
    from paralign.port.edits.ledger import Ledger, Place
    from paralign.worker.protocol import FunctionCall, LayersTold

#: greatest relative L2 distance of outputs in float64: correct ports of ResNets are 5e-12 to 2e-9 apart as a whole
TOLERANCE = 1e-8

#: what is said of a call that shows nothing
SILENT = "it gives nothing back, or nothing finite, and changes nothing that can be compared"

#: what is said of a class whose calls show nothing
NOTHING = "no finite element of its outputs, and nothing that it changes, was compared"

#: what is said of a call whose result has another structure
OTHER = "it gives back values of another form, or other numbers"

#: known differences that are told of one class or function
CAUSES = 3

#: elements this power of two above the others do not count as of their size: fills of masks
HUGE = 10

#: greatest distance of inputs by their digests, which are less exact than values
INPUTS = 1e-6


@dataclass(frozen=True)
class Proven:
    """What a proof came to: each class and function, and each place of the ledger."""

    proofs: list[Proof]
    lines: list[LineFact]


@dataclass(frozen=True)
class Defined:
    """A class or function of a file's top level, by its header's line and its end."""

    path: str
    line: int
    end: int
    name: str
    is_class: bool


def prove(context: Context, ledger: Ledger, sources: Mapping[str, str], package: str = "") -> Proven:
    """Hold every class and function against its conversion; tell of every line.

    Args:
        context: both sides of the project, described, with inputs.
        ledger: of the conversion.
        sources: the original's text by path, as the ledger names files.
        package: the package that these paths begin in; '' where they begin at the root.

    Raises:
        WorkerFailed: a side cannot be built.
    """
    made = weights.run(context)
    values = {} if context.inputs is None else {"inputs": context.inputs}
    problem = "" if values else "the model has no inputs"
    if context.plan is None or not context.plan.complete:
        problem = problem or f"the weights could not be carried over: {made.verdict}"
    called: dict[str, Seen] = {}
    alone = _Alone()
    defined = [each for path, text in sources.items() for each in definitions(path, text)]
    modules = {dotted(path, package): path for path in sources}
    if not problem:
        called, problem = _in_whole_passes(context, sorted(modules), values)
    names = sorted(_module_name(each, package) for each in defined if not each.is_class)
    if modules and values:  # whether or not the whole port runs
        alone = _by_themselves(context, names, modules, values)
    found: list[Proof] = []
    for each in defined:
        by_name = called if each.is_class else alone.seen
        proof = proof_of(each, ledger, by_name.get(_module_name(each, package)), problem)
        proof = replace(proof, repaired=notes(each, ledger, Fate.REPAIRED))
        if proof.fact is Fact.UNPROVEN:
            proof = replace(proof, causes=causes(each, ledger))
        found.append(proof)
    return Proven(found, line_facts(ledger, found, sources, alone.ran))


def _in_whole_passes(context: Context, modules: list[str], values: dict[str, Capture]) -> tuple[dict[str, Seen], str]:
    """What the layers of each class do in a pass of both sides; or why none ran in float64."""
    reference, candidate = context.record_both("forward", Forward([DOUBLE], modules="full", watched=modules), values)
    reasons = [reason for each in (reference, candidate) for reason in runs_of(each).failed.values()]
    if reasons:
        return {}, f"no pass in float64: {reasons[0]}"
    return layers_compared(reference, candidate, Forward.answer(reference).layers, Forward.answer(candidate).layers), ""


def _module_name(each: Defined, package: str) -> str:
    """A definition as ``module:name``."""
    return f"{dotted(each.path, package)}:{each.name}"


def dotted(path: str, package: str) -> str:
    """The module of a file."""
    parts = path.removesuffix(".py").split("/")
    names = [package, *parts] if package else parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


@dataclass
class _Alone:
    """What the calls of each function came to, by ``module:name``, and which lines ran."""

    seen: dict[str, Seen] = field(default_factory=dict)
    ran: Ran = field(default_factory=Ran)


def _by_themselves(context: Context, names: list[str], modules: dict[str, str], values: dict[str, Capture]) -> _Alone:
    """Record calls of functions made again by themselves.

    ``modules``: module -> path, of those whose lines are watched.
    """
    order = Functions(names, modules=sorted(modules))
    try:
        reference = context.reference.record("functions", order, values)
    except WorkerFailed:  # a program that cannot be watched: then no function counts as reached
        return _Alone()
    answer = Functions.answer(reference)
    passed, built = ({modules[name]: frozenset(lines) for name, lines in each.items()} for each in (answer.passed, answer.built))
    try:
        candidate = context.candidate.record("functions", order, {**values, "calls": reference})
    except WorkerFailed:
        return _Alone(ran=Ran(passed, built))
    ours = {(call.name, call.number): call for call in Functions.answer(candidate).calls}
    found: dict[str, Seen] = {}
    for call in answer.calls:
        seen = found.setdefault(call.name, Seen())
        seen.calls += 1
        other = ours.get((call.name, call.number))
        if other is None:
            seen.closed = seen.closed or call.problem or "the original raises"
            continue
        reason = other.problem or call_apart(call, other, reference, candidate, seen)
        seen.note(f"call {call.number}", reason)
    return _Alone(found, Ran(passed, built))


def call_apart(call: FunctionCall, other: FunctionCall, reference: Capture, candidate: Capture, seen: Seen) -> str:
    """Why a call that both sides have made is not shown right, '' where it is.

    Notes how far results are apart.
    """
    if call.silent and other.silent:
        return SILENT
    if call.silent != other.silent:
        return OTHER
    reason = result_apart(call, other, reference, candidate, seen)
    if reason:
        return reason
    if call.given and other.given and told_apart(call.given, other.given) > TOLERANCE:
        return "it leaves its arguments otherwise"
    return call.hidden or (f"in the port, {other.hidden}" if other.hidden else "")


def result_apart(call: FunctionCall, other: FunctionCall, reference: Capture, candidate: Capture, seen: Seen) -> str:
    """Why the results of one call are not equal, '' where they are; notes how far."""
    apart = told_apart(call.result, other.result)
    seen.error = max(seen.error, apart)
    if apart > TOLERANCE:
        return OTHER
    name = f"{call.name}#{call.number}"
    ours, theirs = _outputs_of(reference, name), _outputs_of(candidate, name)
    reason = apart_by(ours, theirs, reference, candidate, seen)
    if reason:
        return reason
    if [_kind(record.dtype) for record in ours] != [_kind(record.dtype) for record in theirs]:
        return "a result is of another kind of numbers"
    return ""


def _outputs_of(capture: Capture, name: str) -> list[Record]:
    """What a call gave in float64."""
    return [record for record in capture.select(name=name, run=DOUBLE) if record.role == "output"]


def _kind(dtype: str) -> str:
    """Whether a type is one of truth values, whole, floating or complex numbers."""
    if dtype == "bool":
        return "bool"
    if is_complex(dtype):
        return "complex"
    return "floating" if is_floating(dtype) else "whole"


def notes(each: Defined, ledger: Ledger, fate: Fate) -> tuple[str, ...]:
    """What the ledger says of lines of one fate."""
    return tuple(f"line {place.line}: {place.note}" for place in _places(each, ledger) if place.fate is fate)


def _places(each: Defined, ledger: Ledger) -> list[Place]:
    """The places of the ledger that lie in a definition."""
    return [place for place in ledger.places if place.path == each.path and each.line <= place.line <= each.end]


def causes(each: Defined, ledger: Ledger) -> tuple[str, ...]:
    """What ledger and catalogue say of converted lines that may differ all the same."""
    found: dict[str, None] = {}
    for place in _places(each, ledger):
        told = [place.note] if place.fate in (Fate.CONDITION, Fate.UNTOUCHED) else []
        for name in place.entries:
            entry = entry_of(name)
            if entry is not None:
                told.append(entry.differs.en)
        found.update(dict.fromkeys(f"line {place.line}: {place.name}: {text}" for text in told if text))
    return tuple(found)[:CAUSES]


@dataclass
class Seen:
    """Calls of the layers of one class, or of one function.

    ``closed``: why one of these cannot be made again. ``wrong``: how one differs that had the original's inputs. ``compared``: of
    layers, finite elements of outputs and values that calls change; None of functions, each of whose calls is asked by itself.
    ``unasked``: calls of which it was not asked whether they depend on more than their arguments. ``silent``: those that say nothing
    on either side; the first one's reason is ``quiet``.
    """

    calls: int = 0
    error: float = 0.0
    reason: str = ""
    closed: str = ""
    wrong: str = ""
    compared: int | None = None
    unasked: int = 0
    silent: int = 0
    quiet: str = ""

    @property
    def why(self) -> str:
        """Why the calls are not shown right: one differs, or all are silent; '' where they are."""
        return self.reason or (self.quiet if self.silent >= self.calls else "")

    def note(self, what: str, reason: str) -> None:
        """Keep why a call is not shown right.

        Of a silent one it is kept apart: others may speak for it.
        """
        told = f"{what}: {reason}" if reason else ""
        if reason == SILENT:
            self.silent += 1
            self.quiet = self.quiet or told
        else:
            self.reason = self.reason or told


def definitions(path: str, text: str) -> Iterator[Defined]:
    """Classes and functions of a file's top level."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Defined(path, node.lineno, node.end_lineno or node.lineno, node.name, isinstance(node, ast.ClassDef))


def proof_of(each: Defined, ledger: Ledger, seen: Seen | None, problem: str) -> Proof:
    """What is known of a definition, from its calls and from what is left by hand in it."""
    proof = _of_calls(each, seen, problem)
    if any(file.path == each.path and file.fate is FileFate.REFUSED for file in ledger.files):
        return replace(proof, fact=Fact.UNCONVERTED, reason="the file was not converted")
    for place in _places(each, ledger):
        if place.fate is Fate.BY_HAND:
            return replace(proof, fact=Fact.UNCONVERTED, reason=f"line {place.line}: {place.name}: {place.note}")
    return proof


def _of_calls(each: Defined, seen: Seen | None, problem: str) -> Proof:
    """What the calls of a class or function say of it."""
    unreached = Proof(each.path, each.line, each.name, Fact.UNREACHED, end=each.end)
    if seen is None:
        not_called = "no layer of this class was called" if each.is_class else "the forward pass does not call it"
        return replace(unreached, reason=problem or not_called)
    if seen.closed and not seen.why:
        return replace(unreached, reason=f"it cannot be called by itself: {seen.closed}")
    reason = seen.why or (NOTHING if seen.compared == 0 else "")
    fact = Fact.UNPROVEN if reason else Fact.PROVEN
    return replace(unreached, fact=fact, reason=reason, calls=seen.calls, error=seen.error, held=not reason, unasked=seen.unasked)


def layers_compared(reference: Capture, candidate: Capture, told: LayersTold, others: LayersTold) -> dict[str, Seen]:
    """What the layers of each class gave back and changed, by ``module:Class``.

    The two trees have the same names of layers.

    Args:
        reference: of the original, with every call of a layer.
        candidate: of the port.
        told: what else is known of the original's layers.
        others: of the port's.
    """
    found = calls_compared(reference, candidate, told.classes)
    quiet = {told.classes[path] for path in told.empty if path in told.classes} - found.keys()
    for key in quiet:
        found[key] = Seen(calls=1, compared=0)
    for path, reason in told.unread.items():
        if path not in told.classes:  # a layer that the pass itself took away
            continue
        seen = found.setdefault(told.classes[path], Seen(calls=1, compared=0))
        seen.reason = seen.reason or f"{path}: {reason}"
    for what, one in _effects_compared(reference, candidate, told, others).items():
        for key in _classes_around(what, told.classes) & found.keys():
            seen = found[key]
            own = key in quiet and told.classes.get(what.rpartition(".")[0]) == key
            seen.compared = (seen.compared or 0) + int(own)  # what a layer with outputs gives back has to be finite by itself
            seen.error = max(seen.error, one.error)
            seen.reason, seen.wrong = seen.reason or one.reason, seen.wrong or one.reason
    return found


def _effects_compared(reference: Capture, candidate: Capture, told: LayersTold, others: LayersTold) -> dict[str, Seen]:
    """What each change of a buffer, attribute or variable came to."""
    ours, theirs = ({call.name: call for call in each.effects} for each in (others, told))
    found = {}
    for name in sorted(ours.keys() | theirs.keys()):
        what, one = name.removeprefix("effect:"), Seen()
        call, other = theirs.get(name), ours.get(name)
        if call is None or other is None:
            one.reason = f"the {'port' if call is None else 'original'} alone changes {what!r}"
        else:
            apart = call.problem or other.problem or result_apart(call, other, reference, candidate, one)
            one.reason = f"it leaves {what!r} otherwise: {apart}" if apart else ""
        found[what] = one
    return found


def _classes_around(what: str, classes: Mapping[str, str]) -> set[str]:
    """The classes of the layers that hold a buffer or attribute, and of those around them.

    Of a variable, all of its module.
    """
    module, colon, _ = what.partition(":")
    if colon:
        return {key for key in classes.values() if key.partition(":")[0] == module}
    return {key for path, key in classes.items() if not path or what.startswith(f"{path}.")}


def calls_compared(reference: Capture, candidate: Capture, classes: Mapping[str, str]) -> dict[str, Seen]:
    """What the calls of each class gave back, by ``module:Class``.

    ``classes``: by path of a layer.
    """
    ours = _calls(candidate)
    found: dict[str, Seen] = {}
    for key, records in _calls(reference).items():
        outputs = _of_role(records, "output")
        path = key[0]
        if not outputs or path not in classes:
            continue
        seen = found.setdefault(classes[path], Seen(compared=0))
        seen.calls += 1
        seen.compared = (seen.compared or 0) + sum(_finite(reference, each) for each in outputs)
        other = ours.get(key)
        one = Seen()
        reason = "the port does not call it there" if other is None else apart_by(records, other, reference, candidate, one)
        seen.error = max(seen.error, one.error)
        if reason and not seen.reason:
            seen.reason = f"{path}: {reason}"
        if one.wrong and not seen.wrong:
            seen.wrong = f"{path}: {one.wrong}"
    return found


def _of_role(records: list[Record], role: str) -> list[Record]:
    """The inputs or outputs among the records of a call."""
    return [record for record in records if record.role == role]


def _finite(capture: Capture, record: Record) -> int:
    """How many elements of a record are finite numbers."""
    return int(np.isfinite(widen(capture.value(record))).sum())


def _calls(capture: Capture) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = {}
    for record in capture.records:
        if record.run == DOUBLE and record.attrs.get("module"):
            found.setdefault((record.name, record.call), []).append(record)
    return found


def apart_by(ours: list[Record], theirs: list[Record], reference: Capture, candidate: Capture, seen: Seen) -> str:
    """Why one call is not the original's, '' where it is; notes how far outputs are apart."""
    inputs, others = _of_role(ours, "input"), _of_role(theirs, "input")
    reason = _other_shapes(inputs, others, "input")
    if reason:
        return reason
    for one, other in zip(inputs, others, strict=True):
        if not one.digest or not other.digest or not agree(one.digest, other.digest, INPUTS):
            return "its inputs are not the original's"
    outputs, others = _of_role(ours, "output"), _of_role(theirs, "output")
    reason = _other_shapes(outputs, others, "output")
    if not reason:
        for one, other in zip(outputs, others, strict=True):
            seen.error = max(seen.error, _distance(reference, one, candidate, other))
        if not seen.error <= TOLERANCE:
            reason = f"the outputs are {seen.error:.1e} apart"
    seen.wrong = seen.wrong or reason
    return reason


def _other_shapes(ours: list[Record], theirs: list[Record], role: str) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} {role}s"
    for one, other in zip(ours, theirs, strict=True):
        if role == "output" and one.leaf != other.leaf:
            return f"an output is called {other.leaf!r} and not {one.leaf!r}"
        if tuple(one.shape) != tuple(other.shape):
            return f"an {role} has another shape: {list(one.shape)} and {list(other.shape)}"
    return ""


def _distance(reference: Capture, one: Record, candidate: Capture, other: Record) -> float:
    """The relative distance of two outputs.

    0 for equal ones, infinite where one has other NaN or infinities.
    """
    return values_apart(widen(reference.value(one)), widen(candidate.value(other)))


def values_apart(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> float:
    """The relative L2 distance of two arrays of one shape.

    Huge ones (a mask's fill) are held against themselves, so that they hide nothing. Whole numbers that differ are never near.

    >>> values_apart(np.array([1.0, 2.0, -1e9]), np.array([5.0, -7.0, -1e9])) > 1
    True
    >>> values_apart(np.array([1.0, 1e-17]), np.array([1.0, 3e-17])) < 1e-16
    True
    """
    if np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"):
        return 0.0
    differs = np.not_equal(first, second)
    share = math.sqrt(float(np.mean(differs))) if first.dtype.kind in "biu" else 0.0
    one, other = _reals(first), _reals(second)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    sizes = np.maximum(np.abs(one), np.abs(other))
    finite = np.isfinite(one) & np.isfinite(other)
    if not (same | finite).all():
        return float("inf")
    huge = finite & (sizes >= _least_huge(sizes[finite]))
    apart = [_relative(one[part], other[part], sizes[part]) for part in (finite & ~huge, huge)]
    return max(share, *apart)


def _reals(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers in float64, in one row; of complex ones both parts."""
    if values.dtype.kind == "c":
        whole = values.ravel().astype(np.complex128)
        return np.concatenate([whole.real, whole.imag])
    return values.ravel().astype(np.float64)


def _least_huge(sizes: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The size from which elements are huge beside the others; infinite where none are.

    They are at least 2**HUGE, and 2**HUGE times the median, or above all others by a gap of that factor.
    """
    exponents = np.frexp(sizes[sizes > 0])[1].astype(np.int64)
    if not exponents.size:
        return math.inf
    lowest = int(exponents.min())
    numbers = np.bincount(exponents - lowest)
    known = np.flatnonzero(numbers) + lowest
    above = [int(high) for low, high in pairwise(known) if high - low > HUGE and high > HUGE]
    limit = above[0] if above else math.inf
    ordinary = numbers[: int(min(limit - lowest, len(numbers)))]
    median = lowest + int(np.searchsorted(np.cumsum(ordinary), ordinary.sum() / 2))
    limit = min(limit, max(median, 0) + HUGE + 1)
    return math.ldexp(1.0, int(limit) - 1) if limit <= sys.float_info.max_exp else math.inf


def _relative(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> float:
    """The L2 distance of finite numbers by the norm of the larger ones, scaled."""
    most = float(sizes.max(initial=0.0))
    if not most:
        return 0.0
    far = np.linalg.norm(one / most - other / most)
    return float(far / np.linalg.norm(sizes / most))


def as_json(proven: Proven) -> str:
    """The proofs as JSON, with the ledger a line."""
    content = {
        "tolerance": TOLERANCE,
        "counts": {fact.value: number for fact, number in counts(proven.proofs).items()},
        "proofs": [{**asdict(each), "fact": each.fact.value, "error": _finite_or_none(each.error)} for each in proven.proofs],
        "line_counts": {fact.value: number for fact, number in counts(proven.lines).items()},
        "lines": [{**asdict(each), "fate": each.fate.value, "fact": each.fact.value} for each in proven.lines],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _finite_or_none(error: float | None) -> float | None:
    """An error as JSON can hold it: None where it is infinite."""
    if error is None or not np.isfinite(error):
        return None
    return error


def forget_proof(path: Path) -> None:
    """Remove an earlier proof, whose code is about to be replaced; other files stay."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(known, dict) and {"tolerance", "proofs", "lines"} <= set(known):
        path.unlink(missing_ok=True)


def lines(proven: Proven) -> list[str]:
    """The proofs as they are printed: counts of definitions and of places, then one line each."""
    places = counts(proven.lines)
    found = [f"{number:5d} {fact.value}; {places[fact]} places" for fact, number in counts(proven.proofs).items()]
    for each in proven.proofs:
        told = _of_proven(each) if each.fact is Fact.PROVEN else each.reason
        found.append(f"{each.fact.value}: {each.path}:{each.line} {each.name}: {told}")
        found += [f"  repaired {text}" for text in each.repaired]
        found += [f"  perhaps {cause}" for cause in each.causes]
    return found


def _of_proven(proof: Proof) -> str:
    told = f"{proof.calls} calls, at most {proof.error:.1e} apart"
    return f"{told}; of {proof.unasked} it is not known whether they depend on more than their arguments" if proof.unasked else told
