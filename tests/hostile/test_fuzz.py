"""Files changed at random end no command in a fault of ours; `make fuzz` tries thousands more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

SCRIPT = Path(fuzz.__file__)
CASES = 280


def test_files_changed_at_random_end_every_command_as_one_of_its_own_ends():
    """In a process of its own, whose memory is bounded."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cases", str(CASES), "--seed", "7"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases: 0 failures" in done.stdout


@pytest.mark.parametrize("name", fuzz.KINDS)
def test_what_is_changed_is_valid_before(name, tmp_path):
    """A fuzzer that starts from refused files would show nothing."""
    kind = fuzz.KINDS[name]
    for side in ("reference.py", "candidate.py"):
        (tmp_path / side).write_text("")
    for valid in ("valid.safetensors", "s.safetensors"):
        fuzz.save(tmp_path / valid, fuzz.tensors())
    (tmp_path / name).write_bytes(kind.valid())
    codes = {"rules.toml": {2}, "x.npy": {0, 1}}  # its rules name tensors that the checkpoint lacks
    for command in kind.commands:
        assert fuzz.run_command(command, tmp_path / name, tmp_path, fuzz.random.Random(0)) in codes.get(name, {0, 1, 4}), command


def test_a_fault_of_ours_is_seen(monkeypatch):
    """The guard can fail: a reader that raises what is no error of ours."""
    monkeypatch.setattr("paralign.formats.torch.read_zip", lambda *_: {}["lost"])
    outcome = fuzz.run(3, 0, ["own.pth"], None)
    assert outcome.failures
    assert "KeyError" in outcome.failures[0]


def test_a_case_is_made_again_by_its_seed(tmp_path):
    made = []
    for attempt in ("a", "b"):
        folder = tmp_path / attempt
        folder.mkdir()
        fuzz.save(folder / "valid.safetensors", fuzz.tensors())
        fuzz.case(fuzz.KINDS["x.safetensors"], "0:x.safetensors:8", folder)
        made.append((folder / "x.safetensors").read_bytes())
    assert made[0] == made[1]
    assert os.fspath(SCRIPT).endswith("fuzz.py")
