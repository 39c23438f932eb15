"""Adding a stage is one file and one line: both are added to a copy of the package, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import paralign

STAGE = '''"""How many parameters both sides have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, StageResult

if TYPE_CHECKING:
    from paralign.context import Context


def run(context: Context) -> StageResult:
    """Compare two numbers."""
    missing = context.lacking("counting", "count_parameters", "build_model")
    if missing:
        return missing
    plan = context.plan
    same = plan is not None and len(plan.sources) == len(plan.targets)
    return StageResult("counting", ALIGNED if same else DIVERGED, "counted", notes=["counted on both sides"])
'''

LINE = '    Stage("counting", "3.99", {"count_parameters": "count_parameters(model)"}, follows=("weights",), default=False),\n'

SIDE = """
import numpy as np

class Net:
    def __init__(self):
        self.parameters = {"weight": np.ones((2, 3), "float32")}

    def __call__(self, x):
        return x @ self.parameters["weight"].T

def build_model():
    return Net()

def inputs():
    return np.ones((4, 3), "float32")
"""


def test_a_stage_of_one_file_and_one_line_is_checked_reported_and_told_of(tmp_path):
    package = tmp_path / "copy" / "paralign"
    shutil.copytree(Path(paralign.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    registry = package / "registry.py"
    text = registry.read_text()
    end = text.index(")\n\nBY_NAME")
    registry.write_text(text[:end] + LINE + text[end:])
    (package / "stages" / "counting.py").write_text(STAGE)
    project = tmp_path / "project"
    project.mkdir()
    (project / "reference.py").write_text(SIDE + "\ndef count_parameters(model):\n    return 6\n")
    (project / "candidate.py").write_text(SIDE)
    sides = [f'[{side}]\nmodule = "{side}.py"\nframework = "numpy"\n' for side in ("reference", "candidate")]
    (project / "paralign.toml").write_text("\n".join(sides))

    def check():
        command = [sys.executable, "-m", "paralign", "check", str(project), "counting"]
        env = {**os.environ, "PYTHONPATH": str(package.parent)}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)

    lacking = check()
    assert lacking.returncode == 4, lacking.stdout + lacking.stderr
    assert "the candidate has no count_parameters(model)" in lacking.stdout
    (project / "candidate.py").write_text((project / "reference.py").read_text())
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    (stage,) = json.loads(next(project.glob("*/report.json")).read_text())["stages"]
    assert (stage["name"], stage["verdict"], stage["method"]) == ("counting", "aligned", "counted")
    assert (next(project.glob("*/report.html"))).read_text().count("counted on both sides") > 0
