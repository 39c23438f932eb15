"""The wheel that users install: it is built, has all files, and runs from where it was installed."""

from __future__ import annotations

import os
import shutil
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


# --- the compiled kernel --------------------------------------------------------------------------------------------

STATE = "from paralign.comparison import compiled; print(compiled.state().name)"
PRINTING = "from paralign.capture import compiled_passes; print(compiled_passes.available('float32'))"
#: the hook's part of ``pip install -e``
EDITABLE = """
from hatchling.builders.wheel import WheelBuilder
builder = WheelBuilder(".")
builder.get_build_hooks("dist")["custom"].initialize("editable", builder.get_default_build_data())
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of what a wheel is made of, in which a build may leave its files."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed: pip install -e '.[dev]'")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.native"))
    shutil.copytree(ROOT / "native", tmp_path / "native", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_its_name_says_whether_the_kernel_is_in_it(wheel, site):
    folder, environment = site
    compiled = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".native"))]
    state = done("-c", STATE, env={**environment, "PARALIGN_KERNEL": "1"}, cwd=folder).strip()
    assert (bool(compiled), not wheel.name.endswith("-py3-none-any.whl"), state == "IN_USE") in {(True,) * 3, (False,) * 3}


@pytest.mark.parametrize("without", [{"CC": "/nowhere/cc"}, {"PARALIGN_KERNEL": "0"}])
def test_without_a_compiler_it_is_pure_and_says_so(tree, without):
    stale = tree / "src" / "paralign" / "comparison" / "_fused.abi3.so"
    stale.write_bytes(b"of another time")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    run = subprocess.run(command, cwd=tree, env={**os.environ, **without}, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    (built,) = (tree / "dist").iterdir()
    assert built.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(built).namelist() if name.endswith((".so", ".native"))]
    assert ("numpy alone" in run.stdout + run.stderr) == ("CC" in without)


def test_an_editable_installation_has_the_kernel_beside_its_sources(tree):
    done("-c", EDITABLE, cwd=tree, env={**os.environ, "PARALIGN_KERNEL": "1"})
    found = done("-c", STATE, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree / "src"), "PARALIGN_KERNEL": "1"}).strip()
    assert found == ("IN_USE" if list(tree.glob("src/paralign/comparison/_fused*.so")) else "ABSENT")
    printing = done("-c", PRINTING, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree / "src"), "PARALIGN_KERNEL": "1"}).strip()
    assert printing == str((tree / "src" / "paralign" / "capture" / "_fingerprint.native").exists())
