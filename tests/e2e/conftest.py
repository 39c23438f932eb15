"""What checks of many ports against one reference share: a folder, and processes that have the frameworks imported."""

from __future__ import annotations

import hashlib
import itertools
from contextlib import ExitStack

import pytest

from paralign import checking
from paralign.api import check_project
from paralign.run.standing_process import Child, Standing


class OneFolder:
    """Checks in one folder: a reference's captures serve all ports, and each worker is a child of a process that stays.

    Files are named anew for every port, so that nothing that was read of an earlier one is taken for it.
    """

    def __init__(self, folder, project):
        self.folder, self._project, self._numbers = folder, project, itertools.count()
        self._standing = {}

    def check(self, reference, candidate):
        """The result of a check, with the sides' programs given as texts."""
        first = f"reference_{hashlib.sha256(reference.encode()).hexdigest()[:8]}.py"
        second = f"candidate_{next(self._numbers)}.py"
        (self.folder / first).write_text(reference)
        (self.folder / second).write_text(candidate)
        text = self._project.replace("reference.py", first).replace("candidate.py", second)
        assert first in text
        assert second in text
        (self.folder / "paralign.toml").write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checking, "Process", self._worker)
            return check_project(self.folder)[0]

    def _worker(self, side, settings, *given, **more):
        if side not in self._standing:
            log = self.folder / f"standing-{side}.log"
            self._standing[side] = Standing(settings, settings.framework, log, self.folder)
        return Child(self._standing[side], side, settings, *given, **more)

    def close(self):
        for each in self._standing.values():
            each.close()


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory):
    """Makes a folder of checks for the text of a project file that names ``reference.py`` and ``candidate.py``."""
    with ExitStack() as stack:

        def made(project):
            found = OneFolder(tmp_path_factory.mktemp("ports"), project)
            stack.callback(found.close)
            return found

        yield made
