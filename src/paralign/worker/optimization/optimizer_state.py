"""What an optimizer remembers of each parameter, read and written.

It stands under the names that PyTorch's optimizers use.

Read by the attributes that optimizers of PyTorch (``state``) and Paddle (``_accumulators``) have, so that no framework is imported here.
PyTorch counts ``step``; Paddle keeps powers of Adam's betas instead, of an exponent that is one ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from paralign.dtypes import narrow, typed, widen
from paralign.errors import UsageError
from paralign.worker.optimization.optimizers import groups_of
from paralign.worker.optimization.several import Several

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session

#: parameter -> slot -> its values; ``step`` has no axes
State = Dict[str, Dict[str, "np.ndarray[Any, Any]"]]


@dataclass(frozen=True)
class Family:
    """Optimizers that remember the same.

    ``slots`` maps PyTorch's names to Paddle's, ``powers`` Paddle's powers to what they are powers of.

    ``scaled`` are the slots that hold the learning rate in Paddle and not in PyTorch. ``counted``: PyTorch wants a number of steps, which
    Paddle does not tell where it keeps no powers; then nothing but Adagrad's ``lr_decay`` would depend on it. ``ahead``: by how much the
    exponents of the powers are ahead of the number of steps. ``numbers`` maps single numbers as ``slots`` does; ``follows`` are Paddle's
    accumulators that follow from the number of steps. ``filled``: Paddle keeps single numbers once for each element of the parameter.
    ``single``: Paddle's kernel is given betas in float32, also where all else is float64.
    """

    slots: Dict[str, str]
    powers: Dict[str, str] = field(default_factory=dict)
    scaled: Tuple[str, ...] = ()
    counted: bool = True
    ahead: int = 1
    numbers: Dict[str, str] = field(default_factory=dict)
    follows: Dict[str, "Callable[[float, Any], float]"] = field(default_factory=dict)
    filled: bool = False
    single: bool = False

    @property
    def accumulators(self) -> List[str]:
        """All that Paddle keeps of a parameter."""
        return [*self.slots.values(), *self.numbers.values(), *self.powers, *self.follows]


def _stored(base: float) -> float:
    """A beta in float32, as some of Paddle's kernels are given it.

    ``1 - β₂^t`` of few steps shows that.
    """
    return float(np.float32(base))


def _decay_of_momentum(steps: float, optimizer: Any) -> float:  # noqa: ARG001 - as the others of its kind
    """The power of 0.96 that Paddle's NAdam keeps.

    The base is written into its kernel, as it is into PyTorch's.
    """
    return float(0.96**steps)


def _rectified_length(steps: float, optimizer: Any) -> float:
    """What Paddle's RAdam keeps of its average's length: ``t β₂^t / (1 - β₂^t)``.

    It is 1 before the first step.
    """
    power = _stored(getattr(optimizer, "_beta2", 0.0)) ** steps
    return steps * power / (1.0 - power) if steps and power < 1.0 else 1.0


_ADAM = Family(
    {"exp_avg": "moment1", "exp_avg_sq": "moment2", "max_exp_avg_sq": "moment2_max"},
    {"beta1_pow_acc": "_beta1", "beta2_pow_acc": "_beta2"},
)
_MOMENTS = {"exp_avg": "moment1", "exp_avg_sq": "moment2"}

#: words in the names of classes, the more special first -> what they remember; None for those that remember otherwise in each framework
FAMILIES: Dict[str, Optional[Family]] = {
    "nadam": Family(
        _MOMENTS,
        {"beta2_pow": "_beta2"},
        ahead=0,
        numbers={"mu_product": "mu_product"},
        follows={"momentum_decay_pow": _decay_of_momentum},
        filled=True,
        single=True,
    ),
    "radam": Family(
        _MOMENTS, {"beta1_pow": "_beta1", "beta2_pow": "_beta2"}, ahead=0, follows={"rho": _rectified_length}, filled=True, single=True
    ),
    "rprop": Family({"prev": "prevs", "step_size": "learning_rates"}),
    "sparseadam": None,
    "asgd": None,  # PyTorch's averages parameters, Paddle's gradients
    "adadelta": Family({"square_avg": "_avg_squared_grad", "acc_delta": "_avg_squared_update"}),
    "adagrad": Family({"sum": "moment"}),
    "adamax": Family({"exp_avg": "moment", "exp_inf": "inf_norm"}, {"beta1_pow_acc": "_beta1"}),
    "rmsprop": Family({"square_avg": "mean_square", "momentum_buffer": "momentum", "grad_avg": "mean_grad"}, scaled=("momentum_buffer",)),
    "lamb": replace(_ADAM, single=True),  # PyTorch has none: those of libraries remember what Adam does
    "adam": _ADAM,
    "momentum": Family({"momentum_buffer": "velocity"}, counted=False),
    "sgd": Family({"momentum_buffer": "velocity"}, counted=False),
}


def family_of(optimizer: Any) -> Family:
    """What an optimizer remembers, by the name of its class or of one that it derives from.

    Raises:
        UsageError: its state is not known to be the same in another framework.
    """
    for cls in type(optimizer).__mro__:
        word = next((word for word in FAMILIES if word in cls.__name__.lower()), None)
        found = FAMILIES[word] if word is not None else None
        if found is not None:
            return found
        if word is not None:
            break
    known = "SGD, Momentum, Adam, AdamW, NAdam, RAdam, Adamax, Adagrad, Adadelta, RMSprop, Rprop, Lamb"
    raise UsageError(f"the state of {type(optimizer).__name__} cannot be mapped", hint=f"those that can: {known}")


def is_paddles(optimizer: Any) -> bool:
    """Whether an optimizer keeps what it remembers as Paddle's do."""
    return hasattr(optimizer, "_accumulators")


def read(session: "Session", optimizer: Any) -> State:
    """What an optimizer remembers of each parameter of the model.

    Parameters without a step yet are left out.
    """
    if isinstance(optimizer, Several):
        return {name: kept for member in optimizer.members for name, kept in read(session, member).items()}
    family = family_of(optimizer)
    found: State = {}
    for entry in session.entries():
        if entry.role == "parameter" and entry.shared is None:
            recall = _paddles if is_paddles(optimizer) else _torchs
            kept = recall(session, optimizer, entry.tensor, family)
            if kept:
                found[entry.name] = kept
    return found


def _torchs(session: "Session", optimizer: Any, parameter: Any, family: Family) -> "Dict[str, np.ndarray[Any, Any]]":
    known = session.adapter.is_tensor
    state = optimizer.state.get(parameter, {})
    kept = {
        slot: widen(session.adapter.to_array(value)).copy() if known(value) else np.asarray(value, np.float64)
        for slot, value in state.items()
        if value is not None
    }
    holding = [group for group in optimizer.param_groups if any(each is parameter for each in group["params"])]
    group: Dict[str, Any] = holding[0] if holding else {}
    if kept and family.counted and "step" not in kept and "step" in group:  # as timm's Lamb counts
        kept["step"] = np.asarray(float(group["step"]))
    return kept


def _paddles(session: "Session", optimizer: Any, parameter: Any, family: Family) -> "Dict[str, np.ndarray[Any, Any]]":
    held = {_plain(optimizer, name): per[parameter.name] for name, per in optimizer._accumulators.items() if parameter.name in per}  # noqa: SLF001 - no public name
    return from_paddle(optimizer, family, {name: widen(session.adapter.to_array(value)).copy() for name, value in held.items()})


def from_paddle(optimizer: Any, family: Family, arrays: "Dict[str, np.ndarray[Any, Any]]") -> "Dict[str, np.ndarray[Any, Any]]":
    """What Paddle's accumulators of one parameter, by their names, are in PyTorch."""
    found = {slot: arrays[name] for slot, name in family.slots.items() if name in arrays}
    found.update({slot: np.asarray(arrays[name].ravel()[0]) for slot, name in family.numbers.items() if name in arrays})
    rate = float(optimizer.get_lr())
    for slot in family.scaled:
        if slot in found and rate:
            found[slot] = found[slot] / rate
    kept = {name: base for name, base in family.powers.items() if name in arrays}
    if kept:
        powers = [float(arrays[name].ravel()[0]) for name in kept]
        found["step"] = np.asarray(float(steps_of(powers, _bases(optimizer, kept), family.ahead)))
    return found


def name_in_paddle(optimizer: Any, parameter: Any, accumulator: str) -> str:
    """The key of an accumulator in a ``.pdopt``.

    It is that of the first optimizer that a program has for the parameter.
    """
    own = f"{optimizer._name}_" if getattr(optimizer, "_name", None) else ""  # noqa: SLF001 - no public name
    return f"{parameter.name}_{own}{accumulator}_0"


def _plain(optimizer: Any, name: str) -> str:
    """The name of an accumulator without the optimizer's own."""
    prefix = f"{getattr(optimizer, '_name', None) or ''}_"
    if len(prefix) > 1 and name.startswith(prefix):
        return name[len(prefix) :]
    return name


def _bases(optimizer: Any, powers: Dict[str, str]) -> List[float]:
    return [float(getattr(optimizer, base, 0.0)) for base in powers.values()]


def steps_of(powers: List[float], bases: List[float], ahead: int = 1) -> int:
    """The number of steps behind powers of betas, whose exponents are ``ahead`` of it.

    The first power that has not vanished tells.

    Powers are kept in float32: those of 0.9 vanish after about 800 steps, those of 0.999 after about 87,000, when no correction is left.

    >>> steps_of([0.9**11, 0.999**11], [0.9, 0.999]), steps_of([0.0, 0.999**5001], [0.9, 0.999])
    (10, 5000)
    """
    for power, base in zip(powers, bases):
        if power > np.finfo(np.float32).tiny and 0.0 < base < 1.0:
            return max(0, round(math.log(power) / math.log(base)) - ahead)
    return 100_000


def write(session: "Session", optimizer: Any, state: State) -> Dict[str, Any]:
    """Have an optimizer that has taken no step remember what another one did.

    In Paddle accumulators must be numbered anew.

    Returns:
        What a program would save of it then.

    Raises:
        UsageError: as :func:`family_of`, or a parameter's values have another shape.
    """
    if isinstance(optimizer, Several):
        return {name: write(session, member, _share(session, member, state)) for name, member in optimizer.named.items()}
    family = family_of(optimizer)
    entries = {e.name: e.tensor for e in session.entries() if e.role == "parameter" and e.shared is None}
    for name, kept in state.items():
        problem = _misfit(kept, entries.get(name))
        if problem:
            raise UsageError(f"the state of {name!r} {problem}", where=session.side)
    if is_paddles(optimizer):
        return _write_paddles(session, optimizer, state, entries, family)
    for name, kept in state.items():
        optimizer.state[entries[name]] = _slots(session, family, kept, entries[name])
    if any("step" in group for group in optimizer.param_groups):  # as timm's Lamb counts
        seen = int(max((float(kept.get("step", 0.0)) for kept in state.values()), default=0.0))
        for group in optimizer.param_groups:
            group["step"] = seen
    return dict(optimizer.state_dict())


def _share(session: "Session", member: Any, state: State) -> State:
    """What is remembered of the parameters that one of several optimizers updates."""
    updated = {id(parameter) for group in groups_of(member) for parameter in group.get("params", ())}
    named = {entry.name for entry in session.entries() if id(entry.tensor) in updated}
    return {name: kept for name, kept in state.items() if name in named}


def _misfit(kept: "Dict[str, np.ndarray[Any, Any]]", parameter: Any) -> str:
    """Why what is remembered is of no such parameter; '' where it fits."""
    shape = () if parameter is None else tuple(parameter.shape)
    for value in kept.values():
        if value.ndim and value.shape != shape:
            return f"has shape {list(value.shape)}, its parameter {list(shape)}"
    return "is of no parameter" if parameter is None else ""


def _slots(session: "Session", family: Family, kept: "Dict[str, np.ndarray[Any, Any]]", parameter: Any) -> Dict[str, Any]:
    """What PyTorch's optimizer keeps of one parameter, as tensors of the side."""
    own = session.adapter.to_array(parameter).dtype
    slots = {}
    for name, value in kept.items():
        if value.ndim or name in family.slots:
            slots[name] = session.adapter.from_array(narrow(value, own))
        elif name not in family.numbers and name != "step":  # a count or a factor of an optimizer of the user's own
            number = float(value)
            slots[name] = int(number) if number.is_integer() else number
    for name in family.numbers:
        slots[name] = session.adapter.from_array(typed(np.asarray(kept.get(name, 1.0), np.float32)))
    if family.counted:
        slots["step"] = session.adapter.from_array(typed(np.asarray(kept.get("step", 0.0), np.float32)))
    return slots


def _write_paddles(session: "Session", optimizer: Any, state: State, entries: Dict[str, Any], family: Family) -> Dict[str, Any]:
    """Write by ``set_state_dict``, as a ``.pdopt`` is loaded.

    Every accumulator must be there; those that the other has not are zeros.
    """
    loaded: Dict[str, Any] = {}
    rate = float(optimizer.get_lr())
    for name, kept in state.items():
        parameter = entries[name]
        dtype = session.adapter.to_array(parameter).dtype
        for slot, accumulator in family.slots.items():
            if slot == "max_exp_avg_sq" and not getattr(optimizer, "_amsgrad", False):
                continue
            value = np.asarray(kept.get(slot, np.zeros(tuple(parameter.shape))), np.float64) * (rate if slot in family.scaled else 1.0)
            loaded[name_in_paddle(optimizer, parameter, accumulator)] = session.adapter.from_array(narrow(value, dtype))
        shape = tuple(parameter.shape) if family.filled else (1,)
        for accumulator, number in _numbers(optimizer, family, kept).items():
            loaded[name_in_paddle(optimizer, parameter, accumulator)] = session.adapter.from_array(narrow(np.full(shape, number), dtype))
    schedule: Any = getattr(optimizer, "_learning_rate", None)
    if hasattr(schedule, "state_dict"):
        loaded["LR_Scheduler"] = schedule.state_dict()
    optimizer.set_state_dict(loaded)
    return loaded


def _numbers(optimizer: Any, family: Family, kept: "Dict[str, np.ndarray[Any, Any]]") -> Dict[str, float]:
    """Paddle's accumulators of a parameter that are one number.

    Given ones, powers, and what follows from the number of steps.
    """
    steps = float(kept.get("step", 0.0))
    found = {accumulator: float(kept.get(slot, 1.0)) for slot, accumulator in family.numbers.items()}
    for accumulator, base in zip(family.powers, _bases(optimizer, family.powers)):
        found[accumulator] = base**family.ahead * (_stored(base) if family.single else base) ** steps
    found.update({accumulator: follow(steps, optimizer) for accumulator, follow in family.follows.items()})
    return found
