"""What is wrong with the sides' interpreters, how they differ, and what to do.

Nothing of the sides' own code is run: each interpreter examines itself (``worker/interpreter/diagnosis.py``).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from paralign.run.differences import Difference, differences
from paralign.run.examination import Examination, examine
from paralign.run.project import FILE, SideSettings, read
from paralign.run.symptoms import Severity, Symptom, symptoms

#: seconds that an interpreter may take: both frameworks take 12 s on one busy core, a first import from a network disk takes minutes
LIMIT = 300.0


@dataclass
class Diagnosis:
    """The interpreters, what is wrong with them, and what differs between them."""

    sides: list[Examination]
    symptoms: list[Symptom] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def code(self) -> int:
        """The exit code: 0 all well, 1 checks are impossible or wrong, 3 an interpreter failed."""
        severities = {symptom.severity for symptom in self.symptoms}
        if Severity.FAILED in severities:
            return 3
        return 1 if Severity.FAULT in severities else 0


def diagnose(directory: Path | None, limit: float = LIMIT) -> Diagnosis:
    """Examine both interpreters of a project at once.

    Without a folder, where there is no project here, this interpreter alone.

    Raises:
        UsageError: the named folder has no project file, or a wrong one.
        EnvironmentUnavailable: an interpreter that the project names is not there.
    """
    if directory is None and not Path(FILE).is_file():
        here = Path.cwd()
        return judge([examine("here", SideSettings(here, here), here, limit, every=True)])
    project = read(directory or Path())
    sides = [("reference", project.reference), ("candidate", project.candidate)]
    with ThreadPoolExecutor(len(sides)) as pool:
        pending = [pool.submit(examine, side, settings, project.folder, limit) for side, settings in sides]
        return judge([each.result() for each in pending])


def judge(sides: list[Examination]) -> Diagnosis:
    """What the examinations come to."""
    found = Diagnosis(sides)
    for side in sides:
        found.symptoms += symptoms(side)
    if len(sides) > 1 and all(side.frameworks for side in sides):
        found.differences += differences(*sides)
    return found
