"""What a callable of PyTorch and its arguments are called in Paddle.

Names are looked up, rules tried, the installed Paddle asked.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from paralign.catalogue.entries import Words
from paralign.catalogue.parameters import TABLES, stored

if TYPE_CHECKING:
    from paralign.catalogue.parameters import Signature, Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: where the classes and functions of a package are defined, below the module that offers them
_DEFINED = re.compile(
    r"^(torch\.nn)\.modules(?:\.\w+)?\.|^(torch\.optim)\.\w+\.(?=[A-Z])|^(torchvision\.transforms)\.(?:transforms|_transforms_\w+)\."
    r"|^(torch\.autograd)\.function\.(?=[A-Z])|^(torch)\.(?:functional|torch|autograd\.grad_mode)\."
    r"|^(torch\.distributions)\.\w+\.(?=\w)|^(torch\.utils\.data)\.(?:dataset|dataloader|sampler|_utils\.collate)\."
    r"|^(torch\.amp)\.autocast_mode\.|^(torch\.cuda\.amp)\.(?:autocast_mode|grad_scaler)\.|^(torch\.nn\.utils)\.clip_grad\."
)


@dataclass(frozen=True)
class Names:
    """The content of ``tables/names.toml``."""

    rules: tuple[tuple[re.Pattern[str], str], ...]
    renamed: dict[str, str]
    arguments: dict[str, list[str]]
    ignored: frozenset[str]
    missing: dict[str, Words] = field(default_factory=dict)
    otherwise: dict[str, str] = field(default_factory=dict)
    otherwise_written: tuple[tuple[re.Pattern[str], Words], ...] = ()


@cache
def names() -> Names:
    """Read the table of names, once."""
    content: dict[str, Any] = tomllib.loads((TABLES / "names.toml").read_text(encoding="utf-8"))
    return Names(
        tuple((re.compile(pattern), replacement) for pattern, replacement in content["rules"]),
        content["renamed"],
        content["arguments"],
        frozenset(content["ignored"]["names"]),
        {name: Words(each["en"], each["zh"]) for name, each in content["missing"].items()},
        content["otherwise"],
        tuple((re.compile(each["pattern"]), Words(each["en"], each["zh"])) for each in content["written"]),
    )


#: names that PyTorch had before, and still has
_FORMER = {"torch.optim.lr_scheduler._LRScheduler": "torch.optim.lr_scheduler.LRScheduler"}


@cache
def canonical(name: str) -> str:
    """The public name of a callable of PyTorch.

    ``torch.nn.modules.conv.Conv2d`` is ``torch.nn.Conv2d``.
    """
    name = _FORMER.get(name, name)
    table = stored(name.partition(".")[0])
    if name in table or not table.texts:
        return name
    found = _DEFINED.match(name)
    if found is not None:
        public = next(each for each in found.groups() if each) + "." + name.rpartition(".")[2]
        if public in table:
            return public
    return name


@cache
def torch_signature(name: str) -> Signature:
    """The signature of a callable of PyTorch.

    Of a method that tells none, the function's without its first parameter.
    """
    table = stored(name.partition(".")[0])
    found = table.signature(name)
    if found.known or not name.startswith("torch.Tensor."):
        return found
    function = function_of(name)
    return found if function is None else _without_first(table.signature(function))


def _without_first(signature: Signature) -> Signature:
    from dataclasses import replace

    return replace(signature, parameters=signature.parameters[1:])


def function_of(method: str) -> str | None:
    """The function of the same name as a method of tensors, where there is one."""
    head, _, last = method.rpartition(".")
    if head != "torch.Tensor":
        return None
    table = stored("torch")
    for name in (f"torch.{last}", f"torch.nn.functional.{last}"):
        if name in table:
            return name
    return None


@cache
def paddle_name(name: str, paddle: Table) -> str:
    """The name of a callable of PyTorch in this Paddle; empty where it has none."""
    known = names()
    if name in known.renamed:
        renamed = known.renamed[name]
        if renamed in paddle or renamed.rpartition(".")[0] not in paddle.homes:
            return renamed
        return ""
    for pattern, replacement in known.rules:
        found = pattern.match(name)
        if found is not None:
            candidate = found.expand(replacement)
            if candidate in paddle:
                return candidate
    other = known.otherwise.get(name, "")
    return other if other in paddle else ""


def paddle_argument(name: str, mapped: dict[str, str], ours: Signature) -> str | None:
    """What an argument is called in Paddle; None where the callable has no such parameter.

    Args:
        name: the parameter of PyTorch.
        mapped: names that the catalogue gives for this callable.
        ours: the signature of Paddle's callable.
    """
    if name in mapped:
        return mapped[name]
    offered = ours.names
    if name in offered or name in ours.accepts:
        return name
    for each in names().arguments.get(name, []):
        if each in offered:
            return each
    return None
