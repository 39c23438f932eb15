"""The greatest memory that this process has held."""

from __future__ import annotations

import sys
from contextlib import suppress


def forget_peak() -> None:
    """Start to measure :func:`peak_bytes` anew, where the system can (Linux)."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel's
        file.write("5")


def peak_bytes() -> float:
    """The greatest resident memory in bytes since :func:`forget_peak`.

    Since the process's start where the system cannot forget.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel's
            return next(float(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return _peak_since_start()


def _peak_since_start() -> float:
    try:
        import resource
    except ImportError:  # pragma: no cover - not on Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
