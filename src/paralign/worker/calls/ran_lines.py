"""Which lines of the user's modules a piece of the program runs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Set

if TYPE_CHECKING:
    from types import FrameType


class RanLines:
    """Lines of modules that run inside :meth:`watching`.

    Args:
        modules: their dotted names; those that nobody has imported have no lines.
    """

    def __init__(self, modules: List[str]) -> None:
        self._modules = {name: getattr(sys.modules.get(name), "__file__", None) for name in modules}
        self._seen: Dict[str, Set[int]] = {file: set() for file in self._modules.values() if file}

    @property
    def lines(self) -> Dict[str, List[int]]:
        """Module -> its lines that ran, in order; modules of which none did are left out."""
        return {name: sorted(self._seen[file]) for name, file in self._modules.items() if file and self._seen[file]}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread; an earlier trace function is put back on leaving."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: "FrameType", event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename in self._seen:
            return self._inside
        return None

    def _inside(self, frame: "FrameType", event: str, _: Any) -> Any:
        if event == "line":
            self._seen[frame.f_code.co_filename].add(frame.f_lineno)
        return self._inside
