"""``paralign rank-logs``: which process of a launch failed first, and where.

The logs that the launcher kept tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.report.language import say

if TYPE_CHECKING:
    import argparse

    from paralign.run.ranklogs import RankLog


def add_commands(commands: Any) -> None:
    """Add ``rank-logs``."""
    command = commands.add_parser(
        "rank-logs",
        help="which process of a training on several cards failed first, from its launcher's logs",
        description="Read the logs of paddle.distributed.launch (--log_dir: workerlog.N) or torchrun (--log_dir), and name the process "
        "that failed first with its own frames.",
        epilog="exit codes: 0 no process failed · 1 one did · 2 wrong usage · 4 no logs of processes are there",
    )
    command.add_argument("folder", metavar="DIR", help="the folder that was given as --log_dir")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.capture.bounds import checked_path, near
    from paralign.errors import UsageError
    from paralign.run import ranklogs

    folder = Path(options.folder)
    if not checked_path(folder).is_dir():
        raise UsageError(
            f"there is no such folder{near(folder)}",
            where=str(folder),
            hint="name the folder that the launcher was given as --log_dir",
        )
    logs = [ranklogs.read(rank, path) for rank, path in ranklogs.logs_in(folder).items()]
    if not logs:
        told = "{folder} holds no logs of processes (workerlog.N, or attempt_0/N/stderr.log): start the launcher with --log_dir"
        print(say(told, folder=str(folder)))
        return 4
    first = ranklogs.first_failure(logs)
    print("\n".join(_told(logs, first)))
    return 0 if first is None else 1


def _told(logs: list[RankLog], first: RankLog | None) -> list[str]:
    from paralign.errors import one_line

    if first is None or first.failure is None:
        return [say("{count} logs of processes, no exception in any", count=len(logs))]
    trace = first.failure
    lines = [say("rank {rank} failed first: {error}", rank=first.rank, error=one_line(f"{trace.type}: {trace.message}"))]
    lines += [f"  {one_line(str(frame))}" for frame in trace.frames if frame.is_users] or [
        say("  (no line of your own files is in its frames)")
    ]
    lines.append(f"  {say('log: ')}{one_line(str(first.path))}")
    for log in logs:
        if log is first:
            continue
        other = log.failure
        if other is None:
            lines.append(say("rank {rank}: no exception in its log", rank=log.rank))
        else:
            after = say(" (it has lost another process)") if other.is_consequence else ""
            lines.append(say("rank {rank}: ", rank=log.rank) + one_line(f"{other.type}: {other.message}") + after)
    lines.append(
        say("launchers only repeat that a process has ended (`Out of all 4 trainers …`, ChildFailedError): the cause stands above")
    )
    return lines
