"""What several rounds came to, as a certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, ERROR, CheckResult, StageResult
from paralign.report.told import told
from paralign.run.kinds_of_inputs import Kind
from paralign.verification import constant_buffers, followed_tables, tampering
from paralign.verification.certificate import Certificate, Judgement, Round

if TYPE_CHECKING:
    from paralign.verification.case import Case
    from paralign.verification.outside import Outside
    from paralign.verification.plain_pass import Outcome, Watched
    from paralign.verification.tampering import Tampering


@dataclass
class Seen:
    """What one round came to."""

    results: list[StageResult]
    tampering: list[Tampering]
    files: dict[str, str]
    versions: dict[str, dict[str, str]]
    changes: Changes
    plain: Watched | None = None


@dataclass
class Changes:
    """What a round changes of the specification, and what it could not.

    Args:
        buffers: the reference's floating buffers as constructed, with a digest of each.
        moved: names of the buffers that were moved by noise.
        length: of the first axis of the longer set of inputs; None where there is none.
        tables: those of several values that the port follows when they are moved, and those that it does not.
    """

    buffers: dict[str, str] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    length: int | None = None
    tables: followed_tables.Tables = field(default_factory=followed_tables.Tables)


def certify(
    case: Case,
    seen: list[Seen],
    found: list[Tampering],
    before: dict[str, str],
    sizes: tuple[int, ...],
    beside: Outside,
    plain: Outcome,
) -> Certificate:
    """The certificate of a port: its judgement, the reasons, and what was not asked."""
    undecided = [*_undecided(case, seen), *plain.undecided]
    results = [result for one in seen for result in one.results]
    files: dict[str, str] = {}
    for one in seen:
        files.update(one.files)
    port = files_below(case.port, files)
    stages = [stage for stage in case.project.stages if stage != "weights"]
    return Certificate(
        _judgement(case, results, found, inconclusive=bool(beside.made or undecided)),
        list(map(str, found)) or [*beside.reasons(), *_all_reasons(seen), *undecided],
        tampering.digest(files_below(case.specification, before), case.specification),
        tampering.digest(port, case.port),
        tampering.digest(files_below(case.package, before), case.package),
        [_told(number, one.results) for number, one in enumerate(seen, 1)],
        seen[-1].versions,
        f"{len(seen)} rounds of drawn weights; the stages weights, {', '.join(stages)}, each on inputs of its own{_told_kinds(case.kinds)}"
        f"{_told_lengths(seen)}{constant_buffers.told(_moved(seen))}{plain.looked}",
        beside.weaknesses(case.port) + _weaknesses(case, seen, sizes) + _unseen(plain),
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        {str(Path(file).relative_to(case.port)): known for file, known in sorted(port.items())},
        {name: tampering.digest(files_below(root, before), root.parent) for name, root in case.adapters.items()},
    )


def files_below(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The files that lie in a folder, with what is known of each."""
    return {file: known for file, known in files.items() if Path(file).is_relative_to(folder)}


def _all_reasons(seen: list[Seen]) -> list[str]:
    """Why stages of any round failed or diverged."""
    found: list[str] = []
    for one in seen:
        found += filter(None, _reasons(one.results).values())
    return found


def _told_kinds(drawn: tuple[Kind, ...]) -> str:
    """What the forward pass was given beside the first set of inputs, in words."""
    if not drawn:
        return ""
    return f"; forward on {len(drawn) + 1} sets: {', '.join(k.value for k in (Kind.SPECIFIED, *drawn))}"


def _told_lengths(seen: list[Seen]) -> str:
    """The longer first axes that were drawn, in words."""
    lengths = [str(one.changes.length) for one in seen if one.changes.length is not None]
    return f"; forward on longer first axes: {', '.join(lengths)}" if lengths else ""


def _tables(seen: list[Seen]) -> followed_tables.Tables:
    return followed_tables.together([one.changes.tables for one in seen])


def _undecided(case: Case, seen: list[Seen]) -> list[str]:
    """Why a port is not accepted that has to follow tables and was not seen to."""
    return followed_tables.undecided(_tables(seen)) if case.tables else []


def _moved(seen: list[Seen]) -> set[str]:
    return {name for one in seen for name in one.changes.moved}


def _judgement(case: Case, results: list[StageResult], found: list[Tampering], *, inconclusive: bool) -> Judgement:
    verdicts = [result.verdict for result in results]
    if found:
        return Judgement.TAMPERED
    if ERROR in verdicts:
        return Judgement.FAILED
    if DIVERGED in verdicts:
        return Judgement.REJECTED
    asked = {result.name for result in results if result.verdict == ALIGNED}
    whole = all(verdict == ALIGNED for verdict in verdicts) and asked == {"weights", *case.project.stages}
    if whole and not inconclusive:
        return Judgement.ACCEPTED
    return Judgement.INCONCLUSIVE


def _reasons(results: list[StageResult]) -> dict[str, str]:
    report = told(CheckResult(results).to_dict())
    return {stage.name: f"{stage.name}: {stage.sentence}" if stage.sentence else "" for stage in report.stages if stage.verdict != ALIGNED}


def _told(number: int, results: list[StageResult]) -> Round:
    ratios = {result.name: None if result.worst is None else result.worst.ratio for result in results}
    return Round(number, {result.name: result.verdict for result in results}, ratios, _reasons(results))


def _weaknesses(case: Case, seen: list[Seen], sizes: tuple[int, ...]) -> list[str]:
    """What this judgement does not show."""
    found = []
    results = [result for one in seen for result in one.results]
    if "backward" not in case.project.stages:
        found.append("training was not judged: the specification does not ask for the stage backward")
    if len(set(sizes)) < 2:  # noqa: PLR2004 - two are the fewest that differ
        found.append("inputs of one size only")
    found += [warning for result in results for warning in result.warnings]
    asked = _tables(seen)
    found += followed_tables.weakness(asked)
    known = _moved(seen) | asked.followed | asked.own
    found += constant_buffers.weaknesses([one.changes.buffers for one in seen], known)
    return list(dict.fromkeys(found))


def _unseen(plain: Outcome) -> list[str]:
    """What was not seen of a port that nobody watches."""
    if not plain.looked:
        return [*plain.weaknesses, "the port may tell that it is judged: what it does outside of a check was not seen"]
    return [
        *plain.weaknesses,
        "the port may tell that it is judged in the plain pass too: by the time, or by what runs or is installed beside it",
    ]
