"""Which environment variables a run depended on.

Those that it read, and those that libraries are known to read by themselves.

Values may be secrets, so only digests of them are kept. Compiled code reads the environment unseen: well-known variables
of arithmetic libraries and of the interpreter count for every run.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any, Dict, Iterator, List, Mapping, Set

#: beginnings of names that compiled code reads and results depend on: threads, kernels, devices, the interpreter, the locale
UNSEEN = (
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "VECLIB_",
    "CUDA_",
    "CUBLAS_",
    "CUDNN_",
    "NVIDIA_",
    "NCCL_",
    "HIP_",
    "ROCR_",
    "FLAGS_",
    "TORCH_",
    "PYTORCH_",
    "ATEN_",
    "NPY_",
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
)

#: what shells, terminals and test runners set anew all the time: code that goes through all variables does not mean these
VOLATILE = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "WINDOWID", "STY", "TMUX", "TMUX_PANE"})
VOLATILE_BEGINNINGS = ("SSH_", "PYTEST_", "XDG_SESSION_", "TERM_")

#: stands for all variables in what a run depended on; no variable's name holds this sign
ALL = "="

#: the mark of a variable that is not set
UNSET = ""

_read: Set[str] = set()
_at_start: Dict[str, str] = {}
_walk = threading.local()


class _Recording(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - in Python 3.8 it is no generic class
    """``os.environ`` as it is, which notes the names that are asked for.

    ``get``, ``in``, ``pop`` and ``os.getenv`` come here.
    """

    def __getitem__(self, key: Any) -> Any:
        due: Set[Any] = getattr(_walk, "due", set())
        if key in due:
            due.remove(key)
        elif isinstance(key, (str, bytes)):
            _read.add(os.fsdecode(key))
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        _read.add(ALL)
        names = list(super().__iter__())
        _walk.due = set(names)  # dict(os.environ) asks for each value next: that is no read of just these variables
        return iter(names)

    def __len__(self) -> int:
        _read.add(ALL)
        return super().__len__()


def install() -> None:
    """Start to listen, before any of the side's code runs."""
    _at_start.update(os.environ)
    for variables in (os.environ, getattr(os, "environb", None)):
        if variables is not None:
            variables.__class__ = _Recording


def depended_on() -> Dict[str, str]:
    """Name -> mark of what this process has read so far, as it was when the process started."""
    names = _read | {name for name in _at_start if name.startswith(UNSEEN)}
    return {name: mark(name, _at_start) for name in sorted(names)}


def changed(known: Mapping[str, str], variables: Mapping[str, str]) -> List[str]:
    """The names of what a run depended on and what is different in these variables."""
    names = set(known) | {name for name in variables if name.startswith(UNSEEN)}
    return sorted(name for name in names if known.get(name, UNSET) != mark(name, variables))


def mark(name: str, variables: Mapping[str, str]) -> str:
    """What a variable is known by, or all of them together."""
    if name != ALL:
        return _digest([name, variables[name]]) if name in variables else UNSET
    lasting = {key: value for key, value in variables.items() if not is_volatile(key)}
    return _digest([part for key in sorted(lasting) for part in (key, lasting[key])])


def is_volatile(name: str) -> bool:
    """Whether shells, terminals or test runners set this variable anew all the time."""
    return name in VOLATILE or name.startswith(VOLATILE_BEGINNINGS)


def _digest(parts: List[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
