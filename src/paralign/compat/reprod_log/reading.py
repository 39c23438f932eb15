"""Logs of differences, read back.

Both line formats that reprod_log has had, and what a check writes after them.

::

    [2021/12/21 15:00:38] root INFO: logits:
    2021-09-28 01:07:44,832 - reprod_log.utils - INFO - logits:
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple, Union

from paralign.capture.bounds import Limit, checked_path, open_regular
from paralign.errors import CaptureFormatError

if TYPE_CHECKING:
    from pathlib import Path

#: a log has about 100 bytes for each array
LARGEST = Limit("PARALIGN_MAX_DIFF_LOG", 64 << 20, "bytes")

#: what stands before the text of a line: the format of reprod_log 1.0, that of its first versions, or nothing
_STAMPS = (
    re.compile(r"^\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] \S+ [A-Z]+: ?"),
    re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ - \S+ - [A-Z]+ - ?"),
)
_NUMBER = r"[-+]?(?:nan|inf|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_FIGURE = re.compile(rf"^\s+(mean|max|min) diff: check passed: (True|False), value: ({_NUMBER})\s*$")
_NAME = re.compile(r"^(\s*)(\S.*?)\s*:?\s*$")
_CONCLUSION = re.compile(r"^diff check (passed|failed)\s*$")
_VERDICT = re.compile(r"^paralign: (aligned|diverged|underpowered|not tested|error)(?: \(.*\))?\s*$")
_REMARK = "paralign: "


@dataclass(frozen=True)
class Figure:
    """One line about one array: ``method`` is ``mean``, ``max`` or ``min``."""

    name: str
    method: str
    passed: bool
    value: float


@dataclass
class DiffLog:
    """A log of differences.

    Args:
        figures: in the order of the file.
        concluded: what ``diff check …`` says; None where no such line is there.
        verdict: of paralign, where a check wrote the log; '' elsewhere.
        remarks: further lines of paralign's.
        unread: number and text of lines that are none of these.
    """

    figures: List[Figure] = field(default_factory=list)
    concluded: Optional[bool] = None
    verdict: str = ""
    remarks: List[str] = field(default_factory=list)
    unread: List[Tuple[int, str]] = field(default_factory=list)

    @property
    def failed(self) -> List[Figure]:
        """The lines of what did not pass."""
        return [figure for figure in self.figures if not figure.passed]

    @property
    def passed(self) -> Optional[bool]:
        """Whether all is well; None where nothing was compared.

        By paralign's verdict, else by its conclusion and lines.
        """
        if self.verdict:
            return {"aligned": True, "diverged": False}.get(self.verdict)
        if not self.figures:
            return None
        return not self.failed and self.concluded is not False


def read_diff_log(path: "Union[str, Path]") -> DiffLog:
    """Read a log that ``ReprodDiffHelper.report`` or a check wrote.

    Both formats of reprod_log are read.

    Raises:
        UsageError: there is no such file.
        CaptureFormatError: it is no text, larger than its limit, or has no line of such a log.
    """
    place = checked_path(path)
    with open_regular(place) as handle:
        data = handle.read(LARGEST.value + 1)
    LARGEST.check(len(data), "the log has at least", str(path), CaptureFormatError)
    if b"\0" in data:
        raise CaptureFormatError("the log is no text", where=str(path), hint="name a log of differences, such as forward_diff.log")
    log = _parsed(data.decode("utf-8", errors="replace"))
    if not log.figures and log.concluded is None and not log.verdict:
        raise CaptureFormatError(
            "no line of it is one of a log of differences", where=str(path), hint="name a log such as forward_diff.log"
        )
    return log


def _parsed(text: str) -> DiffLog:
    log, names = DiffLog(), {}  # type: Tuple[DiffLog, Dict[int, str]]
    for number, line in enumerate(text.splitlines(), 1):
        message = _message(line)
        figure, conclusion, verdict = _FIGURE.match(message), _CONCLUSION.match(message), _VERDICT.match(message)
        if not message.strip():
            continue
        if figure:
            name = ".".join(names[depth] for depth in sorted(names)) or "?"
            log.figures.append(Figure(name, figure[1], figure[2] == "True", float(figure[3])))
        elif conclusion:
            log.concluded = conclusion[1] == "passed"
        elif verdict:
            log.verdict = verdict[1]
        elif message.startswith(_REMARK):
            log.remarks.append(message[len(_REMARK) :])
        else:
            _take_name(log, names, number, line, message)
    return log


def _take_name(log: DiffLog, names: Dict[int, str], number: int, line: str, message: str) -> None:
    """Note the name of an array, or of a dict of them, by its depth.

    A line without a stamp is none of the log's.
    """
    found = _NAME.match(message)
    if found is None or message is line:
        log.unread.append((number, line))
        return
    depth = len(found[1])
    for deeper in [each for each in names if each >= depth]:
        del names[deeper]
    names[depth] = found[2]


def _message(line: str) -> str:
    """A line without its stamp; the line itself where it has none."""
    for stamp in _STAMPS:
        found = stamp.match(line)
        if found:
            return line[found.end() :]
    return line
