"""The wheel that users install: it is built, has all files, and runs from where it was installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the tree as it is, without the network."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    done("-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """The folder that it was installed into, and the environment that finds it there before all else."""
    folder = tmp_path_factory.mktemp("site")
    done("-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", folder, wheel)
    return folder, {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def done(*arguments, **options):
    """What a run of this interpreter printed; it must end well."""
    run = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120, **options)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_it_has_every_file_of_the_package(wheel):
    listed = subprocess.run(["git", "ls-files", "src/paralign"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("no git here that tells which files there are")
    there = {name.removeprefix("src/") for name in listed if (ROOT / name).is_file()}
    assert there - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_command_runs_from_it(site, tmp_path):
    folder, environment = site
    where = done("-c", "import paralign; print(paralign.__file__)", env=environment, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(folder)
    assert "usage: paralign" in done("-m", "paralign", "--help", env=environment, cwd=tmp_path)
    assert (folder / "bin" / "paralign").is_file()


def test_a_check_runs_from_it(site, project):
    _, environment = site
    assert "aligned" in done("-m", "paralign", "check", project.folder, "forward", env=environment, cwd=project.folder)
    report = project.report()
    assert [stage["verdict"] for stage in report["stages"] if stage["name"] == "forward"] == ["aligned"]
    assert "<html" in (project.folder / "result" / "report.html").read_text(encoding="utf-8")
