"""The training log: the guides' lines byte for byte, costs without the log's own, one rank, nothing lost to a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from paralign.errors import UsageError
from paralign.trainlog import InferenceLog, TrainLog
from paralign.trainlog.lines import EVAL, TRAIN, Row, as_json, as_print, as_root

#: the sample of a log in the reproduction guide, section 3.10
SAMPLE = "[2021/12/04 05:16:13] root INFO: [epoch 0, iter 0][TRAIN]avg_samples: 32.0 , avg_reader_cost: 0.0010543 sec, avg_batch_cost: 0.0111100 sec, loss: 0.3450000 , avg_ips: 2880.2952878 images/sec"

#: what the guide's training program prints, with its own format string
PRINTED = (
    "[Epoch {}, iter: {}] acc: {:.5f}, lr: {:.5f}, loss: {:.5f}, avg_reader_cost: {:.5f} sec, avg_batch_cost: {:.5f} sec, avg_samples: {}, "
    "avg_ips: {:.5f} images/sec."
)


class Device:
    """A device that computes in the background: ``wait`` takes as long as the work that was given to it."""

    def __init__(self):
        self.until = 0.0

    def work(self, seconds):
        self.until = time.perf_counter() + seconds

    def wait(self):
        time.sleep(max(0.0, self.until - time.perf_counter()))


def train(log, batches=6, read=0.0, compute=0.0, device=None):
    def loader():
        for _ in range(batches):
            time.sleep(read)
            yield [0] * 4

    for step, batch in log.batches(loader(), epoch=0):
        if device is not None:
            device.work(compute)
        else:
            time.sleep(compute)
        log.step(samples=len(batch), loss=1.0 / (step + 1), lr=0.1)


def test_the_guides_sample_is_written_byte_for_byte(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert as_root(Row(TRAIN, 0, 0, {"loss": 0.345}, 32.0, 0.0010543, 0.01111, 2880.2952878, 1638594973.0)) == SAMPLE
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_guides_program_prints_the_same():
    row = Row(TRAIN, 3, 20, {"acc": 0.75, "lr": 0.01, "loss": 1.5}, 32.0, 0.002, 0.01, 3200.0)
    assert as_print(row) == PRINTED.format(3, 20, 0.75, 0.01, 1.5, 0.002, 0.01, 32.0, 3200.0)


def test_evaluations_have_lines_of_their_own():
    row = Row(EVAL, 2, -1, {"acc": 0.5})
    assert as_root(row).endswith("root INFO: [epoch 2][EVAL]acc: 0.5000000")
    assert as_print(row) == "[Epoch 2, eval] acc: 0.50000."


def test_a_loss_that_is_not_finite_is_json_all_the_same():
    told = json.loads(as_json(Row(TRAIN, 0, 0, {"loss": float("nan"), "acc": float("-inf")})))
    assert told["values"] == {"loss": "nan", "acc": "-inf"}


def test_lines_and_json_lines_lie_side_by_side(tmp_path):
    with TrainLog(str(tmp_path / "logs" / "train.log"), every=4, show=False, rank=0) as log:
        train(log, batches=6)
        log.evaluation(0, acc=0.5)
    lines = (tmp_path / "logs" / "train.log").read_text().splitlines()
    rows = [json.loads(line) for line in (tmp_path / "logs" / "train.jsonl").read_text().splitlines()]
    assert ["iter 3]" in lines[0], "iter 5]" in lines[1], "[EVAL]" in lines[2]] == [True] * 3
    assert [(row["kind"], row["iter"], row["samples"]) for row in rows] == [("TRAIN", 3, 4.0), ("TRAIN", 5, 4.0), ("EVAL", -1, 0.0)]
    assert rows[0]["values"] == {"loss": 0.25, "lr": 0.1}


def test_costs_are_those_of_reading_and_of_the_batch():
    log = TrainLog(None, every=5, show=False, rank=0)
    train(log, batches=10, read=0.02, compute=0.03)
    last = log.rows[-1]
    assert 0.02 <= last.reader_cost < last.batch_cost
    assert last.batch_cost - last.reader_cost >= 0.03
    assert last.ips == pytest.approx(4 / last.batch_cost, rel=1e-6)


def test_a_device_that_works_on_is_waited_for():
    device = Device()
    log = TrainLog(None, every=3, show=False, rank=0, warmup=0, synchronize=device.wait)
    train(log, batches=3, compute=0.03, device=device)
    assert log.rows[0].batch_cost >= 0.03


def test_the_time_of_the_log_itself_does_not_count():
    class Slow:
        def item(self):
            time.sleep(0.05)
            return 1.0

    log = TrainLog(None, every=2, show=False, rank=0, warmup=0)
    for _, batch in log.batches([[0], [0]], epoch=0):
        log.step(samples=len(batch), loss=Slow())
    assert log.rows[0].batch_cost < 0.05


def test_the_first_batches_are_no_figure():
    log = TrainLog(None, every=3, show=False, rank=0, warmup=1)
    slow = iter([0.2, 0.0, 0.0])
    for _, batch in log.batches([[0], [0], [0]], epoch=0):
        time.sleep(next(slow))
        log.step(samples=len(batch), loss=0)
    assert log.rows[0].batch_cost < 0.1


@pytest.mark.parametrize("variable", ["RANK", "PADDLE_TRAINER_ID", "SLURM_PROCID", "LOCAL_RANK"])
def test_only_the_first_rank_writes(tmp_path, monkeypatch, capsys, variable):
    monkeypatch.setenv(variable, "1")
    log = TrainLog(str(tmp_path / "train.log"), every=1)
    train(log, batches=2)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""
    assert len(log.rows) == 2


def test_a_loop_that_is_left_early_is_written():
    log = TrainLog(None, every=10, show=False, rank=0)
    for _, batch in log.batches([[0]] * 5, epoch=0):
        log.step(samples=len(batch), loss=1)
        break
    assert [row.values for row in log.rows] == [{"loss": 1.0}]


def test_a_resumed_training_goes_on_in_the_same_file(tmp_path):
    for _ in range(2):
        with TrainLog(str(tmp_path / "train.log"), every=1, show=False, rank=0) as log:
            train(log, batches=1)
    assert len((tmp_path / "train.log").read_text().splitlines()) == 2


def test_a_kill_leaves_whole_lines(tmp_path):
    code = f"""
from paralign.trainlog import TrainLog
log = TrainLog({str(tmp_path / "train.log")!r}, every=1, show=False, rank=0)
print("ready", flush=True)
for step, batch in log.batches(([0] for _ in range(10**9)), epoch=0):
    log.step(samples=1, loss=step)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        written, until = tmp_path / "train.jsonl", time.monotonic() + 60
        while written.stat().st_size < 2000 and time.monotonic() < until:  # bytes: some lines, however slow the machine is
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    text = (tmp_path / "train.jsonl").read_text()
    assert text.endswith("\n")
    assert [json.loads(line)["iter"] for line in text.splitlines()] == list(range(len(text.splitlines())))


@pytest.mark.parametrize(("arguments", "said"), [({"style": "fancy"}, "no style 'fancy'"), ({"every": 0}, "at least 1")])
def test_wrong_settings_are_refused(arguments, said):
    with pytest.raises(UsageError, match=said):
        TrainLog(None, **arguments)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        TrainLog(str(tmp_path / "file" / "train.log"), rank=0)


def test_a_figure_that_is_no_number_is_told():
    log = TrainLog(None, show=False, rank=0)
    with pytest.raises(UsageError, match="loss is no single number"):
        log.step(samples=1, loss=[1, 2])


def test_the_parts_of_a_prediction_are_timed():
    log = InferenceLog(warmup=1)
    for _ in range(3):
        with log.part("preprocess"):
            time.sleep(0.01)
        with log.part("inference"):
            time.sleep(0.02)
        log.batch(samples=2)
    told = log.report()
    assert told["batches"] == 2
    assert told["samples"] == 4
    assert told["preprocess_time_ms"] >= 10
    assert told["inference_time_ms"] >= 20
    assert told["postprocess_time_ms"] is None
    assert told["peak_memory_mb"] > 1
    with pytest.raises(UsageError, match="no part 'train'"), log.part("train"):
        pass
