"""Captures recorded once, reused while nothing changes, and models prepared again after a crash. The worker here is a fake."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.errors import UsageError, WorkerFailed
from paralign.model import Manifest
from paralign.run import inputs as given
from paralign.run import samples
from paralign.run.recorder import Recorder, both
from paralign.worker.process.files import ABSENT, UNSEEN, fingerprint
from paralign.worker.process.variables import mark
from paralign.worker.protocol import Describe, Forward, Load, Metric, Weights
from paralign.worker.sides.session import NATIVE

ANSWERS = {
    "describe": {"functions": [], "framework": "numpy"},
    "weights": {"entries": 1},
    "load": {"entries": 1},
    "metric": {"batches": 1},
    "forward": {"runs": [NATIVE], "failed": {}},
}


class Fake:
    """A worker that writes small captures; ``plan`` says what happens instead, one entry a request."""

    def __init__(self, log, plan, files, variables):
        self.side, self.alive, self.closed = "reference", True, False
        self.log, self.plan, self.files, self.variables = log, plan, files, variables

    def request(self, job):
        if not self.alive:
            raise WorkerFailed("killed", "already dead", side=self.side)
        self.log.append(job.capture.rsplit("/", 1)[-1])
        event = self.plan.pop(0) if self.plan else ""
        if event == "dies":
            self.alive = False
            raise WorkerFailed("killed", "by signal SIGKILL", side=self.side)
        writer = CaptureWriter(
            job.capture,
            Manifest(
                side="reference",
                stage=job.task,
                settings={**job.settings, "answer": ANSWERS[job.task]},
                files=dict(self.files),
                variables=dict(self.variables),
            ),
        )
        if event == "raises":
            writer._finish(complete=False)
            raise WorkerFailed("MemoryError", "none left", side=self.side)
        writer.add("x", np.ones(2), role="output")
        writer.close()

    def dismiss(self):
        pass

    def close(self):
        self.closed = True


class Bench:
    """A recorder whose workers are fakes, and what they were asked."""

    def __init__(self, folder):
        self.folder, self.log, self.plan, self.files, self.workers = folder, [], [], {}, []
        self.read = {}

    def start(self):
        self.log.append("start")
        self.workers.append(Fake(self.log, self.plan, self.files, self.read))
        return self.workers[-1]

    def recorder(self, reuse=True, variables=None, **identity):
        return Recorder("reference", self.start, self.folder / "captures", {"seed": 0, **identity}, reuse=reuse, variables=variables)

    def taken(self):
        log, self.log[:] = list(self.log), []
        return log


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_a_worker_is_started_for_the_first_job_and_serves_the_others(bench):
    recorder = bench.recorder()
    assert bench.log == []
    assert recorder.record("about", Describe()).complete
    recorder.record("weights", Weights())
    assert bench.taken() == ["start", "about", "weights"]
    recorder.close()
    recorder.close()
    assert bench.workers[0].closed
    assert recorder.reused == set()


def test_nothing_starts_when_all_is_reused(bench):
    bench.recorder().record("about", Describe())
    bench.taken()
    again = bench.recorder()
    assert again.record("about", Describe()).records[0].name == "x"
    assert bench.taken() == []
    assert again.reused == {"about"}


@pytest.mark.parametrize(
    "change",
    ["task", "options", "identity", "values", "key of values", "reuse", "incomplete", "damaged", "file", "file gone"],
)
def test_anything_that_changes_records_again(bench, change, monkeypatch):
    (bench.folder / "data.txt").write_text("1")
    bench.files[str(bench.folder / "data.txt")] = fingerprint(str(bench.folder / "data.txt"))
    values = {"inputs": make(bench.folder / "inputs", "k1")}
    bench.recorder().record("c", Forward([NATIVE]), values)
    bench.taken()
    order, identity, reuse = Forward([NATIVE]), {}, True
    manifest = bench.folder / "captures" / "c" / "manifest.json"
    if change == "task":
        order = Weights()
    elif change == "options":
        order = Forward([NATIVE], repeat=True)
    elif change == "identity":
        identity = {"env": {"SCALE": "2"}}
    elif change == "values":
        values = {}
    elif change == "key of values":
        values = {"inputs": make(bench.folder / "others", "k2")}
    elif change == "reuse":
        reuse = False
    elif change == "incomplete":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "complete": False}))
    elif change == "damaged":
        (bench.folder / "captures" / "c" / "records.jsonl").write_text("{")
    elif change == "file":
        (bench.folder / "data.txt").write_text("2")
    else:
        (bench.folder / "data.txt").unlink()
    recorder = bench.recorder(reuse, **identity)
    assert recorder.record("c", order, values).complete
    assert bench.taken() == ["start", "c"]
    assert recorder.reused == set()


def test_a_file_that_was_looked_for_in_vain_and_is_there_now_records_again(bench):
    bench.files[str(bench.folder / "missing.txt")] = ABSENT
    for taken in (["start", "c"], []):
        bench.recorder().record("c", Forward([NATIVE]))
        assert bench.taken() == taken
    (bench.folder / "missing.txt").write_text("")
    bench.recorder().record("c", Forward([NATIVE]))
    assert bench.taken() == ["start", "c"]


@pytest.mark.parametrize(
    ("now", "reused"),
    [
        ({"MODE": "a"}, True),
        ({"MODE": "a", "OTHER": "x"}, True),
        ({"MODE": "b"}, False),
        ({}, False),
        ({"MODE": "a", "UNSET": ""}, False),
        ({"MODE": "a", "MKL_NUM_THREADS": "2"}, False),
        (None, True),
    ],
)
def test_a_variable_that_was_read_and_is_different_records_again(bench, now, reused):
    bench.read.update({name: mark(name, {"MODE": "a"}) for name in ("MODE", "UNSET")})
    bench.recorder(variables={"MODE": "a"}).record("c", Forward([NATIVE]))
    bench.taken()
    bench.recorder(variables=now).record("c", Forward([NATIVE]))
    assert bench.taken() == ([] if reused else ["start", "c"])


def test_what_may_have_read_unseen_is_taken_within_a_check_and_by_no_later_one(bench):
    bench.files[UNSEEN + "calls fopen"] = "unseen"
    recorder = bench.recorder()
    recorder.record("c", Forward([NATIVE]))
    recorder.record("c", Forward([NATIVE]))
    assert bench.taken() == ["start", "c"]
    assert recorder.unseen == {"calls fopen"}
    later = bench.recorder()
    later.record("c", Forward([NATIVE]))
    assert bench.taken() == ["start", "c"]


def make(folder, key):
    with CaptureWriter(folder, Manifest(stage="inputs", settings={"key": key})):
        pass
    return Capture.open(folder)


def test_inputs_elsewhere_with_the_same_key_are_the_same_inputs(bench):
    bench.recorder().record("c", Forward([NATIVE]), {"inputs": make(bench.folder / "a", "k")})
    bench.taken()
    bench.recorder().record("c", Forward([NATIVE]), {"inputs": make(bench.folder / "b", "k")})
    assert bench.taken() == []


def test_an_answer_that_is_none_of_the_task_is_the_sides_failure(bench, monkeypatch):
    for answer, told in (
        ({"runs": "native"}, "'runs' must be a list, not 'native'"),
        ({"fast": True}, "there is no field 'fast'"),
        (None, "must be an object"),
    ):
        monkeypatch.setitem(ANSWERS, "forward", answer)
        with pytest.raises(WorkerFailed, match=told):
            bench.recorder(reuse=False).record("c", Forward([NATIVE]))


def test_within_a_check_a_capture_is_taken_twice_also_without_reuse(bench):
    recorder = bench.recorder(reuse=False)
    recorder.record("c", Forward([NATIVE]))
    recorder.record("c", Forward([NATIVE]))
    assert bench.taken() == ["start", "c"]
    recorder.record("c", Forward([NATIVE], repeat=True))
    assert bench.taken() == ["c"]


def test_what_is_no_capture_is_not_cleared_away(bench):
    (bench.folder / "captures" / "c").mkdir(parents=True)
    (bench.folder / "captures" / "c" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="this is not deleted"):
        bench.recorder().record("c", Forward([NATIVE]))
    assert (bench.folder / "captures" / "c" / "thesis.txt").read_text() == "mine"
    assert bench.taken() == []


# -- after a crash -------------------------------------------------------------------------------------------------------------


def test_after_a_crash_the_model_is_prepared_again(bench):
    recorder = bench.recorder()
    recorder.record("loaded", Load(), prelude=True)
    bench.plan += ["dies"]
    with pytest.raises(WorkerFailed, match="SIGKILL"):
        recorder.record("forward", Forward([NATIVE]))
    assert bench.taken() == ["start", "loaded", "forward"]
    assert recorder.record("metric", Metric()).complete
    assert bench.taken() == ["start", "loaded-again", "metric"]
    assert bench.workers[0].closed
    assert not (bench.folder / "captures" / "loaded-again").exists()
    assert Capture.open(bench.folder / "captures" / "loaded").complete


def test_the_model_is_prepared_again_where_captures_go_elsewhere_meanwhile(bench):
    recorder = bench.recorder()
    recorder.record("loaded", Load(), prelude=True)
    recorder.folder = recorder.folder / "moved-run"
    recorder.restart()
    assert recorder.record("metric", Metric()).complete
    assert bench.taken() == ["start", "loaded", "start", "loaded-again", "metric"]
    assert not (bench.folder / "captures" / "loaded-again").exists()


def test_a_reused_preparation_is_done_before_the_first_job(bench):
    bench.recorder().record("loaded", Load(), prelude=True)
    bench.taken()
    recorder = bench.recorder()
    recorder.record("loaded", Load(), prelude=True)
    assert bench.taken() == []
    recorder.record("forward", Forward([NATIVE]))
    assert bench.taken() == ["start", "loaded-again", "forward"]


def test_a_reused_preparation_is_done_at_once_where_a_worker_runs(bench):
    bench.recorder().record("loaded", Load(), prelude=True)
    recorder = bench.recorder()
    recorder.record("about", Describe())
    bench.taken()
    recorder.record("loaded", Load(), prelude=True)
    assert bench.taken() == ["loaded-again"]


def test_several_preparations_are_done_in_their_order(bench):
    recorder = bench.recorder()
    recorder.record("a", Load(), prelude=True)
    recorder.record("b", Load(record=False), prelude=True)
    bench.workers[-1].alive = False
    bench.taken()
    recorder.record("c", Forward([NATIVE]))
    assert bench.taken() == ["start", "a-again", "b-again", "c"]


def test_a_worker_that_recorded_its_own_weights_has_them_and_later_ones_are_given_them(bench):
    recorder = bench.recorder()
    state = recorder.record("weights", Weights())
    recorder.prepare(Load(), {"state": state}, recorded_by="weights")
    recorder.record("forward", Forward([NATIVE]))
    assert bench.taken() == ["start", "weights", "forward"]
    bench.workers[-1].alive = False
    recorder.record("metric", Metric())
    assert bench.taken() == ["start", "load-again", "metric"]


@pytest.mark.parametrize("runs", [True, False])
def test_a_worker_that_did_not_record_the_weights_is_given_them(bench, runs):
    bench.recorder().record("weights", Weights())
    recorder = bench.recorder()
    if runs:
        recorder.record("about", Describe())
    state = recorder.record("weights", Weights())
    bench.taken()
    recorder.prepare(Load(), {"state": state}, recorded_by="weights")
    assert bench.taken() == (["load-again"] if runs else [])
    recorder.record("forward", Forward([NATIVE]))
    assert bench.taken() == (["forward"] if runs else ["start", "load-again", "forward"])
    assert not (bench.folder / "captures" / "load-again").exists()


def test_a_failure_that_leaves_the_worker_alive_does_not_restart_it(bench):
    recorder = bench.recorder()
    recorder.record("loaded", Load(), prelude=True)
    bench.plan += ["raises"]
    with pytest.raises(WorkerFailed, match="MemoryError"):
        recorder.record("forward", Forward([NATIVE]))
    recorder.record("forward", Forward([NATIVE]))
    assert bench.taken() == ["start", "loaded", "forward", "forward"]


def test_a_worker_whose_preparation_failed_is_not_used_unprepared(bench):
    recorder = bench.recorder()
    recorder.record("loaded", Load(), prelude=True)
    bench.plan += ["dies", "raises"]
    for _ in range(2):
        with pytest.raises(WorkerFailed):
            recorder.record("forward", Forward([NATIVE]))
    bench.taken()
    recorder.record("metric", Metric())
    log = bench.taken()
    assert "loaded-again" in log[: log.index("metric")]


def test_a_reused_preparation_starts_a_dead_worker_anew(bench):
    bench.recorder().record("loaded", Load(), prelude=True)
    recorder = bench.recorder()
    recorder.record("about", Describe())
    bench.workers[-1].alive = False
    recorder.record("loaded", Load(), prelude=True)
    recorder.record("forward", Forward([NATIVE]))
    assert bench.taken()[-3:] == ["start", "loaded-again", "forward"]


def test_what_a_model_keeps_of_some_samples_ends_with_their_worker(bench):
    inputs = given.save(bench.folder / "inputs", "inputs", np.zeros((4, 2)))
    few, whole = {"inputs": samples.taken(inputs, [0, 1], bench.folder / "few")}, {"inputs": inputs}
    recorder = bench.recorder(reuse=False)
    recorder.record("loaded", Load(), prelude=True)
    for name, values in (("whole", whole), ("few", few), ("more", few), ("few", few), ("again", whole), ("last", whole)):
        recorder.record(name, Forward([NATIVE]), values)
    assert bench.taken() == ["start", "loaded", "whole", "few", "more", "start", "loaded-again", "again", "last"]
    assert bench.workers[0].closed


def test_a_worker_that_failed_with_some_samples_is_given_no_others(bench):
    inputs = given.save(bench.folder / "inputs", "inputs", np.zeros((4, 2)))
    recorder = bench.recorder()
    bench.plan.append("raises")
    with pytest.raises(WorkerFailed):
        recorder.record("few", Forward([NATIVE]), {"inputs": samples.taken(inputs, [0, 1], bench.folder / "few")})
    recorder.record("whole", Forward([NATIVE]), {"inputs": inputs})
    assert bench.taken() == ["start", "few", "start", "whole"]


def test_what_was_recorded_in_this_check_is_not_called_reused(bench):
    recorder = bench.recorder()
    recorder.record("c", Forward([NATIVE]))
    recorder.record("c", Forward([NATIVE]))
    assert recorder.reused == set()


# -- both sides ----------------------------------------------------------------------------------------------------------------


def test_both_sides_run_at_once():
    meeting = threading.Barrier(2, timeout=20)
    assert both(lambda: meeting.wait() * 0 + 1, lambda: meeting.wait() * 0 + 2) == (1, 2)


def failing(error):
    def act():
        raise error

    return act


def test_a_failure_of_either_side_is_raised_and_the_references_first():
    first, second = WorkerFailed("A", "one", side="reference"), WorkerFailed("B", "two", side="candidate")
    for reference, candidate, expected in (
        (failing(first), lambda: 1, first),
        (lambda: 1, failing(second), second),
        (failing(first), failing(second), first),
    ):
        with pytest.raises(WorkerFailed) as caught:
            both(reference, candidate)
        assert caught.value is expected
    assert first.__cause__ is second


def test_a_fault_of_our_own_is_not_hidden_behind_the_other_side():
    with pytest.raises(ZeroDivisionError):
        both(failing(ZeroDivisionError()), failing(WorkerFailed("B", "two")))
