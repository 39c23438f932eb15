"""Which expression of the user's training step made a tensor, loss or bound wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import common
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed, Order
from paralign.locate.provenance.tracing_back import name, recorded, set_reference
from paralign.locate.provenance.values.expression_counterparts import is_equal, origin
from paralign.locate.provenance.values.expression_traits import identity
from paralign.locate.provenance.values.seen_values import SeenApart
from paralign.locate.provenance.values.value_graph import COMMON, behind
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.seen_values import Seen
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

#: the part of a program that is recorded
PART = "train_step"


#: kinds of events at the line of a call
_CALLING = frozenset({"parameter", "return", "call"})

#: methods of tensors that clear what they hold, and one that changes no element
_CLEARING = frozenset({"zero_", "fill_", "requires_grad_"})

#: functions of both frameworks that clip gradients, and what each of them bounds
_BOUNDS = {"clip_grad_norm_": "the norm of gradients", "clip_grad_value_": "each number of gradients"}


@dataclass(frozen=True)
class Returned:
    """A part of what a training step returns."""

    step: int
    leaf: str


@dataclass(frozen=True)
class WrongTensor:
    """A parameter or buffer that is wrong after a training step.

    Attributes:
        step: the step, from 0.
        reference: its name in the reference.
        candidate: in the candidate.
    """

    step: int
    reference: str
    candidate: str

    @property
    def names(self) -> tuple[str, str]:
        """Both names, the reference's first."""
        return self.reference, self.candidate


@dataclass(frozen=True)
class Wrong:
    """What is wrong after some training steps.

    Attributes:
        tensors: the wrong tensors, each as often as steps leave it wrong.
        returned: the wrong parts of results, which tell where no tensor is wrong: an average beside the weights, a norm.
    """

    tensors: Sequence[WrongTensor]
    returned: Sequence[Returned] = ()


def follow(context: Context, divergence: Divergence | None, values: dict[str, Capture], wrong: Wrong, steps: int) -> Blamed | None:
    """Name the expression of the candidate's train step that made something compared wrong.

    None where there is none. One with an order makes nothing wrong itself: what it tells is that things are done in another order.

    Args:
        context: the check.
        divergence: what is named so far.
        values: inputs and labels.
        wrong: what is wrong after the steps.
        steps: that were compared.
    """
    pairs = list(dict.fromkeys(each.names for each in wrong.tensors))
    names = [one for one, _ in pairs], [other for _, other in pairs]
    sides = recorded(context, PART, values, steps=steps, names=names) if divergence is not None else None
    found = None if sides is None else first_wrong(sides, wrong, steps)
    if divergence is None or found is None:
        return None
    name(divergence, found)
    set_reference(divergence, found)  # known so far is where the optimizer is built
    return found


def first_wrong(sides: Sides, compared: Wrong, steps: int) -> Blamed | None:
    """The expression at fault in the first step that leaves something wrong.

    Of what is wrong, values that the reference's expressions made too come first: of one that a library made there, as its optimizers
    do, nothing tells whether a step left it wrong.

    Args:
        sides: what was recorded.
        compared: what is wrong after which step.
        steps: that were recorded.
    """
    seen = SeenApart(sides.reference.expressions)
    lacking = _loss_without_a_step(sides, seen)
    if lacking is not None:
        return lacking
    first_steps = [graph.in_step(0) for graph in (sides.candidate, sides.reference)]
    misplaced = early_update(*first_steps) or late_update(*first_steps)
    if misplaced is None and _right_losses(sides):
        misplaced = exchanged_clipping(*first_steps)
        if misplaced is None and not _has_right_gradients(sides, compared.tensors):
            misplaced = other_clipping(*first_steps)
    if misplaced is not None:
        return misplaced  # a rule like Adam's hides it in the first values, and what is wrong later leads elsewhere
    given = [e for e in sides.candidate.expressions if e.kind == "attribute" and e.label == "grad"]  # of equal losses
    for step in range(steps):
        ends = [*_ends(sides, compared.tensors, step), *_results(sides, compared.returned, step)]
        wrong = [pair for pair in ends if seen.has(pair[0]) is False]
        known = [(own, due) for own, due in wrong if due is not None]
        if wrong:
            excused = _right_losses(sides)
            found = most_blamed(sides, seen, known, given, excused) or most_blamed(sides, seen, wrong, given, excused)
            return found or _beside_values(sides, seen)
    return _beside_values(sides, seen)


def _beside_values(sides: Sides, seen: Seen) -> Blamed | None:
    """What is wrong of a step although no value leads to it."""
    return strange_number(sides, seen) or other_argument(sides)


def _right_losses(sides: Sides) -> list[Expression]:
    """What the first step differentiates, where that is the reference's.

    How it was computed is not at fault.
    """
    losses = [_differentiated(graph) for graph in (sides.candidate, sides.reference)]
    if len(losses[0]) != len(losses[1]):
        return []
    return [own for own, due in zip(*losses, strict=True) if is_equal(own, due)]


def most_blamed(
    sides: Sides,
    seen: Seen,
    wrong: Sequence[tuple[Expression, Expression | None]],
    given: Sequence[Expression] = (),
    excused: Sequence[Expression] = (),
) -> Blamed | None:
    """The expression that most of some wrong values lead to, the first of several.

    None where none computes of what is right alone.
    """
    expressions, own = sides.reference.expressions, sides.candidate.expressions
    sound: list[Blamed] = []
    for root, due in wrong:
        found = Search(root, due, seen, expressions, sound=given, excused=excused, own=own).first()
        if found is not None and is_sound(found, seen, given):
            found.due = sides.beside(found, due)
            sound.append(found)
    votes = Counter(each.source for each in sound)
    return min(sound, key=lambda each: (-votes[each.source], each.expression.number), default=None)


def is_step(call: Expression) -> bool:
    """Whether a call is one of a method ``step``: of a log, an optimizer or a schedule."""
    return call.word == "step"


def early_update(own: Sequence[Expression], due: Sequence[Expression]) -> Blamed | None:
    """The update of a step that comes too early.

    Gradients are changed only after it, and the reference changes them only before its own.

    Args:
        own: what the candidate did in a step.
        due: what the reference did.
    """
    candidate, reference = _GradientChanges.of(own), _GradientChanges.of(due)
    if candidate is None or reference is None:
        return None
    if candidate.before or not candidate.after or not reference.before or reference.after:
        return None
    late, right = candidate.after[0], reference.before[0]
    told = f"gradients are changed only after this update, by {late.source}; the reference changes them before ({right.source})"
    same = _is_same_work(candidate.after, reference.before)
    return Blamed(candidate.update, [candidate.update, late], right, note=told, order=Order.AFTER_UPDATE, is_same_work=same)


@dataclass(frozen=True)
class _GradientChanges:
    """A step's first update, and what changes gradients ``before`` and ``after`` it.

    What changes them before ``backward`` has run does not count.
    """

    update: Expression
    before: Sequence[Expression]
    after: Sequence[Expression]

    @classmethod
    def of(cls, step: Sequence[Expression]) -> _GradientChanges | None:
        """None for a step without an update."""
        update = next((e for e in step if e.is_own_call and is_step(e)), None)
        if update is None:
            return None
        before: list[Expression] = []
        after: list[Expression] = []
        for each in step:
            if each.number < update.number and _is_backward(each):
                before.clear()
            elif _changes_gradients(each) and each.number < update.number:
                before.append(each)
            elif _changes_gradients(each) and each.number > update.number:
                after.append(each)
        return cls(update, before, after)


@dataclass(frozen=True)
class _AroundUpdate:
    """What a step computes of arrays around its last update.

    ``before`` begins where gradients are done with. ``calls``: what the file of the update calls before it for that.
    """

    update: Expression
    before: Sequence[Expression]
    after: Sequence[Expression]
    calls: Sequence[Expression]

    @classmethod
    def of(cls, step: Sequence[Expression]) -> _AroundUpdate | None:
        """None for a step without an update, or with several."""
        updates = [e for e in step if e.is_own_call and is_step(e) and "sched" not in e.label.lower()]
        if len(updates) != 1:
            return None
        update = updates[0]
        felt = _of_gradients(step)
        begun = max((e.number for e in felt if e.number < update.number), default=update.number)
        before, after, calls = [], [], []
        for each in step:
            is_between = begun < each.number < update.number
            is_apart = each not in felt and _computes_array(each)
            if is_apart and is_between:
                before.append(each)
            elif is_apart and each.number > update.number:
                after.append(each)
            if is_between and each.kind in _CALLING and each.file == update.file and each.source != update.source:
                calls.append(each)
        return cls(update, before, after, calls)


def _computes_array(each: Expression) -> bool:
    """Whether the user's code computes an array here."""
    return each.mark[0] == "a" and bool(each.file) and each.kind in ("operation", "call")


def _of_gradients(step: Sequence[Expression]) -> set[Expression]:
    """Gradients, what computes or bounds them, and all that was made of them in a step."""
    felt: set[Expression] = set()
    for each in step:
        is_clipping = each.kind == "call" and each.word.startswith("clip_grad")
        is_first = each.word == "grad" or _is_backward(each) or is_clipping
        if is_first or any(inner in felt for inner in each.operands):
            felt.add(each)
    return felt


def late_update(own: Sequence[Expression], due: Sequence[Expression]) -> Blamed | None:
    """What a step computes before its update and the reference after it, as averages are.

    The reference computes of arrays only after its own, and more than the candidate does there.

    Args:
        own: what the candidate did in a step.
        due: what the reference did.
    """
    candidate, reference = _AroundUpdate.of(own), _AroundUpdate.of(due)
    if candidate is None or reference is None:
        return None
    if not candidate.before or reference.before or len(candidate.after) >= len(reference.after):
        return None
    if all(any(is_equal(e, other) for other in reference.after) for e in candidate.before):  # the update does not matter to it
        return None
    called = next(iter(candidate.calls), None)
    same = _is_same_work(candidate.before, reference.after)
    after = f"the reference computes such after its own ({reference.after[0].source})"
    if called is None:
        told = f"{candidate.before[0].source} computes before this update; {after}"
        chain = [candidate.update, candidate.before[0]]
        return Blamed(candidate.update, chain, reference.after[0], note=told, order=Order.BEFORE_UPDATE, is_same_work=same)
    told = f"this computes before the update ({candidate.update.source}); {after}"
    chain = [called, candidate.update]
    return Blamed(called, chain, reference.after[0], note=told, order=Order.BEFORE_UPDATE, is_same_work=same)


def exchanged_clipping(own: Sequence[Expression], due: Sequence[Expression]) -> Blamed | None:
    """The clipping that comes before other changes of gradients, or after them.

    The reference's comes on the other side of them. Both clip once, by a library's function, and come to another norm.

    Args:
        own: what the candidate did in a step.
        due: what the reference did.
    """
    candidate, reference = _AroundClipping.of(own), _AroundClipping.of(due)
    if candidate is None or reference is None or is_equal(candidate.clipping, reference.clipping) is not False:
        return None
    is_early = not candidate.before and candidate.after and reference.before and not reference.after
    is_late = candidate.before and not candidate.after and not reference.before and reference.after
    clips = _is_same_work([candidate.clipping], [reference.clipping])
    if is_early:
        told = f"gradients are clipped before they are changed by {candidate.after[0].source}; the reference clips them after it does so"
        same = clips and _is_same_work(candidate.after, reference.before)
        order, other = Order.AFTER_CLIPPING, candidate.after[0]
    elif is_late:
        told = f"gradients are clipped after they are changed by {candidate.before[0].source}; the reference clips them before it does so"
        same = clips and _is_same_work(candidate.before, reference.after)
        order, other = Order.BEFORE_CLIPPING, candidate.before[0]
    else:
        return None
    clipping = candidate.clipping
    return Blamed(clipping, [clipping, other], reference.clipping, note=told, order=order, is_same_work=same)


def other_clipping(own: Sequence[Expression], due: Sequence[Expression]) -> Blamed | None:
    """The clipping that bounds gradients by norm where the reference does by value.

    Or the other way round. Both clip once, by functions of a library, and change gradients by nothing else.

    Args:
        own: what the candidate did in a step.
        due: what the reference did.
    """
    candidate, reference = _AroundClipping.of(own), _AroundClipping.of(due)
    if candidate is None or reference is None or any((*candidate.before, *candidate.after, *reference.before, *reference.after)):
        return None
    clipping, right = candidate.clipping, reference.clipping
    if clipping.word == right.word or {clipping.word, right.word} != _BOUNDS.keys():
        return None
    told = f"this bounds {_BOUNDS[clipping.word]}; the reference bounds {_BOUNDS[right.word]} ({right.source})"
    return Blamed(clipping, [clipping], right, note=told)


def _is_same_work(own: Sequence[Expression], due: Sequence[Expression]) -> bool:
    """Whether two sides do the same, by the words and the numbers that are written.

    Values tell nothing: they are taken at another moment of the step.
    """
    works = [[(common(each.word), _numbers(each)) for each in side] for side in (own, due)]
    return works[0] == works[1]


def _numbers(each: Expression) -> list[float]:
    return sorted(float(inner.scalar) for _, inner in each.inputs if is_number(inner.scalar))


@dataclass(frozen=True)
class _AroundClipping:
    """A step's one clipping by a library.

    ``before`` and ``after`` it are what computes of whole gradients, up to the update.
    """

    clipping: Expression
    before: Sequence[Expression]
    after: Sequence[Expression]

    @classmethod
    def of(cls, step: Sequence[Expression]) -> _AroundClipping | None:
        """None for a step that clips more than once, or not by a library."""
        begun = max((each.number for each in step if _is_backward(each)), default=None)
        update = next((each.number for each in step if each.is_own_call and is_step(each)), None)
        if begun is None or update is None:
            return None
        between = [each for each in step if begun < each.number < update]
        found = [each for each in between if each.is_own_call and each.word.startswith("clip_grad") and each.word.endswith("_")]
        if len(found) != 1:
            return None
        felt = [each for each in between if each is not found[0] and _keeps_gradient(each)]
        number = found[0].number
        return cls(found[0], [each for each in felt if each.number < number], [each for each in felt if each.number > number])


def _keeps_gradient(each: Expression) -> bool:
    """Whether an array of a gradient's shape is computed of that gradient."""
    gradients = [inner for _, inner in each.inputs if inner.kind == "attribute" and inner.label == "grad" and inner.size > 1]
    return _computes_array(each) and any(inner.mark[1] == each.mark[1] for inner in gradients)


def _is_backward(each: Expression) -> bool:
    return each.kind == "call" and each.word == "backward"


def _changes_gradients(each: Expression) -> bool:
    """Whether a call changes gradients in place; to clear them is no change."""
    if not each.is_own_call or each.word in _CLEARING:
        return False
    if each.word.startswith("clip_grad"):
        return each.word.endswith("_")
    if not each.word.endswith("_") and each.word != "set_value":
        return False
    return any(role == "self" and origin(inner).label == "grad" for role, inner in each.inputs)


def _loss_without_a_step(sides: Sides, seen: Seen) -> Blamed | None:
    """What the first step differentiates, where the reference first makes more of it."""
    losses = [_differentiated(graph) for graph in (sides.candidate, sides.reference)]
    if len(losses[0]) != len(losses[1]):
        return None
    apart = [(own, due) for own, due in zip(*losses, strict=True) if is_equal(own, due) is False and seen.has(own)]
    return Blamed(apart[0][0], [apart[0][0]], apart[0][1]) if apart and apart[0][0].file else None


def _ends(sides: Sides, tensors: Sequence[WrongTensor], step: int) -> list[tuple[Expression, Expression | None]]:
    """What made the tensors that a step leaves wrong; for the first also losses and gradients."""
    compared = {0, *(each.step for each in tensors)}  # of the steps between nothing is known
    names_of = dict.fromkeys(each.names for each in tensors if step not in compared or each.step == step)
    named = [(f"after:{step}:", *names) for names in names_of]
    if step == 0:
        named += [("gradient:", *names) for names in dict.fromkeys(each.names for each in tensors)]
    roots = [(sides.candidate.root(kind + own), sides.reference.root(kind + due)) for kind, due, own in named]
    known: list[tuple[Expression, Expression | None]] = [(root, due) for root, due in roots if root is not None]
    losses = [_differentiated(graph) for graph in (sides.candidate, sides.reference)]
    if step == 0 and len(losses[0]) == len(losses[1]):
        known += zip(*losses, strict=True)
    return known


def _has_right_gradients(sides: Sides, tensors: Sequence[WrongTensor]) -> bool:
    """Whether all gradients that reach the first update are known to be the reference's."""
    names = {each.names for each in tensors}
    roots = [(sides.candidate.root(f"gradient:{own}"), sides.reference.root(f"gradient:{due}")) for due, own in names]
    known = [(root, due) for root, due in roots if root is not None and due is not None]
    return bool(known) and all(is_equal(root, due) for root, due in known)


def _results(sides: Sides, returned: Sequence[Returned], step: int) -> list[tuple[Expression, Expression | None]]:
    """What made the wrong parts of a step's result."""
    names = [f"result:{step}:{part.leaf}" for part in returned if part.step == step]
    roots = [(sides.candidate.root(word), sides.reference.root(word)) for word in names]
    return [(own, due) for own, due in roots if own is not None]


def _differentiated(graph: ValueGraph) -> list[Expression]:
    """What gradients were asked of in the first step, in order."""
    calls = [e for e in graph.in_step(0) if _is_backward(e)]
    return [inner for call in calls for role, inner in call.inputs if role in ("self", "object", "function")][: len(calls)]


def is_sound(found: Blamed, seen: Seen, given: Sequence[Expression] = ()) -> bool:
    """Whether an expression computes of arrays that are the reference's."""
    each = found.expression
    if found.placed:
        return True
    is_stored = each.kind == "change" and any(role == "value" for role, _ in each.values)
    if each.mark[0] == "a" and each.kind not in ("operation", "call") and not is_stored:  # read from an object, as a gradient is
        return False
    return all(seen.has(inner) or inner in given for _, inner in found.expression.values if inner.mark[0] == "a")


def other_argument(sides: Sides) -> Blamed | None:
    """The one call of the first step with another argument than the reference's.

    For calls that each side makes once, of a library's functions that change tensors in place: a clipping of gradients, say.
    """
    calls = [library_calls(graph) for graph in (sides.candidate, sides.reference)]
    apart = []
    for word, own in calls[0].items():
        due = calls[1].get(word)
        if own is None or due is None:
            continue
        settings = [{role: each.scalar for role, each in call.inputs if each.mark[0] == "s"} for call in (own, due)]
        if settings[0] != settings[1]:
            apart.append(Blamed(own, [own], due))
    return apart[0] if len(apart) == 1 else None


def library_calls(graph: ValueGraph) -> dict[str, Expression | None]:
    """The calls of the first step by name; None for a name that is called several times."""
    found: dict[str, Expression | None] = {}
    for each in graph.in_step(0):
        if each.is_own_call and each.word.endswith("_"):
            found[each.word] = None if each.word in found else each
    return found


def strange_number(sides: Sides, seen: Seen) -> Blamed | None:
    """The one number that the candidate's steps take and the reference has nowhere.

    It has to be written down as it is. None where there are several.
    """
    begin = sides.candidate.place("begin:0") or 0
    right = {identity(each) for loss in _right_losses(sides) for each in behind(loss)}
    found: dict[str, Blamed] = {}
    for call in sides.candidate.expressions[begin:]:
        for role, inner in call.inputs if call.kind == "call" and call.file else ():
            if role in ("self", "function") or not is_number(inner.scalar) or inner.scalar in COMMON or seen.has(inner) is not False:
                continue
            if identity(inner) in right:  # what led to a right loss is another way to write it
                continue
            blamed = Search(inner, None, seen, sides.reference.expressions).first()
            if blamed is not None:
                found[blamed.source] = blamed
    if len(found) != 1:
        return None
    only = next(iter(found.values()))
    is_written = only.expression.kind in ("constant", "default") or not only.expression.values
    return only if is_written else None
