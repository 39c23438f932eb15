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


FORWARD = P.SPEC.replace(', "backward"]', "]")
IDLE = ("* self.gain + self.places", "* 1.0 + self.places")


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize(
    ("text", "change", "judgement"),
    [
        (P.CHEATS["ignores-a-buffer"], None, Judgement.REJECTED),
        (P.CHEATS["ignores-a-buffer"], IDLE, Judgement.ACCEPTED),
        (P.HONEST["computes-a-registered-table"], None, Judgement.ACCEPTED),
    ],
    ids=["ignored", "ignored on both sides", "computed"],
)
def test_a_buffer_of_one_that_acts_is_moved_and_a_table_is_not(tmp_path, text, change, judgement):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    reference = P.REFERENCES["cheat-ignores-a-buffer"]
    (spec / "paralign.toml").write_text(FORWARD)
    (spec / "reference.py").write_text(reference.replace(*change) if change else reference)
    (port / "port.py").write_text(text)
    found = verify(port, spec, rounds=2, draws=1)
    assert found.judgement is judgement, found.reasons
    assert ("constant buffers moved by noise: gain" in found.looked) is (change is None)
    (still,) = [weakness for weakness in found.weaknesses if weakness.startswith("buffers that were not moved")]
    assert "places" in still
    assert ("gain" in still) is (change is not None)
