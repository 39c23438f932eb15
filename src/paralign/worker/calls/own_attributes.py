"""What the user's code keeps beside a model's tensors.

Counters, averages of weights, caches.

A training step may hang them on the model (``model.average = …``) or keep them in its module (``AVERAGES = {}``). A second run of
the step must not find those of the first.
"""

from __future__ import annotations

import copy
import os
import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any, Callable, Dict, List, Tuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from paralign.adapters.base import Adapter, Numbering

#: containers that are put back
_CONTAINERS = (dict, list, set, WeakKeyDictionary, WeakValueDictionary)


def keep_attributes(adapter: Adapter, model: Any) -> "Callable[[], None]":
    """What puts the own attributes of a model and of its parts back as they are now.

    It may be called as often as wanted.

    Parameters, buffers and submodules stay the same objects; a value that cannot be copied stays as it is.
    """
    modules = [module for _, module in adapter.modules(model) if isinstance(getattr(module, "__dict__", None), dict)]
    framework = framework_names(adapter, model)
    if not framework:
        return lambda: None
    fixed = [*modules, *(entry.tensor for entry in adapter.state(model))]
    kept = [(module, {n: v for n, v in vars(module).items() if n not in framework}) for module in modules]
    copies = _copies(kept, fixed)

    def put_back() -> None:
        for (module, _), own in zip(kept, _copies(copies, fixed)):
            space = vars(module)
            for name in [n for n in space if n not in framework and n not in own[1]]:
                del space[name]
            space.update(own[1])

    return put_back


def keep_globals(functions: "Dict[str, Callable[..., Any]]") -> "Callable[[], None]":
    """What puts back the variables of a side's modules.

    That is what dicts, lists and sets hold, and plain values.

    The modules are those that lie where those of the side's functions do. What the containers hold is not copied.

    Args:
        functions: of the side.
    """
    kept = [(space, _plain(space), _held(space)) for space in _spaces(functions)]

    def put_back() -> None:
        for space, plain, held in kept:
            space.update(plain)
            for container, items in held:
                _refill(container, items)

    return put_back


def _spaces(functions: "Dict[str, Callable[..., Any]]") -> "List[Dict[str, Any]]":
    """The variables of a side's modules.

    These are the modules of its functions, and those in the same folder or below.
    """
    files = {getattr(sys.modules.get(getattr(f, "__module__", "") or ""), "__file__", None) for f in functions.values()}
    folders = tuple(f"{os.path.dirname(os.path.abspath(file))}{os.sep}" for file in files if file)
    held: "List[Any]" = list(sys.modules.values())  # anything may be put there
    modules = [m for m in held if isinstance(m, ModuleType) and getattr(m, "__file__", None)]
    return [vars(m) for m in modules if folders and _lies_in(os.path.abspath(str(m.__file__)), folders)]


def _lies_in(file: str, folders: "Tuple[str, ...]") -> bool:
    """Whether a file is the user's.

    It lies in one of the folders, and in no place where packages are installed.
    """
    return file.startswith(folders) and "site-packages" not in file and "dist-packages" not in file


def _plain(space: "Dict[str, Any]") -> "Dict[str, Any]":
    return {n: v for n, v in space.items() if _is_of(v, (bool, int, float, str)) and not n.startswith("__")}


def _held(space: "Dict[str, Any]") -> "List[Tuple[Any, Any]]":
    return [(v, _items(v)) for n, v in space.items() if _is_of(v, _CONTAINERS) and not n.startswith("__")]


def _is_of(value: Any, kinds: "Tuple[type, ...]") -> bool:
    """Whether a value is of one of the kinds, without asking it.

    A proxy answers for what may not be there yet.
    """
    return issubclass(type(value), kinds)


def _items(container: Any) -> Any:
    """What a container holds, in a list or dict of its own."""
    return list(container) if isinstance(container, (list, set)) else dict(container.items())


def _refill(container: Any, items: Any) -> None:
    now = _items(container)
    if len(now) == len(items) and all(a is b for a, b in zip(now, items)) and not isinstance(items, dict):
        return
    if isinstance(items, dict) and now.keys() == items.keys() and all(now[k] is items[k] for k in items):
        return
    container.clear()
    if isinstance(container, list):
        container.extend(items)
    else:
        container.update(items)


def _copies(kept: "List[Tuple[Any, Dict[str, Any]]]", fixed: "List[Any]") -> "List[Tuple[Any, Dict[str, Any]]]":
    memo = {id(value): value for value in fixed}
    return [(module, {name: _copied(value, memo) for name, value in own.items()}) for module, own in kept]


def _copied(value: Any, memo: "Dict[int, Any]") -> Any:
    known = len(memo)
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - whatever a foreign object raises that cannot be copied: it stays as it is
        while len(memo) > known:  # half-made copies, which another attribute would get
            memo.popitem()
        return value


def framework_names(adapter: Adapter, model: Any) -> "set[str]":
    """Names of the attributes that every model of the framework has.

    Empty where it has no class of models.
    """
    own = [each for each in type(model).__mro__ if each.__module__.split(".")[0] == adapter.name]
    roots = [each for each in own if hasattr(each, "forward")]  # not a class of another kind that a model derives from as well
    if not roots:
        return set()
    with adapter.numbered_anew() if isinstance(adapter, Numbering) else nullcontext():
        return set(vars(roots[-1]()))
