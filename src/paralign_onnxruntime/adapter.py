"""ONNX programs: a model is the path of an ``.onnx`` file, or an ``InferenceSession``.

A program computes in the types and the mode that it was exported in, and its weights are inside of it. So it has no gradients, no
training, no other precision and no state that could be loaded; what cannot be done is refused, and nothing is left out in silence.
Single operations are watched where the package onnx is there: ``nodes.py``.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnxruntime

from paralign.adapters import _exported, _onnx, _values
from paralign.adapters._calls import SourceLine
from paralign.adapters.numpy import NumpyAdapter
from paralign.errors import EnvironmentUnavailable, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import Entry, OperationSink
    from paralign.dtypes import Typed
    from paralign_onnxruntime.nodes import Watcher

_SUFFIX = ".onnx"


class Program:
    """An ONNX program that can be called.

    Arrays are given by position or by name, in the program's order.

    Returns one array bare, several as a dict by the names of the program's outputs.

    Args:
        model: the path of a file, or a session.
        device: where a file is run.

    Raises:
        UsageError: the file is not there, or cannot be loaded.
    """

    def __init__(self, model: Any, device: str = "cpu") -> None:
        if isinstance(model, onnxruntime.InferenceSession):
            self.path, self._session = str(getattr(model, "_model_path", "") or ""), model
        else:
            self.path = _found(os.fspath(model))
            self._session = _onnx.session(self.path, device)
        #: what runs the program node by node while operations are watched, the innermost last
        self.watchers: "List[Watcher]" = []

    @property
    def source(self) -> Any:
        """The path of the file, or the bytes of a session; None where it kept neither."""
        return self.path or getattr(self._session, "_model_bytes", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
            UsageError: inputs of another name, number, type or shape than the program takes.
        """
        feed = _onnx.named([entry.name for entry in self._session.get_inputs()], args, kwargs, self.path)
        watching = [watcher for watcher in self.watchers if not watcher.idle]
        names = [entry.name for entry in self._session.get_outputs()]
        outputs = watching[-1].run(feed, names) if watching else _onnx.run(self._session, feed, self.path)
        return outputs[0] if len(outputs) == 1 else dict(zip(names, outputs))


def _found(path: str) -> str:
    if not Path(path).is_file():
        raise UsageError("there is no ONNX file here", where=path, hint="let build_model() return the path of a file that exists")
    return path


class OnnxRuntimeAdapter(NumpyAdapter):
    """Programs and host arrays; remembers nothing but the device in use."""

    name = "onnxruntime"

    #: a program's weights are inside of it: stages that copy or compare weights leave it out
    sealed = True

    def __init__(self) -> None:
        super().__init__()
        self._device = "cpu"
        self._source = SourceLine([str(Path(file).parent) for file in (__file__, np.__file__, onnxruntime.__file__)])

    def versions(self) -> Dict[str, str]:
        """Versions of ONNX Runtime and numpy; of onnx where it has been imported."""
        found = {"onnxruntime": onnxruntime.__version__, "numpy": np.__version__}
        onnx = sys.modules.get("onnx")
        return {**found, "onnx": str(onnx.__version__)} if onnx is not None else found

    def devices(self) -> List[str]:
        """``cpu``, and ``gpu:0`` where this build has CUDA."""
        return ["cpu", *(["gpu:0"] if "CUDAExecutionProvider" in onnxruntime.get_available_providers() else [])]

    def use_device(self, device: str) -> None:
        """Where files are run that are placed from now on; arrays stay on the host."""
        wanted = device.replace("cuda", "gpu")
        wanted = "gpu:0" if wanted == "gpu" else wanted
        if wanted not in self.devices():
            raise EnvironmentUnavailable(f"ONNX Runtime has no device {device!r} here", hint="choose one of: " + ", ".join(self.devices()))
        self._device = wanted

    def place(self, model: Any) -> Any:
        """A :class:`Program` as it is; one of a path or of a session."""
        return model if isinstance(model, Program) else Program(model, self._device)

    def flags(self) -> Dict[str, Any]:
        """The device, what runs there, and the usual element type of arrays."""
        return {"device": self._device, "providers": _onnx.PROVIDERS[self._device], "default_dtype": "float32"}

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` is a program, a session, or a path that ends in ``.onnx``."""
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value).endswith(_SUFFIX)
        return isinstance(value, (Program, onnxruntime.InferenceSession))

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """The program alone."""
        return [("", model)]

    def state(self, model: Any) -> "List[Entry]":  # noqa: ARG002 - the same for all
        """Nothing: exporters fold and rename weights, so that none could be carried over."""
        return []

    def load_state(self, model: Any, values: "Dict[str, Typed]") -> None:
        """Refuse any name: there is no state."""
        _values.matched(self.state(model), values, lambda array: (array.shape, array.dtype.name))

    def cast(self, model: Any, dtype: str) -> None:  # noqa: ARG002 - the same for all
        """Refuse.

        Raises:
            UsageError: always: a program computes in the types that it was exported with.
        """
        _values.castable(dtype)
        raise UsageError(f"an ONNX program computes in the types that it was exported with, not in {dtype}")

    def train(self, model: Any, mode: str) -> None:
        """Nothing but a check of the mode's name: a program has the mode that it was exported in."""
        super().train(model, mode)

    def lend(self, model: Any) -> Callable[[], None]:  # noqa: ARG002 - the same for all
        """Nothing to keep: running a program changes nothing."""
        return lambda: None

    def run_exported(self, path: str, inputs: Sequence[Any]) -> Any:
        """Run an ``.onnx`` file."""
        file = _exported.find(path, (_SUFFIX,))
        if not file.endswith(_SUFFIX):
            _exported.refuse(file, (_SUFFIX,))
        return _onnx.run_file(file, inputs)

    def operator_times(self, path: str, inputs: Sequence[Any]) -> List[_exported.OperatorTime]:
        """As ONNX Runtime's profile has them."""
        return _onnx.operator_times(_exported.find(path, (_SUFFIX,)), inputs)


class WatchingAdapter(OnnxRuntimeAdapter):
    """Also watches single operations, node by node."""

    def operations(self, sink: "OperationSink", model: Any = None) -> "AbstractContextManager[None]":
        """Watch every node of the program in the file's order, without what is fused."""
        from paralign_onnxruntime import nodes

        return nodes.watched(model, sink, self._source)

    def constructions(self) -> "AbstractContextManager[Dict[int, Tuple[str, ...]]]":
        """None: a program has no constructors."""
        return nullcontext({})

    def describe(self, tensor: Any) -> Tuple[str, Tuple[int, ...]]:
        """Canonical element type and shape."""
        value = self.to_array(tensor)
        return value.dtype, tuple(value.array.shape)

    def storage(self, tensor: Any) -> int:
        """The address of the first element."""
        return int(tensor.__array_interface__["data"][0])

    def substitute(self, made: Any, value: Any) -> Any:  # noqa: ARG002 - as the protocol has it
        """The value."""
        return value

    def on_gradient(self, tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:  # noqa: ARG002 - as the protocol has it
        """None: there are no gradients."""
        return None


@lru_cache(maxsize=None)
def create() -> OnnxRuntimeAdapter:
    """The adapter of this process."""
    return WatchingAdapter() if find_spec("onnx") is not None else OnnxRuntimeAdapter()
