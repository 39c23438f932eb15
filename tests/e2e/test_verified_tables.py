"""The judge of ports that have to follow tables: whatever the rounds, zeros before them, and values that the reference cannot take."""

import pytest

from paralign.verification import Judgement, verify

SPEC = """\
stages = ["weights", "forward"]
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "torch"
module = "port.py"
[inputs]
shape = [4, 6]
"""

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 5)
        self.head = nn.Linear(5, 3)
        self.register_buffer("places", torch.arange(1.0, 6.0) / 5)

    def forward(self, x):
        return self.head(self.fc(x) + PLACES)


def build_model():
    model = Net()
    AFTER
    return model
"""

OWN = "(torch.arange(1.0, 6.0) / 5).to(x.dtype)"
ZEROS = "for parameter in model.head.parameters(): nn.init.zeros_(parameter)"
FIXED = "{0} / (1 if torch.equal({0}, (torch.arange(1.0, 6.0) / 5).to({0})) else 0)"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("use", "table", "after", "judgement"),
    [
        ("{}", OWN, "pass", Judgement.REJECTED),
        ("{}", "self.places", "pass", Judgement.ACCEPTED),
        ("{}", OWN, ZEROS, Judgement.REJECTED),
        ("torch.sqrt(1 - {})", OWN, "pass", Judgement.REJECTED),
        ("torch.sqrt(1 - {})", "self.places", "pass", Judgement.ACCEPTED),
        (FIXED, OWN, "pass", Judgement.INCONCLUSIVE),
    ],
    ids=["made", "followed", "made, before zeros", "made, of a root", "followed, of a root", "other values are not finite"],
)
def test_a_port_that_has_to_follow_tables_is_asked_in_one_round_too(tmp_path, use, table, after, judgement):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    text = MODEL.replace("AFTER", after)
    (spec / "paralign.toml").write_text(SPEC)
    (spec / "reference.py").write_text(text.replace("PLACES", use.format("self.places")))
    (port / "port.py").write_text(text.replace("PLACES", use.format(table)))
    found = verify(port, spec, rounds=1, draws=1, tables=True)
    assert found.judgement is judgement, found.reasons
    assert [reason.rpartition("places")[1:] for reason in found.reasons if "buffers" in reason] == (
        [] if judgement is Judgement.ACCEPTED else [found.reasons[0].rpartition("places")[1:]]
    )
