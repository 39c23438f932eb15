"""The page of what the guides ask for: its commands, settings and functions exist, and the cheap commands run."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from paralign import cli
from paralign.capture import save_foreign
from paralign.registry import STAGES
from paralign.run import project as projects

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {"en": DOCS / "coverage.md", "zh": DOCS / "coverage.zh.md"}

ROW = re.compile(r"^\| (\d+) \| ([●◐✗]) \| (.+) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def rows(page):
    """Number, state, what is asked and what does it."""
    return [(int(number), *rest) for number, *rest in ROW.findall(page.read_text(encoding="utf-8"))]


def named(what, form):
    """What the English page names in code, of one form."""
    found = {code: number for number, _, _, with_ in rows(PAGES["en"]) for code in CODE.findall(with_) if re.match(form, code)}
    return [pytest.param(code, id=f"{number}: {code}") for code, number in found.items()] or pytest.fail(f"no {what}")


def commands_of_steps():
    """The commands that the page of steps shows."""
    text = (DOCS / "steps.md").read_text(encoding="utf-8")
    return [pytest.param(line, id=line) for line in dict.fromkeys(re.findall(r"^\$ (paralign .*)$", text, re.MULTILINE))]


def check_command(text):
    """Find every word of a command line in the parser, else raise: verbs, options, choices of options, stages."""
    _, *words = shlex.split(text)
    place = cli.parser()
    stages = {stage.name for stage in STAGES}
    positional = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            option = place._option_string_actions[word]
            value = words.pop(0) if option.nargs is None and not isinstance(option, argparse._StoreTrueAction) else None
            assert option.choices is None or value is None or value in option.choices, f"{value} is none of {word}"
            continue
        verbs = next((a for a in place._actions if isinstance(a, argparse._SubParsersAction)), None)
        if verbs is not None:
            place = verbs.choices[word]
        else:
            positional.append(word)
    if place.prog.split()[1:] == ["check"]:
        assert set(positional[1:]) <= stages
    else:
        taken = [a for a in place._actions if not a.option_strings]
        assert len(positional) <= len(taken) or any(a.nargs in ("*", "+") for a in taken), f"{positional} are too many"


@pytest.mark.parametrize("command", [*named("commands", r"paralign [a-z]"), *commands_of_steps()])
def test_every_command_exists(command):
    check_command(command)


@pytest.mark.parametrize(
    "command",
    ["paralign chekc DIR", "paralign status --no", "paralign check DIR foward", "paralign logbook DIR --lang fr", "paralign pack A B"],
)
def test_a_command_that_does_not_exist_would_be_seen(command):
    with pytest.raises((KeyError, AssertionError)):
        check_command(command)


@pytest.mark.parametrize("setting", named("settings", r"\[[a-z]+\] "))
def test_every_setting_exists(setting):
    table, key = re.match(r"\[(\w+)\] (\w+)", setting).groups()
    known = projects._TENSOR if table in ("inputs", "labels") else projects._TABLES[table]
    assert key in known


@pytest.mark.parametrize("key", ["out", "seed", "stages"])
def test_settings_at_the_top_exist(key):
    assert key in projects._TOP
    assert any(f"`{key}`" in with_ for _, _, _, with_ in rows(PAGES["en"]))


@pytest.mark.parametrize("name", named("modules", r"paralign\."))
def test_every_name_can_be_imported(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("path", named("files", r"examples/"))
def test_every_example_is_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("language", PAGES)
def test_the_figures_are_those_of_the_lines(language):
    found = rows(PAGES[language])
    assert [number for number, *_ in found] == list(range(1, 175))
    told = re.search(r"● (\d+) · ◐ (\d+) · ✗ (\d+)\*\*", PAGES[language].read_text(encoding="utf-8"))
    states = [state for _, state, *_ in found]
    assert [int(n) for n in told.groups()] == [states.count(mark) for mark in "●◐✗"]


def test_what_works_or_works_in_part_names_something():
    nothing = {number: state for number, state, _, with_ in rows(PAGES["en"]) if re.search(r"\w", with_) is None}
    assert set(nothing.values()) <= {"✗"}
    assert [number for number, state, _, with_ in rows(PAGES["en"]) if state == "●" and "`" not in with_] == []


def test_both_pages_name_the_same():
    pages = [[(number, state, CODE.findall(with_)) for number, state, _, with_ in rows(page)] for page in PAGES.values()]
    assert pages[0] == pages[1]


# -- the cheap commands, run ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory, project_in):
    """A folder with all that the commands below read."""
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "port").mkdir()
    project_in(folder / "port")
    (folder / "port" / "train.py").write_text("steps = 3\n")
    for name, shift in (("a.npy", 0.0), ("b.npy", 1e-9)):
        save_foreign(folder / name, {"logits": np.ones(4) + shift})
    np.savez(folder / "w.npz", weight=np.ones((2, 3), np.float32))
    (folder / "paper").mkdir()
    (folder / "paper" / "net.py").write_text("from torch import nn\nclass Net(nn.Module): pass\nlayer = nn.Linear(2, 3)\n")
    (folder / "train.log").write_text(
        "[Epoch 0, iter: 0] loss: 1.0, avg_reader_cost: 0.1 sec, avg_batch_cost: 0.2 sec, avg_ips: 10.0 images/sec.\n"
    )
    return folder


#: command -> exit code; in this order, for some read what others write
CHEAP = {
    "paralign init new": 0,
    "paralign data example": 0,
    "paralign init mirrored --reference paper": 0,
    "paralign inputs port": 0,
    "paralign check port weights forward data metric": 0,
    "paralign compare a.npy b.npy --atol 1e-6 --log x_diff_log.txt --diff-threshold 1e-5": 0,
    "paralign compare port/result/captures/reference/forward port/result/captures/candidate/forward": 0,
    "paralign log checks x_diff_log.txt port/result/log/forward_diff.log": 0,
    "paralign log show train.log": 0,
    "paralign log convert train.log --to csv": 0,
    "paralign log compare train.log train.log --atol 0": 0,
    "paralign weights show w.npz": 0,
    "paralign weights diff w.npz w.npz": 0,
    "paralign convert weights w.npz v.npz --all": 0,
    "paralign explain torch.nn.AvgPool2d --lang zh": 0,
    "paralign scan paper --markdown": 0,
    "paralign report port/result --format markdown --out report.md": 0,
    "paralign status port --without train": 4,
    "paralign logbook port --lang zh --out log.md": 0,
    "paralign pack port": 4,
    "paralign pack port --without 3.4 --without 3.6 --without 3.9": 0,
    "paralign clean-copy port clean": 0,
}


def test_the_cheap_commands_run(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    for command, code in CHEAP.items():
        check_command(command)
        assert cli.main(shlex.split(command)[1:]) == code, f"{command}\n{capsys.readouterr().err}"
    assert (place / "port" / "checkpoints.tar.gz").is_file()
    assert (place / "log.md").read_text(encoding="utf-8").startswith("# 对齐日志")
