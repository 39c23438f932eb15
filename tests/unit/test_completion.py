"""Completion: what bash itself completes from the printed script, and that the other two name every command, option and stage."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from paralign import cli
from paralign.commands.grammar import leaves
from paralign.registry import STAGES

BASH = shutil.which("bash")


def script(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def file(capsys, tmp_path):
    path = tmp_path / "completion.bash"
    path.write_text(script(capsys, "bash"))
    (tmp_path / "my port").mkdir()
    (tmp_path / "model.pth").write_text("")
    return path


def completed(file, *words):
    """What bash offers for the last of some words."""
    told = " ".join(f"'{word}'" for word in words)
    code = f'set -u; source {file}; COMP_WORDS=({told}); COMP_CWORD={len(words) - 1}; _paralign; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([BASH, "--norc", "-c", code], cwd=file.parent, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["che"], ["check"]),
        (["weights", ""], ["show", "diff"]),
        (["check", "--fr"], ["--fresh"]),
        (["check", "port", "we"], ["weights"]),
        (["check", "port", "weights", "--str"], ["--strict"]),
        (["report", "--format", ""], ["html", "markdown", "junit", "sarif", "github"]),
        (["report", "--format", "=", "h"], ["html"]),
        (["status", "--lang", ""], ["en", "zh"]),
        (["status", "--without", "tr"], ["train"]),
        (["convert", "weights", "mod"], ["model.pth"]),
        (["convert", "weights", "--rules", "my"], ["my port"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["explain", "mo"], []),
    ],
)
def test_bash_completes(file, words, offered):
    assert [each for each in completed(file, "paralign", *words) if each] == offered


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_a_key_on_a_terminal_completes(file):
    """The tab key itself: readline asks the script, and what stands on the line then is run."""
    own, other = pty.openpty()
    process = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-i"],
        cwd=file.parent,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**os.environ, "PS1": "> ", "TERM": "dumb"},
    )
    os.close(other)
    os.write(own, f"source {file}; paralign() {{ printf '<%s>' \"$@\"; }}\n".encode())
    os.write(own, b"paralign chec\tmy\t forw\t--fre\t\n")
    got, end = b"", time.monotonic() + 60
    while b"<--fresh>" not in got and time.monotonic() < end:
        if select.select([own], [], [], 1)[0]:
            got += os.read(own, 1 << 12)
    os.write(own, b"exit\n")
    process.wait(30)
    os.close(own)
    assert b"<check><my port/" in got
    assert b"<--fresh>" in got


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_every_command_option_and_stage_is_in_the_script(capsys, shell):
    text = script(capsys, shell)
    for words, parser in leaves(cli.parser()):
        assert " ".join(words) in text, words
        for name in parser._option_string_actions:
            shown = name if shell != "fish" else f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            assert shown in text, (words, name)
    for stage in STAGES:
        assert re.search(rf"\b{stage.name}\b", text)


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_the_scripts_are_well_formed(capsys, tmp_path):
    for shell in ("bash", "zsh"):  # the grammar of both is near enough for bash to read either
        path = tmp_path / shell
        path.write_text(script(capsys, shell))
        assert subprocess.run([BASH, "-n", path], check=False, capture_output=True, text=True).stderr == ""
    own = shutil.which("fish")
    if own is not None:
        path = tmp_path / "fish"
        path.write_text(script(capsys, "fish"))
        assert subprocess.run([own, "-n", path], check=False, capture_output=True, text=True).stderr == ""


def test_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["completion", "zhs"])
    assert "there is no SHELL 'zhs'; did you mean 'zsh'?" in capsys.readouterr().err
