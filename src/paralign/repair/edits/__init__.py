"""Kinds of edits, one file each: a porting mistake is undone by one of them.

The order is that of the handbook, not of the trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.repair.edits import (
    catalogued_argument,
    cut_gradient,
    exchanged_order,
    exchanged_steps,
    extra_part,
    known_value,
    measured_argument,
    missing_argument,
    missing_entry,
    missing_layer,
    missing_part,
    missing_statement,
    off_by_one,
    other_constant,
    other_function,
    other_identifier,
    other_operator,
    other_sign,
    other_slice,
    turned_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.repair.proposals import Proposal, Site

#: id -> what proposes edits of its kind; ids stand in ``report.json`` as ``repair/<id>`` and stay
EDITS: dict[str, Callable[[Site], Iterator[Proposal]]] = {
    module.ID: module.propose
    for module in (
        known_value,
        measured_argument,
        catalogued_argument,
        other_constant,
        other_operator,
        exchanged_order,
        exchanged_steps,
        other_function,
        other_identifier,
        missing_part,
        missing_layer,
        missing_entry,
        missing_statement,
        off_by_one,
        missing_argument,
        turned_parts,
        other_sign,
        other_slice,
        cut_gradient,
        extra_part,
    )
}
