"""Recurrent layers that are given the lengths of their sequences, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement

#: what such layers are called, in part
LAYERS = ("gru", "lstm", "rnn")

#: what packs sequences by their lengths, before a layer; and the kernel that takes lengths itself
PACK, KERNEL = "_pack_padded_sequence", "rnn"

#: the types that lengths have
WHOLE = ("int32", "int64")

#: what is said of a layer that is given none
SAID = "the reference's layer is given the length of each sequence and the candidate's is not: it runs over the padding, too"


def are_missing(judgement: Judgement, operation: Operation) -> bool:
    """Whether an operation is of a recurrent layer without lengths.

    More of the reference's have some then.
    """
    layer = judgement.candidate.kinds.get(operation.module, "").lower()
    if not any(word in layer for word in LAYERS) or any(_takes_lengths(o) for o in _of_layer(judgement.candidate, operation.module)):
        return False
    return _count(judgement.candidate) < _count(judgement.reference)


def _of_layer(graph: Graph, module: str) -> list[Operation]:
    """A layer's operations, and those that pack what it is called with."""
    own = [each for each in graph.operations if each.module == module]
    made = {value.maker for each in own for value in each.inputs}
    return own + [each for each in graph.operations if each.kind == PACK and each in made]


def _takes_lengths(operation: Operation) -> bool:
    return operation.kind == PACK or (operation.kind == KERNEL and any(v.record.dtype in WHOLE for v in operation.inputs))


def _count(graph: Graph) -> int:
    return sum(map(_takes_lengths, graph.operations))
