"""What ``paddle.enable_compat`` makes of callables of PyTorch.

It was executed by ``make compat-alternative``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Alternative:
    """What was executed, and with which versions.

    By callable ``equal``, ``raises`` or ``silent``: the worst of its programs.
    """

    versions: str
    outcomes: Mapping[str, str]


@cache
def under_compat() -> Alternative:
    """The table that comes with paralign.

    >>> under_compat().outcomes["torch.nn.LSTM"]
    'silent'
    """
    head, *lines = resources.files("paralign.catalogue").joinpath("tables").joinpath("compat.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(" ") for line in lines if line]
    return Alternative(head.lstrip("# ").partition(":")[0], {name: outcome for outcome, _, name in pairs})
