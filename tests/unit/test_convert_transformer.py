"""Layers that stand in the file as PyTorch defines them: the same weights give the same outputs and gradients on both sides."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

LAYERS = """import torch
from torch import nn


def layers():
    return {
        "encoder layer": nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu"),
        "encoder layer, batch first": nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True),
        "encoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, bias=False), 2, norm=nn.LayerNorm(8)),
        "decoder layer": nn.TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True),
        "decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), num_layers=2),
        "both": nn.Transformer(8, 2, 1, 2, 16, 0.0, layer_norm_eps=1e-3),
    }


def later(size):
    return nn.Transformer.generate_square_subsequent_mask(size)
"""

COMPARED = """import numpy as np
import paddle
import torch

import port
import source

draw = np.random.default_rng(0)
x, memory = (draw.standard_normal((3, 3, 8)).astype("float32") for _ in range(2))
hidden = np.array([[False, True, True], [False, False, True], [False, False, False]])
padded = np.array([[False, False, True], [False, False, False], [False, True, False]])
theirs, ours = source.layers(), port.layers()
for name, layer in theirs.items():
    layer.train()  # PyTorch's short cut of eval mode gives zeros at padded positions
    state, other = dict(layer.named_parameters()), dict(ours[name].named_parameters())
    assert sorted(state) == sorted(other), name
    for key, value in state.items():
        numbers = draw.standard_normal(tuple(value.shape)).astype("float32") * 0.5
        value.data = torch.tensor(numbers)
        turned = numbers.T if key.split(".")[-2].startswith("linear") and numbers.ndim > 1 else numbers
        other[key].set_value(paddle.to_tensor(turned))
    for mask, padding in ((None, None), (hidden, None), (None, padded), (hidden, padded), (np.where(hidden, -2.0, 0.5).astype("float32"), None)):
        results = []
        for made, tensor in ((layer, torch.tensor), (ours[name], paddle.to_tensor)):
            given = {"decoder": {"tgt_mask": mask, "memory_key_padding_mask": padding}, "both": {"tgt_mask": mask, "src_key_padding_mask": padding}}
            own = given.get(name.split(" ")[0], {"mask" if name == "encoder" else "src_mask": mask, "src_key_padding_mask": padding})
            inputs = [tensor(x)] if "encoder" in name else [tensor(x), tensor(memory)]
            result = made(*inputs, **{key: value if value is None else tensor(value) for key, value in own.items()})
            results.append(result)
            (result * result).sum().backward()
        apart = np.abs(results[0].detach().numpy() - results[1].numpy()).max()
        print(name, mask is None, padding is None, "same" if apart < 2e-5 else apart)
    first = next(key for key in state if state[key].ndim == 1)
    apart = np.abs(state[first].grad.numpy() - other[first].grad.numpy()).max() / np.abs(state[first].grad.numpy()).max()
    print(name, "gradient", "same" if apart < 1e-4 else apart)
print("same" if (source.later(4).numpy() == port.later(4).numpy()).all() else "another mask")
try:
    ours["encoder layer"](paddle.to_tensor(x), is_causal=True)
except RuntimeError as error:
    print("same" if "is_causal" in str(error) else error)
"""


def run(tmp_path, text):
    return subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)


def convert(tmp_path, text):
    (tmp_path / "source.py").write_text(text, encoding="utf-8")
    return convert_code(tmp_path / "source.py", tmp_path / "port.py")


def test_transformers_with_the_same_weights_give_the_same(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    ledger = convert(tmp_path, LAYERS)
    assert not ledger.left
    assert Fate.CONDITION in {place.fate for place in ledger.places}  # rows that are masked as a whole
    done = run(tmp_path, COMPARED)
    lines = done.stdout.splitlines()
    assert len(lines) == 6 * 6 + 2, done.stdout + done.stderr
    assert [line for line in lines if not line.endswith("same")] == []


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(layer, nn.LazyLinear)",  # one class stands for several in the file
        "issubclass(layer, nn.TransformerEncoderLayer)",
        "type(layer) is nn.Transformer",
    ],
)
def test_what_such_a_class_is_asked_for_is_left_by_hand(tmp_path, text):
    assert convert(tmp_path, f"from torch import nn\n\n\ndef asked(layer):\n    return {text}\n").left


LAZY = """import torch
from torch import nn

net = nn.Sequential(nn.LazyBatchNorm1d(momentum=0.5), nn.ReLU(), nn.LazyInstanceNorm1d(affine=True, track_running_stats=True))
x = torch.arange(24.0).reshape(2, 3, 4) % 7
{before}
for _ in range(2):
    net(x)
net.eval()
print([round(each, 4) for each in net(x).flatten().tolist()], len(list(net.parameters())))
"""


def test_lazy_layers_are_made_at_the_first_call(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    assert not convert(tmp_path, LAZY.replace("{before}", "")).left
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True) for name in ("source.py", "port.py")
    ]
    assert given[0].stdout == given[1].stdout


@pytest.mark.parametrize("before", ["net.state_dict()", "net.load_state_dict({})"])
def test_the_state_of_a_lazy_layer_raises_before_the_first_call(tmp_path, before):
    pytest.importorskip("paddle")
    assert not convert(tmp_path, LAZY.replace("{before}", before)).left
    done = run(tmp_path, "import port")
    assert "no state before its first call" in done.stderr


TRAINED_LAZY = """import torch
from torch import nn

net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Tanh(), nn.Linear(4, 1))
sent = nn.LazyConv1d(4, 2, groups=2)
optimizer = torch.optim.{optimizer}([*net.parameters(), *sent.parameters()], lr=0.1)
x = torch.arange(6.0).reshape(3, 2) / 5
net(x), sent(torch.ones(1, 2, 5))
for each in [*net.parameters(), *sent.parameters()]:
    nn.init.constant_(each, 0.3)
for _ in range(3):
    optimizer.zero_grad()
    (net(x) - 1).pow(2).sum().backward()
    sent(torch.arange(10.0).reshape(1, 2, 5)).sum().backward()
    optimizer.step()
print([[round(one, 4) for one in sent(torch.ones(1, 2, 5)).flatten().tolist()], round(net[-1].bias.item(), 4), round(net[0].bias.shape[0])])
"""


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_an_optimizer_made_before_a_lazy_layers_first_call_trains_it(tmp_path, optimizer):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    assert not convert(tmp_path, TRAINED_LAZY.replace("{optimizer}", optimizer)).left
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True) for name in ("source.py", "port.py")
    ]
    assert given[0].stdout == given[1].stdout


REFUSED = {
    "torch.linalg.cholesky_ex(-torch.eye(3))": "not successful",
    "torch.linalg.inv_ex(torch.ones(3, 3))": "not invertible",
    "torch.linalg.lu_factor_ex(torch.ones(3, 3))": "cannot be factored",
    "torch.ones(4).resize_(5)": "resize_ of 4 to 5",
    "torch.autograd.functional.hessian(lambda a: a, torch.ones(2))": "a single element",
    "torch.autograd.functional.jvp(lambda a: a, torch.ones(2))": "can only be None",
    "torch.distributions.ReshapeTransform((2, 3), (4,))": "different numbers",
    "torch.distributions.IndependentTransform(torch.distributions.ExpTransform(), 2)(torch.ones(2))": "Too few dimensions",
    "torch.nn.init.dirac_(torch.empty(3, 3))": "Only tensors",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_has_no_counterpart_raises_when_it_runs(tmp_path, call):
    pytest.importorskip("paddle")
    ledger = convert(tmp_path, f"import torch\n\nprint({call})\n")
    assert not ledger.left
    assert REFUSED[call] in run(tmp_path, "import port").stderr


@pytest.mark.parametrize(
    "call",
    [
        "torch.autograd.functional.hessian(sum, x, strict=True)",
        "torch.autograd.backward(x, create_graph=True)",
        "torch.bernoulli(x, generator=g)",
    ],
)
def test_an_argument_that_nobody_executed_is_left_by_hand(tmp_path, call):
    text = (
        f"import torch\nimport torch.nn.functional as F\n\ng, x = torch.Generator(), torch.ones(2)\n\n\ndef f(x, g):\n    return {call}\n"
    )
    assert any(place.line > 6 and place.fate is Fate.BY_HAND for place in convert(tmp_path, text).places)


def test_no_generator_is_none(tmp_path):
    ledger = convert(tmp_path, "import torch\n\nx = torch.bernoulli(torch.ones(2), generator=None)\ny = x.exponential_(generator=None)\n")
    assert not ledger.left
    assert "generator" not in (tmp_path / "port.py").read_text()


def test_a_softmax_with_an_axis_keeps_its_form(tmp_path):
    convert(tmp_path, "import torch.nn.functional as F\n\n\ndef f(x):\n    return F.softmax(x, dim=1), F.softmax(x)\n")
    text = (tmp_path / "port.py").read_text()
    assert "return F.softmax(x, axis=1), _old_softmax(x, " in text.replace("dim=1", "axis=1")
