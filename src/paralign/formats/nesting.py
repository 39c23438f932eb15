"""From what a training script saved to the tensors of its model.

Wrappers are taken off, optimizer states left aside, all is named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import NAME
from paralign.errors import CaptureFormatError, UsageError, quoted
from paralign.formats.checkpoint import Stored, some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: keys under which training scripts keep the model's tensors, the likeliest first
WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "params", "weights")

#: what older and foreign optimizers of PyTorch keep as plain numbers, and newer ones as tensors
COUNTS = ("step", "mu_product")

_BESIDES = re.compile(r"optim|lr_sched|scheduler|^sched|scaler|rng|random|StructuredToParameterName@@", re.IGNORECASE)


class Found:
    """Tensors by dotted name, the keys that were unwrapped, and what was left aside."""

    def __init__(self) -> None:
        self.tensors: dict[str, Stored] = {}
        self.nesting: list[str] = []
        self.ignored: list[str] = []
        self.counts: dict[str, float] = {}


def unwrap(tree: Any, where: str, alone: str, within: str | None = None) -> Found:
    """The tensors of the model in a tree whose tensors are :class:`Stored`.

    The tree is one of dicts, lists and tuples.

    Args:
        tree: what a file holds.
        where: how errors call the file.
        alone: the name of a tensor that is the whole tree.
        within: dotted keys that lead to the tensors; None: they are looked for.

    Raises:
        UsageError: there is nothing under ``within``.
        CaptureFormatError: there are no tensors, or two of one name.
    """
    found, known = Found(), dict[int, bool]()
    for key in within.split(".") if within else []:
        tree = _descend(tree, key, found, where)
    while within is None and (inner := _wrapper(tree, known)) is not None:
        tree = _descend(tree, inner, found, where)
    if isinstance(tree, Stored):
        found.tensors[found.nesting[-1] if found.nesting else alone] = tree
        return found
    _flatten(tree, found, where)
    found.counts.update(_counts(tree))
    if not found.tensors and (tree or not isinstance(tree, (dict, list, tuple))):
        raise CaptureFormatError(
            f"the file holds no tensors, only {some(_keys(tree))}", where=where, hint="give the file that holds the model's state dict"
        )
    return found


def planted(tree: Any, leaf: Callable[[Any], Stored | None]) -> Any:
    """A tree in which values for which ``leaf`` gives a tensor are that tensor.

    Containers are asked for before what is in them.
    """
    stored = leaf(tree)
    if stored is not None:
        return stored
    if isinstance(tree, dict):
        return {key: planted(value, leaf) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [planted(value, leaf) for value in tree]
    return tree


def _keys(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [str(key) for key in tree]
    return [f"a value of type {type(tree).__name__}"]


def _descend(tree: Any, key: Any, found: Found, where: str) -> Any:
    """What is under a key; what is beside it is named."""
    keys = {str(name): name for name in tree} if isinstance(tree, dict) else {}
    if str(key) not in keys:
        raise UsageError(
            f"the file has no {quoted('.'.join([*found.nesting, str(key)]))}", where=where, hint=f"there is {some(_keys(tree))}"
        )
    found.ignored += [".".join([*found.nesting, name]) for name in keys if name != str(key)]
    found.counts.update(_counts(tree))
    found.nesting.append(str(key))
    NAME.check(sum(map(len, found.nesting)), f"the keys that lead to the tensors, {quoted(found.nesting[0][:32])}…, have", where)
    return tree[keys[str(key)]]


def _wrapper(tree: Any, known: dict[int, bool]) -> Any:
    """The key under which the model's tensors lie.

    None where they are not wrapped, or in several places.
    """
    if not isinstance(tree, dict) or any(isinstance(value, Stored) for value in tree.values()):
        return None
    inside = [key for key, value in tree.items() if not _BESIDES.search(str(key)) and _holds(value, known)]
    usual = [key for key in WRAPPERS if key in inside]
    if usual:
        return usual[0]
    if len(inside) == 1 and isinstance(tree[inside[0]], dict):
        return inside[0]
    return None


def _holds(tree: Any, known: dict[int, bool]) -> bool:
    """Whether there is a tensor below.

    Each container is looked through once, however often it is asked for.
    """
    if isinstance(tree, Stored):
        return True
    if not isinstance(tree, (dict, list, tuple)):
        return False
    if id(tree) not in known:
        known[id(tree)] = any(_holds(value, known) for value in (tree.values() if isinstance(tree, dict) else tree))
    return known[id(tree)]


def _walk(tree: Any, name: str) -> Iterator[tuple[str, Stored]]:
    """Every tensor below, by dotted name."""
    if len(name) > NAME.default:  # asked of every value: the environment is not
        NAME.check(len(name), f"the tensors below {quoted(name[:32])}… have names of at least", "")
    if isinstance(tree, Stored):
        yield name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _walk(value, f"{name}.{key}" if name else str(key))
    elif isinstance(tree, (list, tuple)):
        for number, value in enumerate(tree):
            yield from _walk(value, f"{name}.{number}" if name else str(number))


def _counts(tree: Any) -> dict[str, float]:
    """Plain numbers that PyTorch's optimizers keep of a parameter or group, by dotted name."""
    found = {}
    for top in ("state", "param_groups"):
        kept = tree.get(top) if isinstance(tree, dict) else None
        items = kept.items() if isinstance(kept, dict) else enumerate(kept) if isinstance(kept, (list, tuple)) else ()
        for number, values in items:
            for slot in COUNTS:
                value = values.get(slot) if isinstance(values, dict) else None
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    found[f"{top}.{number}.{slot}"] = float(value)
    return found


def _flatten(tree: Any, found: Found, where: str) -> None:
    """Put every tensor below into ``found``.

    States of optimizers only where there is nothing else.
    """
    items = tree if isinstance(tree, dict) else dict(enumerate(tree)) if isinstance(tree, (list, tuple)) else {}
    inside = {key: list(_walk(value, str(key))) for key, value in items.items()}
    model = [key for key in items if inside[key] and (isinstance(items[key], Stored) or not _BESIDES.search(str(key)))]
    for key, tensors in inside.items():
        if not tensors or (model and key not in model):
            found.ignored.append(".".join([*found.nesting, str(key)]))
            continue
        for full, stored in tensors:
            if full in found.tensors:
                raise CaptureFormatError(f"two tensors are called {quoted(full)}", where=where, hint="rename one where the file is written")
            found.tensors[full] = stored
