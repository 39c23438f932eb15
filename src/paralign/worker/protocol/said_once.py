"""What a capture's manifest says once of a whole pass, or of a model.

It stands besides the task's answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from paralign.worker.protocol.wire import MalformedMessage, decode

if TYPE_CHECKING:
    from paralign.capture import Capture


@dataclass
class RandomOperation:
    """One operation of a pass that drew something.

    Args:
        number: of the operation; ``op`` its name; ``module`` the path in which it ran; ``source`` the user's innermost line.
        family: what kind of numbers it draws; ``p`` the share that a mask drops, None where that is not known.
        shape: of what it draws.
        name: of the record of its draw.
        given: the record that took the place of its own draw, or None.
    """

    number: int
    op: str
    module: str
    source: Optional[str]
    family: str
    p: Optional[float]
    shape: List[int]
    name: str
    given: Optional[str] = None


@dataclass
class WatchedPass:
    """One pass whose operations were watched; values are told by the numbers of their records.

    Args:
        outputs: path -> the model's output; ``loss`` likewise.
        built: module -> the lines that constructed it; ``kinds`` -> the framework's layer that it is.
        rewritten: modules of such kinds whose pass forward is the user's own code.
        random: the operations that drew something, in order.
        frozen: frozen parameters -> the lines that froze them, as far as they are known.
        without_gradient: parameters that got none.
        hooked: values whose gradients were asked for.
    """

    outputs: Dict[str, int] = field(default_factory=dict)
    loss: Dict[str, int] = field(default_factory=dict)
    built: Dict[str, List[str]] = field(default_factory=dict)
    kinds: Dict[str, str] = field(default_factory=dict)
    rewritten: List[str] = field(default_factory=list)
    random: List[RandomOperation] = field(default_factory=list)
    frozen: Dict[str, List[str]] = field(default_factory=dict)
    without_gradient: List[str] = field(default_factory=list)
    hooked: List[int] = field(default_factory=list)


def has_operations(capture: Capture) -> bool:
    """Whether operations were watched in any pass of a capture."""
    return "operations" in capture.manifest.settings


def watched_pass(capture: Capture, run: str) -> WatchedPass:
    """What a capture of operations says of one of its passes.

    Raises:
        MalformedMessage: no such pass was watched, or what is said of it is malformed.
    """
    told: Any = capture.manifest.settings.get("operations")
    if not isinstance(told, dict) or run not in told:
        raise MalformedMessage(f"operations of the run {run!r} were not recorded", where=str(capture.path), hint="record this run again")
    return decode(WatchedPass, told[run], f"operations of the run {run} in {capture.path}")


@dataclass
class TensorHistory:
    """Where the values of an untrained tensor come from.

    Args:
        origin: ``constructed``; ``loaded`` where a checkpoint has changed it; ``changed`` where something else has, since it was
            registered; ``given`` where it is not known, because the model was not built here.
        lines: those that registered it.
        ran: a call of the model has changed it.
    """

    origin: str = "given"
    lines: List[str] = field(default_factory=list)
    ran: bool = False


def built_of(capture: Capture) -> Dict[str, List[str]]:
    """Module -> the lines that constructed it, of a recorded state.

    Nothing where that is not known.
    """
    return dict(capture.manifest.settings.get("built", {}))


def history_of(capture: Capture) -> Dict[str, TensorHistory]:
    """Untrained tensor -> where its values come from, of a recorded state.

    Nothing where that is not known.

    Raises:
        MalformedMessage: what is said of a tensor is malformed.
    """
    told = capture.manifest.settings.get("history", {})
    return {name: decode(TensorHistory, each, f"history of {name} in {capture.path}") for name, each in told.items()}
