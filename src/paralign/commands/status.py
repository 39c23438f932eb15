"""``paralign status``: how far a port has come with the guide's steps and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.grammar import quiet
from paralign.report.language import current, say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.progress.steps import Status, StepStatus

EPILOG = (
    "exit codes: 0 every step is done · 1 a step diverged · 2 wrong usage · 3 a side failed, or a file is damaged · "
    "4 a step is open, stale or could not be concluded"
)

#: characters of the reason for a state that are shown on its line
SHOWN = 100


def add_commands(commands: Any) -> None:
    """Add ``status``."""
    status = commands.add_parser(
        "status",
        help="the guide's twelve steps and six checkpoints: done, open, stale",
        epilog=EPILOG,
        description="How far a port has come, from what its checks left behind: done, diverged, stale (a file or setting that the result "
        "depended on has changed), not tested, open; and the command for the next step. Nothing is run.",
    )
    add_folder(status)
    status.add_argument("--json", action="store_true", help="print everything as JSON")
    quiet(status)
    status.set_defaults(run=_status)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add what the commands about steps have in common.

    A project's folder, its output folder, steps that are left out.
    """
    parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="folder of paralign.toml (here, if left out)")
    parser.add_argument("--result", metavar="DIR", help="output folder of the checks (default: the project file's, `result`)")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="STEP",
        help="a step that this port does not need: 3.12, or train (may be repeated)",
    )


def _status(options: argparse.Namespace) -> int:
    from paralign.progress.steps import status

    found = status(options.directory, out=options.result, without=options.without)
    print(_as_json(found) if options.json else _sum(found) if options.quiet else "\n".join(_told(found)))
    return found.code


def _as_json(found: Status) -> str:
    import json

    from paralign.errors import plain_text
    from paralign.model import SCHEMA

    upcoming = found.next
    told = {
        "schema": SCHEMA,
        "code": found.code,
        "steps": [_step(each) for each in found.steps],
        "checkpoints": [
            {"number": each.step.checkpoint, "step": each.step.number, "state": each.state.value} for each in found.checkpoints
        ],
        "next": None if upcoming is None else {"step": upcoming.step.number, "command": upcoming.command},
    }
    return plain_text(json.dumps(told, indent=1, ensure_ascii=False))


def _step(each: StepStatus) -> dict[str, object]:
    return {
        "number": each.step.number,
        "title": each.step.title["en"],
        "checkpoint": each.step.checkpoint or None,
        "state": each.state.value,
        "why": each.why,
        "command": each.command,
        "stages": [
            {
                "name": stage.stage,
                "state": stage.state.value,
                "verdict": stage.kept.verdict if stage.kept else None,
                "made": stage.kept.made if stage.kept else None,
                "version": stage.kept.version if stage.kept else None,
                "changed": stage.changed,
            }
            for stage in each.stages
        ],
    }


def _told(found: Status) -> list[str]:
    """A line a step, the checkpoints, the next command."""
    from paralign.errors import one_line, shortened

    lines = [_row(say("step"), "", say("state"), say("checkpoint"))]
    for each in found.steps:
        mark = str(each.step.checkpoint) if each.step.checkpoint else ""
        lines.append(_row(each.step.number, each.step.title[current()], say(each.state.value), mark))
        if each.why:
            lines.append(f"{'':6}{shortened(one_line(say(each.why)), SHOWN)}")
    lines.append(_sum(found))
    upcoming = found.next
    if upcoming is not None:
        step = say("step {number}: {why}", number=upcoming.step.number, why=say(upcoming.why))
        lines.append(say("next: {what}", what=one_line(upcoming.command) if upcoming.command else step))
    return lines


def _row(number: str, title: str, state: str, checkpoint: str) -> str:
    """A line of the table; Chinese characters are two columns wide."""
    from rich.cells import set_cell_size

    return (set_cell_size(number, 6) + set_cell_size(title, 34) + set_cell_size(state, 14) + checkpoint).rstrip()


def _sum(found: Status) -> str:
    """How many steps are done, in a line."""
    done = sum(each.state.value == "done" for each in found.steps)
    reached = [each for each in found.checkpoints if each.state.value == "done"]
    return say(
        "{done} of {steps} steps done, {reached} of {checkpoints} checkpoints",
        done=done,
        steps=len(found.steps),
        reached=len(reached),
        checkpoints=len(found.checkpoints),
    )
