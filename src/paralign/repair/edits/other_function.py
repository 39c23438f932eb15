"""Another function of the same arguments: the reference's, or one that is taken for it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import full_name, last_name, ported, word
from paralign.repair.edited_source import root_of
from paralign.repair.edits.sentences import instead, tried
from paralign.repair.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Site

ID = "function"

#: beside other proposals: one that the reference's statement calls and the candidate's does not; one that is taken for it
THEIRS, LIKE = 1.1, 0.3

#: functions that give the same numbers in another type or place: no formula is wrong for them
_OF_TYPE = frozenset(
    {"float", "double", "half", "long", "int", "bool", "to", "type", "item", "cpu", "cuda", "numpy", "tolist", "contiguous"}
)

#: functions that are taken for one another
_ALIKE: tuple[tuple[str, ...], ...] = (
    ("mean", "sum", "max", "min", "prod", "median", "logsumexp", "std", "var"),
    ("argmax", "argmin"),
    ("maximum", "minimum"),
    ("exp", "expm1", "log", "log1p", "log2", "log10"),
    ("sqrt", "rsqrt", "square", "abs"),
    ("sigmoid", "hardsigmoid", "tanh", "relu", "gelu", "silu", "softplus", "softmax", "log_softmax", "leaky_relu", "elu"),
    ("sin", "cos"),
    ("floor", "ceil", "round"),
    ("Sigmoid", "Hardsigmoid", "Tanh", "ReLU", "GELU", "Silu", "SiLU", "Softplus", "LeakyReLU", "ELU"),
    ("ClipGradByNorm", "ClipGradByGlobalNorm", "ClipGradByValue"),
    ("L1Decay", "L2Decay"),
    ("Adam", "AdamW"),
    ("SGD", "Momentum"),
    ("l1_loss", "mse_loss", "smooth_l1_loss"),
    ("cumsum", "cumprod"),
    ("any", "all"),
    ("AvgPool2D", "MaxPool2D"),
    ("avg_pool2d", "max_pool2d"),
    ("BILINEAR", "BICUBIC", "NEAREST"),
)


def propose(site: Site) -> Iterator[Proposal]:
    """Each function of the statement as another."""
    called = {id(node.func) for node in site.nodes if isinstance(node, ast.Call)}
    of_objects = {id(node.func) for node in site.nodes if isinstance(node, ast.Call) and root_of(node) in site.objects}
    lacked = _lacked(site)
    for node in site.nodes:
        name = last_name(node)
        if not isinstance(node, ast.Attribute | ast.Name) or not name:
            continue
        alike = _alike(name)
        if id(node) in called:
            for other in lacked:
                there = other in site.identifiers if id(node) in of_objects else _is_there(site, node, other)
                if other[:1].isupper() == name[:1].isupper() and there:
                    yield _renamed(site, node, name, other, THEIRS)
            alike = [other for other in alike if other not in lacked]
        elif not name.isupper():
            continue
        for other in alike:
            yield _renamed(site, node, name, other, LIKE)


def _lacked(site: Site) -> list[str]:
    """What the reference's statement calls and the candidate's does not, in the port's names."""
    own = {word(last_name(node)) for node in site.nodes if isinstance(node, ast.Call)}
    called = [node for each in site.beside for node in each.nodes if isinstance(node, ast.Call)]
    names = dict.fromkeys(ported(last_name(node), site.framework) for node in called)
    return [name for name in names if name and name not in _OF_TYPE and word(name) not in own]


def _alike(name: str) -> list[str]:
    """Functions that are easily taken for one of a name."""
    return [other for group in _ALIKE if name in group for other in group if other != name]


def _is_there(site: Site, node: ast.Attribute | ast.Name, name: str) -> bool:
    """Whether what a function is called on has one of another name, as far as that is known."""
    owner = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
    if owner == "self":
        return f"self.{name}" in site.source.text
    known = full_name(site.framework, name)
    home = {site.framework: site.framework, "F": f"{site.framework}.nn.functional"}.get(owner)
    if known and home is not None:
        return known == f"{home}.{name}"
    return name in site.identifiers or bool(known)


def _renamed(site: Site, node: ast.AST, name: str, other: str, weight: float) -> Proposal:
    end = site.source.span(node)[1]
    cause, fix = (instead if weight == THEIRS else tried)(name, other)
    return Proposal(ID, site.source.edit(end - len(name), end, other), cause, fix, weight)
