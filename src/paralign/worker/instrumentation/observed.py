"""A recorder for rewritten modules: they report to it, and it runs what they define."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from paralign.worker.instrumentation.call_hooks import CallHooks
from paralign.worker.instrumentation.events import Frame
from paralign.worker.instrumentation.expressions import Site
from paralign.worker.instrumentation.value_marks import attribute, mark

if TYPE_CHECKING:
    from paralign.worker.instrumentation.rewriting import Rewriter


#: kinds of events that make a value
_COMPUTED = frozenset({"operation", "call"})


class Recorder(CallHooks):
    """Receives what rewritten modules report."""

    # -- modules -----------------------------------------------------------------------------------------------------------------

    def adopt(self, module: str, path: str, rewriter: Rewriter) -> Frame:
        """Take note of a module's sites; gives the frame of its body."""
        self.sites += rewriter.sites
        self.files += [path] * len(rewriter.sites)
        self.functions += rewriter.functions
        self.function_files += [path] * len(rewriter.functions)
        self._targets.update(rewriter.targets)
        self.modules[module] = frame = Frame(None)
        return frame

    def made_by(self, value: Any) -> Optional[int]:
        """The event of the call that constructed an object."""
        known = self._made.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        return None

    def latest_of(self, value: Any) -> Optional[int]:
        """The last event whose value had the same elements in the same order; None without one."""
        return next(iter(self._alike(value)[::-1]), None)

    def origin_of(self, value: Any) -> Optional[int]:
        """The last event that computed these elements, else the first that has them.

        None without one.
        """
        alike = self._alike(value)
        return next((n for n in alike[::-1] if self.events[n].kind in _COMPUTED), next(iter(alike), None))

    def _alike(self, value: Any) -> List[int]:
        """The events whose value was an array or tensor with the same elements in the same order."""
        self._busy = True
        try:
            known = mark(value, self._convert, self.numbers)
        finally:
            self._busy = False
        if known[0] != "a":
            return []
        return [n for n, event in enumerate(self.events) if event.mark[:3] == known[:3]]

    # -- calls from outside ------------------------------------------------------------------------------------------------------

    def run(self, function: Any, arguments: "Dict[str, Any]", *, by_name: bool = False) -> "Tuple[Any, Dict[str, int]]":
        """Call a function of a rewritten module with values that are given.

        Args:
            function: or any callable that leads to one.
            arguments: name -> value; handed over in their order.
            by_name: hand them over by keyword.

        Returns:
            What it returns, and path within that -> the event that made the leaf.

        Raises:
            Exception: whatever the function raises.
        """
        site = len(self.sites)
        self.sites.append(Site(0, "call", str(attribute(function, "__name__", ""))))
        self.files.append("")
        frame = Frame(None)
        self.begin(frame, site, function)
        if self._calls:
            self._calls[-1].arguments += [(name if by_name else "", value, self.given(name, value)) for name, value in arguments.items()]
        result = function(**arguments) if by_name else function(*arguments.values())
        self.end(frame, site, result)
        return result, dict(self._leaves(result, frame.last.get(site), ""))

    def _leaves(self, value: Any, number: Optional[int], path: str) -> Iterator[Tuple[str, int]]:
        entries = self._entries.get(id(value), {})
        parts = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, (list, tuple)) else []
        for key, item in parts:
            known = entries.get(key)
            inner = known[1] if known is not None and known[1] is not None else number
            yield from self._leaves(item, inner, f"{path}.{key}" if path else str(key))
        if not parts and number is not None:
            yield path, self._latest(number)
