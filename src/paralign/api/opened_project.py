"""Both sides of a project, opened for what is no check."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.api.output_folder import make_folders
from paralign.checking import UNCARRIED, describe, given_tensors, sides
from paralign.conversion import layers, plain
from paralign.errors import WorkerFailed
from paralign.locate.gradients.asked import asked
from paralign.model import DIVERGED, CheckResult
from paralign.registry import BY_NAME
from paralign.run.project import read
from paralign.stages import run as run_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.context import Context
    from paralign.conversion.layers import Layers


@contextmanager
def opened(directory: str | Path) -> Iterator[Context]:
    """Both sides of a project, described and with inputs and labels, for what is no check.

    Nothing is kept.

    Raises:
        UsageError: the project file is wrong.
        WorkerFailed: a side does not start.
    """
    project = read(Path(directory))
    with tempfile.TemporaryDirectory(prefix="paralign-") as name:
        folder = Path(name)
        make_folders(folder, "workers", "captures")
        try:
            with sides(project, folder, fresh=True) as context:
                describe(context, CheckResult(), None)
                context.inputs, context.labels = given_tensors(project, context, folder)
                yield context
        except WorkerFailed as failure:
            raise without_log(failure) from failure


def gradient_of(directory: str | Path, what: str, mode: str = "eval", progress: Callable[[str], None] = lambda _: None) -> CheckResult:
    """Both sides' gradients of what is named, and where the backward passes part.

    Nothing is kept.

    Args:
        directory: of a project.
        what: a parameter, a module, ``file.py:12``, ``outputs`` or ``loss``, as either side calls it.
        mode: ``eval``, or ``train`` with what is random switched off.
        progress: is told what is done.

    Raises:
        UsageError: the project file is wrong, or neither side has what is named.
        WorkerFailed: a side fails.
    """
    progress("starting both sides")
    with opened(directory) as context:
        progress("weights")
        result = CheckResult([run_stage(BY_NAME["weights"], context)])
        if context.plan is None:
            return result
        progress(f"gradients of {what}")
        stage = asked(context, what, mode)
        stage.warnings += [UNCARRIED] if result.stages[0].verdict == DIVERGED else []
    return CheckResult([stage.list_first()])


def trained_layers(
    directory: str | Path,
    reference: str | Path,
    candidate: str | Path,
    *,
    again: str | Path | None = None,
    within: str | None = None,
    strip: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Layers:
    """What the layers of two trained models give on the same inputs.

    Each model has the weights of its own file.

    Args:
        directory: of a project, whose sides build the models.
        reference: a checkpoint of the reference's model.
        candidate: one of the candidate's.
        again: another of the reference's, of a training under another seed: what seeds alone do.
        within: as in :func:`convert_weights`.
        strip: as in :func:`convert_weights`.
        progress: is told what is done.

    Raises:
        UsageError: the project has no inputs, or a file lacks a parameter of its model.
        WorkerFailed: a side fails.
    """
    files = [plain.opened(path, within, strip) for path in (reference, candidate, *([again] if again else []))]
    progress("starting both sides")
    with opened(directory) as context:
        progress("running both models")
        return layers.compare(context, files[0], files[1], files[2] if again else None)


def without_log(failure: WorkerFailed) -> WorkerFailed:
    """A failure that tells its frames itself: its log goes with the folder."""
    told = "".join(f"\n  {frame}" for frame in failure.frames)
    return WorkerFailed(failure.type, failure.message + told, side=failure.side, frames=failure.frames)
