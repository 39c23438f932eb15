"""Files of optimizers' states.

They are read by the side whose optimizer it is and written by the side that is to load them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

from paralign.adapters.base import Numbering
from paralign.dtypes import widen
from paralign.errors import UsageError
from paralign.worker.optimization.optimizer_state import State, family_of, from_paddle, is_paddles, name_in_paddle, write
from paralign.worker.optimization.optimizers import groups_of
from paralign.worker.optimization.schedule import advance_after, schedule_of
from paralign.worker.optimization.several import Several
from paralign.worker.protocol import StateRead, StateTold, StateWrite, StateWritten
from paralign.worker.steps.resuming import add_state, names_anew, state_of
from paralign.worker.steps.training import optimizer_of, trainer

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: a slot of the parameter of a number, in a state_dict of PyTorch's that was taken apart
_NUMBERED = re.compile(r"(?:.*\.)?(\d+)\.(\w+)")

#: the number of updates that a group counts for its parameters
_GROUPS = re.compile(r"(?:.*\.)?param_groups\.\d+\.step")


def state_read(session: "Session", writer: "CaptureWriter", options: StateRead, values: "Dict[str, Capture]") -> StateTold:  # noqa: ARG001 - every task has these
    """Tell which tensors of a file belong to this side's optimizer.

    The value ``file`` has them as records by their names there.

    Recorded: role ``state``, name and leaf are a parameter and a slot.

    Raises:
        UsageError: the file fits no parameter, or the optimizer's state cannot be mapped.
    """
    with names_anew(session):
        optimizer = _only(optimizer_of(session)[0], session.side)
        held = {r.name: widen(values["file"].value(r)) for r in values["file"].select(role="state")}
        found, used = (_paddles if is_paddles(optimizer) else _torchs)(session, optimizer, held)
    if not found:
        some = ", ".join(list(held)[:3])
        raise UsageError(
            f"the file holds nothing of the parameters of {type(optimizer).__name__}: it has {some or 'no tensors'}",
            where=session.side,
            hint="build model and optimizer as the program does that saved it; name the part of the file with --within",
        )
    add_state(writer, found)
    return StateTold([name for name in held if name not in used], type(optimizer).__name__)


def _only(optimizer: Any, side: str) -> Any:
    """The optimizer, which must be the only one: a file is one's.

    Raises:
        UsageError: the program has several.
    """
    if isinstance(optimizer, Several):
        raise UsageError(
            f"build_optimizer gives {len(optimizer.members)} optimizers, a file holds the state of one",
            where=side,
            hint="have build_optimizer give the one that the file is of, and convert one after the other",
        )
    return optimizer


def _torchs(session: "Session", optimizer: Any, held: "Dict[str, np.ndarray[Any, Any]]") -> Any:
    """PyTorch numbers parameters in the order of the groups."""
    family = family_of(optimizer)
    names = {id(e.tensor): e.name for e in session.entries() if e.role == "parameter" and e.shared is None}
    order = [names.get(id(p)) for group in groups_of(optimizer) for p in group["params"]]
    found: State = {}
    used: List[str] = []
    groups = {key: value for key, value in held.items() if _GROUPS.fullmatch(key)}
    for key, value in held.items():
        if key in groups:
            continue
        match = _NUMBERED.fullmatch(key)
        name = order[int(match[1])] if match and int(match[1]) < len(order) else None
        if match and name is not None:
            found.setdefault(name, {})[match[2]] = value
            used.append(key)
    if groups and family.counted:  # as timm's Lamb counts
        seen = max(groups.values(), key=float)
        for kept in found.values():
            kept.setdefault("step", np.asarray(float(seen)))
        used += groups
    return found, used


def _paddles(session: "Session", optimizer: Any, held: "Dict[str, np.ndarray[Any, Any]]") -> Any:
    """Paddle names what it keeps after its parameters."""
    family = family_of(optimizer)
    found: State = {}
    used: List[str] = []
    for entry in session.entries():
        if entry.role != "parameter" or entry.shared is not None:
            continue
        keys = {name: name_in_paddle(optimizer, entry.tensor, name) for name in family.accumulators}
        arrays = {name: held[key] for name, key in keys.items() if key in held}
        if arrays:
            found[entry.name] = from_paddle(optimizer, family, arrays)
            used += [keys[name] for name in arrays]
    return found, used


def state_write(session: "Session", writer: "CaptureWriter", options: StateWrite, values: "Dict[str, Capture]") -> StateWritten:  # noqa: ARG001 - every task has these
    """Write a state (``state``) as this side's programs save their optimizer's.

    The schedule is advanced by as many updates as the state has seen, where it tells.

    Raises:
        UsageError: the framework cannot save, or the state does not fit.
    """
    if not isinstance(session.adapter, Numbering):
        raise UsageError(f"framework {session.adapter.name!r} saves no optimizers", where=session.side)
    state = state_of(values["state"])
    seen = int(max((float(kept["step"]) for kept in state.values() if "step" in kept), default=0.0))
    with names_anew(session):
        optimizer, scheduler = optimizer_of(session)
        _only(optimizer, session.side)
        for number in range(seen):
            advance_after(trainer(session), optimizer, scheduler, options.pace, number + 1)
        kept = write(session, optimizer, state)
        session.adapter.store(kept, options.path)
    return StateWritten(type(optimizer).__name__, seen, schedule_of(optimizer, scheduler) is not None)
