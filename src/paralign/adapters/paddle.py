"""PaddlePaddle, in dynamic graph mode.

``observe`` uses forward hooks, with keyword arguments where this version hands them to hooks (3.3 does).
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle.nn import RNNCellBase
from paddle.nn.layer.rnn import RNNBase

from paralign.adapters import (
    _diagnosis_paddle,
    _digest_paddle,
    _exported,
    _history,
    _lazily_paddle,
    _lending_paddle,
    _mixed_paddle,
    _modes,
    _onnx,
    _paddle_operations,
    _programs_paddle,
    _times_paddle,
    _training_paddle,
    _translated_paddle,
    _values,
)
from paralign.adapters._autocast_paddle import idle_casts, no_autocast
from paralign.adapters._calls import Calls, Paths, SourceLine, Target, attached
from paralign.adapters._operations import constructed
from paralign.adapters._paddle_recurrent import in_steps
from paralign.adapters._tensors_paddle import NAMES, TYPES, held_still, recordable
from paralign.adapters.base import TF32_OVERRIDE, Entry
from paralign.capture import sketch as _sketch
from paralign.capture.digest import moments
from paralign.dtypes import RAW, STORAGE, Typed, is_floating
from paralign.errors import EnvironmentUnavailable, UnsupportedTensor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import History, OperationSink, Select, Sink


#: settings that change results; a build has those of its devices only
_FLAGS = (
    "FLAGS_cudnn_deterministic",
    "FLAGS_embedding_deterministic",
    "FLAGS_cpu_deterministic",
    "FLAGS_cudnn_exhaustive_search",
    "FLAGS_conv_workspace_size_limit",
    "FLAGS_gemm_use_half_precision_compute_type",
    "FLAGS_allow_tf32_override",
    "FLAGS_use_mkldnn",
    "FLAGS_paddle_num_threads",
    "FLAGS_use_stride_kernel",
    "FLAGS_enable_pir_api",
)

#: kinds of layers that register running statistics as parameters -> their names
_STATISTICS = {"BatchNorm": ("_mean", "_variance"), "SpectralNorm": ("weight_u", "weight_v")}

_MIXING = _mixed_paddle.create()

_LOADERS = ("set_state_dict", "set_dict", "load_dict")


class PaddleAdapter(_lazily_paddle.BuildsLazily, _lending_paddle.Lends, _diagnosis_paddle.Diagnoses, _training_paddle.Trains):
    """Paddle layers, tensors and optimizers; the device in use is Paddle's own setting."""

    name = "paddle"

    def __init__(self) -> None:
        home = Path(paddle.__file__).parent
        self._source = SourceLine([str(home)], models=[str(home / "vision" / "models")])

    def versions(self) -> Dict[str, str]:
        """Versions of Paddle and numpy; of CUDA and cuDNN where this build has them."""
        found = {"paddle": paddle.__version__, "numpy": np.__version__, "cuda": paddle.version.cuda(), "cudnn": paddle.version.cudnn()}
        return {name: str(version) for name, version in found.items() if version not in (None, "False", False)}

    def devices(self) -> List[str]:
        """``cpu``, then every GPU."""
        count = paddle.device.cuda.device_count() if paddle.device.is_compiled_with_cuda() else 0
        return ["cpu", *(f"gpu:{index}" for index in range(count))]

    def synchronize(self) -> None:
        """Wait until the device has done what it was given; on a CPU it has."""
        if paddle.device.is_compiled_with_cuda() and not str(paddle.device.get_device()).startswith("cpu"):
            paddle.device.synchronize()

    def use_device(self, device: str) -> None:
        """Make ``cpu``, ``gpu``, ``gpu:1`` (also spelled ``cuda:1``) Paddle's current device."""
        wanted = device.replace("cuda", "gpu")
        wanted = "gpu:0" if wanted == "gpu" else wanted
        if wanted not in self.devices():
            raise EnvironmentUnavailable(f"Paddle has no device {device!r} here", hint="choose one of: " + ", ".join(self.devices()))
        paddle.set_device(wanted)

    def place(self, model: Any) -> Any:
        """The same model, its parameters and buffers moved.

        ``_dtype`` is kept, which ``Layer.to`` would forget.
        """
        kept = [(layer, layer._dtype) for layer in model.sublayers(include_self=True)]  # noqa: SLF001 - there is no public name for it
        for tensor in (entry.tensor for entry in self.state(model)):
            place = paddle.framework._current_expected_place()  # noqa: SLF001 - get_device gives a name, not a place
            if not tensor.place._equals(place):  # noqa: SLF001 - places have no public comparison
                model.to(device=paddle.get_device())
                break
        for layer, dtype in kept:
            layer._dtype = dtype  # noqa: SLF001 - as above
        return model

    def flags(self) -> Dict[str, Any]:
        """Device, default dtype, this build's flags, and how far PyTorch is imitated."""
        found: Dict[str, Any] = {"device": paddle.get_device(), "default_dtype": paddle.get_default_dtype()}
        for flag in _FLAGS:
            with suppress(ValueError):  # Paddle's way of saying that this build has no such flag
                found.update(paddle.get_flags([flag]))
        if paddle.get_device().startswith("gpu"):
            found[TF32_OVERRIDE] = os.environ.get(TF32_OVERRIDE, "")
        compat = _diagnosis_paddle.compat_level()
        return found if compat is None else {**found, "enable_compat": compat}

    def device_bytes(self) -> int:
        """Bytes that tensors have in use on a GPU, without what Paddle keeps for the next ones."""
        device = paddle.get_device()
        if device.startswith("gpu"):
            return int(paddle.device.cuda.memory_allocated(int(device.partition(":")[2] or 0)))
        return 0

    def seed(self, seed: int) -> None:
        """Seed Paddle on all devices, numpy and ``random``."""
        paddle.seed(seed)
        _exported.seed_host(seed)

    @contextmanager
    def default_of(self, dtype: str) -> Iterator[None]:
        """New floating tensors are of this type inside."""
        before = paddle.get_default_dtype()
        paddle.set_default_dtype(dtype)
        try:
            yield
        finally:
            paddle.set_default_dtype(before)

    def mix(self, *, on: bool) -> None:
        """Have operations that refuse float32 beside float64 take both in float64; or not."""
        if on:
            _MIXING.install()
        else:
            _MIXING.remove()

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is an eager ``paddle.Tensor``."""
        return isinstance(value, paddle.Tensor)

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` is a ``paddle.nn.Layer``."""
        return isinstance(value, paddle.nn.Layer)

    def to_array(self, tensor: Any) -> Typed:
        """The values on the host.

        They share the tensor's memory where that is on the host and numpy can take it over (DLPack).
        """
        name = recordable(tensor)
        if not tensor.size:  # a kernel may leave one without memory, of which DLPack tells whatever number of axes
            return Typed(np.zeros(tuple(tensor.shape), STORAGE[name]), name)
        host = tensor.detach()
        if not host.place.is_cpu_place():
            host = host.cpu()
        if name in RAW:
            host = host.view("int16" if name == "bfloat16" else "uint8")
        if name == "bool" or not hasattr(np, "from_dlpack"):  # numpy before 1.22 has no DLPack, before 1.25 none of bool
            return Typed(host.numpy(), name)
        return Typed(np.from_dlpack(host).view(STORAGE[name]), name)

    def fingerprint(self, tensor: Any, sketch: bool = True) -> "Tuple[str, Optional[np.ndarray[Any, Any]]]":
        """Digest and sketch, see ``_digest_paddle``."""
        name = recordable(tensor)
        with paddle.no_grad(), no_autocast():
            plain = tensor.detach()
            made = _digest_paddle.fingerprint(plain, name, ordered=sketch)
            if made is None:
                value = self.to_array(plain)
                made = moments(value), _sketch.sketch(value) if sketch else None
            return made

    def sketch(self, tensor: Any) -> "np.ndarray[Any, Any]":
        """The sketch alone."""
        name = recordable(tensor)
        with paddle.no_grad(), no_autocast():
            plain = tensor.detach()
            made = _digest_paddle.sketch(plain, name)
            return _sketch.sketch(self.to_array(plain)) if made is None else made

    def version(self, tensor: Any) -> Optional[int]:
        """A number that grows with every write to the tensor in place; None without one."""
        return int(tensor.inplace_version)

    def from_array(self, value: Typed) -> Any:
        """A new tensor on the device in use.

        Raises:
            UnsupportedTensor: Paddle has no such element type.
        """
        if value.dtype not in TYPES:
            raise UnsupportedTensor(
                f"Paddle {paddle.__version__} has no tensors of {value.dtype}",
                hint="convert the values to one of: " + ", ".join(sorted(TYPES)),
            )
        array = _values.fresh(value)
        if value.dtype not in RAW:
            return paddle.to_tensor(array)
        bits = array.view(np.int16) if value.dtype == "bfloat16" else array
        return paddle.to_tensor(bits).view(value.dtype)

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """As ``named_sublayers(include_self=True)``."""
        return list(model.named_sublayers(include_self=True))

    def kind(self, module: Any) -> str:
        """The class of Paddle that a layer is or derives from; no model's.

        Layers, ``paddle.vision.ops``, ``paddle.incubate``, and so on.

        ``paddle.compat.nn.Linear`` keeps its matrix as PyTorch does: a layer of the user's own, whose layout running the models tells.
        """
        for cls in type(module).__mro__:
            home = cls.__module__
            if home == "paddle.compat.nn" and cls.__name__ == "Linear":
                return ""
            if cls is not paddle.nn.Layer and home.split(".")[0] == "paddle" and not home.startswith("paddle.vision.models."):
                return str(cls.__name__)
        return ""

    def state(self, model: Any) -> List[Entry]:
        """Parameters before buffers, layer by layer.

        Paddle registers the running statistics of BatchNorm and the vectors of SpectralNorm as parameters: here they are buffers.
        BatchNorm's ``momentum`` weighs the *old* statistics, as in Paddle. Recurrent layers' empty scratch space is left out.
        """
        entries: List[Entry] = []
        first: Dict[int, str] = {}
        for owner, layer in _walk(model, ""):
            kind = self.kind(layer)
            for role, leaf, tensor in _tensors(layer, kind):
                name = f"{owner}.{leaf}" if owner else leaf
                entries.append(
                    Entry(
                        name,
                        tensor,
                        role,
                        owner,
                        leaf,
                        kind,
                        trainable=role == "parameter" and not tensor.stop_gradient and not held_still(tensor),
                        shared=first.get(id(tensor)),
                        persistent=leaf not in layer._non_persistable_buffer_names_set,  # noqa: SLF001 - no public name
                        attrs=_normalisation(layer, kind) if role == "buffer" else {},
                    )
                )
                first.setdefault(id(tensor), name)
        return entries

    def load_state(self, model: Any, values: Dict[str, Typed]) -> None:
        """Copy values into parameters and buffers, which stay the same objects."""
        pairs = _values.matched(self.state(model), values, lambda tensor: (tuple(tensor.shape), recordable(tensor)))
        with paddle.no_grad():
            for entry, value in pairs:
                new = self.from_array(_values.converted(value, NAMES[entry.tensor.dtype]))
                entry.tensor.set_value(new if new.dtype == entry.tensor.dtype else new.cast(entry.tensor.dtype))

    @contextmanager
    def observe(self, model: Any, sink: Sink, select: Optional[Select] = None) -> Iterator[None]:
        """Watch by forward hooks on every layer.

        ``inputs`` are the arguments, then a dict of the keyword arguments if any.
        """
        with attached(self._targets(model, select), Calls(sink, self._source), "register_forward_post_hook"):
            yield

    def _targets(self, model: Any, select: Optional[Select] = None) -> List[Tuple[Any, Target]]:
        return [
            (
                layer,
                Target(
                    path,
                    type(layer).__name__,
                    self.kind(layer),
                    leaf=next(iter(layer.children()), None) is None,
                    watched=select is None or select(path, layer),
                ),
            )
            for path, layer in self.modules(model)
        ]

    @contextmanager
    def operations(self, sink: OperationSink, model: Any = None) -> Iterator[None]:
        """Watch everything that reaches a kernel through Python.

        Operations that call others in C++ are seen as one.
        """
        paths = Paths()
        targets = [] if model is None else self._targets(model)
        with attached(targets, paths, "register_forward_post_hook"), _paddle_operations.observed(sink, self._source, paths):
            yield

    @contextmanager
    def constructions(self) -> Iterator[Dict[int, Tuple[str, ...]]]:
        """Wrap ``paddle.nn.Layer.__init__`` for the time.

        The lines that freeze parameters are noted too, by the parameters' ``id``.
        """
        with constructed(paddle.nn.Layer, self._source) as found, _paddle_operations.freezing(found, self._source):
            yield found

    def history(self) -> AbstractContextManager[History]:
        """Wrap ``register_buffer`` and ``set_state_dict`` of ``paddle.nn.Layer`` for the time."""
        return _history.remembered(self, paddle.nn.Layer, _LOADERS, self._source)

    def describe(self, tensor: Any) -> Tuple[str, Tuple[int, ...]]:
        """Canonical element type and shape."""
        return recordable(tensor), tuple(tensor.shape)

    def storage(self, tensor: Any) -> int:
        """The address of the memory that the tensor is a view of; 0 where it has none."""
        address = tensor.data_ptr() if tensor.is_dense() and tensor._is_initialized() else None  # noqa: SLF001 - no public question
        if address:
            return int(address) - int(tensor.offset or 0)
        return 0

    def substitute(self, made: Any, value: Any) -> Any:
        """What was made, plus the difference as a constant."""
        return value if made.stop_gradient else made + (value - made).detach()

    def on_gradient(self, tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:
        """By a hook on the tensor."""
        return _paddle_operations.on_gradient(tensor, sink)

    def cast(self, model: Any, dtype: str) -> None:
        """Cast floating tensors, their gradients and the layers' ``_dtype``.

        Complex tensors are cast to match.

        All tensors stay the same objects, so optimizers keep them (see :meth:`step`); what an optimizer has accumulated in earlier
        updates keeps its type: cast before the first update. ``Layer.to`` would cast integer buffers too, and fails on recurrent layers.

        Raises:
            UsageError: ``dtype`` is none of float64, float32, float16, bfloat16.
        """
        complex_target = _values.FLOATING[_values.castable(dtype)]
        with paddle.no_grad():
            for entry in self.state(model):
                name = NAMES.get(entry.tensor.dtype, "")
                target = complex_target if name.startswith("complex") else dtype
                if is_floating(name) and target is not None and name != target:
                    _retype(entry.tensor, target)
        for layer in model.sublayers(include_self=True):
            _retype_layer(layer, dtype)

    def train(self, model: Any, mode: str) -> None:
        """Call the model's own ``train`` or ``eval``, then change random and recurrent layers.

        See ``_modes.set_train``.
        """
        _modes.set_train(model, model.sublayers(include_self=True), mode, RNNBase, "_cudnn_impl", in_steps)

    def no_grad(self) -> AbstractContextManager[None]:
        """Enter ``paddle.no_grad``.

        Programs of ``to_static`` that are built inside have gradients all the same.
        """
        return _translated_paddle.no_grad()

    def idle_casts(self, model: Any) -> AbstractContextManager[Dict[str, None]]:  # noqa: ARG002 - what a device knows is Paddle's own setting
        """See ``_autocast_paddle``."""
        return idle_casts(self._source)

    def gradients(self, model: Any) -> Dict[str, Any]:
        """The gradient of every parameter once, without running statistics.

        None of what a rate of 0 freezes, whatever the backward pass left there.
        """
        entries = [entry for entry in self.state(model) if entry.role == "parameter" and entry.shared is None]
        return {e.name: None if held_still(e.tensor) else _paddle_operations.dense(e.tensor.grad, e.tensor) for e in entries}

    def mode(self, model: Any) -> Any:
        """Every layer with its flag."""
        return _modes.read_mode(model.sublayers(include_self=True))

    def set_mode(self, model: Any, mode: Any) -> None:  # noqa: ARG002 - the mode names the layers
        """Put every flag back."""
        _modes.write_mode(mode)

    def run_exported(self, path: str, inputs: Sequence[Any]) -> Any:
        """Run ``<prefix>.json`` or ``.pdmodel`` with its ``.pdiparams``, or ``.onnx``.

        By Paddle Inference.
        """
        file = _programs_paddle.program_file(path)
        if file.endswith(".onnx"):
            return _onnx.run_file(file, inputs)
        return _exported.single(_times_paddle.run(_programs_paddle.predictor(file), inputs, file))

    def operator_times(self, path: str, inputs: Sequence[Any]) -> List[_exported.OperatorTime]:
        """Of ``.onnx``, as ONNX Runtime's profile has them, else as Paddle Inference's has."""
        file = _programs_paddle.program_file(path)
        if file.endswith(".onnx"):
            return _onnx.operator_times(file, inputs)
        return _times_paddle.measured(_programs_paddle.predictor, inputs, file)


def _walk(layer: Any, path: str) -> Iterator[Tuple[str, Any]]:
    """Every layer under every path that it has.

    The public iterators leave repeated layers out.
    """
    yield path, layer
    for name, child in layer._sub_layers.items():  # noqa: SLF001 - see above
        if child is not None:
            yield from _walk(child, f"{path}.{name}" if path else name)


def _tensors(layer: Any, kind: str) -> Iterator[Tuple[str, str, Any]]:
    """Role, name and tensor of everything that a layer itself holds."""
    statistics = next((names for word, names in _STATISTICS.items() if word in kind), ())
    for leaf, tensor in layer._parameters.items():  # noqa: SLF001 - as in _walk
        if tensor is not None:
            yield "buffer" if leaf in statistics else "parameter", leaf, tensor
    for leaf, tensor in layer._buffers.items():  # noqa: SLF001 - as in _walk
        if tensor is not None and (tensor._is_initialized() or not tensor.size) and leaf != "_dropout_state":  # noqa: SLF001 - no public question
            yield "buffer", leaf, tensor


def _normalisation(layer: Any, kind: str) -> Dict[str, Any]:
    if "BatchNorm" in kind:
        return {"momentum": layer._momentum, "epsilon": layer._epsilon}  # noqa: SLF001 - Paddle keeps them so
    return {}


def _retype(tensor: Any, dtype: str) -> None:
    """Cast a tensor and its gradient in place, as ``Layer.to`` does."""
    pairs = [(tensor, tensor.cast(dtype))]
    gradient = tensor._grad_ivar()  # noqa: SLF001 - ``grad`` is a copy of the handle, and its setter refuses another type
    if gradient is not None and gradient.is_selected_rows():
        tensor.clear_gradient(set_to_zero=False)  # nothing casts rows in place
    elif gradient is not None:
        pairs.append((gradient, gradient.cast(dtype)))
    for old, new in pairs:  # ``new`` must outlive the call: Paddle's handle to its memory does not keep it
        old.value().get_tensor()._share_data_with(new.value().get_tensor())  # noqa: SLF001 - ``Layer.to`` has no other way


def _retype_layer(layer: Any, dtype: str) -> None:
    """Set ``_dtype``, which layers create constants in, in the form that it has.

    A name or a type of Paddle.
    """
    if isinstance(layer, RNNCellBase) and type(layer).get_initial_states is RNNCellBase.get_initial_states:
        vars(layer).pop("get_initial_states", None)  # a cell starts from zeros of the default type, whatever its own is
        if dtype != paddle.get_default_dtype():
            layer.get_initial_states = partial(layer.get_initial_states, dtype=dtype)
    kept = layer._dtype  # noqa: SLF001 - there is no public name for it
    name = kept if isinstance(kept, str) else NAMES.get(kept, "")
    if name in _values.FLOATING:
        layer._dtype = dtype if isinstance(kept, str) else TYPES[dtype]  # noqa: SLF001 - as above


@lru_cache(maxsize=None)
def create() -> PaddleAdapter:
    """The adapter of this process."""
    return PaddleAdapter()
