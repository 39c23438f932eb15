"""Which layers a training step calls in train mode, and by which line they are in it."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from paralign.worker.datasets.feed import batches, form_of, joined, own_form
from paralign.worker.optimization.several import as_given
from paralign.worker.passes.forward import attempt_run
from paralign.worker.process.files import system_folders
from paralign.worker.protocol import LayerMode, LayerModes, LayerModesTold
from paralign.worker.sides.frames import is_users
from paralign.worker.steps.own_step import defined_at, kept, started_anew
from paralign.worker.steps.training import optimizer_of

if TYPE_CHECKING:
    from types import FrameType

    from paralign.adapters.base import Call
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: the attribute by which a layer knows its mode
FLAG = "training"

#: the methods that set it
_SETTERS = ("train", "eval")

#: an argument of Paddle's BatchNorm that decides over the flag
_ALWAYS = "_use_global_stats"


def layer_modes(session: "Session", writer: "CaptureWriter", options: LayerModes, values: "Dict[str, Capture]") -> LayerModesTold:
    """Take one training step, or a pass in train mode, and note the mode of every layer.

    Layers that draw are off. Recorded as ``output``: what the model's first call gives.
    """
    answer = LayerModesTold(defined=defined_at(session, "train_step") if options.step else None)
    with started_anew(session) as (_, restore):
        for run in options.runs:
            answer.layers = []
            attempt_run(answer, run, partial(_run, session, writer, run, options, values, answer), restore)
            if answer.runs:
                break
    return answer


def _run(
    session: "Session", writer: "CaptureWriter", run: str, options: LayerModes, values: "Dict[str, Capture]", answer: LayerModesTold
) -> None:
    if run == "float64":
        session.to_double()
    model, layers = session.model, session.adapter.modules(session.model)

    def save(call: "Call") -> None:
        if call.number == 0:
            session.save_tree(writer, "output", call.outputs, run=run)

    with _setting_lines(model) as lines:
        session.adapter.train(model, "quiet")
        reached = set(lines)
        session.seed()
        with session.adapter.observe(model, save, lambda path, _: not path), _noted(layers, lines, options.force, answer.layers):
            if options.step:
                _step(session, run, values)
            else:
                session.call(session.inputs(values["inputs"], run))
    answer.overrides = {path: line for path, layer in layers for line in [_override(model, layer)] if line and id(layer) not in reached}


def _step(session: "Session", run: str, values: "Dict[str, Capture]") -> None:
    optimizer, _ = optimizer_of(session)
    form = own_form(session) or form_of(values)
    session.seed()
    batch = session.fresh(joined(*batches(session, values, run)[0], form))
    with kept(session, session.model, "quiet"):
        session.function("train_step")(session.model, as_given(optimizer), batch)


@contextmanager
def _setting_lines(model: Any) -> "Iterator[Dict[int, Optional[str]]]":
    """``id`` of every layer whose mode is set inside -> the user's line that did so last.

    None where no line of the user's did. Layers inside of it are set with it.
    """
    found: "Dict[int, Optional[str]]" = {}
    with ExitStack() as stack:
        for name in _SETTERS:
            base = _base_with(type(model), name)
            if base is not None:
                stack.enter_context(_watched(base, name, found))
        yield found


def _base_with(kind: type, name: str) -> Optional[type]:
    """The framework's class that defines a method of layers; None without one."""
    folders = system_folders()
    for base in reversed(kind.__mro__):
        code = getattr(vars(base).get(name), "__code__", None)
        if code is not None and not is_users(code.co_filename, folders):
            return base
    return None


@contextmanager
def _watched(base: type, name: str, found: "Dict[int, Optional[str]]") -> Iterator[None]:
    method = vars(base)[name]

    def watched(layer: Any, *args: Any, **kwargs: Any) -> Any:
        line = _users_line()
        for part in (layer, *_parts(layer)):
            found.pop(id(part), None)
        found[id(layer)] = line  # the last one in the dict is what was set last
        return method(layer, *args, **kwargs)

    setattr(base, name, watched)
    try:
        yield
    finally:
        setattr(base, name, method)


def _parts(layer: Any) -> List[Any]:
    """The layers inside of one, whatever the framework calls them."""
    listed = getattr(layer, "modules", None) or getattr(layer, "sublayers", None)
    if callable(listed):
        return [part for part in listed() if part is not layer]
    return []


def _users_line() -> Optional[str]:
    """The innermost line of the user's that led here."""
    folders = system_folders()
    frame: "Optional[FrameType]" = sys._getframe(2)  # noqa: SLF001 - the way to the caller's line
    while frame is not None:
        if is_users(frame.f_code.co_filename, folders):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@contextmanager
def _noted(
    layers: "List[Tuple[str, Any]]", lines: "Dict[int, Optional[str]]", force: Dict[str, bool], found: List[LayerMode]
) -> Iterator[None]:
    """Note every layer's mode at its first call; those of ``force`` are put into another one."""
    by_path, seen = dict(layers), set()

    def before(path: str, layer: Any, *_: Any) -> None:
        if path not in seen and _asks(layer):
            seen.add(path)
            found.append(LayerMode(path, type(layer).__name__, _trains(layer), _line_of(path, by_path, lines)))
        if path in force:
            setattr(layer, FLAG, force[path])

    handles = []
    try:
        for path, layer in layers:
            if hasattr(layer, "register_forward_pre_hook") and isinstance(getattr(layer, FLAG, None), bool):
                handles.append(layer.register_forward_pre_hook(partial(before, path)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _line_of(path: str, layers: Dict[str, Any], lines: "Dict[int, Optional[str]]") -> Optional[str]:
    """The line that set a layer's mode last, with it or with a layer around it."""
    around = [path, *(path.rsplit(".", cut)[0] for cut in range(1, path.count(".") + 1)), ""]
    own = {id(layers[name]) for name in around if name in layers}
    for number, line in reversed(list(lines.items())):
        if number in own:
            return line
    return None


def _asks(layer: Any) -> bool:
    """Whether a layer's ``forward`` asks for its mode.

    The mode of others says nothing.
    """
    code = getattr(inspect.unwrap(type(layer).forward), "__code__", None)
    return code is not None and FLAG in code.co_names


def _trains(layer: Any) -> bool:
    """Whether a layer computes as in train mode.

    Paddle's BatchNorm may be told to use its running statistics always, or never.
    """
    always = getattr(layer, _ALWAYS, None)
    return bool(getattr(layer, FLAG)) if always is None else not always


def _override(model: Any, layer: Any) -> Optional[str]:
    """The line of a layer's own ``train``; None where it is the framework's."""
    code = getattr(getattr(type(layer), "train", None), "__code__", None)
    users = layer is not model and code is not None and is_users(code.co_filename, system_folders())
    if users and code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return None
