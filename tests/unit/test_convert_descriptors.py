"""Attributes whose class has ``__set__``: Paddle's layers ask properties alone for what they are given."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

PROGRAM = """import json
import torch
from torch import nn


class Positive:
    def __init__(self, lower=0.5):
        self.lower = lower

    def __set_name__(self, owner, name):
        self.raw = "raw_" + name

    def __get__(self, module, owner=None):
        if module is None:
            return self
        return getattr(module, self.raw).exp() + self.lower

    def __set__(self, module, value):
        value = (torch.as_tensor(value) - self.lower).log()
        if self.raw in module._parameters:
            with torch.no_grad():
                module._parameters[self.raw].copy_(value)
        else:
            module.register_parameter(self.raw, nn.Parameter(value))


class Counted():
    'Says what was set.'
    def __get__(self, module, owner=None):
        return self if module is None else module.__dict__.get("kept", 0)
    def __set__(self, module, value):
        module.__dict__["kept"] = float(value.sum())


class Net(nn.Module):
    scale = Positive()
    width = Positive(0.1)
    count = Counted()

    def __init__(self):
        super().__init__()
        self.scale = torch.full((2,), 1.5)
        self.width = 2.0
        self.count = torch.ones(3)


net = Net()
print(json.dumps([net.scale.tolist(), net.width.item(), net.count, sorted(net.state_dict())]))
net.scale = torch.tensor([2.0, 3.0])
net.count = torch.ones(4)
print(json.dumps([net.scale.tolist(), [p.sum().item() for p in net.parameters()], net.count]))
"""

NOTED = [
    "class Plain:\n    def __get__(self, module, owner=None):\n        return module.__dict__.get('last')\n\n    def __set__(self, module, value):\n        pass\n",
    "class Typed(Base):\n    def __get__(self, module, owner=None):\n        return self\n\n    def __set__(self, module, value):\n        pass\n",
]


def _printed(path):
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _places(tmp_path, source):
    (tmp_path / "in.py").write_text(source)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    return [each.fate for each in ledger.places if each.name == "torch.nn.Module.__setattr__"]


@pytest.mark.paddle
def test_a_tensor_goes_through_the_class_of_an_attribute(tmp_path):
    assert _places(tmp_path, PROGRAM) == [Fate.REWRITTEN] * 2
    assert _printed(tmp_path / "out.py") == _printed(tmp_path / "in.py")


@pytest.mark.parametrize("lines", NOTED)
def test_one_that_is_no_property_is_told(tmp_path, lines):
    assert _places(tmp_path, "import torch\nfrom other import Base\n\n\n" + lines) == [Fate.CONDITION]


def test_a_class_without_set_is_left(tmp_path):
    assert _places(tmp_path, "import torch\n\n\nclass Read:\n    def __get__(self, module, owner=None):\n        return self\n") == []
