"""Imports of PyTorch as imports of Paddle: modules keep the names that the user gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.port.plans.conversions import conversions

if TYPE_CHECKING:
    import ast

_ROOTS = ("torch", "torchvision", "torchaudio")

#: modules of other packages that exist for each framework, with the same names within
_ALIKE = {"einops.layers.torch": "einops.layers.paddle"}


def import_rewritten(node: ast.Import) -> str:
    """Write ``import torch.nn as nn, os`` as ``import paddle.nn as nn, os``.

    What has no counterpart goes.
    """
    parts: list[str] = []
    for alias in node.names:
        if alias.name.partition(".")[0] not in _ROOTS:
            parts.append(_ALIKE.get(alias.name, alias.name) + (f" as {alias.asname}" if alias.asname else ""))
            continue
        ours = conversions().modules.get(alias.name)
        parts.append(f"{ours} as {alias.asname}" if ours and alias.asname else "paddle")
    return "import " + ", ".join(dict.fromkeys(parts))


def from_rewritten(node: ast.ImportFrom) -> str:
    """Write ``from torch import nn`` as ``from paddle import nn``.

    Names of callables go: their uses are spelled out.
    """
    parts: list[str] = []
    for alias in node.names:
        ours = conversions().modules.get(f"{node.module}.{alias.name}", "")
        home, _, last = ours.rpartition(".")
        if not home:
            parts.append("import paddle")
            continue
        name = alias.asname or alias.name
        parts.append(f"from {home} import {last}" + (f" as {name}" if name != last else ""))
    return "; ".join(dict.fromkeys(parts))


def alike(node: ast.ImportFrom) -> tuple[str, str]:
    """The module of an import and the one that stands for it in Paddle; else empty texts."""
    module = "" if node.level else node.module or ""
    return (module, _ALIKE[module]) if module in _ALIKE else ("", "")
