"""What checks of many ports share: processes that have the frameworks imported, and the captures of one reference."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import sys

import pytest

from paralign import Side, checking
from paralign.api import check_project
from paralign.run.process import Process
from paralign.run.standing_process import Child, Standing, can_stand


class Workers:
    """Starts workers as children of processes that stay: a framework is imported once for all checks of the session.

    One process serves one worker at a time, so each side has its own. Their working directory is not the project's.
    """

    def __init__(self, folder):
        self._folder, self._standing = folder, {}

    def start(self, side, settings, *given, **more):
        """A worker, as :class:`Process` is made; a process of its own where the side has settings of its own."""
        if settings.env or not can_stand(settings):
            return Process(side, settings, *given, **more)
        key = side, settings.framework, settings.python
        if key not in self._standing:
            log = self._folder / f"{len(self._standing)}.log"
            self._standing[key] = Standing(settings, settings.framework, log, self._folder)
        return Child(self._standing[key], side, settings, *given, **more)

    def close(self):
        for each in self._standing.values():
            each.close()


@pytest.fixture(scope="session")
def _workers(tmp_path_factory):
    found = Workers(tmp_path_factory.mktemp("standing"))
    yield found
    found.close()


@pytest.fixture
def standing_workers(_workers, monkeypatch):
    """Checks of this process have their workers served by processes that have the frameworks imported."""
    monkeypatch.setattr(checking, "Process", _workers.start)


class OneFolder:
    """Checks of many ports in one folder, where the captures of a reference serve all of them.

    Files are named anew for every port, so that nothing that was read of an earlier one is taken for it.
    """

    def __init__(self, folder, project):
        self.folder, self._project, self._numbers = folder, project, itertools.count()

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
        return check_project(self.folder)[0]


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory):
    """Makes a folder of checks for the text of a project file that names ``reference.py`` and ``candidate.py``."""
    return lambda project: OneFolder(tmp_path_factory.mktemp("ports"), project)


@pytest.fixture
def written_side(tmp_path, monkeypatch):
    """Makes a live side of a text, written to a file so that its lines can be named; with the functions of some names."""

    def make(framework, text, *names):
        path = tmp_path / f"{framework}_written.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return Side(framework=framework, functions={name: getattr(module, name) for name in names})

    return make
