"""Errors as the terminal shows them, in the language that is spoken.

:mod:`~paralign.report.translating` has the sentences.
"""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import one_line, plain_text
from paralign.report.language import current

if TYPE_CHECKING:
    from paralign.errors import ParalignError


def told(error: ParalignError) -> str:
    """An error as the terminal shows it, in the language that is spoken.

    A sentence that is not in the tables stays English.
    """
    if current() != "zh":
        return str(error)
    from paralign.report.translating import translated

    lines = [translated(plain_text(error.what)).replace("\n", "\n  ")]
    if error.where:
        lines.append(f"  位置：{one_line(error.where)}")
    if error.hint:
        lines.append(f"  修正：{translated(plain_text(error.hint))}")
    return "\n".join(lines)
