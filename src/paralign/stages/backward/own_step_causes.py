"""Why own training steps differ, with the line.

The number of updates, the gradients that reach them, or the update.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.programs import own_steps
from paralign.locate.provenance.programs.own_steps import Returned, Wrong, WrongTensor
from paralign.locate.provenance.search.blamed import Order
from paralign.model import (
    Divergence,
    Finding,
    Point,
    SourceLine,
    StageResult,
)
from paralign.stages.backward.own_step_gradients import MULTIPLE, compare_gradients, other_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.provenance.search.blamed import Blamed
    from paralign.model import Pair
    from paralign.stages.backward.own_step_records import Steps
    from paralign.stages.common.judging import Method

#: rules of causes that name another stage to look at: what is known of a line says more
POINTERS = frozenset({"own_step/buffers", "own_step/gradients", "own_step/update"})

#: rule, cause and fix where an expression is at fault
_OTHER_RESULT = (
    "own_step/expression",
    "an expression of the candidate's training step makes something else than the reference's of the same values",
    "",
)
#: and where only the order is
_OTHER_ORDER = (
    "own_step/order",
    "the candidate's training step does the same things in another order",
    "move what the first line does to where the reference does it: before or after the update, or the clipping",
)

#: what is said where only that much is known: what both do there was not found to be the same
_OTHER_SIDE = {
    Order.AFTER_UPDATE: "the candidate's training step does something after the update where the reference does something before it",
    Order.BEFORE_UPDATE: "the candidate's training step does something before the update where the reference does something after it",
    Order.AFTER_CLIPPING: "the candidate's training step changes gradients after the clipping where the reference changes them before it",
    Order.BEFORE_CLIPPING: "the candidate's training step changes gradients before the clipping where the reference changes them after it",
}
_COMPARE = "compare what both do there; if it is the same, move it to where the reference does it"


def explain(part: StageResult, steps: Steps, method: Method) -> None:
    """What the steps differ in: the number of updates, or the gradients that reach them.

    With the line.
    """
    wrong = part.wrong[0]
    counts = [list(a.updates.get(run, ())) for a, run in zip(steps.answers, (method.reference_run, method.candidate_run), strict=True)]
    if counts[0] != counts[1]:
        step = next(n for n, (one, other) in enumerate(zip(*counts, strict=True)) if one != other)
        cause = f"the candidate's train_step makes {counts[1][step]} updates in step {step}, the reference's {counts[0][step]}"
        part.findings.append(Finding("own_step/updates", cause, "call optimizer.step() as often, and after as many batches", proven=True))
        part.divergence = divergence_at(steps, wrong, ".step(", "if ")
        return
    runs = method.reference_run, method.candidate_run
    first = compare_gradients(steps, runs, 0)
    if first is None:
        part.divergence = divergence_at(steps, wrong, ".step(")
        return
    if first.alike:
        _explain_later(part, steps, runs, wrong)
        return
    if first.factor is not None:
        clips = steps.context.clipping is not None  # one side's optimizer, by itself, so that other gradients may well reach it
        cause = f"the gradients that reach the first update are {first.factor:.6g} times the reference's"
        known = "a loss that is not divided by the number of accumulated batches, a scale that is not taken back, or clipping"
        part.findings.append(
            Finding("own_step/scale", cause, f"look for {known}", not clips, error_before=first.error, error_after=first.left)
        )
        part.divergence = divergence_at(steps, wrong, "clip" if first.factor < 1 else "backward(", "clip", "backward(")
        return
    part.findings.append(
        Finding(
            "own_step/gradients",
            "the gradients that reach the first update differ",
            "compare what is done to gradients between the backward pass and the update: clipping, scaling, freezing; "
            "first the stages forward and loss, where they are not aligned",
        )
    )
    part.divergence = divergence_at(steps, wrong, "clip", "backward(")


def trace(part: StageResult, steps: Steps) -> None:
    """Name the candidate's expression that made something wrong, where one is found."""
    tensors, results = [], []
    for pair in part.wrong:
        one, other = pair.reference, pair.candidate
        if one is None:
            continue
        if other is not None and one.role in ("parameter", "buffer"):
            tensors.append(WrongTensor(one.step or 0, one.name, other.name))
        elif one.name == "result":
            results.append(Returned(one.step or 0, one.leaf))
    wrong = Wrong(tensors, [] if tensors else results)
    blamed = own_steps.follow(steps.context, part.divergence, steps.given, wrong, steps.context.settings.steps)
    if blamed is not None:
        part.findings = [_of_expression(blamed), *(f for f in part.findings if f.proven or _leaves_open(blamed))]


def _of_expression(blamed: Blamed) -> Finding:
    """What is said of an expression that was found."""
    if blamed.order is None:
        return Finding(*_OTHER_RESULT)
    if blamed.is_same_work:
        return Finding(*_OTHER_ORDER)
    return Finding(_OTHER_ORDER[0], _OTHER_SIDE[blamed.order], _COMPARE)


def _leaves_open(blamed: Blamed) -> bool:
    """Whether another cause may be the right one."""
    return blamed.order is not None and not blamed.is_same_work


def _explain_later(part: StageResult, steps: Steps, runs: tuple[str, str], wrong: Pair) -> None:
    """Explain steps whose first gradients agree: the update, or gradients not cleared."""
    if _is_uncleared(steps, runs):
        cause = "from the second step on the candidate's gradients contain those of the steps before: they are not cleared"
        part.findings.append(
            Finding("own_step/uncleared", cause, "call optimizer.clear_grad() (zero_grad()) after every update", proven=True)
        )
        part.divergence = divergence_at(steps, wrong, "clear_grad", "zero_grad", ".step(")
        return
    step = other_batch(steps, runs)
    if step is not None:
        cause = f"the gradients of batch {step} differ, from equal parameters; those of the first batch do not show it"
        fix = (
            "compare the loss for what occurs in that batch and not in the first: padding, labels to be ignored, a rare class, soft "
            "labels whose sum is not one"
        )
        part.findings.append(Finding("own_step/gradients", cause, fix))
        part.divergence = divergence_at(steps, wrong, "backward(", "clip")
        return
    if all(_is_buffer(pair) for pair in part.wrong):
        cause = "the training step makes the same of every parameter; what layers keep (running statistics) differs"
        part.findings.append(Finding("own_step/buffers", cause, "look at the layers that keep it, such as BatchNorm's momentum"))
        part.divergence = divergence_at(steps, wrong)
        return
    part.findings.append(
        Finding(
            "own_step/update",
            "the gradients that reach the first update are equal, what it makes of them is not",
            "compare what the step does beside it: bounds, averages, a second update; of a setting that differs the stage optimizer tells",
        )
    )
    part.divergence = divergence_at(steps, wrong, optimizer=True)


def _is_buffer(pair: Pair) -> bool:
    """Whether a pair is what a layer keeps beside its parameters."""
    return pair.reference is not None and pair.reference.role == "buffer"


def _is_uncleared(steps: Steps, runs: tuple[str, str]) -> bool:
    """Whether the candidate's second gradients contain its first ones."""
    wanted, found = [], []
    first, second = steps.values("gradient", runs, 0), steps.values("gradient", runs, 1)
    for (_, _, here, there), (_, _, old, before) in zip(second, first, strict=False):
        if there is None or before is None or here.array.shape != old.array.shape:
            continue
        wanted.append(here.array)
        found.append(there.array - before.array)
    return bool(wanted) and _ratio_of(wanted, found) <= 100 * MULTIPLE


def _ratio_of(ones: list[Any], others: list[Any]) -> float:
    """How far values are from others, relative to their size; absolute where they have none."""
    one, other = (np.concatenate([np.asarray(v, np.float64).ravel() for v in side]) for side in (ones, others))
    size = float(np.linalg.norm(one))
    if not size:
        return float(np.linalg.norm(other))
    return float(np.linalg.norm(one - other)) / size


def divergence_at(steps: Steps, pair: Pair, *words: str, optimizer: bool = False) -> Divergence:
    """Both ends of a difference in ``train_step``.

    The first line with one of some words, in ``train_step`` or in the function that calls the update, else that call.
    """
    ends = []
    for answer in steps.answers:
        known = (_line_with(place, words) for place in (answer.defined, answer.line))
        line = answer.optimizer if optimizer else next(filter(None, known), None) or answer.line or answer.defined
        ends.append(Point("train_step", "", line, code_at(line)))
    return Divergence(ends[0], ends[1], pair)


def _line_with(defined: str | None, words: tuple[str, ...]) -> str | None:
    """The line of a function that has the first of some words that occurs in it.

    Where that line calls a helper of the same file that is named by the word and has it itself, the line is the helper's.
    """
    place = SourceLine.of(defined)
    if place is None:
        return None
    try:
        text = Path(place.file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [f for f in functions if f.lineno <= place.line <= (f.end_lineno or f.lineno)]
    if not around:
        return None
    inner = max(around, key=lambda f: f.lineno)
    helpers = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node is not inner}
    lines = text.splitlines()
    for word in words:
        found = _first_with(word, inner, lines)
        if found is not None:
            return str(place.at(_in_helper(word, found, inner, helpers, lines)))
    return None


def _first_with(word: str, function: ast.FunctionDef, lines: Sequence[str]) -> int | None:
    """The first line of a function's statements that has a word."""
    statements = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    first = statements[0].lineno if statements else function.lineno + 1
    behind = range(first, (function.end_lineno or function.lineno) + 1)
    return next((number for number in behind if word in lines[number - 1].partition("#")[0]), None)


def _in_helper(word: str, line: int, function: ast.FunctionDef, helpers: dict[str, ast.FunctionDef], lines: Sequence[str]) -> int:
    """The line of the helper that a line calls, where it has the word; else the line."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.lineno == line]
    for call in calls:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        helper = helpers.get(name) if word in name else None
        found = None if helper is None else _first_with(word, helper, lines)
        if found is not None:
            return found
    return line
