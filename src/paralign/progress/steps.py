"""The guide's twelve steps and six checkpoints, and how far a port has come with each."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import near
from paralign.compat.reprod_log import read_diff_log
from paralign.errors import CaptureFormatError, UsageError, quoted
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED
from paralign.progress import kept as keeping
from paralign.progress.evidence import Evidence, look
from paralign.registry import BY_NAME
from paralign.report.artifacts import FILES, Naming, names
from paralign.report.text import place as shown_place
from paralign.run.project import read as read_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.progress.kept import Kept
    from paralign.run.project import Project


class State(Enum):
    """How far a step has come; the first that occurs among its stages is the step's."""

    ERROR = "error"
    DIVERGED = "diverged"
    STALE = "stale"
    UNDERPOWERED = "underpowered"
    NOT_TESTED = "not tested"
    OPEN = "open"
    DONE = "done"
    LEFT_OUT = "left out"


#: exit code of the command by state; the first in the order of :class:`State` decides
CODES = {State.ERROR: 3, State.DIVERGED: 1, State.DONE: 0, State.LEFT_OUT: 0}
#: ... and of all others: nothing can be concluded yet
UNFINISHED = 4

_OF_VERDICT = {ALIGNED: State.DONE, DIVERGED: State.DIVERGED, ERROR: State.ERROR, UNDERPOWERED: State.UNDERPOWERED}


@dataclass(frozen=True)
class Step:
    """A step of the guide.

    Args:
        number: the guide's section.
        title: in English and Chinese.
        stages: those that judge it.
        checkpoint: number of the checkpoint that it is, 0 for none.
        training: of ``data``, whether the training data are meant.
    """

    number: str
    title: dict[str, str]
    stages: tuple[str, ...]
    checkpoint: int = 0
    training: bool = False


#: the steps of the reproduction guide for computer vision, sections 3.1 to 3.12
STEPS = (
    Step("3.1", {"en": "model structure", "zh": "模型结构对齐"}, ("weights", "forward"), 1),
    Step("3.2", {"en": "small data set, validation data", "zh": "准备小数据集、验证集数据读取对齐"}, ("data",), 2),
    Step("3.3", {"en": "metric", "zh": "评估指标对齐"}, ("metric",), 3),
    Step("3.4", {"en": "loss", "zh": "损失函数对齐"}, ("loss",), 4),
    Step("3.5", {"en": "optimizer", "zh": "优化器部分对齐"}, ("optimizer",)),
    Step("3.6", {"en": "backward", "zh": "反向对齐"}, ("backward",), 5),
    Step("3.7", {"en": "training data", "zh": "训练集数据读取对齐"}, ("data",), training=True),
    Step("3.8", {"en": "initialisation", "zh": "网络初始化对齐"}, ("init",)),
    Step("3.9", {"en": "training", "zh": "模型训练对齐"}, ("train",), 6),
    Step("3.10", {"en": "training log", "zh": "规范训练日志"}, ()),
    Step("3.11", {"en": "prediction", "zh": "预测程序开发"}, ("infer",)),
    Step("3.12", {"en": "several cards", "zh": "单机多卡训练"}, ("distributed",)),
)


@dataclass
class StageStatus:
    """How far one stage of a step has come.

    Args:
        stage: its name.
        state: how far.
        kept: what the last check left; None where it was never checked.
        changed: what is not as it was then.
        log: what a log of differences says that no check wrote; '' where there is none.
    """

    stage: str
    state: State
    kept: Kept | None = None
    changed: list[str] = field(default_factory=list)
    log: str = ""


@dataclass
class StepStatus:
    """How far a step has come.

    Args:
        step: which.
        state: the most pressing of its stages'.
        stages: one by one.
        why: a line about it.
        command: what to run next; '' where nothing is left to do.
        evidence: of the step about logs.
    """

    step: Step
    state: State
    stages: list[StageStatus] = field(default_factory=list)
    why: str = ""
    command: str = ""
    evidence: Evidence | None = None


@dataclass
class Status:
    """How far a port has come with everything."""

    project: Project
    folder: Path
    steps: list[StepStatus]

    @property
    def checkpoints(self) -> list[StepStatus]:
        """The steps that are checkpoints, in their order."""
        return sorted((each for each in self.steps if each.step.checkpoint), key=lambda each: each.step.checkpoint)

    @property
    def next(self) -> StepStatus | None:
        """The first step that has something left to do."""
        for each in self.steps:
            if each.state not in (State.DONE, State.LEFT_OUT):
                return each
        return None

    @property
    def code(self) -> int:
        """The exit code: 0 where every step is done."""
        return CODES.get(most_pressing([each.state for each in self.steps]), UNFINISHED)


def most_pressing(states: Sequence[State]) -> State:
    """The state that a whole has whose parts are in these; ``LEFT_OUT`` of nothing."""
    return min(states, key=list(State).index, default=State.LEFT_OUT)


def status(directory: str | Path, *, out: str | Path | None = None, without: Sequence[str] = ()) -> Status:
    """How far the port of a project has come; nothing is run.

    Args:
        directory: the folder of ``paralign.toml``.
        out: output folder; None for the project file's.
        without: steps that the port does not need, by number (``3.12``) or by stage (``train``).

    Raises:
        UsageError: the project file is wrong, or a step is unknown.
        CaptureFormatError: what a check left is damaged.
    """
    project = read_project(Path(directory))
    folder = (Path(out) if out is not None else project.out).resolve()
    if folder.is_file():
        raise UsageError("the output folder is a file", where=str(folder), hint="name the folder that a check wrote: --result")
    if out is not None and not folder.is_dir():
        raise UsageError(f"there is no such folder{near(out)}", where=str(out), hint="name the folder that a check wrote: --result")
    left_out = _numbers(without)
    current = keeping.settings_of(project)
    steps = []
    for step in STEPS:
        found = _of_logs(step, project, folder) if not step.stages else _of_stages(step, project, folder, current)
        if step.number in left_out:
            found.state, found.why, found.command = State.LEFT_OUT, "left out by --without", ""
        place = shlex.quote(str(directory)) + ("" if out is None else f" --out {shlex.quote(str(out))}")
        found.command = found.command.replace("DIR", place)
        steps.append(found)
    return Status(project, folder, steps)


def _numbers(without: Sequence[str]) -> set[str]:
    """The numbers of the steps that are named by number or stage.

    Raises:
        UsageError: there is no such step.
    """
    found = set()
    for name in without:
        steps = [step.number for step in STEPS if name == step.number or name in step.stages or (name == "log" and not step.stages)]
        if not steps:
            known = ", ".join(f"{step.number} ({', '.join(step.stages) or 'log'})" for step in STEPS)
            raise UsageError(f"there is no step {quoted(name)}", where="--without", hint=f"name one of: {known}")
        found.update(steps)
    return found


def _of_stages(step: Step, project: Project, folder: Path, current: dict[str, str]) -> StepStatus:
    """A step that stages judge."""
    stages, absent = [], []
    for name in step.stages:
        if name in BY_NAME:
            stages.append(_of_stage(name, step, project, folder, current))
        else:
            absent.append(name)
    state = most_pressing([each.state for each in stages] + [State.OPEN] * len(absent))
    found = StepStatus(step, state, stages)
    if absent:
        found.why = f"this version of paralign has no stage {' or '.join(absent)}"
        return found
    pressing = next(each for each in stages if each.state is state)
    found.why = _why(pressing, project)
    if state is not State.DONE:
        left = [each.stage for each in stages if each.state is not State.DONE]
        found.command = f"paralign check DIR {' '.join(left)}"
        if step.training and not _looks_at_training(project):
            found.why = found.why or '[data] names no training data: set splits = ["val", "train"]'
    return found


def _of_stage(name: str, step: Step, project: Project, folder: Path, current: dict[str, str]) -> StageStatus:
    """One stage: what was kept of it, and whether that still holds."""
    kept = _latest(folder, name) if step.training else keeping.read(folder, name)
    if kept is None:
        return StageStatus(name, State.OPEN, log="" if step.training else _own_log(name, folder))
    changed = keeping.changed(kept, current, project.settings)
    known = _OF_VERDICT.get(kept.verdict, State.NOT_TESTED)
    return StageStatus(name, State.STALE if changed and known is not State.NOT_TESTED else known, kept, changed)  # nothing to be outdated


def _own_log(name: str, folder: Path) -> str:
    """What a log of the user's own scripts says of a stage, in either naming.

    It is evidence, but no verdict of ours.
    """
    if name not in FILES:
        return ""
    for naming in Naming:
        path = folder / names(name, "torch", "", naming).log
        if path.is_file():
            try:
                passed = read_diff_log(path).passed
            except CaptureFormatError:
                continue  # another file of that name
            told = {True: "passed", False: "failed", None: "compares nothing"}[passed]
            return f"{path.name} {told}, but no check has run"
    return ""


def _latest(folder: Path, name: str) -> Kept | None:
    """The last result that looked at training data.

    Of a check of its own, or of one over several splits.
    """
    found = [keeping.read(folder, name, training=training) for training in (True, False)]
    fitting = [kept for kept in found if kept is not None and any(keeping.is_training([split]) for split in kept.splits)]
    return max(fitting, key=lambda kept: kept.made, default=None)


def _looks_at_training(project: Project) -> bool:
    return any(keeping.is_training([split]) for split in keeping.splits_of(project.settings))


def _why(found: StageStatus, project: Project) -> str:
    """A line about the state of a stage."""
    kept = found.kept
    if kept is None:
        return found.log
    if found.state is State.STALE:
        more = f" and {len(found.changed) - 1} more" if len(found.changed) > 1 else ""
        return f"{kept.stage} was {kept.verdict}; since then changed: {Path(found.changed[0]).name}{more}"
    report = kept.report
    if found.state is State.DIVERGED:
        return f"{kept.stage}: {_where(report, project)}"
    if found.state is State.ERROR:
        failure = report.get("failure") or {}
        failed = f"{kept.stage}: the {failure.get('side', 'side')} failed: {failure.get('type', '')}: {failure.get('message', '')}"
        return _from_project(failed, project)
    if found.state is State.DONE:
        return ""
    weak = [pair for pair in report.get("pairs") or [] if pair.get("verdict") == kept.verdict and pair.get("notes")]
    told = [*(report.get("warnings") or []), *(f"{pair['key']}: {'; '.join(pair['notes'])}" for pair in weak), *(report.get("notes") or [])]
    return f"{kept.stage}: {told[0]}" if told else kept.stage


def _where(report: dict[str, object], project: Project) -> str:
    """Where a diverged stage says that it starts, by its own line or its tensor."""
    divergence = report.get("divergence")
    point = divergence.get("candidate") or divergence.get("reference") if isinstance(divergence, dict) else None
    source = point.get("source") or point.get("name") if isinstance(point, dict) else None
    return f"starts at {_from_project(str(source), project)}" if source else f"worst: {report.get('worst')}"


def _from_project(text: str, project: Project) -> str:
    """A text with the paths below the project's folder as they are from there."""
    return text.replace(f"{project.folder.resolve()}{os.sep}", "")


def _of_logs(step: Step, project: Project, folder: Path) -> StepStatus:
    """The step about logs of trainings: what the files beside the candidate's code show."""
    named = project.settings.training.logs[1]
    found = look([project.candidate.root], without=[folder, _reference_root(project)], named=named)
    status = StepStatus(step, State.DONE if found.complete else State.OPEN, evidence=found)
    if found.path is None:
        status.why = "no log of a training lies below the candidate's folder"
        status.command = "write one with paralign.trainlog.TrainLog, then: paralign log show FILE"
    elif found.lacking:
        status.state = State.UNDERPOWERED
        status.why = f"{found.path.name} does not tell: {', '.join(found.lacking)}"
        status.command = f"paralign log show {shlex.quote(shown_place(found.path))}"
    else:
        status.why = f"{found.path.name}: {found.rows} training steps, {found.evaluations} evaluations"
    return status


def _reference_root(project: Project) -> Path:
    """The reference's folder, unless the candidate's lies in it."""
    root, other = project.reference.root.resolve(), project.candidate.root.resolve()
    if other == root or root in other.parents:
        return project.out
    return root
