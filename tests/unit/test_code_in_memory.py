"""Compiled code that a process has loaded, as the system tells it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paralign.verification import code_in_memory
from paralign.verification.tampering import OF_A_PORT, Deed, fingerprints, of_code, rewritten
from paralign.worker.process.files import fingerprint


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells")
def test_a_process_cannot_take_back_what_it_has_loaded():
    code = "import sys, numpy\nfor name in [n for n in sys.modules if n.startswith('numpy')]:\n    del sys.modules[name]\nprint()\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found = code_in_memory.code_of(child.pid)
        child.communicate(b"\n")
    assert any("numpy" in Path(file).parts for file in found)


def test_a_process_that_is_gone_tells_nothing():
    assert code_in_memory.code_of(2**22 + 1) == set()


def test_frameworks_and_compiled_code_of_a_port_are_told(tmp_path):
    torch, jax, own = (str(tmp_path / p) for p in ("site-packages/torch/lib/libtorch.so", "site-packages/jaxlib/x.so", "port/fast.so"))
    assert code_in_memory.frameworks([torch, jax, own, os.sep + "usr/lib/torch/x.so"]) == {"torch", "jax"}
    assert code_in_memory.within([torch, own], tmp_path / "port") == {own}
    found = of_code({torch, jax, own}, tmp_path / "port", {"jax"})
    assert [(each.deed, each.what) for each in found] == [(Deed.IMPORTED, "torch"), (Deed.COMPILED, own)]


def test_packages_named_result_and_behind_links_are_not_rewritten(tmp_path):
    port, elsewhere = tmp_path / "port", tmp_path / "elsewhere"
    for folder in (port / "result", elsewhere):
        folder.mkdir(parents=True)
        (folder / "a.py").write_text("x = 1")
    (port / "linked").symlink_to(elsewhere, target_is_directory=True)
    before = fingerprints([port], OF_A_PORT)
    read = {str(port / name / "a.py"): fingerprint(str(elsewhere / "a.py")) for name in ("result", "linked")}
    assert rewritten(before, read, before) == []
    new = str(port / "new.py")
    assert [each.what for each in rewritten(before, {new: "other"}, before)] == [new]
