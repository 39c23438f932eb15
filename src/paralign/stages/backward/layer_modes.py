"""Layers that one side trains in train mode and the other in eval mode.

A frozen BatchNorm, a model left in eval mode after an evaluation, a ``train`` of a layer's own that nobody calls.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from paralign.errors import WorkerFailed
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import DIVERGED, Divergence, Finding, Point, SourceLine
from paralign.worker.protocol import LayerModes, OwnSteps
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.worker.protocol import LayerMode, LayerModesTold

#: layers that are named
NAMED = 3

#: share of the outputs' distance that rounding may leave once the modes are the same: float32's is a ten-thousandth of what BatchNorm makes
GONE = 1e-3

#: share that a cause among others leaves at most
LESS = 0.5

#: the artifact with both sides' captures
_MODES = "layer modes"


def explain(context: Context, result: StageResult) -> None:
    """Say which layers are in which mode, where that makes the training steps differ.

    It is tried: the candidate's layers are put into the reference's modes, and the model's outputs must come nearer.
    """
    if result.verdict != DIVERGED or context.inputs is None or context.plan is None or any(f.proven for f in result.findings):
        return
    for step in (True, False):
        possible = context.has_both("train_step") and context.labels is not None if step else "train" in context.modes
        if not possible:
            continue
        try:
            if _explained(context, result, step=step):
                return
        except WorkerFailed:  # a step that takes no inputs of the check: the model alone is asked
            continue


def say_unset(context: Context, result: StageResult) -> None:
    """Note where one side's step alone calls ``train()``: the check does so for both."""
    if "own steps" not in context.artifacts:
        return
    answers = [OwnSteps.answer(capture) for capture in context.artifacts["own steps"]]
    sets = [_sets_train_mode(answer.defined) for answer in answers]
    if None in sets or sets[0] == sets[1]:
        return
    having, lacking = ("reference", "candidate") if sets[0] else ("candidate", "reference")
    result.notes.append(
        f"train_step of the {having} calls model.train(), that of the {lacking} does not: the check puts both models into train mode; "
        "see that its own training loop does so too after each evaluation"
    )


def _sets_train_mode(defined: str | None) -> bool | None:
    """Whether a step calls ``train()`` of its model; None where its source does not tell."""
    step = _function_at(SourceLine.of(defined))
    if step is None or not step.args.args:
        return None
    model = step.args.args[0].arg
    plain = set()
    for node in ast.walk(step):
        if isinstance(node, ast.Attribute):
            plain.add(id(node.value))
        elif isinstance(node, ast.Call):
            plain.add(id(node.func))
            if _is_method(node.func, model, "train"):
                return True
    handed = [n for n in ast.walk(step) if isinstance(n, ast.Name) and n.id == model and id(n) not in plain]
    return None if handed else False  # a function that is given the model, or another name of it, may call it


def _function_at(place: SourceLine | None) -> ast.FunctionDef | None:
    """The function that begins at a line of a file; None where it cannot be read."""
    if place is None:
        return None
    try:
        tree = ast.parse(Path(place.file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return next((each for each in functions if _first_line(each) == place.line), None)


def _is_method(called: ast.expr, owner: str, name: str) -> bool:
    """Whether what is called is a method of what a name stands for."""
    if not isinstance(called, ast.Attribute) or called.attr != name:
        return False
    return isinstance(called.value, ast.Name) and called.value.id == owner


def _first_line(function: ast.FunctionDef) -> int:
    """The line that Python says a function begins in: that of its first decorator."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _explained(context: Context, result: StageResult, *, step: bool) -> bool:
    """Whether modes explain what differs."""
    order = LayerModes([DOUBLE, NATIVE], step)
    values = {name: capture for name, capture in (("inputs", context.inputs), ("labels", context.labels)) if capture is not None}
    captures = context.record_both(_MODES, order, values)
    answers = LayerModes.answer(captures[0]), LayerModes.answer(captures[1])
    differing = _differing(context, *answers)
    if not differing:
        return False
    force = {theirs.name: ours.trains for ours, theirs in differing}
    tried = context.candidate.record("layer modes forced", LayerModes([DOUBLE, NATIVE], step, force), values)
    before, after = _apart(captures[0], captures[1]), _apart(captures[0], tried)
    if before is None or after is None or not after <= LESS * before:
        return False
    finding = _finding(context, differing, answers[1], step=step)
    finding.proven = after <= GONE * before
    finding.error_before, finding.error_after = before, after
    result.findings = [finding] if finding.proven else [finding, *result.findings]
    if finding.proven:
        _point(result, differing[0], answers)
    return True


def _differing(context: Context, ours: LayerModesTold, theirs: LayerModesTold) -> list[tuple[LayerMode, LayerMode]]:
    """Counterparts that are in different modes, in the order of their calls."""
    known = {layer.name: layer for layer in theirs.layers}
    counterparts = _counterparts(context)
    found = []
    for layer in ours.layers:
        other = known.get(counterparts.get(layer.name, layer.name))
        if other is not None and other.trains != layer.trains:
            found.append((layer, other))
    return found


def _counterparts(context: Context) -> dict[str, str]:
    """The reference's layers that hold tensors -> the candidate's layer with the same ones."""
    found: dict[str, str] = {}
    if context.plan is None:
        return found
    for source in context.plan.sources:
        for target in context.plan.candidates_of(source.name):
            found.setdefault(source.name.rpartition(".")[0], target.name.rpartition(".")[0])
    return found


def _apart(reference: Capture, candidate: Capture) -> float | None:
    """The distance of the model's outputs, relative L2; None where shapes differ."""
    ends = [{r.leaf: r for r in c.select(name="output") if r.location is not None} for c in (reference, candidate)]
    if not ends[0] or len(ends[0]) != len(ends[1]):
        return None
    total = size = 0.0
    for one, other in zip(ends[0].values(), ends[1].values(), strict=True):
        values = [c.array(r).astype(np.complex128) for c, r in ((reference, one), (candidate, other))]
        if values[0].shape != values[1].shape:
            return None
        total += float(np.sum(np.abs(values[0] - values[1]) ** 2))
        size += float(np.sum(np.abs(values[0]) ** 2))
    if size and np.isfinite(total):
        return float(np.sqrt(total / size))
    return None


def _finding(context: Context, differing: Sequence[tuple[LayerMode, LayerMode]], theirs: LayerModesTold, *, step: bool) -> Finding:
    trains = differing[0][0].trains
    alike = [pair for pair in differing if pair[0].trains == trains]
    names = ", ".join(f"{theirs.name} ({theirs.op})" for _, theirs in alike[:NAMED])
    more = f" and {len(alike) - NAMED} more" if len(alike) > NAMED else ""
    when = "in the training step" if step else "in a pass in train mode"
    modes = ("train", "eval") if trains else ("eval", "train")
    cause = f"{when} these layers are in {modes[1]} mode in the candidate and in {modes[0]} mode in the reference: {names}{more}"
    uncalled = next(
        (line for path, line in theirs.overrides.items() for _, layer in alike if f"{layer.name}.".startswith(f"{path}.")), None
    )
    if uncalled is not None:
        framework = context.framework("candidate")
        fix = f"{framework} does not call a layer's own train(), here {uncalled}: override train() of the whole model, which calls it"
        return Finding("backward/layer-modes", cause, fix)
    fix = f"put them into {modes[0]} mode there, as the reference does"
    return Finding("backward/layer-modes", cause, fix)


def _point(result: StageResult, first: tuple[LayerMode, LayerMode], answers: tuple[LayerModesTold, LayerModesTold]) -> None:
    """Point at the lines that set the modes, or at where the step is defined that does not."""
    known = result.divergence
    ends = (None, None) if known is None else (known.reference, known.candidate)
    points = []
    for layer, told, end in zip(first, answers, ends, strict=True):
        line = _mode_line(layer, told, end)
        points.append(Point(layer.name, layer.op, line, code_at(line)))
    result.divergence = Divergence(points[0], points[1], None if known is None else known.pair)


def _mode_line(layer: LayerMode, told: LayerModesTold, end: Point | None) -> str | None:
    """The line that sets a layer's mode, else where the step is defined, else what is known."""
    own = next((line for path, line in told.overrides.items() if f"{layer.name}.".startswith(f"{path}.")), None)
    known = None if end is None else end.source
    if own or layer.line:
        return own or layer.line
    if end is not None and end.name == layer.name:
        return known
    return told.defined or known
