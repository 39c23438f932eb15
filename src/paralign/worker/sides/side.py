"""Load a side's module with its own root on the path, as its own program would."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
from types import FunctionType
from typing import Any, Callable, Dict, List, Tuple

from paralign.errors import UsageError, did_you_mean
from paralign.registry import SIGNATURES
from paralign.worker.sides.stateful import is_stateful


class Functions(Dict[str, Callable[..., Any]]):
    """A side's functions by name.

    ``others`` are the names of what else its module defines and nothing calls.
    """

    others: List[str] = []  # noqa: RUF012 - replaced, never changed


def load(module: str, root: str) -> Functions:
    """Import a side's module; gives those functions of ``registry.SIGNATURES`` that it has.

    A module below ``root`` is imported by its dotted name, so that its relative imports work; any other by its path. ``root``
    and the module's own folder lead ``sys.path``.

    Args:
        module: path of the module's file.
        root: folder of the side's code.

    Raises:
        UsageError: a path that is not there, or a module with none of the functions.
        Exception: whatever the module raises on import.
    """
    module, root = os.path.abspath(module), os.path.abspath(root)
    if not os.path.isdir(root):
        raise UsageError(
            "the root of the side is no folder", where=root, hint="set `root` in paralign.toml to the folder of the side's code"
        )
    if not os.path.isfile(module):
        raise UsageError("the module of the side is not there", where=module, hint="set `module` in paralign.toml to a Python file")
    for folder in (os.path.dirname(module), root):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    loaded = import_file(module, root)
    functions = Functions((name, getattr(loaded, name)) for name in SIGNATURES if callable(getattr(loaded, name, None)))
    functions.others = [name for name, value in vars(loaded).items() if name not in SIGNATURES and _is_own(value, loaded)]
    if "metric" not in functions and is_stateful(getattr(loaded, "metric", None)):  # Paddle's are not callable
        functions["metric"] = loaded.metric
    if not functions:
        near = next((told for told in (did_you_mean(name, SIGNATURES) for name in functions.others) if told), "")
        raise UsageError(
            f"the side's module has none of the functions that paralign calls{near}",
            where=module,
            hint="define at least one of: " + ", ".join(SIGNATURES.values()),
        )
    return functions


def _is_own(value: Any, module: Any) -> bool:
    """Whether a module defines this function itself."""
    return isinstance(value, FunctionType) and value.__module__ == module.__name__


def import_file(path: str, root: str) -> Any:
    """Import a Python file by its dotted name below ``root``, else by its path.

    A name that one of Python's own modules bears (``types.py``, ``json.py``) leads elsewhere.
    """
    inside = os.path.relpath(path, root)
    dotted = os.path.splitext(inside)[0].split(os.sep)
    if inside.startswith(os.pardir) or not all(part.isidentifier() for part in dotted):
        return _by_path(path)
    if len(dotted) == 1 and _is_pythons_own(dotted[0], (root, os.path.dirname(path))):
        return _by_path(path)
    loaded = importlib.import_module(".".join(dotted))
    file = getattr(loaded, "__file__", None)
    if file is not None and os.path.realpath(file) == os.path.realpath(path):
        return loaded
    return _by_path(path)


def _is_pythons_own(name: str, folders: Tuple[str, ...]) -> bool:
    """Whether Python itself has a module of this name.

    It is then imported, so that frameworks which need it do not get the side's.
    """
    if name in sys.builtin_module_names:
        return True
    pythons = [os.path.realpath(sysconfig.get_paths()[kind]) for kind in ("stdlib", "platstdlib")]
    before = list(sys.path)
    sys.path[:] = [p for p in before if os.path.realpath(p or os.curdir) not in [os.path.realpath(folder) for folder in folders]]
    try:
        spec = importlib.util.find_spec(name)
        own = spec is not None and spec.origin is not None and (spec.origin == "frozen" or _lies_in(spec.origin, pythons))
        if own:
            importlib.import_module(name)
    except (ImportError, ValueError):  # ValueError: a module that was put together by hand has no spec
        own = False
    finally:
        sys.path[:] = before
    return own


def _lies_in(file: str, folders: List[str]) -> bool:
    """Whether a file is the standard library's; what is installed lies in other folders."""
    real = os.path.realpath(file)
    if not any(real.startswith(folder + os.sep) for folder in folders):
        return False
    return not ({"site-packages", "dist-packages"} & set(real.split(os.sep)))


def _by_path(path: str) -> Any:
    name = os.path.splitext(os.path.basename(path))[0]
    if not name.isidentifier() or name in sys.modules:
        name = "paralign_side_" + "".join(c if c.isalnum() else "_" for c in name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("the module of the side is no Python source file", where=path, hint="give a file that ends in .py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
