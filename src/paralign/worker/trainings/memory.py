"""Memory over many steps: how it grows, what is kept, and the line that made it.

What the interpreter holds is counted after each step: bytes of the process, of the device, of Python's own objects, live tensors, and the
nodes of graphs behind tensors that are kept. Between an early and a last look, containers that have grown with the steps are named, and
the user's lines whose objects were not let go.
"""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
import types
from collections import deque
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np

from paralign.adapters.base import Metering, Training
from paralign.errors import UsageError, message_of
from paralign.worker.datasets.feed import form_of, joined, own_form
from paralign.worker.optimization.several import as_given
from paralign.worker.predictions.program import predict
from paralign.worker.process.files import PACKAGE, system_folders
from paralign.worker.protocol import Memory, MemoryWatched
from paralign.worker.sides.session import NATIVE, Session
from paralign.worker.steps.training import optimizer_of, scalar_of

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter

#: frames that are kept of an allocation: from a tensor's constructor out to the user's code
FRAMES = 12

#: share of the steps by which a container must have grown to be named
SHARE = 0.8

#: containers and lines that are named
NAMED = 5

#: nodes of a graph that are counted
NODES = 20_000

#: frames of paralign itself
_OURS = PACKAGE + os.sep

#: how deep the user's objects are looked into, and at how many entries of each container
DEPTH, ENTRIES = 3, 1000

#: values that are named: the time of a second
MOST = 20_000

#: containers that are looked into
_PLAIN = (list, dict, set, tuple)


def memory(session: Session, writer: CaptureWriter, options: Memory, values: Dict[str, Capture]) -> MemoryWatched:
    """Do the same step again and again, and record what grows.

    Recorded: ``host``, ``device``, ``python`` (bytes), ``tensors`` and
    ``nodes`` (counts), one value a step.
    """
    act, unwatched = step_of(session, options, values)
    with session.untouched():
        session.adapter.train(session.model, "train" if options.what == "step" else "eval")
        session.seed()
        for _ in range(options.warm):  # imports and caches, which nobody has to see
            act()
        gc.collect()
        sizes = _sizes()  # before allocations are followed: there may be 100,000 containers, each with an entry here
        tracemalloc.start(FRAMES)
        try:
            series, grown, lines = _watched(session, act, options.steps, sizes)
            graphs = _graphs(session)
            for each in grown:
                each["line"] = each["line"] or (lines[0]["line"] if lines else None)  # extension types may not be traced themselves
        finally:
            tracemalloc.stop()
    for name, found in series.items():
        writer.add(name, np.asarray(found, np.float64), role="state")
    return MemoryWatched(grown, lines, graphs, options.steps, unwatched)


def step_of(session: Session, options: Memory, values: Dict[str, Capture]) -> Tuple[Callable[[], Any], str]:
    """One step, the side's own where it can be run; and why that could not, ''."""
    if options.what == "predict":
        return lambda: predict(session, options.path), ""
    inputs = session.inputs(values["inputs"], NATIVE)
    if options.what == "forward":
        return lambda: session.call(session.fresh(inputs)), ""
    if "labels" not in values:
        raise UsageError("a training step needs labels", where=session.side, hint="define labels(), or set [labels] in paralign.toml")
    if not isinstance(session.adapter, Training):
        raise UsageError(
            f"framework {session.adapter.name!r} has no gradients, and so no training step",
            where=session.side,
            hint="repeat what needs none: `paralign watch-memory --what forward` or `--what predict`; or name the other side with --side",
        )
    labels = session.tree(values["labels"], "labels", NATIVE)
    adapter = session.adapter
    optimizer, scheduler = optimizer_of(session) if "build_optimizer" in session.functions else (None, None)

    unwatched = ""
    if "train_step" in session.functions and optimizer is not None:
        batch = joined(inputs, labels, own_form(session) or form_of(values))
        own = partial(_own_step, session, optimizer, batch)
        unwatched = _tried(session, own)
        if not unwatched:
            return own, ""

    def step() -> None:
        result = session.function("loss")(session.call(session.fresh(inputs)), session.fresh(labels))
        adapter.backward(scalar_of(result, session.adapter.is_tensor))
        if optimizer is not None:
            adapter.step(optimizer)
            adapter.step_scheduler(optimizer, scheduler)
        adapter.clear_gradients(session.model, optimizer)

    return step, unwatched


def _own_step(session: Session, optimizer: Any, batch: Any) -> None:
    session.function("train_step")(session.model, as_given(optimizer), session.fresh(batch))


def _tried(session: Session, own: Callable[[], Any]) -> str:
    """Why the side's own step fails on inputs and labels alone, ''.

    Without a loss there is no other step, and it raises.
    """
    try:
        with session.untouched():
            session.adapter.train(session.model, "train")
            own()
    except Exception as error:
        if "loss" not in session.functions:
            raise
        return f"{type(error).__name__}: {message_of(error)}"
    return ""


def _watched(
    session: Session, act: Callable[[], Any], steps: int, sizes: Dict[int, Tuple[Any, int]]
) -> Tuple[Dict[str, Any], List[Dict[str, Any]], List[Dict[str, Any]]]:
    """The series, the containers that have grown, and the lines whose objects are kept.

    ``sizes``: of the containers that were there before.
    """
    series = {name: np.zeros(steps) for name in ("host", "device", "python", "tensors", "nodes")}  # of their final size: they do not grow
    half: Dict[str, Tuple[int, int]] = {}
    gc.freeze()  # what is there already is neither looked at nor counted again: 300,000 objects, where a framework is imported
    for number in range(steps):
        act()
        gc.collect()
        tensors = _tensors(session, sizes)
        series["tensors"][number] = len(tensors)
        series["nodes"][number] = sum(_nodes(t) for t in tensors)
        del tensors
        series["host"][number] = _host()
        series["device"][number] = _device(session)
        series["python"][number] = tracemalloc.get_traced_memory()[0]
        if number + 1 == steps // 2:
            half = _kept()
    lines = _lines(half, _kept(), steps - steps // 2)
    gc.unfreeze()
    return series, _grown(session, sizes, steps), lines


# -- what there is ---------------------------------------------------------------------------------------------------------------


def _host() -> int:
    """Bytes of memory that the process has in use."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # a system without /proc: the other series have to do
        return 0


def _device(session: Session) -> int:
    """Bytes that tensors have in use on the device; 0 on a CPU."""
    return session.adapter.device_bytes() if isinstance(session.adapter, Metering) else 0


def _tensors(session: Session, sizes: Optional[Dict[int, Tuple[Any, int]]] = None) -> List[Any]:
    """The computed tensors that something holds (parameters are leaves).

    Paddle's are unknown to the collector: those in lists, dicts and sets that are new, or longer than in ``sizes``, and the model's.
    """
    known = session.adapter.is_tensor
    kinds: Dict[type, bool] = {}  # asked once a class: there are 100,000 objects
    found = {}

    def look(each: Any) -> None:
        kind = type(each)
        if kind not in kinds:
            kinds[kind] = _is_tensor(each, known)
        if kinds[kind]:
            found[id(each)] = each

    seen = gc.get_objects()
    longer = [container for container, length in (sizes or {}).values() if len(container) > length]
    for each in chain(seen, chain.from_iterable(map(_entries, chain(seen, longer)))):
        look(each)
    for _, module in session.adapter.modules(session.model):
        held = list(getattr(module, "__dict__", {}).values())
        held += [v for each in held if isinstance(each, dict) for v in list(each.values())]  # where frameworks keep what is set
        found.update({id(v): v for v in held if _is_tensor(v, known)})
    for module in _own_modules():
        found.update({id(v): v for v in list(vars(module).values()) if _is_tensor(v, known)})
    return list(found.values())


def _entries(container: Any) -> List[Any]:
    """What a list, dict, set or deque holds; nothing of other objects."""
    kind = type(container)
    try:
        if kind is dict:
            return list(container.values())
        return list(container) if kind in (list, set, deque) else []
    except RuntimeError:  # another thread changes it meanwhile
        return []


def _is_tensor(value: Any, known: Callable[[Any], bool]) -> bool:
    try:
        return known(value)
    except Exception:  # noqa: BLE001 - any object of the process may be asked for its class here
        return False


def _own_modules() -> List[Any]:
    """Modules of the user's own."""
    modules: List[Any] = list(sys.modules.values())  # anything may be put there
    return [module for module in modules if isinstance(module, types.ModuleType) and _is_own(vars(module).get("__file__"))]


def _nodes(tensor: Any) -> int:
    """Nodes of the graph behind a tensor."""
    first = getattr(tensor, "grad_fn", None)
    seen: Set[Any] = set()
    waiting = [first] if first is not None else []
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        following = getattr(node, "next_functions", ())
        waiting += [n for each in following for n in (each if isinstance(each, tuple) else (each,)) if hasattr(n, "next_functions")]
    return len(seen)


def _graphs(session: Session) -> List[Dict[str, Any]]:
    """The computed tensors that are still held after the last step.

    With their graphs, and the lines that made them.
    """
    if not isinstance(session.adapter, Training):
        return []
    found, holders = [], _holders(session)
    for tensor in _tensors(session):
        nodes = _nodes(tensor)
        if nodes and not getattr(tensor, "is_leaf", True):
            kept = {"nodes": nodes, "line": _line(tracemalloc.get_object_traceback(tensor)), "holder": holders.get(id(tensor))}
            if kept not in found:  # one of each step
                found.append(kept)
    lined = {each["holder"] for each in found if each["line"]}
    found = [each for each in found if each["line"] or each["holder"] not in lined]  # made before allocations were followed
    return sorted(found, key=lambda each: -int(str(each["nodes"])))[:NAMED]


# -- what has grown --------------------------------------------------------------------------------------------------------------


def _sizes() -> Dict[int, Tuple[Any, int]]:
    """Lengths of all containers, which are kept meanwhile: no ``id`` is used twice.

    The collector does not list a dict without entries, or with none that it could free (numbers, Paddle's tensors): others hold it.
    """
    known = gc.get_objects()
    unlisted = [o for o in gc.get_referents(*known) if type(o) is dict and not gc.is_tracked(o)]
    return {id(o): (o, len(o)) for o in chain(known, unlisted) if type(o) in (list, dict, set)}


def _grown(session: Session, before: Dict[int, Tuple[Any, int]], steps: int) -> List[Dict[str, Any]]:
    """Containers that have an entry more for most steps, those with tensors first."""
    found, holders = [], _holders(session)
    for value, length in before.values():
        if len(value) - length < max(2, SHARE * steps):
            continue
        holder = holders.get(id(value))
        if holder is None:
            continue
        entries = list(value.values()) if isinstance(value, dict) else list(value)
        last = entries[-1] if not isinstance(value, set) else next(iter(entries))
        tensor = _is_tensor(last, session.adapter.is_tensor)
        found.append(
            {
                "holder": holder,
                "type": type(value).__name__,
                "entries": (len(value) - length) / steps,
                "of": type(last).__name__,
                "tensor": tensor,
                "host": isinstance(last, np.ndarray),
                "graph": tensor and not getattr(last, "is_leaf", True),
                "line": _line(tracemalloc.get_object_traceback(last)),
            }
        )
    return sorted(found, key=lambda each: (not each["tensor"], -float(str(each["entries"]))))[:NAMED]


def _holders(session: Session) -> Dict[int, str]:
    """``id`` of what the user's own objects hold -> what holds it.

    That is told as ``Net.history`` or ``module.NAME``.
    """
    found: Dict[int, str] = {}
    for _, module in session.adapter.modules(session.model):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            _hold(found, f"{type(module).__name__}.{name}", value, DEPTH)
    for module in _own_modules():
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                _hold(found, f"{module.__name__}.{name}", value, DEPTH)
    for function in session.functions.values():
        for cell in getattr(function, "__closure__", None) or ():
            _hold(found, f"a variable around {getattr(function, '__name__', 'a function')}()", _content(cell), DEPTH)
    return found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put in yet
        return None


def _may_hold(value: Any) -> bool:
    """Whether others may lie in a value.

    Not in one that does not let itself be asked what it is, as proxies may.
    """
    try:
        return not isinstance(value, (str, bytes, int, float, type, types.ModuleType))
    except Exception:  # noqa: BLE001 - whatever the __class__ of a foreign object raises
        return False


def _hold(found: Dict[int, str], name: str, value: Any, depth: int) -> None:
    """Name a value, and what lies in it.

    That is, entries of containers, and attributes of objects of the user's own classes.
    """
    if len(found) > MOST or value is None or id(value) in found or not _may_hold(value):
        return
    found[id(value)] = name
    if not depth:
        return
    if isinstance(value, types.FunctionType):
        for inner in (*(value.__defaults__ or ()), *(_content(cell) for cell in value.__closure__ or ())):
            _hold(found, f"{value.__name__}()", inner, depth - 1)
    elif isinstance(value, _PLAIN):
        for inner in list(value.values() if isinstance(value, dict) else value)[-ENTRIES:]:
            _hold(found, name, inner, depth - 1)
    elif _is_own(_file(type(value))):
        for attribute, inner in list(getattr(value, "__dict__", {}).items()):
            _hold(found, f"{type(value).__name__}.{attribute}", inner, depth - 1)


def _file(kind: type) -> Optional[str]:
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


@lru_cache(maxsize=1)
def _system() -> Tuple[str, ...]:
    return tuple(folder + os.sep for folder in system_folders())


@lru_cache(maxsize=None)
def _is_own(path: Optional[str]) -> bool:
    """Whether a file is the user's own."""
    if not isinstance(path, str):
        return False
    folder, name = os.path.split(path)
    return not os.path.join(_real(folder), name).startswith(_system())


@lru_cache(maxsize=None)
def _real(folder: str) -> str:
    """A folder without links.

    It is asked for once a folder: a framework has thousands of files in few.
    """
    return os.path.realpath(folder)


def _kept() -> Dict[str, Tuple[int, int]]:
    """Bytes and objects that each of the user's lines has made, and that are still there."""
    found: Dict[str, Tuple[int, int]] = {}
    for known in tracemalloc.take_snapshot().statistics("traceback"):
        line = _line(known.traceback)
        if line is not None:
            size, count = found.get(line, (0, 0))
            found[line] = size + known.size, count + known.count
    return found


def _lines(half: Dict[str, Tuple[int, int]], end: Dict[str, Tuple[int, int]], steps: int) -> List[Dict[str, Any]]:
    """The user's lines that have kept more at the end than half-way.

    With bytes and objects a step, the most bytes first.
    """
    named = []
    for line, (size, count) in end.items():
        before = half.get(line, (0, 0))
        if size > before[0] and count - before[1] >= SHARE * steps:
            named.append({"line": line, "bytes": (size - before[0]) / steps, "objects": (count - before[1]) / steps})
    return sorted(named, key=lambda each: -float(str(each["bytes"])))[:NAMED]


def _line(trace: "Optional[tracemalloc.Traceback]") -> Optional[str]:
    """The user's innermost line in the stack of an allocation.

    None of what paralign itself has allocated.
    """
    for frame in reversed(list(trace or ())):  # the last is the innermost
        if frame.filename.startswith(_OURS):
            return None
        if not frame.filename.startswith("<") and _is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return None
