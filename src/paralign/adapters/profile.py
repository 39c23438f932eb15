"""What paralign's own process has to know of a framework that it never imports.

One record for each, found by name.

An installed package gives its record by an entry point of the group ``paralign.profiles``: its name is the framework's, its value
``package.module:PROFILE``. That module must import no framework. A framework without one has the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Dict, FrozenSet, Optional, Tuple

#: the group of entry points that installed packages add records to
GROUP = "paralign.profiles"

_OWN = {name: f"paralign.adapters._profile_{name}:PROFILE" for name in ("torch", "paddle", "numpy")}


@dataclass(frozen=True)
class Equivalent:
    """What operations of PyTorch are in this framework.

    Args:
        operations: PyTorch's own names, without namespace and overload.
        said: what it is here, and what it is taken for.
    """

    operations: FrozenSet[str]
    said: str


@dataclass(frozen=True)
class Profile:
    """A framework, as far as it must be known without being imported.

    Args:
        name: of its top-level module.
        layouts: (neutral kind of a layer, neutral leaf) -> axes of PyTorch's layout in the order in which this framework has them.
        momentum_keeps_old: the momentum of a running statistic is the share of the old value, not of the new.
        unbiased_variance: running variances are divided by n - 1; None where it keeps none.
        launcher: its own launcher of several processes (:class:`paralign.run.distribution.Launcher`), '' for none.
        initialisers: the module with the functions of ``torch.nn.init`` for it, '' for none.
        initialises_all: what gives all layers PyTorch's default initialisation, in words, ''.
        distributions: build, ``cpu`` or ``gpu`` -> the package that pip knows it by.
        gpu_build: how it is installed for GPUs.
        deterministic: how its deterministic kernels are chosen.
        not_tuned: how its search for the fastest kernels is ended.
        equivalents: operations of PyTorch that it spells otherwise.
        switches: (what the name of a layer holds in lower case, the argument that leaves its weight or bias out): the first that fits;
            ``{leaf}`` stands for the leaf.
        program: functions by which a program that knows nothing of paralign runs a model, as source text for Python 3.8 that finds numpy
            as ``np``: ``start(seed, device)``, ``on_device(model, device)``, ``tensor(array, dtype)``, ``array_of(value)`` (None of what is
            no tensor), ``load(model, weights)`` (the names that it has no place for), ``evaluate(model)``, the context
            ``without_gradients()``; where it trains ``differentiable(model)`` (eval mode with a backward pass), ``train(model)`` without
            dropout, ``differentiate(loss)``, ``forget(model)`` and ``gradients(model)``. '' where nobody has written them.
    """

    name: str
    layouts: Dict[Tuple[str, str], Tuple[int, ...]] = field(default_factory=dict)
    momentum_keeps_old: bool = False
    unbiased_variance: Optional[bool] = None
    launcher: str = ""
    initialisers: str = ""
    initialises_all: str = ""
    distributions: Dict[str, str] = field(default_factory=dict)
    gpu_build: str = "install a build for GPUs"
    deterministic: str = "choose deterministic kernels"
    not_tuned: str = "switch the search off"
    equivalents: Tuple[Equivalent, ...] = ()
    switches: Tuple[Tuple[str, str], ...] = ()
    program: str = ""

    def equivalent(self, operation: str) -> Optional[str]:
        """What an operation of PyTorch (``aten.gather.default``) is here, where that is known."""
        name = operation.split(".")[1] if operation.startswith("aten.") else operation
        for each in self.equivalents:
            if name in each.operations:
                return each.said
        return None

    def switch(self, layer: str, leaf: str) -> Optional[str]:
        """The argument that leaves a weight or bias of a layer out, where it is known."""
        found = (argument for word, argument in self.switches if word in layer.lower())
        argument = next(found, None)
        return None if argument is None else argument.format(leaf=leaf)


@lru_cache(maxsize=None)
def profile_of(name: str) -> Profile:
    """What is known of a framework; the defaults of one that nobody tells of."""
    place = _OWN.get(name) or _installed().get(name)
    if place is None:
        return Profile(name)
    home, _, attribute = place.partition(":")
    found: Profile = getattr(import_module(home), attribute or "PROFILE")
    return found


@lru_cache(maxsize=1)
def _installed() -> Dict[str, str]:
    from importlib.metadata import entry_points

    every: Any = entry_points()
    found = every.select(group=GROUP) if hasattr(every, "select") else every.get(GROUP, [])  # a dict before Python 3.10
    return {each.name: each.value for each in found}
