"""Logs of trainings are read whatever wrote them; a damaged line is named, never dropped; two logs are compared."""

from __future__ import annotations

import csv
import io
import json

import pytest

from paralign import cli
from paralign.errors import CaptureFormatError, UsageError
from paralign.training import compare_logs, read_log
from paralign.training.logs import FORMS
from paralign.trainlog import TrainLog
from paralign.trainlog.lines import EVAL, TRAIN

ROOT = "[2021/12/04 05:16:13] root INFO: [epoch 0, iter 0][TRAIN]avg_samples: 32.0 , avg_reader_cost: 0.0010543 sec, avg_batch_cost: 0.0111100 sec, loss: 0.3450000 , avg_ips: 2880.2952878 images/sec"
PRINT = "[Epoch 1, iter: 10] acc: 0.50000, lr: 0.10000, loss: 2.30000, avg_reader_cost: 0.00100 sec, avg_batch_cost: 0.01000 sec, avg_samples: 32.0, avg_ips: 3200.00000 images/sec."
CLAS = "[2022/03/01 10:00:00] ppcls INFO: [Train][Epoch 3/120][Iter: 20/5004]lr(LinearWarmup): 0.00400000, top1: 0.00312, CELoss: 6.98, loss: 6.98, batch_cost: 0.42 s, reader_cost: 0.11, ips: 152.4 samples/s, eta: 2 days"
PLAIN = "2022-03-01 10:00:00,123 - trainer - INFO - epoch 2 step 7 - val loss=1.25e-1 acc=87.5%"


def written(tmp_path, *lines, name="train.log"):
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("line", "kind", "place", "values"), [
    (ROOT, TRAIN, (0, 0), {"loss": 0.345}),
    (PRINT, TRAIN, (1, 10), {"acc": 0.5, "lr": 0.1, "loss": 2.3}),
    (PLAIN, EVAL, (2, 7), {"loss": 0.125, "acc": 87.5}),
    ("Epoch: [3]  eval: top1 0.5 loss: 0.25", EVAL, (3, -1), {"loss": 0.25}),
    ("step=12 loss=nan", TRAIN, (0, 12), {"loss": float("nan")}),
])  # fmt: skip
def test_a_line_is_read(tmp_path, line, kind, place, values):
    log = read_log(written(tmp_path, line))
    assert (log.damaged, log.other) == ([], 0)
    row = log.rows[0]
    assert (row.kind, (row.epoch, row.iteration)) == (kind, place)
    assert row.values == pytest.approx(values, nan_ok=True)


def test_costs_have_their_fields_and_units(tmp_path):
    log = read_log(written(tmp_path, ROOT, CLAS, "epoch 0 step 1 loss: 1.0 batch_cost: 12.5ms"))
    assert [(r.samples, r.reader_cost, r.batch_cost, r.ips) for r in log.rows] == [
        (32.0, 0.0010543, 0.01111, 2880.2952878), (0.0, 0.11, 0.42, 152.4), (0.0, 0.0, 0.0125, 0.0),
    ]  # fmt: skip
    assert log.rows[1].values["loss"] == 6.98
    assert log.rows[1].values["lr"] == 0.004


def test_sizes_versions_and_times_beside_figures_are_no_damage(tmp_path):
    line = "epoch 1 step 2 version: 1.2.3b4 crop: 224x224 eta: 0:00:05 at=2023-01-01 lr: 1.5e3 loss: 1.e-3 speed: 64.0img/s"
    log = read_log(written(tmp_path, line))
    assert log.damaged == []
    assert (log.rows[0].values["lr"], log.rows[0].values["loss"]) == (1500.0, 0.001)


@pytest.mark.parametrize(("line", "why"), [
    (ROOT[:90], "no figure"),
    (ROOT[:-30], "ends before avg_ips"),
    (PRINT[:42], "ends before avg_ips"),
    ("epoch 3 step 4 loss: 0.5 acc:", "ends after"),
    ("[epoch , iter 3][TRAIN]loss:", "no figure"),
    ("some loss: 0.5 of nowhere", "neither an epoch nor a step"),
    ('{"kind": "TRAIN", "epoch": 0, "it', "JSON does not end"),
    ('{"epoch": 0}', "no figures"),
    ("epoch 3 step 4 loss: 0.5 acc: 0.12x00", "the value of 'acc' is no number"),
    ("epoch 3 step 4 loss: 0.5\ufffd3", "the value of 'loss' is no number"),
    ("\0\0\0\0epoch 3 step 4 loss: 0.5", "zero bytes"),
])  # fmt: skip
def test_a_damaged_line_is_named_with_its_number(tmp_path, line, why):
    log = read_log(written(tmp_path, "starting", ROOT, line))
    assert len(log.rows) == 1
    assert log.other == 1
    assert [(each.line, why in each.why) for each in log.damaged] == [(3, True)]


def test_what_our_log_writes_is_read_back(tmp_path):
    with TrainLog(str(tmp_path / "train.log"), every=1, show=False, rank=0) as log:
        for step, batch in log.batches([[0, 1]] * 3, epoch=4):
            log.step(samples=len(batch), loss=1 / (step + 1), lr=0.5)
        log.evaluation(4, acc=0.125)
    for name in ("train.log", "train.jsonl"):
        back = read_log(tmp_path / name)
        assert (back.damaged, back.other) == ([], 0)
        assert back.series("loss") == pytest.approx({(4, 0): 1.0, (4, 1): 0.5, (4, 2): 1 / 3}, abs=1e-7)
        assert back.series("acc", EVAL) == {(4, -1): 0.125}


@pytest.mark.parametrize("head", ["[2022/01/03 16:51:46] root INFO: ", "2021-09-28 01:07:44,832 - reprod_log.utils - INFO - "])
def test_both_line_formats_of_reprod_log_are_read(tmp_path, head):
    lines = [f"{head}loss_0: ", f"{head}\tmean diff: check passed: False, value: 1.9e-06", f"{head}diff check failed"]
    log = read_log(written(tmp_path, *lines))
    assert log.rows[0].values == {"mean diff of loss_0": 1.9e-06, "check passed": 0.0}


def test_a_file_that_is_no_log_is_refused(tmp_path):
    (tmp_path / "events").write_bytes(b"\x18\0\0\0binary")
    for path, kind, said in (
        (tmp_path / "events", CaptureFormatError, "no text"),
        (tmp_path / "gone", UsageError, "No such file"),
        (tmp_path, UsageError, "Is a directory"),
    ):
        with pytest.raises(kind, match=said):
            read_log(path)


def series(tmp_path, name, values, evaluation=None):
    lines = [
        f"[Epoch 0, iter: {i}] loss: {v:.8f}, avg_reader_cost: 0.1 sec, avg_batch_cost: 0.2 sec, avg_samples: 8.0, avg_ips: 40.0 images/sec."
        for i, v in enumerate(values)
    ]
    lines += [f"[Epoch 0, eval] acc: {evaluation}."] if evaluation is not None else []
    return read_log(written(tmp_path, *lines, name=name))


def test_equal_trajectories_are_aligned_and_the_first_difference_is_named(tmp_path):
    one = series(tmp_path, "a", [1.0, 0.5, 0.25])
    same = compare_logs(one, series(tmp_path, "b", [1.0, 0.5, 0.2500001]), atol=1e-6)
    assert same.verdict == "aligned"
    other = compare_logs(one, series(tmp_path, "c", [1.0, 0.6, 0.5]), atol=1e-6)
    gap = other.gaps[0]
    assert (other.verdict, gap.first, gap.at_first) == ("diverged", (0, 1), (0.5, 0.6))
    assert gap.worst == (0.25, (0, 2))
    assert gap.final == 0.25


def test_without_a_limit_nothing_is_called_aligned(tmp_path):
    one = series(tmp_path, "a", [1.0])
    result = compare_logs(one, one)
    assert result.verdict == "underpowered"
    assert "another seed" in result.notes[-1]


def test_the_end_is_held_to_a_margin(tmp_path):
    one = series(tmp_path, "a", [1.0], evaluation=0.751)
    assert compare_logs(one, series(tmp_path, "b", [1.0], evaluation=0.7515), names=["acc"], margin=1e-3).verdict == "aligned"
    assert compare_logs(one, series(tmp_path, "c", [1.0], evaluation=0.74), names=["acc"], margin=1e-3).verdict == "diverged"


def test_nan_is_never_equal_and_never_aligned(tmp_path):
    one, two = (read_log(written(tmp_path, "epoch 0 step 0 loss: nan", name=name)) for name in "ab")
    assert compare_logs(one, two, atol=1.0).verdict == "diverged"


def test_logs_without_a_common_place_are_not_aligned(tmp_path):
    one, two = (read_log(written(tmp_path, f"epoch {n} step 0 loss: 1.0", name=str(n))) for n in (0, 1))
    result = compare_logs(one, two, atol=1.0)
    assert result.verdict == "underpowered"
    assert "nothing was compared" in result.notes[-1]


def test_a_figure_that_one_log_lacks_is_told(tmp_path):
    one = series(tmp_path, "a", [1.0])
    with pytest.raises(UsageError, match="not both logs have acc"):
        compare_logs(one, one, names=["acc"])


def test_forms_hold_the_same(tmp_path):
    log = read_log(written(tmp_path, PRINT, "epoch 1 step 20 loss: nan", "loss: oops"))
    rows = list(csv.DictReader(io.StringIO(FORMS["csv"](log))))
    assert [(row["iter"], row["loss"]) for row in rows] == [("10", "2.3"), ("20", "nan")]
    told = json.loads(FORMS["json"](log))
    assert [row["loss"] for row in told["rows"]] == [2.3, None]
    assert told["damaged"][0]["line"] == 3
    assert len(FORMS["jsonl"](log).splitlines()) == 2


@pytest.mark.parametrize("text", ["", "\n\n", "Downloading weights\nDone.\n"])
@pytest.mark.parametrize("form", ["csv", "json", "jsonl"])
def test_a_log_without_a_training_is_not_converted(tmp_path, capsys, text, form):
    (tmp_path / "train.log").write_text(text)
    assert cli.main(["log", "convert", str(tmp_path / "train.log"), "--to", form, "--out", str(tmp_path / "out")]) == 2
    assert "no line of the log tells of a training" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["loss: oops", "epoch 1 step 20 loss: oops", "[epoch 0, iter 0][TRAIN]avg_samples: 3"])
def test_a_log_whose_training_lines_are_all_damaged_says_so(tmp_path, capsys, line):
    path = written(tmp_path, "Downloading weights", line)
    assert not read_log(path).rows
    assert cli.main(["log", "convert", str(path), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    told = capsys.readouterr()
    assert "every line that tells of a training is damaged" in told.err
    assert told.out == ""


def test_the_command_shows_compares_and_converts(tmp_path, capsys):
    one, two = (str(written(tmp_path, PRINT.replace("2.3", loss), name=loss)) for loss in ("2.3", "2.4"))
    assert cli.main(["log", "show", one]) == 0
    assert "1 row, 0 damaged lines, 0 other lines" in capsys.readouterr().out
    assert cli.main(["log", "compare", one, two, "--atol", "1e-3"]) == 1
    assert "first beyond the limit at epoch 1, batch 10: 2.3 and 2.4" in capsys.readouterr().out
    assert cli.main(["log", "compare", one, one]) == 4
    assert cli.main(["log", "convert", one, "--out", str(tmp_path / "a.csv")]) == 0
    assert (tmp_path / "a.csv").read_text().startswith("kind,epoch,iter,acc,lr,loss")
    assert cli.main(["log", "convert", one, "--out", str(tmp_path / "a.csv")]) == 2
    assert "nothing is replaced" in capsys.readouterr().err
    assert cli.main(["log", "show", str(tmp_path / "gone")]) == 2
    assert cli.main(["log", "convert", one, "--out", str(tmp_path / "none" / "a.csv")]) == 3
