"""What is known of plain numpy beforehand."""

from __future__ import annotations

from paralign.adapters.profile import Profile

#: see :attr:`paralign.adapters.profile.Profile.program`
_PROGRAM = """
from contextlib import nullcontext as without_gradients


def start(seed, device):
    pass


def on_device(model, device):
    return model


def tensor(array, dtype):
    if array.dtype.name == dtype:
        return array
    try:
        return array.astype(dtype)
    except TypeError:
        import ml_dtypes

        return array.astype(getattr(ml_dtypes, dtype))


def array_of(value):
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    return value if value.dtype.kind in "biufc" else value.astype(np.float32)


def load(model, weights):
    for name, (array, _) in weights.items():
        holder = getattr(model, "__self__", model)
        *way, last = name.split(".")
        for part in way:
            holder = within(holder)[int(part) if isinstance(holder, (list, tuple)) else part]
        within(holder)[int(last) if isinstance(holder, (list, tuple)) else last][...] = array
    return []


def within(holder):
    return holder if isinstance(holder, (dict, list, tuple)) else vars(holder)


def evaluate(model):
    pass
"""

PROFILE = Profile("numpy", program=_PROGRAM)
