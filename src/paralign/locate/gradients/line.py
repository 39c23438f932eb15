"""From a wrong gradient to the line that a porter has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.gradients.gradient_faults import Wrong, told_otherwise
from paralign.locate.runs.construction import constructed
from paralign.locate.runs.traverse import common
from paralign.locate.source.handed_on import between
from paralign.locate.source.statements import custom_backward, no_gradient_block, told_how

if TYPE_CHECKING:
    from paralign.locate.gradients.gradient_faults import Fault
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement


def of_parameter(fault: Fault, judgement: Judgement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both sides' lines, the candidate's first, for a parameter frozen on one side only.

    That is the line that froze it; on the other side, the one of the parameter's construction that is as deep in the calls.
    """
    name, due = fault.value.record.name, fault.due.record.name
    candidate, reference = judgement.candidate, judgement.reference
    theirs = tuple(candidate.frozen.get(name, ()))
    froze = tuple(reference.frozen.get(due, ()))
    return theirs or _as_deep(_built(candidate, name), froze), froze or _as_deep(_built(reference, due), theirs)


def _built(graph: Graph, parameter: str) -> tuple[str, ...]:
    """The lines that constructed the module of a parameter."""
    module = parameter.rpartition(".")[0]
    return constructed(graph, module) or tuple(graph.built.get(module, ()))


def _as_deep(lines: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Lines from the one on that is as many calls deep as the innermost of others."""
    return lines[max(0, len(lines) - len(other)) :] if other else lines


def of_operation(fault: Fault, operation: Operation, judgement: Judgement) -> tuple[str, ...]:
    """The candidate's lines for an operation with a wrong gradient, the likeliest first."""
    stack = operation.stack
    if not stack:
        return ()
    if fault.cut is not None:
        handed = between(stack, fault.taker.stack) if fault.taker is not None else ()
        return handed or stack[_handed_on(fault.cut, fault.beside or judgement.twin(operation), operation) :]
    own = None if fault.scaled else custom_backward(stack[0])
    if own is not None:
        return (*stack[1:], own) if _is_told_wrongly(fault, stack) else (own, *stack)
    block = _without_gradients(operation)
    if fault.scaled or block is not None:
        return block or stack
    if _is_built_otherwise(fault, operation, judgement):
        return (*constructed(judgement.candidate, operation.module), *stack)
    return stack


def _is_told_wrongly(fault: Fault, stack: tuple[str, ...]) -> bool:
    """Whether a backward function of one's own may only have been given a wrong factor."""
    if fault.factor is None or fault.factor <= 0 or len(stack) <= 1:
        return False
    return bool(told_how(stack[0]))


def _is_built_otherwise(fault: Fault, operation: Operation, judgement: Judgement) -> bool:
    """Whether a layer alone takes a parameter, and has another argument than the reference's."""
    if fault.what is not Wrong.DIFFERENT or fault.value.maker is not None:
        return False
    if any(user is not operation for user in fault.value.users):
        return False
    twin = judgement.twin(operation)
    return twin is not None and told_otherwise(operation, twin)


def of_cut(cut: Operation) -> tuple[str, ...]:
    """The lines of an operation that hands on no gradient, or of the block around it."""
    return _without_gradients(cut) or cut.stack


def _handed_on(cut: Operation, beside: Operation | None, operation: Operation) -> int:
    """Which of an operation's lines is as deep in calls as the reference's cut."""
    block = _without_gradients(cut)
    near = common(cut, beside) if beside is not None else 0
    depth = len(block) if block is not None else min(near + 1, len(cut.stack))
    return min(len(operation.stack) - 1, max(0, len(operation.stack) - depth))


def _without_gradients(operation: Operation) -> tuple[str, ...] | None:
    """The lines of the block around an operation that keeps no gradients, innermost first.

    What cuts a value off by itself is looked for in no block.
    """
    if "detach" in operation.op or operation.op == "stop_gradient":
        return None
    for place, line in enumerate(operation.stack):
        block = no_gradient_block(line)
        if block is not None:
            return (block, *operation.stack[place + 1 :])
    return None
