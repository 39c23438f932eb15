"""Several optimizers or schedules of one program, stepped, saved and asked as one.

A program with two networks often gives a list, a tuple or a dict of them, as its own training step takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from paralign.errors import UsageError

if TYPE_CHECKING:
    from paralign.adapters.base import Training


class Several:
    """The members of what a program gave, in its order.

    ``state_dict`` and ``load_state_dict`` are there where every member has them.

    Args:
        given: a list, a tuple or a dict of optimizers or of schedules.
        act: takes a step of one member.
        clear: clears the gradients of one member; None for schedules.
    """

    def __init__(self, given: Any, act: Callable[[Any], Any], clear: Optional[Callable[[Any], Any]] = None) -> None:
        self.given = given
        named = given.items() if isinstance(given, dict) else enumerate(given)
        self.named: Dict[str, Any] = {str(name): member for name, member in named}
        self._act, self._clear = act, clear
        if all(callable(getattr(member, "state_dict", None)) for member in self.members):
            self.state_dict = self._saved
        if all(loader_of(member) is not None for member in self.members):
            self.load_state_dict = self._load

    @property
    def members(self) -> List[Any]:
        """One after the other."""
        return list(self.named.values())

    def step(self) -> None:
        """Have every member take a step."""
        for member in self.members:
            self._act(member)

    def zero_grad(self) -> None:
        """Clear the gradients of every member."""
        for member in self.members:
            if self._clear is not None:
                self._clear(member)

    clear_grad = zero_grad

    def _saved(self) -> Dict[str, Any]:
        return {name: member.state_dict() for name, member in self.named.items()}

    def _load(self, state: Dict[str, Any]) -> None:
        for name, member in self.named.items():
            load = loader_of(member)
            if load is not None:
                load(state[name])


def loader_of(part: Any) -> "Optional[Callable[[Any], Any]]":
    """``set_state_dict`` as in Paddle, or ``load_state_dict``."""
    for name in ("set_state_dict", "load_state_dict"):  # Paddle has the second as an alias, which a subclass does not change
        load = getattr(part, name, None)
        if callable(load):
            return load  # type: ignore[no-any-return]
    return None


def members_of(made: Any) -> List[Any]:
    """The members of :class:`Several`; anything else is its own."""
    return made.members if isinstance(made, Several) else [made]


def as_given(made: Any) -> Any:
    """What the program itself gave, for its own functions."""
    return made.given if isinstance(made, Several) else made


def as_one(adapter: "Training", optimizer: Any, scheduler: Any) -> Tuple[Any, Any]:
    """An optimizer and its schedule, each one object.

    Of several optimizers that carry their schedules themselves, as Paddle's do, these are the schedule.
    """
    joined = _joined(optimizer, adapter.step, lambda member: adapter.clear_gradients(None, member))
    if isinstance(joined, Several) and scheduler is None:
        inside = [getattr(member, "_learning_rate", None) for member in joined.members]
        scheduler = list({id(each): each for each in inside if _steps(each)}.values()) or None  # one schedule may serve several
    return joined, _joined(scheduler, lambda member: adapter.step_scheduler(None, member))


def schedules_of(optimizer: Several, scheduler: Any) -> List[Any]:
    """The schedule of each of several optimizers; None where nobody knows which it is."""
    schedules = members_of(scheduler)
    return schedules if len(schedules) == len(optimizer.members) else [None] * len(optimizer.members)


def rates_of(adapter: "Training", optimizer: Any) -> List[float]:
    """The learning rates of an optimizer's groups; of several, one member's after the other's."""
    return [float(rate) for member in members_of(optimizer) for rate in adapter.learning_rates(member)]


def _joined(made: Any, act: Callable[[Any], Any], clear: Optional[Callable[[Any], Any]] = None) -> Any:
    """:class:`Several`, of a container whose members can all take steps.

    Anything else stays as it is.
    """
    if not isinstance(made, (list, tuple, dict)) or not made:
        return made
    parts = made.values() if isinstance(made, dict) else made
    fits = _steps if clear is None else _is_optimizer
    if all(fits(part) for part in parts):
        return Several(made, act, clear)
    return made


def required(optimizer: Any, side: str) -> Any:
    """An optimizer that can take steps by itself.

    Raises:
        UsageError: it cannot, or it is a container with something else among the optimizers.
    """
    if _steps(optimizer):
        return optimizer
    parts = optimizer.values() if isinstance(optimizer, dict) else optimizer if isinstance(optimizer, (list, tuple)) else ()
    others = [type(part).__name__ for part in parts if not _is_optimizer(part)]
    given = type(optimizer).__name__
    told = f"build_optimizer gives a {given} without step()"
    if others:
        told = f"build_optimizer gives a {given} with a {others[0]} in it, which is no optimizer"
    raise UsageError(told, where=side, hint="return an optimizer, or a list, tuple or dict of nothing but optimizers")


def _is_optimizer(part: Any) -> bool:
    """Whether a part takes steps and clears gradients, which schedules and scalers do not."""
    if not _steps(part):
        return False
    return callable(getattr(part, "zero_grad", None)) or callable(getattr(part, "clear_grad", None))


def _steps(part: Any) -> bool:
    return callable(getattr(part, "step", None))
