"""The user's modules imported once more, rewritten, beside those of the session."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from paralign.worker.instrumentation.expressions import FRAME, RECORDER
from paralign.worker.instrumentation.rewriting import rewrite
from paralign.worker.process.files import real_place, system_folders

if TYPE_CHECKING:
    from types import ModuleType

    from paralign.worker.instrumentation.observed import Recorder

#: characters of a module beyond which it is left as it is: such files are generated tables
LARGEST = 1 << 20


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a source file rewritten; one that cannot be, as it is."""

    def __init__(self, name: str, path: str, recorder: "Recorder") -> None:
        super().__init__(name, path)
        self._recorder = recorder

    def exec_module(self, module: "ModuleType") -> None:
        """Run the module's body with the recorder in its names."""
        path, recorder = self.path, self._recorder
        source = importlib.util.decode_source(self.get_data(path))
        if len(source) > LARGEST:
            super().exec_module(module)
            return
        try:
            code, rewriter = rewrite(source, path, len(recorder.sites), len(recorder.functions))
        except (RecursionError, SyntaxError):
            super().exec_module(module)
            return
        setattr(module, RECORDER, recorder)
        setattr(module, f"{FRAME}0", recorder.adopt(module.__name__, path, rewriter))
        exec(code, module.__dict__)  # noqa: S102 - the user's own module, as the import that is replaced would run it


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of some folders as Python does, and has them rewritten."""

    def __init__(self, recorder: "Recorder", system: "Tuple[str, ...]") -> None:
        self._recorder, self._system = recorder, system

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: "Optional[ModuleType]" = None) -> Any:
        """The spec of a module of the user's; None for all others."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py") or not is_users(spec.origin, self._system):
            return None
        spec.loader = _Loader(fullname, spec.origin, self._recorder)
        return spec


def is_users(path: str, system: "Tuple[str, ...]") -> bool:
    """Whether a file is neither the interpreter's, nor installed, nor paralign's.

    ``system``: their folders, each with a separator at its end.
    """
    return not real_place(path).startswith(system)


@contextmanager
def rewritten(functions: "Dict[str, Any]", recorder: "Recorder") -> "Iterator[Dict[str, Any]]":
    """The functions of a side from modules that report to a recorder.

    The modules of the session are put back on leaving.

    Args:
        functions: name -> function, as the session has them.
        recorder: what the modules report to.

    Raises:
        Exception: whatever a module raises when it is imported again.
    """
    system = tuple(folder + os.sep for folder in system_folders())
    mine = {n: m for n, m in list(sys.modules.items()) if (f := _file(m)) is not None and f.endswith(".py") and is_users(f, system)}
    mine.pop("__main__", None)
    finder = _Finder(recorder, system)
    for name in mine:
        del sys.modules[name]
    bound = _bound(mine)
    for package, child, _ in bound:
        delattr(package, child)  # else `from . import child` takes it as it is
    sys.meta_path.insert(0, finder)
    try:
        yield {name: _again(name, function, mine, recorder) for name, function in functions.items()}
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n, m in list(sys.modules.items()) if (f := _file(m)) is not None and is_users(f, system) and n != "__main__"]:
            del sys.modules[name]
        sys.modules.update(mine)
        for package, child, module in bound:
            setattr(package, child, module)


def _bound(modules: "Dict[str, ModuleType]") -> "List[Tuple[ModuleType, str, ModuleType]]":
    """Packages that stay and hold modules as attributes: folders without a file."""
    found = []
    for name, module in modules.items():
        above, _, child = name.rpartition(".")
        package = sys.modules.get(above)
        if package is not None and _file(package) is None and vars(package).get(child) is module:
            found.append((package, child, module))
    return found


def _file(module: Any) -> Optional[str]:
    found = getattr(module, "__file__", None)
    return found if isinstance(found, str) else None


def _again(known_as: str, function: Any, mine: "Dict[str, ModuleType]", recorder: "Recorder") -> Any:
    """The same function of its module imported again; others stay as they are.

    Others are those of no module of the user's.

    What a module holds under the side's name for it is taken from there: a closure, a partial, an object that is called.
    """
    holder = next((m for m in mine.values() if vars(m).get(known_as) is function), None)
    if holder is not None:
        return getattr(sys.modules.get(holder.__name__) or _imported(holder, recorder), known_as)
    name, inner = getattr(function, "__module__", None), str(getattr(function, "__qualname__", ""))
    module = mine.get(name or "")
    if module is None or "<" in inner:
        return function
    again = sys.modules.get(module.__name__) or _imported(module, recorder)
    for part in inner.split("."):
        again = getattr(again, part)
    return again


def _imported(module: "ModuleType", recorder: "Recorder") -> Any:
    """A module again: by its name where Python finds it so, else by its file."""
    path = os.path.realpath(str(module.__file__))
    spec = importlib.util.find_spec(module.__name__)
    if spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == path:
        return importlib.import_module(module.__name__)
    spec = importlib.util.spec_from_file_location(
        module.__name__, str(module.__file__), loader=_Loader(module.__name__, str(module.__file__), recorder)
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no spec for {module.__name__}")
    again = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = again
    spec.loader.exec_module(again)
    return again
