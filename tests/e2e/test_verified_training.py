"""The judge of ports that are trained: which operations are random in train mode is judged, although steps run without dropout."""

import importlib.util
from pathlib import Path

import pytest

from paralign.verification import Judgement, verify

PLACE = Path(__file__).parents[2] / "benchmarks" / "verification" / "training_cheats.py"


def ports():
    spec = importlib.util.spec_from_file_location("training_cheats", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


P = ports()


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize(
    ("text", "judgement", "said"),
    [
        (P.CHEATS["drops-more"], Judgement.REJECTED, "drops 0.6 of its input, the reference 0.1"),
        (P.CHEATS["drops-nothing"], Judgement.REJECTED, "the candidate has no random operation there"),
        (P.HONEST["own-mask"], Judgement.ACCEPTED, ""),
    ],
    ids=["drops-more", "drops-nothing", "own-mask"],
)
def test_what_is_random_in_train_mode_is_judged(tmp_path, text, judgement, said):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    (spec / "paralign.toml").write_text(P.SPEC)
    (spec / "reference.py").write_text(P.REFERENCE)
    (port / "port.py").write_text(text)
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is judgement, found.reasons
    assert said in " ".join(found.reasons)
