"""What ``scan`` says of a program left as it is, with Paddle in PyTorch's place."""

from __future__ import annotations

from paralign.catalogue.alternatives import under_compat
from paralign.cli import main

PROGRAM = """import torch
from torch import nn

net = nn.LSTM(2, 3)
head = nn.Tanh()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
bag = nn.EmbeddingBag(3, 2)
"""


def test_each_call_is_counted_once_and_the_worst_are_named(tmp_path, capsys):
    (tmp_path / "net.py").write_text(PROGRAM)
    main(["scan", str(tmp_path / "net.py")])
    told = capsys.readouterr().out
    line = next(each for each in told.splitlines() if each.startswith("unchanged, under paddle.enable_compat()"))
    calls = int(told.split(" calls in ")[0].rsplit("\n", 1)[-1])
    assert sum(int(word) for word in line.partition("): ")[2].split() if word.isdigit()) == calls
    assert "silently different: torch.nn.LSTM: " in told
    assert "raises: torch.optim.SGD: " in told
    assert "torch.nn.Tanh: " not in told[told.index(line) :]


def test_nothing_is_said_of_a_program_without_calls_of_pytorch(tmp_path, capsys):
    (tmp_path / "net.py").write_text("import paddle\n\nx = paddle.zeros([2])\n")
    main(["scan", str(tmp_path / "net.py")])
    assert "enable_compat" not in capsys.readouterr().out


def test_the_table_names_versions_and_known_outcomes_alone():
    known = under_compat()
    assert "paddle 3." in known.versions
    assert set(known.outcomes.values()) == {"equal", "raises", "silent"}
    assert len(known.outcomes) > 300
