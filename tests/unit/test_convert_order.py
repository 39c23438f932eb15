"""Parts of parts that are written: what is written, in which order, and what raises; programs print the same on both sides."""

from __future__ import annotations

import pytest
from tests.unit.converted_programs import check_that_it_prints_the_same, run

from paralign.port.drafts.converted import convert_code

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\ndef same(x):\n    return x\n\n\n"

#: programs that print the same on both sides
PROGRAMS = {
    "tuples": (
        "def main(d):\n    a = (1, 2)\n    d[0][1] = 5,\n    d[1][0] = 5, '+'\n    d[1][1] = *a, 2\n    d[0][0], *d[0][2] = 7, 8, 9\n"
        "    y = d[1][2] = 4\n    (d[1])[2] += (3)\n    print(d, y)\n\n\nmain([[0, 0, 0], [0, 0, 0]])"
    ),
    "the value comes first": (
        "def main(x, d):\n    it = iter([2, 1, 0])\n    x[next(it) - 1][next(it) - 1] = next(it)\n    d['a'][0] = 7 if 'a' in d else 8\n"
        "    x[same(0)][same(1)] = len(x.append([3]) or x)\n    print(x, dict(d))\n\n\n"
        "from collections import defaultdict\nmain([[0] * 3, [0] * 3], defaultdict(lambda: [0]))"
    ),
    "an empty index": "def main(t):\n    t[0][()] += 1\n    t[0][()] = t[0] + 2\n    print(t[0].tolist())\n\n\nmain([torch.zeros(2)])",
    "yields": (
        "def wait(d):\n    d[0][1] = yield 3\n    d[0][(yield 4)] += yield 5\n    d[(yield 6)] += [1]\n    d[(yield 7)] += 1\n    yield d\n\n\n"
        "g = wait([[0, 0, 0], [0], 3])\nprint(next(g), *[g.send(each) for each in (1, 0, 2, 1, 2)])"
    ),
    "indices that are written otherwise": (
        "z = torch.zeros(2, 2)\nz[0][torch.tensor([True, False])] = torch.max(torch.ones(3), 0)[0] * 2\n"
        "z[1][0:1], z[1][1] = torch.ones(1) * 4, 3\nprint(z.tolist())"
    ),
    "layers of layers": (
        "def main(layers):\n    layers[0][1] = nn.ReLU()\n    print(len(layers[0]), layers(torch.tensor([[-1.0, 2.0]])).tolist())\n\n\n"
        "main(nn.Sequential(nn.Sequential(nn.Identity(), nn.Sigmoid())))"
    ),
    "inputs taken where a sign changes": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.drop, self.act = nn.Dropout(0.0), nn.ReLU(inplace=True)\n\n"
        "    def forward(self, x):\n        y = self.drop(x)\n        y += self.act(x)\n        return x * y\n\n\n"
        "def flat(x):\n    y = x.view(-1)\n    y += F.relu(x, inplace=True)\n    return x * 2\n\n\n"
        "print(Net()(torch.arange(-2.0, 3)).tolist(), flat(torch.arange(-2.0, 3)).tolist())"
    ),
    "inputs by name, by slices and by items": (
        "def main(x):\n    y = x - 1\n    F.relu(input=y, inplace=True)\n    u = x - 2\n    F.relu(u[3:], inplace=True)\n    us = [u, x - 3]\n"
        "    for i in range(2):\n        F.leaky_relu(us[i], 0.5, inplace=True)\n    print(y.tolist(), u.tolist(), us[1].tolist())\n\n\n"
        "main(torch.arange(-2.0, 3))"
    ),
    "what a chain of layers gives back": (
        "def main(x):\n    m = nn.Dropout(0.0)\n    y = m(x)\n    z = m(y)\n    z.add_(1)\n    print(x.tolist())\n\n\nmain(torch.arange(-2.0, 3))"
    ),
}

#: statements that lose a gradient in Paddle
LOST = {
    "of a product by a number": "x = w * 2\nx[0][1] = 5",
    "two at once": "x = w * w\nx[0][0], x[1][1] = 7, 8",
    "one of two names": "x = w * w\ny = x[0][0] = 7",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_port_prints_what_the_original_prints(tmp_path, name):
    check_that_it_prints_the_same(tmp_path, HEAD + PROGRAMS[name] + "\n")


@pytest.mark.parametrize("name", LOST)
def test_what_paddle_would_lose_raises(tmp_path, name):
    (tmp_path / "in.py").write_text(
        f"{HEAD}w = torch.ones(2, 2, requires_grad=True)\n{LOST[name]}\n(x * x).sum().backward()\nprint(w.grad)\n"
    )
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert run(tmp_path / "in.py").returncode == 0
    port = run(tmp_path / "out.py")
    assert port.returncode == 1
    assert "NotImplementedError: a part of a part" in port.stderr
    assert not port.stdout


def test_a_slice_that_asks_for_a_gradient_is_not_taken(tmp_path):
    code = (
        "x = torch.arange(-2.0, 3, requires_grad=True)\nu = x * 2\nF.relu(u[:1], inplace=True)\n(u * u).sum().backward()\nprint(x.grad)\n"
    )
    (tmp_path / "in.py").write_text(HEAD + code)
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    port = run(tmp_path / "out.py")
    assert "NotImplementedError: a part of a tensor" in port.stderr
    assert not port.stdout


@pytest.mark.parametrize(("change", "told"), [("y.add_(1)", True), ("y = y + 1", False)])
def test_what_a_function_that_drops_gives_back_is_told_where_it_changes(tmp_path, change, told):
    (tmp_path / "in.py").write_text(f"{HEAD}def main(x):\n    y = F.dropout(x, 0.5, False)\n    {change}\n    return x, y\n")
    places = convert_code(tmp_path / "in.py", tmp_path / "out.py").places
    assert any("PyTorch gives back its input" in each.note for each in places) is told
