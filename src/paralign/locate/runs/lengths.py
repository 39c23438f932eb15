"""Recurrent layers that are given the lengths of their sequences, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement

#: what such layers are called
LAYERS = ("gru", "lstm", "rnn", "simplernn")

#: what packs sequences by their lengths, before a layer; and the kernel that takes lengths itself
PACK, KERNEL = "_pack_padded_sequence", "rnn"

#: the types that lengths have
WHOLE = ("int32", "int64")

#: what is said of a layer that is given none
SAID = "the reference's layer is given the length of each sequence and the candidate's is not: it runs over the padding, too"


def are_missing(judgement: Judgement, operation: Operation) -> bool:
    """Whether an operation is of a recurrent layer without lengths.

    The reference's layer of the same weights has some then.
    """
    layer = judgement.candidate.kinds.get(operation.module, "").lower()
    if layer not in LAYERS or _has_lengths(judgement.candidate, operation.module):
        return False
    homes = judgement.homes.items()
    theirs = {name.rpartition(".")[0] for name, home in homes if home.rpartition(".")[0] == operation.module}
    return any(_has_lengths(judgement.reference, module) for module in theirs)


def _has_lengths(graph: Graph, module: str) -> bool:
    """Whether a layer takes lengths itself, or what was packed by them."""
    own = [each for each in graph.operations if each.module == module]
    packed = {value.maker for each in own for value in each.inputs if value.maker is not None and value.maker.kind == PACK}
    return bool(packed) or any(_takes_lengths(each) for each in own)


def _takes_lengths(operation: Operation) -> bool:
    return operation.kind == KERNEL and any(value.record.dtype in WHOLE for value in operation.inputs)
