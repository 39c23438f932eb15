"""``scan --issue`` and ``explain --issue``: the text of an issue for a call that Paddle lacks, with a program that PyTorch has run."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import pytest

from paralign.cli import main
from paralign.port.scan import requesting
from paralign.port.scan.requesting import Request
from paralign.port.scan.scanning import scan
from paralign.report.issues import issue
from paralign.worker.interpreter import specimen

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8)

    def forward(self, x):
        return torch.erfc(self.norm(x)) + x.erfc()
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(requesting.importlib.util, "find_spec", lambda _: None)


def test_what_is_missing_is_asked_for_once_with_its_places(net, without_torch):
    requests = requesting.of_inventory(scan(["net.py"]))
    assert [(each.name, [row.line for row in each.uses]) for each in requests] == [("torch.erfc", [11, 11]), ("torch.nn.RMSNorm", [8])]
    text = issue(requests[0])
    assert text.count("`net.py:11`") == 1
    assert "1 - paddle.erf(x)" in text
    assert "torch.erfc(input, *, out=None)" in text


def test_without_pytorch_no_number_is_made_up(net, without_torch, capsys):
    assert main(["scan", "net.py", "--issue"]) == 0
    text = capsys.readouterr().out
    assert text.count("# Please add a counterpart of ") == 2
    assert text.count("no interpreter with PyTorch was there to run one") == 2
    assert "tensor(" not in text


def test_a_file_is_written_and_never_replaced(net, without_torch, capsys):
    assert main(["explain", "nn.RMSNorm", "--issue", "--out", "issue.md"]) == 0
    assert (net / "issue.md").read_text(encoding="utf-8").startswith("# Please add a counterpart of torch.nn.RMSNorm\n")
    (net / "issue.md").write_text("mine")
    assert main(["scan", "net.py", "--issue", "--out", "issue.md"]) == 2
    assert (net / "issue.md").read_text() == "mine"
    assert "the file is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("explain relu --issue", 2, "has a counterpart of torch.nn.functional.relu: paddle.nn.functional.relu"),
        ("explain erfc --issue", 2, "name one in full: torch.erfc, torch.special.erfc"),
        ("explain no_such_call --issue", 2, "no call of PyTorch has this name: 'no_such_call'"),
        ("explain paddle.nn.Linear --issue", 2, "no call of PyTorch has this name"),
        ("explain nn.RMSNorm --out issue.md", 2, "--torch and --out belong to --issue"),
        ("scan net.py --torch python", 2, "--torch belongs to --issue"),
        ("scan net.py --issue --json", 2, "not allowed with argument"),
        ("scan net.py --issue --torch nowhere", 3, "the interpreter does not answer"),
    ],
)
def test_what_cannot_be_asked_for_is_said(net, capsys, arguments, code, told):
    try:
        found = main(arguments.split())
    except SystemExit as end:
        found = end.code
    assert (found, told in capsys.readouterr().err) == (code, True)


def test_an_interpreter_without_pytorch_is_said(net, tmp_path, capsys):
    empty = tmp_path / "python"
    empty.write_text('#!/bin/sh\necho \'{"failure": "ModuleNotFoundError: no module named torch"}\'\n')
    empty.chmod(0o755)
    assert main(["explain", "torch.erfc", "--issue", "--torch", str(empty)]) == 3
    assert "no module named torch" in capsys.readouterr().err


def test_an_interpreter_that_prints_anything_else_is_no_answer(tmp_path):
    chatty = tmp_path / "python"
    chatty.write_text(
        '#!/bin/sh\necho welcome; echo "[1]"; echo \'{"version": "9", "program": "p", "printed": "tensor(1)", "system": 5}\'\n'
    )
    chatty.chmod(0o755)
    found = requesting.of_name("torch.erfc", str(chatty))
    assert (found.torch, found.program, found.system) == ("9", "p", "5")


def test_a_program_that_uses_nothing_missing_has_no_issue(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fine.py").write_text("import torch\ntorch.abs(x)\n")
    assert main(["scan", "fine.py", "--issue", "--out", "issue.md"]) == 0
    assert "there is no issue to file" in capsys.readouterr().err
    assert not (tmp_path / "issue.md").exists()


def test_names_of_files_cannot_end_their_code():
    assert "`` a`b ``" in issue(_used("a`b"))


def _used(source):
    found = scan.__globals__["Row"]("net.py", 1, 1, 1, 1, 0, source, "torch.erfc", None, None, None)
    return Request("torch.erfc", "torch.erfc(input)", "2", "3", [found])


def test_the_issue_in_chinese(net, without_torch, capsys):
    assert main(["explain", "nn.RMSNorm", "--issue", "--lang", "zh"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# 请增加 torch.nn.RMSNorm 的对应 API")
    assert "计算 x * rsqrt" in text


# -- the program ----------------------------------------------------------------------------------------------------------------


def test_required_parameters_are_read_from_a_signature():
    assert specimen._required("input, exponent, *, out=None") == ["input", "exponent"]
    assert specimen._required("input, dim=None") == ["input"]
    assert specimen._required("...") is None


def test_the_plainest_values_come_first():
    found = list(specimen._places([2, 3], 2))
    assert found == [(0, 2), (1, 1)]
    assert sorted(place for total in range(4) for place in specimen._places([2, 3], total)) == [(a, b) for a in range(2) for b in range(3)]


def run(program):
    into = io.StringIO()
    with contextlib.redirect_stdout(into):
        exec(program, {})
    return into.getvalue()


@pytest.mark.parametrize("name", ["torch.erfc", "torch.addr", "torch.nn.RMSNorm", "torch.nn.EmbeddingBag", "torch.Tensor.select"])
def test_the_program_prints_what_is_said(name):
    pytest.importorskip("torch")
    found = requesting._request(name, "3")
    requesting.run([found], sys.executable)
    import torch

    before = torch.is_grad_enabled()
    try:
        assert run(found.program) == found.printed
    finally:
        torch.set_grad_enabled(before)
        torch.set_printoptions(profile="default")
    assert re.search(r"tensor\(.*\d", found.printed)
    assert name.rpartition(".")[2] in found.program


def test_numbers_that_are_drawn_are_not_given():
    pytest.importorskip("torch")
    found = requesting._request("torch.feature_dropout", "3")
    found.program = specimen._printed("import torch\nprint(torch.rand(3))\n")
    assert found.program != specimen._printed("import torch\nprint(torch.rand(3))\n")
    assert "It prints other numbers each time." in issue(found)


def test_a_call_without_small_arguments_has_no_program():
    pytest.importorskip("torch")
    found = requesting._request("torch.optim.SparseAdam", "3")
    requesting.run([found], sys.executable)
    assert (found.program, found.printed) == ("", "")
    assert "no small arguments that it accepts were found" in issue(found)
