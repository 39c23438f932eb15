"""The command line as a whole: near names, one form of errors, what goes to a pipe and what to a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paralign import cli
from paralign.commands.grammar import leaves
from paralign.commands.under_way import Clock, spelt

ROOT = Path(__file__).parents[2]

PROJECT = """
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "candidate.py"
framework = "numpy"
[inputs]
shape = [2, 3]
"""
TWICE = "def build_model():\n    return lambda x: x * 2\n"


@pytest.fixture
def port(tmp_path):
    folder = tmp_path / "port"
    folder.mkdir()
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(TWICE)
    (folder / "candidate.py").write_text(TWICE)
    return folder


def typed(capsys, *words):
    """The exit code, and what was printed on both streams."""
    try:
        code = cli.main(list(words))
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr()
    return code, told.out, told.err


# -- near names ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("chekc", "there is no command 'chekc'; did you mean 'check'?"),
        ("weights shwo a.pth", "there is no command 'shwo'; did you mean 'show'?"),
        ("convert wieghts a b", "did you mean 'weights'?"),
        ("--versoin", "there is no option '--versoin'; did you mean '--version'?"),
        ("scan --jsno", "there is no option '--jsno'; did you mean '--json'?"),
        ("check . --stagse forward", "there is no option '--stagse': stages stand after the folder"),
        ("check --fres", "there is no option '--fres'; did you mean '--fresh'?"),
        ("report --format htm", "there is no --format 'htm'; did you mean 'html'?"),
        ("explain relu --lang zhh", "there is no --lang 'zhh'; did you mean 'zh'?"),
        ("status a b", "an argument too many: 'b'"),
        ("compare a b --ratio x", "argument --ratio: 'x' is no number from 0 on"),
        ("compare a b --ratio -1", "'-1' is no number from 0 on"),
        ("data sample a --count 0", "'0' is not above 0"),
        ("watch-memory --steps x", "'x' is no whole number"),
        ("", "the following arguments are required: COMMAND"),
        ("log show", "the following arguments are required: FILE"),
    ],
)
def test_wrong_words_are_told_in_one_form_with_the_nearest_name(capsys, words, told):
    code, out, err = typed(capsys, *words.split())
    assert (code, out) == (2, "")
    assert err.startswith("paralign: ")
    assert told in err
    assert "\n  fix:   " in err
    assert "usage: usage" not in err


def test_what_is_like_nothing_gets_no_suggestion(capsys):
    assert "did you mean" not in typed(capsys, "zzzz")[2]
    assert "did you mean" not in typed(capsys, "check", "--qqqq")[2]


def test_a_stage_on_the_command_line(capsys, port, monkeypatch):
    assert "there is no stage 'wieghts'; did you mean 'weights'?" in typed(capsys, "check", str(port), "wieghts")[2]
    monkeypatch.chdir(port.parent)
    assert "no folder or stage 'forwrd'; did you mean 'forward'?" in typed(capsys, "check", "forwrd")[2]
    assert "there is no paralign.toml" in typed(capsys, "check", "elsewhere")[2]


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_word_that_is_no_folder_and_like_no_stage_is_told_as_either(capsys, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paralign.toml").write_text("")
    code, _, errors = typed(capsys, command, "prot")
    assert code == 2
    assert "there is no folder or stage 'prot'" in errors


def test_what_the_system_says_of_a_path_is_chinese_too(capsys, tmp_path):
    code, _, errors = typed(capsys, "log", "show", str(tmp_path / "nowhere"), "--lang", "zh")
    assert code == 2
    assert "没有这个文件或文件夹" in errors
    assert "No such file" not in errors


def test_keys_choices_and_frameworks_of_the_project_file(capsys, port):
    for wrong, told in (
        ('[cadidate]\nmodule = "x"', "unknown key 'cadidate'; did you mean 'candidate'?"),
        ('[weights]\nmode = "cpoy"', "'cpoy' is not a choice; did you mean 'copy'?"),
    ):
        (port / "paralign.toml").write_text(PROJECT + wrong)
        assert told in typed(capsys, "check", str(port))[2]
    (port / "paralign.toml").write_text(PROJECT.replace('"numpy"', '"nunpy"', 1))
    assert "no adapter for framework 'nunpy'; did you mean 'numpy'?" in typed(capsys, "check", str(port))[2]


def test_functions_of_a_side(capsys, port):
    (port / "candidate.py").write_text("def build_modle():\n    return None\n\n\ndef inputs():\n    return None\n")
    code, out, _ = typed(capsys, "check", str(port), "forward")
    assert code == 4
    assert "the candidate has no build_model(); the candidate defines 'build_modle': was 'build_model' meant?" in out
    (port / "candidate.py").write_text("def build_modle():\n    return None\n")
    assert "none of the functions that paralign calls; did you mean 'build_model'?" in typed(capsys, "check", str(port), "forward")[1]


def test_a_helper_of_another_name_is_no_misspelt_function(capsys, port):
    (port / "candidate.py").write_text(TWICE + "\n\ndef helper():\n    return None\n\n\nfrom os.path import split as metrics\n")
    (port / "reference.py").write_text(TWICE + "\n\ndef metric(outputs, labels):\n    return 1.0\n")
    out = typed(capsys, "check", str(port), "metric")[1]
    assert "the candidate has no metric(outputs, labels)\n" in out


# -- options that all commands have -----------------------------------------------------------------------------------------------------


def test_every_command_has_the_common_options():
    found = dict(leaves(cli.parser()))
    assert len(found) > 20
    for words, parser in found.items():
        options = parser._option_string_actions
        assert "--lang" in options, words
        assert {"--json", "-q"} <= set(options) or words not in JUDGING, words
        for name, action in options.items():
            assert not name.startswith("--") or re.fullmatch(r"--[a-z]+(-[a-z]+)*", name), f"{words} {name}"
            assert action.help, f"{words} {name} says nothing"


#: commands whose end is a verdict
JUDGING = {("check",), ("compare",), ("locate",), ("doctor",), ("status",), ("log", "compare"), ("weights", "diff"), ("convert", "weights")}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["a", "--json", "b", "c"], ["--json", "a", "b", "c"]),
        (["a", "--out", "o", "b"], ["--out", "o", "a", "b"]),
        (["--lang=zh", "a"], ["--lang=zh", "a"]),
        (["a", "-q", "b", "--lang", "zh"], ["-q", "--lang", "zh", "a", "b"]),
        (["a", "--", "--json"], ["a", "--", "--json"]),
        (["a", "--out"], ["a", "--out"]),
    ],
)
def test_options_may_stand_anywhere(given, taken):
    check = dict(leaves(cli.parser()))["check",]
    assert check._options_first(given) == taken


def test_quiet_prints_the_verdict_alone(capsys, port):
    assert typed(capsys, "check", str(port), "forward", "--quiet") == (0, "verdict: aligned\n", "")
    (port / "candidate.py").write_text(TWICE.replace("2", "3"))
    assert typed(capsys, "check", "-q", str(port), "forward") == (1, "verdict: diverged\n", "")
    code, out, _ = typed(capsys, "status", str(port), "-q")
    assert (code, out.count("\n")) == (1, 1)
    assert "steps done" in out


def test_quiet_of_commands_that_list_prints_one_line(capsys, port, monkeypatch):
    monkeypatch.chdir(port.parent)
    Path("net.py").write_text("import torch\n\npool = torch.nn.AvgPool2d(2, padding=1)\nx = torch.relu(pool)\n")
    assert typed(capsys, "scan", "-q", "net.py")[:2] == (0, "2 calls in 1 file: 1 silent, 1 renamed\n")
    assert typed(capsys, "scan", "net.py", "--quiet", "--fail-on", "silent")[0] == 1
    for name, values in (("good.log", [1.0, 2.0]), ("bad.log", [1.0, 3.0])):
        np.save("one.npy", np.array([1.0, 2.0]))
        np.save("other.npy", np.array(values))
        typed(capsys, "compare", "one.npy", "other.npy", "--log", name)
    assert typed(capsys, "log", "checks", "-q", "good.log", "bad.log") == (1, "1 of 2 logs passed\n", "")
    assert typed(capsys, "log", "checks", "-q", "good.log") == (0, "1 of 1 logs passed\n", "")
    assert typed(capsys, "pack", "-q", "port") == (4, "nothing was written: 6 checkpoints are not ready\n", "")
    assert list(port.glob("*.tar.gz")) == []


def test_quiet_of_what_watches_prints_a_line_for_each_side(capsys, port):
    for name in ("reference.py", "candidate.py"):
        (port / name).write_text(TWICE + LOADER)
    (port / "candidate.py").write_text(KEEPING + LOADER)
    code, out, err = typed(capsys, "watch-memory", str(port), "--what", "forward", "--steps", "12", "-q")
    assert (code, err) == (1, "")
    reference, candidate = out.splitlines()
    assert reference == "reference: nothing grows"
    assert re.fullmatch(r"candidate: .*memory.* grows", candidate)
    code, out, _ = typed(capsys, "watch-loader", str(port), "--workers", "0", "--seconds", "1", "-q")
    assert code == 0
    assert [line.partition(": ")[0] for line in out.splitlines()] == ["reference", "candidate"]


LOADER = """

def build_dataloader(split):
    return [([[1.0, 2.0, 3.0]], [1])] * 8
"""
KEEPING = """
import numpy as np

kept = []


def model(x):
    kept.append(np.ones(1 << 18))
    return x * 2


def build_model():
    return model
"""


@pytest.mark.parametrize("words", ["--lang zh {}", "{} --lang zh", "--lang=zh {}", "--lang en {} --lang zh"])
def test_the_language_stands_before_or_behind_the_command(capsys, port, words):
    code, out, _ = typed(capsys, *words.format(f"check {port} forward -q").split())
    assert (code, out) == (0, "结论：一致\n")  # noqa: RUF001 - as Chinese is written


def test_a_language_before_the_command_is_checked_and_stands_before_words_of_two(capsys, tmp_path):
    code, _, err = typed(capsys, "--lang", "zhh", "check")
    assert (code, "there is no --lang 'zhh'; did you mean 'zh'?" in err) == (2, True)
    for words in ("--lang zh log show x", "log --lang zh show x", "log show --lang zh x"):
        assert cli.parser().parse_args(words.split()).lang == "zh"
    assert cli.parser().parse_args(["log", "show", "x"]).lang is None


# -- pipes and terminals ---------------------------------------------------------------------------------------------------------------


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "PARALIGN_PROGRESS")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color", "COLUMNS": "120", **more}


def piped(port, *words, **more):
    command = [sys.executable, "-m", "paralign", *words]
    return subprocess.run(command, cwd=port, env=environment(**more), capture_output=True, text=True, check=False, timeout=120)


def shown(port, *words, **more):
    """What a terminal gets of both streams."""
    own, other = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "paralign", *words], cwd=port, env=environment(**more), stdout=other, stderr=other)
    os.close(other)
    got = b""
    try:
        while data := os.read(own, 1 << 16):
            got += data
    except OSError:  # Linux says so that the other end is closed
        pass
    process.wait(60)
    os.close(own)
    return got.decode()


def test_a_pipe_gets_no_blanks_at_ends_of_lines_no_colours_and_no_progress(port):
    (port / "candidate.py").write_text("import time\ntime.sleep(2.5)\n" + TWICE.replace("2", "3"))
    done = piped(port, "check")
    assert (done.returncode, done.stderr) == (1, "")
    assert "forward diverged: " in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    assert "\x1b" not in done.stdout


def test_steps_as_lines_where_they_are_asked_for(port):
    assert "paralign: starting both sides …\nparalign: inputs …\n" in piped(port, "check", PARALIGN_PROGRESS="lines").stderr
    assert piped(port, "check", "-q", PARALIGN_PROGRESS="lines").stderr == ""


def test_a_terminal_gets_colours_and_what_is_under_way(port):
    (port / "candidate.py").write_text("import time\ntime.sleep(3)\n" + TWICE)
    got = shown(port, "check")
    assert re.search(r"\x1b\[[0-9;]*32m", got), "aligned is green"
    assert "starting both sides" in got
    again = shown(port, "check")
    assert re.search(r"about \d+ s left", again), again
    assert "about" not in shown(port, "check", "--quiet")


@pytest.mark.parametrize("words", [("check", "forward"), ("chekc",)])
def test_no_color(port, words):
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7])m", shown(port, *words, NO_COLOR="1"))


def test_what_is_left_follows_from_what_steps_took_before(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock(["a", "b", "c"], {"a": 10.0, "b": 20.0})
    assert clock.left() == 10 + 20 + 15, "c takes as long as the others"
    clock.begin("a")
    now[0] += 4
    assert clock.left() == 41
    now[0] += 2
    clock.begin("b")
    assert clock.left() == 20 + 13
    now[0] += 100
    assert clock.left() == 0, "never less than nothing"
    assert Clock([], {}).left() is None


def test_what_is_left_follows_from_the_share_that_is_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock([], {})
    now[0], clock.share = 30.0, 0.25
    assert clock.left() == 90
    assert clock.told() == "30 s, about 1 min 30 s left"
    assert (spelt(59.6), spelt(3661)) == ("1 min 0 s", "1 h 1 min")


# -- failures of the user's files --------------------------------------------------------------------------------------------------------

FILES = {
    "no Python": ({"candidate.py": "import numpy as np\n\ndef build_model():\n    retrun 1\n"}, ["candidate.py:4", "    retrun 1", "           ^"]),
    "in an import": (
        {"candidate.py": "import helper\n", "helper.py": "x = (1,\n"},
        ["candidate.py:1 in <module>: import helper", "helper.py:1", "    x = (1,", "        ^"],
    ),
    "a missing module": (
        {"candidate.py": "import helper\n", "helper.py": "from nothing_here import x\n"},
        ["candidate.py:1 in <module>: import helper", "helper.py:1 in <module>: from nothing_here import x"],
    ),
    "a missing name": ({"candidate.py": "from numpy import nothing_here\n"}, ["candidate.py:1 in <module>: from numpy import nothing_here"]),
}  # fmt: skip


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_imported_shows_the_users_frames_alone(capsys, port, files):
    texts, frames = files
    for name, text in texts.items():
        (port / name).write_text(text)
    code, out, _ = typed(capsys, "check", str(port), "forward")
    assert code == 3
    assert "importlib" not in out
    lines = out.splitlines()
    first = next(n for n, line in enumerate(lines) if "the candidate failed: " in line)
    last = next(n for n, line in enumerate(lines) if line.startswith("  log: "))
    assert [line[4:] for line in lines[first + 1 : last]] == frames


# -- wrong uses ------------------------------------------------------------------------------------------------------------------------

#: what is typed in a folder with: port (a project), text.txt, binary, empty, folder, bad (no TOML), bytes (no text), dir (paralign.toml is a folder)
WRONG = {
    "check nowhere": (2, "there is no paralign.toml"),
    "check text.txt": (2, "text.txt is no valid TOML"),
    "check bad": (2, "paralign.toml is no valid TOML: "),
    "check bytes": (2, "paralign.toml is no valid TOML: it is no text in UTF-8 (byte 0)"),
    "check dir": (2, "paralign.toml is a folder"),
    "check port --out text.txt": (2, "the output folder cannot be made: a file is there"),
    "check port forward nothing": (2, "there is no stage 'nothing'"),
    "doctor nowhere": (2, "there is no paralign.toml"),
    "status port --result text.txt": (2, "the output folder is a file"),
    "status port --without 9.9": (2, "there is no step '9.9'"),
    "compare nowhere nowhere": (2, "there is no such file or folder"),
    "compare folder folder": (3, "the folder is not a capture"),
    "compare text.txt text.txt": (3, "the file is neither .npy nor .npz"),
    "compare empty empty": (3, "the file is empty"),
    "locate folder": (2, "there is no capture of operations"),
    "report folder": (2, "there is no report"),
    "report text.txt": (3, "the report is no JSON"),
    "weights show folder": (2, "the folder holds no checkpoint"),
    "weights show binary": (3, "no checkpoint of a known format"),
    "convert weights nowhere a.pdparams": (2, "the file cannot be read: No such file"),
    "convert code folder out": (2, "there is no source file"),
    "log show nowhere": (2, "the file cannot be read: No such file"),
    "log show binary": (3, "the log is no text"),
    "log checks text.txt": (3, "no line of it is one of a log of differences"),
    "log convert text.txt --out x": (2, "no line of the log tells of a training"),
    "log convert log.json --out nowhere/x": (3, "the file cannot be written"),
    "rank-logs text.txt": (2, "there is no such folder"),
    "logbook port --out folder": (2, "the file is there already"),
    "clean-copy text.txt new": (2, "there is no such folder"),
    "inputs port --out text.txt": (3, "the file cannot be written"),
    "explain nothing_like_it": (2, "no call of this name is known"),
    "data sample folder": (2, "this is no data set of a known form"),
    "data sample port": (2, "this is no data set of a known form"),
    "data sample text.txt": (2, "the data set is no folder"),
    "data verify folder": (2, "there is no manifest"),
    "data verify text.txt": (3, "the manifest is no JSON"),
    "verify nowhere --spec port": (2, "the port is no folder"),
    "verify port --spec port": (2, "must lie outside of the port"),
    "scan nowhere": (2, "there is no such file or folder"),
    "scan port --fail-on slient": (2, "--fail-on does not know 'slient'; did you mean 'silent'?"),
    "init text.txt": (2, "this is a file"),
    "init port": (2, "would be overwritten"),
    "init new --reference nowhere": (2, "the reference repository is not there"),
    "init new --reference folder": (2, "no Python file of the reference repository can be read"),
    "watch-memory port --steps 3": (2, "--steps must be at least 8"),
}


@pytest.fixture
def place(port, monkeypatch):
    here = port.parent
    log = b'{"epoch": 0, "iter": 0, "loss": 1.5}\n'
    for name, content in (("text.txt", b"hello\n"), ("log.json", log), ("binary", bytes(range(256)) * 9), ("empty", b"")):
        (here / name).write_bytes(content)
    for name, content in (("bad", b"[reference\n"), ("bytes", b"\xff\xfe[")):
        (here / name).mkdir()
        (here / name / "paralign.toml").write_bytes(content)
    (here / "dir" / "paralign.toml").mkdir(parents=True)
    (here / "folder").mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_use_gets_a_line_that_says_what_and_where(capsys, place, words):
    expected, told = WRONG[words]
    before = sorted(place.rglob("*"))
    code, out, err = typed(capsys, *words.split())
    assert (code, out) == (expected, "")
    first, *rest = err.splitlines()
    assert first.startswith("paralign: ")
    assert told in first
    assert any(line.startswith("  fix:   ") for line in rest)
    assert "Traceback" not in err
    assert sorted(place.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("words", ["log show text.txt", "weights show text.txt", "compare text.txt text.txt", "report text.txt"])
def test_a_file_that_may_not_be_read(capsys, place, words):
    (place / "text.txt").chmod(0)
    code, _, err = typed(capsys, *words.split())
    assert code == 2
    assert "Permission denied" in err


def test_a_side_that_fails_in_a_command_without_a_report_shows_its_frames(capsys, port):
    (port / "candidate.py").write_text("import nothing_here\n")
    code, _, err = typed(capsys, "watch-memory", str(port))
    assert code == 3
    assert "the candidate failed: ModuleNotFoundError: No module named 'nothing_here'" in err
    assert "candidate.py:1 in <module>: import nothing_here" in err
    assert "log:" not in err, "it is gone"


# -- the page ---------------------------------------------------------------------------------------------------------------------------

PAGES = [ROOT / "docs" / name for name in ("command-line.md", "command-line.zh.md")]


def blocks(page):
    """Command -> what the page shows of it."""
    found = {}
    for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found[command] = shown
    return found


@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_commands_of_the_page_print_what_it_shows(capsys, port, page, monkeypatch):
    monkeypatch.chdir(port.parent)
    (port / "result" / "captures").mkdir(parents=True)
    assert blocks(page)
    for command, expected in blocks(page).items():
        words, _, echo = command.partition("; echo ")
        code, out, err = typed(capsys, *words.split()[1:])
        first = [*out.splitlines()[:1], *err.splitlines()[:1], *([str(code)] if echo else [])]
        assert first == expected.splitlines(), command


def test_options_and_variables_of_the_page_are_those_of_the_commands():
    text = PAGES[0].read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in set(re.findall(r"`(PARALIGN_[A-Z]+)", text)):
        assert f'"{name}"' in source
    options = {name for _, parser in leaves(cli.parser()) for name in parser._option_string_actions}
    assert set(re.findall(r"`(--?[a-z]+)", text)) <= options | {"--frsh"}


@pytest.mark.parametrize("name", ["dataclasses", "argparse"])
def test_modules_of_the_folder_in_use_do_not_stand_for_pythons_own(tmp_path, name):
    """``python -m`` puts that folder first on the path."""
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('of the project')\n")
    done = subprocess.run(
        [sys.executable, "-m", "paralign", "check", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
