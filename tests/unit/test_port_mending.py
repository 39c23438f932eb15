"""``port --prove`` repairs what diverges, writes it into files that nobody has edited, and the ledger's line says so."""

from __future__ import annotations

import json

import pytest

from paralign.api.mended_port import _lines_of, _places
from paralign.cli import main
from paralign.port.drafts import kept_edits
from paralign.port.drafts.converted import convert_code
from paralign.port.drafts.drafting import draft, rewrite_ledger
from paralign.port.edits.ledger import Fate, Place

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return torch.sigmoid(self.fc(x)) * 0.5
"""


def test_lines_of_a_port_are_those_of_the_original():
    assert _lines_of(["a", "b", "c"], ["new", "a", "B", "c"]) == [1, 1, 2, 3]
    assert _lines_of([], ["new"]) == [1]


def test_every_edited_line_is_a_place():
    before, after = b"import paddle\nx = 1\ny = 2\n", b"import paddle\nx = 3\ny = 2\nz = 4\n"
    found = _places("net.py", "import torch\nx = 1\ny = 2\n", before, after, "why")
    assert [(each.line, each.before, each.note) for each in found] == [(2, "x = 1", "why"), (3, "z = 4", "why")]


def test_a_list_that_the_user_has_edited_stays(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    out = tmp_path / "out"
    draft(tmp_path / "net.py", out, "net:Net", ["2x4"])
    (out / "left.md").write_text("my own list")
    again = draft(tmp_path / "net.py", out, "net:Net", ["2x4"], force=True)
    assert again.kept == ["left.md"]
    again.ledger.places.append(Place("net.py", 3, 1, "paralign repair", Fate.REPAIRED, "x", "y"))
    written = rewrite_ledger(again)
    kept_edits.record_again(out, written)
    assert (out / "left.md").read_text() == "my own list"
    assert '"repaired"' in (out / again.ledger_name).read_text()
    assert draft(tmp_path / "net.py", out, "net:Net", ["2x4"], force=True).kept == ["left.md"]


def wrong_conversion(monkeypatch):
    """A converter with a mistake, as one that nobody knows of would be."""
    from paralign.port.drafts import drafting

    def wrong(source, destination, python=None, **asked):
        ledger = convert_code(source, destination, python, **asked)
        path = destination / "net.py" if source.is_dir() else destination
        path.write_text(path.read_text().replace("* 0.5", "* 0.25"))
        return ledger

    monkeypatch.setattr(drafting, "convert_code", wrong)


@pytest.mark.torch
@pytest.mark.paddle
def test_a_wrong_line_is_repaired_and_its_line_says_so(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    wrong_conversion(monkeypatch)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "net.py").write_text(NET)
    out = tmp_path / "out"
    command = ["port", str(tmp_path / "src"), str(out), "--model", "net:Net", "--input", "2x4", "--prove"]
    code = main(command)
    said = capsys.readouterr().out
    assert "repaired: net.py:11 " in said
    assert "verdict with the patch: aligned" in said
    assert code == 0
    assert "* 0.5" in (out / "port" / "net.py").read_text()
    assert "* 0.25" in (out / "port" / "net.py.before-repair").read_text()
    places = json.loads((out / "port" / "ledger.json").read_text())["places"]
    assert [each["line"] for each in places if each["fate"] == "repaired"] == [11]
    proof = json.loads((out / "proof.json").read_text())["proofs"][0]
    assert proof["fact"] == "proven"
    assert proof["repaired"][0].startswith("line 11: ")
    assert "# Repaired" in (out / "left.md").read_text()
    assert "port/net.py" not in kept_edits.edited(out, out), "it is paralign's own, not the user's"

    # without --prove the port is left as it is, and so is a file that the user has edited
    (out / "port" / "net.py").write_text((out / "port" / "net.py").read_text().replace("* 0.5", "* 0.75"))
    assert main([*command, "--force"]) == 1
    said = capsys.readouterr().out
    assert "repaired, but not written, for it was edited since" in said
    assert "* 0.75" in (out / "port" / "net.py").read_text()
