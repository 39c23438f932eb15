"""A sealed process writes below its folder alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def sealed(folder: Path, body: str) -> subprocess.CompletedProcess:
    """Run a piece of code in a process that is sealed in a folder."""
    code = f"import os, shutil, subprocess, tempfile\nfrom paralign.worker.process import sealed\nsealed.install()\n{textwrap.dedent(body)}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PARALIGN_WRITES_BELOW": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "deed",
    [
        "open('../own.txt', 'w')",
        "open('../own.txt', 'a')",
        "open('linked.txt', 'r+')",
        "open('folder/own.txt', 'wb')",
        "os.remove('../own.txt')",
        "os.remove('folder/own.txt')",
        "os.rename('../own.txt', 'mine.txt')",
        "os.replace('inner.txt', '../own.txt')",
        "shutil.rmtree('../data')",
        "shutil.move('../own.txt', '.')",
        "os.mkdir('../other')",
        "os.link('../own.txt', 'same.txt')",
        "os.remove('own.txt', dir_fd=os.open('..', os.O_RDONLY))",
        "os.rename('inner.txt', 'own.txt', dst_dir_fd=os.open('..', os.O_RDONLY))",
        "os.symlink('../own.txt', 'other.txt')",
        "os.truncate('../own.txt', 0)",
        "os.chmod('../own.txt', 0)",
        "os.system('touch ../other')",
        "subprocess.run(['true'])",
        "os.open('../own.txt', os.O_WRONLY | os.O_TRUNC)",
    ],
)
def test_deeds_outside_are_refused(tmp_path, deed):
    folder, data = tmp_path / "copy", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    for path in (tmp_path / "own.txt", data / "own.txt", folder / "inner.txt"):
        path.write_text("kept")
    (folder / "linked.txt").symlink_to(tmp_path / "own.txt")
    (folder / "folder").symlink_to(data)
    done = sealed(folder, deed)
    assert "not done in a trial" in done.stderr, done.stderr
    assert (tmp_path / "own.txt").read_text() == (data / "own.txt").read_text() == "kept"
    assert not (tmp_path / "other").exists()


def test_what_lies_inside_may_be_written_and_all_may_be_read(tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    (tmp_path / "own.txt").write_text("kept")
    body = """
    os.makedirs('a/b')
    open('a/b/c.txt', 'w').write(open('../own.txt').read())
    os.rename('a/b/c.txt', 'd.txt')
    shutil.rmtree('a')
    open(os.devnull, 'w').write('x')
    os.symlink('d.txt', 'linked.txt')
    os.remove('linked.txt')
    print(open('d.txt').read())
    """
    done = sealed(folder, body)
    assert done.stdout.strip() == "kept", done.stderr
    assert (tmp_path / "own.txt").read_text() == "kept"
