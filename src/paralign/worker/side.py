"""Load a side's module with its own root on the path, as its own program would."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, Callable, Dict

from paralign.errors import UsageError
from paralign.registry import SIGNATURES


def load(module: str, root: str) -> Dict[str, Callable[..., Any]]:
    """Import a side's module and return those functions of ``registry.SIGNATURES`` that it has.

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
    inside = os.path.relpath(module, root)
    dotted = os.path.splitext(inside)[0].split(os.sep)
    if not inside.startswith(os.pardir) and all(part.isidentifier() for part in dotted):
        loaded = importlib.import_module(".".join(dotted))
    else:
        loaded = _by_path(module)
    functions = {name: getattr(loaded, name) for name in SIGNATURES if callable(getattr(loaded, name, None))}
    if not functions:
        raise UsageError(
            "the side's module has none of the functions that paralign calls",
            where=module,
            hint="define at least one of: " + ", ".join(SIGNATURES.values()),
        )
    return functions


def _by_path(path: str) -> Any:
    name = os.path.splitext(os.path.basename(path))[0]
    name = name if name.isidentifier() else "paralign_side"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("the module of the side is no Python source file", where=path, hint="give a file that ends in .py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
