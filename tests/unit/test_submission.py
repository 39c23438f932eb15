"""The alignment log and the archive for submission."""

from __future__ import annotations

import json
import re
import shutil
import tarfile

import pytest

from paralign import cli
from paralign.api import check_project
from paralign.progress.logbook import logbook, plain
from paralign.progress.steps import STEPS, status

#: what a numpy port cannot be checked for
OTHERS = [step.number for step in STEPS if step.number not in ("3.1", "3.2", "3.3")]
WITHOUT = [word for number in OTHERS for word in ("--without", number)]


@pytest.fixture(scope="module")
def once(tmp_path_factory, project_in):
    """A numpy port whose first three checkpoints are reached, and a copy of its folder."""
    folder = tmp_path_factory.mktemp("submission") / "port"
    folder.mkdir()
    project = project_in(folder)
    result, _ = check_project(folder, ["weights", "forward", "data", "metric"])
    assert result.verdict == "aligned"
    shutil.copytree(folder, folder.with_name("copy"))
    return project


@pytest.fixture
def port(once):
    """The same, put back after each test."""
    yield once
    shutil.rmtree(once.folder)
    shutil.copytree(once.folder.with_name("copy"), once.folder)


# -- the log -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_log_is_numbered_as_the_guide(port, language):
    text = logbook(status(port.folder), language)
    sections = re.findall(r"^## (3\.\d+) ", text, re.MULTILINE)
    assert sections == [step.number for step in STEPS]
    assert re.findall(r"^### (3\.1\.\d) ", text, re.MULTILINE) == ["3.1.1", "3.1.2", "3.1.3"]
    assert "`paralign check port forward`" in text
    assert "`forward_ref.npy`, `forward_numpy.npy`, `log/forward_diff.log`" in text
    assert "`candidate.py`" in text
    assert str(port.folder) not in text.replace(f"paralign check {port.folder}", "")


def test_both_languages_say_the_same(port):
    shapes = [[re.match(r"[#|-]*", line)[0] for line in logbook(status(port.folder), lang).splitlines()] for lang in ("en", "zh")]
    assert shapes[0] == shapes[1]
    assert "**一致**" in logbook(status(port.folder), "zh")


def test_a_divergence_and_what_has_changed_stand_in_the_log(port):
    port.edit("candidate", "x / 2", "x / 2.5")
    check_project(port.folder, ["data"])
    port.edit("candidate", "x / 2.5", "x / 2.25")
    text = logbook(status(port.folder))
    assert "**diverged**" in text
    assert "- Where it starts: port" in text
    assert "- Changed since then: `candidate.py`" in text


def test_texts_of_others_cannot_pass_for_ours(port):
    evil = "x\n# 3.99 forged\n<script>alert(1)</script> | `rm -rf` [a](b) \x1b[2J"
    path = port.folder / "result" / "stages" / "metric.json"
    told = json.loads(path.read_text())
    told["report"].update(notes=[evil], worst=evil, method=evil, findings=[{"cause": evil, "fix": evil, "proven": True}])
    path.write_text(json.dumps(told))
    text = logbook(status(port.folder))
    assert "3.99" in text
    assert re.findall(r"^#+ 3\.99", text, re.MULTILINE) == []
    assert "<script>" not in re.sub(r"(`+).*?\1", "", text)
    assert "\x1b" not in text
    assert plain("a_b*c") == r"a\_b\*c"


def test_the_log_is_written_to_a_new_file_only(port, capsys):
    place = port.folder / "log.md"
    assert cli.main(["logbook", str(port.folder), "--lang", "zh", "--out", str(place)]) == 0
    assert place.read_text(encoding="utf-8").startswith("# 对齐日志\n")
    assert cli.main(["logbook", str(port.folder), "--out", str(place)]) == 2
    assert "the file is there already" in capsys.readouterr().err
    assert cli.main(["logbook", str(port.folder)]) == 0
    assert capsys.readouterr().out.startswith("# Alignment log\n")


def test_a_new_project_has_a_log_too(project):
    text = logbook(status(project.folder))
    assert text.count("- State: open") == 12


# -- the archive -------------------------------------------------------------------------------------------------------------


def test_the_archive_holds_arrays_logs_and_their_hashes(port, capsys):
    (port.folder / "train.log").write_text("[Epoch 0, iter: 0] loss: 1.0\n")
    archive = port.folder / "checkpoints.tar.gz"
    assert cli.main(["pack", str(port.folder), *WITHOUT]) == 0
    with tarfile.open(archive) as tar:
        contents = {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}
        assert {(entry.mtime, entry.uid, entry.uname) for entry in tar.getmembers()} == {(0, 0, "")}
    stages = ("forward", "data", "metric")
    expected = {f"result/{stage}_{side}.npy" for stage in stages for side in ("ref", "numpy")}
    expected |= {f"result/log/{stage}_diff.log" for stage in stages} | {"manifest.json", "logbook.md"}
    assert {name.removeprefix("checkpoints/") for name in contents} >= expected
    assert not any(str(port.folder).encode() in content for name, content in contents.items() if not name.endswith(".npy"))
    assert [each["state"] for each in json.loads(contents["checkpoints/manifest.json"])["checkpoints"]] == ["done"] * 3 + ["left out"] * 3
    assert cli.main(["pack", str(port.folder), *WITHOUT]) == 2
    assert "the archive is there already" in capsys.readouterr().err
    assert cli.main(["pack", str(port.folder), *WITHOUT, "--out", str(port.folder / "b.tar.gz")]) == 0
    assert (port.folder / "b.tar.gz").read_bytes() == archive.read_bytes()
    capsys.readouterr()
    assert cli.main(["pack", str(port.folder), *WITHOUT, "-q", "--out", str(port.folder / "c.tar.gz")]) == 0
    assert re.fullmatch(r".*c\.tar\.gz: \d+ files\n", capsys.readouterr().out)


def test_open_checkpoints_are_named_and_nothing_is_written(port, capsys):
    assert cli.main(["pack", str(port.folder)]) == 4
    out = capsys.readouterr().out
    assert [int(n) for n in re.findall(r"^checkpoint (\d)", out, re.MULTILINE)] == [4, 5, 6]
    assert "checkpoint 4 (step 3.4) is open" in out
    assert list(port.folder.glob("*.tar.gz")) == []


@pytest.mark.parametrize(
    ("spoil", "code", "told"),
    [
        (lambda p: (p.folder / "result" / "metric_ref.npy").unlink(), 4, "checkpoint 3 (step 3.3) is open: metric_ref.npy is missing"),
        (
            lambda p: (p.folder / "result" / "log" / "data_diff.log").write_text("fine"),
            4,
            "log/data_diff.log is missing or not as the check",
        ),
        (lambda p: p.edit("candidate", "x / 2", "x * 0.5"), 4, "is stale: weights was aligned; since then changed: candidate.py"),
        (lambda p: p.edit("candidate", "x / 2", "x / 3") and check_project(p.folder, ["data"]), 1, "checkpoint 2 (step 3.2) is diverged"),
    ],
    ids=["missing", "another log", "stale", "diverged"],
)
def test_what_is_missing_changed_or_diverged_is_refused(port, capsys, spoil, code, told):
    spoil(port)
    assert cli.main(["pack", str(port.folder), *WITHOUT]) == code
    out = capsys.readouterr().out
    assert told in out
    assert "nothing was written" in out
    assert list(port.folder.glob("*.tar.gz")) == []
