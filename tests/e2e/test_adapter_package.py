"""Another framework by an installed package alone: the example of docs/adapters.md, as pip leaves it, in a check."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
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
    """Runs `paralign check` of both sides, the package on the path; ``python`` and ``env`` are the candidate's."""

    def run(candidate=CANDIDATE, python="", env=None):
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "reference.py").write_text(REFERENCE)
        (folder / "candidate.py").write_text(candidate)
        (side,) = re.findall(r"```toml\n(\[candidate\]\n.*?)```", PAGE.read_text(), re.DOTALL)
        more = f"python = {json.dumps(str(python))}\n" if python else ""
        more += "".join(f"env.{name} = {json.dumps(value)}\n" for name, value in (env or {}).items())
        (folder / "paralign.toml").write_text(PROJECT + side + more)
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


@pytest.fixture
def bare(tmp_path):
    """An interpreter that has numpy and ONNX Runtime where they are installed here, and neither paralign nor any package of ours."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for name in ("numpy", "onnxruntime"):
        found = importlib.util.find_spec(name)
        for place in Path(found.origin).parents[1].glob(f"{name}*") if found else ():
            (site / place.name).symlink_to(place)
    return tmp_path / "bare" / "bin" / "python"


#: what a side's variables take away of the test's own
WITHOUT_PATH = {"PYTHONPATH": ""}


def test_a_side_whose_interpreter_lacks_paralign_and_the_package_is_checked(check, bare):
    done, report = check(python=bare, env=WITHOUT_PATH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["candidate"]["versions"]["tiny"] == "1.0"


def test_a_side_runs_the_adapter_that_its_own_interpreter_has(check, bare, package):
    (site,) = bare.parents[1].glob("lib/python*/site-packages")
    for place in package.parent.iterdir():
        shutil.copytree(place, site / place.name)
    adapter = site / "tiny_adapter" / "adapter.py"
    adapter.write_text(adapter.read_text().replace('"tiny": "1.0"', '"tiny": "0.9"'))
    done, report = check(python=bare, env=WITHOUT_PATH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["candidate"]["versions"]["tiny"] == "0.9"


def test_what_the_side_starts_is_not_told_of_adapters(check):
    told = "import os\nassert 'PARALIGN_ADAPTERS' not in os.environ\n"
    done, _ = check(told + CANDIDATE, env={"PARALIGN_ADAPTERS": "nonsense"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_onnx_program_is_a_side_of_an_interpreter_without_paralign(tmp_path, bare):
    onnx = pytest.importorskip("onnx", reason="writing ONNX programs needs onnx (the extra `onnx`)")
    pytest.importorskip("onnxruntime", reason="ONNX programs need onnxruntime (the extra `onnx`)")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [5, 3]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), tmp_path / "net.onnx")
    (tmp_path / "reference.py").write_text("import numpy as np\n\n\ndef build_model():\n    return np.tanh\n")
    program = "from pathlib import Path\n\n\ndef build_model():\n    return str(Path(__file__).with_name('net.onnx'))\n"
    (tmp_path / "candidate.py").write_text(program)
    sides = '[reference]\nmodule = "reference.py"\nframework = "numpy"\n[candidate]\nmodule = "candidate.py"\nframework = "onnxruntime"\n'
    lacking = f"python = {json.dumps(str(bare))}\nenv.PYTHONPATH = ''\n[inputs]\nshape = [5, 3]\n"
    (tmp_path / "paralign.toml").write_text(sides + lacking)
    command = [sys.executable, "-m", "paralign", "check", str(tmp_path), "forward"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "candidate: onnxruntime" in done.stdout
