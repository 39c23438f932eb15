"""A check of two sides that live in this process."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.api.arguments import admit, rules_of
from paralign.api.output_folder import check_folder
from paralign.checking import run_stages
from paralign.context import Context
from paralign.errors import UsageError
from paralign.model import CheckResult, Side, Tolerance
from paralign.report import artifacts, notebook, page
from paralign.run import inputs as tensors
from paralign.run.live import Live, functions_of, untouched_process
from paralign.run.pace import pace_of
from paralign.run.project import DEFAULTS, Settings, check_stages
from paralign.run.recorder import Recorder
from paralign.run.trainings import Trainings
from paralign.run.turns import turn

if TYPE_CHECKING:
    from paralign.weights import Rules


def check(
    reference: Side,
    candidate: Side,
    *,
    inputs: Any = None,
    labels: Any = None,
    stages: list[str] | None = None,
    weights: str = "copy",
    rules: Rules | str | Path | None = None,
    seed: int = 0,
    steps: int = 3,
    ratio: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    strict: bool = False,
    paths: list[str] | None = None,
    training: Trainings | None = None,
    schedule: dict[str, Any] | None = None,
    second_gradients: bool = False,
    out: str | Path | None = None,
) -> CheckResult:
    """Check a port whose two sides live in this process.

    Args:
        reference: what is trusted.
        candidate: the port.
        inputs: a numpy array, a tuple (positional) or dict (keyword) of them; handed to each side as its own tensors.
        labels: the same for ``loss(outputs, labels)`` and ``metric(outputs, labels)``.
        stages: names of stages; None for all but ``init``, ``train`` and ``distributed`` that the sides have functions for.
        weights: ``copy`` (the reference's are carried over first) or ``as-is``.
        rules: where weights go, before all that paralign finds out by itself: rules, or a file of them (docs/project.md).
        seed: what both sides are seeded with.
        steps: training steps of the backward stage.
        ratio: greatest error ÷ noise that counts as aligned; None for the method's own.
        atol: absolute tolerance, only where wanted; with ``rtol`` it replaces error ÷ noise.
        rtol: relative tolerance, as ``atol``.
        strict: let inherent differences between frameworks diverge.
        paths: files for ``predict``.
        training: how the stage ``train`` trains; None for the defaults.
        schedule: how long the training is and how it goes: the keys of ``[training]`` that docs/optimizer.md lists.
        second_gradients: also compare the gradient of the loss's gradient with respect to the inputs.
        out: folder for the captures, the report and the guides' files; None keeps nothing.

    Returns:
        The result; models, optimizers, schedules and random states are afterwards as they were before (docs/project.md says what is not).

    Raises:
        UsageError: an unknown stage, no stage, or an argument of the wrong kind; or another check runs in a thread of this process that
            itself waits, perhaps for this one.

    Example:
        >>> import numpy as np
        >>> from paralign import Side, check
        >>> double = lambda x: 2 * x
        >>> port = Side(framework="numpy", model=lambda x: x + x)
        >>> result = check(Side(framework="numpy", model=double), port, inputs=np.ones((2, 3)) / 3, stages=["forward"])
        >>> result["forward"].pairs[0].stats.mismatched
        0
    """
    sides = {"reference": reference, "candidate": candidate}
    admit(sides, weights, stages)
    for what, value, least in (("ratio", ratio, 0), ("atol", atol, 0), ("rtol", rtol, 0), ("steps", steps, 1), ("seed", seed, 0)):
        if value is not None and not value >= least:
            raise UsageError(f"{what} must be at least {least}, not {value}")
    settings = Settings(
        seed=seed,
        steps=steps,
        weights=weights,
        rules=rules_of(rules),
        strict=strict,
        paths=list(paths or []),
        second_gradients=second_gradients,
        training=training or Trainings(),
        pace=pace_of(schedule or {}, "schedule:"),
        tolerance={"": Tolerance(ratio, atol, rtol)},
    )
    names = check_stages(list(DEFAULTS) if stages is None else stages)
    return _check_live(sides, settings, names, {"inputs": inputs, "labels": labels}, out)


def _check_live(
    sides: dict[str, Side], settings: Settings, names: list[str], values: dict[str, Any], out: str | Path | None
) -> CheckResult:
    """Run the stages on sides that live in this process, and write the report if wanted.

    It is written where a folder is named.
    """
    with turn(), untouched_process(), check_folder(out) as folder, ExitStack() as stack:
        recorders = {
            name: Recorder(name, partial(Live, name, side, seed=settings.seed), folder / "captures" / name, {})
            for name, side in sides.items()
        }
        for recorder in recorders.values():
            stack.callback(recorder.close)
        context = Context(recorders["reference"], recorders["candidate"], settings)
        about = {name: sorted(functions_of(side, list)) for name, side in sides.items()}
        given = {name: tensors.save(folder / "captures" / name, name, value) for name, value in values.items() if value is not None}
        told = stack.enter_context(notebook.under_way(steps=names))
        result = run_stages(context, names, told, lambda: (given.get("inputs"), given.get("labels")), about)
        if out is not None:
            artifacts.write(result, context.artifacts, folder)
            page.write(folder, result, Path.cwd(), context.artifacts)
    return result
