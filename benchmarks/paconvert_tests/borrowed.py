"""The PyTorch code of paconvert's tests, read from a checkout that the user fetched: its sources are data here, none is kept."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Snippet:
    """One program of one test function, the names that are compared, and how closely."""

    file: str
    test: str
    code: str
    names: tuple[str, ...] = ()
    values: bool = True
    kinds: bool = True
    relative: float = 1e-6
    absolute: float = 0.0


class Recorder:
    """Stands for the class that runs their tests: it notes what it is given."""

    found: ClassVar[list[Snippet]] = []

    def __init__(self, pytorch_api: str) -> None:
        self.pytorch_api = pytorch_api

    def run(self, code: str = "", names: Any = None, expect: Any = None, **options: Any) -> None:
        """Note one program."""
        del expect
        code, names = options.get("pytorch_code", code), options.get("compared_tensor_names", names)
        values, kinds = options.get("check_value", True), options.get("check_dtype", True)
        near = options.get("rtol", 1e-6), options.get("atol", 0.0)
        self.found.append(Snippet("", "", code.strip() + "\n", tuple(names or ()), bool(values), bool(kinds), *near))


def snippets(tests: Path, only: str) -> Iterator[Snippet]:
    """Every program of every test function of the files ``test_*.py``; their module ``apibase`` is replaced by a recorder."""
    stand_in = types.ModuleType("apibase")
    stand_in.APIBase = Recorder  # type: ignore[attr-defined]
    sys.modules["apibase"] = stand_in
    sys.path.insert(0, str(tests))
    for path in sorted(tests.glob(f"test_{only}*.py")):
        for test, function in _functions(path):
            Recorder.found.clear()
            _called(function)
            for at, snippet in enumerate(Recorder.found):
                snippet.file, snippet.test = path.stem, f"{test}_{at}" if at else test
                yield snippet


def _functions(path: Path) -> list[tuple[str, Any]]:
    """The test functions of a file; none where it cannot be imported here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(path.stem)
        except Exception as error:  # noqa: BLE001 - their file needs what is not here
            print(f"{path.name} is left out: {type(error).__name__}: {error}", file=sys.stderr)
            return []
    return [(name, each) for name, each in vars(module).items() if name.startswith("test") and inspect.isfunction(each)]


def _called(function: Any) -> None:
    """Call a test function, whose programs are noted; one with arguments is not called."""
    if inspect.signature(function).parameters:
        return
    try:
        function()
    except Exception as error:  # noqa: BLE001 - what was noted before stands
        print(f"{function.__module__}.{function.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
