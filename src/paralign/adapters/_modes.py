"""Train, eval and quiet mode of layers with a ``training`` flag.

Those of PyTorch and Paddle have one.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, MutableMapping, Optional, Sequence, Tuple
from weakref import WeakKeyDictionary

from paralign.errors import UsageError

#: ``differentiable`` is eval mode with a backward pass, ``apart`` train mode with every draw where it can be seen
MODES = ("eval", "train", "quiet", "differentiable", "apart")

#: words in the class names of layers that draw random numbers in train mode, the usual ones of users' own among them
_RANDOM = ("Dropout", "DropPath", "DropBlock", "StochasticDepth", "RReLU")

#: layer -> the attributes that a mode changed, as they were; those that only the class had are ``_NONE``
_TAKEN: MutableMapping[Any, Dict[str, Any]] = WeakKeyDictionary()
_NONE = object()


def set_train(
    model: Any, layers: Sequence[Any], mode: str, recurrent: Any, kernel: str = "", in_steps: Optional[Callable[[Any], Any]] = None
) -> None:
    """Put a model into a mode.

    Layers that apply dropout themselves (recurrent layers, attention) keep its probability in an attribute ``dropout``. Quiet
    mode sets that to zero and leaves the layer in train mode, because the backward pass of Paddle's recurrent layers, and of
    PyTorch's on a GPU, does not run in eval mode. For the same reason ``differentiable`` mode is eval mode but for recurrent layers,
    which compute the same in train mode without dropout. ``apart`` is train mode in which recurrent layers with dropout compute in
    single steps: inside a kernel nobody sees what they draw. Any other mode puts all of that back.

    Args:
        model: whose ``train`` or ``eval`` is called.
        layers: the model and all layers in it.
        mode: one of ``MODES``.
        recurrent: the framework's class of recurrent layers.
        kernel: the method by which these call a kernel that hides what it draws; '' where no kernel does.
        in_steps: makes what takes that method's place in ``apart`` mode.

    Raises:
        UsageError: an unknown mode.
    """
    if mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}", hint="choose one of: " + ", ".join(MODES))
    for layer in layers:
        _give_back(layer)
    if mode in ("eval", "differentiable"):
        model.eval()
    else:
        model.train()
    for layer in layers:
        if mode == "quiet":
            _quiet(layer)
        if mode == "differentiable" and isinstance(layer, recurrent):
            layer.training = True
            _silence(layer)
        if mode == "apart" and in_steps is not None and isinstance(layer, recurrent) and layer.dropout:
            _take(layer, kernel, in_steps(layer))


def read_mode(layers: Sequence[Any]) -> List[Tuple[Any, bool, Dict[str, Any]]]:
    """Every layer with its ``training`` flag and the attributes that a mode has changed."""
    return [(layer, layer.training, {name: getattr(layer, name) for name in _TAKEN.get(layer, ())}) for layer in layers]


def write_mode(mode: Sequence[Tuple[Any, bool, Dict[str, Any]]]) -> None:
    """Put back what :func:`read_mode` returned."""
    for layer, training, changed in mode:
        _give_back(layer)
        layer.training = training
        for name, value in changed.items():
            _take(layer, name, value)


def hush(layers: Sequence[Any]) -> None:
    """Switch dropout and other random layers off in layers that are in train mode.

    All else stays as it is.
    """
    for layer in layers:
        if getattr(layer, "training", False) is True:
            _quiet(layer)


def _quiet(layer: Any) -> None:
    names = [cls.__name__ for cls in type(layer).__mro__]
    parts = layer.children() if hasattr(layer, "children") else ()  # a layer of plain Python holds none
    if next(iter(parts), None) is None and any(word in name for name in names for word in _RANDOM):
        layer.training = False
    _silence(layer)


def _silence(layer: Any) -> None:
    if isinstance(getattr(layer, "dropout", None), float) and layer.dropout > 0.0:
        _take(layer, "dropout", 0.0)


def _take(layer: Any, name: str, value: Any) -> None:
    _TAKEN.setdefault(layer, {}).setdefault(name, vars(layer).get(name, _NONE))
    setattr(layer, name, value)


def _give_back(layer: Any) -> None:
    for name, value in _TAKEN.pop(layer, {}).items():
        if value is _NONE:
            delattr(layer, name)
        else:
            setattr(layer, name, value)
