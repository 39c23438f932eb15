"""Values of a recorded run, asked for in a run that does other operations or makes other values."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Machine, drawn

from paralign.capture import Capture, CaptureWriter
from paralign.locate import described
from paralign.locate.laboratory import watched as watching
from paralign.locate.laboratory.recorded_values import fetch, repeated
from paralign.locate.laboratory.watched import Watched
from paralign.locate.runs.dataflow import Graph
from paralign.locate.suspects.patching import Patch
from paralign.model import Manifest
from paralign.run.recorder import Outdated
from paralign.worker.protocol import Operations, runs_of

X, P = {"x": drawn(1, 4, 6)}, {"w": drawn(2, 6, 5), "b": drawn(3, 5)}
RUN = "float64"
numbers = itertools.count()


class Whole:
    """A writer that keeps all values."""

    def __init__(self, writer):
        self._writer = writer

    def add(self, *arguments, **fields):
        return self._writer.add(*arguments, **{**fields, "keep": True})

    def __getattr__(self, name):
        return getattr(self._writer, name)


def program(m, filling=0, factor=1.0):
    """A model that does ``filling`` more operations before its own ones, as one that fills a cache does."""
    x = m.input()
    for _ in range(filling):
        m.scale(m.constant(drawn(9, 4, 5)), 2.0)
    h = m.linear(x, m.parameter("w"), m.parameter("b"))
    h = m.scale(h, factor)
    h = m.tanh(h)
    return h, m.mean(h)


def capture(folder, runs=(RUN,), whole=False, **options):
    path = folder / f"capture-{next(numbers)}"
    with CaptureWriter(path, Manifest(side="reference", stage="operations", settings={"answer": {"runs": list(runs)}})) as writer:
        for number, run in enumerate(runs):
            machine = Machine(Whole(writer) if whole else writer, run, X, P)
            again = {name: value[number] if isinstance(value, tuple) else value for name, value in options.items()}
            machine.finish(*program(machine, **again))
    return Capture.open(path)


def value_of(graph, op):
    return next(o for o in graph.operations if o.kind == op).outputs[0]


def expected():
    return np.tanh(X["x"] @ P["w"] + P["b"])


@pytest.mark.parametrize("filling", [0, 1, 3])
def test_a_value_is_known_by_what_it_holds_not_by_its_number(tmp_path, filling):
    """With one operation more before it, the number of tanh is that of the product by a factor: the same shape, another value."""
    wanted = value_of(Graph(capture(tmp_path), RUN), "tanh")
    asked = []

    def record(places):
        asked.append(places)
        return capture(tmp_path, whole=True, filling=filling)

    found = fetch([wanted], RUN, record)
    np.testing.assert_allclose(found[wanted].array, expected(), rtol=1e-12)
    assert asked[0] == [(wanted.maker.number, 0)]


def test_what_was_not_kept_is_asked_for_at_its_new_number(tmp_path):
    wanted, asked = value_of(Graph(capture(tmp_path), RUN), "tanh"), []

    def record(places):
        asked.append(places)
        return capture(tmp_path, whole=len(asked) > 1, filling=2)

    assert list(fetch([wanted], RUN, record)) == [wanted]
    assert asked == [[(wanted.maker.number, 0)], [(wanted.maker.number + 2, 0)]]


def test_another_value_is_not_taken_for_the_one_that_is_wanted(tmp_path):
    graph = Graph(capture(tmp_path), RUN)
    wanted, weight = value_of(graph, "tanh"), next(v for v in graph.values.values() if v.record.name == "w")
    found = fetch([wanted, weight], RUN, lambda _: capture(tmp_path, whole=True, factor=1.0001))
    assert list(found) == [weight]
    assert fetch([wanted], RUN, lambda _: capture(tmp_path, runs=("native",), whole=True)) == {}


def test_gradients_are_known_by_what_they_hold(tmp_path):
    wanted = value_of(Graph(capture(tmp_path), RUN), "tanh")
    found = fetch([wanted], RUN, lambda _: capture(tmp_path, whole=True, filling=1), gradients=True)
    np.testing.assert_allclose(found[wanted].array, np.full((4, 5), 1 / 20))
    other = fetch([wanted], RUN, lambda _: capture(tmp_path, whole=True, factor=2.0), gradients=True)
    assert other == {}


def test_passes_that_do_other_operations_have_noise_only_where_they_do_the_same(tmp_path):
    """The first pass fills a cache, the second does not: by numbers alone, noise would be that of other values."""
    both = capture(tmp_path, runs=(RUN, "native"), filling=(1, 0))
    first, second = Graph(both, RUN), Graph(both, "native")
    pairs = first.noise_of(second)
    for kind in ("tanh", "mean"):
        assert pairs[value_of(first, kind).record.id] is value_of(second, kind).record
    scaled = [o.outputs[0] for o in first.operations if o.kind == "multiply"]
    assert [v.record.id in pairs for v in scaled] == [False, True]


def test_a_run_repeats_another_up_to_what_was_changed_in_it(tmp_path):
    recorded, same = (Graph(capture(tmp_path), RUN) for _ in range(2))
    changed, longer = Graph(capture(tmp_path, factor=3.0), RUN), Graph(capture(tmp_path, filling=1), RUN)
    factor = next(o.number for o in recorded.operations if o.kind == "multiply")
    assert repeated(recorded, same, 99)
    assert repeated(recorded, changed, factor)
    assert not repeated(recorded, changed, factor + 1)
    assert not repeated(recorded, longer, factor)


def laboratory(tmp_path, reused=(), **changed):
    """Watched sides whose later runs differ from the recorded ones by ``changed``."""
    sides = [
        SimpleNamespace(side=name, reused=set(reused), folder=tmp_path, record=lambda *_: capture(tmp_path, whole=True, **changed))
        for name in ("reference", "candidate")
    ]
    context = SimpleNamespace(reference=sides[0], candidate=sides[1], plan=None)
    return Watched(context, Operations([]), {}, captures=(capture(tmp_path), capture(tmp_path)))


def test_a_reused_reference_that_computes_otherwise_now_is_outdated(tmp_path):
    watched = laboratory(tmp_path, reused={"operations"}, factor=1.5)
    value = value_of(watched.judgement().reference, "tanh")
    with pytest.raises(Outdated, match="the reference computes otherwise in a new process"):
        watched.values([value])
    with pytest.raises(Outdated):
        watched.gradients([value])


def test_a_reference_that_never_computes_the_same_twice_is_said_to(tmp_path):
    watched = laboratory(tmp_path, factor=1.5)
    value = value_of(watched.judgement().reference, "tanh")
    assert watched.remarks() == []
    assert watched.values([value]) == {}
    assert watched.remarks() == ["1 values could not be had again: the model does other operations, or makes other values, in each run"]


@pytest.mark.parametrize(("run", "is_told"), [("float64", True), ("native", False)])
def test_why_a_side_was_not_watched_in_float64_is_said(tmp_path, run, is_told):
    watched = laboratory(tmp_path)
    runs_of(watched.candidate).failed[run] = "E: no kernel"
    told = watched.remarks()
    assert bool(told) is is_told
    assert all(line.startswith("operations of the candidate could not be watched in float64: E: no kernel; ") for line in told)


def test_steps_without_lines_are_not_announced():
    guilt = SimpleNamespace(
        trial=SimpleNamespace(region=[SimpleNamespace(source=None)]), repair=None, relation="", confirmed=True, seen=True
    )
    guilt.repeats = []
    assert "by these" not in described._notes(guilt, described.Kind.REGION, None)[0]
    guilt.trial.region[0].source = "net.py:3"
    assert described._notes(guilt, described.Kind.REGION, None)[0].endswith(", by these: net.py:3")


def test_an_experiment_on_a_candidate_that_went_another_way_is_not_believed(tmp_path):
    def patch(watched):
        operation = value_of(watched.judgement().candidate, "tanh").maker
        return Patch(operation.number, 0, "tanh", (4, 5), laboratory(tmp_path).values([operation.outputs[0]])[operation.outputs[0]])

    same, other = laboratory(tmp_path), laboratory(tmp_path, factor=1.5)
    assert same.run([patch(same)]) is not None
    assert other.run([patch(other)]) is None
    assert other.backward([], [math.inf]) is None
    assert other.remarks() == ["2 experiments were not made: the candidate does other operations, or makes other values, in each run"]


def test_a_value_of_the_reference_is_fetched_once(tmp_path):
    watched = laboratory(tmp_path)
    asked = []
    record = watched.context.reference.record

    def count(*arguments):
        asked.append(arguments[1].watch.keep)
        return record(*arguments)

    watched.context.reference.record = count
    graph = watched.judgement().reference
    first, second = value_of(graph, "tanh"), value_of(graph, "mean")
    found = watched.values([first])
    again = watched.values([first, second])
    assert (len(asked), len(asked[1])) == (2, 1)
    assert np.array_equal(found[first].array, again[first].array)
    assert again.keys() == {first, second}
    assert watched.values([second, first]).keys() == {first, second}
    assert len(asked) == 2


def test_no_more_values_are_kept_than_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "KEPT", 0)
    watched = laboratory(tmp_path)
    value = value_of(watched.judgement().reference, "tanh")
    for _ in range(2):
        assert np.allclose(watched.values([value])[value].array, expected())
    assert watched._kept == {}
