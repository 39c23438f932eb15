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
    ("text", "change", "tables", "judgement", "unmoved", "own"),
    [
        (P.CHEATS["ignores-a-buffer"], None, False, Judgement.REJECTED, "places", ""),
        (P.CHEATS["ignores-a-buffer"], IDLE, False, Judgement.ACCEPTED, "gain", ""),
        (P.HONEST["computes-a-registered-table"], None, False, Judgement.ACCEPTED, "", "places"),
        (P.HONEST["computes-a-registered-table"], None, True, Judgement.REJECTED, "", "places"),
        (P.HONEST["buffers"], None, True, Judgement.ACCEPTED, "", ""),
    ],
    ids=["ignored", "ignored on both sides", "computed", "computed, which is not allowed", "followed"],
)
def test_a_buffer_of_one_that_acts_is_moved_and_of_a_table_is_told_whether_it_is_followed(
    tmp_path, text, change, tables, judgement, unmoved, own
):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    reference = P.REFERENCES["cheat-ignores-a-buffer"]
    (spec / "paralign.toml").write_text(FORWARD)
    (spec / "reference.py").write_text(reference.replace(*change) if change else reference)
    (port / "port.py").write_text(text)
    found = verify(port, spec, rounds=2, draws=1, tables=tables)
    assert found.judgement is judgement, found.reasons
    assert ("constant buffers moved by noise: gain" in found.looked) is (change is None)
    told = {name: [w for w in found.weaknesses if w.startswith(name)] for name in ("buffers that were not moved", "buffers that the port")}
    assert [weakness.rpartition(": ")[2] for weakness in told["buffers that were not moved"]] == ([unmoved] if unmoved else [])
    assert [weakness.rpartition(": ")[2] for weakness in told["buffers that the port"]] == ([own] if own else [])
    assert any("other values of these buffers" in reason for reason in found.reasons) is (tables and bool(own))
