"""Blocks of pages that no other test executes: as they stand there, in a folder that has what they name."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from paralign import cli
from paralign.capture import save_foreign

DOCS = Path(__file__).parents[2] / "docs"


class Evil:
    """Pickles as a call of ``os.system``."""

    def __reduce__(self):
        import os

        return os.system, ("touch ran",)


def block(page, language, number=0):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[number]


@pytest.fixture
def checked(tmp_path, monkeypatch, project_in):
    """A folder with a project in ``port``, checked; its result is here too, as after a check in its folder."""
    (tmp_path / "port").mkdir()
    project_in(tmp_path / "port")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "port", "weights", "forward", "-q"]) == 0
    shutil.copytree(tmp_path / "port" / "result", tmp_path / "result")
    return tmp_path


def test_a_capture_is_read_as_its_page_says(checked, capsys):
    capsys.readouterr()
    exec(compile(block("captures.md", "python"), "captures.md", "exec"), {})
    assert capsys.readouterr().out.startswith("output")


def test_an_evil_file_is_refused_as_its_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    save_foreign(tmp_path / "forward_ref.npy", {"logits": np.ones(3)})
    command, *shown = block("captures.md", "console").splitlines()
    assert cli.main(shlex.split(command)[2:]) == 3
    assert capsys.readouterr().err.splitlines() == shown
    assert not Path("ran").exists()


@pytest.mark.parametrize("page", ["doctor.md", "doctor.zh.md", "kernel.md", "kernel.zh.md"])
def test_commands_on_interpreters_run(checked, monkeypatch, page):
    for line in block(page, "bash").splitlines():
        words = shlex.split(line, comments=True)
        monkeypatch.chdir(checked / ("port" if "check" in words else ""))
        with monkeypatch.context() as patch:
            while "=" in words[0]:
                patch.setenv(*words.pop(0).split("=", 1))
            code = cli.main([*words[1:], "weights", "forward"] if words[1:] == ["check", "."] else words[1:])
        assert code in ((0, 4) if "check" in words else (0,)), line


@pytest.mark.torch
def test_a_checkpoint_is_converted_as_its_page_says(tmp_path, monkeypatch, capsys):
    import torch

    monkeypatch.chdir(tmp_path)
    state = {"module.0.weight": torch.ones(3, 4), "module.0.bias": torch.zeros(3)}
    torch.save({"state_dict": state, "epoch": 3, "optimizer": {}}, "checkpoint.pth")
    exec(compile(block("formats.md", "python"), "formats.md", "exec"), {})
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["torch state_dict ['epoch', 'optimizer']", "0.weight float32 (3, 4)"]
    assert Path("model.pdparams").is_file()
