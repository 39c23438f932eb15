"""One pass of a model with every operation watched.

Where each value was made, of what, by which line.

A record of role ``output`` with the attribute ``operation`` (the common kind of the operation) is one value: ``call`` is the
number of the operation, ``leaf`` the place among its outputs, ``name`` the module's path, ``op`` the framework's name, ``source``
the user's innermost line, ``inputs`` the records of the values that went in. Values that no operation made have ``operation``
``given``: parameters and buffers under their names, the model's inputs, constants. A gradient is a record of role ``gradient`` whose
one input is the value's record. The manifest's settings hold what is said once: ``outputs`` (path -> record of the model's
outputs), ``loss``, ``built`` (module -> the lines that constructed it), ``kinds`` (module -> layer of the framework).
"""

from __future__ import annotations

import inspect
import math
import types
import weakref
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from paralign.adapters._kinds import MOVES, leaves_unset
from paralign.adapters._values import converted
from paralign.adapters.base import Digesting, Observing
from paralign.capture.digest import moments
from paralign.capture.sketch import sketch as sketched
from paralign.dtypes import STORAGE, Typed, is_complex, is_floating, widen
from paralign.errors import UnsupportedTensor, UsageError
from paralign.worker.datasets.feed import batches
from paralign.worker.draws.redrawing import Redrawing
from paralign.worker.passes.forward import attempt_run, perturbed
from paralign.worker.process.files import system_folders
from paralign.worker.protocol import Operations, Ran, Watch, WatchedPass
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.frames import is_users
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.steps.training import part_of, scalar_of, train, trainer
from paralign.worker.values.fingerprints import Fingerprint, Fingerprints, key_of
from paralign.worker.values.known_results import COSTLY, KnownResults, cause_of, taken
from paralign.worker.values.masks import reaches_down, reaches_far, unmasked
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.values.fingerprints import Key
    from paralign.worker.values.known_results import Cause, Taken

#: values whose sketches are written at a time
CHUNK = 1024

#: values whose digests are remembered, for those that are only moved
RECENT = 256


def operations(session: Session, writer: "CaptureWriter", options: Operations, values: "Dict[str, Capture]") -> Ran:
    """Watch one or several passes.

    Values:
    ``inputs``, ``labels`` for backward, ``patches`` (records named ``operation:place``, put in place of what the operation made),
    ``draws`` (what the other side's random operations drew, in order).
    """
    answer = Ran()
    if not isinstance(session.adapter, Observing):
        raise UsageError(
            f"single operations of framework {session.adapter.name!r} cannot be watched", where=session.side, hint="compare its modules"
        )
    with session.untouched() as state:
        for number, run in enumerate(options.runs, 1):
            is_last = number == len(options.runs)  # leaving puts the state back anyway
            restore = None if run == NATIVE or is_last else partial(session.restore, state)
            attempt_run(answer, run, partial(_pass, session, writer, options, values, run, state), restore)
    return answer


def _pass(
    session: Session, writer: "CaptureWriter", options: Operations, values: "Dict[str, Capture]", run: str, state: Dict[str, Typed]
) -> None:
    adapter, with_loss = session.adapter, options.backward
    if run == DOUBLE:
        session.to_double()
    inputs = session.inputs(values["inputs"], run)
    if run.startswith("perturbed"):
        inputs = perturbed(session, inputs, state, seed=int(run.rsplit("-", 1)[1]))
    labels = session.tree(values["labels"], "labels", run) if with_loss else None
    adapter.train(session.model, options.mode)
    session.seed()
    if options.steps:
        fed, accumulate = batches(session, values, run), options.accumulate
        train(session, fed, options.steps, accumulate)
        inputs, labels = part_of(fed, options.steps, accumulate)[0]
    known = _known_values(session, options, run)
    results = session.results if known is not None and options.attempt and not with_loss else None
    recorder = OperationRecorder(session, writer, run, options.watch, values, gradients=with_loss, known=known, results=results)
    recorder.name(inputs, labels)
    with recorder:
        if with_loss:
            with adapter.operations(recorder, session.model):  # type: ignore[attr-defined] # asked for in operations()
                outputs = session.call(inputs)
                loss = scalar_of(session.function("loss")(outputs, labels), adapter.is_tensor)
            recorder.settle("outputs", outputs)
            recorder.settle("loss", loss)
            with recorder.recomputing():
                trainer(session).backward(loss)
            recorder.parameter_gradients()
        else:
            with session.passing(), adapter.operations(recorder, session.model):  # type: ignore[attr-defined] # as above
                outputs = session.call(inputs)
            recorder.settle("outputs", outputs)


def _known_values(session: Session, options: Operations, run: str) -> Optional[Fingerprints]:
    """The fingerprints of values seen before; None where looking them up spares nothing.

    A native run beside one in float64 is seldom made again; values on a device would have to be copied to the host.
    """
    is_experiment = bool(options.attempt)
    is_repeated = is_experiment or run == DOUBLE or bool(options.watch.keep or options.watch.keep_gradients)
    if session.device != "cpu" or not is_repeated:
        return None
    if session.fingerprints.is_full and not is_experiment:
        session.fingerprints.clear()
    return session.fingerprints


#: what memory that nothing was written to is recorded as: it fits into every element type
UNSET = 113


class OperationRecorder:
    """A sink for operations, entered for the time of one pass.

    Its backward pass is included.

    Holds no tensor alive: a value is known by the tensor object and its version for as long as the object lives. A tensor that
    was changed through another view of its memory is a value made by the operation that last wrote to that memory.
    """

    def __init__(
        self,
        session: Session,
        writer: "CaptureWriter",
        run: str,
        watch: Watch,
        values: "Dict[str, Capture]",
        *,
        gradients: bool = False,
        known: Optional[Fingerprints] = None,
        results: Optional[KnownResults] = None,
    ) -> None:
        self.session, self.writer, self.run, self.gradients = session, writer, run, gradients
        self.adapter: Any = session.adapter
        self._digesting = isinstance(self.adapter, Digesting)  # asked once: the check looks at every name of the protocol
        self._keep, self._keep_gradients = set(watch.keep), set(watch.keep_gradients)
        self._undo = set(watch.undo)
        self._fingerprints, self._results = known, results
        self._key: Optional[Key] = None  #: of the value that was looked at last
        self._keys: Dict[int, Key] = {}
        self._cause: Optional[Cause] = None  #: of the operation under way, whose result is to be remembered
        self._places: Dict[int, Tuple[int, Any]] = {}
        self._patch_values = values.get("patches")
        self._patches = {} if self._patch_values is None else {record.name: record for record in self._patch_values.records}
        self._draws = Redrawing(session.adapter, writer, run, watch.redraw, values.get("draws"))
        self._known: Dict[int, _Known] = {}
        self._values: Dict[int, _Value] = {}
        self._hooked: Dict[int, Callable[[], None]] = {}
        self._writes: Dict[int, _Write] = {}
        self._sketches: List[Tuple[int, Any]] = []
        self._inputs: List[int] = []
        self._entries = {id(entry.tensor): entry for entry in reversed(session.entries())}
        self._given: Dict[int, str] = {}
        self._said = WatchedPass()

    def recomputing(self) -> "AbstractContextManager[None]":
        """To be entered for the backward pass."""
        return self._draws.recomputing()

    def name(self, inputs: Any, labels: Any) -> None:
        """Give the tensors of the model's inputs and labels their names."""
        for what, tree in (("inputs", inputs), ("labels", labels)):
            for path, leaf in self._leaves(tree):
                self._given[id(leaf)] = f"{what}.{path}" if path else what

    def before(self, inputs: List[Any]) -> None:
        """Know the inputs as they are now."""
        self._inputs = [self._identify(tensor) for tensor in inputs]

    def known(self, number: int, op: str, kind: str, inputs: List[Any], settings: Callable[[], Dict[str, Any]]) -> Any:
        """The result of a costly operation on known inputs; None where it has to run."""
        self._cause = None
        if self._results is None or kind not in COSTLY:
            return None
        cause = cause_of(number, op, settings(), [self._taken(record, tensor) for record, tensor in zip(self._inputs, inputs)])
        found = None if cause is None else self._results.find(cause)
        if found is None:
            self._cause = cause
            return None
        return self.adapter.from_array(found._replace(array=found.array.copy()))

    def _taken(self, record: int, tensor: Any) -> "Optional[Taken]":
        """What an input is known by; the bytes of one that was only moved are looked at here."""
        try:
            return taken(self.adapter.to_array(tensor), self._keys.get(record))
        except UnsupportedTensor:
            return None

    def _remember_result(self, operation: "Operation") -> None:
        """Keep what a costly operation made, for the experiments that follow."""
        cause, self._cause = self._cause, None
        if cause is None or self._results is None or cause[0] != operation.index or len(operation.outputs) != 1:
            return
        with suppress(UnsupportedTensor):
            self._results.keep(cause, self.adapter.to_array(operation.outputs[0]))

    def after(self, operation: "Operation") -> Optional[List[Any]]:
        """Record what an operation made."""
        self._remember_result(operation)
        new = self._draws.after(operation)
        new = self._patched(operation, operation.outputs if new is None else new) or new
        inputs, fields = self._sources(operation), _fields(operation)
        if new is not None and any(f"{operation.index}:{place}" in self._patches for place in range(len(operation.outputs))):
            fields["attrs"]["made"] = [self._digest_of(tensor) for tensor in operation.outputs]
        moved = inputs[0] if new is None and operation.kind in MOVES and len(operation.outputs) == 1 and inputs else None
        for place, tensor in enumerate(operation.outputs if new is None else new):
            leaf, keep = str(place) if len(operation.outputs) > 1 else "", (operation.index, place) in self._keep
            same = moved if tensor is operation.outputs[place] else None  # what was put in its place was not moved here
            unset = leaves_unset(operation.op) and tensor is operation.outputs[place]
            value = self._filled(tensor) if unset else tensor
            record = self._record(operation.module, value, role="output", inputs=inputs, leaf=leaf, keep=keep, moved=same, **fields)
            self._places[record] = (operation.index, place)
            kept = tensor
            if any(operation.outputs[place] is given for given in operation.inputs):
                kept = operation.outputs[place]
                self._note_write(kept, operation.module, {**fields, "inputs": inputs})
            self._remember(kept, record)
        for tensor in operation.inputs:
            known = self._lookup(tensor)
            if known is not None and known.version not in (None, self.adapter.version(tensor)):  # though not returned: running statistics
                self._note_write(tensor, operation.module, {**fields, "inputs": inputs})
                self._identify(tensor)
        return new

    def _filled(self, tensor: Any) -> Any:
        """A number that no program writes, in place of memory that nothing was written to yet.

        What happens to be in it is no value of the program.
        """
        try:
            dtype, shape = self.adapter.describe(tensor)
            return self.adapter.from_array(Typed(np.full(tuple(shape), UNSET, STORAGE[dtype]), dtype))
        except (KeyError, UnsupportedTensor):
            return tensor

    def _sources(self, operation: "Operation") -> Tuple[int, ...]:
        """The records of the values that an operation computes with.

        Of one that writes a value over another, the first alone.
        """
        written = operation.outputs[0]
        if operation.kind not in MOVES or len(operation.inputs) < 2 or not any(written is taken for taken in operation.inputs):  # noqa: PLR2004 - from, and to
            return tuple(self._inputs)
        return tuple(record for record, taken in zip(self._inputs, operation.inputs) if taken is not written)

    def _note_write(self, tensor: Any, module: str, fields: Dict[str, Any]) -> None:
        storage = self.adapter.storage(tensor)
        before = self._writes.get(storage)
        self._writes[storage] = _Write(1 if before is None else before.number + 1, module, fields)

    def settle(self, what: str, tree: Any) -> None:
        """Note which values are the model's outputs, or the loss."""
        found = {path: self._identify(leaf) for path, leaf in self._leaves(tree)}
        if what == "loss":
            self._said.loss = found
        else:
            self._said.outputs = found

    def parameter_gradients(self) -> None:
        """Note which parameters got no gradient, and which are frozen."""
        frozen = [entry.name for entry in self.session.entries() if entry.role == "parameter" and not entry.trainable]
        without = [name for name, gradient in self.adapter.gradients(self.session.model).items() if gradient is None]
        tensors = {entry.name: entry.tensor for entry in self.session.entries()}
        lines = {name: list(self.session.built.get(id(tensors[name]), ())) for name in frozen}
        self._said.frozen, self._said.without_gradient, self._said.hooked = lines, without, sorted(self._hooked)

    def __enter__(self) -> "OperationRecorder":  # noqa: PYI034 - Self is not in the typing of Python 3.8
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for remove in self._hooked.values():
            remove()
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        """Write what is left, and what is said once."""
        self._write_sketches()
        self._said.random = self._draws.random
        self._say_layers(self._said)
        self.writer.manifest.settings.setdefault("operations", {})[self.run] = encode(self._said)

    def _say_layers(self, said: WatchedPass) -> None:
        """Where each module was constructed, and which layer of the framework it is."""
        modules = self.adapter.modules(self.session.model)
        said.built = {path: list(lines) for path, module in modules if (lines := self.session.built.get(id(module)))}
        said.kinds = {path: kind for path, module in modules if (kind := self.adapter.kind(module))}
        said.rewritten = [path for path, module in modules if path in said.kinds and _is_rewritten(type(module))]  # type: ignore[arg-type] # classes are hashable

    def _leaves(self, tree: Any) -> "Iterator[Tuple[str, Any]]":
        known = self.adapter.is_tensor
        return ((path, leaf) for path, leaf in leaves(tree, known) if known(leaf))

    def _patched(self, operation: "Operation", outputs: List[Any]) -> Optional[List[Any]]:
        """An operation's outputs with the given values in place of its own.

        None where none is given.
        """
        if operation.index in self._undo and operation.inputs and len(operation.outputs) == 1:
            return [operation.inputs[0]]
        new: Optional[List[Any]] = None
        for place, tensor in enumerate(outputs):
            record = self._patches.get(f"{operation.index}:{place}")
            if record is None or self._patch_values is None:
                continue
            dtype, shape = self.adapter.describe(tensor)
            if list(shape) != record.attrs["made"] or operation.op != record.op:
                raise UsageError(
                    f"operation {operation.index} is {operation.op} of shape {list(shape)} in this run, "
                    f"it was {record.op} of shape {record.attrs['made']}",
                    where=self.session.side,
                    hint="the model takes another way each time it is run: seed what is random in it",
                )
            new = list(outputs) if new is None else new
            new[place] = self.adapter.substitute(tensor, self.adapter.from_array(converted(self._patch_values.value(record), dtype)))
        return new

    # -- identity ----------------------------------------------------------------------------------------------------------

    def _lookup(self, tensor: Any) -> "Optional[_Known]":
        known = self._known.get(id(tensor))
        if known is not None and known.tensor() is tensor:
            return known
        return None

    def _identify(self, tensor: Any) -> int:
        """The record of a value that an operation takes.

        A new one where nothing that was watched has made it.
        """
        known = self._lookup(tensor)
        if known is None:
            record = self._origin(tensor)
        elif self._is_current(known, tensor):
            record = known.record
        else:
            record = self._written(tensor, known.record)
        self._remember(tensor, record, seen=True)
        return record

    def _is_current(self, known: "_Known", tensor: Any) -> bool:
        """Whether a tensor still has the value that it is known by.

        A view gets the version of its base only after it was made.
        """
        write = self._writes.get(known.storage)
        same_version = known.version is None or known.version == self.adapter.version(tensor)
        if not same_version:
            return False
        return known.writes == (0 if write is None else write.number)

    def _written(self, tensor: Any, old: int) -> int:
        write = self._writes.get(self.adapter.storage(tensor)) or _Write(0, "", {"attrs": {"operation": "copy"}, "inputs": ()})
        fields = {**write.fields, "inputs": (old, *write.fields["inputs"])}
        place = (fields.get("call", -1), "written")
        record = self._record(write.module, tensor, role="output", leaf="written", keep=place in self._keep, **fields)
        self._places[record] = place
        return record

    def _origin(self, tensor: Any) -> int:
        entry = self._entries.get(id(tensor))
        if entry is not None and entry.tensor is tensor:
            attrs = {"operation": "given", "kind": entry.kind, "leaf": entry.leaf}
            name, role = entry.name, entry.role
        else:
            name, role, attrs = self._given.get(id(tensor), ""), "input", {"operation": "given"}
        record = self._record(name, tensor, role=role, attrs=attrs, keep=(-1, name) in self._keep)
        self._places[record] = (-1, name)
        return record

    def _remember(self, tensor: Any, record: int, *, seen: bool = False) -> None:
        storage = self.adapter.storage(tensor)
        write, version = self._writes.get(storage), self.adapter.version(tensor) if seen else None
        with suppress(TypeError):  # what takes no weak references is met as new each time, and matched by its values
            self._known[id(tensor)] = _Known(weakref.ref(tensor), record, version, storage, 0 if write is None else write.number)
        self._hook(tensor, record)

    def _hook(self, tensor: Any, record: int) -> None:
        """Have the gradient of a value recorded.

        That is done as soon as it has a place in the graph of gradients.
        """
        if not self.gradients or record in self._hooked:
            return

        def sink(gradient: Any) -> Any:
            keep = self._places.get(record) in self._keep_gradients
            self._record("", gradient, role="gradient", inputs=(record,), attrs={"operation": "gradient"}, keep=keep)
            return self._given_gradient(record, gradient)

        remove = self.adapter.on_gradient(tensor, sink)
        if remove is not None:
            self._hooked[record] = remove

    def _given_gradient(self, record: int, gradient: Any) -> Any:
        """The gradient that is to take a gradient's place; None where it stays."""
        number, place = self._places.get(record, (-1, ""))
        given = self._patches.get(f"gradient {number}:{place}")
        if given is None or self._patch_values is None:
            return None
        return self.adapter.from_array(converted(self._patch_values.value(given), self.adapter.describe(gradient)[0]))

    # -- records -----------------------------------------------------------------------------------------------------------

    def _record(self, name: str, tensor: Any, *, moved: Optional[int] = None, keep: bool = False, **fields: Any) -> int:
        try:
            dtype, shape = self.adapter.describe(tensor)
            kind = fields["attrs"]["operation"]
            before = self._values.get(-1 if moved is None else moved)
            known = before if before is not None and (before.size, before.dtype) == (math.prod(shape), dtype) else None
            self._key = None
            digest, sketch, rest = self._fingerprint(tensor, known, kind, dtype)
            value: Optional[Typed] = self.adapter.to_array(tensor) if keep else _outline(dtype, shape)
        except UnsupportedTensor:
            value, dtype, shape, digest, sketch, rest = None, "", (), None, None, None
        if digest is not None and reaches_far(digest) and is_floating(dtype):
            fields = {**fields, "attrs": {**fields["attrs"], "bounded": self._bounded(tensor)}}
        if rest is not None:
            fields = {**fields, "attrs": {**fields["attrs"], "unmasked": rest}}
        record = self.writer.add(name, value, run=self.run, digest=digest, keep=keep and value is not None, **fields).id
        self._values[record] = _Value(digest, sketch, math.prod(shape), dtype, rest)
        if self._key is not None:
            self._keys[record] = self._key
        self._values.pop(record - RECENT, None)
        if sketch is not None:
            self._sketches.append((record, sketch))
            if len(self._sketches) >= CHUNK:
                self._write_sketches()
        return record

    def _fingerprint(self, tensor: Any, known: "Optional[_Value]", kind: str, dtype: str = "") -> Fingerprint:
        """Digest, sketch, and the digest of what is not masked (None without a mask).

        The sketch is without masked elements too.

        Those of a ``known`` value, whose elements were only moved, as far as they stay.
        """
        if known is not None and kind in ("view", "copy"):
            return Fingerprint(known.digest, known.sketch, known.rest)
        if known is not None and known.digest is not None and known.rest is None and kind == "transpose":
            return Fingerprint(known.digest, None if known.sketch is None else self.adapter.sketch(tensor), None)
        if self._fingerprints is None or not dtype:
            return self._computed(tensor, dtype)
        key = self._key = key_of(self.adapter.to_array(tensor))
        found = self._fingerprints.find(key)
        if found is None:
            found = self._computed(tensor, dtype)
            self._fingerprints.keep(key, found)
        return found

    def _computed(self, tensor: Any, dtype: str) -> Fingerprint:
        """The fingerprint of a value, computed; ``dtype`` is '' where a mask does not matter."""
        digest, sketch = self.adapter.fingerprint(tensor) if self._digesting else (moments(self.adapter.to_array(tensor)), None)
        if digest is None or not dtype or is_complex(dtype) or not reaches_down(digest):
            return Fingerprint(digest, sketch, None)
        rest = unmasked(widen(self.adapter.to_array(tensor)))
        found = None if rest is None else moments(rest)
        if rest is None or found is None or found.startswith("c"):  # no mask, or nothing else
            return Fingerprint(digest, sketch, None)
        return Fingerprint(digest, sketch if sketch is None else sketched(rest), found)

    def _bounded(self, tensor: Any) -> Optional[float]:
        """The mean of ``|x| / (1 + |x|)``.

        What a digest does not see of ordinary elements beside very large ones.
        """
        with self.adapter.no_grad():
            size = tensor.abs() if hasattr(tensor, "abs") else np.abs(tensor)
            found = float((size / (size + 1)).mean())
        return found if np.isfinite(found) else None

    def _digest_of(self, tensor: Any) -> Optional[str]:
        try:
            return self._fingerprint(tensor, None, "")[0]
        except UnsupportedTensor:
            return None

    def _write_sketches(self) -> None:
        if self._sketches:
            records = [record for record, _ in self._sketches]
            table = _narrow(np.stack([np.asarray(sketch) for _, sketch in self._sketches]))
            self.writer.add("sketches", table, role="state", run=self.run, attrs={"records": records})
            self._sketches.clear()


def _narrow(table: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """A table of numbers in float32, where that holds every one of them exactly."""
    if table.dtype != np.float64:
        return table
    with np.errstate(over="ignore"):
        narrow = table.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), table, equal_nan=True) else table


class _Known(NamedTuple):
    """A tensor object and the record of its value.

    It holds for as long as neither its version nor the count of writes to its memory changes.

    The version is None until the tensor was seen as an input.
    """

    tensor: Any
    record: int
    version: Optional[int]
    storage: int
    writes: int


class _Write(NamedTuple):
    """The last operation that wrote to some memory in place, and how many did before it."""

    number: int
    module: str
    fields: Dict[str, Any]


class _Value(NamedTuple):
    """What is remembered of a recent value."""

    digest: Optional[str]
    sketch: Any
    size: int
    dtype: str
    rest: Optional[str] = None


def _outline(dtype: str, shape: Tuple[int, ...]) -> Typed:
    """An array of this type and shape that holds nothing.

    All of its elements are the same bytes.
    """
    return Typed(np.ndarray(shape, STORAGE[dtype], bytes(16), strides=(0,) * len(shape)), dtype)


def _fields(operation: "Operation") -> Dict[str, Any]:
    attrs: Dict[str, Any] = {"operation": operation.kind, "stack": list(operation.stack[1:]), "arguments": operation.attrs}
    if operation.random:
        attrs["random"] = True
    source = operation.stack[0] if operation.stack else None
    return {"call": operation.index, "op": operation.op, "source": source, "attrs": attrs}


@lru_cache(maxsize=None)
def _is_rewritten(layer: type) -> bool:
    """Whether a class's pass forward is the user's own, and calls no class's above it."""
    code = getattr(inspect.unwrap(getattr(layer, "forward", None)), "__code__", None)  # type: ignore[arg-type] # anything may stand there
    if code is None:
        return False
    return not _calls_above(code) and is_users(code.co_filename, system_folders())


def _calls_above(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, may call the pass forward of another class."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return not {"super", "forward"}.isdisjoint(code.co_names) or any(map(_calls_above, inner))
