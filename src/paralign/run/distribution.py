"""The table ``[distributed]``: how many processes, and how launchers are called."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from paralign.adapters.profile import profile_of
from paralign.errors import UsageError, quoted

if TYPE_CHECKING:
    from pathlib import Path

#: the keys of the table and their types; ``reference_`` and ``candidate_`` go before those of both sides
KEYS: dict[str, Any] = {
    "nproc": int,
    "steps": int,
    "timeout": (int, float),
    "split": str,
    "evaluation": str,
    **{f"{side}{key}": str for side in ("", "reference_", "candidate_") for key in ("launcher", "command")},
}

#: processes of one machine that a check starts at most: beyond, its cores and memory are what is tested
MOST = 64

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Launcher(Enum):
    """What starts the processes."""

    TORCHRUN = "torchrun"
    PADDLE = "paddle"
    COMMAND = "command"


def own_launcher(framework: str) -> Launcher | None:
    """A framework's own launcher; None of one that has none."""
    name = profile_of(framework).launcher
    return Launcher(name) if name else None


@dataclass(frozen=True)
class Distributed:
    """How data-parallel programs are run.

    Args:
        nproc: processes a side.
        steps: training steps.
        timeout: seconds that a side's processes may take in all, the imports of the framework included.
        split: what ``build_dataloader`` is called with for training.
        evaluation: the same for the metric.
        launchers: side (or '' for both) -> launcher.
        commands: side (or '' for both) -> the command of the launcher ``command``.
    """

    nproc: int = 2
    steps: int = 3
    timeout: float = 300.0
    split: str = "train"
    evaluation: str = "val"
    launchers: dict[str, Launcher] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)

    def launcher(self, side: str, framework: str) -> Launcher:
        """The launcher of a side: its own, that of both, the only command, or its framework's.

        Raises:
            UsageError: nobody says which.
        """
        for name in (side, ""):
            if name in self.launchers:
                return self.launchers[name]
            if name in self.commands:
                return Launcher.COMMAND
        own = own_launcher(framework)
        if own is None:
            raise UsageError(
                f"framework {framework!r} has no launcher of its own",
                where=f"[distributed], {side}",
                hint="set command = 'LAUNCHER … {nproc} … {program}'",
            )
        return own

    def is_own(self, side: str, framework: str) -> bool:
        """Whether a framework's own launcher starts the side, which calls Python itself."""
        return self.launcher(side, framework) is not Launcher.COMMAND

    def arguments(self, side: str, framework: str, python: str, program: list[str], logs: Path, device: str) -> list[str]:
        """The command line that starts a program in all processes.

        Args:
            side: ``reference`` or ``candidate``.
            framework: the side's.
            python: its interpreter.
            program: what every process runs, as arguments of the interpreter.
            logs: the folder for the launcher's logs.
            device: the side's; on a GPU Paddle's launcher chooses how to communicate.

        Raises:
            UsageError: the command is none.
        """
        launcher, count = self.launcher(side, framework), str(self.nproc)
        if launcher is Launcher.TORCHRUN:
            torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", count]
            return [python, *torchrun, "--log_dir", str(logs), "--redirects", "3", *program]
        if launcher is Launcher.PADDLE:
            backend = ["--backend", "gloo"] if device == "cpu" else []
            return [python, "-m", "paddle.distributed.launch", "--nproc_per_node", count, *backend, "--log_dir", str(logs), *program]
        command = self.commands.get(side) or self.commands.get("")
        if command is None:
            raise UsageError("the launcher is a command, and there is none", where=f"[distributed] {side}_command", hint=_HINT)
        return _filled(command, {"nproc": count, "python": python, "logs": str(logs)}, [python, *program])


_HINT = "for example: command = 'mpirun -n {nproc} {program}'; {python} and {logs} are known too"


def _filled(command: str, values: dict[str, str], program: list[str]) -> list[str]:
    """A command's arguments with the placeholders filled in.

    ``{program}`` is an argument of its own and becomes several.
    """
    found: list[str] = []
    for part in shlex.split(command):
        if part == "{program}":
            found += program
        else:
            found.append(_PLACEHOLDER.sub(lambda name: values.get(name[1], name[0]), part))
    return found


def read(table: dict[str, Any], path: Path) -> Distributed:
    """The table, its types checked before.

    Raises:
        UsageError: a number that cannot work, an unknown launcher, a command that does not start the program.
    """
    where = f"{path}: [distributed]"
    launchers, commands = {}, {}
    for side in ("", "reference", "candidate"):
        key = f"{side}_launcher" if side else "launcher"
        if key in table:
            launchers[side] = _launcher(table[key], f"{where} {key}")
        key = f"{side}_command" if side else "command"
        if key in table:
            commands[side] = _command(table[key], f"{where} {key}")
    given = {key: table[key] for key in ("nproc", "steps", "timeout", "split", "evaluation") if key in table}
    for key, least, most in (("nproc", 2, MOST), ("steps", 1, 1000), ("timeout", 1, 86_400)):
        if key in given and not least <= given[key] <= most:
            raise UsageError(f"{key!r} must lie between {least} and {most}, not {given[key]}", where=f"{where} {key}")
    return Distributed(launchers=launchers, commands=commands, **given)


def _launcher(name: str, where: str) -> Launcher:
    try:
        return Launcher(name)
    except ValueError as unknown:
        hint = "choose one of: " + ", ".join(each.value for each in Launcher)
        raise UsageError(f"{quoted(name)} is no launcher", where=where, hint=hint) from unknown


def _command(text: str, where: str) -> str:
    try:
        parts = shlex.split(text)
    except ValueError as fault:
        raise UsageError(f"{quoted(text)} is no command: {fault}", where=where, hint=_HINT) from fault
    if "{program}" not in parts:
        raise UsageError("the command does not start the program: it has no argument {program}", where=where, hint=_HINT)
    unknown = [name for part in parts for name in _PLACEHOLDER.findall(part) if name not in ("nproc", "python", "logs", "program")]
    if unknown:
        raise UsageError(f"the command has the unknown placeholder {{{unknown[0]}}}", where=where, hint=_HINT)
    return text
