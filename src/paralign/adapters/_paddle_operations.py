"""Single operations of Paddle, by wrapping its functions for the time of an observation.

Eager operations are functions of ``paddle._C_ops`` (and ``_legacy_C_ops``), which other modules hold as well, and methods and
operators of the tensor class that are written in C. All are put back on leaving.
"""

from __future__ import annotations

import functools
import threading
import types
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import paddle

from paralign.adapters._operations import Watch, held_by_modules, plain_attribute, replaced, tensors
from paralign.adapters._translated_paddle import translates

if TYPE_CHECKING:
    from paralign.adapters._calls import Paths, SourceLine
    from paralign.adapters.base import OperationSink

_TENSOR = paddle.Tensor

#: methods of the tensor class that compute, copy, cut or write and do not go through the functions
_METHODS = (
    "clone",
    "detach",
    "detach_",
    "contiguous",
    "copy_",
    "_getitem_dygraph",
    "_setitem_dygraph",
    "_getitem_from_offset",
    "_tensor_use_gpudnn",
    "set_value",
)
_OPERATORS = [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "div",
    "rdiv",
    "truediv",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "pow",
    "rpow",
    "mod",
    "rmod",
    "matmul",
    "rmatmul",
    "gt",
    "ge",
    "lt",
    "le",
    "eq",
    "ne",
]

#: operations that draw random numbers
_RANDOM = frozenset(
    [
        "bernoulli",
        "binomial",
        "dropout",
        "dropout_nd",
        "exponential_",
        "fused_dropout_add",
        "gaussian",
        "gaussian_inplace_",
        "gumbel_softmax",
        "multinomial",
        "normal_",
        "poisson",
        "randint",
        "random_",
        "randperm",
        "rrelu",
        "standard_gamma",
        "truncated_gaussian_random",
        "uniform",
        "uniform_inplace_",
        "uniform_",
        "cauchy_",
        "geometric_",
        "dirichlet",
        "log_normal_",
        "fused_bias_dropout_residual_layer_norm",
        "top_p_sampling",
        "class_center_sample",
    ]
)

#: operation -> names of its arguments that are no tensors, by position; only of operations whose settings explain differences
_ARGUMENTS: Dict[str, Dict[int, str]] = {
    "batch_norm": {5: "is_test", 6: "momentum", 7: "epsilon", 8: "data_format", 9: "use_global_stats", 10: "trainable_statistics"},
    "celu": {1: "alpha"},
    "clip": {1: "min", 2: "max"},
    "concat": {1: "axis"},
    "conv2d": {2: "strides", 3: "paddings", 4: "padding_algorithm", 5: "dilations", 6: "groups", 7: "data_format"},
    "conv2d_transpose": {
        2: "strides",
        3: "paddings",
        4: "output_padding",
        5: "output_size",
        6: "padding_algorithm",
        7: "groups",
        8: "dilations",
        9: "data_format",
    },
    "cross_entropy_with_softmax": {2: "soft_label", 3: "use_softmax", 4: "numeric_stable_mode", 5: "ignore_index", 6: "axis"},
    "cumsum": {1: "axis", 2: "flatten", 3: "exclusive", 4: "reverse"},
    "depthwise_conv2d": {2: "strides", 3: "paddings", 4: "padding_algorithm", 5: "groups", 6: "dilations", 7: "data_format"},
    "dropout": {2: "p", 3: "is_test", 4: "mode"},
    "elu": {1: "alpha"},
    "embedding": {2: "padding_idx"},
    "flatten": {1: "start_axis", 2: "stop_axis"},
    "flip": {1: "axis"},
    "gelu": {1: "approximate"},
    "grid_sample": {2: "mode", 3: "padding_mode", 4: "align_corners"},
    "group_norm": {3: "epsilon", 4: "groups", 5: "data_format"},
    "gumbel_softmax": {1: "temperature", 2: "hard", 3: "axis"},
    "hardshrink": {1: "threshold"},
    "hardsigmoid": {1: "slope", 2: "offset"},
    "hardtanh": {1: "min", 2: "max"},
    "instance_norm": {3: "epsilon"},
    "layer_norm": {3: "epsilon", 4: "begin_norm_axis"},
    "leaky_relu": {1: "negative_slope"},
    "log_softmax": {1: "axis"},
    "matmul": {2: "transpose_x", 3: "transpose_y"},
    "mean": {1: "axis", 2: "keepdim"},
    "pad": {1: "paddings", 2: "pad_value"},
    "pad3d": {1: "paddings", 2: "mode", 3: "pad_value", 4: "data_format"},
    "pool2d": {
        1: "kernel_size",
        2: "strides",
        3: "paddings",
        4: "ceil_mode",
        5: "exclusive",
        6: "data_format",
        7: "pooling_type",
        8: "global_pooling",
        9: "adaptive",
        10: "padding_algorithm",
    },
    "reshape": {1: "shape"},
    "roll": {1: "shifts", 2: "axis"},
    "scale": {1: "scale", 2: "bias", 3: "bias_after_scale"},
    "softmax": {1: "axis"},
    "softplus": {1: "beta", 2: "threshold"},
    "softshrink": {1: "threshold"},
    "split": {1: "sections", 2: "axis"},
    "sum": {1: "axis", 2: "dtype", 3: "keepdim"},
    "thresholded_relu": {1: "threshold", 2: "value"},
    "topk": {1: "k", 2: "axis", 3: "largest", 4: "sorted"},
    "transpose": {1: "perm"},
    **{
        f"{mode}_interp": {
            4: "data_format",
            5: "out_d",
            6: "out_h",
            7: "out_w",
            8: "scale",
            9: "interp_method",
            10: "align_corners",
            11: "align_mode",
        }
        for mode in ("nearest", "bilinear", "bicubic", "linear", "trilinear")
    },
}

#: one observation wraps and puts back at a time; those of other threads wait for the short while that it takes
_PATCHING = threading.RLock()


@contextmanager
def observed(sink: "OperationSink", source: "SourceLine", paths: "Paths") -> Iterator[None]:
    """Show the sink every operation of this thread."""
    watch = Watch(sink, source, paths)
    with ExitStack() as stack:
        with _PATCHING:
            _Active.watches = (*_Active.watches, watch)
            if len(_Active.watches) == 1:
                _PATCHES.install()
        stack.callback(_leave, watch)
        yield


def _leave(watch: Watch) -> None:
    with _PATCHING:
        _Active.watches = tuple(other for other in _Active.watches if other is not watch)
        if not _Active.watches:
            _PATCHES.remove()


class _Active:
    """Observations in progress, of all threads, the innermost last.

    The list is never changed in place, as other threads may be reading.
    """

    watches: Tuple[Watch, ...] = ()


class _Patches:
    """What is wrapped at the moment: where, under which name, and what was there."""

    def __init__(self) -> None:
        self._undo: List[Tuple[Any, str, Any]] = []
        self._translated = False

    def install(self) -> None:
        """Wrap every operation wherever a loaded module holds it.

        What ``to_static`` translates runs as it is written meanwhile.
        """
        self._translated = translates(False)
        wrapped: Dict[int, Any] = {}
        for home in (paddle._C_ops, paddle._legacy_C_ops):  # noqa: SLF001 - Paddle's only names for its operations
            for name, function in vars(home).items():
                if _is_operation(function) and not name.startswith("__"):
                    wrapped.setdefault(id(function), _wrap_kept(name, function))
        for module, key, value in held_by_modules(wrapped, "paddle.base.libpaddle"):
            self._undo.append((module, key, value))
            setattr(module, key, wrapped[id(value)])
        for name in (*_METHODS, *(f"__{operator}__" for operator in _OPERATORS)):
            method = vars(_TENSOR).get(name)
            if method is not None:
                self._undo.append((_TENSOR, name, method))
                setattr(_TENSOR, name, _wrap_kept(name, method))
        flag = vars(_TENSOR)["stop_gradient"]
        self._undo.append((_TENSOR, "stop_gradient", flag))
        _TENSOR.stop_gradient = _Wrapped(flag.__get__, _wrap("stop_gradient", _setting(flag)), flag)
        data = vars(_TENSOR)["data"]
        self._undo.append((_TENSOR, "data", data))
        _TENSOR.data = _Wrapped(_wrap("detach", data.__get__), data.__set__, data)

    def remove(self) -> None:
        """Put everything back that nobody else has replaced since."""
        translates(self._translated)
        while self._undo:
            owner, key, value = self._undo.pop()
            if getattr(vars(owner).get(key), "_paralign_wraps", None) is value:
                setattr(owner, key, value)


_PATCHES = _Patches()


class _Wrapped(property):
    """An attribute that is seen as an operation where it cuts a value off from the graph.

    Set ``stop_gradient``, get ``data``.
    """

    def __init__(self, getter: Callable[..., Any], setter: Callable[..., Any], attribute: Any) -> None:
        super().__init__(getter, setter)
        self._paralign_wraps = attribute


def _is_operation(value: Any) -> bool:
    """Whether a value is one of Paddle's functions, as it is or as float64 runs have it."""
    return type(value) is types.BuiltinFunctionType or hasattr(value, "_paralign_joins")


def _setting(flag: Any) -> Callable[..., Any]:
    def stop_gradient(tensor: Any, value: bool) -> Any:
        """Set the flag; the tensor where that cut it off, so that it counts as made anew."""
        cut = bool(value) and not flag.__get__(tensor)
        flag.__set__(tensor, value)
        return (tensor,) if cut else ()

    return stop_gradient


@contextmanager
def freezing(found: Dict[int, Tuple[str, ...]], source: "SourceLine") -> Iterator[None]:
    """Note the lines that set ``stop_gradient`` of tensors, by the tensors' ``id``."""
    flag = vars(_TENSOR)["stop_gradient"]

    def setter(tensor: Any, value: bool) -> None:
        flag.__set__(tensor, value)
        lines = source.stack()
        if value and lines:
            found[id(tensor)] = lines

    with _PATCHING:
        _TENSOR.stop_gradient = property(flag.__get__, setter)
    try:
        yield
    finally:
        with _PATCHING:
            _TENSOR.stop_gradient = flag


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _TENSOR)


@functools.lru_cache(maxsize=8192)  # more than Paddle has operations: an observation wraps all of them, a check makes dozens
def _wrap_kept(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """As :func:`_wrap`, of a function that stays the same."""
    return _wrap(name, function)


def _wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    op = name.strip("_").replace("_dygraph", "") if name.startswith("_") else name

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        watches = [watch for watch in _Active.watches if not watch.idle]
        if not watches:
            return function(*args, **kwargs)
        return _perform(op, function, args, kwargs, watches)

    wrapped._paralign_wraps = function  # type: ignore[attr-defined] # noqa: SLF001 - our own mark
    return wrapped


def _perform(op: str, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], watches: List[Watch]) -> Any:
    inputs = tensors((args, {name: value for name, value in kwargs.items() if name != "out"}), _is_tensor)
    for watch in watches:
        watch.before(inputs)
    target = _target(op, inputs, kwargs)
    result = None
    if target is None and len(watches) == 1 and not paddle.is_grad_enabled():  # a known result has no gradient
        result = watches[0].known(op, inputs, lambda: _attributes(op, args, kwargs))
    if result is None:
        with ExitStack() as stack:
            for watch in watches:
                stack.enter_context(watch.inside())
            result = _written(function(*args, **kwargs), target)
    outputs = tensors(result, _is_tensor)
    if not outputs and result is None:
        outputs = inputs[:1]  # what returns nothing writes into its first argument
    if not outputs:
        return result
    attrs = _attributes(op, args, kwargs)
    random = op in _RANDOM and not attrs.get("is_test", False)
    for watch in reversed(watches):
        new = watch.after(op, inputs, outputs, attrs, random=random, kind=_kind(op, attrs))
        if new is not None:
            with ExitStack() as stack:
                for each in watches:
                    stack.enter_context(each.inside())
                result = _put(result, outputs, inputs, new)
            outputs = tensors(result, _is_tensor) or outputs
    return result


def _target(op: str, inputs: List[Any], kwargs: Dict[str, Any]) -> Any:
    """The tensor that an operation writes into; None for one that makes a new one."""
    if kwargs.get("out") is not None:
        return kwargs["out"]
    if op.endswith("_") and inputs:
        return inputs[0]
    return None


def _written(result: Any, target: Any) -> Any:
    """The tensor that was written into, where an operation returns it as another object.

    They are one and the same.
    """
    if not _is_tensor(result) or not _is_tensor(target) or result is target or not (result.is_dense() and target.is_dense()):
        return result
    same = result.shape == target.shape and result.dtype == target.dtype and result.data_ptr() == target.data_ptr()
    return target if same else result


def _kind(op: str, attrs: Dict[str, Any]) -> str:
    if op in ("pool2d", "pool3d"):
        word = "average" if attrs.get("pooling_type") == "avg" else "maximum"
        return f"adaptive_{word}_pool" if attrs.get("adaptive") else f"{word}_pool"
    return "fill" if op == "set_value" and attrs else ""  # from an array of numpy; from a tensor, which is no attribute, it is a copy


def _attributes(op: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    names = _ARGUMENTS.get(op.rstrip("_"), {})
    given = {names.get(place, str(place)): value for place, value in enumerate(args)}
    given.update(kwargs)
    return {
        name: plain_attribute(value)
        for name, value in given.items()
        if value is not None and name != "name" and not tensors(value, _is_tensor) and not hasattr(value, "is_cpu_place")
    }


def _put(result: Any, outputs: List[Any], inputs: List[Any], new: List[Any]) -> Any:
    """The result with other values.

    They are written into what was changed in place, and take the place of what was made anew.
    """
    placed = []
    for old, value in zip(outputs, new):
        if value is not old and any(old is given for given in inputs):
            with paddle.no_grad():
                paddle.assign(value, output=old)
            value = old  # noqa: PLW2901 - the same tensor with other values
        placed.append(value)
    return replaced(result, _is_tensor, iter(placed))


def dense(gradient: Any, parameter: Any) -> Any:
    """A gradient whose rows alone are kept as a tensor of the parameter's shape.

    That is one of a sparse embedding; any other stays as it is.
    """
    if gradient is None or not gradient.is_selected_rows():
        return gradient
    with paddle.no_grad():
        kept, rows = gradient._get_tensor_from_selected_rows(), gradient.rows()  # noqa: SLF001 - there is no public way
        places = paddle.to_tensor(list(rows), dtype="int64").reshape([-1, 1])
        return paddle.scatter_nd_add(paddle.zeros(parameter.shape, dtype=kept.dtype), places, kept)


def on_gradient(tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:
    """As ``Observing.on_gradient``."""
    if tensor.stop_gradient:
        return None

    def hook(gradient: Any) -> Any:
        if gradient is None:  # Paddle hands over None where no gradient came
            return None
        if gradient.is_selected_rows():
            sink(dense(gradient, tensor))  # what the sink gives back cannot take the place of rows
            return None
        return sink(gradient)

    helper = tensor.register_hook(hook)

    def remove() -> None:
        with warnings.catch_warnings():  # an operation in place gives its tensor another place in the graph, without the hook
            warnings.simplefilter("ignore", RuntimeWarning)
            helper.remove()

    return remove
