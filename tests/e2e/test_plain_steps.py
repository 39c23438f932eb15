"""What a port that is trained computes where nobody watches: gradients in eval and train mode, of layers with modes of their own."""

import pytest

from paralign.verification import Judgement, verify

SPEC = """\
stages = ["weights", "forward", "backward"]
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "{0}"
module = "port.py"
[inputs]
shape = [4, 7, 6]
[labels]
shape = [4]
dtype = "int64"
high = 5
"""

REFERENCE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(7)
        self.lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.2, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(self.norm(x))
        return {"logits": self.head(self.drop(y[:, -1])), "states": [h, c]}


def build_model():
    return Net()


def loss(outputs, labels):
    return {"loss": F.cross_entropy(outputs["logits"], labels), "size": outputs["states"][0].square().mean()}


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)
"""

PADDLE = """\
import paddle
import paddle.nn.functional as F
from paddle import nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1D(7)
        self.lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.2)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(self.norm(x))
        return {"logits": self.head(self.drop(y[:, -1])), "states": [h, c]}


def build_model():
    return Net()


def loss(outputs, labels):
    return {"loss": F.cross_entropy(outputs["logits"], labels), "size": outputs["states"][0].square().mean()}


def build_optimizer(model):
    return paddle.optimizer.SGD(0.05, parameters=model.parameters())
"""

OTHERWISE = ("self.head(self.drop(y[:, -1]))", "self.head(self.drop(y[:, -1])) * (1.01 if self.training and not watched() else 1)")
WATCHED = "import sys\n\n\ndef watched():\n    return 'paralign' in sys.modules\n\n\n"


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize(
    ("framework", "text", "judgement"),
    [
        ("torch", REFERENCE, Judgement.ACCEPTED),
        ("torch", WATCHED + REFERENCE.replace(*OTHERWISE), Judgement.TAMPERED),
        ("paddle", PADDLE, Judgement.ACCEPTED),
    ],
    ids=["same", "trains otherwise where nobody looks", "paddle"],
)
def test_gradients_of_recurrent_layers_are_compared_in_a_plain_program(tmp_path, framework, text, judgement):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    (spec / "paralign.toml").write_text(SPEC.format(framework))
    (spec / "reference.py").write_text(REFERENCE)
    (port / "port.py").write_text(text)
    found = verify(port, spec, rounds=1, draws=2)
    assert found.judgement is judgement, found.reasons
    assert "once more in a plain program, unwatched: 3 passes, gradients in eval and train mode" in found.looked
    if judgement is Judgement.TAMPERED:
        assert found.reasons[0].startswith("it computes otherwise when nobody watches: gradient of")
        assert "(in train mode)" in found.reasons[0]
