"""The ledger a line: only a line that ran, in what was held against its original, is proven."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main
from paralign.port.edits.ledger import Fate, Ledger, Place
from paralign.port.proofs.line_facts import Fact, Proof, Ran, counts, line_facts

SOURCE = """class Net(Base):
    def __init__(self):
        self.fc = make(4)
        self.start = draw(4)

    def forward(self, x):
        x = one(
            x,
        )
        if x is None:
            x = two(x)
        x = three(x) if x.ndim else four(x)
        return x and five(x)
"""


def place(line, column=1, name="torch.relu", fate=Fate.EQUAL):
    return Place("net.py", line, column, name, fate, "x", "why")


RAN = Ran({"net.py": frozenset({7, 8, 10, 12, 13})}, {"net.py": frozenset({3, 4})})


def facts(*places, held=True, calls=1, sources=None):
    ledger = Ledger(places=list(places))
    proof = Proof("net.py", 1, "Net", Fact.PROVEN if held else Fact.UNPROVEN, "" if held else "apart", calls, end=13, held=held)
    return [each.fact for each in line_facts(ledger, [proof], {"net.py": SOURCE} if sources is None else sources, RAN)]


def test_what_ran_and_was_held_is_proven():
    assert facts(place(7, 13), place(8), place(1, 11, "torch.nn.Module")) == [Fact.PROVEN] * 3


def test_a_branch_that_did_not_run_is_not_reached():
    assert facts(place(11)) == [Fact.UNREACHED]


def test_a_part_of_an_expression_that_may_be_left_out_is_not_proven():
    text = SOURCE.splitlines()
    chosen = [place(12, text[11].index(word) + 1) for word in ("three", "four")] + [place(13, text[12].index("five") + 1)]
    assert facts(*chosen) == [Fact.UNPROVEN] * 3
    assert facts(place(12, text[11].index("x.ndim") + 1)) == [Fact.PROVEN]


def test_of_what_runs_while_the_model_is_built_layers_alone_are_proven():
    assert facts(place(3, 19, "torch.nn.Linear"), place(4, 22, "torch.rand"), place(4, 22, "torch.nn.init.zeros_")) == [
        Fact.PROVEN, Fact.UNPROVEN, Fact.UNPROVEN,
    ]  # fmt: skip
    assert facts(place(4, 22, "torch.nn.Parameter")) == [Fact.UNPROVEN]


def test_what_raises_is_not_converted_whatever_was_held():
    assert facts(place(7, fate=Fate.BY_HAND)) == [Fact.UNCONVERTED]


def test_what_was_not_held_called_or_seen_is_never_proven():
    assert facts(place(7), held=False) == [Fact.UNPROVEN]
    assert facts(place(7), calls=0) == [Fact.UNREACHED]
    assert facts(place(20)) == [Fact.UNREACHED]
    assert facts(place(7), sources={}) == [Fact.UNREACHED]
    assert facts(place(7), sources={"net.py": "class Net(:"}) == [Fact.PROVEN], "its lines are not known, its calls are"


def test_counts_have_every_fact():
    assert counts([]) == dict.fromkeys(Fact, 0)


NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x, mask=None):
        x = torch.relu(self.fc(x))
        if mask is not None:
            x = torch.tanh(x)
        return torch.sigmoid(x)
"""


@pytest.mark.torch
@pytest.mark.paddle
def test_every_line_of_a_port_has_its_fact(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    (tmp_path / "net.py").write_text(NET)
    assert main(["port", str(tmp_path / "net.py"), str(tmp_path / "out"), "--model", "net:Net", "--input", "2x4", "--prove"]) == 0
    content = json.loads((tmp_path / "out" / "proof.json").read_text())
    found = {(each["line"], each["name"]): each["fact"] for each in content["lines"]}
    assert found[12, "torch.relu"] == found[15, "torch.sigmoid"] == found[8, "torch.nn.Linear"] == "proven"
    assert found[14, "torch.tanh"] == "not reached"
    assert found[9, "torch.nn.init.zeros_"] == "reached but not proven"
    assert content["line_counts"]["not reached"] == 1
    assert "1 proven; " in capsys.readouterr().out
