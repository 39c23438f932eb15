"""From a wrong gradient to the line that a porter has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.gradients.gradient_faults import Wrong, told_otherwise
from paralign.locate.runs.construction import constructed
from paralign.locate.runs.traverse import common
from paralign.locate.source.statements import custom_backward, no_gradient_block, told_how

if TYPE_CHECKING:
    from paralign.locate.gradients.gradient_faults import Fault
    from paralign.locate.runs.dataflow import Operation
    from paralign.locate.runs.judgement import Judgement


def of_parameter(fault: Fault, judgement: Judgement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both sides' lines, the candidate's first, for a parameter frozen on one side only.

    That is the line that froze it; on the other side, the one of the parameter's construction that is as deep in the calls.
    """
    name, due = fault.value.record.name, fault.due.record.name
    candidate, reference = judgement.candidate, judgement.reference
    built = constructed(candidate, name.rpartition(".")[0]) or tuple(candidate.built.get(name.rpartition(".")[0], ()))
    ours = constructed(reference, due.rpartition(".")[0]) or tuple(reference.built.get(due.rpartition(".")[0], ()))
    theirs = tuple(candidate.frozen.get(name, ()))
    froze = tuple(reference.frozen.get(due, ()))
    return theirs or _as_deep(built, froze), froze or _as_deep(ours, theirs)


def _as_deep(lines: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Lines from the one on that is as many calls deep as the innermost of others."""
    return lines[max(0, len(lines) - len(other)) :] if other else lines


def of_operation(fault: Fault, operation: Operation, judgement: Judgement) -> tuple[str, ...]:
    """The candidate's lines for an operation with a wrong gradient, the likeliest first."""
    stack = operation.stack
    if not stack:
        return ()
    if fault.cut is not None:
        return stack[_handed_on(fault.cut, fault.beside or judgement.twin(operation), operation) :]
    own = None if fault.scaled else custom_backward(stack[0])
    if own is not None:
        given = fault.factor is not None and fault.factor > 0 and len(stack) > 1 and told_how(stack[0])
        return (*stack[1:], own) if given else (own, *stack)
    block = _without_gradients(operation)
    if fault.scaled or block is not None:
        return block or stack
    built = constructed(judgement.candidate, operation.module)
    twin = judgement.twin(operation)
    alone = fault.value.maker is None and all(user is operation for user in fault.value.users)
    if fault.what is Wrong.DIFFERENT and built and alone and twin is not None and told_otherwise(operation, twin):
        return (*built, *stack)
    return stack


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
