"""``paralign port``: a project around a conversion, and what is refused before anything is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paralign.api import opened
from paralign.cli import main
from paralign.errors import UsageError
from paralign.port.drafts.drafting import draft, inputs_of, model_of
from paralign.port.edits.ledger import Ledger
from paralign.port.proofs.line_facts import Fact
from paralign.port.proofs.proving import prove
from paralign.run.project import read

if TYPE_CHECKING:
    from pathlib import Path

NET = """import torch
from torch import nn


class Config:
    def __init__(self, width=4):
        self.width = width


class Net(nn.Module):
    def __init__(self, config, norm=nn.LayerNorm):
        super().__init__()
        self.fc = nn.Linear(config.width, 3)
        self.norm = norm(3)

    def forward(self, x):
        return self.norm(torch.relu(self.fc(x)))

    def unused(self, x):
        return torch.sspaddmm(x, x, x)


class Part(nn.Module):
    def __init__(self, act=nn.functional.relu):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


class Unused(Part):
    pass


def help_(x):
    return torch.relu(x)
"""


PART = """self.norm = norm(3)
        self.part = Part()"""


def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "net.py").write_text(NET)
    return tmp_path / "src"


def test_a_project_is_left_that_check_reads(tmp_path):
    made = draft(tree(tmp_path), tmp_path / "out", "net:Net(Config(width=5))", ["2x5"])
    project = read(tmp_path / "out")
    assert project.stages == ["weights", "forward"]
    assert "class Net(nn.Layer)" in (tmp_path / "out" / "port" / "net.py").read_text()
    for name in ("reference.py", "candidate.py"):
        text = (tmp_path / "out" / name).read_text()
        assert "from net import Net, Config" in text
        assert "return Net(Config(width=5))" in text
    assert (tmp_path / "src" / "net.py").read_text() == NET
    assert "- `net.py:20` torch.sspaddmm" in (tmp_path / "out" / "left.md").read_text()
    assert made.ledger.left
    written = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert str(tmp_path) not in written


def test_a_side_has_no_name_that_a_module_of_the_source_has(tmp_path):
    """``from reference import Net`` in reference.py would import that file itself."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "reference.py").write_text(NET, encoding="utf-8")
    (source / "candidate").mkdir()
    (source / "candidate" / "__init__.py").write_text("", encoding="utf-8")
    draft(source, tmp_path / "made", "reference:Net(Config())", ["2x4"])
    modules = [each.module for each in read(tmp_path / "made").settings.sides.values()]
    assert [str(each).rpartition("/")[2] for each in modules] == ["reference_side.py", "candidate_side.py"]
    assert not (tmp_path / "made" / "reference.py").exists()


def test_a_package_and_a_file_keep_their_names(tmp_path):
    source = tree(tmp_path)
    (source / "__init__.py").write_text("")
    draft(source, tmp_path / "one", "src.net:Net(Config())", [])
    assert (tmp_path / "one" / "port" / "src" / "net.py").exists()
    draft(source / "net.py", tmp_path / "two", "net:Net(Config())", [])
    assert (tmp_path / "two" / "port" / "net.py").exists()


@pytest.mark.parametrize(
    "text", ["net", "net:", ":Net", "net:3", "net:Net(open('x').read())", "net:Net(lambda: 1)", "net:Net(*a)[0]", "a b:Net", "net:a.b()", "net:Net("]
)  # fmt: skip
def test_a_model_that_is_more_than_names_and_data_is_refused(text):
    with pytest.raises(UsageError):
        model_of(text)


@pytest.mark.parametrize("texts", [["x"], ["2x"], ["2x3:int65"], ["a=2", "3"], ["a=2", "a=3"], ["2x3:float32:high"]])
def test_inputs_of_another_form_are_refused(texts):
    with pytest.raises(UsageError):
        inputs_of(texts)


def test_inputs_are_written_by_position_or_name():
    assert (
        inputs_of(["2x3", "scalar:int64:9"])
        == '[[inputs]]\nshape = [2, 3]\ndtype = "float32"\n\n[[inputs]]\nshape = []\ndtype = "int64"\nhigh = 9\n'
    )


def test_nothing_is_replaced_and_nothing_lands_in_the_source(tmp_path):
    source = tree(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for target, message in ((tmp_path / "full", "there already"), (source / "out", "lie in the source")):
        with pytest.raises(UsageError, match=message):
            draft(source, target, "net:Net(Config())", [])
    with pytest.raises(UsageError, match="no module"):
        draft(source, tmp_path / "out", "other:Net", [])
    assert not (tmp_path / "out").exists()
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["mine.txt"]


def test_a_file_that_cannot_be_read_is_in_the_list(tmp_path, capsys):
    source = tree(tmp_path)
    (source / "old.py").write_text("import torch\nprint torch.ones(2)\n")
    (source / "latin.py").write_bytes(b"import torch\nx = '\xe9'\n")
    (source / "book.ipynb").write_text('{"cells": []}')
    assert main(["port", str(source), str(tmp_path / "out"), "--model", "net:Net(Config())", "--no-check"]) == 1
    text = (tmp_path / "out" / "left.md").read_text()
    assert "- `old.py`: not converted" in text
    assert "- `book.ipynb`: not converted" in text
    assert "by hand: net.py:20 torch.sspaddmm" in capsys.readouterr().out


def test_without_an_input_nothing_is_begun(tmp_path, capsys):
    assert main(["port", str(tree(tmp_path)), str(tmp_path / "out"), "--model", "net:Net"]) == 2
    assert "no input is given" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.torch
@pytest.mark.paddle
def test_a_port_is_converted_and_aligned_in_one_go(tmp_path, capsys):
    source = tree(tmp_path)
    (source / "net.py").write_text(NET.replace("torch.relu(self.fc(x))", "self.part(self.fc(x))").replace("self.norm = norm(3)", PART))
    command = ["port", str(source), str(tmp_path / "out"), "--model", "net:Net(Config(width=5))", "--input", "2x5", "--prove"]
    assert main(command) == 1  # aligned, but a place is left by hand
    said = capsys.readouterr().out
    assert "verdict: aligned" in said
    assert "could not convert: net.py:10 Net: line 21: torch.sspaddmm" in said
    proofs = {each["name"]: each for each in json.loads((tmp_path / "out" / "proof.json").read_text())["proofs"]}
    assert {name: each["fact"] for name, each in proofs.items()} == {
        "Config": "not reached", "Net": "could not convert", "Part": "proven", "Unused": "not reached", "help_": "not reached",
    }  # fmt: skip
    assert proofs["Part"]["calls"] == 1
    assert proofs["Part"]["error"] < 1e-12

    port = tmp_path / "out" / "port" / "net.py"  # a mistake in the port: the class is reached, and not proven
    port.write_text(port.read_text().replace("return self.act(x)", "return self.act(x) * 1.001"))
    ledger = Ledger()
    with opened(tmp_path / "out") as context:
        found = prove(context, ledger, {"net.py": (source / "net.py").read_text()}).proofs
    assert {each.name: each.fact for each in found}["Part"] is Fact.UNPROVEN
    assert "apart" in next(each.reason for each in found if each.name == "Part")
