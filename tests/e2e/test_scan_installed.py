"""The installed Paddle is asked for what it offers; the stored table says the same of the same version."""

from __future__ import annotations

import sys

import pytest

from paralign.catalogue.parameters import stored
from paralign.port.scan.inventory import Status
from paralign.port.scan.scanning import ask, scan

pytestmark = [pytest.mark.paddle, pytest.mark.slow]


def test_the_installed_paddle_is_asked(tmp_path):
    pytest.importorskip("paddle")
    table, asked = ask(sys.executable)
    kept = stored("paddle")
    assert asked == sys.executable
    if table.version == kept.version:
        missing = sorted(set(kept.texts) - set(table.texts))
        other = sorted(name for name in kept.texts if name in table.texts and kept.texts[name] != table.texts[name])
        assert (missing, other) == ([], [])
    (tmp_path / "x.py").write_text("import torch.nn as nn\nnn.AvgPool2d(3, 2, 1)\nnn.RMSNorm(3)\n")
    found = scan([tmp_path], sys.executable)
    assert (found.paddle, found.asked) == (table.version, sys.executable)
    assert found.rows[0].status is Status.SILENT
