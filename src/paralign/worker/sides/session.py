"""One side, ready to do jobs: its functions, its adapter, its model, its inputs.

A session lives in a worker process, or, for live objects, in the user's own; the jobs are the same.
"""

from __future__ import annotations

import inspect
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from paralign.adapters import finding
from paralign.adapters.base import Adapter, Entry, Lending, Mixing, Observing, Remembering, Training
from paralign.adapters.finding import detect, load
from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import Typed, is_complex, is_floating, narrow, widen
from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.model import Manifest
from paralign.registry import SIGNATURES
from paralign.trainlog.peaks import forget_peak, peak_bytes
from paralign.worker.process import files, variables
from paralign.worker.sides.beside import Beside
from paralign.worker.sides.calling import call_model
from paralign.worker.values.fingerprints import Fingerprints
from paralign.worker.values.known_results import KnownResults
from paralign.worker.values.trees import Fields, leaves, rebuild, structure, to_value

if TYPE_CHECKING:
    from paralign.adapters.base import History

Functions = Dict[str, Callable[..., Any]]

#: the run in the model's own precision, and the run in double precision
NATIVE, DOUBLE = "native", "float64"

#: what automatic casts compute in, and what models without them do
HALVES, SINGLE = ("float16", "bfloat16"), "float32"

#: functions that are called with the name of a split, and may leave it out where there is only one
OF_SPLIT = ("build_dataset", "build_dataloader", "transforms")


def takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can be called without an argument, and cannot with one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of C code: as documented
        return False
    try:
        signature.bind("split")
    except TypeError:
        return not any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values())
    return False


def _imported() -> Dict[str, Adapter]:
    """The frameworks that are imported, with their adapters; those that are too old left out."""
    found = {}
    for name in finding.imported():
        try:
            found[name] = load(name)
        except EnvironmentUnavailable:  # noqa: PERF203 - the model may well be of another
            continue
    return found


class Session:
    """The state of one side between jobs.

    Args:
        side: ``reference`` or ``candidate``.
        functions: the side's functions by name.
        framework: ``torch``, ``paddle``, ``numpy``; None finds out from the model.
        device: where tensors live, ``cpu`` or ``gpu:0``.
        seed: what every stage is seeded with.
        revision: the git revision of the side's code.
        live: the model belongs to the caller, whose state is put back by :meth:`close`.
    """

    def __init__(
        self,
        side: str,
        functions: Functions,
        framework: Optional[str] = None,
        device: str = "cpu",
        seed: int = 0,
        *,
        live: bool = False,
        revision: Optional[str] = None,
    ) -> None:
        self.side, self.functions, self.device, self.base_seed = side, functions, device, seed
        self._model: Any = None
        self._splits: Dict[str, str] = {}
        self._adapter: Optional[Adapter] = load(framework) if framework else None
        self._live = live
        self._revision = revision
        self._give_back: Optional[Callable[[], None]] = None
        self._gradients = _Gradients()
        self.widens = False  # whether half outputs are given in float32, as one side's are whole; told by tasks
        #: seconds that the imports of this session took, until a capture tells of them
        self.prepared = 0.0
        #: id of a module -> the lines that constructed it
        self.built: Dict[int, Tuple[str, ...]] = {}
        #: what was seen while the model was built; None where the framework cannot tell
        self.history: "Optional[History]" = None
        #: of values of passes that are watched by operation
        self.fingerprints = Fingerprints()
        #: of costly operations in experiments
        self.results = KnownResults()
        #: functions that run on the CPU although the side is on a card
        self.beside = Beside()
        if self._adapter is not None:
            self._adapter.use_device(device)

    @property
    def adapter(self) -> Adapter:
        """The adapter; where no framework was named, that of the model.

        Raises:
            UsageError: the model belongs to no framework that there is an adapter for.
        """
        if self._adapter is None and "build_model" not in self.functions:
            imported = finding.imported()
            self._adapter = load(imported[0] if len(imported) == 1 else finding.PLAIN)
            self._adapter.use_device(self.device)
        if self._adapter is None:
            seeded = self._seed_imported()
            model = self._build()
            framework = detect(model)
            if framework is None and callable(model):
                framework = finding.PLAIN
            if framework is None:
                raise UsageError(
                    f"no adapter claims a model of type {type(model).__module__}.{type(model).__qualname__}",
                    where=self.side,
                    hint="name the framework: Side(framework=...) or `framework` in paralign.toml",
                )
            self._adapter = load(framework)
            self._adapter.use_device(self.device)
            if framework not in seeded and framework != finding.PLAIN:  # imported by build_model() itself: it drew from no seed
                self._adapter.seed(self.base_seed)
                model = None  # two of them may be too large
                model = self._build()
            self._keep(model)
        return self._adapter

    def _seed_imported(self) -> List[str]:
        """Seed the frameworks that are imported, before it is known which one the model is of."""
        found = _imported()
        for adapter in found.values() or [load(finding.PLAIN)]:
            adapter.seed(self.base_seed)
        return list(found)

    @property
    def is_live(self) -> bool:
        """Whether the model belongs to the caller."""
        return self._live

    @property
    def model(self) -> Any:
        """The model, built on first use with the session's seed, on the session's device."""
        adapter = self.adapter
        if self._model is None:
            adapter.seed(self.base_seed)
            self._keep(self._build())
        return self._model

    def _build(self) -> Any:
        """Build the model, and note the lines that constructed its modules where that is known."""
        build = self.function("build_model")
        framework: Any = self._adapter
        if framework is None:  # not known before there is a model: then of the frameworks that are here
            found = list(_imported().values())
            framework = found[0] if len(found) == 1 else None
        with ExitStack() as stack:
            if isinstance(framework, Observing):
                self.built = stack.enter_context(framework.constructions())
            if isinstance(framework, Remembering):
                self.history = stack.enter_context(framework.history())
            return build()

    def rebuilt(self, seed: int) -> Any:
        """Another model from ``build_model()``, after another seed."""
        self.adapter.seed(seed)
        return self.function("build_model")()

    @property
    def beginning(self) -> str:
        """The function that builds a model for a training from scratch.

        ``build_untrained``, where the side has it.
        """
        return "build_untrained" if "build_untrained" in self.functions else "build_model"

    def adopt(self, model: Any) -> Any:
        """Take a model that the user's code has built, without a seed.

        It is given back on the session's device.
        """
        self._keep(model)
        return self._model

    def _keep(self, model: Any) -> None:
        adapter = self.adapter
        if not adapter.is_model(model):
            raise UsageError(
                f"build_model() returned a {type(model).__module__}.{type(model).__qualname__}, which is no {adapter.name} model",
                where=self.side,
                hint="return the model itself; check `framework` of this side",
            )
        if self._live:
            self._give_back = self._lent(model)
        self._model = adapter.place(model)

    def function(self, name: str) -> Callable[..., Any]:
        """One of the side's functions.

        Raises:
            UsageError: the side does not have it.
        """
        if name not in self.functions:
            raise UsageError(
                f"the {self.side} has no function {SIGNATURES[name]}",
                where=self.side,
                hint=f"define {SIGNATURES[name]} in the {self.side}'s module",
            )
        found = self.functions[name]
        if name in OF_SPLIT and takes_nothing(found):
            return self._of_one_split(name, found)
        return found

    def _of_one_split(self, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        """A function that takes no split, as one that does.

        It has one set of data, whatever the split is called.
        """

        def of_split(split: str) -> Any:
            known = self._splits.setdefault(name, split)
            if known != split:
                raise UsageError(
                    f"{name}() of the {self.side} takes no argument: it cannot give the splits {known!r} and {split!r}",
                    where=self.side,
                    hint=f"define {SIGNATURES[name]} in the {self.side}'s module",
                )
            return found()

        return of_split

    def seed(self) -> None:
        """Seed everything as at the start of every stage."""
        self.adapter.seed(self.base_seed)

    def call(self, inputs: Any, model: Any = None) -> Any:
        """The outputs of the model, or of another.

        Inputs are handed over by :func:`paralign.worker.sides.calling.call_model`.
        """
        return call_model(self.model if model is None else model, inputs)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Keep no gradients inside, unless the model fails so.

        It does where its forward pass registers hooks.
        """
        if self._gradients.kept:
            yield
            return
        try:
            with self.adapter.no_grad():
                yield
        except Exception:  # any: a hook of the user's may raise what it likes; it goes on as it is
            self._gradients.stopped = True
            raise

    @property
    def keeps_gradients(self) -> bool:
        """Whether passes keep gradients, because one has failed without."""
        return self._gradients.kept

    def keep_gradients(self) -> bool:
        """Have passes keep gradients from now on; False where that was tried or is not needed."""
        if not self._gradients.stopped or self._gradients.tried:
            return False
        self._gradients.kept = self._gradients.tried = True
        return True

    def forgo_gradients(self) -> None:
        """Have passes go without gradients again: keeping them did not help."""
        self._gradients.kept = False

    def fresh(self, value: Any) -> Any:
        """The same tree with tensors of their own memory.

        What a pass does to its inputs in place, the next does not see.
        """
        if isinstance(value, dict):
            made = {key: self.fresh(item) for key, item in dict.items(value)}
            return type(value)(made) if isinstance(value, Fields) else made
        if type(value) in (list, tuple):
            return type(value)(self.fresh(item) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_fields") and not self.adapter.is_tensor(value):
            return type(value)(*map(self.fresh, value))
        return self.adapter.from_array(self.adapter.to_array(value)) if self.adapter.is_tensor(value) else value

    # -- state -------------------------------------------------------------------------------------------------------------

    def entries(self, model: Any = None) -> List[Entry]:
        """Every tensor of the model's state."""
        return self.adapter.state(self.model if model is None else model)

    def snapshot(self, model: Any = None) -> Dict[str, Typed]:
        """A copy of the model's whole state on the host; tensors under several names once."""
        kept = [e for e in self.entries(model) if e.shared is None]
        return {e.name: _copy(self.adapter.to_array(e.tensor)) for e in kept}

    def restore(self, state: Dict[str, Typed]) -> None:
        """Put a snapshot back, element types included."""
        if isinstance(self.adapter, Mixing):
            self.adapter.mix(on=False)
        before = {v.dtype for v in state.values() if is_floating(v.dtype) and not is_complex(v.dtype)}
        if len(before) == 1 and self.precisions() != before:
            self.adapter.cast(self.model, before.copy().pop())
        self.adapter.load_state(self.model, state)

    def precisions(self) -> "set[str]":
        """The real floating types in the model's state."""
        dtypes = {self.adapter.to_array(e.tensor).dtype for e in self.entries()}
        return {d for d in dtypes if is_floating(d) and not is_complex(d)}

    @contextmanager
    def untouched(self) -> Iterator[Dict[str, Typed]]:
        """Undo on leaving whatever happens to the model's state and modes; gives the state."""
        state, mode = self.snapshot(), self.adapter.mode(self.model)
        try:
            yield state
        finally:
            self.restore(state)
            self.adapter.set_mode(self.model, mode)
            if isinstance(self.adapter, Training):
                self.adapter.clear_gradients(self.model, None)

    def to_double(self, *, mixed: bool = True) -> None:
        """Cast the model to float64; :meth:`restore` undoes it.

        ``mixed``: operations that would refuse float32 beside float64 take both.

        Raises:
            UsageError: the model mixes element types, so that casting it back would lose which was which.
        """
        if len(self.precisions()) > 1:
            raise UsageError(f"the model mixes element types ({', '.join(sorted(self.precisions()))})", where=self.side)
        self.cast(DOUBLE, mixed=mixed)

    def cast(self, dtype: str, *, mixed: bool = True) -> None:
        """Cast the model.

        In float64, operations take its values beside float32 constants of the code where ``mixed`` says so.
        """
        self.adapter.cast(self.model, dtype)
        if isinstance(self.adapter, Mixing):
            self.adapter.mix(on=mixed and dtype == DOUBLE)

    @contextmanager
    def in_precision_of(self, run: str) -> Iterator[None]:
        """Inside, functions of a float64 run take float32 constants of the code.

        Other runs stay as they are, and so does the model: this is for a loss of values that are given.
        """
        mixes = run == DOUBLE and isinstance(self.adapter, Mixing)
        if mixes:
            self.adapter.mix(on=True)  # type: ignore[attr-defined] # asked for just before
        try:
            yield
        finally:
            if mixes:
                self.adapter.mix(on=False)  # type: ignore[attr-defined] # as above

    def close(self) -> None:
        """Give a live model back as it was."""
        if self._give_back is not None:
            self._give_back()
            self._give_back = None

    def _lent(self, model: Any) -> Callable[[], None]:
        """What gives a live model back as it now is."""
        adapter, mode = self.adapter, self.adapter.mode(model)
        give_back = adapter.lend(model) if isinstance(adapter, Lending) else partial(self.restore, self.snapshot(model))

        def put_back() -> None:
            adapter.set_mode(model, mode)
            give_back()

        return put_back

    # -- values ------------------------------------------------------------------------------------------------------------

    def tree(self, capture: Capture, name: str, run: str, *, values_of: str = "", precision: str = "", whole: bool = False) -> Any:
        """A recorded tree as tensors of this side.

        Floating leaves become float64 where ``run`` is the float64 run.

        Args:
            name: the tree's name in the capture.
            precision: what floating leaves become in other runs, '' to leave them as they are.
            values_of: the run whose values are taken, '' for records without a run.
            whole: give outputs of float16 or bfloat16 in float32, where a task has told that one side's are none.
        """
        shape = capture.manifest.settings["trees"][name]
        found = {r.leaf: r for r in capture.select(name=name, run=values_of) if "module" not in r.attrs}

        def leaf(path: str) -> Any:
            record = found[path]
            own = SINGLE if whole and self.widens and record.dtype in HALVES else precision
            return record.text if record.text is not None else self.tensor(capture.value(record), run, own)

        return rebuild(shape, leaf, plain=name.partition("_")[0] == "inputs")

    def inputs(self, capture: Capture, run: str, name: str = "inputs") -> Any:
        """The recorded ``inputs``, or another tree, as tensors of this side.

        Floating ones are in the precision of the model, in float64 in that run.
        """
        precisions = self.precisions()
        return self.tree(capture, name, run, precision=precisions.pop() if len(precisions) == 1 else "")

    def tensor(self, value: Typed, run: str, precision: str = "") -> Any:
        """A host value as a tensor of this side.

        Floating ones are float64 where the run is, else ``precision`` where that is given.
        """
        precision = DOUBLE if run == DOUBLE else precision
        if precision and value.dtype != precision and is_floating(value.dtype) and not is_complex(value.dtype):
            value = narrow(widen(value), precision)
        return self.adapter.from_array(value)

    def save_tree(self, writer: CaptureWriter, name: str, value: Any, **fields: Any) -> None:
        """Record every leaf of a value under one name, and its structure in the manifest."""
        known = self.adapter.is_tensor
        writer.manifest.settings.setdefault("trees", {})[name] = structure(value, known)
        for path, leaf in leaves(value, known):
            writer.add(name, to_value(leaf, self.adapter), leaf=path, **{"role": "output", **fields})

    # -- captures ----------------------------------------------------------------------------------------------------------

    def manifest(self, stage: str, settings: Dict[str, Any]) -> Manifest:
        """How this session runs, for the head of a capture."""
        versions = {"python": sys.version.split()[0]}
        flags: Dict[str, Any] = {}
        framework = ""
        if self._adapter is not None:
            versions.update(self._adapter.versions())
            flags, framework = self._adapter.flags(), self._adapter.name
        return Manifest(
            side=self.side,
            stage=stage,
            framework=framework,
            versions=versions,
            device=self.device,
            seed=self.base_seed,
            flags=flags,
            command=list(sys.argv),
            revision=self._revision,
            settings=dict(settings),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    @contextmanager
    def capture(self, path: str, stage: str, settings: Dict[str, Any]) -> Iterator[CaptureWriter]:
        """A capture to write into, closed with what the task took.

        That is the time, the peak memory so far, the files and the variables that were read.
        """
        began, computed = time.perf_counter(), time.process_time()
        forget_peak()
        files.seal(False)
        with CaptureWriter(path, self.manifest(stage, settings)) as writer:
            yield writer
            seconds = time.perf_counter() - began
            busy = min(seconds, time.process_time() - computed)  # several threads count once
            writer.manifest.resources = {"seconds": seconds, "busy_seconds": busy, "peak_bytes": peak_bytes()}
            if self.prepared:
                writer.manifest.resources["prepared_seconds"], self.prepared = self.prepared, 0.0
            if not self._live:
                writer.manifest.files, writer.manifest.variables = files.depended_on(), variables.depended_on()
                if files.deeds():
                    writer.manifest.settings["deeds"] = files.deeds()
                files.seal(True)  # what is done from here on is in no manifest
            if self._gradients.kept:
                writer.manifest.notes.append("passes kept gradients: the model does not run without (a hook in its forward pass?)")


@dataclass
class _Gradients:
    """Whether passes keep gradients.

    ``stopped``: one has failed without. ``tried``: keeping them was tried. ``kept``: they are now.
    """

    stopped: bool = False
    tried: bool = False
    kept: bool = False


def _copy(value: Typed) -> Typed:
    return Typed(value.array.copy(), value.dtype)
