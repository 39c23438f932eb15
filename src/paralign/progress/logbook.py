"""The alignment log as a Markdown document, numbered as the guide.

What each step came to, with commands, files and findings.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.errors import one_line, shortened
from paralign.progress.phrases import PHRASES, STATES_ZH
from paralign.progress.steps import State
from paralign.registry import BY_NAME
from paralign.report import artifacts
from paralign.report.language import say, speaking
from paralign.report.text import figure
from paralign.worker.process.files import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paralign.progress.kept import Kept
    from paralign.progress.steps import StageStatus, Status, StepStatus

#: files, notes and findings that are listed of a stage; report.json has all
MOST = 12

#: characters of a note of others that are shown
LONGEST = 400

#: what Markdown gives a meaning
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def logbook(status: Status, language: str = "en") -> str:
    """The alignment log of a port.

    Args:
        status: how far it has come.
        language: ``en`` or ``zh``. What checks said themselves is told in Chinese where the tables of sentences have it.

    Returns:
        Markdown; texts of others are escaped, so that none can pass for a heading, a link or HTML.
    """
    writer = _Writer(status, language)
    return "\n".join(writer.lines()) + "\n"


def plain(text: Any) -> str:
    r"""A text of others as Markdown that shows it and does nothing else.

    >>> print(plain("<b>[x](y)"))
    \<b\>\[x\](y)
    """
    return _SPECIAL.sub(r"\\\1", shortened(one_line(str(text)), LONGEST))


def code(text: Any) -> str:
    """A text of others as inline code, whatever backticks it holds.

    >>> code("a`b")
    '``a`b``'
    """
    told = shortened(one_line(str(text)), LONGEST)
    fence = "`" * (max((len(run) for run in re.findall("`+", told)), default=0) + 1)
    gap = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{fence}{gap}{told}{gap}{fence}"


class _Writer:
    """Writes one log."""

    def __init__(self, status: Status, language: str) -> None:
        self.status, self.language, self.say = status, language, PHRASES[language]

    def lines(self) -> Iterator[str]:
        """The whole document."""
        yield f"# {self.say['title']}"
        yield ""
        yield self.say["intro"].format(version=__version__)
        yield ""
        yield from self._sides()
        yield f"## {self.say['overview']}"
        yield ""
        yield self.say["columns"]
        yield "|---|---|---|---|"
        for each in self.status.steps:
            yield f"| {each.step.number} | {each.step.title[self.language]} | {self._state(each.state)} | {each.step.checkpoint or ''} |"
        yield ""
        for each in self.status.steps:
            yield from self._step(each)

    def _state(self, state: State) -> str:
        return STATES_ZH[state.value] if self.language == "zh" else state.value

    def _item(self, key: str, text: str) -> str:
        return f"- {self.say[key]}{self.say['separator']}{text}"

    def _sides(self) -> Iterator[str]:
        """How both sides ran last."""
        results = [stage.kept for step in self.status.steps for stage in step.stages if stage.kept is not None]
        latest = max(results, key=lambda kept: kept.made, default=None)
        if latest is None:
            return
        yield f"## {self.say['sides']}"
        yield ""
        for side in ("reference", "candidate"):
            about = latest.sides.get(side) or {}
            framework = str(about.get("framework", "?"))
            versions = about.get("versions")
            version = versions.get(framework, "?") if isinstance(versions, dict) else "?"
            told = {"framework": framework, "version": version, "device": about.get("device", "?"), "python": about.get("python", "?")}
            yield "- " + self.say["side"].format(side=self.say[side], **{key: plain(value) for key, value in told.items()})
        yield ""

    def _step(self, each: StepStatus) -> Iterator[str]:
        yield f"## {each.step.number} {each.step.title[self.language]}"
        yield ""
        yield self._item("state", self._state(each.state))
        if each.why:
            yield f"- {plain(self._told(each.why))}"
        if each.command and each.state is not State.LEFT_OUT:
            yield self._item("next", code(each.command))
        yield ""
        if each.step.number == "3.1":
            yield from self._code()
        if each.evidence is not None and each.evidence.path is not None:
            yield from self._training_log(each)
        for stage in each.stages:
            if stage.kept is not None:
                yield from self._stage(stage, stage.kept, title=len(each.stages) > 1)

    def _code(self) -> Iterator[str]:
        yield f"### 3.1.1 {self.say['code']}"
        yield ""
        sides = self.status.project.reference, self.status.project.candidate
        names = [code(self._relative(side.module)) for side in sides]
        yield self.say["roots"].format(reference=names[0], candidate=names[1])
        yield ""

    def _training_log(self, each: StepStatus) -> Iterator[str]:
        found = each.evidence
        if found is None or found.path is None:
            return
        told = self.say["logged"].format(path=code(self._relative(found.path)), rows=found.rows, evaluations=found.evaluations)
        yield self._item("log", told)
        if found.lacking:
            yield "- " + self.say["lacking"].format(names=", ".join(found.lacking))
        yield ""

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path, self.status.project.folder)

    def _stage(self, stage: StageStatus, kept: Kept, *, title: bool) -> Iterator[str]:
        """One stage: verdict, command, figures, files, findings."""
        if title:
            number = BY_NAME[stage.stage].guide.partition(",")[0]
            yield f"### {number} {stage.stage}"
            yield ""
        verdict = STATES_ZH.get(kept.verdict, kept.verdict) if self.language == "zh" else kept.verdict
        yield self._item(
            "verdict", self.say["checked"].format(verdict=f"**{verdict}**", made=plain(kept.made), version=plain(kept.version))
        )
        if kept.strict:
            yield f"- {self.say['strict']}"
        yield self._item("command", code(f"paralign check {os.path.basename(self.status.project.folder)} {stage.stage}"))  # noqa: PTH119 - a name
        if stage.stage in ("data", "metric"):
            yield self._item("splits", plain(", ".join(kept.splits)))
        yield from self._figures(kept.report)
        yield from self._files(stage.stage, kept)
        yield from self._causes(kept.report)
        if stage.changed:
            yield self._item("stale", self._some([code(self._short(name)) for name in stage.changed]))
        yield ""

    def _figures(self, report: dict[str, Any]) -> Iterator[str]:
        if report.get("method"):
            yield self._item("method", plain(self._told(report["method"])))
        if report.get("worst"):
            told = {name: _number(report.get(name)) for name in ("error", "noise", "ratio")}
            yield self._item("numbers", self.say["error"].format(worst=code(report["worst"]), **told))
        for each in report.get("coverage") or []:
            if isinstance(each, dict):
                told = {name: plain("?" if each.get(name) is None else self._told(each[name])) for name in ("compared", "total", "what")}
                yield self._item("coverage", self.say["of"].format(**told))

    def _files(self, stage: str, kept: Kept) -> Iterator[str]:
        if stage in artifacts.FILES:
            found = [name for name in kept.outputs if (self.status.folder / name).is_file()]
            if found:
                yield self._item("files", ", ".join(code(name) for name in found))
        inner = [path for path, known in kept.files.items() if self._short(path) != path and known != ABSENT]
        if inner:
            yield self._item("sources", self._some([code(self._short(path)) for path in sorted(inner)]))

    def _short(self, path: str) -> str:
        """A path below the project's folder from there; any other as it is."""
        prefix = f"{self.status.project.folder}{os.sep}"
        return path.removeprefix(prefix)

    def _causes(self, report: dict[str, Any]) -> Iterator[str]:
        divergence = report.get("divergence")
        if divergence:
            for side in ("reference", "candidate"):
                point = divergence.get(side)
                if isinstance(point, dict):
                    place = "  ".join(str(part) for part in (point.get("name"), point.get("op"), point.get("source")) if part)
                    line = f" {code(point['code'])}" if point.get("code") else ""
                    yield self._item("where", f"{self.say[side]} {code(self._short(place))}{line}")
        for finding in (report.get("findings") or [])[:MOST]:
            if isinstance(finding, dict):
                sure = self.say["proven" if finding.get("proven") else "suspected"]
                fix = f"; {self.say['fix']}{self.say['separator']}{plain(self._told(finding['fix']))}" if finding.get("fix") else ""
                yield self._item("findings", f"{plain(self._told(finding.get('cause', '')))} ({sure}){fix}")
        failure = report.get("failure")
        if failure:
            yield self._item("failure", code(f"{failure.get('side', '')}: {failure.get('type', '')}: {failure.get('message', '')}"))
        for key in ("warnings", "notes"):
            for text in (report.get(key) or [])[:MOST]:
                yield self._item(key, plain(self._told(text)))

    def _told(self, said: Any) -> Any:
        """What a check has said, in the log's language where it is known.

        Anything but a text stays.
        """
        with speaking(self.language):
            return say(said) if isinstance(said, str) else said

    def _some(self, names: list[str]) -> str:
        more = f" {self.say['more'].format(count=len(names) - MOST)}" if len(names) > MOST else ""
        return ", ".join(names[:MOST]) + more


def _number(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return figure(value)
    return plain("-" if value is None else value)
