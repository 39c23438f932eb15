"""Train, eval and quiet mode of layers that keep a ``training`` flag, as those of PyTorch and Paddle do."""

from __future__ import annotations

from typing import Any, List, MutableMapping, Sequence, Tuple
from weakref import WeakKeyDictionary

from paralign.errors import UsageError

MODES = ("eval", "train", "quiet")

#: words in the class names of layers that draw random numbers in train mode, the usual ones of users' own among them
_RANDOM = ("Dropout", "DropPath", "DropBlock", "StochasticDepth", "RReLU")

#: layer -> the ``dropout`` that quiet mode took from it
_TAKEN: MutableMapping[Any, float] = WeakKeyDictionary()


def set_train(model: Any, layers: Sequence[Any], mode: str) -> None:
    """Put a model into a mode.

    Layers that apply dropout themselves (recurrent layers, attention) keep its probability in an attribute ``dropout``. Quiet
    mode sets that to zero and leaves the layer in train mode, because the backward pass of Paddle's recurrent layers, and of
    PyTorch's on a GPU, does not run in eval mode. Any other mode puts it back.

    Raises:
        UsageError: an unknown mode.
    """
    if mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}", hint="choose one of: " + ", ".join(MODES))
    for layer in layers:
        _give_back(layer)
    if mode == "eval":
        model.eval()
        return
    model.train()
    if mode == "quiet":
        for layer in layers:
            _quiet(layer)


def read_mode(layers: Sequence[Any]) -> List[Tuple[Any, bool, bool]]:
    """Every layer with its ``training`` flag and whether it was made quiet."""
    return [(layer, layer.training, layer in _TAKEN) for layer in layers]


def write_mode(mode: Sequence[Tuple[Any, bool, bool]]) -> None:
    """Put back what :func:`read_mode` returned."""
    for layer, training, quiet in mode:
        _give_back(layer)
        layer.training = training
        if quiet:
            _take(layer)


def _quiet(layer: Any) -> None:
    names = [cls.__name__ for cls in type(layer).__mro__]
    if next(iter(layer.children()), None) is None and any(word in name for name in names for word in _RANDOM):
        layer.training = False
    _take(layer)


def _take(layer: Any) -> None:
    if isinstance(getattr(layer, "dropout", None), float) and layer.dropout > 0.0:
        _TAKEN[layer] = layer.dropout
        layer.dropout = 0.0


def _give_back(layer: Any) -> None:
    if layer in _TAKEN:
        layer.dropout = _TAKEN.pop(layer)
