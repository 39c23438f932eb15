"""Results of single units: read as they were written, sharing what they shared; damaged ones are none."""

import json
import math

import pytest

from paralign.model import DIVERGED, Divergence, Noise, Pair, Point, Record, StageResult, Stats, Unjudged
from paralign.streaming import kept_unit
from paralign.weights.plan import Move, Plan


def outcome():
    record = Record(0, "output", "forward", "output", "float32", (2, 3), location=("a", "b"), attrs={"made": [1], "at": (1, 2)})
    pair = Pair("output", record, None, stats=Stats(2, max_abs=math.inf), noise=Noise(1e-7, "x"), verdict=DIVERGED, unjudged=Unjudged.DRAWN)
    found = Divergence(None, Point("fc", arguments={"eps": 1e-5}), pair)
    stage = StageResult("forward", DIVERGED, pairs=[pair], divergence=found, divergences=[found])
    plan = Plan([Move(record, record, "transpose", "name")])
    return [[stage], {"python": "3.11"}, plan, None, True]


def test_what_is_read_is_what_was_written(tmp_path):
    written = outcome()
    kept_unit.write(tmp_path, "key", written)
    found = kept_unit.read(tmp_path, "key")
    assert found == written
    stage = found[0][0]
    assert stage.divergence is stage.divergences[0]
    assert stage.divergence.pair is stage.pairs[0]
    assert kept_unit.read(tmp_path, "another key") is None
    kept_unit.forget(tmp_path)
    assert kept_unit.read(tmp_path, "key") is None


def test_what_such_a_file_cannot_hold_is_not_kept(tmp_path):
    kept_unit.write(tmp_path, "key", [object()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"\xff", b"[" * 99999,
        {"objects": [], "content": {"object": 3}},
        {"objects": [["Popen", {"args": "ls"}]], "content": {"object": 0}},
        {"objects": [["Noise", {"value": 1.0}]], "content": {"object": 0}},
        {"objects": [], "content": {"enum": ["Unjudged", "NOTHING"]}},
        {"objects": [], "content": {"call": ["print"]}},
    ],
)  # fmt: skip
def test_a_damaged_file_is_none(tmp_path, content):
    data = content if isinstance(content, bytes) else json.dumps({"key": "key", **content}).encode()
    (tmp_path / "unit.json").write_bytes(data)
    assert kept_unit.read(tmp_path, "key") is None
