"""What an adapter must provide for paralign to run, watch and train a model.

An adapter is a small class without state of its own. ``Adapter`` is what every framework has; ``Training``,
``Exporting``, ``Digesting`` and ``Diagnosing`` are optional: code asks ``isinstance(adapter, Training)``.
One conformance suite runs against all of them. Adding a framework means a module with ``create()`` and an entry point: see ``finding.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy as np

    from paralign.adapters._exported import OperatorTime
    from paralign.dtypes import Typed

try:
    from typing import Protocol, runtime_checkable
except ImportError as missing:  # pragma: no cover - Python 3.7 and older
    raise ImportError("paralign's worker needs Python 3.8 or newer") from missing


#: the variable by which NVIDIA's libraries are told to compute products of float32 in full ("0")
TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


@dataclass
class Entry:
    """One tensor of a model's state.

    ``owner`` is the module path ('' for the root), ``name`` the full name in the state dict, ``leaf`` the name inside the
    owner, ``kind`` the class name of the *framework's* layer that the owner is or derives from (``Linear``, ``BatchNorm2d``,
    ``BatchNorm2D``; '' for a layer of the user's own), ``role`` ``parameter`` or ``buffer``. ``trainable`` is False for frozen
    parameters. ``shared`` names the first entry that is the very same tensor. ``persistent`` is False for buffers that the
    framework's state dict leaves out.
    """

    name: str
    tensor: Any
    role: str
    owner: str
    leaf: str
    kind: str
    trainable: bool = True
    shared: Optional[str] = None
    persistent: bool = True
    attrs: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Call:
    """One call of one module, as ``observe`` hands it to the sink.

    ``name`` is the module path ('' for the root), ``number`` counts the calls of this module from 0, ``op`` is the class
    name, ``kind`` as in :class:`Entry`, ``source`` is ``file:line`` of the user's code that made the call (frames inside
    the framework and paralign skipped; None where there is none). ``inputs`` and ``outputs`` are the raw nested values;
    they are valid only inside the sink. ``depth`` is the nesting of calls, 0 for the root.
    """

    name: str
    number: int
    op: str
    kind: str
    source: Optional[str]
    inputs: Any
    outputs: Any
    depth: int
    leaf: bool
    attrs: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Operation:
    """One operation of the framework, as ``operations`` hands it to the sink.

    ``index`` counts operations from 0, ``op`` is the framework's own name (``aten.add.Tensor``, ``layer_norm``), ``kind`` the
    name that frameworks have in common (see ``_kinds``). ``attrs`` holds the arguments that are no tensors; a key is the
    argument's name, or its position where the framework keeps no names. ``inputs`` and ``outputs`` are raw tensors, valid only
    inside the sink. ``stack`` is the user's code that made the operation, ``file:line``, innermost first. ``module`` is the path
    of the innermost module that was running. ``random`` says that the framework's random numbers entered.
    """

    index: int
    op: str
    kind: str
    attrs: Dict[str, Any]
    inputs: List[Any]
    outputs: List[Any]
    stack: Tuple[str, ...]
    module: str
    random: bool = False


@runtime_checkable
class OperationSink(Protocol):
    """What watches operations. Operations that the sink itself makes are not seen.

    It may have a method ``known(number, op, kind, inputs, settings)`` too, asked before an operation runs that changes nothing: a tensor
    takes the place of the result, and the operation is not run; None where it is to run. ``settings()`` gives its other arguments.
    """

    def before(self, inputs: List[Any]) -> None:
        """Take the inputs of an operation about to run, which it may change in place."""

    def after(self, operation: Operation) -> Optional[List[Any]]:
        """Take an operation that has run; a list takes the place of its outputs.

        In an in-place operation, it is written into them.
        """


Sink = Callable[[Call], None]
Select = Callable[[str, Any], bool]


@runtime_checkable
class Adapter(Protocol):
    """What every framework has."""

    name: str

    def versions(self) -> Dict[str, str]:
        """Versions of the framework and of what it computes with (numpy, CUDA, …)."""

    def devices(self) -> List[str]:
        """Devices that are here: ``cpu`` first, then ``gpu:0`` and so on."""

    def use_device(self, device: str) -> None:
        """Make ``device`` the one where :meth:`from_array` puts tensors.

        Raises:
            EnvironmentUnavailable: the device is not here; names those that are.
        """

    def place(self, model: Any) -> Any:
        """The model, moved to the device in use."""

    def flags(self) -> Dict[str, Any]:
        """Settings that change results: threads, TF32, deterministic kernels, default dtype."""

    def seed(self, seed: int) -> None:
        """Seed the framework, numpy and ``random``."""

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is a tensor of this framework."""

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` is a model of this framework."""

    def to_array(self, tensor: Any) -> Typed:
        """The values on the host, without a copy where the framework allows it.

        bfloat16 and float8 are raw bits.

        Raises:
            UnsupportedTensor: for sparse, quantised and other layouts; names what it is and what to do.
        """

    def version(self, tensor: Any) -> Optional[int]:
        """A number that grows with every write to the tensor in place; None without one."""

    def from_array(self, value: Typed) -> Any:
        """A new tensor of the same element type on the device in use.

        It never shares memory with ``value``.
        """

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """Paths and modules, the root ('') first, each module once, in definition order."""

    def kind(self, module: Any) -> str:
        """The framework's layer class that a module is or derives from, see :class:`Entry`."""

    def state(self, model: Any) -> List[Entry]:
        """Every parameter and buffer, in definition order, aliases included.

        ``shared`` says of which.
        """

    def load_state(self, model: Any, values: Dict[str, Typed]) -> None:
        """Write values into the named entries, in place, converted to each entry's own type.

        Raises:
            UsageError: a name that the model does not have, or another shape; nothing was written.
        """

    def observe(self, model: Any, sink: Sink, select: Optional[Select] = None) -> AbstractContextManager[None]:
        """Call ``sink`` after every module call inside the context.

        On leaving, nothing remains changed, also after an exception.

        ``select(path, module)`` limits which modules are watched. Nested and repeated use are allowed.
        """

    def cast(self, model: Any, dtype: str) -> None:
        """Cast floating parameters and buffers to ``dtype`` in place.

        Integer and bool buffers stay as they are.
        """

    def train(self, model: Any, mode: str) -> None:
        """Put the model into a mode.

        ``eval``; ``train``; ``quiet``, train mode with dropout and other random layers off; ``differentiable``, which computes as
        eval mode does and has a backward pass everywhere; ``apart``, train mode with every draw an operation of its own.
        """

    def no_grad(self) -> AbstractContextManager[None]:
        """No gradients inside."""

    def mode(self, model: Any) -> Any:
        """The train/eval state of every module, to be handed to :meth:`set_mode`."""

    def set_mode(self, model: Any, mode: Any) -> None:
        """Put back what :meth:`mode` returned."""


@runtime_checkable
class Observing(Protocol):
    """A framework whose single operations can be watched."""

    def operations(self, sink: OperationSink, model: Any = None) -> AbstractContextManager[None]:
        """Call the sink around every operation of this thread inside the context.

        On leaving, nothing remains changed.

        ``model`` gives operations their module paths. Nested use is allowed: the inner observation sees its operations first.
        """

    def constructions(self) -> AbstractContextManager[Dict[int, Tuple[str, ...]]]:
        """The user's code that constructed each module inside the context.

        ``id`` of the module -> ``file:line``, innermost first.
        """

    def describe(self, tensor: Any) -> Tuple[str, Tuple[int, ...]]:
        """Canonical element type and shape.

        Raises:
            UnsupportedTensor: as ``to_array``.
        """

    def storage(self, tensor: Any) -> int:
        """A number that tensors have in common while they share memory."""

    def substitute(self, made: Any, value: Any) -> Any:
        """A tensor of other values through which gradients pass as through the one that was made."""

    def on_gradient(self, tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:
        """Have ``sink`` called with a tensor's whole gradient in a later backward pass.

        The function that is returned ends that.

        What ``sink`` returns takes the gradient's place, unless it is None. None is returned where the tensor will have no gradient.
        """


#: a module (by ``id``) and the name of a tensor that it holds
Place = Tuple[int, str]


class History:
    """What was seen while a model was built.

    Modules are kept, so that no ``id`` is used twice.

    ``registered`` and ``before_load`` map places to values, ``lines`` to the lines of the user's code that registered a buffer.
    ``replaces`` says that a checkpoint took the place of tensors instead of being copied into them. ``ran`` has the buffers that calls of
    modules changed: ``build_model()`` has run data through the model.
    """

    def __init__(self) -> None:
        self.registered: Dict[Place, Typed] = {}
        self.before_load: Dict[Place, Typed] = {}
        self.lines: Dict[Place, Tuple[str, ...]] = {}
        self.replaces = False
        self.ran: Set[Place] = set()
        self.modules: List[Any] = []


@runtime_checkable
class Remembering(Protocol):
    """A framework whose models can be watched while they are built."""

    def history(self) -> AbstractContextManager[History]:
        """What buffers held when registered inside the context, and before a checkpoint."""


@runtime_checkable
class Training(Protocol):
    """A framework with gradients and optimizers."""

    def parameters(self, model: Any) -> List[Any]:
        """The model's parameters, as an optimizer takes them."""

    def watch(self, tensor: Any) -> Any:
        """A leaf with the same values whose gradient is kept.

        Non-floating tensors are returned as they are.
        """

    def gradient(self, tensor: Any) -> Any:
        """The gradient that a backward pass left on a leaf, or None."""

    def gradients(self, model: Any) -> Dict[str, Any]:
        """Name of every parameter (aliases left out) -> gradient tensor or None."""

    def backward(self, loss: Any) -> None:
        """Backward pass from a scalar."""

    def clear_gradients(self, model: Any, optimizer: Any) -> None:
        """Forget all gradients."""

    def step(self, optimizer: Any) -> None:
        """One update."""

    def learning_rates(self, optimizer: Any) -> List[float]:
        """The learning rate that the next update uses, one a parameter group."""

    def step_scheduler(self, optimizer: Any, scheduler: Any) -> None:
        """Advance the schedule by one; ``scheduler`` may be None.

        In Paddle, it is then the one inside the optimizer, if any.
        """


@runtime_checkable
class KeepingRows(Protocol):
    """A framework whose embeddings may have gradients of the rows alone that were looked up.

    Some optimizers take no others, and some leave the other rows as they are.
    """

    def row_parameters(self, model: Any) -> Set[int]:
        """``id`` of every parameter whose layer makes such a gradient."""

    def lay_rows(self, parameter: Any, gradient: Any) -> None:
        """Make a whole gradient a parameter's, as one of its rows that are not zero."""


@runtime_checkable
class Numbering(Protocol):
    """A framework that numbers what optimizers keep across a process, and saves it to files."""

    def store(self, value: Any, path: str) -> None:
        """Save a ``state_dict()`` as programs of the framework do."""

    def numbered_anew(self) -> AbstractContextManager[None]:
        """Begin numbers anew inside, as in a program that builds one optimizer.

        Afterwards they go on as before.
        """


@runtime_checkable
class Curving(Protocol):
    """A framework whose gradients can be differentiated again."""

    def slopes(self, total: Any, leaves: Sequence[Any]) -> List[Any]:
        """The gradients of a scalar with respect to leaves, with a backward pass.

        None for a leaf that it does not depend on.
        """


@runtime_checkable
class Casting(Protocol):
    """A framework with automatic casts that some devices do not know."""

    def idle_casts(self, model: Any) -> AbstractContextManager[Dict[str, None]]:
        """The lines (``file:line``) that ask for automatic casts inside and get none."""


@runtime_checkable
class Defaulting(Protocol):
    """A framework with a floating type that new tensors have unless they are given one."""

    def default_of(self, dtype: str) -> AbstractContextManager[None]:
        """New floating tensors are of this type inside, and of the type of before afterwards."""


@runtime_checkable
class Mixing(Protocol):
    """A framework whose operations refuse float32 values beside float64 ones."""

    def mix(self, *, on: bool) -> None:
        """From now on operations take both in float64 where they would refuse; or no longer."""


@runtime_checkable
class Metering(Protocol):
    """A framework that tells how much memory of a device its tensors have in use."""

    def device_bytes(self) -> int:
        """Bytes that tensors have in use on the device in use; 0 on a CPU."""


@runtime_checkable
class Lending(Protocol):
    """A framework whose live objects can be given back as they were, bit for bit."""

    def afresh(self) -> AbstractContextManager[None]:
        """The settings of a thread that has just begun: gradients on, no automatic casts."""

    def process_state(self) -> Any:
        """What a check changes of the framework's own state.

        Generators of random numbers, the device in use.
        """

    def put_process_state(self, state: Any) -> None:
        """Put back what :meth:`process_state` returned."""

    def lend(self, model: Any) -> Callable[[], None]:
        """Keep all of a model's state; gradients are gone until the returned function is called.

        It puts all back.
        """


@runtime_checkable
class Exporting(Protocol):
    """A framework whose exported programs can be run."""

    def run_exported(self, path: str, inputs: Sequence[Any]) -> Any:
        """Run the program exported to ``path`` on host arrays; outputs are host arrays.

        ``path`` is a file, or the prefix of several.

        Raises:
            EnvironmentUnavailable: nothing here can run such a file; says what to install.
            UsageError: nothing is at ``path``.
        """


@runtime_checkable
class Timing(Protocol):
    """A framework whose exported programs can be asked for the times of their operators."""

    def operator_times(self, path: str, inputs: Sequence[Any]) -> "List[OperatorTime]":
        """The time of each operator in one run of the exported program, the slowest first.

        The program lies at ``path`` and takes host arrays.

        Raises:
            EnvironmentUnavailable: nothing here can run such a file.
            UsageError: the engine gives no such times.
        """


@runtime_checkable
class Digesting(Protocol):
    """A framework whose own kernels make digests and sketches."""

    def fingerprint(self, tensor: Any, sketch: bool = True) -> "Tuple[str, Optional[np.ndarray[Any, Any]]]":
        """The digest of a tensor, and its sketch unless it is not wanted.

        See ``capture/digest.py`` and ``capture/sketch.py``.

        Made on the tensor's device; where the kernels cannot (complex elements, NaN, infinities, extreme values), by numpy. The tensor
        is not changed and no gradient is recorded. Extra memory is below 100 MB whatever the size.

        Raises:
            UnsupportedTensor: as :meth:`Adapter.to_array`.
        """

    def sketch(self, tensor: Any) -> "np.ndarray[Any, Any]":
        """The sketch alone, as :meth:`fingerprint` makes it.

        It is for a value whose elements are known and were put into another order.
        """


@runtime_checkable
class Diagnosing(Protocol):
    """A framework that tells how it was built, and whose kernels can be tried.

    ``paralign doctor`` asks it.
    """

    def diagnose(self) -> Dict[str, Any]:
        """How the framework was built and is set.

        ``build`` is ``cpu`` or ``gpu``, ``commit`` what it was built from, ``collectives`` the libraries for several processes that are
        there, with their versions. ``settings`` has what all frameworks have in common, as far as it is there: ``threads``,
        ``default_dtype``, ``deterministic`` (cuDNN's deterministic kernels only), ``autotune`` (cuDNN tries kernels and takes the fastest).
        """

    def rehearse(self, check: str, first: "np.ndarray[Any, Any]", second: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """A small computation in float32 on the device in use.

        ``matmul`` is first @ second; ``convolution`` that of NCHW images and an OIHW kernel, padded by 1; ``backward`` the gradient
        with respect to the first of the sum of (first @ second)².
        """


@runtime_checkable
class Joining(Protocol):
    """A framework whose library for several processes on a GPU can be tried in one process."""

    def joined_sum(self, first: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """The sum over a group of this process alone, on the device in use: the array itself."""


@runtime_checkable
class Lazy(Protocol):
    """A framework that can build a model without memory for its parameters.

    Parts of the model are given memory later.
    """

    def empty(self) -> AbstractContextManager[None]:
        """Build models without memory for parameters inside; buffers hold what the model computed."""

    def fill(self, module: Any) -> None:
        """Give the parameters of a module, and of those below, memory.

        What they hold is for the caller to load.
        """

    def drop(self, module: Any) -> None:
        """Take that memory away."""

    def through(self, call: Callable[..., Any]) -> Any:
        """A module whose forward is a function."""

    def put(self, model: Any, path: str, module: Any) -> None:
        """Put another module in the place of one."""
