"""``paralign port`` into its own folder: what is ours is written again, what the user edited stays; near names of models and paths."""

from __future__ import annotations

import json
import os

import pytest

from paralign.capture.bounds import near
from paralign.cli import main
from paralign.errors import CaptureFormatError, UsageError
from paralign.port.drafts.drafting import draft
from paralign.port.drafts.kept_edits import RECORD, recorded

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
HELP = "import torch\n\n\ndef help_(x):\n    return torch.sspaddmm(x, x, x)\n"


@pytest.fixture
def ported(tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    (source / "net.py").write_text(NET)
    (source / "help.py").write_text(HELP)
    draft(source, tmp_path / "out", "net:Net", ["2x4"])
    return source, tmp_path / "out"


def again(ported, **how):
    return draft(*ported, "net:Net", ["2x4"], force=True, **how)


def test_a_port_that_nobody_edited_is_made_again(ported):
    source, out = ported
    before = {path.name: path.read_text() for path in out.rglob("*.py")}
    (source / "net.py").write_text(NET.replace("torch.relu", "torch.tanh"))
    made = again(ported)
    assert made.kept == []
    assert "paddle.tanh" in (out / "port" / "net.py").read_text()
    assert before["candidate.py"] == (out / "candidate.py").read_text()


def test_what_was_edited_is_kept_and_named_and_the_rest_is_made_again(ported):
    source, out = ported
    mine = "# mine\n" + (out / "port" / "net.py").read_text()
    (out / "port" / "net.py").write_text(mine)
    (out / "candidate.py").write_text("mine too\n")
    (out / "result").mkdir()
    (out / "result" / "report.json").write_text("{}")
    (out / "notes.txt").write_text("notes")
    (out / "left.md").unlink()
    (source / "net.py").write_text(NET.replace("torch.relu", "torch.tanh"))
    (source / "new.py").write_text("import torch\n\nx = torch.ones(2)\n")
    made = again(ported)
    assert made.kept == ["candidate.py", "port/net.py"]
    assert (out / "port" / "net.py").read_text() == mine
    assert (out / "candidate.py").read_text() == "mine too\n"
    assert (out / "notes.txt").read_text() == "notes"
    assert (out / "result" / "report.json").read_text() == "{}"
    assert "paddle.ones" in (out / "port" / "new.py").read_text()
    assert (out / "left.md").is_file(), "a file that was removed comes back"
    assert again(ported).kept == ["candidate.py", "port/net.py"], "an edited file is the user's for good"


def test_a_place_that_was_written_by_hand_is_no_longer_left(ported):
    _, out = ported
    assert "help.py:5" in (out / "left.md").read_text()
    assert again(ported).ledger.left
    text = (out / "port" / "help.py").read_text()
    (out / "port" / "help.py").write_text(text[: text.index("    return")] + "    return x\n")
    made = again(ported)
    assert made.kept == ["port/help.py"]
    assert not made.ledger.left
    assert "help.py:5" not in (out / "left.md").read_text()


def test_the_command_says_what_was_kept(ported, capsys):
    source, out = ported
    (out / "port" / "net.py").write_text("x = 1\n")
    words = ["port", str(source), str(out), "--model", "net:Net", "--no-check"]
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 1
    assert f"kept, for it was edited since: {out / 'port' / 'net.py'}" in capsys.readouterr().out


def test_folders_that_no_port_wrote_are_refused(tmp_path, ported):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not one that `paralign port` wrote"):
        draft(ported[0], tmp_path / "full", "net:Net", [], force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError):
        draft(ported[0], tmp_path / "file", "net:Net", [], force=True)
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["mine.txt"]


@pytest.mark.parametrize("content", ["{", "[]", '{"files": [1]}', '{"files": {"a": 1}}', '{"schema": 1}', "[" * 100_000, "\udcff"])
def test_a_damaged_record_is_refused_and_nothing_written(ported, content):
    _, out = ported
    (out / RECORD).write_bytes(content.encode("utf-8", "surrogateescape"))
    (out / "candidate.py").unlink()
    with pytest.raises(CaptureFormatError, match="damaged"):
        again(ported)
    assert not (out / "candidate.py").exists()


def test_a_record_that_names_other_files_touches_none_of_them(tmp_path, ported):
    _, out = ported
    (tmp_path / "outside.txt").write_text("mine")
    record = json.loads((out / RECORD).read_text())
    record["files"]["../outside.txt"] = record["files"]["/etc/hostname"] = "0" * 64
    (out / RECORD).write_text(json.dumps(record))
    assert again(ported).kept == []
    assert (tmp_path / "outside.txt").read_text() == "mine"


def test_links_are_not_written_through(tmp_path, ported):
    _, out = ported
    (tmp_path / "elsewhere.py").write_bytes((out / "port" / "net.py").read_bytes())
    (out / "port" / "net.py").unlink()
    (out / "port" / "net.py").symlink_to(tmp_path / "elsewhere.py")
    before = (tmp_path / "elsewhere.py").read_bytes()
    (ported[0] / "net.py").write_text(NET.replace("torch.relu", "torch.tanh"))
    assert again(ported).kept == ["port/net.py"]
    assert (tmp_path / "elsewhere.py").read_bytes() == before


def test_every_file_of_a_new_port_is_recorded(ported):
    _, out = ported
    assert set(recorded(out)) == {
        "paralign.toml", "reference.py", "candidate.py", "left.md", "port/net.py", "port/help.py", "port/ledger.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nett:Net", "no module 'nett'; did you mean 'net'"),
        ("net:Nte", "has no 'Nte'; did you mean 'Net'"),
        ("net:Net(Confg())", "has no 'Confg'"),
        ("other:Net", "no module 'other'"),
    ],
)
def test_near_names_of_a_model(tmp_path, ported, model, message):
    with pytest.raises(UsageError, match=message):
        draft(ported[0], tmp_path / "new", model, [])
    assert not (tmp_path / "new").exists()


def test_names_that_a_module_takes_by_a_star_are_not_refused(tmp_path, ported):
    (ported[0] / "all.py").write_text("from net import *\n")
    assert draft(ported[0], tmp_path / "new", "all:Net", []).ledger is not None


def test_near_paths(tmp_path, monkeypatch):
    (tmp_path / "examples" / "mobilenetv3").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert near("exmaples/mobilenet") == "; did you mean 'examples/mobilenetv3'?"
    assert near("examples/mobilenetv3") == ""
    assert near("examples/zzz") == near("nothing/like/it") == near("") == near("..") == ""
    assert near(tmp_path / "exampels") == f"; did you mean '{tmp_path / 'examples'}'?"


@pytest.mark.parametrize("path", ["\0", "a" * 5000, "/proc/self/mem/x", "x/" * 3000])
def test_near_paths_of_what_no_system_has(path):
    assert near(path) == ""


def test_a_folder_that_cannot_be_read_has_no_neighbours(tmp_path):
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut").chmod(0)
    try:
        assert near(tmp_path / "shut" / "x") == ""
    finally:
        os.chmod(tmp_path / "shut", 0o755)  # noqa: PTH101 - as pytest left it


COMMANDS = [
    ["check", "prject"], ["repair", "prject"], ["doctor", "prject"], ["status", "prject"], ["scan", "prject"], ["report", "prject"],
    ["compare", "prject", "project"], ["convert", "code", "prject", "out"], ["port", "prject", "out", "--model", "a:B", "--no-check"],
    ["clean-copy", "prject", "out"], ["rank-logs", "prject"], ["init", "new", "--reference", "prject"],
    ["log", "show", "prject/t.log"], ["logbook", "prject"], ["pack", "prject"], ["inputs", "prject"], ["locate", "prject"], ["sweep", "prject/t.log"],
    ["weights", "show", "prject/t.log"], ["data", "verify", "prject"], ["convert", "weights", "prject/t.log", "out.pdparams"],
    ["watch-memory", "prject"], ["watch-loader", "prject"], ["data", "sample", "prject"], ["weights", "diff", "prject/t.log", "project/t.log"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_names_the_folder_that_was_meant(tmp_path, monkeypatch, capsys, words):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "t.log").write_text("")
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr().err
    assert code in (2, 3)
    assert "did you mean" in said, said
    assert "project" in said.split("did you mean")[1]
