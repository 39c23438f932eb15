"""A report as workflow commands of GitHub Actions, remarks at a pull request's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.report.sarif import from_root

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.report.told import StageTold, Told


def remarks(report: Told, root: Path | None = None) -> str:
    """One line a guilty point, or a stage without one; nothing for stages that are aligned.

    Args:
        report: of a check.
        root: the repository's folder: paths are written from there.
    """
    return "".join(f"{line}\n" for stage in report.stages if stage.verdict != ALIGNED for line in _lines(stage, root))


def _lines(stage: StageTold, root: Path | None) -> list[str]:
    level = "error" if stage.verdict in (DIVERGED, ERROR) else "warning"
    title = f"paralign {stage.name} {stage.verdict}"
    lines = []
    for number, place in enumerate(stage.lines):
        text = stage.sentence if number == 0 else place.code or place.operation
        lines.append(
            f"::{level} file={_property(from_root(place.file, root))},line={place.line},title={_property(title)}::{_message(text)}"
        )
    return lines or [f"::{level} title={_property(title)}::{_message(stage.sentence)}"]


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
