"""PyTorch.

``observe`` uses forward hooks. Modules inside a TorchScript program take none, and those inside a compiled model would split its graph,
so neither are seen. Hooks keep ``TransformerEncoder`` off its fused path, so that an observed run can differ from an unobserved one by
rounding.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from paralign.adapters import (
    _autocast_torch,
    _diagnosis_torch,
    _digest_torch,
    _exported,
    _history,
    _lazily_torch,
    _lending_torch,
    _mixed_torch,
    _modes,
    _onnx,
    _programs_torch,
    _torch_operations,
    _training_torch,
    _values,
)
from paralign.adapters._calls import Calls, Paths, SourceLine, Target, attached
from paralign.adapters._operations import constructed
from paralign.adapters._tensors_torch import NAMES, TYPES, recordable, refuse_lazy
from paralign.adapters.base import TF32_OVERRIDE, Entry
from paralign.capture import sketch as _sketch
from paralign.capture.digest import moments
from paralign.dtypes import RAW, STORAGE, Typed, typed, widen
from paralign.errors import EnvironmentUnavailable, UnsupportedTensor, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import History, OperationSink, Select, Sink

_MIXING = _mixed_torch.create()


class TorchAdapter(_lazily_torch.BuildsLazily, _lending_torch.Lends, _diagnosis_torch.Diagnoses, _training_torch.Trains):
    """PyTorch modules, tensors and optimizers; remembers nothing but the device in use."""

    name = "torch"

    def __init__(self) -> None:
        self._device = torch.device("cpu")
        self._source = SourceLine([str(Path(torch.__file__).parent)])

    def versions(self) -> Dict[str, str]:
        """Versions of PyTorch and numpy; of CUDA and cuDNN where this build has them."""
        found = {"torch": torch.__version__, "numpy": np.__version__, "cuda": torch.version.cuda}
        if torch.backends.cudnn.is_available():
            found["cudnn"] = torch.backends.cudnn.version()
        return {name: str(version) for name, version in found.items() if version}

    def devices(self) -> List[str]:
        """``cpu``, then every CUDA device."""
        return ["cpu", *(f"gpu:{index}" for index in range(torch.cuda.device_count()))]

    def synchronize(self) -> None:
        """Wait until the device has done what it was given; on a CPU it has."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def use_device(self, device: str) -> None:
        """Put new tensors on ``cpu``, ``gpu``, ``gpu:1`` (also spelled ``cuda:1``)."""
        wanted = device.replace("cuda", "gpu")
        wanted = "gpu:0" if wanted == "gpu" else wanted
        if wanted not in self.devices():
            raise EnvironmentUnavailable(f"PyTorch has no device {device!r} here", hint="choose one of: " + ", ".join(self.devices()))
        self._device = torch.device(wanted.replace("gpu", "cuda"))
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def place(self, model: Any) -> Any:
        """The same model, its parameters and buffers moved."""
        return model.to(self._device)

    def flags(self) -> Dict[str, Any]:
        """Threads, determinism, TF32, default dtype."""
        found: Dict[str, Any] = {
            "device": str(self._device).replace("cuda", "gpu"),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "default_dtype": NAMES.get(torch.get_default_dtype(), str(torch.get_default_dtype())),
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "mkldnn": torch.backends.mkldnn.enabled,
        }
        if self._device.type == "cuda":
            found[TF32_OVERRIDE] = os.environ.get(TF32_OVERRIDE, "")
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # from 2.9; there the older getters raise if both are in use
            found["cuda_matmul_precision"] = torch.backends.cuda.matmul.fp32_precision
            found["cudnn_conv_precision"] = torch.backends.cudnn.conv.fp32_precision
            found["cudnn_rnn_precision"] = torch.backends.cudnn.rnn.fp32_precision
        else:
            found["cuda_matmul_tf32"] = torch.backends.cuda.matmul.allow_tf32
            found["cudnn_tf32"] = torch.backends.cudnn.allow_tf32
            found["matmul_precision"] = torch.get_float32_matmul_precision()
        return found

    def device_bytes(self) -> int:
        """Bytes that tensors have in use on a GPU, without what PyTorch keeps for the next ones."""
        return torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0

    def seed(self, seed: int) -> None:
        """Seed PyTorch on all devices, numpy and ``random``."""
        torch.manual_seed(seed)
        _exported.seed_host(seed)

    @contextmanager
    def default_of(self, dtype: str) -> Iterator[None]:
        """New floating tensors are of this type inside."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, dtype))
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def mix(self, *, on: bool) -> None:
        """Have operations that refuse float32 beside float64 take both in float64; or not."""
        if on:
            _MIXING.install()
        else:
            _MIXING.remove()

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is a ``torch.Tensor``."""
        return isinstance(value, torch.Tensor)

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` is a ``torch.nn.Module``."""
        return isinstance(value, torch.nn.Module)

    def to_array(self, tensor: Any) -> Typed:
        """The values on the host; shares the tensor's memory where that is on the host."""
        name = recordable(tensor)
        host = tensor.detach().resolve_conj().resolve_neg().cpu()
        if name == "bfloat16":
            return Typed(host.view(torch.int16).numpy().view(STORAGE[name]), name)
        return Typed((host.view(torch.uint8) if name in RAW else host).numpy(), name)

    def fingerprint(self, tensor: Any, sketch: bool = True) -> "Tuple[str, Optional[np.ndarray[Any, Any]]]":
        """Digest and sketch, see ``_digest_torch``."""
        name = recordable(tensor)
        with torch.no_grad():
            plain = tensor.detach()
            made = _digest_torch.fingerprint(plain, name, ordered=sketch)
            if made is None:
                value = self.to_array(plain)
                made = moments(value), _sketch.sketch(value) if sketch else None
            return made

    def sketch(self, tensor: Any) -> "np.ndarray[Any, Any]":
        """The sketch alone."""
        name = recordable(tensor)
        with torch.no_grad():
            plain = tensor.detach()
            made = _digest_torch.sketch(plain, name)
            return _sketch.sketch(self.to_array(plain)) if made is None else made

    def version(self, tensor: Any) -> Optional[int]:
        """A number that grows with every write to the tensor in place; None without one."""
        return None if tensor.is_inference() else int(tensor._version)  # noqa: SLF001 - autograd's own counter, which has no public name

    def from_array(self, value: Typed) -> Any:
        """A new tensor on the device in use.

        Raises:
            UnsupportedTensor: this version of PyTorch has no such element type.
        """
        if value.dtype not in TYPES:
            raise UnsupportedTensor(
                f"PyTorch {torch.__version__} has no tensors of {value.dtype}",
                hint="convert the values to one of: " + ", ".join(sorted(TYPES)),
            )
        array = _values.fresh(value)
        if value.dtype == "bfloat16":
            array = array.view(np.int16)  # versions before 2.3 have no uint16 to pass the bits through
        tensor = torch.from_numpy(array)
        return (tensor.view(TYPES[value.dtype]) if value.dtype in RAW else tensor).to(self._device)

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """As ``named_modules``."""
        return list(model.named_modules())

    def kind(self, module: Any) -> str:
        """The ``torch.nn`` class that a module is or derives from."""
        for cls in type(module).__mro__:
            home = cls.__module__
            if cls is torch.nn.Module or home == "torch.nn.utils.parametrize":  # the latter makes a class a layer, of no kind itself
                continue
            if home.startswith(("torch.nn.", "torch.ao.nn.")):
                return str(cls.__name__)
        return ""

    def state(self, model: Any) -> List[Entry]:
        """Parameters before buffers, module by module.

        BatchNorm's ``momentum`` weighs the new statistics, as in PyTorch.
        """
        entries: List[Entry] = []
        first: Dict[int, str] = {}
        kinds: Dict[str, str] = {}
        for owner, module in model.named_modules(remove_duplicate=False):
            kind, attrs = self.kind(module), _normalisation(module)
            kinds[owner] = kind
            above, within, _ = f".{owner}.".partition(".parametrizations.")
            if within:
                attrs["parametrises"] = kinds.get(above[1:], "")
            transient = getattr(module, "_non_persistent_buffers_set", ())
            parameters = module.named_parameters(recurse=False, remove_duplicate=False)
            buffers = module.named_buffers(recurse=False, remove_duplicate=False)
            for role, found in (("parameter", parameters), ("buffer", buffers)):
                for leaf, tensor in found:
                    name = f"{owner}.{leaf}" if owner else leaf
                    entries.append(
                        Entry(
                            name,
                            tensor,
                            role,
                            owner,
                            leaf,
                            kind,
                            trainable=role == "parameter" and tensor.requires_grad,
                            shared=first.get(id(tensor)),
                            persistent=leaf not in transient,
                            attrs=dict(attrs) if role == "buffer" or within else {},
                        )
                    )
                    first.setdefault(id(tensor), name)
        return entries

    def load_state(self, model: Any, values: Dict[str, Typed]) -> None:
        """Copy values into parameters and buffers, which stay the same objects."""
        pairs = _values.matched(self.state(model), values, lambda tensor: (tuple(tensor.shape), recordable(tensor)))
        with torch.no_grad():
            for entry, value in pairs:
                entry.tensor.copy_(self.from_array(_values.converted(value, NAMES[entry.tensor.dtype])))

    @contextmanager
    def observe(self, model: Any, sink: Sink, select: Optional[Select] = None) -> Iterator[None]:
        """Watch by forward hooks on every module that takes them.

        ``inputs`` are the arguments, then a dict of the keyword arguments if any.
        """
        with attached(self._targets(model, select), Calls(sink, self._source), "register_forward_hook"):
            yield

    def _targets(self, model: Any, select: Optional[Select] = None) -> List[Tuple[Any, Target]]:
        return [
            (
                module,
                Target(
                    path,
                    type(module).__name__,
                    self.kind(module),
                    leaf=next(module.children(), None) is None,
                    watched=select is None or select(path, module),
                ),
            )
            for path, module in self.modules(model)
            if not isinstance(module, torch.jit.ScriptModule) and not _is_compiled(path)
        ]

    @contextmanager
    def operations(self, sink: OperationSink, model: Any = None) -> Iterator[None]:
        """Watch everything that reaches ``aten``, composite operations as their parts.

        A compiled model is seen as if it were not compiled.
        """
        paths = Paths()
        targets = [] if model is None else self._targets(model)
        with _uncompiled(), attached(targets, paths, "register_forward_hook"), _torch_operations.observed(sink, self._source, paths):
            yield

    @contextmanager
    def constructions(self) -> Iterator[Dict[int, Tuple[str, ...]]]:
        """Wrap ``torch.nn.Module.__init__`` for the time.

        The lines that freeze parameters are noted too, by the parameters' ``id``.
        """
        with constructed(torch.nn.Module, self._source) as found, _torch_operations.freezing(found, self._source):
            yield found

    def history(self) -> AbstractContextManager[History]:
        """Wrap ``register_buffer`` and ``load_state_dict`` of ``torch.nn.Module`` for the time."""
        return _history.remembered(self, torch.nn.Module, ("load_state_dict",), self._source)

    def describe(self, tensor: Any) -> Tuple[str, Tuple[int, ...]]:
        """Canonical element type and shape."""
        return recordable(tensor), tuple(tensor.shape)

    def storage(self, tensor: Any) -> int:
        """The address of the memory that the tensor is a view of."""
        return int(tensor.untyped_storage().data_ptr())

    def substitute(self, made: Any, value: Any) -> Any:  # noqa: ARG002 - as the protocol has it
        """The value, which takes the place of what an operation made below the graph.

        The graph is that of gradients.
        """
        return value

    def on_gradient(self, tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:
        """By a hook on the tensor."""
        return _torch_operations.on_gradient(tensor, sink)

    def cast(self, model: Any, dtype: str) -> None:
        """Cast floating tensors and their gradients; complex ones to match.

        All stay the same objects, so optimizers keep them.

        What an optimizer has accumulated in earlier updates keeps its type: cast before the first update.

        Raises:
            UsageError: ``dtype`` is none of float64, float32, float16, bfloat16.
            UnsupportedTensor: a lazy module has not been run yet.
        """
        target = TYPES[_values.castable(dtype)]
        complex_target = _values.FLOATING[dtype]
        for entry in self.state(model):
            tensor = entry.tensor
            refuse_lazy(tensor)
            if tensor.is_complex():
                wanted = TYPES[complex_target] if complex_target else tensor.dtype
            else:
                wanted = target if tensor.is_floating_point() else tensor.dtype
            tensor.data = tensor.data.to(wanted)
            if tensor.is_leaf and tensor.grad is not None:
                tensor.grad.data = tensor.grad.data.to(wanted)
        for module in model.modules():
            if isinstance(module, torch.nn.RNNBase):
                module.flatten_parameters()  # on a GPU their weights lie in one block, which the cast has split

    def train(self, model: Any, mode: str) -> None:
        """Call the model's own ``train`` or ``eval``, then change random and recurrent layers.

        See ``_modes.set_train``.

        Raises:
            UsageError: a program of ``torch.export`` in a train mode: it has the mode that it was exported in, which counts as eval mode.
        """
        if "eval" in vars(model):  # ``ExportedProgram.module()`` puts a method there that only raises
            if mode not in ("eval", "differentiable"):
                raise UsageError(
                    "a program of torch.export has no train mode", where="build_model", hint='set modes = ["eval"] under [training]'
                )
            return
        _modes.set_train(model, _eager(model), mode, torch.nn.RNNBase)

    def no_grad(self) -> AbstractContextManager[None]:
        """``torch.no_grad``."""
        context: AbstractContextManager[None] = torch.no_grad()
        return context

    def idle_casts(self, model: Any) -> AbstractContextManager[Dict[str, None]]:
        """See ``_autocast_torch``."""
        return _autocast_torch.idle_casts(self._source, _autocast_torch.computes_on_cpu(model))

    def gradients(self, model: Any) -> Dict[str, Any]:
        """As ``named_parameters``: every parameter once."""
        return {name: _torch_operations.dense(parameter.grad) for name, parameter in model.named_parameters()}

    def mode(self, model: Any) -> Any:
        """Every module with its flag."""
        return _modes.read_mode(_eager(model))

    def set_mode(self, model: Any, mode: Any) -> None:  # noqa: ARG002 - the mode names the modules
        """Put every flag back."""
        _modes.write_mode(mode)

    def run_exported(self, path: str, inputs: Sequence[Any]) -> Any:
        """Run ``.pt2`` (torch.export), ``.pt`` or ``.pth`` (TorchScript) or ``.onnx``.

        Outputs nest as the program's do.
        """
        file = _exported.find(path, _programs_torch.SUFFIXES)
        if file.endswith(".onnx"):
            return _onnx.run_file(file, inputs)
        if not file.endswith(_programs_torch.SUFFIXES):
            _exported.refuse(file, _programs_torch.SUFFIXES)
        program = _programs_torch.loaded(file, self._device)
        with torch.no_grad():
            return self._to_host(program(*(self.from_array(typed(array)) for array in inputs)))

    def operator_times(self, path: str, inputs: Sequence[Any]) -> List[_exported.OperatorTime]:
        """Of ``.onnx``, as ONNX Runtime's profile has them.

        Raises:
            UsageError: a program of another kind.
        """
        file = _exported.find(path, _programs_torch.SUFFIXES)
        if not file.endswith(".onnx"):
            raise _exported.no_times(file, "PyTorch")
        return _onnx.operator_times(file, inputs)

    def _to_host(self, value: Any) -> Any:
        if self.is_tensor(value):
            return np.array(widen(self.to_array(value)))
        if isinstance(value, dict):
            return {key: self._to_host(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._to_host(item) for item in value]
        return value


def _uncompiled() -> AbstractContextManager[None]:
    """Compiled models run as written inside, where PyTorch can say so (from 2.6).

    Under a dispatch mode the compiler would give their code up for good, and later passes would not run what it makes, unnoticed.
    """
    stance = getattr(torch.compiler, "set_stance", None) if hasattr(torch, "compiler") else None
    context: AbstractContextManager[None] = nullcontext() if stance is None or "torch._dynamo" not in sys.modules else stance("force_eager")
    return context


def _is_compiled(path: str) -> bool:
    """Whether a module is inside what ``torch.compile`` returned.

    Hooks there would be compiled too, and split the graph.
    """
    return "_orig_mod" in path.split(".")


def _normalisation(module: Any) -> Dict[str, Any]:
    if isinstance(module, torch.nn.modules.batchnorm._NormBase):  # noqa: SLF001 - the one class of what keeps running statistics
        return {"momentum": module.momentum, "epsilon": module.eps}
    return {}


def _eager(model: Any) -> List[Any]:
    return [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]


@lru_cache(maxsize=None)
def create() -> TorchAdapter:
    """The adapter of this process: one, because it remembers the device in use."""
    return TorchAdapter()
