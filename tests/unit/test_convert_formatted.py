"""Formatted strings, items of Sequential, and what PyTorch's layers and optimizers keep for themselves."""

from __future__ import annotations

import pytest
from tests.unit.converted_programs import check_that_it_prints_the_same, run

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate
from paralign.port.rewriting.referring import remarked

HEAD = "import re\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"

#: programs that print the same on both sides
PROGRAMS = {
    "formatted strings": (
        'def told(r, k):\n    print(f"update {k}: loss={k[-1]:.5f} reward={r.mean():.4f} kl={r.sum():.6f} "\n'
        '          f"std={r.exp().mean().item():.4f} n={len(k)}")\n\n'
        "told(torch.ones(3), [1.0])\nx = torch.ones(2)\n"
        "print(f'{x.norm(p=2):.3f} {torch.norm(x, dim=0):.3f}', f\"{x.norm(p=2, dim=0):.3f} {dict(a=1)['a']}\")\n"
        "print(f'''{torch.ones(3).double().mean():.3f}''', f'{x.type(torch.int32).tolist()} {x.size(0)}')"
    ),
    "items of Sequential": (
        "s = nn.Sequential(nn.Identity(), nn.Identity())\ns[-1] = nn.ReLU()\ns[0] = nn.Tanh()\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\n"
        "        self.m[-1] = nn.Tanh()\n        layers = nn.ModuleList([nn.ReLU(), nn.ReLU()])\n        layers[-1] = nn.Tanh()\n        self.layers = layers\n\n"
        "net = Net()\nprint(len(s), len(net.m), len(net.layers), type(s[1]).__name__, type(net.m[1]).__name__)\n"
        "x, d, y = [torch.zeros(2), torch.ones(2)], {-1: 0}, torch.zeros(3)\nx[-1] = torch.ones(3)\nd[-1] = 5\ny[-1] = torch.ones(2).sum()\n"
        "print([each.tolist() for each in x], d, y.tolist())"
    ),
    "targets in one row": (
        "a = torch.arange(48.0).reshape(6, 2, 4).sin().log_softmax(-1).requires_grad_()\n"
        "loss = F.ctc_loss(a, torch.tensor([1, 2, 3]), torch.tensor([6, 5]), torch.tensor([2, 1]))\nloss.backward()\n"
        "each = nn.CTCLoss(reduction='none')(a.detach(), torch.tensor([1, 2, 3]), (6, 5), (1, 2))\n"
        "print(round(loss.item(), 4), [round(v, 4) for v in each.tolist()])"
    ),
    "patterns and types": (
        "def cut(p, k):\n    return p.sub('-', k)\n\nprint(cut(re.compile('a.'), 'xaby'), torch.ones(2).sub(torch.ones(2)).tolist())\n"
        "print(torch.get_default_dtype() == torch.float32, torch.zeros(1, dtype=torch.get_default_dtype()).dtype == torch.float32)"
    ),
    "what a layer keeps": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.LayerNorm(2)\n"
        "        self.b = nn.Sequential(nn.LayerNorm(3), self.a)\n\n    def named(self, prefix=''):\n"
        "        yield from self._named_members(lambda m: m._parameters.items() if isinstance(m, nn.LayerNorm) else [], prefix=prefix, recurse=True)\n\n"
        "net = Net()\nprint([n for n, _ in net.named()], [n for n, _ in net.named('x')], list(net._modules), len(net.b._modules.values()))"
    ),
    "names that a program has itself": (
        "class Own:\n    def __init__(self):\n        self._modules = {'a': 1}\n        self.state = {3: 4}\n\nopt = Own()\nprint(opt._modules, opt.state)"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_port_prints_what_the_original_prints(tmp_path, name):
    check_that_it_prints_the_same(tmp_path, HEAD + PROGRAMS[name] + "\n")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("opt = torch.optim.Adam([p])\nopt.state[p]['exp_avg'].zero_()", "torch.optim.Optimizer.state"),
        ("class T:\n    def go(self):\n        return self.optimizer.state.get(p, None)", "torch.optim.Optimizer.state"),
        ("m = nn.Linear(2, 2)\nprint(m._get_name())", "torch.nn.Module._get_name"),
    ],
)
def test_what_paddle_keeps_otherwise_stands_in_the_ledger(tmp_path, source, name):
    (tmp_path / "in.py").write_text(f"{HEAD}p = nn.Parameter(torch.ones(2))\n{source}\n")
    places = convert_code(tmp_path / "in.py", tmp_path / "out.py").places
    assert [each.name for each in places if each.fate is Fate.BY_HAND] == [name]


@pytest.mark.parametrize(("key", "told"), [("'weight'", True), ("f'{name}.weight'", True), ("'scale'", False), ("0", False)])
def test_a_weight_by_its_name_is_told_of(tmp_path, key, told):
    (tmp_path / "in.py").write_text(f"{HEAD}def f(x, params, name):\n    return F.linear(x, params[{key}])\n")
    (place,) = [each for each in convert_code(tmp_path / "in.py", tmp_path / "out.py").places if each.name.endswith("linear")]
    assert ("named_parameters" in place.note) is told


def test_a_parameter_that_takes_the_place_of_another_in_a_group_raises(tmp_path):
    (tmp_path / "in.py").write_text(
        f"{HEAD}p = nn.Parameter(torch.ones(2))\nopt = torch.optim.Adam([{{'params': [p]}}])\n"
        "print([each is p for each in opt.param_groups[0]['params']])\nopt.param_groups[0]['params'][0] = nn.Parameter(torch.zeros(2))\nprint('lost')\n"
    )
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    port = run(tmp_path / "out.py")
    assert port.stdout == "[True]\n"
    assert "the parameters of a group are changed" in port.stderr


def test_a_function_that_gives_back_its_own_result_is_followed_once(tmp_path):
    source = "def reset(n):\n    obs = reset(n - 1) if n > 3 else other(n)\n    obs = reset(n)\n    return obs\n\n"
    (tmp_path / "in.py").write_text(f"{HEAD}{source}def other(n):\n    x = reset(n)\n    return x\n\ny = reset(2)\ny[0].add_(1)\ny += 1\n")
    (file,) = convert_code(tmp_path / "in.py", tmp_path / "out.py").files
    assert not file.problem


@pytest.mark.parametrize(
    ("text", "mark", "written"),
    [
        ("f('a', 1)", "'", 'f("a", 1)'),
        ("f('a', \"b\")", '"', "f('a', 'b')"),
        ("f('it is \"so\"')", "'", None),
        ("f('a\\n')", "'", None),
        ("f('a',\n  1)", "'", None),
        ("f('#')", "'", None),
        ("f('a", "'", None),
    ],
)
def test_texts_in_formatted_strings_have_the_other_marks(text, mark, written):
    assert remarked(text, mark) == written
