"""Files that are no source are in the converted tree as well: small ones, and none from elsewhere."""

from __future__ import annotations

import json
import os
import stat
import sys

import pytest

from paralign.cli import main
from paralign.errors import UsageError
from paralign.port.drafts.converted import convert_code
from paralign.port.sources import other_files


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "in"
    (folder / "net").mkdir(parents=True)
    (folder / "net/model.py").write_text("import torch\n\nx = torch.ones(2)\n")
    (folder / "net/config.json").write_bytes(b'{"width": 3}\r\n')
    (folder / "words.bin").write_bytes(bytes(range(256)))
    return folder


def _files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_the_same_tree_comes_out(tmp_path, source, capsys):
    (source / "start.sh").write_text("python -m net --backend torch\n")
    (source / "start.sh").chmod(0o544)
    assert main(["convert", "code", str(source), str(tmp_path / "out")]) == 0
    out = tmp_path / "out"
    assert _files(out) == ["ledger.json", "net/config.json", "net/model.py", "start.sh", "words.bin"]
    assert (out / "net/config.json").read_bytes() == b'{"width": 3}\r\n'
    assert (out / "words.bin").read_bytes() == bytes(range(256))
    assert stat.S_IMODE((out / "start.sh").stat().st_mode) == 0o744
    told = capsys.readouterr().out
    assert "    3 other files copied as they are\n" in told
    assert "other files that name PyTorch, copied as they are: start.sh\n" in told
    assert "not copied" not in told
    others = json.loads((out / "ledger.json").read_text())["others"]
    assert others == {"copied": ["net/config.json", "start.sh", "words.bin"], "naming_torch": ["start.sh"], "left_out": []}


def test_weights_large_files_and_what_nobody_wrote_stay(tmp_path, source, capsys):
    (source / "best.pth").write_bytes(b"0" * 10)
    with (source / "corpus.txt").open("wb") as file:
        file.truncate(other_files.LARGEST + 1)
    with (source / "largest.txt").open("wb") as file:
        file.truncate(other_files.LARGEST)
    for hidden in (".git/config", "__pycache__/a.txt", "env/pyvenv.cfg", "env/lib/a.txt", "net.egg-info/PKG-INFO", ".env"):
        (source / hidden).parent.mkdir(parents=True, exist_ok=True)
        (source / hidden).write_text("kept")
    ledger = convert_code(source, tmp_path / "out")
    assert _files(tmp_path / "out") == ["largest.txt", "ledger.json", "net/config.json", "net/model.py", "words.bin"]
    why = {each.path: each.why for each in ledger.others.left_out}
    assert why == {"best.pth": "weights or compiled code", "corpus.txt": "larger than 1 MiB"}
    assert f"    2 other files not copied; the largest: corpus.txt ({other_files.LARGEST + 1:,} bytes): larger than 1 MiB" in ledger.lines()


def test_small_files_come_first_where_all_are_too_many(tmp_path, source, monkeypatch):
    monkeypatch.setattr(other_files, "MOST_BYTES", 300)
    (source / "a.txt").write_bytes(b"0" * 280)
    ledger = convert_code(source, tmp_path / "out")
    assert sorted(ledger.others.contents) == ["net/config.json", "words.bin"]
    assert [each.path for each in ledger.others.left_out] == ["a.txt"]
    monkeypatch.setattr(other_files, "MOST_FILES", 1)
    assert sorted(convert_code(source, tmp_path / "one").others.contents) == ["net/config.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
def test_links_and_pipes_are_left_where_they_are(tmp_path, source):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("secret")
    (source / "key.txt").symlink_to(tmp_path / "secret/key.txt")
    (source / "data").symlink_to(tmp_path / "secret", target_is_directory=True)
    (source / "loop").symlink_to(source, target_is_directory=True)
    os.mkfifo(source / "pipe")
    (source / os.fsdecode(b"\xff.txt")).write_bytes(b"odd")
    ledger = convert_code(source, tmp_path / "out")
    assert _files(tmp_path / "out") == ["ledger.json", "net/config.json", "net/model.py", "words.bin"]
    assert {each.path: each.why for each in ledger.others.left_out} == {
        "key.txt": "a link",
        "data": "a link",
        "loop": "a link",
        "pipe": "no regular file",
        "\\udcff.txt": "its name is not UTF-8",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_a_file_that_becomes_a_link_is_not_followed(tmp_path, source, monkeypatch):
    (tmp_path / "key.txt").write_text("secret")
    judged = other_files._judged

    def changed(path):
        found = judged(path)
        if path.name == "words.bin":
            path.unlink()
            path.symlink_to(tmp_path / "key.txt")
        return found

    monkeypatch.setattr(other_files, "_judged", changed)
    ledger = convert_code(source, tmp_path / "out")
    assert not (tmp_path / "out/words.bin").exists()
    assert [each.path for each in ledger.others.left_out] == ["words.bin"]


def test_nothing_that_is_there_is_replaced_unasked(tmp_path, source):
    (tmp_path / "out/net").mkdir(parents=True)
    (tmp_path / "out/net/config.json").write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        convert_code(source, tmp_path / "out")
    assert _files(tmp_path / "out") == ["net/config.json"]
    convert_code(source, tmp_path / "out", force=True)
    assert (tmp_path / "out/net/config.json").read_bytes() == b'{"width": 3}\r\n'


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_no_link_in_the_destination_is_written_through(tmp_path, source):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/words.bin").symlink_to(tmp_path / "elsewhere/words.bin")
    with pytest.raises(UsageError, match="a link stands"):
        convert_code(source, tmp_path / "out", force=True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_ledger_is_not_mistaken_for_a_file_of_the_source(tmp_path, source):
    for name in ("ledger.json", "proof.json"):
        (source / name).write_text("theirs")
    ledger = convert_code(source, tmp_path / "out")
    assert "places" in json.loads((tmp_path / "out/ledger.json").read_text())
    assert {each.path for each in ledger.others.left_out} == {"ledger.json", "proof.json"}


def test_a_single_file_brings_no_others(tmp_path, source):
    convert_code(source / "net/model.py", tmp_path / "model.py")
    assert not (tmp_path / "config.json").exists()


def test_a_folder_that_does_not_fit_is_left_out_as_a_whole(tmp_path, source, monkeypatch):
    monkeypatch.setattr(other_files, "MOST_FILES", 20)
    for number in range(30):
        for folder in ("data/pictures", "data/labels", "net/tables"):
            (source / folder).mkdir(parents=True, exist_ok=True)
            if folder != "net/tables" or number < 5:
                (source / folder / f"{number}.txt").write_text("ab")
    ledger = convert_code(source, tmp_path / "out")
    tables = [f"net/tables/{number}.txt" for number in range(5)]
    assert sorted(ledger.others.contents) == ["net/config.json", *tables, "words.bin"]
    assert [(each.path, each.size, each.files) for each in ledger.others.left_out] == [("data/", 120, 60)]
    assert "   60 other files not copied; the largest: data/ (120 bytes): more than 64 MiB or 20 files in all" in ledger.lines()
    assert len(json.loads((tmp_path / "out/ledger.json").read_text())["others"]["left_out"]) == 1


def test_a_folder_that_fits_is_copied_but_for_what_never_is(tmp_path, source):
    (source / "data/deep").mkdir(parents=True)
    (source / "data/deep/a.txt").write_text("ab")
    (source / "data/b.pth").write_text("ab")
    ledger = convert_code(source, tmp_path / "out")
    assert "data/deep/a.txt" in ledger.others.contents
    assert [(each.path, each.files) for each in ledger.others.left_out] == [("data/b.pth", 1)]


def test_files_beside_source_are_left_out_one_by_one(tmp_path, source, monkeypatch):
    monkeypatch.setattr(other_files, "MOST_FILES", 3)
    for name in "abc":
        (source / f"net/{name}.txt").write_text(name)
    ledger = convert_code(source, tmp_path / "out")
    assert sorted(ledger.others.contents) == ["net/a.txt", "net/b.txt", "net/c.txt"]
    assert [each.path for each in ledger.others.left_out] == ["net/config.json", "words.bin"]
