"""The arguments of commands that check a project: its folder, and stages."""

from __future__ import annotations

from paralign.errors import UsageError, did_you_mean, quoted


def split_arguments(arguments: list[str]) -> tuple[str, list[str]]:
    """Split arguments into the project's folder and the stages.

    The first one is the folder unless it names a stage and no project.
    """
    from pathlib import Path

    from paralign.capture.bounds import checked_path
    from paralign.run.project import FILE, STAGES

    if not arguments:
        return ".", []
    first = Path(arguments[0])
    is_path = checked_path(first).exists() or len(first.parts) > 1
    if arguments[0] in STAGES:
        is_path = (first / FILE).is_file()
    elif not Path(FILE).is_file():  # there is no project here: the argument can only have meant one
        mean = did_you_mean(arguments[0], STAGES)
        if mean and not is_path:
            raise UsageError(
                f"there is no {FILE} here, and no folder or stage {quoted(arguments[0])}{mean}", hint="paralign check DIR STAGE"
            )
        is_path = True
    elif not is_path and len(arguments) == 1 and not did_you_mean(arguments[0], STAGES):
        raise UsageError(
            f"there is no folder or stage {quoted(arguments[0])}", hint="paralign check DIR STAGE; stages: " + ", ".join(STAGES)
        )
    return (str(first), arguments[1:]) if is_path else (".", arguments)
