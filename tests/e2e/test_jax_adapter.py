"""Ports to JAX in checks: the example of docs/jax.md in flax, and a function over a tree of parameters; skipped without JAX."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]

FUNCTIONS = """
from functools import partial

import jax.numpy as jnp
import numpy as np


def apply(params, x):
    x = jnp.transpose(x, (0, 2, 3, 1)).reshape((x.shape[0], -1, 3)).mean(axis=1)
    for w, b in params["layers"]:
        x = jnp.tanh(x @ w + b)
    return x @ params["head"]["w"]


def build_model():
    random = np.random.RandomState(1)
    draw = lambda *shape: jnp.asarray(random.randn(*shape).astype("float32"))
    return partial(apply, {"layers": [(draw(3, 8), draw(8)), (draw(8, 8), draw(8))], "head": {"w": draw(8, 4)}})
"""

TORCH = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 8), nn.Linear(8, 8)])
        self.head = nn.Linear(8, 4, bias=False)

    def forward(self, x):
        x = x.mean(dim=(2, 3))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


def build_model():
    return Net()
"""


def example():
    return dict(re.findall(r"`([\w.]+)`[^\n`]*:\n\n```\w+\n(.*?)```", (ROOT / "docs" / "jax.md").read_text(), re.DOTALL))


def test_the_entry_points_lead_to_what_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]
    for group, function in (("paralign.adapters", "def create("), ("paralign.profiles", "PROFILE = ")):
        home, _, name = points[group]["jax"].partition(":")
        assert name in function
        assert function in (ROOT / "src" / f"{home.replace('.', '/')}.py").read_text()


def test_the_profile_is_read_without_jax():
    code = "import sys; from paralign_jax.profile import PROFILE; print(PROFILE.layouts['linear', 'weight'], {'jax', 'flax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(1, 0) set()\n"


@pytest.fixture
def check(tmp_path):
    """Runs `paralign check`, the package's entry points on the path as an installation leaves them."""
    pytest.importorskip("jax", reason="needs JAX (the extra `jax`)")
    pytest.importorskip("torch")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    about = tmp_path / "site" / "paralign_points-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: paralign-points\nVersion: 1.0\n")
    lines = [f"[{group}]\njax = {points[group]['jax']}\n" for group in ("paralign.adapters", "paralign.profiles")]
    (about / "entry_points.txt").write_text("".join(lines))

    def run(files, **changed):
        folder = tmp_path / "port"
        folder.mkdir(exist_ok=True)
        for name, text in {**example(), **files}.items():
            (folder / name).write_text(text)
        path = os.pathsep.join([str(about.parent), *(entry for entry in sys.path if entry)])
        done = subprocess.run(
            [sys.executable, "-m", "paralign", "check", str(folder)], capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": path, **changed},
        )  # fmt: skip
        return done, json.loads((folder / "result" / "report.json").read_text())

    return run


@pytest.mark.torch
def test_the_page_is_right(check):
    done, report = check({})
    assert done.returncode == 0, done.stdout + done.stderr
    forward = report["stages"][1]
    assert (forward["verdict"], forward["method"]) == ("aligned", "float64")
    assert forward["error"] < 1e-11
    moved = {pair["candidate"]["name"]: pair["transform"] for pair in report["stages"][0]["pairs"] if pair["transform"]}
    assert set(moved) == {"conv.kernel", "head.kernel"}
    candidate = example()["candidate.py"]
    assert "jax.nn.relu(self.norm(self.conv(x)))" in candidate
    done, report = check({"candidate.py": candidate.replace("jax.nn.relu(self.norm(self.conv(x)))", "self.norm(self.conv(x))")})
    assert done.returncode == 1
    assert "after 'norm' (BatchNorm, candidate.py:13), before 'head' (Linear, candidate.py:14)" in done.stdout


@pytest.mark.torch
def test_a_function_over_a_tree_takes_the_weights_of_a_module(check):
    done, report = check({"reference.py": TORCH, "candidate.py": FUNCTIONS})
    assert done.returncode == 0, done.stdout + done.stderr
    assert {pair["candidate"]["name"] for pair in report["stages"][0]["pairs"]} == {
        "params.layers.0.0", "params.layers.0.1", "params.layers.1.0", "params.layers.1.1", "params.head.w",
    }  # fmt: skip
    done, report = check({"reference.py": TORCH, "candidate.py": FUNCTIONS.replace("jnp.tanh(x @ w + b)", "jnp.tanh(x @ w - b)")})
    assert done.returncode == 1, done.stdout + done.stderr
    assert report["stages"][1]["verdict"] == "diverged"
