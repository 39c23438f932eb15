"""The port run once more as its user would run it, where nobody watches.

A program does that in which nothing of paralign is imported, and nothing replaced.

A port can look for the judge: on the call stack, among the imported modules, in the command line or the environment. What it computes then
says nothing of what it computes elsewhere. So in the end, when no answer lies on the disk any more, a program without anything of
paralign computes the same outputs and gradients from the same weights and inputs; beyond rounding they have to be what the watched
process gave.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.adapters.profile import profile_of
from paralign.capture import load_foreign
from paralign.dtypes import EPS, Typed, is_complex, is_floating, narrow, widen
from paralign.errors import CaptureFormatError, EnvironmentUnavailable, ParalignError, WorkerFailed, one_line
from paralign.run.kinds_of_inputs import Kind
from paralign.run.launching import Guard, await_group, kill_group, launch
from paralign.run.process import environment
from paralign.stages.common.judging import Noises, choose, final, floor, points_of
from paralign.verification.plain_program import GRADIENTS, LOG, OUTPUTS, STATUS, Plain
from paralign.verification.tampering import Deed, Tampering
from paralign.worker.datasets.feed import name_of
from paralign.worker.protocol import Backward, Forward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record
    from paralign.verification.case import Case
    from paralign.verification.commitment import Committed

Array = np.ndarray[Any, Any]

#: plain values may be this many times as far from the watched ones as the sides' native runs are from exact ones, all elements
#: together; a single element ten times that. Kernels that add in another order are one time as far away.
LIMIT, ALONE = 10.0, 10.0

#: seconds between two looks at whether the program has ended
_LOOK = 0.05

#: variables that a worker is given, and a user's program is not unless the user has set them. That float32 is computed in full
#: stays as it was: in another precision the same code gives other numbers.
_OF_WORKERS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "PYTHONUNBUFFERED")

#: variables that tell how this process was started
_OF_THIS = ("_", "OLDPWD")


@dataclass(frozen=True)
class Value:
    """What the watched process computed at one place.

    ``noise``: how far rounding takes it, relative to its size. ``finite``: where it is no number, no other value may be one.
    """

    array: Array
    noise: float
    finite: bool = True

    def distance(self, other: Array, least: float = 0.0) -> float:
        """How far another value is away, in units of what is granted: beyond 1 it is no rounding.

        Differences up to ``least`` count for nothing: a gradient that cancels out is rounding of others. Zeros have no size that rounding
        could be relative to: theirs counts as 1.
        """
        if other.shape != self.array.shape or self._loses_numbers(other):
            return float("inf")
        one, two = _wide(self.array), _wide(other)
        both = np.isfinite(one) & np.isfinite(two)
        one, two = np.where(both, one, 0), np.where(both, two, 0)
        peak = float(np.abs(one).max(initial=0)) or 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinitely far
            apart, size = np.abs(one / peak - two / peak), np.abs(one / peak)
        farthest = float(apart.max(initial=0))
        if not np.isfinite(farthest):
            return float("inf")
        if farthest * peak <= least:
            return 0.0
        granted = LIMIT * self.noise
        return max(float(np.linalg.norm(apart)) / (float(np.linalg.norm(size)) or 1.0) / granted, farthest / (ALONE * granted))

    def _loses_numbers(self, other: Array) -> bool:
        """Whether another value has no numbers where this one has.

        Where values are to be finite, also the other way round.
        """
        one, two = np.isfinite(_wide(self.array)), np.isfinite(_wide(other))
        return bool((one & ~two).any() or (self.finite and (two & ~one).any()))

    def told(self, other: Array, ratio: float) -> str:
        """What is wrong with another value at this distance, in words."""
        if other.shape != self.array.shape:
            return "another shape"
        if self._loses_numbers(other):
            return "numbers on one side, NaN or infinities on the other"
        if not self.array.any():
            return "zeros in the watched process alone"
        return f"{ratio:.2g} times what rounding explains"


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


@dataclass
class Watched:
    """What the plain program is to run, and what the watched processes gave for it.

    Args:
        plain: the program; None where none can be written, for which ``missing`` has the reason.
        values: what it is called -> path of an output, or name of a parameter -> value; None of a gradient that there is not.
        drawn: the model draws random numbers in eval mode.
    """

    plain: Plain | None
    missing: str = ""
    values: dict[str, dict[str, Value | None]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    drawn: bool = False


@dataclass
class Outcome:
    """What came of the plain pass.

    Args:
        looked: what was compared, in words.
        tampering: what the port computes otherwise.
        undecided: why nothing is accepted.
        weaknesses: what was not compared.
    """

    looked: str = ""
    tampering: list[Tampering] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    weaknesses: list[str] = field(default_factory=list)


def outputs_of(case: Case, context: Context, candidate: Committed) -> Watched:
    """What the forward stage has watched, read while its captures are there."""
    about = context.about["candidate"]
    functions = profile_of(about.framework).program
    if not functions:
        return Watched(None, f"no plain pass was made: none is known for the framework {about.framework}")
    reference, watched = context.artifacts["forward"]
    if context.inputs is None or candidate.loaded is None:
        return Watched(None, "no plain pass was made: the port has no weights of its own")
    held = {record.name: candidate.loaded.value(record) for record in candidate.loaded.records if record.location is not None}
    found = Watched(Plain(case.project.candidate, functions, context.settings.seed, held), drawn=context.drawn)
    lost = Forward.answer(watched).lost
    kinds = (Kind.SPECIFIED, *context.settings.draws)
    precisions = {r.leaf: r.dtype for r in final(watched, name="input", run=NATIVE) if r.location is not None}
    for number, kind in enumerate(kinds):
        if f"{NATIVE} {number}" in lost:
            continue
        values = _outputs(reference, watched, number, specified=kind is Kind.SPECIFIED)
        assert found.plain is not None  # noqa: S101 - made above
        found.plain.inputs[str(number)] = _entry(context.inputs, name_of("inputs", number), precisions)
        found.values[str(number)] = dict(values)
        found.kinds[str(number)] = f"inputs {number + 1}, {kind.value}"
    if found.plain is not None and found.plain.is_differentiable and "0" in found.values:
        found.values["again"], found.kinds["again"] = found.values["0"], "with gradients kept"
    return found


def _outputs(reference: Capture, watched: Capture, number: int, *, specified: bool) -> dict[str, Value]:
    name, repeat = name_of("output", number), Forward.answer(watched).repeat or 0.0
    method, _ = choose(reference, watched)
    noises = Noises(reference, method)
    natives = final(watched, name=name, run=NATIVE)
    exact = {record.leaf: record for record in final(watched, name=name, run=DOUBLE)}
    due: dict[str, float] = {}
    for first, second, _how in points_of(final(reference, name=name, run=method.reference_run), natives):
        granted = noises.of(first) if first is not None else None
        if second is not None and granted is not None and np.isfinite(granted.value):
            due[second.leaf] = granted.value
    found = {}
    for record in natives:
        if record.location is None:
            continue
        array = widen(watched.value(record))
        noise = max(repeat, due.get(record.leaf, 0.0), _own_noise(watched, record, exact.get(record.leaf)), floor(record.dtype))
        found[record.leaf] = Value(array, noise, specified)
    return found


def _own_noise(capture: Capture, record: Record, exact: Record | None) -> float:
    """How far a native value is from that of the float64 run, relative to its size.

    0 where that is not known.
    """
    if exact is None or exact.location is None or exact.shape != record.shape or not is_floating(record.dtype):
        return 0.0
    one, two = (np.asarray(widen(capture.value(each)), np.complex128) for each in (exact, record))
    size, far = float(np.linalg.norm(one)), float(np.linalg.norm(one - two))
    return far / size if size and np.isfinite(far) and np.isfinite(size) else 0.0


def _entry(capture: Capture, name: str, precisions: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """A tree and its leaves, floating ones as the model was given them."""
    leaves: dict[str, Any] = {}
    for record in capture.select(name=name):
        if record.text is not None or record.location is None:
            leaves[record.leaf] = record.text or ""
            continue
        value, wanted = capture.value(record), precisions.get(record.leaf, record.dtype)
        if is_floating(value.dtype) and is_floating(wanted) and not is_complex(value.dtype) and value.dtype != wanted:
            value = narrow(widen(value), wanted)
        leaves[record.leaf] = Typed(value.array, value.dtype)
    return capture.manifest.settings["trees"][name], leaves


def gradients_of(context: Context, candidate: Committed, found: Watched) -> None:
    """Have the gradients of one batch recorded, watched, in the precision that the port has.

    They take a process of their own; the reference is not asked.
    """
    if found.plain is None or context.inputs is None or context.labels is None:
        return
    modes: list[str] = [mode for mode in ("eval", "train") if mode in context.modes]
    values = {"inputs": context.inputs, "labels": context.labels}
    try:
        capture = candidate.record("backward-native", Backward([DOUBLE, NATIVE], modes, 0), values)
    except WorkerFailed:
        return
    done = set(Backward.answer(capture).runs)
    precisions = {leaf: entry.dtype for leaf, entry in found.plain.inputs["0"][1].items() if not isinstance(entry, str)}
    for mode in modes:
        gradients = capture.select(role="gradient", run=f"{NATIVE}:{mode}", step=0)
        if f"{NATIVE}:{mode}" in done and gradients:
            exact = {r.name: r for r in capture.select(role="gradient", run=f"{DOUBLE}:{mode}", step=0)}
            found.values[mode] = {r.name: _gradient(capture, r, exact.get(r.name)) for r in gradients}
            found.kinds[mode] = f"in {mode} mode"
    known = [mode for mode in modes if mode in found.values]
    if known:
        entries = (_entry(context.inputs, "inputs", precisions), _entry(context.labels, "labels", {}))
        found.plain.batch = {"inputs": entries[0], "labels": entries[1], "modes": known}


def _gradient(capture: Capture, record: Record, exact: Record | None) -> Value | None:
    if record.location is None:
        return None
    return Value(widen(capture.value(record)), max(_own_noise(capture, record, exact), floor(record.dtype)))


def perform(case: Case, found: Watched | None) -> Outcome:
    """Run the plain program and hold what it gives against what was watched.

    It is the last that runs: of the answers for its inputs nothing is left on the disk.
    """
    if found is None:
        return Outcome()
    if found.plain is None:
        return Outcome(weaknesses=[found.missing])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        script = found.plain.write(folder)
        try:
            ended = _run(script, case, folder)
            given = {what: table for part in (OUTPUTS, GRADIENTS) for what, table in _left(folder, part).items()}
        except ParalignError as fault:
            return Outcome(undecided=[f"the plain pass gave nothing that can be read: {one_line(fault.what)}"])
        outcome = _compared(found, given)
        if not ended:
            outcome.undecided.extend(_missing(found, given))
        elif not outcome.tampering:
            outcome.undecided.insert(0, f"the plain pass failed where the watched one did not: {ended}")
        return outcome


def _run(script: Path, case: Case, folder: Path) -> str:
    """Run the program; gives why it has failed, '' where it has not.

    Its parents are a shell and the system, as of a program that was started in the background.

    Raises:
        EnvironmentUnavailable: there is no shell.
    """
    try:
        first = launch(
            ["/bin/sh", "-c", 'sh "$0" &', str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=case.port,
            env=_environment(case),
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentUnavailable(f"the shell does not start: {error.strerror}", where="/bin/sh") from error
    guard = Guard(first.pid)
    try:
        first.wait()
        status, until = folder / STATUS, time.monotonic() + case.project.timeout
        while not status.exists():
            if time.monotonic() >= until:
                return f"it took longer than {case.project.timeout:g} s"
            time.sleep(_LOOK)
        code = status.read_text(encoding="utf-8").strip()
    finally:
        kill_group(first.pid)
        await_group(first.pid)
        guard.close()
    return "" if code == "0" else _last_line(folder / LOG, code)


def _last_line(log: Path, code: str) -> str:
    """What a failed program said last."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return one_line(lines[-1])
    return f"it ended with code {one_line(code)}"


def _environment(case: Case) -> dict[str, str]:
    """The variables that a user's program has: nothing of the judge's."""
    side = case.project.candidate
    found = environment(side)
    for name in list(found):
        is_ours = name.startswith("PARALIGN") or name in _OF_THIS
        if is_ours or (name in _OF_WORKERS and name not in os.environ and name not in side.env):
            del found[name]
    return {**found, "PWD": str(case.port)}


def _left(folder: Path, part: str) -> dict[str, dict[str, Array | None]]:
    """The tables that the program has left; none where it did not come so far.

    Raises:
        ParalignError: what lies there is something else.
    """
    names, values = folder / f"{part}.json", folder / f"{part}.npz"
    if not names.is_file() or not values.is_file():
        return {}
    arrays = load_foreign(values)
    try:
        told = json.loads(names.read_text(encoding="utf-8"))
        return {
            what: {name: None if key is None else np.asarray(arrays[key]) for name, key in table.items()} for what, table in told.items()
        }
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as fault:
        raise CaptureFormatError("its tables of results are damaged", where=str(names)) from fault


def _compared(found: Watched, given: dict[str, dict[str, Array | None]]) -> Outcome:
    """What plain values come to beside those that were watched."""
    outcome = Outcome()
    tables: list[str] = []
    steps: list[str] = []
    for what, due in found.values.items():
        if what not in given:
            continue
        if what == "train" and not _is_repeated(found.values[what], given):
            outcome.weaknesses.append("gradients in train mode were not compared with a plain pass: they are random there")
            continue
        (steps if what in ("eval", "train") else tables).append(what)
        _compare(found, what, due, given[what], outcome)
    outcome.looked = _looked(len(tables), steps)
    return outcome


def _missing(found: Watched, given: dict[str, dict[str, Array | None]]) -> Iterator[str]:
    """What the program should have left, as it ended without an error, and has not.

    A port may end its process, or take parameters out of those that it tells.
    """
    lacking = [found.kinds[what] for what in found.values if what not in given]
    if lacking:
        yield f"the plain pass ended before all results were there, without an error: none of {', '.join(lacking)}"
    for what in ("eval", "train"):
        names = [name for name in found.values.get(what, {}) if what in given and name not in given[what]]
        if names:
            yield f"the plain pass gave no gradients of these parameters ({found.kinds[what]}): {', '.join(names)}"


def _looked(sets: int, modes: list[str]) -> str:
    if not sets:
        return ""
    gradients = f", gradients in {' and '.join(modes)} mode" if modes else ""
    return f"; once more in a plain program, unwatched: {sets} passes{gradients}"


def _is_repeated(due: dict[str, Value | None], given: dict[str, dict[str, Array | None]]) -> bool:
    """Whether gradients are the same after another seed, but for rounding."""
    first, second = given["train"], given.get("repeated", {})
    for name, value in due.items():
        one, two = first.get(name), second.get(name)
        if value is None or one is None or two is None:
            continue
        if Value(one, value.noise).distance(two) > 1:
            return False
    return True


def _compare(found: Watched, what: str, due: dict[str, Value | None], given: dict[str, Array | None], outcome: Outcome) -> None:
    """Compare one set of outputs, or the gradients of one mode."""
    least = LIMIT * EPS["float32"] * _largest(due) if what in ("eval", "train") else 0.0
    far: list[tuple[float, str, str]] = []
    whole: list[str] = []
    for name, value in due.items():
        other = given.get(name)
        if value is None or other is None:
            is_missing = name in given if what in ("eval", "train") else True
            if is_missing and (value is None) != (other is None):
                far.append((float("inf"), name, "none" if other is None else "none in the watched process"))
            continue
        if value.array.dtype.kind not in "fc" and other.shape == value.array.shape:
            if not np.array_equal(value.array, other):
                whole.append(name)
            continue
        ratio = value.distance(other, least)
        if ratio > 1:
            far.append((ratio, name, value.told(other, ratio)))
    if whole:
        outcome.undecided.append(f"in a plain pass other whole numbers come out, which rounding may explain: {', '.join(whole)}")
    if not far:
        return
    _, name, how = max(far)
    place = f"{'gradient of ' if what in ('eval', 'train') else 'output '}{name}".strip()
    told = f"{place} ({found.kinds[what]})"
    if found.drawn and what not in ("eval", "train"):
        outcome.undecided.append(f"in a plain pass the port draws otherwise, or computes otherwise: {told}")
        return
    outcome.tampering.append(Tampering(Deed.OTHERWISE, f"{told}: {how}"))


def _largest(due: dict[str, Value | None]) -> float:
    """The greatest gradient of all."""
    sizes = [float(np.abs(value.array).max(initial=0)) for value in due.values() if value is not None]
    return max((size for size in sizes if np.isfinite(size)), default=0.0)
