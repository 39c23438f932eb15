"""A static program of Paddle's as a model.

Arrays go in, what is fetched comes out by name, gradients included.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

import numpy as np
import paddle

from paralign.errors import UsageError

#: ends the name of what is fetched as the gradient of a variable, as in Paddle's old program format
GRADIENT = "@GRAD"


class StaticProgram:
    """Runs a program on arrays: a model of a side with ``framework = "numpy"``.

    Args:
        main: the program.
        startup: the program that makes its parameters.
        feed: names of its data, in the order of the arrays.
        fetch: name -> the variable, or its name in the program. ``name@GRAD`` stands for the gradient of ``loss`` with respect to it.
        loss: whose gradients these are; needed for them alone.
        parameters: name -> array, to start from instead of what ``startup`` draws.

    Raises:
        UsageError: a variable that the program lacks, a gradient without a loss, or of what the loss does not depend on.
    """

    def __init__(
        self,
        main: Any,
        startup: Any,
        feed: Sequence[str],
        fetch: Dict[str, Any],
        loss: Any = None,
        parameters: Optional[Dict[str, np.ndarray]] = None,
    ) -> None:
        self._main, self._feed, self._names = main, list(feed), list(fetch)
        self._scope = paddle.static.Scope()
        with _static():
            self._fetched = [self._variable(name, wanted, loss) for name, wanted in fetch.items()]
            self._executor = paddle.static.Executor(paddle.CPUPlace())
            with paddle.static.scope_guard(self._scope):
                self._executor.run(startup)
                for name, value in (parameters or {}).items():
                    self._put(name, value)

    def __call__(self, *arrays: Any) -> Dict[str, np.ndarray]:
        """What is fetched of one run, by name."""
        if len(arrays) != len(self._feed):
            raise UsageError(
                f"the program takes {len(self._feed)} arrays, {len(arrays)} were given", hint="its data: " + ", ".join(self._feed)
            )
        with _static(), paddle.static.scope_guard(self._scope):
            feed = dict(zip(self._feed, (np.asarray(array) for array in arrays)))
            values = self._executor.run(self._main, feed=feed, fetch_list=self._fetched)
        return dict(zip(self._names, (np.asarray(value) for value in values)))

    def _variable(self, name: str, wanted: Any, loss: Any) -> Any:
        variable = self._named(wanted) if isinstance(wanted, str) else wanted
        if not name.endswith(GRADIENT):
            return variable
        if loss is None:
            raise UsageError(f"{name} is a gradient, but no loss was given", hint="loss=… of StaticProgram")
        with paddle.static.program_guard(self._main):
            (gradient,) = paddle.static.gradients([loss], [variable])
        if gradient is None:
            raise _no_gradient(name, variable, loss, self._main.global_block().ops)
        return gradient

    def _named(self, wanted: str) -> Any:
        held = {_name(each): each for each in self._main.list_vars()}
        if wanted not in held:
            known = sorted(name for name in held if name)
            raise UsageError(f"the program has no variable {wanted!r}", hint="it has " + (", ".join(known[:8]) or "none with a name"))
        return held[wanted]

    def _put(self, name: str, value: Union[np.ndarray, Sequence[Any]]) -> None:
        held = self._scope.find_var(name)
        if held is None:
            raise UsageError(f"the program has no parameter {name!r}", hint="names are those of parameter.name")
        tensor, array = held.get_tensor(), np.asarray(value)
        if list(tensor.shape()) != list(array.shape):
            raise UsageError(f"{name} has shape {list(tensor.shape())}, {list(array.shape)} was given")
        tensor.set(np.ascontiguousarray(array, np.array(tensor).dtype), paddle.CPUPlace())


def _no_gradient(name: str, variable: Any, loss: Any, operations: Sequence[Any]) -> UsageError:
    """The error that says why there is no gradient.

    The variable asks for none, the way to the loss is cut, or there is no way.
    """
    if variable.stop_gradient:
        return UsageError(f"{name}: no gradient is asked of it, stop_gradient is set on it", hint="set stop_gradient = False on data")
    way = _way(variable, loss, operations)
    if not way:
        return UsageError(f"the loss does not depend on what {name} is the gradient of", hint="name the loss that does, or leave it out")
    behind = _cut(variable, way)
    if not behind:
        return UsageError(f"Paddle gives no gradient of the loss for {name}", hint="an operation on the way has none: leave it out")
    line = next((line for operation in behind if (line := _line(operation))), "")  # detach keeps none: the line that uses its result
    where = f"the result of {behind[0].name().rpartition('.')[2]}{f', {line}' if line else ''}"
    said = f"{name}: the gradient ends before it, stop_gradient is set on {where}"
    return UsageError(said, hint="do not set stop_gradient on that value, nor detach it")


def _way(variable: Any, loss: Any, operations: Sequence[Any]) -> List[Any]:
    """The operations that lead from a variable to the loss, in order."""
    reached, led = {variable.id}, []
    for operation in operations:
        if any(each.id in reached for each in operation.operands_source()):
            reached.update(each.id for each in operation.results())
            led.append(operation)
    needed, way = {loss.id}, []
    for operation in reversed(led):
        if any(each.id in needed for each in operation.results()):
            needed.update(each.id for each in operation.operands_source())
            way.append(operation)
    return way[::-1]


def _cut(variable: Any, way: Sequence[Any]) -> Sequence[Any]:
    """The way from where a value's gradient is cut off.

    The first operation there takes a value with a gradient, and none of its results has one.
    """
    carrying = {variable.id}
    for number, operation in enumerate(way):
        if not any(each.id in carrying for each in operation.operands_source()):
            continue
        made = [each.id for each in operation.results() if not each.stop_gradient]
        if not made:
            return way[number:]
        carrying.update(made)
    return []


def _line(operation: Any) -> str:
    """The user's innermost line that made an operation, ``file:line``.

    '' where Paddle keeps none.
    """
    own = str(Path(paddle.__file__).parent)
    frames = [re.match(r'\s*File "(.+)", line (\d+)', text) for text in getattr(operation, "callstack", None) or []]
    lines = [f"{frame.group(1)}:{frame.group(2)}" for frame in frames if frame is not None and not frame.group(1).startswith(own)]
    return lines[-1] if lines else ""


def _name(variable: Any) -> str:
    """The name of a variable, '' for one that has none.

    In the newer format only data and parameters have names.
    """
    try:
        return str(variable.name)
    except ValueError:
        return ""


@contextmanager
def _static() -> Iterator[None]:
    """Static mode inside; dynamic mode after, where it was there before."""
    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        yield
    finally:
        if dynamic:
            paddle.disable_static()
