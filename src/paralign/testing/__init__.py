"""A check as a test: :func:`assert_aligned`, and a fixture of its name for pytest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.errors import ParalignError, UsageError
from paralign.model import ALIGNED, Side
from paralign.report.junit import lines
from paralign.report.told import told

if TYPE_CHECKING:
    from paralign.model import CheckResult

__all__ = ["NotAligned", "assert_aligned"]

#: lines of one stage that a failure shows; all are in the report
MOST = 12


class NotAligned(AssertionError):
    """The port is not shown to be the same model; ``result`` is the whole check."""

    def __init__(self, text: str, result: CheckResult) -> None:
        super().__init__(text)
        self.result = result


def assert_aligned(
    reference: Side | str | Path, candidate: Side | None = None, *, allow: tuple[str, ...] = (), **options: Any
) -> CheckResult:
    """Check a port, and fail unless every stage that ran is aligned.

    Args:
        reference: the trusted side, or the folder of a ``paralign.toml``.
        candidate: the port; None with a folder.
        allow: further verdicts that pass, of ``underpowered`` and ``not tested``. Without it a test that shows nothing fails.
        options: those of ``paralign.check``; with a folder those of ``paralign.api.check_project`` (``stages``, ``out``, ``fresh``,
            ``strict``).

    Returns:
        The check's result.

    Raises:
        NotAligned: a stage has another verdict; the text begins with the cause.
        UsageError: the arguments are no two sides, and no folder; or ``allow`` would let a difference pass.
    """
    __tracebackhide__ = True  # pytest shows the test's own line
    harmless = {"underpowered", "not tested"}
    if not set(allow) <= harmless:
        raise UsageError(f"allow={allow!r} would let a difference pass", hint="choose from: underpowered, not tested")
    try:
        result, root = _checked(reference, candidate, options)
    except ParalignError as error:
        raise error.with_traceback(None) from None  # the test's own line is what is to be mended, not ours
    wrong = [stage.name for stage in result.stages if stage.verdict not in (ALIGNED, *allow)]
    if wrong or not result.stages:
        raise NotAligned(_text(result, wrong, root), result)
    return result


def _checked(reference: Side | str | Path, candidate: Side | None, options: dict[str, Any]) -> tuple[CheckResult, Path | None]:
    from paralign.api import check, check_project

    if isinstance(reference, Side) and isinstance(candidate, Side):
        return check(reference, candidate, **options), None
    if isinstance(reference, (str, Path)) and candidate is None:
        result, _ = check_project(reference, **options)
        return result, Path(reference).resolve()
    raise UsageError(
        "assert_aligned takes two Sides, or the folder of a project alone",
        hint='assert_aligned(Side(model=...), Side(model=...), inputs=...), or assert_aligned("ports/mobilenet")',
    )


def _text(result: CheckResult, wrong: list[str], root: Path | None) -> str:
    """What failed: the cause first, then each stage in a few lines."""
    report = told(result.to_dict(), root=root)
    parts = [report.headline or f"verdict: {report.verdict}"]
    for stage in report.stages:
        if stage.name in wrong:
            shown = lines(stage)
            more = [f"… {len(shown) - MOST} more lines in the report"] if len(shown) > MOST else []
            parts += [f"{stage.name}: {stage.verdict}", *(f"  {line}" for line in [*shown[:MOST], *more])]
    return "\n".join(parts)
