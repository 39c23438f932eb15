"""Random mistakes in the file of a library's model: the file is edited, the library is not."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

FAULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "faults"

NET = """\
from paddle import nn
from paddle.nn import functional as F


def unused(x):
    return x + 1


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 8)
        self.two = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.one(x)) * 0.5
        return self.two(x)
"""


class Reference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)) * 0.5)


@pytest.fixture
def library(monkeypatch, tmp_path):
    package = tmp_path / "smalllibrary"
    package.mkdir()
    (package / "net.py").write_text(NET, encoding="utf-8")
    (package / "__init__.py").write_text("from .net import Net\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(FAULTS))
    small = importlib.import_module("smalllibrary")

    def build():
        torch.manual_seed(0)
        return Reference(), small.Net(), (np.random.default_rng(0).standard_normal((4, 6)).astype("float32"),)

    pair = types.SimpleNamespace(reference="small", name="small / small", build=build)
    monkeypatch.setitem(sys.modules, "zoo_pairs", types.SimpleNamespace(PAIRS=[pair]))
    monkeypatch.setitem(sys.modules, "zoo_prove", types.SimpleNamespace(prepared=lambda pair: pair.build()))
    yield importlib.import_module("library")
    for name in ("library", "mutate", "mutants", "judges", "corpus", "measure", *(n for n in sys.modules if n.startswith("smalllibrary"))):
        sys.modules.pop(name, None)


def test_edits_of_lines_that_run_are_judged_and_the_library_stays_as_it_is(library):
    before = sys.modules["smalllibrary"].Net
    rows = list(library.judged("small", 0, 3))
    assert [row["id"].rpartition("-")[0] for row in rows] == ["small/m0"] * 3
    for row in rows:
        lines = {int(true.rpartition(":")[2]) for true in row["truth"]}
        assert lines <= set(range(9, 18))
        assert not row["paralign"]["failed"]
    assert sum(row["paralign"]["exact"] for row in rows) >= 2
    assert sys.modules["smalllibrary"].Net is before is sys.modules["smalllibrary.net"].Net


def test_a_pair_that_is_not_aligned_as_it_is_has_no_mutants(library, monkeypatch):
    monkeypatch.setattr(Reference, "forward", lambda self, x: self.two(torch.tanh(self.one(x))))
    with pytest.raises(ValueError, match="small / small is diverged as it is"):
        library.Model("small")


def test_a_mutant_computes_something_else(library):
    model = library.Model("small")
    assert not model.changed(model.build(sys.modules["smalllibrary.net"]))
    assert model.lines >= {16, 17}
    assert 6 not in model.lines
