"""How a model takes its inputs: by keyword, by position, or a batch as one argument."""

import inspect
from typing import Any, Callable


def call_model(model: Callable[..., Any], inputs: Any) -> Any:
    """The outputs of a model.

    A dict is handed over by keyword and a tuple or list by position. Where the model's ``forward`` cannot take
    them so, and takes one argument, it gets the dict or the tuple as that argument, as in ``forward(self, batch)``.

    Args:
        model: a module of a framework, or any callable.
        inputs: a tensor, or a dict, tuple or list of them.
    """
    if not isinstance(inputs, (dict, tuple, list)):
        return model(inputs)
    if _only_whole(model, inputs):
        return model(inputs)
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


#: where PyTorch and Paddle note hooks that may hand ``forward`` other keywords than the model was called with
_CHANGING = ("_forward_pre_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs_flag")


def _only_whole(model: Callable[..., Any], inputs: Any) -> bool:
    """Whether a model takes these inputs as one argument, and cannot take them apart."""
    if any(getattr(model, name, None) for name in _CHANGING):
        return False
    try:
        signature = inspect.signature(getattr(model, "forward", model))
    except (TypeError, ValueError):  # of C code: as documented
        return False
    try:
        if isinstance(inputs, dict):
            signature.bind(**inputs)
        else:
            signature.bind(*inputs)
    except TypeError:
        return _takes_one(signature, inputs)
    return False


def _takes_one(signature: inspect.Signature, argument: Any) -> bool:
    try:
        signature.bind(argument)
    except TypeError:
        return False
    return True
