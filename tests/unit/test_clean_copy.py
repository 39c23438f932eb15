"""A clean copy of a finished port: what is left out, what would break, what is never touched."""

from __future__ import annotations

import os

import pytest

from paralign import cli
from paralign.errors import UsageError
from paralign.progress.cleaning import Reason, plan, write

TOML = """
[reference]
module = "check_ref.py"
root = "paper"
framework = "numpy"
[candidate]
module = "check_port.py"
root = "port"
framework = "numpy"
"""

FILES = {
    "paralign.toml": TOML,
    "paper/model.py": "class Net: pass\n",
    "paper/check_ref.py": "import model\n",
    "port/check_port.py": "from net import Net\n",
    "port/net.py": "import numpy as np\nfrom layers import block\n",
    "port/layers/__init__.py": "",
    "port/layers/block.py": "from .norm import Norm\n",
    "port/layers/norm.py": "class Norm: pass\n",
    "port/config.yaml": "lr: 0.1\n",
    "port/01_test_forward.py": "from reprod_log import ReprodLogger\n",
    "port/tools/compare.py": "import paralign.compat.reprod_log as r\n",
    "port/forward_paddle.npy": "x",
    "port/fake_data.npy": "x",
    "port/checkpoints.tar.gz": "x",
    "port/log/forward_diff_log.txt": "x",
    "port/result/report.json": "{}",
    "port/result/captures/x/manifest.json": "{}",
    "port/__pycache__/net.cpython-311.pyc": "x",
    "port/.git/HEAD": "x",
    "port/env/pyvenv.cfg": "x",
    "port/env/lib/paddle.py": "x",
}

CLEAN = ["config.yaml", "layers/__init__.py", "layers/block.py", "layers/norm.py", "net.py"]


@pytest.fixture
def source(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_only_the_ports_own_files_are_copied(source):
    found = plan(source)
    assert [str(path) for path in found.files] == CLEAN
    assert {str(each.path): each.reason for each in found.left} == {
        "check_port.py": Reason.SIDE,
        "01_test_forward.py": Reason.CHECK,
        "tools/compare.py": Reason.CHECK,
        "forward_paddle.npy": Reason.RESULT,
        "fake_data.npy": Reason.INPUT,
        "checkpoints.tar.gz": Reason.RESULT,
        "log/forward_diff_log.txt": Reason.RESULT,
        "result": Reason.RESULT,
        "__pycache__": Reason.CACHE,
        ".git": Reason.CACHE,
        "env": Reason.CACHE,
    }
    assert found.faults == []


def test_without_write_nothing_is_written_and_with_it_the_original_stays(source, tmp_path, capsys):
    before, target = tree(source), tmp_path / "clean"
    assert cli.main(["clean-copy", str(source), str(target)]) == 0
    assert "nothing was written: --write writes it" in capsys.readouterr().out
    assert not target.exists()
    (source / "port" / "net.py").chmod(0o755)
    assert cli.main(["clean-copy", str(source), str(target), "--write"]) == 0
    assert list(tree(target)) == CLEAN
    assert (target / "net.py").stat().st_mode & 0o111
    assert tree(source) == before


def test_nothing_is_overwritten(source, tmp_path, capsys):
    target = tmp_path / "clean"
    (target / "layers").mkdir(parents=True)
    (target / "layers" / "norm.py").write_text("mine")
    for more in ([], ["--write"]):
        assert cli.main(["clean-copy", str(source), str(target), *more]) == 2
        assert "layers/norm.py would be overwritten" in capsys.readouterr().err
    assert tree(target) == {"layers/norm.py": b"mine"}


def test_what_would_not_be_written_is_not_shown_as_possible(source, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for target, told in ((source / "port" / "sub", "the copy would lie in the port's own folder"), (tmp_path / "file", "this is a file")):
        assert cli.main(["clean-copy", str(source), str(target)]) == 2
        caught = capsys.readouterr()
        assert told in caught.err
        assert "--write writes it" not in caught.out


def test_a_port_of_which_nothing_is_left_is_no_copy(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for more in ([], ["--write"]):
        assert cli.main(["clean-copy", str(tmp_path / "empty"), str(tmp_path / "clean"), *more]) == 4
        assert "nothing is left to copy" in capsys.readouterr().out
    assert not (tmp_path / "clean").exists()


@pytest.mark.parametrize(
    ("file", "code", "told"),
    [
        ("net.py", "import numpy\nfrom check_port import loss\n", "net.py:2"),
        ("layers/block.py", "from .. import check_port\n", "layers/block.py:1"),
        ("net.py", "def f():\n    from tools.compare import g\n", "net.py:2"),
        ("net.py", "from model import Net\n", "net.py:1"),
        ("net.py", "import paper.model\n", "net.py:1"),
    ],
    ids=["the side", "the side, relatively", "check code", "the reference", "the reference by its folder"],
)
def test_a_copy_that_would_not_run_is_refused_with_the_line(source, tmp_path, capsys, file, code, told):
    (source / "port" / file).write_text(code)
    assert cli.main(["clean-copy", str(source), str(tmp_path / "clean"), "--write"]) == 1
    assert f"would not run: {told}" in capsys.readouterr().out
    assert not (tmp_path / "clean").exists()
    with pytest.raises(UsageError, match="a copied file needs one that is left out"):
        write(plan(source), tmp_path / "clean")


def test_what_is_needed_can_be_kept_and_more_be_left_out(source):
    (source / "port" / "net.py").write_text("from check_port import loss\n")
    assert plan(source).breaking
    found = plan(source, keep=["check_port.py"], leave_out=["*.yaml", "layers"])
    assert [str(path) for path in found.files] == ["check_port.py", "net.py"]


def test_a_port_that_imports_the_other_framework_or_paralign_is_told(source):
    (source / "paralign.toml").write_text(TOML.replace('framework = "numpy"\n[cand', 'framework = "torch"\n[cand'))
    (source / "port" / "net.py").write_text("import torch.nn as nn\nfrom paralign.trainlog import TrainLog\n")
    found = plan(source)
    assert [(fault.line, fault.what, fault.breaks) for fault in found.faults] == [
        (1, "imports torch", False),
        (2, "imports paralign", False),
    ]


def test_a_folder_without_a_project_is_the_port(source):
    found = plan(source / "port")
    assert [str(path) for path in found.files] == sorted(["check_port.py", *CLEAN])


def test_links_out_of_the_folder_are_left_out(source, tmp_path):
    (tmp_path / "secret").write_text("x")
    (source / "port" / "data.txt").symlink_to(tmp_path / "secret")
    (source / "port" / "everything").symlink_to(tmp_path)
    os.mkfifo(source / "port" / "pipe")
    left = {str(each.path): each.reason for each in plan(source).left}
    assert {left[name] for name in ("data.txt", "everything", "pipe")} == {Reason.LINK}


@pytest.mark.parametrize("place", ["port", "port/clean"])
def test_a_copy_into_the_port_itself_is_refused(source, place):
    with pytest.raises(UsageError, match="own folder"):
        write(plan(source), source / place)


def test_one_folder_for_both_sides_is_told(source):
    (source / "paralign.toml").write_text(
        TOML.replace('"paper"', '"."')
        .replace('"port"', '"."')
        .replace('"check_', '"port/check_')
        .replace("port/check_ref", "paper/check_ref")
    )
    assert plan(source).notes[0].startswith("the reference and the port have one folder")


def test_a_reference_around_the_port_is_refused(source):
    (source / "paralign.toml").write_text(TOML.replace('root = "paper"', 'root = "."').replace("check_ref.py", "paper/check_ref.py"))
    with pytest.raises(UsageError, match="the reference's folder holds the port"):
        plan(source)
    with pytest.raises(UsageError, match="there is no such folder"):
        plan(source / "nowhere")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"def (", b"(" * 100_000, b"\0"])
def test_a_file_that_is_no_python_is_copied_as_it_is(source, tmp_path, content):
    (source / "port" / "odd.py").write_bytes(content)
    found = plan(source)
    write(found, tmp_path / "clean")
    assert (tmp_path / "clean" / "odd.py").read_bytes() == content
