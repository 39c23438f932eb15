"""What a check leaves of each stage for later: its result, and what it depended on.

In ``stages/<stage>.json`` of the output folder.

``report.json`` holds the last check alone, which may have run one stage; these files stay until the same stage runs again.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.capture.bounds import Limit, checked_path, open_regular
from paralign.errors import CaptureFormatError, unwritten
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, SCHEMA, UNDERPOWERED
from paralign.registry import STAGES
from paralign.report.artifacts import FILES, Naming, names, replace
from paralign.run.toml import read_toml
from paralign.worker.process.files import ABSENT, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.model import CheckResult
    from paralign.run.project import Project, Settings

#: the folder of these files in an output folder
FOLDER = "stages"

#: a stage of 10,000 tensors has about 10 MB
LARGEST = Limit("PARALIGN_MAX_STAGE_FILE", 256 << 20, "bytes")

#: settings that change no verdict
IRRELEVANT = frozenset({"out", "stages", "timeout", "report", "output", "repair"})

#: which data are looked at: a result with other data stays a result with those
VARIED = frozenset({"data.split", "data.splits"})

#: stages that look at no data set, unless it gives the inputs
WITHOUT_DATA = frozenset({"weights", "forward", "init", "train", "infer"})

#: tables of a project file that more than the stage of their name depends on
SHARED = frozenset({"weights", "forward", "data"})

#: tables that bear no stage's name -> the stages that they concern
OWNERS = {"training": frozenset({"optimizer", "backward", "train"})}

#: hexadecimal digits of a setting's digest: enough to tell settings apart, too few to store a value
_DIGITS = 16

_TRAINING = re.compile("train", re.IGNORECASE)
_VERDICTS = frozenset({ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED})


@dataclass(frozen=True)
class Kept:
    """One stage's last result.

    Args:
        stage: its name.
        verdict: as in ``report.json``.
        made: when, in ISO 8601.
        version: of paralign.
        splits: of the data that the check was set to.
        strict: whether inherent differences counted as diverged.
        sides: reference and candidate as in ``report.json``.
        settings: dotted key of the project file -> digest of its value, of those that the stage depends on.
        files: path -> fingerprint of every file that the stage depended on.
        report: the stage as in ``report.json``.
        outputs: the guides' files that the check wrote of it, relative to the output folder -> fingerprint.
        split: of them the one that all stages but ``data`` took; '' in files of earlier versions.
    """

    stage: str
    verdict: str
    made: str
    version: str
    splits: list[str] = field(default_factory=list)
    strict: bool = False
    sides: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    split: str = ""


def is_training(splits: Sequence[str]) -> bool:
    """Whether all splits are of training data, by their names.

    >>> is_training(["train"]), is_training(["train", "val"]), is_training([])
    (True, False, False)
    """
    if not splits:
        return False
    return all(_TRAINING.search(split) for split in splits)


def splits_of(settings: Settings) -> list[str]:
    """The splits of the data that a project is set to."""
    several = getattr(settings, "splits", None)
    return list(several) if several else [settings.split]


def place(folder: Path, stage: str, splits: Sequence[str]) -> Path:
    """Where a stage is kept.

    Of ``data``, training data have a file of their own, since the guide has a step for each.
    """
    name = f"{stage}-train" if stage == "data" and is_training(splits) else stage
    return folder / FOLDER / f"{name}.json"


def invalidate(folder: Path, stages: Sequence[str], settings: Settings) -> None:
    """Remove what earlier checks kept of these stages.

    A check that is cut short must not leave their verdicts behind.

    Raises:
        WriteFailed: a file cannot be removed.
    """
    for stage in stages:
        path = place(folder, stage, splits_of(settings))
        try:
            path.unlink(missing_ok=True)
        except OSError as fault:
            raise unwritten(path, fault, "the result of an earlier check") from fault


@dataclass(frozen=True)
class Basis:
    """What a check begins with: the settings, and the files that it reads itself, by stage.

    Users edit both while it runs.
    """

    settings: dict[str, str]
    files: dict[str, dict[str, str]]


def basis(project: Project, stages: Sequence[str]) -> Basis:
    """The basis of a check that begins now.

    Raises:
        UsageError: the project file cannot be read.
    """
    return Basis(settings_of(project), {stage: _own_files(project, stage) for stage in stages})


def write(folder: Path, project: Project, result: CheckResult, begun: Basis, used: dict[str, dict[str, str]], *, strict: bool) -> None:
    """Keep every stage of a check.

    Args:
        folder: the output folder.
        project: what was checked.
        result: what it came to.
        begun: what it began with.
        used: stage -> path -> fingerprint of the files behind its captures.
        strict: whether inherent differences counted.

    Raises:
        WriteFailed: a file cannot be written.
    """
    try:
        (folder / FOLDER).mkdir(exist_ok=True)
    except OSError as fault:
        raise unwritten(folder / FOLDER, fault, "the folder") from fault
    report = result.to_dict()
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    splits = splits_of(project.settings)
    read = {stage: _lasting(files, project) for stage, files in used.items()}
    for stage in report["stages"]:
        name = str(stage["name"])
        kept = Kept(
            stage=name,
            verdict=stage["verdict"],
            made=now,
            version=__version__,
            splits=splits,
            strict=strict,
            sides={"reference": report["reference"], "candidate": report["candidate"]},
            settings={key: value for key, value in begun.settings.items() if concerns(key, name)},
            files={
                **read.get(name, {}),
                **read.get("", {}),
                **begun.files.get(name, {}),
            },  # as they were first: edited later, they are stale
            report=stage,
            outputs=_outputs(folder, project, result, name),
            split=project.settings.split,
        )
        text = json.dumps({"schema": SCHEMA, **asdict(kept)}, indent=1, ensure_ascii=True)
        replace(place(folder, name, splits), text + "\n")


def _lasting(files: dict[str, str], project: Project) -> dict[str, str]:
    """Files whose change makes a result stale.

    Not the listings of the folders that code lies in, which imports look at, too: a log or a note beside it changes nothing. Nor what a
    framework has written for itself elsewhere, read and removed.
    """
    roots = {project.folder.resolve(), project.reference.root.resolve(), project.candidate.root.resolve()}
    code = {str(folder) for folder in roots} | {str(side.module.resolve().parent) for side in (project.reference, project.candidate)}
    kept = {path: known for path, known in files.items() if path not in code}
    return {path: known for path, known in kept.items() if known == ABSENT or _below(path, roots) or fingerprint(path) != ABSENT}


def _below(path: str, roots: set[Path]) -> bool:
    return any(Path(path).is_relative_to(root) for root in roots)


def _outputs(folder: Path, project: Project, result: CheckResult, stage: str) -> dict[str, str]:
    """The guides' files of a stage that are there, with their fingerprints."""
    if stage not in FILES:
        return {}
    frameworks = [str(side.get("framework", "")) for side in (result.reference, result.candidate)]
    found = names(stage, frameworks[0], frameworks[1], Naming(project.settings.names))
    prints = {name: fingerprint(str(folder / name)) for name in (found.reference, found.candidate, found.log)}
    return {name: print_ for name, print_ in prints.items() if print_ is not None and print_ != ABSENT}


def _own_files(project: Project, stage: str) -> dict[str, str]:
    """Files that the check itself reads, or names: fingerprints by path."""
    paths = [project.reference.module, project.candidate.module]
    paths += [project.rules] if project.rules is not None else []
    for spec in (project.inputs, project.labels):
        paths += [project.folder / name for name in _file_names(spec)]
    if stage == "infer":
        paths += [Path(path) for path in project.settings.paths]
    if stage == "train":
        paths += [path for logs in project.settings.training.logs for path in logs]
    found = {str(path.resolve()): fingerprint(str(path.resolve())) for path in paths}
    return {path: print_ for path, print_ in found.items() if print_ is not None}


def _file_names(spec: Any) -> Iterator[str]:
    """The values of ``file`` in an ``[inputs]`` entry, however nested."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == "file" and isinstance(value, str):
                yield value
            else:
                yield from _file_names(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from _file_names(value)


def settings_of(project: Project) -> dict[str, str]:
    """Dotted key -> digest of every setting in a project's file.

    Values themselves may be secret.

    Raises:
        UsageError: the file cannot be read.
    """
    table = read_toml(project.path, "paralign.toml is no valid TOML")
    return {key: _digest(value) for key, value in sorted(_flat(table, "")) if key.partition(".")[0] not in IRRELEVANT}


def _flat(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


def concerns(key: str, stage: str) -> bool:
    """Whether a stage depends on a setting.

    Tables named after other stages do not concern it, but for those that all stages share.

    >>> concerns("infer.paths", "forward"), concerns("weights.mode", "forward"), concerns("tolerance.loss.atol", "forward")
    (False, True, False)
    """
    table, _, rest = key.partition(".")
    others = {each.name for each in STAGES} - {stage}
    if key in VARIED:
        return False
    if table == "tolerance" and rest.partition(".")[0] in others:
        return False
    if table in OWNERS:
        return stage in OWNERS[table]
    return table not in others or table in SHARED


def read(folder: Path, stage: str, *, training: bool = False) -> Kept | None:
    """What was kept of a stage in an output folder; None where nothing was.

    Raises:
        CaptureFormatError: the file is damaged, or a later version wrote it.
    """
    path = checked_path(place(folder, stage, ["train"] if training else []))
    if not path.is_file():
        return None
    with open_regular(path) as handle:
        data = handle.read(LARGEST.value + 1)
    LARGEST.check(len(data), "the file has at least", str(path), CaptureFormatError)
    try:
        content = json.loads(data.decode("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it holds no object")  # noqa: TRY004, TRY301 - told as the other damages are
        schema = content.pop("schema")
        kept = _checked(Kept(**content), stage)
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise CaptureFormatError(f"the result of the stage {stage} is damaged: {fault}", where=str(path), hint=_again(stage)) from fault
    if schema != SCHEMA:
        raise CaptureFormatError(f"schema {schema} is not one that this version reads", where=str(path), hint=_again(stage))
    return kept


def seconds(folder: Path, stage: str) -> float | None:
    """How long a stage took last time; None where nothing readable was kept of it."""
    try:
        kept = read(folder, stage)
        return None if kept is None else float(kept.report["seconds"]["total"])
    except (CaptureFormatError, KeyError, TypeError, ValueError):
        return None  # it is made anew anyhow


def _again(stage: str) -> str:
    return f"run the stage again: paralign check DIR {stage}"


def _checked(kept: Kept, stage: str) -> Kept:
    """The same, where every field has its type.

    Raises:
        ValueError: one has not.
    """
    texts = (kept.stage, kept.verdict, kept.made, kept.version, kept.split)
    tables = (kept.sides, kept.settings, kept.files, kept.report, kept.outputs)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("a field has another type")
    if kept.stage != stage or kept.verdict not in _VERDICTS or kept.report.get("verdict") != kept.verdict:
        raise ValueError("it is not this stage's, or its verdict is none")
    if not all(isinstance(value, str) for table in (kept.settings, kept.files, kept.outputs) for value in table.values()):
        raise ValueError("a fingerprint is no text")
    report = kept.report
    lists = ("pairs", "divergences", "findings", "notes", "warnings", "coverage", "follows")
    if not all(isinstance(report.get(name, []), list) for name in lists) or not all(isinstance(split, str) for split in kept.splits):
        raise ValueError("a list of its report is none")
    if not all(isinstance(report.get(name), (dict, type(None))) for name in ("divergence", "failure")):
        raise ValueError("an object of its report is none")
    return kept


def changed(kept: Kept, current: dict[str, str], settings: Settings) -> list[str]:
    """What a stage depended on that is not as it was: settings by key, files by path.

    Args:
        kept: the stage's last result.
        current: the project's settings now, as :func:`settings_of` gives them.
        settings: the same, read; training and other data do not make one another's results stale.
    """
    now = {key: value for key, value in current.items() if concerns(key, kept.stage)}
    keys = [f"setting {key}" for key in sorted(now.keys() | kept.settings.keys()) if now.get(key) != kept.settings.get(key)]
    if _takes_other_data(kept, current, settings):
        keys.append("setting data.split")
    return keys + [path for path, known in sorted(kept.files.items()) if fingerprint(path) != known]


def _takes_other_data(kept: Kept, current: dict[str, str], settings: Settings) -> bool:
    """Whether the project names data now that a stage has not seen.

    Data of the other kind, training or not, are another step's.
    """
    if kept.stage == "data" or not kept.split:
        kinds = {is_training([split]) for split in kept.splits}
        return any(split not in kept.splits and is_training([split]) in kinds for split in splits_of(settings))
    fed = any(value == _digest("dataloader") for key, value in current.items() if key.partition(".")[0] in ("inputs", "labels"))
    if kept.stage in WITHOUT_DATA and not fed:
        return False
    return kept.split != settings.split and is_training([kept.split]) == is_training([settings.split])
