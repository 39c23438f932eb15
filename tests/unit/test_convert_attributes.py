"""Attributes of layers, asked and set by PyTorch's names, and names of PyTorch asked for by a text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"

#: a layer of each class that both frameworks have
LAYERS = """
nn.Conv1d(3, 4, 3, 2, 1)
nn.Conv2d(3, 6, 3, 2, (1, 2), 1, 3)
nn.Conv2d(3, 6, 3, padding='same')
nn.Conv2d(2, 2, 3, padding=1, padding_mode='reflect')
nn.Conv3d(3, 6, 3, 2, (1, 2, 1), 1, 3)
nn.ConvTranspose1d(3, 4, 3, 2, 1, 1)
nn.ConvTranspose2d(3, 4, 3, 2, 1, (1, 0))
nn.ConvTranspose3d(3, 4, 3, 2, 1, 1)
nn.BatchNorm1d(4)
nn.BatchNorm2d(4, 1e-3, 0.3)
nn.BatchNorm2d(4, affine=False)
nn.BatchNorm3d(4)
nn.InstanceNorm2d(4, affine=True)
nn.InstanceNorm1d(4)
nn.GroupNorm(2, 4)
nn.GroupNorm(2, 4, affine=False)
nn.LayerNorm(4)
nn.LayerNorm([2, 4], elementwise_affine=False)
nn.RMSNorm(4, 1e-3)
nn.LocalResponseNorm(3)
nn.Embedding(5, 3, padding_idx=1)
nn.Embedding(5, 3)
nn.EmbeddingBag(5, 3, mode='sum')
nn.Linear(3, 4)
nn.Bilinear(3, 4, 5)
nn.Dropout(0.3)
nn.Dropout2d(0.3)
nn.Dropout3d(0.3)
nn.AlphaDropout(0.3)
nn.LSTM(3, 4, 2, batch_first=True, dropout=0.1, bidirectional=True)
nn.GRU(3, 4)
nn.RNN(3, 4, nonlinearity='relu')
nn.LSTMCell(3, 4)
nn.GRUCell(3, 4)
nn.RNNCell(3, 4)
nn.MultiheadAttention(8, 2, 0.1)
nn.TransformerEncoderLayer(8, 2, 16)
nn.TransformerDecoderLayer(8, 2, 16)
nn.MaxPool1d(3, 2, 1)
nn.MaxPool2d(3, 2, 1)
nn.MaxPool2d(2)
nn.MaxPool3d((1, 2, 2))
nn.AvgPool1d(3, 2, 1)
nn.AvgPool1d(2)
nn.AvgPool2d(3, 2, 1)
nn.AvgPool2d(2)
nn.AvgPool3d(2)
nn.AdaptiveAvgPool1d(2)
nn.AdaptiveAvgPool2d((2, 3))
nn.AdaptiveAvgPool3d(2)
nn.AdaptiveMaxPool2d(2)
nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
nn.Upsample(size=(4, 4))
nn.PixelShuffle(2)
nn.PixelUnshuffle(2)
nn.ChannelShuffle(2)
nn.ReLU()
nn.ReLU6()
nn.LeakyReLU(0.2)
nn.ELU(0.5)
nn.CELU(0.5)
nn.PReLU(3)
nn.GELU('tanh')
nn.GELU()
nn.Softmax(-1)
nn.LogSoftmax(1)
nn.Softplus(2, 10)
nn.Hardtanh(-2, 2)
nn.Threshold(0.5, 0.1)
nn.Hardshrink(0.3)
nn.Softshrink(0.3)
nn.GLU(1)
nn.Flatten(1, 2)
nn.Unflatten(1, (2, 2))
nn.Fold(4, 2)
nn.Unfold(2, 1, 0, 2)
nn.ZeroPad2d(2)
nn.ReflectionPad2d(1)
nn.ReplicationPad1d(1)
nn.ConstantPad1d(1, 2.0)
nn.CosineSimilarity(1, 1e-6)
nn.PairwiseDistance(2)
nn.CrossEntropyLoss(ignore_index=3, label_smoothing=0.1)
nn.MSELoss()
nn.BCELoss()
nn.BCEWithLogitsLoss(reduction='sum')
nn.SmoothL1Loss(beta=0.5)
nn.TripletMarginLoss(0.5)
nn.CTCLoss(2)
nn.NLLLoss()
nn.KLDivLoss(reduction='batchmean')
nn.L1Loss()
nn.HuberLoss(delta=0.4)
nn.MarginRankingLoss(0.1)
nn.HingeEmbeddingLoss(0.3)
nn.CosineEmbeddingLoss(0.3)
nn.Identity()
"""

#: attributes that hold a function, a parameter or a module
_NO_SETTINGS = frozenset({"activation", "activation_relu_or_gelu", "name", "training"})

#: what Paddle keeps under the same name in another type, equal in Python or false in both
_ALIKE = {("Upsample", "scale_factor"), ("Upsample", "align_corners")}

SHOW = """
def show(label, ask):
    try:
        print(label, repr(ask()), sep="|")
    except (AttributeError, NotImplementedError):
        print(label, "raises", sep="|")


"""


def settings() -> list[tuple[str, str]]:
    """Each layer of the table as it is made, with the name of each of its settings."""
    nn = pytest.importorskip("torch").nn
    made = [(each, eval(each, {"nn": nn})) for each in LAYERS.split("\n") if each]
    return [(text, name) for text, layer in made for name in vars(layer) if name[:1] != "_" and name not in _NO_SETTINGS]


def printed(path) -> list[str]:
    done = subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def both(tmp_path, program):
    (tmp_path / "given.py").write_text(HEAD + program, encoding="utf-8")
    ledger = convert_code(tmp_path / "given.py", tmp_path / "port.py")
    return printed(tmp_path / "given.py"), printed(tmp_path / "port.py"), ledger


@pytest.mark.paddle
def test_every_setting_of_a_known_layer_is_right_or_by_hand(tmp_path):
    pytest.importorskip("paddle")
    asked = settings()
    layers = sorted({text for text, _ in asked})
    lines = [f"layer_{at} = {text}\n" for at, text in enumerate(layers)]
    lines += [f"show({f'{text}.{name}'!r}, lambda: layer_{layers.index(text)}.{name})\n" for text, name in asked]
    first, second, ledger = both(tmp_path, SHOW + "".join(lines))
    raising = {line.split("|")[0] for line in second if line.endswith("|raises")}
    text = (HEAD + SHOW + "".join(lines)).splitlines()
    by_hand = {text[each.line - 1].split(", lambda")[0].removeprefix("show(") for each in ledger.places if each.fate is Fate.BY_HAND}
    assert [line for line in second if line.split("|")[0] not in raising] == [line for line in first if line.split("|")[0] not in raising]
    assert not any(line.endswith("|raises") for line in first)
    assert {repr(label) for label in raising} == by_hand
    assert len(raising) < len(first) / 6


@pytest.mark.paddle
def test_every_setting_of_a_layer_of_unknown_class_is_right_or_raises(tmp_path):
    pytest.importorskip("paddle")
    asked = settings()
    names = sorted({name for _, name in asked})
    lines = [f"def ask_{name}(layer):\n    return layer.{name}\n\n\n" for name in names]
    lines += [f"show({f'{text}.{name}'!r}, lambda: ask_{name}({text}))\n" for text, name in asked]
    first, second, _ = both(tmp_path, SHOW + "".join(lines))
    other = [(one, two) for one, two in zip(first, second, strict=True) if one != two and not two.endswith("|raises")]
    assert {(one.split("(")[0].removeprefix("nn."), one.split("|")[0].rpartition(".")[2]) for one, _ in other} <= _ALIKE
    common = {
        "padding",
        "stride",
        "dilation",
        "groups",
        "kernel_size",
        "in_channels",
        "eps",
        "momentum",
        "num_features",
        "normalized_shape",
    }
    common |= {"num_embeddings", "in_features", "p", "hidden_size", "num_layers", "batch_first", "bidirectional", "track_running_stats"}
    raising = {line.split("|")[0].rpartition(".")[2] for line in second if line.endswith("|raises")}
    assert raising & common <= {"dilation"}  # of pools, which have none in Paddle


SET = """
x = torch.linspace(-1, 1, 32).reshape(2, 2, 2, 4)
norm = nn.BatchNorm2d(2, affine=False)
norm.momentum = 0.5
norm.eps = 0.1
print([round(v, 4) for v in norm(x).flatten().tolist()[:6]], [round(v, 4) for v in norm.running_mean.tolist()], norm.momentum, norm.eps)
for pool in (nn.MaxPool2d(3), nn.AvgPool2d(3)):
    pool.kernel_size = pool.stride = 2
    print(tuple(pool(x).shape[2:]), pool.kernel_size, [round(v, 4) for v in pool(x).flatten().tolist()])

unfold = nn.Unfold(1)
unfold.kernel_size = 2
print(tuple(unfold(x).shape))
"""


@pytest.mark.paddle
def test_settings_that_are_changed_later_take_effect(tmp_path):
    pytest.importorskip("paddle")
    first, second, _ = both(tmp_path, SET)
    assert first == second


@pytest.mark.paddle
@pytest.mark.parametrize(
    "change", ["nn.BatchNorm1d(2).track_running_stats = False", "nn.LSTM(2, 3).batch_first = True", "nn.Conv1d(2, 2, 3).padding = 1"]
)
def test_a_setting_that_paddle_cannot_change_raises(tmp_path, change):
    pytest.importorskip("paddle")
    program = f"try:\n    {change}\n    print('set')\nexcept NotImplementedError:\n    print('raises')\n"
    first, second, _ = both(tmp_path, program)
    assert (first, second) == (["set"], ["raises"])


@pytest.mark.paddle
def test_an_object_of_the_programs_own_is_asked_by_its_own_names(tmp_path):
    pytest.importorskip("paddle")
    program = """
class Own:
    def __init__(self):
        self._padding, self._stride, self.track_running_stats = 1, 2, True


def ask(own):
    return getattr(own, "padding", None), hasattr(own, "stride"), own.track_running_stats


own = Own()
own.track_running_stats = False
print(ask(own))
"""
    first, second, _ = both(tmp_path, program)
    assert first == second == ["(None, False, False)"]


BY_TEXT = """
net = nn.Linear(2, 2)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    net.bias.zero_()


def step(optimizer):
    optimizer.zero_grad()
    net(torch.ones(1, 2)).pow(2).sum().backward()
    optimizer.step()
    print([round(v, 4) for v in net.weight.flatten().tolist()])


step(getattr(torch.optim, "Adagrad")(net.parameters(), lr=0.1))
step(getattr(torch.optim, "SGD")(net.parameters(), lr=0.1, momentum=0.9))
made = getattr(torch.optim, 'RMSprop')
step(made(net.parameters(), lr=0.01))
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
print(getattr(F, "relu")(x - 2).tolist(), getattr(nn, "GELU")()(torch.zeros(1)).tolist(), getattr(torch, "float32") == torch.float32)
print(getattr(torch, "cat")([x, x], dim=1).tolist(), getattr(torch, "max")(x, 1)[0].tolist(), getattr(getattr(torch, "nn"), "Tanh")()(x[:1] * 0).tolist())
schedule = getattr(torch.optim.lr_scheduler, "StepLR")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
steps = schedule(optimizer, 1, 0.5)
optimizer.step()
steps.step()
print(optimizer.param_groups[0]["lr"])
"""


@pytest.mark.paddle
def test_a_name_that_is_asked_for_by_a_text_is_that_name(tmp_path):
    pytest.importorskip("paddle")
    first, second, ledger = both(tmp_path, BY_TEXT)
    assert first == second
    assert not [each for each in ledger.places if each.fate is Fate.BY_HAND]


@pytest.mark.parametrize(
    "program",
    [
        "def f(nn):\n    return getattr(nn, 'Linear')\n",  # an argument
        "def getattr(of, name):\n    return name\n\nprint(getattr(nn, 'Linear'))\n",  # no function of Python
        "print(getattr(settings, 'Linear'))\n",
    ],
)
def test_what_may_be_another_object_is_not_taken_for_a_module(tmp_path, program):
    (tmp_path / "given.py").write_text(HEAD + program, encoding="utf-8")
    convert_code(tmp_path / "given.py", tmp_path / "port.py")
    line = next(each for each in program.splitlines() if "Linear" in each)
    text = (tmp_path / "port.py").read_text(encoding="utf-8")
    assert line in text or "NotImplementedError" in text
