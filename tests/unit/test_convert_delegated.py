"""Programs of many methods that call one another, views that are filled, and rates that are set while schedules run."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from paralign.port.drafts.converted import convert_code

HEAD = "import torch\nfrom torch import nn\n\n"

#: a class that hands on to another one, and changes what that gives
DELEGATING = """
class C{0}(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def features(self, x):
        return self.inner.features(x)

    def forward(self, x):
        y = self.features(x)
        y.add_(1)
        return y
"""

LAST = "\nclass Last(nn.Module):\n    def features(self, x):\n        return x[0]\n"


def converted(tmp_path, program):
    (tmp_path / "given.py").write_text(HEAD + program, encoding="utf-8")
    convert_code(tmp_path / "given.py", tmp_path / "port.py")
    return (tmp_path / "port.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("last_first", [False, True])
def test_forty_classes_that_delegate_to_one_another_are_followed_once(tmp_path, last_first):
    classes = [DELEGATING.format(at) for at in range(40)]
    begun = time.process_time()
    text = converted(tmp_path, "".join([LAST, *classes] if last_first else [*classes, LAST]))
    assert time.process_time() - begun < 60  # with all orders of calls: years
    assert text.count("_changed_part(y, x, 'view')") == 40


def test_functions_that_call_one_another_in_a_circle_are_told_apart(tmp_path):
    circle = "def one(x):\n    return two(x)\n\ndef two(x):\n    return three(x) if x.ndim else one(x)\n\ndef three(x):\n    return {}\n\n"
    changed = "".join(f"def change_{each}(x):\n    y = {each}(x)\n    y.add_(1)\n    return x\n\n" for each in ("two", "one", "three"))
    assert converted(tmp_path, circle.format("x[0]") + changed).count("_changed_part(y, x") == 3
    (tmp_path / "other").mkdir()
    assert "_changed_part(y" not in converted(tmp_path / "other", circle.format("x * 2") + changed)


def printed(path):
    return subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, check=False)


HEADED = "x = torch.ones(3, 3, requires_grad=True)\ny = x * 2\n"

#: fills of views that Paddle's would give other numbers
FILLED = {
    "a value that asks for a gradient": "v = torch.tensor(2.0, requires_grad=True)\ny.diagonal().fill_(v)\n(y * y).sum().backward()\nprint(v.grad)",
    "a name that is a part": "row = y[0]\nrow.view(-1).fill_(5)\ny.sum().backward()\nprint(x.grad.tolist())",
    "a part that a function is given": "def clear(t):\n    t.view(-1).fill_(5)\n\nclear(y[0])\ny.sum().backward()\nprint(x.grad.tolist())",
    "a copy that flatten makes": "z = y.t()\nz.flatten().fill_(0)\nprint(z.sum().item())",
    "a rate that is set while groups follow a schedule of their own": (
        "a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))\n"
        "opt = torch.optim.SGD([{'params': [a], 'lr': 0.1}, {'params': [b], 'lr': 0.01}], lr=0.05)\n"
        "s = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=3, eta_min=1e-3)\nopt.step()\ns.step()\n"
        "for g in opt.param_groups:\n    g['lr'] *= 0.5\ns.step()\nprint([round(v, 6) for v in s.get_last_lr()])"
    ),
    "a momentum that groups of other rates cycle": (
        "a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))\n"
        "opt = torch.optim.SGD([{'params': [a], 'lr': 0.1}, {'params': [b], 'lr': 0.01}], lr=0.05, momentum=0.9)\n"
        "s = torch.optim.lr_scheduler.CyclicLR(opt, 0.01, 0.1, 4)\nopt.step()\ns.step()\nprint(opt.param_groups[0]['momentum'])"
    ),
    "a state in the order of its numbers": (
        "m = nn.Linear(4, 4)\nsd = m.state_dict()\nfor k in sd:\n    sd[k] = torch.arange(sd[k].numel()).reshape(sd[k].shape).float()\n"
        "m.load_state_dict(sd)\nprint(m(torch.ones(1, 4)).tolist())"
    ),
}


@pytest.mark.paddle
@pytest.mark.parametrize("name", FILLED)
def test_what_would_give_other_numbers_raises(tmp_path, name):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    converted(tmp_path, HEADED + FILLED[name] + "\n")
    first, second = printed(tmp_path / "given.py"), printed(tmp_path / "port.py")
    assert first.returncode == 0, first.stderr
    told = second.stderr.splitlines()[-1:] if second.returncode else []
    assert second.stdout == first.stdout or (told and told[0].startswith(("NotImplementedError", "RuntimeError"))), (
        second.stdout + second.stderr
    )


@pytest.mark.paddle
def test_a_diagonal_is_filled_with_numbers_and_keeps_the_gradient_of_the_rest(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    program = "value, low = 3.0, -torch.inf\ny.diagonal().fill_(value)\n(y * y).sum().backward()\nprint(x.grad.tolist())\nz = x * 1\nz.diagonal().fill_(low)\nprint(z.tolist())\n"
    converted(tmp_path, HEADED + program)
    first, second = printed(tmp_path / "given.py"), printed(tmp_path / "port.py")
    assert second.returncode == 0, second.stderr
    assert first.stdout == second.stdout


def test_a_property_written_by_hand_keeps_its_functions(tmp_path):
    program = (
        "class lazy:\n    def __init__(self, fget):\n        self.fget = fget\n\n    def __get__(self, obj, owner=None):\n"
        "        if obj is None:\n            return self\n        return self.fget(obj)\n\n    def __set__(self, obj, value):\n"
        "        obj.__dict__['kept'] = value\n"
    )
    assert "class lazy:" in converted(tmp_path, program)
