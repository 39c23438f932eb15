"""Everything that can be reached from some starts, for graphs of any kind."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Node = TypeVar("Node")


def reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]], *, nearest_first: bool = False) -> Iterator[Node]:
    """The starts and all that follows from them, each once; lazily, so that a caller may stop.

    >>> list(reached([1], lambda n: [n * 2, n + 3] if n < 5 else []))
    [1, 4, 7, 8, 2, 5]
    >>> list(reached([1], lambda n: [n * 2, n + 3] if n < 5 else [], nearest_first=True))
    [1, 2, 4, 5, 8, 7]

    Args:
        starts: where to begin; the last of them comes first, as of what follows.
        following: what can be reached from a node in one step.
        nearest_first: in order of distance instead, and as the starts stand.
    """
    waiting = deque(starts)
    seen: set[Node] = set()
    while waiting:
        node = waiting.popleft() if nearest_first else waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(following(node))
