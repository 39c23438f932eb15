"""Tasks and answers on the wire: what goes out comes back, and what is none is told by field. Runs under the oldest interpreter too."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass

import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.model import Manifest
from paralign.worker import protocol
from paralign.worker.protocol import (
    KINDS,
    Backward,
    Data,
    DataSeen,
    Evaluate,
    Forward,
    Job,
    Load,
    MalformedMessage,
    Passed,
    Redraw,
    Schedule,
    Stepped,
    Train,
)
from paralign.worker.protocol.messages import DONE, RankReply, Reply
from paralign.worker.protocol.wire import decode, encode, names_of


def over(value):
    """What another process reads."""
    return json.loads(json.dumps(encode(value)))


@pytest.mark.parametrize(
    "order",
    [
        Load(record=False),
        Forward(["native", "float64"], "full", repeat=True),
        Backward(["float64"], ["train"], 3, ahead=protocol.Ahead(10, by_update=False, patience=2.5), redraw=Redraw(use={"1": "draw 0"}, mirrored=[2])),
        Data("val", 2, 3, None, 60.0, limit=7),
        Schedule(0, by_update=True, patience=1.0, loader="train", epochs=2, otherwise=9),
        Train(seed=1, steps=None, moved=3, draws="use"),
        protocol.Operations(["native"], watch=protocol.Watch(keep=[(3, 0), (4, "written"), (-1, "weight")], undo=[5])),
        protocol.Update(["native"], "float64:eval", [(0, 1.0), (1, -0.5)]),
    ],
)  # fmt: skip
def test_a_task_comes_out_as_it_went_in(order):
    job = decode(Job, over(Job.of(order, "/somewhere", {"inputs": "/there"}, {"key": "k"})), "job")
    assert job.order == order
    assert (job.capture, job.values, job.settings) == ("/somewhere", {"inputs": "/there"}, {"key": "k"})


def test_answers_come_out_as_they_went_in():
    followed = protocol.Followed(scheduled=True, built=None, class_="StepDecay", metric=False, made_up=False, resumed=4)
    answer = Stepped(["float64:eval"], {}, {}, {"float64:train": [(3, 3)]}, followed)
    assert over(answer)["schedule"]["class"] == "StepDecay"
    assert decode(Stepped, over(answer), "answer") == answer
    seen = DataSeen(
        dataset=True, whole=protocol.ReadThrough(5, {"3": "KeyError: 'x'"}, 5), facts={"0": {"dtypes": {"uint8": 5}}}, rows=None
    )
    assert decode(DataSeen, over(seen), "answer") == seen
    reply = RankReply(Reply(DONE), 12.5, "save(model, folder)")
    assert decode(RankReply, over(reply), "reply") == reply


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("forwards", {}, "there is no task 'forwards'"),
        ("forward", {}, "the field 'runs' is missing"),
        ("forward", {"runs": ["native"], "module": "full"}, "there is no field 'module'"),
        ("forward", {"runs": "native"}, "'runs' must be a list, not 'native'"),
        ("forward", {"runs": [1]}, r"'runs\[0\]' must be a text, not 1"),
        ("forward", {"runs": [], "repeat": 1}, "'repeat' must be true or false, not 1"),
        ("initial", {"seeds": True, "first": 0, "patience": 1}, "'seeds' must be a whole number, not True"),
        ("initial", {"seeds": 3, "first": 0, "patience": "1"}, "'patience' must be a number, not '1'"),
        ("update", {"runs": [], "given": "r", "steps": [[0]]}, r"'steps\[0\]' must be a list of 2, not \[0\]"),
        ("backward", {"runs": [], "modes": [], "steps": 1, "ahead": {"count": 1}}, "the field 'by_update' is missing"),
        ("backward", {"runs": [], "modes": [], "steps": 1, "redraw": {"use": ["a"]}}, r"'use' must be an object, not \['a'\]"),
        ("weights", [], "the message must be an object"),
    ],
)  # fmt: skip
def test_what_is_no_task_is_told_by_its_field(task, options, told):
    with pytest.raises(MalformedMessage, match=told) as caught:
        _ = Job(task, "/somewhere", options).order
    assert caught.value.hint


def test_a_capture_tells_the_answer_of_its_task_once_and_of_no_other(tmp_path):
    with CaptureWriter(tmp_path / "c", Manifest(stage="forward")) as writer:
        writer.manifest.settings["answer"] = encode(Passed(["native"], {"float64": "no kernel"}, 0.5))
    capture = Capture.open(tmp_path / "c")
    answer = Forward.answer(capture)
    assert answer == Passed(["native"], {"float64": "no kernel"}, 0.5)
    assert Forward.answer(capture) is answer is protocol.runs_of(capture)
    with pytest.raises(MalformedMessage, match="there is no field 'runs'"):
        Evaluate.answer(Capture.open(tmp_path / "c"))


def test_every_task_and_answer_is_made_of_what_json_can_hold():
    for kind in KINDS.values():
        assert is_dataclass(kind)
        assert is_dataclass(kind.answers)
        assert len(names_of(kind)) == len(fields(kind))
        names_of(kind.answers)
