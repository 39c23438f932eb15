"""What is known of plain numpy beforehand."""

from __future__ import annotations

from paralign.adapters.profile import Profile

#: see :attr:`paralign.adapters.profile.Profile.program`
_PROGRAM = """
import sysconfig
import types
from contextlib import nullcontext as without_gradients

LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")


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


def is_owner(value):
    if isinstance(value, types.SimpleNamespace):
        return True
    if not hasattr(value, "__dict__") or isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType, np.ndarray)):
        return False
    home = type(value).__module__
    source = getattr(sys.modules.get(home), "__file__", None) or ""
    is_pythons = source.startswith(LIBRARY) and "-packages" + os.sep not in source[len(LIBRARY) :]
    return home.split(".")[0] not in ("numpy", *sys.builtin_module_names) and not is_pythons


def items(value):
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else list(vars(value).items())


def owners(path, value, seen):
    if id(value) in seen or not (isinstance(value, (list, tuple, dict)) or is_owner(value)):
        return
    seen.add(id(value))
    if is_owner(value):
        yield path, value
    for key, item in items(value):
        for found in owners(path + "." + str(key) if path else str(key), item, seen):
            yield found


def held(path, value, seen):
    if id(value) in seen:
        return
    seen.add(id(value))
    for key, item in items(value):
        where = path + "." + str(key) if path else str(key)
        if isinstance(item, np.ndarray):
            yield where, item
        elif isinstance(item, (list, dict)):
            for found in held(where, item, seen):
                yield found


def load(model, weights):
    root = getattr(model, "__self__", model) if isinstance(model, types.MethodType) else model
    places = {}
    for path, owner in owners("", root, set()):
        for name, array in held(path, vars(owner), set()):
            places.setdefault(name, array)
    for name, (array, _) in weights.items():
        if name in places:
            places[name][...] = array
    return [name for name in weights if name not in places]


def evaluate(model):
    pass
"""

PROFILE = Profile("numpy", program=_PROGRAM)
