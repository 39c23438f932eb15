"""The files of a package that one of them imports, read from a wheel as text: nothing of it is imported or run."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Package:
    """The source files of a package: those of a wheel, with stand-ins in place of some."""

    def __init__(self, wheel: Path, standins: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            self._files = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        self.standins: set[str] = set()
        for path in sorted(standins.rglob("*.py")):
            name = path.relative_to(standins).as_posix()
            self._files[name] = path.read_bytes()
            self.standins.add(name)

    def closure(self, entry: str) -> dict[str, bytes]:
        """The entry and all that it imports, by path; packages that nobody asks for names stay without an ``__init__.py``."""
        found: dict[str, bytes] = {}
        rest = [entry]
        while rest:
            name = rest.pop()
            if name in found:
                continue
            found[name] = self._files[name]
            rest += [each for each in self._imported(name) if each not in found]
        return found

    def _imported(self, name: str) -> Iterator[str]:
        home = PurePosixPath(name).parent
        for node in ast.walk(ast.parse(self._files[name])):
            if isinstance(node, ast.ImportFrom):
                base = home
                for _ in range(max(0, node.level - 1)):
                    base = base.parent
                base = base if node.level else PurePosixPath()
                yield from self._of(base.joinpath(*(node.module or "").split(".")), [alias.name for alias in node.names])
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._of(PurePosixPath(*alias.name.split(".")), [])

    def _of(self, base: PurePosixPath, names: list[str]) -> Iterator[str]:
        """The file of a module, or those of the names that are modules within it; its ``__init__.py`` only for other names."""
        module = f"{base}.py"
        if module in self._files:
            yield module
            return
        inner = [each for each in names if f"{base}/{each}.py" in self._files or f"{base}/{each}/__init__.py" in self._files]
        for each in inner:
            yield f"{base}/{each}.py" if f"{base}/{each}.py" in self._files else f"{base}/{each}/__init__.py"
        if set(names) - set(inner) and f"{base}/__init__.py" in self._files:
            yield f"{base}/__init__.py"
