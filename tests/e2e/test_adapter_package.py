"""Another framework by an installed package alone: the example of docs/adapters.md, as pip leaves it, in a check."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"

SIDE = """
import numpy as np

class Net:
    def __init__(self):
        random = np.random.RandomState({seed})
        self.parameters = {{"weight": random.randn({shape}).astype("float32"), "bias": random.randn(4).astype("float32")}}

    def __call__(self, x):
        return {formula}

def build_model():
    return Net()

def inputs():
    return np.random.RandomState(7).randn(5, 3).astype("float32")
"""

REFERENCE = SIDE.format(seed=0, shape="4, 3", formula='x @ self.parameters["weight"].T + self.parameters["bias"]')
CANDIDATE = SIDE.format(seed=1, shape="3, 4", formula='x @ self.parameters["weight"] + self.parameters["bias"]')

PROJECT = """
[reference]
module = "reference.py"
framework = "numpy"

"""


@pytest.fixture
def package(tmp_path):
    """The page's package in a folder, with metadata of an installed distribution."""
    page = PAGE.read_text()
    home = tmp_path / "site" / "tiny_adapter"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("")
    for name, code in re.findall(r"`tiny_adapter/(\w+\.py)`:\n\n```python\n(.*?)```", page, re.DOTALL):
        (home / name).write_text(code)
    groups = re.findall(r'\[project\.entry-points\."([\w.]+)"\]\n(\w+) = "([\w.:]+)"', page)
    about = home.parent / "tiny_adapter-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-adapter\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {place}\n" for group, name, place in groups))
    return home


@pytest.fixture
def check(tmp_path, package):
    """Runs `paralign check` of both sides, the package on the path."""

    def run(candidate=CANDIDATE):
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "reference.py").write_text(REFERENCE)
        (folder / "candidate.py").write_text(candidate)
        (side,) = re.findall(r"```toml\n(\[candidate\]\n.*?)```", PAGE.read_text(), re.DOTALL)
        (folder / "paralign.toml").write_text(PROJECT + side)
        path = os.pathsep.join(filter(None, (str(package.parent), os.environ.get("PYTHONPATH", ""))))
        command = [sys.executable, "-m", "paralign", "check", str(folder), "weights", "forward"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path}, check=False)
        reports = list(folder.glob("*/report.json"))
        return done, json.loads(reports[0].read_text()) if reports else {}

    return run


def test_a_framework_of_an_installed_package_is_checked_like_any_other(check):
    done, report = check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["candidate"]["framework"] == "tiny"
    assert report["candidate"]["versions"]["tiny"] == "1.0"
    assert "candidate: tiny 1.0 on cpu" in done.stdout
    moved = {pair["key"]: pair["transform"] for pair in report["stages"][0]["pairs"]}
    assert "transpose" in moved["parameters.weight"]


def test_its_faults_are_found(check):
    done, report = check(CANDIDATE.replace('+ self.parameters["bias"]', '- self.parameters["bias"]'))
    assert done.returncode == 1, done.stdout + done.stderr
    assert {s["name"]: s["verdict"] for s in report["stages"]} == {"weights": "aligned", "forward": "diverged"}


def test_an_adapter_that_lacks_what_it_must_have_is_told(check, package):
    (package / "adapter.py").write_text("import framework_that_is_not_there\n\ndef create():\n    return None\n")
    done, _ = check()
    assert done.returncode == 3, done.stdout + done.stderr
    assert "framework 'tiny' cannot be imported" in done.stdout + done.stderr
