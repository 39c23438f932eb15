"""Two sides named ``FILE.py:FUNCTION`` on the command line, as a project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import near
from paralign.errors import UsageError
from paralign.run.project import Project, SideSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

#: a side's module: the user's own, imported as its program would, under the name that paralign calls
_MODULE = """import sys
sys.path.insert(0, {folder!r})
from importlib import import_module
from paralign.worker.sides.side import import_file
module = {imported}
build_model = getattr(module, {function!r})
inputs = getattr(module, "inputs", None)
"""


def project(sides: Sequence[str], folder: Path) -> Project:
    """A project of two functions that build a model each, and ``inputs()`` beside them.

    Args:
        sides: the reference's and the candidate's: ``models/net.py:build``, or ``package.module:function``. Both run in the
            interpreter that runs paralign, with the current folder as theirs.
        folder: where to write what leads to them.

    Raises:
        UsageError: not two, no function is named, or the file is not there.
    """
    if len(sides) != 2:  # noqa: PLR2004 - a reference and a candidate
        raise UsageError(
            f"{len(sides)} model is named, two are needed" if len(sides) == 1 else f"{len(sides)} models are named, two are needed",
            where=", ".join(sides),
            hint="give the folder of a paralign.toml, or --model FILE.py:FUNCTION once for the reference and once for the candidate",
        )
    return Project(Path.cwd() / "paralign.toml", _side("reference", sides[0], folder), _side("candidate", sides[1], folder))


def _side(name: str, spec: str, folder: Path) -> SideSettings:
    place, colon, function = spec.rpartition(":")
    if not colon or not function.isidentifier():
        raise UsageError(f"{spec!r} names no function", hint="write FILE.py:FUNCTION or package.module:FUNCTION; it is to build the model")
    path = Path(place)
    if place.endswith(".py"):
        if not path.is_file():
            raise UsageError(f"there is no such file{near(path)}", where=str(path), hint="correct the path before the colon")
        root, dotted = _place(path.resolve())
        imported = f"import_file({str(path.resolve())!r}, {str(root)!r})"
    else:
        root, dotted = Path.cwd(), place
        imported = f"import_module({place!r})"
    if not _DOTTED.fullmatch(dotted):
        raise UsageError(
            f"{place!r} cannot be imported as a module", where=spec, hint="rename the file, or import it in one with a plain name"
        )
    module = folder / f"paralign_{name}.py"
    own = path.resolve().parent if place.endswith(".py") else root
    module.write_text(_MODULE.format(folder=str(own), imported=imported, function=function), encoding="utf-8")
    return SideSettings(module, root)


def _place(path: Path) -> tuple[Path, str]:
    """The folder that leads the path, and the module's dotted name below it.

    The current folder where that is above the file.
    """
    root = Path.cwd().resolve()
    if root not in path.parents or not all(part.isidentifier() for part in path.relative_to(root).with_suffix("").parts):
        root = path.parent
    return root, ".".join(path.relative_to(root).with_suffix("").parts)
