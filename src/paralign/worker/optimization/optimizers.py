"""What an optimizer says of itself, and the line of the user's code that built it.

Read by the names that the frameworks share, so that no framework is imported here and an optimizer of the user's own is read as
far as it tells.
"""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from paralign.adapters.finding import frameworks
from paralign.dtypes import unboxed
from paralign.worker.optimization.several import Several
from paralign.worker.process.files import real_place, system_folders

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from paralign.worker.sides.session import Session

#: objects whose construction is remembered, at most
MOST = 10_000


def steps(made: Any) -> bool:
    """Whether an object can take a step, as optimizers and schedules do."""
    return callable(getattr(type(made), "step", None))


class Built:
    """The objects that were made while it watched, each with the line that made it."""

    def __init__(self, wanted: Callable[[Any], bool]) -> None:
        self._wanted = wanted
        self._made: Dict[int, Tuple[Any, Optional[str], Dict[str, Any]]] = {}
        self._system = system_folders()
        self._known: Dict[str, bool] = {}

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function: notes the first constructor of every object that is wanted."""
        code = frame.f_code
        if event != "call" or code.co_name != "__init__" or not code.co_varnames:
            return
        made = frame.f_locals.get(code.co_varnames[0])
        if made is not None and id(made) not in self._made and len(self._made) < MOST and self._wanted(made):
            given = {name: value for name, value in frame.f_locals.items() if value is not made}
            self._made[id(made)] = made, self._users(frame.f_back, made), _plain({**given.pop(_spare(code), {}), **given})

    def source(self, made: Any) -> Optional[str]:
        """``file:line`` of the user's code that made an object, or the one it is a copy of.

        None where it was not seen.
        """
        known = self._made.get(id(made))
        if known is not None and known[0] is made:
            return known[1]
        alike = [line for each, line, _ in self._made.values() if type(each) is type(made)]
        return alike[0] if len(alike) == 1 else None

    def arguments(self, made: Any) -> Dict[str, Any]:
        """The plain arguments that an object was made with, defaults included.

        None where it was not seen.
        """
        known = self._made.get(id(made))
        if known is not None and known[0] is made:
            return known[2]
        return {}

    def _users(self, frame: "Optional[FrameType]", made: Any) -> Optional[str]:
        """The innermost line of the user's that led here.

        Constructors of the object itself are left out.
        """
        while frame is not None:
            path = frame.f_code.co_filename
            own = frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is made
            if not own and self._is_users(path):
                return f"{path}:{frame.f_lineno}"
            frame = frame.f_back
        return None

    def _is_users(self, path: str) -> bool:
        if path not in self._known:
            real = real_place(path)
            self._known[path] = not path.startswith("<") and not any(real.startswith(folder + os.sep) for folder in self._system)
        return self._known[path]


def _spare(code: "CodeType") -> str:
    """The name under which a function takes further keywords; '' where it takes none."""
    place = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[place] if code.co_flags & inspect.CO_VARKEYWORDS else ""


@contextmanager
def construction(wanted: Callable[[Any], bool]) -> Iterator[Built]:
    """Watch the wanted objects that are built in this thread.

    An earlier profile function is put back on leaving.
    """
    built, before = Built(wanted), sys.getprofile()
    sys.setprofile(built.watch)
    try:
        yield built
    finally:
        sys.setprofile(before)


def describe(session: Session, optimizer: Any) -> Dict[str, Any]:
    """What an optimizer tells of its rule, as JSON.

    ``class`` and ``module`` name it, ``kind`` and ``framework`` what it derives from, ``own`` says that its ``step`` is no
    framework's; ``groups`` are its parameter groups' settings, ``parameters`` maps the name of each of the model's parameters
    that it updates to its group and its own settings; ``clip`` is the clipping that it carries.
    """
    if isinstance(optimizer, Several):
        return _described_together([describe(session, member) for member in optimizer.members])
    inners = _inners(optimizer)
    inner = inners[0] if len(inners) == 1 else optimizer  # of several, none speaks for the others
    groups = [group for each in inners for group in groups_of(each)]
    base = next((c for c in type(inner).__mro__ if c.__module__.split(".")[0] in frameworks()), object)
    members = {id(p): number for number, group in enumerate(groups) for p in _listed(group.get("params"))}
    exempt = getattr(inner, "_apply_decay_param_fun", None)
    put = _put_during_updates(inners)
    own: Dict[str, Any] = {}
    for entry in session.entries():
        if entry.role == "parameter" and entry.shared is None and id(entry.tensor) in members:
            own[entry.name] = {**_parameter(entry.tensor, members[id(entry.tensor)], exempt), **put.get(id(entry.tensor), {})}
    return {
        "class": type(inner).__name__,
        "module": type(inner).__module__,
        "own": is_own(optimizer),
        "kind": "" if base is object else base.__name__,
        "framework": "" if base is object else base.__module__.split(".")[0],
        "settings": {
            **_plain(getattr(inner, "__dict__", None)),
            **_plain(getattr(inner, "_default_dict", None)),
            **_plain(getattr(inner, "defaults", None)),
        },
        "groups": [{**_plain(group), **_clip(group.get("grad_clip"))} for group in groups],
        "clip": _clip(getattr(inner, "_grad_clip", None)),
        "regularization": _regularizer(getattr(inner, "regularization", None)),
        "parameters": own,
    }


def _described_together(members: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Several optimizers as one: their groups, each with the settings of its optimizer.

    Only where all are of one class does this speak for them.
    """
    alike = len({(each["module"], each["class"]) for each in members}) == 1
    first = members[0] if alike else {"class": f"{len(members)} optimizers", "module": "", "kind": "", "framework": ""}
    groups: List[Dict[str, Any]] = []
    parameters: Dict[str, Any] = {}
    for each in members:
        for name, own in each["parameters"].items():
            parameters[name] = {**each["regularization"], **own, "group": own["group"] + len(groups)}
        shared = {name: value for name, value in each["settings"].items() if name != "learning_rate"}
        groups += [{**shared, **each["clip"], **group} for group in each["groups"]]
    return {
        **{name: first[name] for name in ("class", "module", "kind", "framework")},
        "own": any(each["own"] for each in members),
        "settings": {},
        "groups": groups,
        "clip": {},
        "regularization": {},
        "parameters": parameters,
    }


def is_own(optimizer: Any) -> bool:
    """Whether an optimizer's ``step`` is the user's own, no framework's.

    Of several one is enough.
    """
    if isinstance(optimizer, Several):
        return any(is_own(member) for member in optimizer.members)
    return _home(type(optimizer)).split(".")[0] not in frameworks()


def is_stock(schedule: Any) -> bool:
    """Whether a schedule, and every one that it holds, are of a framework's own classes.

    One that asks a function of the user's is not: that may remember something.
    """
    held = list(schedule.members) if isinstance(schedule, Several) else [schedule]
    for part in held:  # which grows
        if type(part).__module__.split(".")[0] not in frameworks():
            return False
        values = list(getattr(part, "__dict__", {}).values())
        parts = [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]
        if any(callable(each) and _of_user(each) for each in parts):
            return False
        inner = [each for each in parts if _is_schedule(each)]
        held += [each for each in inner if not any(each is known for known in held)]
    return True


def _of_user(function: Any) -> bool:
    """Whether a function, or the class of an object that is called, is no framework's."""
    home = getattr(function, "__module__", None) or type(function).__module__
    return str(home).split(".")[0] not in frameworks()


def _is_schedule(part: Any) -> bool:
    """Whether it is a schedule, and not the optimizer whose rate one sets."""
    return steps(part) and callable(getattr(part, "state_dict", None)) and not hasattr(part, "param_groups")


def apart(optimizer: Any) -> None:
    """Have an optimizer of PyTorch's step parameter by parameter.

    Its operations are then those of single parameters.
    """
    for group in [group for each in _inners(optimizer) for group in groups_of(each)]:
        group.update({name: False for name in ("foreach", "fused") if group.get(name) is not False and name in group})


def _home(cls: type) -> str:
    """The module of the class whose ``step`` is called.

    Wrappers that functions put around it are looked through.
    """
    return next((c.__module__ for c in cls.__mro__ if "step" in vars(c) or "_append_optimize_op" in vars(c)), cls.__module__)


def _inners(optimizer: Any) -> List[Any]:
    """The optimizers inside a wrapper, also those in a list or a dict of it.

    Else the optimizer itself.
    """
    if isinstance(optimizer, Several):
        return [inner for member in optimizer.members for inner in _inners(member)]
    if _hasgroups_of(optimizer):
        return [optimizer]
    found: Dict[int, Any] = {}
    for value in getattr(optimizer, "__dict__", {}).values():
        parts = list(value.values()) if isinstance(value, dict) else _listed(value) or [value]
        found.update({id(part): part for part in parts if _hasgroups_of(part)})
    return list(found.values()) or [optimizer]


def _hasgroups_of(value: Any) -> bool:
    return isinstance(getattr(value, "param_groups", None), list) or isinstance(getattr(value, "_param_groups", None), list)


def groups_of(optimizer: Any) -> List[Dict[str, Any]]:
    """An optimizer's parameter groups; one where it has none."""
    groups = getattr(optimizer, "param_groups", None)
    groups = groups if isinstance(groups, list) else getattr(optimizer, "_param_groups", None)
    if not isinstance(groups, list):
        return [{"params": _listed(getattr(optimizer, "params", None) or getattr(optimizer, "parameters", None))}]
    if groups and not isinstance(groups[0], dict):
        return [{"params": groups}]
    return groups


def _listed(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _parameter(tensor: Any, group: int, exempt: Any) -> Dict[str, Any]:
    """The group of a parameter and the settings that it carries itself."""
    found: Dict[str, Any] = {"group": group}
    attributes = getattr(tensor, "optimize_attr", None)
    if isinstance(attributes, dict):
        found["rate"] = float(attributes.get("learning_rate", 1.0))
    found.update(_regularizer(getattr(tensor, "regularizer", None)))
    if callable(exempt):
        found["decayed"] = bool(exempt(tensor.name))
    if getattr(tensor, "need_clip", True) is False:
        found["clipped"] = False
    return found


def _put_during_updates(optimizers: List[Any]) -> Dict[int, Dict[str, Any]]:
    """The rates and decays that are put on parameters during updates alone.

    A converted program's optimizers do so.
    """
    kept = [each for optimizer in optimizers for each in _listed(getattr(optimizer, "_of_parameters", None))]
    found = {}
    for parameter, group, regularizer in kept:
        found[id(parameter)] = {"rate": float(group.get("learning_rate", 1.0)), **_regularizer(regularizer)}
    return found


def _regularizer(value: Any) -> Dict[str, Any]:
    if isinstance(value, (int, float)):
        return {"decay": float(value)}
    coefficient = getattr(value, "_coeff", None)
    if coefficient is None:
        return {}
    return {"decay": float(coefficient), "l1": type(value).__name__.startswith("L1")}


def _clip(value: Any) -> Dict[str, Any]:
    """Kind and settings of a clipping object."""
    return {"clip": type(value).__name__, **_plain(vars(value))} if hasattr(value, "__dict__") else {}


def _plain(settings: Any) -> Dict[str, Any]:
    """The settings that are numbers, texts, or pairs of numbers.

    A leading underscore is dropped from their names.
    """
    found: Dict[str, Any] = {}
    for name, given in (settings if isinstance(settings, dict) else {}).items():
        value = unboxed(given)
        if value is None or isinstance(value, (bool, int, float, str)):
            found[str(name).lstrip("_")] = value
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float)) for v in value):
            found[str(name).lstrip("_")] = list(value)
        elif hasattr(value, "_coeff"):
            found[str(name).lstrip("_")] = float(value._coeff)  # noqa: SLF001 - a regularizer keeps it so
    return found
