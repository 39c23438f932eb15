"""Ways of writing programs that sources from elsewhere had, and that were converted wrong or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from paralign.catalogue.parameters import TABLES
from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.programs

HEAD = "import functools\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"

#: programs that print the same on both sides
PROGRAMS = {
    "operands in a list": "x = torch.arange(6.0).reshape(2, 3)\nprint(torch.einsum('ij,kj->ik', [x, x]).tolist(), torch.einsum('ij->ji', x).tolist())",
    "a value that is a tensor": "x = torch.zeros(2)\nx.fill_(torch.tensor([2.5])[0])\nprint(x.tolist())",
    "a number of one element": "x = torch.tensor([3])\nprint(int(x), float(x), int(torch.tensor([4])))",
    "a type asked": "print(torch.ones(2).dtype.is_floating_point, torch.ones(2).long().dtype.is_floating_point, torch.ones(1).dtype.is_complex)",
    "places as a tuple": "print([each.tolist() for each in (torch.tensor([[0, 1], [1, 1]]) > 0).nonzero(as_tuple=True)])",
    "truth values on the diagonal": "print(torch.eye(2, dtype=torch.bool).tolist())",
    "an activation with a setting, handed on": (
        "made = functools.partial(nn.GELU, approximate='tanh')\nprint([round(each, 4) for each in made()(torch.tensor([-1.0, 2.0])).tolist()])"
    ),
    "an attribute of the user's own that is called like a layer's": (
        "class Tracker:\n    def __init__(self):\n        self.momentum = 0.25\n\ntrackers = [Tracker()]\ntrackers[0].momentum += 0.5\n"
        "first, trackers[0].stride = 1, 2\ntrackers[0].stride *= 3\nprint(trackers[0].momentum, trackers[0].stride, first)"
    ),
    "one statistic that is set keeps its place in the state": (
        "norm = nn.BatchNorm1d(2)\nnorm.running_mean = torch.tensor([1.0, 2.0])\n"
        "print([value.tolist() for name, value in norm.state_dict().items() if 'num_batches' not in name])"
    ),
    "statistics that are set": (
        "norm = nn.BatchNorm1d(2).eval()\nnorm.running_mean = torch.tensor([1.0, 2.0])\nnorm.running_var *= 4\n"
        "print([round(each, 3) for each in norm(torch.ones(1, 2)).flatten().tolist()], norm.running_mean.tolist())"
    ),
    "statistics of an own norm": (
        "class Own(nn.BatchNorm1d):\n    def forward(self, x):\n        return x - self.running_mean + self.running_var\n\n"
        "norm = Own(2)\nnorm.running_mean.fill_(0.5)\nprint(norm(torch.ones(1, 2)).tolist())"
    ),
    "in place, what gradients need": (
        "x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\nat = torch.tensor([0, 0, 1])\n"
        "total = torch.zeros(2).scatter_add_(0, at, x)\n(x / total[at]).pow(2).sum().backward()\nprint([round(each, 4) for each in x.grad.tolist()])"
    ),
    "packed sequences": (
        "torch.manual_seed(0)\nlayer = nn.GRU(2, 3, bidirectional=True)\n"
        "layer.load_state_dict({name: torch.full_like(value, 0.1) for name, value in layer.state_dict().items()})\n"
        "x = torch.arange(12.0).reshape(3, 2, 2) / 10\n"
        "packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 3]), enforce_sorted=False)\nout, last = layer(packed)\n"
        "(out.data.pow(2).sum() + last.sum()).backward()\n"
        "print([[round(each, 4) for each in row] for row in layer.weight_hh_l0_reverse.grad.tolist()], [round(each, 4) for each in last.flatten().tolist()])"
    ),
    "laws apart": (
        "from torch.distributions import Categorical, Independent, Normal, kl_divergence\n"
        "print(round(kl_divergence(Categorical(probs=torch.tensor([0.5, 0.5])), Categorical(probs=torch.tensor([0.25, 0.75]))).item(), 4),"
        " round(kl_divergence(Independent(Normal(torch.ones(2), 1.0), 1), Independent(Normal(torch.zeros(2), 2.0), 1)).item(), 4))"
    ),
    "parameters in a row": (
        "net = nn.LayerNorm(3)\nv = nn.utils.parameters_to_vector(net.parameters())\n"
        "nn.utils.vector_to_parameters(v * 3, net.parameters())\nprint(v.tolist(), net.weight.tolist())"
    ),
    "statistics that are put back": (
        "norm = nn.BatchNorm1d(2)\nkept = norm.running_mean\nnorm.running_mean = torch.full((2,), 7.0)\nx = torch.tensor([[1.0, 2.0], [3.0, 5.0]])\n"
        "norm(x).pow(3).sum().backward()\ninner = norm.running_mean\nnorm.running_mean = kept\nnorm(x)\n"
        "print([[round(each, 3) for each in one.tolist()] for one in (inner, kept, norm.running_mean)], norm.running_mean is kept, norm.weight.grad is None)"
    ),
    "statistics of an own norm that are put back": (
        "class Own(nn.BatchNorm1d):\n    def forward(self, x):\n        return super().forward(x) + self.running_mean\n\n"
        "norm = Own(2).eval()\nkept = norm.running_mean\nnorm.running_mean = torch.full((2,), 7.0)\nnorm.eps = 3.0\nout = norm(torch.ones(1, 2))\n"
        "norm.running_mean = kept\nprint([[round(each, 3) for each in one.flatten().tolist()] for one in (out, kept, norm(torch.ones(1, 2)))],"
        " len(list(norm.parameters())) >= 2, len([each for each in norm.state_dict().values() if each.ndim]))"
    ),
    "statistics that two norms share": (
        "one, other = nn.BatchNorm1d(2), nn.BatchNorm1d(2)\nother.running_mean = one.running_mean\none(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))\n"
        "other.running_var = torch.ones(2, dtype=torch.float64)\nprint([round(each, 3) for each in other.running_mean.tolist()])"
    ),
    "several settings at once": (
        "one, other = nn.BatchNorm1d(2).eval(), nn.BatchNorm1d(2).eval()\none.running_mean, one.running_var = torch.ones(2) * 2, torch.ones(2) * 4\n"
        "other.running_mean = (other).running_var = torch.ones(2)\nfor other.eps in (0.5, 3.0):\n    pass\n"
        "print([round(each, 3) for norm in (one, other) for each in norm(torch.zeros(1, 2)).flatten().tolist()], other.eps)"
    ),
    "gradients of what is filled": (
        "x, w = torch.ones(3, requires_grad=True), torch.tensor([2.0], requires_grad=True)\ny = x * 2\ny.fill_(w[0])\n(y * x).sum().backward()\n"
        "z = torch.zeros(2).fill_(w[0])\nz.pow(2).sum().backward()\nown = torch.arange(3.0)\nown.fill_(own[1])\n"
        "whole = torch.zeros(2, dtype=torch.int64)\nwhole.fill_(torch.tensor(2.7))\nprint(x.grad.tolist(), w.grad.tolist(), own.tolist(), whole.tolist())"
    ),
    "gradients of Bernoullis": (
        "from torch.distributions import Bernoulli, ContinuousBernoulli, Geometric, kl_divergence\n\n"
        "p, q = torch.tensor([0.5, 0.0, 1.0, 0.2], requires_grad=True), torch.tensor([0.25, 0.0, 1.0, 0.3], requires_grad=True)\n"
        "apart = kl_divergence(Bernoulli(probs=p), Bernoulli(probs=q))\napart.sum().backward()\n"
        "endless = kl_divergence(Bernoulli(probs=torch.tensor([0.5, 0.5])), Bernoulli(probs=torch.tensor([0.0, 1.0])))\n"
        "a, b = torch.tensor([0.3, -2.0], requires_grad=True), torch.tensor([0.3, 0.6], requires_grad=True)\n"
        "kl_divergence(Bernoulli(logits=a), Bernoulli(probs=b)).sum().backward()\n"
        "(Bernoulli(probs=b).entropy().sum() + Geometric(probs=b).entropy().sum()).backward()\n"
        "v = torch.tensor([0.5, 0.1], requires_grad=True)\n"
        "(Bernoulli(logits=a, validate_args=False).log_prob(v).sum() + ContinuousBernoulli(probs=b).log_prob(v).sum()).backward()\n"
        "print([[round(each, 3) for each in one.tolist()] for one in (apart, p.grad, q.grad, endless, a.grad, b.grad, v.grad)])"
    ),
    "one of two that were broadcast": (
        "p, q = torch.tensor([0.5, 0.1], requires_grad=True), torch.ones(3, 1, requires_grad=True)\na, b = torch.broadcast_tensors(p, q)\n"
        "a.pow(2).sum().backward()\nprint([round(each, 3) for each in p.grad.tolist()], b.tolist())"
    ),
    "numbers that may be tensors": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.best = 0.0\n\n    def forward(self, x):\n"
        "        if x.sum() > 100:\n            self.best = x.sum()\n        return float(self.best)\n\n"
        "def asked(big):\n    n, loss = 3, 0\n    if big:\n        n = torch.tensor(4)\n        loss = torch.ones(2).sum()\n    return int(n), float(loss)\n\n"
        "net, x, known = Net(), torch.ones(2), {'a': torch.tensor(1.0), 'b': 2}\nprint(net(x), net(torch.ones(200)), asked(False), asked(True))\n"
        "print([float(each) for each in known.values()], int(torch.equal(x, x)), int(x.equal(x)), int(torch.tensor([[3]])), float((x * 2).sum()))"
    ),
    "parameters that a step does not reach stay as they are": (
        "parts = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])\nfor at, p in enumerate(parts.parameters()):\n    nn.init.constant_(p, 0.1 * (at + 1))\n"
        "x = torch.ones(3, 2)\nfor made in (lambda: torch.optim.SGD(parts.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1), lambda: torch.optim.AdamW(parts.parameters(), lr=0.1)):\n"
        "    opt = made()\n    for step in range(6):\n        if step < 4:\n            opt.zero_grad()\n        else:\n            parts.zero_grad()\n"
        "        (parts[step % 2](x) ** 2).mean().backward()\n        opt.step()\n"
        "    print([round(float(p.sum()), 3) for p in parts.parameters()], [p.grad is None for p in parts.parameters()])\n"
        "    opt.zero_grad(set_to_none=False)\n    print([p.grad is None or p.grad.abs().sum().item() for p in parts.parameters()])"
    ),
    "an optimizer by the greatest gradient": (
        "p = nn.Parameter(torch.linspace(-1.0, 1.0, 6))\nsteps = torch.optim.Adamax([{'params': [p]}], lr=0.01, betas=(0.8, 0.9), eps=0.1)\n"
        "for count in range(6):\n    steps.zero_grad()\n    ((p * p).sum() * 0.01 * (count - 1)).backward()\n    steps.step()\n"
        "q = nn.Parameter(torch.ones(2))\nother = torch.optim.Adamax([q], lr=0.01, eps=0.5, weight_decay=0.1)\nq.sum().backward()\nother.step()\n"
        "print([round(each, 4) for each in [*p.tolist(), *q.tolist()]])"
    ),
    "names of layers that are put together": r"""
torch.manual_seed(0)


def make(dims, kind="norm"):
    conv, norm = getattr(nn, f"Conv{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    pool = getattr(nn, "AvgPool%dd" % dims)
    act = getattr(nn, "Leaky" + "ReLU")
    return nn.Sequential(conv(1, 2, 3), norm(2), pool(2), act(0.2))


net = make(1)
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
print([round(v, 5) for v in net(torch.linspace(0, 2, 24).reshape(2, 1, 12)).flatten().tolist()])
""",
    "steps that are given a closure": r"""
w = nn.Parameter(torch.linspace(-1, 1, 6))
x = torch.sin(torch.arange(120.0)).reshape(20, 6)
for optimizer in (torch.optim.LBFGS([w], lr=0.2, max_iter=3, history_size=4), torch.optim.LBFGS([w], max_iter=3, line_search_fn="strong_wolfe"), torch.optim.SGD([w], lr=0.1)):
    def closure():
        optimizer.zero_grad()
        loss = ((torch.tanh(x @ w) - x.sum(1)) ** 2).mean()
        loss.backward()
        return loss
    for _ in range(3):
        with torch.no_grad():
            print(round(optimizer.step(closure).item(), 4))
print([round(v, 3) for v in w.tolist()])
for rate in (0.5, 1.0):
    v = nn.Parameter(torch.tensor([4.0, 1.0]))
    optimizer = torch.optim.LBFGS([v], lr=rate, max_iter=2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)

    def falling():
        optimizer.zero_grad()
        loss = (v**4).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(falling)
        schedule.step()
    print([round(each, 3) for each in v.tolist()])
""",
    "weights of layers that may be linear, filled": r"""
import numpy as np

net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3), nn.Embedding(3, 2))

def fill(net):
    with torch.no_grad():
        for m in net.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                fan = int(np.prod(m.weight.shape[1:]))
                m.weight.set_(torch.from_numpy((np.arange(m.weight.numel()).reshape(tuple(m.weight.shape)) / fan).astype(np.float32)))
                m.bias.zero_().add_(0.2)

def other(net):
    for m in net.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            w = m.parametrizations.weight.original if hasattr(m, "parametrizations") else m.weight
            n = np.arange(w.numel()) * 0.5
            w.data.copy_(torch.tensor(n / w.shape[1], dtype=w.dtype).view_as(w))

def third(net):
    for m in net.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            w = m.weight
            with torch.no_grad():
                w.copy_(torch.arange(w.numel()).reshape(w.shape).float())
                w.mul_(0.5).add_(1)

def fourth(net):
    for m in net.children():
        if hasattr(m, "weight"):
            m.weight.data = torch.arange(m.weight.numel()).reshape(m.weight.size()).float()
            print(m.weight.shape[0], m.weight.numel(), m.weight.size(1))

for f in (fill, other, third, fourth):
    f(net)
    print([round(float(v.detach()), 3) for v in net[0](torch.arange(9.0).reshape(1, 1, 3, 3)).flatten()])
    print([round(float(v.detach()), 3) for v in net[1](torch.arange(8.0).reshape(2, 4)).flatten()])
    print([k for k, p in net.named_parameters() if p.requires_grad])
""",
    "averages of weights, in a dictionary and in a state": r"""
import copy

model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))

def start(m):
    with torch.no_grad():
        for k, p in m.named_parameters():
            p.fill_(0.5)

def follow(model):
    shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
    for step in range(2):
        with torch.no_grad():
            for n, p in model.named_parameters():
                p.add_(1.0)
                shadow[n].lerp_(p, 0.25)
    return shadow

class Ema:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ours.dtype.is_floating_point:
                ours.mul_(self.decay).add_(theirs, alpha=1 - self.decay)
            else:
                ours.copy_(theirs)

    @torch.no_grad()
    def pull(self, model):
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ours.is_floating_point():
                ours.lerp_(theirs, 0.5)

start(model)
ema = Ema(model, 0.5)
print({k: v.flatten().tolist() for k, v in follow(model).items()})
ema.update(model)
print([p.flatten().tolist() for p in ema.module.parameters()])
ema.pull(model)
print([p.flatten().tolist() for p in ema.module.parameters()])
""",
    "truth values beside floating tensors": r"""
def padding(lengths, size):
    return torch.arange(size)[None, :] < lengths[:, None]

def loss(x, valid, weight):
    valid = (valid >= 0.5) & (x.abs() < 3)
    return (valid * x).sum() + (weight * valid[:, :1]).mean()

def pooled(x, mask):
    filled = x.masked_fill(~mask, 0.0)
    return (x * mask).sum(1) / mask.sum(1), filled.sum(), (mask.unsqueeze(-1) * x.unsqueeze(-1)).sum(), (1.0 * x - mask.float()).sum()

def kept(batch):
    here = batch["here"]
    return torch.where(here, batch["x"], 0.0).sum(), (batch["x"] / 2 * here).sum(), x.masked_select(here).sum()

x = torch.tensor([[0.5, 2.0, 4.0], [1.0, -1.0, 3.5]])
lengths = torch.tensor([2, 3])
print(loss(x, torch.tensor([[1.0, 0.0, 1.0], [0.7, 1.0, 0.2]]), x + 1).item())
print([each.tolist() for each in pooled(x, padding(lengths, 3))])
print((x * padding(lengths, 3)).tolist(), (padding(lengths, 3) + x).tolist())
print([each.item() for each in kept({"here": x > 0.7, "x": x})])
""",
}


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_port_prints_what_the_original_prints(tmp_path, name):
    (tmp_path / "in.py").write_text(HEAD + PROGRAMS[name] + "\n")
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert not ledger.left
    told = [
        subprocess.run([sys.executable, str(tmp_path / each)], capture_output=True, text=True, check=False) for each in ("in.py", "out.py")
    ]
    assert [each.returncode for each in told] == [0, 0], told[-1].stderr
    assert told[0].stdout == told[1].stdout


def converted(tmp_path, source):
    (tmp_path / "in.py").write_text(HEAD + source)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py", force=True)
    return (tmp_path / "out.py").read_text(), ledger


@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_a_difference_is_told_of_every_callable_that_its_entry_names(tmp_path, kind):
    _, ledger = converted(tmp_path, f"norm = nn.{kind}(3, momentum=0.3)\n")
    (place,) = [each for each in ledger.places if each.name == f"torch.nn.{kind}"]
    assert place.fate is Fate.CONDITION
    assert "running variance" in place.note


def test_a_part_of_a_shape_is_no_size_of_zero(tmp_path):
    _, ledger = converted(tmp_path, "def f(x: torch.Tensor):\n    return x.view(x.size(0), -1), x.reshape(0, 2)\n")
    fates = [each.fate for each in ledger.places if each.name in ("torch.Tensor.view", "torch.Tensor.reshape")]
    assert fates == [Fate.EQUAL, Fate.CONDITION]


def test_a_default_that_is_not_converted_raises_where_it_is_called(tmp_path):
    text, ledger = converted(
        tmp_path,
        "class Net(nn.Module):\n    def __init__(self, act=functools.partial(nn.RReLU, inplace=True), norm=nn.CrossMapLRN2d):\n        super().__init__()\n",
    )
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.nn.RReLU", "torch.nn.CrossMapLRN2d"]
    assert text.count("=_not_converted(") == 2


def test_a_vector_that_parameters_do_not_share_is_told(tmp_path):
    _, ledger = converted(tmp_path, "nn.utils.vector_to_parameters(torch.ones(3), nn.LayerNorm(3).parameters())\n")
    (place,) = [each for each in ledger.places if each.name == "torch.nn.utils.vector_to_parameters"]
    assert place.fate is Fate.CONDITION
    assert "views of the vector" in place.note


def test_no_helper_stands_in_two_tables():
    found = Counter(
        name for path in TABLES.glob("conversions*.toml") for name in tomllib.loads(path.read_text(encoding="utf-8")).get("helpers", {})
    )
    assert [name for name, times in found.items() if times > 1] == []


def test_names_made_at_run_time_tell_their_conditions(tmp_path):
    _, ledger = converted(tmp_path, "def make(norm='BatchNorm2d'):\n    return getattr(nn, norm)(3)\n")
    (place,) = [each for each in ledger.places if each.name == "torch.nn.?" and "looked up" in each.note]
    assert place.fate is Fate.CONDITION
    assert "BatchNorm2d: " in place.note
    assert "running variance" in place.note


def test_names_made_at_run_time_without_conditions_tell_none(tmp_path):
    _, ledger = converted(tmp_path, "def make(act='Tanh'):\n    return getattr(nn, act)()\n")
    (place,) = [each for each in ledger.places if each.name == "torch.nn.?" and "looked up" in each.note]
    assert place.fate is Fate.REWRITTEN


def test_a_weight_that_is_viewed_and_written_is_by_hand(tmp_path):
    source = "def f(net):\n    for m in net.modules():\n        if isinstance(m, (nn.Conv2d, nn.Linear)):\n            m.weight.view(-1)[0] = 1.0\n"
    _, ledger = converted(tmp_path, source)
    assert "torch.nn.Linear.weight" in [each.name for each in ledger.places if each.fate is Fate.BY_HAND]


def test_a_number_beside_a_mask_is_no_call(tmp_path):
    text, _ = converted(tmp_path, "def f(x, mask):\n    x = x.masked_fill(~mask, 0.0)\n    return x * 2, mask * 2, x * x\n")
    assert "return x * 2, mask * 2, x * x" in text


def test_a_part_of_what_a_dictionary_holds_is_by_hand(tmp_path):
    source = "def f(names):\n    kept = {k: torch.arange(6.0).reshape(2, 3) for k in names}\n    for k in names:\n        kept[k][0].mul_(2)\n    return kept\n"
    _, ledger = converted(tmp_path, source)
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.Tensor.mul_"]


@pytest.mark.paddle
def test_a_state_of_other_sizes_raises_where_names_may_be_missing(tmp_path):
    converted(tmp_path, "layer = nn.Linear(2, 3)\nlayer.load_state_dict({'weight': torch.ones(4, 2)}, strict=False)\n")
    ended = subprocess.run([sys.executable, str(tmp_path / "out.py")], capture_output=True, text=True, check=False)
    assert "size mismatch for ['weight']" in ended.stderr
