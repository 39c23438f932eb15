"""Read ``paralign.toml``: the two sides, their inputs, the stages, the tolerances."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.adapters.finding import known
from paralign.capture.bounds import checked_path, near
from paralign.errors import EnvironmentUnavailable, UsageError, did_you_mean, quoted
from paralign.model import Tolerance
from paralign.registry import BY_NAME
from paralign.remote import is_remote
from paralign.run import distribution, pace, trainings
from paralign.run.command_line import split
from paralign.run.toml import read_toml
from paralign.worker.datasets.whole import PATIENCE

if TYPE_CHECKING:
    from paralign.run.kinds_of_inputs import Kind

FILE = "paralign.toml"

#: the stages of this release, in the order in which they run
STAGES = tuple(BY_NAME)

#: those that run where none is named
DEFAULTS = tuple(name for name, stage in BY_NAME.items() if stage.default)

_SIDE = {"checkpoint": str, "module": str, "root": str, "framework": str, "python": str, "device": str, "env": dict}
_TENSOR = {
    "shape": list,
    "dtype": str,
    "distribution": str,
    "seed": int,
    "low": (int, float),
    "high": (int, float),
    "mean": (int, float),
    "std": (int, float),
    "file": str,
    "source": str,
}
_TABLES: dict[str, dict[str, Any]] = {
    "model": {"streaming": bool, "blocks": str, "sample": int, "jobs": int, "free_running": bool, "engine": str},
    "reference": _SIDE,
    "candidate": _SIDE,
    "data": {"split": str, "splits": list, "samples": int, "batches": int, "most": int, "limit": int, "manifest": (str, dict)},
    "infer": {"paths": list, "reference_command": str, "candidate_command": str, "lines": str, "pictures": int, "operators": int},
    "loss": {"second_gradients": bool},
    "init": {"seeds": int},
    "distributed": distribution.KEYS,
    "backward": {"steps": int, "modes": list},
    "training": {**trainings.KEYS, **pace.KEYS},
    "forward": {"modules": str},
    "weights": {"mode": str, "rules": str},
    "report": {"diff_threshold": (int, float)},
    "repair": {"seconds": (int, float)},
    "output": {"names": str, "keep": str},
    "tolerance": {"ratio": (int, float), "atol": (int, float), "rtol": (int, float), **dict.fromkeys(STAGES, dict)},
}
_TOP = {"out": str, "stages": list, "seed": int, "timeout": (int, float), "inputs": (dict, list), "labels": (dict, list)}


@dataclass
class SideSettings:
    """One side as the project file describes it; paths are absolute.

    ``checkpoint``: where the weights of a model that is streamed lie; ``elsewhere``: the URL of these, where they lie on no disk of this
    machine. ``unit``: the part of it that is served as the model, '' for all of
    it; ``blocks``: the list of its blocks, '' for the likeliest.
    """

    module: Path
    root: Path
    framework: str = ""
    python: str = sys.executable
    device: str = "cpu"
    env: dict[str, str] = field(default_factory=dict)
    checkpoint: Path | None = None
    unit: str = ""
    blocks: str = ""
    elsewhere: str = ""


#: what starts the units of a streamed check
LOCAL, RAY = "local", "ray"


@dataclass(frozen=True)
class Streaming:
    """``[model]``: whether the model runs block by block, and which list has its blocks.

    ``sample``: how many more than one of each kind are run. ``jobs``: units that are checked at a time. ``free_running``: run each side
    through all of its blocks with its own weights, too. ``engine``: whether units are processes started here, or tasks of Ray.
    """

    streaming: bool = False
    blocks: str = ""
    sample: int = 2
    jobs: int = 1
    free_running: bool = False
    engine: str = LOCAL


@dataclass
class Settings:
    """What the stages need to know.

    ``rules`` (:class:`paralign.weights.Rules`) say where weights go.

    ``commands``: the programs of ``[infer]`` by side, run with ``sides`` within ``timeout`` seconds a path. ``draws``: what each further
    set of inputs of ``forward`` is, in words; none but for a judge, who draws them. ``replay``: what
    is random is compared with the reference's draws although ``modules`` is ``none``; nothing is located then. ``verdict_only``: a stage
    whose values differ asks nothing further.
    """

    seed: int = 0
    split: str = "val"
    samples: int = 4
    batches: int = 4
    most: int | None = None
    splits: list[str] = field(default_factory=list)
    limit: int | None = None
    second_gradients: bool = False
    manifests: dict[str, Path] = field(default_factory=dict)
    patience: float = PATIENCE
    paths: list[str] = field(default_factory=list)
    steps: int = 3
    seeds: int = 30
    modes: list[str] = field(default_factory=lambda: ["eval", "train"])
    modules: str = "digest"
    weights: str = "copy"
    rules: Any = None
    strict: bool = False
    tolerance: dict[str, Tolerance] = field(default_factory=dict)
    diff_threshold: float = 1e-6
    names: str = "guide"
    keep: str = "needed"
    training: trainings.Trainings = field(default_factory=trainings.Trainings)
    pace: pace.Pace = field(default_factory=pace.Pace)
    commands: dict[str, str] = field(default_factory=dict)
    lines: str = ""
    pictures: int = 8
    operators: int = 0
    sides: dict[str, SideSettings] = field(default_factory=dict)
    timeout: float = 600.0
    distributed: distribution.Distributed = field(default_factory=distribution.Distributed)
    draws: tuple[Kind, ...] = ()
    replay: bool = False
    verdict_only: bool = False

    def tolerance_of(self, stage: str) -> Tolerance:
        """The tolerance of a stage: its own, or the project's."""
        return self.tolerance.get(stage, self.tolerance.get("", Tolerance()))


@dataclass
class Project:
    """A project file, read and checked."""

    path: Path
    reference: SideSettings
    candidate: SideSettings
    inputs: Any = None
    labels: Any = None
    stages: list[str] = field(default_factory=lambda: list(DEFAULTS))
    out: Path = Path("result")
    timeout: float = 600.0
    rules: Path | None = None
    repair: float | None = None
    settings: Settings = field(default_factory=Settings)
    streaming: Streaming = field(default_factory=Streaming)

    @property
    def folder(self) -> Path:
        """The folder of the project file: the working directory of both sides."""
        return self.path.parent


def read(directory: Path, port: Path | None = None) -> Project:
    """The project in a folder (or of a project file).

    Args:
        directory: the folder, or the file.
        port: the folder in which the candidate lies; None for the project's own.

    Raises:
        UsageError: no project file, one that is no TOML, an unknown key, a value of the wrong type, a path that is not there.
        EnvironmentUnavailable: an interpreter that is not there.
    """
    path = (directory / FILE if checked_path(directory).is_dir() else directory).resolve()
    if path.is_dir():
        raise UsageError(f"{FILE} is a folder", where=str(path), hint="`paralign init DIR` writes the file")
    if not path.is_file():
        raise UsageError(
            f"there is no {FILE}{near(directory)}",
            where=str(directory),
            hint="run `paralign init DIR` to write one, or name the folder that has it",
        )
    table = read_toml(path, f"{path.name} is no valid TOML")
    _check_keys(table, {**_TOP, **dict.fromkeys(_TABLES, dict)}, "", path)
    for name, keys in _TABLES.items():
        _check_keys(table.get(name, {}), keys, name, path)
    for name in ("reference", "candidate"):
        if name not in table:
            raise UsageError(f"{FILE} has no table [{name}]", where=str(path), hint=f"add [{name}] with `module` and `framework`")
    _check_values(table, path)
    settings = _settings(table, path)
    folders = {"reference": path.parent, "candidate": path.parent if port is None else port.resolve()}
    settings.sides = {name: _side(table[name], name, path, folder) for name, folder in folders.items()}
    return Project(
        path,
        settings.sides["reference"],
        settings.sides["candidate"],
        _tensors(table.get("inputs"), "inputs", path),
        _tensors(table.get("labels"), "labels", path),
        check_stages(table.get("stages", list(DEFAULTS))),
        path.parent / table.get("out", "result"),
        float(table.get("timeout", 600)),
        _rules(table, path),
        _repair(table.get("repair", {}), path),
        settings,
        _streaming(table, path),
    )


def _streaming(table: dict[str, Any], path: Path) -> Streaming:
    """``[model]``."""
    found = Streaming(**table.get("model", {}))
    if found.sample < 0:
        raise UsageError("'sample' must not be negative", where=f"{path}: [model]")
    if found.engine not in (LOCAL, RAY):
        told = f"there is no engine {quoted(found.engine)}{did_you_mean(found.engine, (LOCAL, RAY))}"
        raise UsageError(told, where=f"{path}: [model]", hint=f"choose one of: {LOCAL}, {RAY}")
    if found.jobs < 1:
        raise UsageError("'jobs' must be above 0", where=f"{path}: [model]")
    if found.free_running and "checkpoint" not in table["candidate"]:
        hint = "name the candidate's checkpoint, or leave out free_running"
        raise UsageError("a side runs freely with its own weights", where=f"{path}: [model] free_running", hint=hint)
    for name in ("reference", "candidate"):
        if "checkpoint" in table[name] and not found.streaming:
            raise UsageError(
                "only a model that is streamed has a checkpoint", where=f"{path}: [{name}]", hint="set streaming = true in [model]"
            )
    return found


def check_stages(names: list[str]) -> list[str]:
    """The named stages in the order in which they run.

    Raises:
        UsageError: an unknown stage; names the nearest and all there are.
    """
    for name in names:
        if name not in STAGES:
            raise UsageError(f"there is no stage {quoted(name)}{did_you_mean(str(name), STAGES)}", hint="stages: " + ", ".join(STAGES))
    return [s for s in STAGES if s in names]


def _check_values(table: dict[str, Any], path: Path) -> None:
    """Refuse values of the right type that cannot work."""
    timeout, seed = table.get("timeout", 1.0), table.get("seed", 0)
    if not 0 < timeout < math.inf:
        raise UsageError(f"timeout must be a number of seconds above 0, not {timeout}", where=f"{path}: timeout")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must lie between 0 and 2**32 - 1, not {seed}", where=f"{path}: seed")
    for name, key in (("infer", "paths"), ("backward", "modes"), ("data", "splits")):
        if not all(isinstance(value, str) for value in table.get(name, {}).get(key, [])):
            raise UsageError(f"{key} must be a list of texts", where=f"{path}: [{name}] {key}")
    for key, values, where in (
        ("stages", table.get("stages"), "stages"),
        ("modes", table.get("backward", {}).get("modes"), "[backward] modes"),
        ("splits", table.get("data", {}).get("splits"), "[data] splits"),
    ):
        if values == []:
            raise UsageError(f"{key} must not be empty", where=f"{path}: {where}", hint="leave it out, or name at least one")
    for name in ("inputs", "labels"):
        if isinstance(table.get(name), list) and not all(isinstance(value, dict) for value in table[name]):
            told = f"{name} must be a table, a list of tables or a table of tables"
            raise UsageError(told, where=f"{path}: {name}", hint=f"write [{name}] and shape = [...]")


def _check_keys(table: dict[str, Any], known: dict[str, Any], name: str, path: Path) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"[{name}] must be a table", where=str(path))
    for key, value in table.items():
        where = f"{path}: [{name}] {key}" if name else f"{path}: {key}"
        if key not in known:
            raise UsageError(f"unknown key {quoted(key)}{did_you_mean(key, known)}", where=where, hint="known: " + ", ".join(sorted(known)))
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            wanted = known[key] if isinstance(known[key], tuple) else (known[key],)
            raise UsageError(f"{key!r} must be of type {' or '.join(t.__name__ for t in wanted)}, not {type(value).__name__}", where=where)


def _side(table: dict[str, Any], name: str, path: Path, folder: Path) -> SideSettings:
    root = checked_path(folder / table.get("root", ".")).resolve()
    if not root.is_dir():
        raise UsageError(f"the root of the {name} is no folder{near(root)}", where=str(root), hint=f"correct `root` in [{name}] of {path}")
    wanted = table.get("module", f"{name}.py")
    module = next((p for p in (folder / wanted, root / wanted) if checked_path(p).is_file()), None)
    if module is None:
        raise UsageError(
            f"the module of the {name} is not there",
            where=" or ".join(dict.fromkeys([str(folder / wanted), str(root / wanted)])),
            hint=f"correct `module` in [{name}] of {path}",
        )
    framework = table.get("framework", "")
    if framework and framework not in known():
        raise UsageError(
            f"there is no adapter for framework {quoted(framework)}{did_you_mean(framework, known())}",
            where=f"{path}: [{name}]",
            hint="choose one of: " + ", ".join(sorted(known())),
        )
    env = _environment(table.get("env", {}), f"{path}: [{name}] env")
    python = interpreter(table.get("python", ""), folder)
    stored = table.get("checkpoint", "")
    elsewhere = stored if is_remote(stored) else ""
    checkpoint = checked_path(folder / stored).resolve() if stored and not elsewhere else None
    if checkpoint is not None and not checkpoint.exists():
        raise UsageError(
            f"the checkpoint of the {name} is not there", where=str(checkpoint), hint=f"correct `checkpoint` in [{name}] of {path}"
        )
    return SideSettings(module.resolve(), root, framework, python, table.get("device", "cpu"), env, checkpoint, elsewhere=elsewhere)


def _environment(table: dict[str, Any], where: str) -> dict[str, str]:
    """Environment variables, of names and values that a system takes."""
    for name, value in table.items():
        if not name or "=" in name:
            raise UsageError(f"no environment variable can be called {quoted(name)}", where=where, hint="leave out the =: NAME = 'value'")
        if not isinstance(value, (str, int, float)):
            raise UsageError(f"{quoted(name)} must be a text, not {type(value).__name__}", where=where, hint="put it in quotation marks")
    return {name: str(value) for name, value in table.items()}


def interpreter(wanted: str, folder: Path) -> str:
    """The path of an interpreter named as a file, a folder, ``conda:NAME``, or a command.

    The folder is that of a virtual or conda environment.

    Raises:
        EnvironmentUnavailable: there is none.
    """
    if not wanted:
        return sys.executable
    if wanted.startswith("conda:"):
        return _conda(wanted[len("conda:") :])
    path = folder / os.path.expanduser(wanted)  # noqa: PTH111 - Path.expanduser raises for a user that is not there
    for found in (path, path / "bin" / "python", path / "python.exe", path / "Scripts" / "python.exe"):
        if checked_path(found).is_file() and os.access(found, os.X_OK):
            return str(found.absolute())
    command = shutil.which(wanted)
    if command:
        return command
    raise EnvironmentUnavailable(
        f"there is no interpreter {quoted(wanted)}",
        where=str(path),
        hint="give a python executable, the folder of a virtual or conda environment, or conda:NAME",
    )


def _conda(name: str) -> str:
    listed = Path.home() / ".conda" / "environments.txt"
    places = [Path(line) for line in listed.read_text(encoding="utf-8").splitlines()] if listed.is_file() else []
    places = [p for p in places if p.name == name]
    for variable in ("CONDA_EXE", "MAMBA_EXE"):
        installation = Path(os.environ.get(variable, "")).parent.parent
        if installation.is_absolute():
            places.append(installation if name == "base" else installation / "envs" / name)
    folders = [f for variable in ("CONDA_ENVS_PATH", "MAMBA_ROOT_PREFIX") for f in os.environ.get(variable, "").split(os.pathsep) if f]
    places += [Path(folder) / inner for folder in folders for inner in (name, f"envs/{name}")]
    for place in places:
        if name and os.sep not in name and (place / "bin" / "python").is_file():
            return str(place / "bin" / "python")
    raise EnvironmentUnavailable(
        f"there is no conda environment {name!r}", hint="`conda env list` shows those that there are; or give the environment's folder"
    )


def _tensors(value: Any, name: str, path: Path) -> Any:
    """One tensor's table; a list of them (by position); or a table of them (by keyword)."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_tensors(v, name, path) for v in value]
    if value and all(isinstance(v, dict) for v in value.values()):
        return {"keywords": {k: _tensors(v, f"{name}.{k}", path) for k, v in value.items()}}
    _check_keys(value, _TENSOR, name, path)
    return value


#: whole numbers: key, the least that works, table
_LEAST = (
    ("steps", 1, "backward"),
    ("seeds", 2, "init"),
    ("samples", 1, "data"),
    ("batches", 1, "data"),
    ("most", 1, "data"),
    ("limit", 1, "data"),
)


def _settings(table: dict[str, Any], path: Path) -> Settings:
    settings = Settings(seed=table.get("seed", 0), patience=min(PATIENCE, table.get("timeout", 600) / 4))  # read three times at most
    for key in ("split", "splits", "samples", "batches", "most", "limit"):
        setattr(settings, key, table.get("data", {}).get(key, getattr(settings, key)))
    names = settings.splits
    if len(set(names)) < len(names):
        raise UsageError("a split is named twice", where=f"{path}: [data] splits")
    if names and "split" not in table.get("data", {}) and settings.split not in names:
        settings.split = names[-1]  # what metric and inputs are taken from
    settings.second_gradients = table.get("loss", {}).get("second_gradients", False)
    settings.manifests = _manifests(table.get("data", {}).get("manifest"), path)
    settings.paths = [str(path.parent / p) for p in table.get("infer", {}).get("paths", [])]
    settings.pace = pace.pace_of({k: v for k, v in table.get("training", {}).items() if k in pace.KEYS}, f"{path}: [training]")
    _read_infer(table.get("infer", {}), settings, path)
    settings.timeout = float(table.get("timeout", settings.timeout))
    settings.seeds = table.get("init", {}).get("seeds", settings.seeds)
    settings.training = trainings.read_trainings(table.get("training", {}), path)
    settings.steps = table.get("backward", {}).get("steps", settings.steps)
    settings.modes = table.get("backward", {}).get("modes", settings.modes)
    settings.modules = _choice(
        table.get("forward", {}).get("modules", settings.modules), ("none", "digest", "full"), f"{path}: [forward] modules"
    )
    settings.weights = _choice(table.get("weights", {}).get("mode", settings.weights), ("copy", "as-is"), f"{path}: [weights] mode")
    for mode in settings.modes:
        _choice(mode, ("eval", "train"), f"{path}: [backward] modes")
    for key, least, name in _LEAST:
        value = getattr(settings, key)
        if value is not None and value < least:
            raise UsageError(
                f"{key!r} must be at least {least}", where=f"{path}: [{name}] {key}", hint="correct it, or leave it out for the default"
            )
    settings.diff_threshold = float(table.get("report", {}).get("diff_threshold", settings.diff_threshold))
    if not settings.diff_threshold >= 0:
        raise UsageError("'diff_threshold' must not be negative", where=f"{path}: [report]")
    settings.names = _choice(table.get("output", {}).get("names", settings.names), ("guide", "pytorch"), f"{path}: [output] names")
    settings.keep = _choice(table.get("output", {}).get("keep", settings.keep), ("needed", "all"), f"{path}: [output] keep")
    settings.distributed = distribution.read(table.get("distributed", {}), path)
    limits = table.get("tolerance", {})
    settings.tolerance[""] = _tolerance({k: v for k, v in limits.items() if not isinstance(v, dict)}, "tolerance", path)
    for stage in STAGES:
        if stage in limits:
            settings.tolerance[stage] = _tolerance(limits[stage], f"tolerance.{stage}", path)
    return settings


def _read_infer(table: dict[str, Any], settings: Settings, path: Path) -> None:
    """Read both sides' programs, which of their lines count, and how many paths are drawn."""
    settings.commands = {side: table[key] for side in ("reference", "candidate") if (key := f"{side}_command") in table}
    for side, command in settings.commands.items():
        split(command, side)
    if len(settings.commands) == 1:
        raise UsageError(
            f"only the {next(iter(settings.commands))} has a command",
            where=f"{path}: [infer]",
            hint="give reference_command and candidate_command",
        )
    settings.lines, settings.pictures = table.get("lines", ""), table.get("pictures", settings.pictures)
    settings.operators = table.get("operators", settings.operators)
    for name, number in (("pictures", settings.pictures), ("operators", settings.operators)):
        if number < 0:
            raise UsageError(f"'{name}' must not be negative", where=f"{path}: [infer]")
    try:
        re.compile(settings.lines)
    except re.error as fault:
        raise UsageError(f"'lines' is no regular expression: {fault}", where=f"{path}: [infer] lines") from fault


def _manifests(wanted: str | dict[str, Any] | None, path: Path) -> dict[str, Path]:
    """Side -> the manifest of its copy of a small data set; one for both, or a table of two."""
    if wanted is None:
        return {}
    sides = wanted if isinstance(wanted, dict) else {"reference": wanted, "candidate": wanted}
    if set(sides) != {"reference", "candidate"} or not all(isinstance(name, str) for name in sides.values()):
        told = "manifest must be a path, or a table with one for `reference` and one for `candidate`"
        raise UsageError(told, where=f"{path}: [data] manifest")
    return {side: path.parent / name for side, name in sides.items()}


def _repair(table: dict[str, Any], path: Path) -> float | None:
    """Seconds in which a check that diverges tries edits; None where it says nothing."""
    if "seconds" not in table:
        return None
    seconds = float(table["seconds"])
    if not 0 <= seconds < math.inf:
        raise UsageError(f"seconds must not be negative, it is {seconds:g}", where=f"{path}: [repair]")
    return seconds


def _rules(table: dict[str, Any], path: Path) -> Path | None:
    """The file that ``[weights] rules`` names."""
    wanted = table.get("weights", {}).get("rules")
    if wanted is None:
        return None
    file = checked_path(path.parent / wanted)
    if not file.is_file():
        raise UsageError("the file of rules is not there", where=str(file), hint=f"correct `rules` in [weights] of {path}")
    return Path(file)


def _tolerance(table: dict[str, Any], name: str, path: Path) -> Tolerance:
    _check_keys(table, {"ratio": (int, float), "atol": (int, float), "rtol": (int, float)}, name, path)
    for key, value in table.items():
        if not value >= 0:
            raise UsageError(f"{key!r} must not be negative", where=f"{path}: [{name}]")
    return Tolerance(**{k: float(v) for k, v in table.items()})


def _choice(value: str, choices: tuple[str, ...], where: str) -> str:
    if value not in choices:
        raise UsageError(
            f"{quoted(value)} is not a choice{did_you_mean(value, choices)}", where=where, hint="choose one of: " + ", ".join(choices)
        )
    return value
