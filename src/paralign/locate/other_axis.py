"""Calls along another axis than the reference's on the same values."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.values.expression_counterparts import is_equal
from paralign.locate.provenance.values.value_graph import behind
from paralign.locate.runs.traverse import users_of
from paralign.locate.source.argument_names import named
from paralign.model import DIVERGED, Finding, LineProposal, OtherAxis, Point

if TYPE_CHECKING:
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression
    from paralign.locate.runs.dataflow import Operation
    from paralign.locate.runs.judgement import Judgement
    from paralign.model import CheckResult, Divergence

#: the id of the finding, and of the line that it proposes
RULE = "axis/classes"

#: kinds of operations along the axis of classes; one side's loss may do what the other's softmax and loss do
_OF_CLASSES = frozenset({"softmax", "log_softmax", "cross_entropy"})

#: what lies along the axis of a call, in both languages
_CLASSES = (", where the classes are", "，即类别所在的轴")
_MEANINGS = {
    **dict.fromkeys(("argmax", "argmin", "topk", "log_softmax", "cross_entropy"), _CLASSES),
    "softmax": (", along which its values sum to 1", "，其值沿该轴之和为 1"),
}

#: last part of a call's name -> what both frameworks' calls of that kind are called here
_CALLS = {
    "argmax": "argmax", "argmin": "argmin", "topk": "topk", "softmax": "softmax", "log_softmax": "log_softmax", "logsumexp": "logsumexp",
    "sum": "sum", "mean": "mean", "prod": "prod", "any": "any", "all": "all", "median": "median", "std": "std", "var": "var",
    "sort": "sort", "argsort": "argsort", "cumsum": "cumsum", "max": "max", "amax": "max", "min": "min", "amin": "min", "norm": "norm",
}  # fmt: skip

#: arguments before the axis, where it is given by its place
_BEFORE = {"topk": 1, "norm": 1}

#: what an argument for the axis is called
_NAMED = ("axis", "dim")


def of_operations(judgement: Judgement, operation: Operation, other: Operation | None) -> OtherAxis | None:
    """The axis of a wrong operation, where the reference does the same along another.

    Args:
        judgement: of the run.
        operation: the candidate's.
        other: the reference's operation concerned, where one is known.
    """
    own = _axis_of(operation)
    if own is None or not judgement.is_right(operation.inputs[0]):
        return None
    value = operation.inputs[0]
    same = [partner for partner in judgement.partners(value) if partner.shape == value.shape]
    alike = users_of(same) if other is None else [other, *users_of(same)]
    due: set[int] = set()
    for each in alike:
        axis = _axis_of(each) if _is_alike(each, operation) else None
        if axis is not None and each.inputs[0].shape == value.shape:
            due.add(axis)
    if len(due) != 1 or own in due:
        return None
    return OtherAxis(own, due.pop(), len(value.shape), operation.kind)


def _is_alike(one: Operation, two: Operation) -> bool:
    return one.kind == two.kind or {one.kind, two.kind} <= _OF_CLASSES


def _axis_of(operation: Operation) -> int | None:
    """The one axis that an operation names, counted from the first."""
    if not operation.inputs:
        return None
    arguments = named(operation.op, operation.arguments)
    given = next((arguments[name] for name in _NAMED if name in arguments), None)
    return _counted(given, len(operation.inputs[0].shape))


def _counted(given: Any, count: int) -> int | None:
    """An axis, or a list of one, counted from the first; None for anything else."""
    one = given[0] if isinstance(given, list) and len(given) == 1 else given
    if type(one) is not int or not -count <= one < count:
        return None
    return one % count


def of_values(sides: Sides, candidate: str, reference: str) -> tuple[OtherAxis, Expression, Expression] | None:
    """The axis of a call behind a wrong value, where the reference's call has another.

    Args:
        sides: what both sides' programs recorded.
        candidate: the name of the wrong value.
        reference: that of its counterpart.
    """
    wrong, counterpart = sides.candidate.root(candidate), sides.reference.root(reference)
    if wrong is None or counterpart is None:
        return None
    due = _calls_behind(counterpart)
    for call in sorted(_calls_behind(wrong), key=lambda each: each.expression.number):
        same = [each for each in due if each.kind == call.kind and each.takes_the_same(call)]
        axes = {each.axis for each in same if each.axis is not None}
        if call.is_elsewise or len(axes) != 1 or call.axis in axes:
            continue
        if not any(is_equal(each.expression, call.expression) for each in same):
            return OtherAxis(call.axis, axes.pop(), call.count, call.kind), call.expression, same[0].expression
    return None


def _calls_behind(root: Expression) -> list[_Call]:
    """The calls along an axis that led to a value."""
    found = map(_Call.of, behind(root))
    return [call for call in found if call is not None]


class _Call:
    """A call along an axis: its kind, what it takes, and the axis if it names one."""

    def __init__(self, expression: Expression, kind: str, operand: Expression) -> None:
        self.expression, self.kind, self.operand = expression, kind, operand
        self.count = len(operand.mark[1])
        held = _axis_argument(expression, kind)
        self.axis: int | None = None
        if held is not None and held.mark[0] in ("s", "l"):
            self.axis = _counted(held.mark[1], self.count)
        #: several axes, or one that only an array tells: it names what cannot be counted here
        self.is_elsewise = self.axis is None and held is not None and held.mark[1] is not None

    @classmethod
    def of(cls, expression: Expression) -> _Call | None:
        """The call of an expression; None where it is none of these, or takes no array."""
        kind = _CALLS.get(expression.word) if expression.kind == "call" else None
        operand = next((each for role, each in expression.inputs if role in ("self", "x", "input", "0")), None)
        if kind is None or operand is None or operand.mark[0] != "a":
            return None
        return cls(expression, kind, operand)

    def takes_the_same(self, other: _Call) -> bool:
        """Whether both take equal values of one shape."""
        return list(self.operand.mark[1]) == list(other.operand.mark[1]) and bool(is_equal(self.operand, other.operand))


def _axis_argument(call: Expression, kind: str) -> Expression | None:
    """What a call gives for the axis, by name or by place; None where it gives nothing."""
    roles = dict(call.inputs)
    place = _BEFORE.get(kind, 0)
    if "self" not in roles:
        place += 1
    for name in (*_NAMED, str(place)):
        if name in roles:
            return roles[name]
    return None


def name(divergence: Divergence, found: tuple[OtherAxis, Expression, Expression]) -> None:
    """Point a divergence at a call along another axis, with its first line further down."""
    axis, call, due = found
    point = divergence.candidate
    label = ""
    before: list[str] = []
    if point is not None:
        label, before = point.name, [line for line in (point.source, *point.lines) if line and line != call.source]
    divergence.axis = axis
    divergence.candidate = Point(label, axis.call, call.source, code_at(call.source), before)
    divergence.reference = Point(label, axis.call, due.source, code_at(due.source))
    divergence.rule = RULE
    divergence.proposals.insert(0, LineProposal(RULE, call.source))


def add(result: CheckResult) -> None:
    """Say of every stage that diverges along another axis which axis is due."""
    for stage in result.stages:
        if stage.verdict != DIVERGED or stage.divergence is None:
            continue
        if stage.divergence.axis is not None:
            stage.findings.insert(0, finding(stage.divergence.axis))


def finding(axis: OtherAxis) -> Finding:
    """The cause in words, in both languages."""
    own, own_zh = "names no axis", "没有写明轴"
    if axis.candidate is not None:
        own = f"goes along axis {axis.candidate} of {axis.count}"
        own_zh = f"沿第 {axis.candidate} 轴（共 {axis.count} 轴）计算"
    meaning, meaning_zh = _MEANINGS.get(axis.call, ("", ""))
    return Finding(
        RULE,
        f"{axis.call} {own}; the reference's goes along axis {axis.reference}{meaning}.",
        f"Write axis={axis.reference} in this call.",
        cause_zh=f"{axis.call} {own_zh}；参考沿第 {axis.reference} 轴{meaning_zh}。",
        fix_zh=f"在此调用中写 axis={axis.reference}。",
    )
