"""`paralign doctor` on PyTorch and Paddle, through the real command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


def test_both_frameworks_compute_what_numpy_does(run, tmp_path):
    from paralign.run.template import write

    write(tmp_path / "port")
    done = run("doctor", tmp_path / "port", "--json")
    assert done.code == 0, done.out + done.err
    told = json.loads(done.out)
    assert [s for s in told["symptoms"] if s["severity"] in ("fault", "failed")] == []
    for side, name in zip(told["sides"], ("torch", "paddle"), strict=True):
        (framework,) = side["frameworks"]
        assert (framework["name"], framework["build"] in ("cpu", "gpu"), "cpu" in framework["devices"]) == (name, True, True)
        assert [check["name"] for check in framework["checks"]] == ["matmul", "convolution", "backward"]
        assert all(0 < check["error"] < 1e-5 for check in framework["checks"])
        assert framework["settings"]["default_dtype"] == "float32"
        assert set(framework["collectives"]) <= {"nccl", "gloo"}


def test_without_a_project_every_framework_of_this_interpreter_is_examined(run, tmp_path):
    done = run("doctor", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert "  torch " in done.out
    assert "  paddle " in done.out
    assert done.out.endswith("all well\n")


@pytest.mark.parametrize(
    ("code", "level"),
    [("", "off"), ("paddle.enable_compat()", "everywhere"), ("paddle.enable_compat(scope={'b', 'a'})", "in a, b")],
)
def test_how_far_paddle_imitates_pytorch_is_shown(code, level):
    program = f"import paddle\nfrom paralign.adapters.paddle import create\n{code}\nprint(create().flags()['enable_compat'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == level


COMPATIBLE = """
{code}
from torch import nn


def build_model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU())
"""


def test_a_port_by_paddles_imitation_of_pytorch_is_checked_and_said(run, tmp_path):
    (tmp_path / "reference.py").write_text(COMPATIBLE.format(code=""))
    (tmp_path / "candidate.py").write_text(COMPATIBLE.format(code="import paddle; paddle.enable_compat()"))
    sides = [f'[{side}]\nmodule = "{side}.py"\nframework = "{name}"\n' for side, name in (("reference", "torch"), ("candidate", "paddle"))]
    (tmp_path / "paralign.toml").write_text("".join(sides) + "[inputs]\nshape = [4, 6]\n")
    done = run("check", tmp_path, "weights", "forward")
    assert done.code == 0, done.out + done.err
    assert "candidate: enable_compat is on everywhere" in done.out
    assert "reference: enable_compat" not in done.out
