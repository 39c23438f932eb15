"""`paralign doctor` on PyTorch and Paddle, through the real command."""

from __future__ import annotations

import json

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
