"""What callers of :func:`~paralign.api.check` hand in, looked at before anything runs."""

from __future__ import annotations

from pathlib import Path

from paralign.conversion import plain
from paralign.errors import UsageError
from paralign.model import Side
from paralign.run.live import check_functions
from paralign.run.project import STAGES
from paralign.weights import Rules


def admit(sides: dict[str, Side], weights: str, stages: list[str] | None) -> None:
    """Say what a caller of :func:`check` has given that is of the wrong kind.

    Raises:
        UsageError: what is no side, no choice, or no stage.
    """
    if weights not in ("copy", "as-is"):
        raise UsageError(f"weights={weights!r} is not a choice", hint='choose "copy" or "as-is"')
    for name, side in sides.items():
        if not isinstance(side, Side):
            raise UsageError(
                f"the {name} must be a Side, not {type(side).__name__}", hint="check(Side(model=...), Side(model=...), inputs=...)"
            )
        check_functions(name, side)
    if stages is not None and not stages:
        raise UsageError("no stage is named", hint="leave `stages` out for all of them, or name some of: " + ", ".join(STAGES))


def rules_of(given: Rules | str | Path | None) -> Rules | None:
    """Rules, read from their file where one is named.

    Raises:
        UsageError: the file is not there, is no text, or holds no rules.
    """
    if given is None or isinstance(given, Rules):
        return given
    if not isinstance(given, (str, Path)):
        raise UsageError(f"rules must be Rules or the path of a file, not {type(given).__name__}", hint='check(..., rules="rules.toml")')
    return plain.rules_of(Path(given))
