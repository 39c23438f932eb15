"""The adapter of JAX: weights, forward passes, data, metrics and predictions.

JAX has no backward pass that starts from a value, so that nothing here is ``Training``: gradients of a JAX side are not compared. Calls
inside ``jax.jit`` are not seen, for there they are traced and not run.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from paralign.adapters import _exported, _modes, _values
from paralign.adapters._calls import Calls, SourceLine, Target
from paralign.adapters._lending import Attributes
from paralign.adapters.base import Call, Entry
from paralign.adapters.numpy import replaced
from paralign.capture import sketch as _sketch
from paralign.capture.digest import moments
from paralign.dtypes import RAW, Typed, canonical, is_complex, is_floating, typed
from paralign.errors import EnvironmentUnavailable, UnsupportedTensor, UsageError
from paralign_jax import trees

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import Select, Sink

#: what a layer of nnx knows of train and eval mode
_SWITCHES = ("deterministic", "use_running_average")


class JaxAdapter:
    """Arrays of JAX; functions over trees of parameters, and modules of flax.nnx."""

    name = "jax"

    def __init__(self) -> None:
        if "jax_explicit_x64_dtypes" not in jax.config.values:
            raise EnvironmentUnavailable(f"jax {jax.__version__} is too old", hint="pip install --upgrade jax (0.10 or newer)")
        # types of 64 bits where they are asked for by name; what a program creates without a name keeps the 32 bits of its defaults
        jax.config.update("jax_explicit_x64_dtypes", "allow")
        folders = [str(Path(str(jax.__file__)).parent)]
        self._source = SourceLine(
            [
                *folders,
                *(str(Path(folder).parent / "flax") for folder in folders),
                *(str(Path(file).parent) for file in (__file__, np.__file__)),
            ]
        )

    def versions(self) -> Dict[str, str]:
        """Versions of JAX, of jaxlib, of numpy, and of flax where the side uses it."""
        import jaxlib

        found = {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__}
        if trees.nnx() is not None:
            import flax

            found["flax"] = flax.__version__
        return found

    def devices(self) -> List[str]:
        """The CPU, then GPUs by number."""
        return ["cpu", *(f"gpu:{index}" for index, _ in enumerate(_gpus()))]

    def use_device(self, device: str) -> None:
        """Make a device JAX's default."""
        if device not in self.devices():
            raise EnvironmentUnavailable(f"jax has no device {device!r} here", hint=f"choose: {', '.join(self.devices())}")
        chosen = jax.devices("cpu")[0] if device == "cpu" else _gpus()[int(device.partition(":")[2])]
        jax.config.update("jax_default_device", chosen)

    def place(self, model: Any) -> Any:
        """The model, its arrays on the device in use."""
        device = jax.config.jax_default_device
        for slot in trees.slots(model):
            if device is not None and slot.array.devices() != {device}:
                slot.put(jax.device_put(slot.array, device))
        return model

    def flags(self) -> Dict[str, Any]:
        """Settings that change results."""
        device = jax.config.jax_default_device
        return {
            "default_dtype": "float64" if jax.config.jax_enable_x64 else "float32",
            "device": "cpu" if device is None or device.platform == "cpu" else f"gpu:{device.id}",
            "matmul_precision": str(jax.config.jax_default_matmul_precision or "default"),
            "jit": not jax.config.jax_disable_jit,
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        }

    def device_bytes(self) -> int:
        """Bytes that arrays have in use on a GPU."""
        device = jax.config.jax_default_device
        if device is None or device.platform == "cpu":
            return 0
        return int((device.memory_stats() or {}).get("bytes_in_use", 0))

    def seed(self, seed: int) -> None:
        """Seed numpy's global generator and ``random``; JAX's keys are the user's own."""
        _exported.seed_host(seed)

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is an array of JAX with values: none that is being traced, no key."""
        return trees.is_array(value)

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` can be called and holds arrays of JAX, or is a module of nnx."""
        flax = trees.nnx()
        if flax is not None and isinstance(value, flax.Module):
            return True
        return callable(value) and not isinstance(value, (type, jax.Array)) and bool(trees.slots(value))

    def to_array(self, tensor: Any) -> Typed:
        """The array's values without a copy on the CPU; raw bits for bfloat16 and float8."""
        if isinstance(tensor, jax.core.Tracer):
            raise UnsupportedTensor("an array that is being traced has no values", hint="look at it outside of jax.jit")
        if jax.dtypes.issubdtype(tensor.dtype, jax.dtypes.prng_key):
            raise UnsupportedTensor("a key of random numbers cannot be recorded", hint="use jax.random.key_data(key)")
        if tensor.is_deleted():
            raise UnsupportedTensor("the array was given away (donated) and is gone", hint="call without donate_argnums")
        return typed(np.asarray(tensor))

    def fingerprint(self, tensor: Any, sketch: bool = True) -> "Tuple[str, Optional[np.ndarray[Any, Any]]]":
        """Digest and sketch, by the functions of ``capture``."""
        value = self.to_array(tensor)
        return moments(value), _sketch.sketch(value) if sketch else None

    def sketch(self, tensor: Any) -> "np.ndarray[Any, Any]":
        """The sketch alone."""
        return _sketch.sketch(self.to_array(tensor))

    def version(self, tensor: Any) -> Optional[int]:  # noqa: ARG002 - JAX's arrays are never written to
        """None: arrays never change."""
        return None

    def from_array(self, value: Typed) -> Any:
        """A new array on the device in use."""
        array = _values.fresh(value)
        if value.dtype in RAW:
            import ml_dtypes

            array = array.view(np.dtype(getattr(ml_dtypes, value.dtype)))
        with jax.enable_x64(True):  # elsewhere jnp.array rounds values to 32 bits, whatever the type that it is asked for
            return jnp.array(array, copy=True)

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """The root and every object below it whose class defines ``__call__``."""
        start = trees.root(model)
        return [("", model), *((path, each) for path, each in trees.owners(start) if path and trees.is_module(each))]

    def kind(self, module: Any) -> str:
        """PyTorch's name of the nnx layer that a module derives from; '' for a user's own."""
        return trees.kind(module)

    def state(self, model: Any) -> List[Entry]:
        """Every array, a parameter where something holds it as one.

        An nnx.Param, ``params``, ``parameters`` or a partial's first argument does.
        """
        first: Dict[int, str] = {}
        found = []
        for slot in trees.slots(model):
            role = "parameter" if slot.trained else "buffer"
            shared = first.get(id(slot.held))
            found.append(Entry(slot.name, slot.array, role, slot.owner, slot.leaf, slot.kind, trainable=slot.trained, shared=shared))
            first.setdefault(id(slot.held), slot.name)
        return found

    def load_state(self, model: Any, values: Dict[str, Typed]) -> None:
        """Put new arrays where the old ones were held.

        Every place that holds the same array gets the same new one.
        """
        slots = trees.slots(model)
        pairs = _values.matched(self.state(model), values, lambda array: (tuple(array.shape), canonical(np.dtype(array.dtype))))
        named = {slot.name: slot for slot in slots}
        new: Dict[int, Any] = {}
        for entry, value in pairs:
            dtype = canonical(np.dtype(entry.tensor.dtype))
            made = self.from_array(_values.converted(value, dtype))
            held = id(named[entry.name].held)
            new[held] = made if dtype not in RAW else made.astype(entry.tensor.dtype)
        _put(slots, new)

    @contextmanager
    def observe(self, model: Any, sink: Sink, select: Optional[Select] = None) -> Iterator[None]:
        """Replaces ``__call__`` of the modules' classes; calls that are traced are passed over."""
        targets = {}
        modules = [(path, module) for path, module in self.modules(model) if trees.is_module(module)]
        for path, module in modules:
            below = path + "." if path else ""
            leaf = not any(other != path and other.startswith(below) for other, _ in modules)
            watched = select is None or select(path, module)
            targets[id(module)] = Target(path, type(module).__name__, trees.kind(module), leaf=leaf, watched=watched)

        def seen(call: Call) -> None:
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((call.inputs, call.outputs))):
                sink(call)

        calls = Calls(seen, self._source)
        with ExitStack() as stack:
            for cls in {type(module): None for _, module in modules}:
                stack.enter_context(replaced(cls, targets, calls))
            yield

    def cast(self, model: Any, dtype: str) -> None:
        """Cast floating arrays, complex ones to match.

        An array that is held twice becomes one new array.
        """
        complex_target = _values.FLOATING[_values.castable(dtype)]
        slots = trees.slots(model)
        new: Dict[int, Any] = {}
        for slot in slots:
            name = canonical(np.dtype(slot.array.dtype))
            target = complex_target if is_complex(name) else dtype
            if is_floating(name) and target is not None and target != name:
                new[id(slot.held)] = slot.array.astype(target)
        _put(slots, new)

    def train(self, model: Any, mode: str) -> None:
        """Set what layers of nnx know of modes; functions and other objects have none."""
        if mode not in _modes.MODES:
            raise UsageError(f"there is no mode {mode!r}", hint="choose one of: " + ", ".join(_modes.MODES))
        evaluating = mode in ("eval", "differentiable")
        for _, owner in trees.owners(model):
            space = vars(owner)
            if trees.kind(owner) and "deterministic" in space:
                space["deterministic"] = evaluating or mode == "quiet"
            if trees.kind(owner) and "use_running_average" in space:
                space["use_running_average"] = evaluating

    def no_grad(self) -> AbstractContextManager[None]:
        """An empty context: gradients are computed where they are asked for."""
        return nullcontext()

    def mode(self, model: Any) -> Any:
        """The switches of every layer of nnx, by path."""
        return {
            path: {switch: vars(owner)[switch] for switch in _SWITCHES if switch in vars(owner)}
            for path, owner in trees.owners(model)
            if trees.kind(owner)
        }

    def set_mode(self, model: Any, mode: Any) -> None:
        """Put the switches back."""
        for path, owner in trees.owners(model):
            vars(owner).update(mode.get(path, {}))

    def afresh(self) -> AbstractContextManager[None]:
        """An empty context."""
        return nullcontext()

    def process_state(self) -> Any:
        """The default device."""
        return jax.config.jax_default_device

    def put_process_state(self, state: Any) -> None:
        """Put it back."""
        jax.config.update("jax_default_device", state)

    def lend(self, model: Any) -> Callable[[], None]:
        """Keep every array where it is held, and the attributes of every object."""
        kept = Attributes(owner for _, owner in trees.owners(model))
        held = [(slot.put, slot.array) for slot in trees.slots(model)]

        def give_back() -> None:
            kept.restore()
            for put, array in held:
                put(array)

        return give_back


def _put(slots: List[trees.Slot], new: Dict[int, Any]) -> None:
    for slot in slots:
        if id(slot.held) in new:
            slot.put(new[id(slot.held)])


def _gpus() -> List[Any]:
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:  # JAX's way to say that there is none
        return []


@cache
def create() -> JaxAdapter:
    """The adapter of this process."""
    return JaxAdapter()
