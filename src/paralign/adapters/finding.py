"""Which adapters there are: three of our own, and those of installed packages.

A package adds a framework by an entry point of the group ``paralign.adapters``: its name is that of the framework's top-level
module, its value ``package.module`` or ``package.module:create``. ``create()`` returns an :class:`~paralign.adapters.base.Adapter`.
The package must be installed for paralign's own interpreter, whose workers are told where it is (:mod:`paralign.adapters.packages`).
Nothing is imported before it is used.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from paralign.adapters.packages import Place, places
from paralign.errors import EnvironmentUnavailable, UsageError

if TYPE_CHECKING:
    from paralign.adapters.base import Adapter

#: the adapter of plain functions: it takes whatever can be called, so it is never guessed from a model's type
PLAIN = "numpy"

#: the adapter of exported programs: a side that exports may import it as well, which says nothing of what its model is made of
ENGINE = "onnxruntime"

#: framework -> the oldest version (major, minor) whose interfaces its adapter uses: Paddle's tensors have DLPack since 3.0
OLDEST = {"torch": (2, 0), "paddle": (3, 0)}

_OWN = {name: Place(f"paralign.adapters.{name}:create") for name in ("torch", "paddle", PLAIN)}


def known() -> Dict[str, Place]:
    """Framework -> where its adapter is.

    Our own come first and cannot be replaced.
    """
    return {**places(), **_OWN}


def frameworks() -> List[str]:
    """The names of the frameworks proper, whether they are installed or not."""
    return [*(name for name in _OWN if name != PLAIN), *(name for name in known() if name not in _OWN)]


def imported() -> List[str]:
    """The frameworks that this process has imported.

    One that runs programs of others only where there is no other.
    """
    found = [name for name in frameworks() if name in sys.modules]
    return [name for name in found if name != ENGINE] or found


def load(name: str) -> Adapter:
    """The adapter of a framework; imports the framework.

    Raises:
        UsageError: an unknown name.
        EnvironmentUnavailable: the framework cannot be imported here, or is too old.
    """
    place = _OWN.get(name) or known().get(name)
    if place is None:
        raise UsageError(f"there is no adapter for framework {name!r}", hint="choose one of: " + ", ".join(sorted(known())))
    try:
        if name in OLDEST:
            _check_version(name)
        module = place.load()
    except ImportError as missing:
        raise EnvironmentUnavailable(
            f"framework {name!r} cannot be imported: {missing}",
            where=sys.executable,
            hint=f"install {name} for this interpreter, or name another interpreter for this side",
        ) from missing
    create: Callable[[], Adapter] = getattr(module, place.value.partition(":")[2] or "create")
    return create()


def _check_version(name: str) -> None:
    """Refuse a framework that is older than its adapter can use.

    Raises:
        ImportError: the framework is not there.
        EnvironmentUnavailable: it is too old; a version that cannot be read (``0.0.0``, a build of one's own) is taken for new.
    """
    version = str(getattr(import_module(name), "__version__", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
    if (0, 0) < numbers < OLDEST[name]:
        least = ".".join(str(number) for number in OLDEST[name])
        raise EnvironmentUnavailable(
            f"{name} {version} is too old: paralign needs {name} {least} or newer",
            where=sys.executable,
            hint=f"install a newer {name} for this interpreter, or name another interpreter for this side (`python` in paralign.toml)",
        )


def detect(model: Any) -> Optional[str]:
    """The framework of a live model, of those already imported; None where none claims it."""
    for name in [name for name in frameworks() if name in sys.modules]:
        if load(name).is_model(model):
            return name
    return None
