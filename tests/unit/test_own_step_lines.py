"""The line of a training step that is named where no expression of it is known to be wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.locate.provenance.programs import own_steps
from paralign.locate.provenance.search.blamed import Blamed, Order
from paralign.model import Finding, StageResult
from paralign.report.language import say, speaking
from paralign.stages.backward.own_step_causes import _line_with, divergence_at, trace

STEP = '''
def clip_each(parameters, most):
    """Each gradient by its own norm: clip them one by one."""
    library.clip_grad_norm_(parameters, most)  # HELPER


def parameters_of(model):
    return model.parameters()  # biases are not clipped


def train_step(model, optimizer, batch):
    """One step: forward, backward, clip."""
    value = model(batch)
    value.backward()
    {clips}  # CALL
    optimizer.step()
'''


def line(tmp_path, clips, *words):
    (tmp_path / "port.py").write_text(STEP.format(clips=clips))
    lines = (tmp_path / "port.py").read_text().splitlines()
    found = _line_with(f"{tmp_path / 'port.py'}:{lines.index('def train_step(model, optimizer, batch):') + 1}", words)
    return None if found is None else lines[int(found.rpartition(":")[2]) - 1].rpartition("# ")[2]


@pytest.mark.parametrize(
    ("clips", "where"),
    [
        ("library.clip_grad_norm_(model.parameters(), 1.0)", "CALL"),
        ("clip_each(model.parameters(), 0.1)", "HELPER"),
        ("other.clip_each(model.parameters())", "CALL"),
        ("train_step.clip(model)", "CALL"),
        ("clip_grad_norm_(parameters_of(model), 1.0)", "CALL"),
    ],
    ids=["library", "helper", "another module", "attribute", "helper of an argument"],
)
def test_the_line_is_that_of_the_helper_that_does_it(tmp_path, clips, where):
    assert line(tmp_path, clips, "clip") == where


def test_words_that_no_statement_has_name_nothing(tmp_path):
    assert line(tmp_path, "pass", "clip") is None, "what only a docstring says is no step"


def test_what_is_no_program_names_nothing(tmp_path):
    (tmp_path / "odd.py").write_text("def broken(:\n")
    assert _line_with(f"{tmp_path / 'odd.py'}:1", ("clip",)) is None
    assert _line_with(f"{tmp_path / 'absent.py'}:1", ("clip",)) is None
    assert _line_with(None, ("clip",)) is None


HANDED_ON = """
def train_step(model, optimizer, batch):
    return recipe.update(model, optimizer, batch)


def update(model, optimizer, batch):
    value = model(batch)
    value.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("word", "line"), [("backward(", 8), ("clip", 9)], ids=["where the update is called", "nowhere"])
def test_a_step_that_hands_on_to_a_function_is_read_there(tmp_path, word, line):
    path = tmp_path / "port.py"
    path.write_text(HANDED_ON)
    answer = SimpleNamespace(defined=f"{path}:2", line=f"{path}:9", optimizer=None)
    found = divergence_at(SimpleNamespace(answers=(answer, answer)), None, word)
    assert (found.reference.source, found.candidate.source) == (f"{path}:{line}",) * 2


@pytest.mark.parametrize(
    ("known", "cause", "left"),
    [
        ({}, "makes something else than the reference's", ["proven"]),
        ({"note": "this decides"}, "makes something else than the reference's", ["proven"]),
        ({"order": Order.BEFORE_UPDATE, "is_same_work": True}, "the same things in another order", ["proven"]),
        *(({"order": order}, f"{order.value} where the reference", ["open", "proven"]) for order in Order),
    ],
)
def test_another_order_is_said_of_what_is_the_same_alone(monkeypatch, known, cause, left):
    monkeypatch.setattr(own_steps, "follow", lambda *_: Blamed(None, **known))
    steps = SimpleNamespace(context=SimpleNamespace(settings=SimpleNamespace(steps=1)), given={})
    part = StageResult("backward", findings=[Finding("open", "", ""), Finding("proven", "", "", proven=True)])
    trace(part, steps)
    assert cause in part.findings[0].cause
    assert [each.rule for each in part.findings[1:]] == left
    with speaking("zh"):
        assert say(part.findings[0].cause) != part.findings[0].cause
        fix = part.findings[0].fix
        assert not fix or say(fix) != fix
