"""The files that a check leaves: report.json, the guides' dictionaries of arrays, diff logs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter, load_foreign
from paralign.dtypes import Typed
from paralign.errors import WriteFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, CheckResult, Manifest, Noise, Pair, StageResult, Stats, Tolerance
from paralign.report import artifacts
from paralign.run.project import STAGES
from paralign.worker.sides.session import DOUBLE, NATIVE

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def made(tmp_path):
    count = iter(range(100))

    def write(*rows):
        folder = tmp_path / "captures" / str(next(count))
        with CaptureWriter(folder, Manifest(stage="x")) as writer:
            for name, value, fields in rows:
                writer.add(name, value, **{"role": "output", **fields})
        return Capture.open(folder)

    return write


FORWARD = [
    ("output", X, {"run": NATIVE, "leaf": "logits"}),
    ("output", X.astype(float), {"run": DOUBLE, "leaf": "logits"}),
    ("fc", X, {"run": NATIVE, "attrs": {"module": True}}),
]


def test_of_the_forward_pass_the_native_outputs_are_kept(made):
    found = artifacts.arrays("forward", made(*FORWARD))
    assert list(found) == ["output.logits"]
    assert found["output.logits"].dtype == np.float32


def test_of_the_data_everything_that_has_values_is_kept(made):
    rows = [
        ("length", np.int64(3), {"role": "scalar"}),
        ("dataloader_0", X, {"role": "sample", "leaf": "0"}),
        ("name", "cat", {"role": "sample"}),
    ]
    assert list(artifacts.arrays("data", made(*rows))) == ["length", "dataloader_0.0"]


def test_of_the_metric_the_result_on_all_has_the_metrics_own_name(made):
    scalar = {"role": "scalar"}
    rows = [
        ("batch_0", 0.5, {**scalar, "leaf": "top1"}),
        ("all", 0.6, {**scalar, "leaf": "top1"}),
        ("probe_ties", 0.1, {**scalar, "leaf": "top1"}),
    ]
    assert list(artifacts.arrays("metric", made(*rows))) == ["batch_0.top1", "top1"]
    assert list(artifacts.arrays("metric", made(("all", 0.6, scalar)))) == ["metric"]


def test_of_the_backward_pass_losses_and_rates_of_eval_mode_are_kept_under_the_guides_names(made):
    rows = []
    for run in (f"{NATIVE}:eval", f"{NATIVE}:train", f"{DOUBLE}:eval"):
        for step in range(2):
            fields = {"run": run, "step": step}
            rows += [
                ("loss", np.float32(step), {"role": "scalar", **fields}),
                ("lr", 0.1, {"role": "scalar", **fields}),
                ("lr", 0.2, {"role": "scalar", "leaf": "1", **fields}),
            ]
            rows += [("fc.weight", X, {"role": "gradient", **fields}), ("fc.weight", X, {"role": "parameter", **fields})]
    found = artifacts.arrays("backward", made(*rows))
    assert list(found) == ["loss_0", "lr_0", "lr_0.1", "loss_1", "lr_1", "lr_1.1"]
    assert found["loss_1"] == 1


def test_inputs_parameters_and_what_was_not_kept_are_left_out(made):
    rows = [
        ("x", X, {"role": "input"}),
        ("w", X, {"role": "parameter"}),
        ("b", X, {"role": "buffer"}),
        ("y", X, {"keep": False}),
        ("z", None, {}),
    ]
    assert artifacts.arrays("loss", made(*rows)) == {}


def test_bfloat16_is_kept_by_its_values(made):
    found = artifacts.arrays("forward", made(("output", Typed(np.array([0x3F80], np.uint16), "bfloat16"), {})))
    assert found["output"].tolist() == [1.0]
    assert found["output"].dtype == np.float32


# -- logs --------------------------------------------------------------------------------------------------------------------


def stage(verdict=ALIGNED, pairs=(), name="forward"):
    return StageResult(name, verdict, "float64", list(pairs))


def pair(error=0.5, noise=0.25, verdict=DIVERGED):
    return Pair("output", None, None, stats=Stats(count=1, rel_l2=error), noise=Noise(noise, "x"), verdict=verdict)


STAMP = r"\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] root INFO: "


def messages(lines):
    assert all(re.match(STAMP, line) for line in lines)
    return [re.sub("^" + STAMP, "", line) for line in lines]


def test_a_log_is_reprod_logs_with_our_verdict_after_it():
    lines = messages(artifacts.log(stage(DIVERGED, [pair()]), {"output": X}, {"output": X + np.float32(0.5)}))
    assert lines == [
        "output: ",
        "\tmean diff: check passed: False, value: 0.5",
        "diff check failed",
        "paralign: mean differences beyond the threshold of 1e-06 ([report] diff_threshold)",
        "paralign: diverged (error / noise = 2, judged by float64)",
    ]


def test_no_log_ends_in_a_conclusion_that_contradicts_the_verdict():
    near = X + np.float32(1e-4)
    aligned = messages(artifacts.log(stage(ALIGNED, [pair(verdict=ALIGNED)]), {"output": X}, {"output": near}))
    assert [line for line in aligned if line.startswith("diff check")] == []
    assert aligned[-2:] == [
        "paralign: mean differences beyond the threshold of 1e-06 ([report] diff_threshold)",
        "paralign: aligned (error / noise = 2, judged by float64)",
    ]
    diverged = messages(artifacts.log(stage(DIVERGED, [pair()]), {"output": X}, {"output": X}))
    assert diverged[1:] == ["\tmean diff: check passed: True, value: 0.0", "paralign: diverged (error / noise = 2, judged by float64)"]


def test_the_threshold_of_the_logs_is_a_setting(made, tmp_path):
    result = CheckResult([stage()], candidate={"framework": "paddle"})
    captures = {"forward": (made(*FORWARD), made(("output", X + np.float32(1e-4), {"run": NATIVE, "leaf": "logits"})))}
    for threshold, told in ((1e-6, False), (1e-3, True)):
        artifacts.write(result, captures, tmp_path, threshold)
        log = (tmp_path / "log" / "forward_diff.log").read_text()
        assert (f"check passed: {told}" in log, "diff check passed" in log, "diff check failed" in log) == (True, told, False)


def test_what_the_users_tolerance_decided_has_no_ratio():
    found = pair(verdict=ALIGNED)
    found.granted = Tolerance(atol=1.0)
    assert messages(artifacts.log(stage(ALIGNED, [found]), {"x": X}, {"x": X}))[-1] == "paralign: aligned (judged by float64)"


def test_what_reprod_log_could_not_compare_is_named_after_its_lines():
    reference = {"a": X, "b": X, "c": X, "empty": np.zeros((0, 3))}
    lines = messages(artifacts.log(stage(), reference, {"a": X, "b": X.T, "d": X, "empty": np.zeros((0, 3))}))
    assert lines[2:] == [
        "diff check passed",
        "paralign: b: not comparable: shape (2, 3) against shape (3, 2)",
        "paralign: c: not comparable: shape (2, 3) against missing",
        "paralign: empty: not comparable: shape (0, 3) against shape (0, 3)",
        "paralign: d: not comparable: missing against shape (2, 3)",
        "paralign: aligned",
    ]


@pytest.mark.parametrize(
    ("reference", "candidate", "mean"),
    [(np.array([0, 255], np.uint8), np.array([1, 254], np.uint8), 1.0), (np.array([True, False]), np.array([False, False]), 0.5), (np.array(3), np.array(5), 2.0)],
    ids=["wrapping", "boolean", "scalar"],
)  # fmt: skip
def test_integers_neither_wrap_nor_raise(reference, candidate, mean):
    assert messages(artifacts.log(stage(), {"x": reference}, {"x": candidate}))[1] == f"\tmean diff: check passed: False, value: {mean}"


# -- all files ---------------------------------------------------------------------------------------------------------------


def test_every_stage_with_values_leaves_its_files(made, tmp_path):
    result = CheckResult([stage(), stage(name="loss"), stage(name="weights"), stage(name="data")], candidate={"framework": "paddle"})
    captures = {
        "forward": (made(*FORWARD), made(*FORWARD)),
        "loss": (made(("loss", 0.5, {"role": "scalar"})),) * 2,
        "weights": (made(("w", X, {})),) * 2,
    }
    artifacts.write(result, captures, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "captures",
        "forward_paddle.npy",
        "forward_ref.npy",
        "log",
        "loss_paddle.npy",
        "loss_ref.npy",
        "report.json",
    }
    assert {p.name for p in (tmp_path / "log").iterdir()} == {"forward_diff.log", "loss_diff.log"}
    assert load_foreign(tmp_path / "forward_paddle.npy")["output.logits"].tolist() == X.tolist()
    assert np.load(tmp_path / "loss_ref.npy", allow_pickle=True).tolist() == {"loss": np.array(0.5)}
    assert json.loads((tmp_path / "report.json").read_text()) == result.to_dict()
    assert (tmp_path / "log" / "loss_diff.log").read_text().endswith("paralign: aligned\n")


def test_the_backward_stages_arrays_are_called_losses(made, tmp_path):
    capture = made(("loss", 0.5, {"role": "scalar", "run": f"{NATIVE}:eval"}))
    artifacts.write(CheckResult([stage(name="backward")], candidate={"framework": "torch"}), {"backward": (capture, capture)}, tmp_path)
    assert {p.name for p in tmp_path.glob("*.npy")} == {"losses_ref.npy", "losses_torch.npy"}
    assert (tmp_path / "log" / "backward_diff.log").is_file()


def test_the_forward_files_hold_what_the_model_was_given_first(made, tmp_path):
    given = [("input", X, {"run": NATIVE, "role": "input"}), *FORWARD]
    other = [("input", X + 1, {"run": NATIVE, "role": "input"}), *FORWARD]
    labels = made(("labels", np.arange(2), {"role": "input"}))
    result = CheckResult([stage(DIVERGED)], candidate={"framework": "paddle"})
    artifacts.write(result, {"forward": (made(*given), made(*other))}, tmp_path, given=artifacts.Given(labels))
    reference = load_foreign(tmp_path / "forward_ref.npy")
    assert list(reference) == ["input", "label", "output.logits"]
    assert reference["label"].tolist() == [0, 1]
    lines = messages((tmp_path / "log" / "forward_diff.log").read_text().splitlines())
    assert lines[:2] == ["input: ", "\tmean diff: check passed: False, value: 1.0"]


def test_the_files_can_bear_the_guides_other_names(made, tmp_path):
    capture = made(("loss", 0.5, {"role": "scalar", "run": f"{NATIVE}:eval"}))
    result = CheckResult([stage(), stage(name="backward")], reference={"framework": "torch"}, candidate={"framework": "paddle"})
    captures = {"forward": (made(*FORWARD),) * 2, "backward": (capture, capture)}
    artifacts.write(result, captures, tmp_path, naming=artifacts.Naming.PYTORCH)
    arrays = {"forward_pytorch.npy", "forward_paddle.npy", "losses_pytorch.npy", "losses_paddle.npy"}
    assert {p.name for p in tmp_path.glob("*.npy")} == arrays
    assert {p.name for p in (tmp_path / "log").iterdir()} == {"forward_diff_log.txt", "losses_diff_log.txt"}
    artifacts.write(result, captures, tmp_path)  # the other names: nothing of the first is left
    assert {p.name for p in tmp_path.glob("*.npy")} == {name.replace("pytorch", "ref") for name in arrays}
    assert {p.name for p in (tmp_path / "log").iterdir()} == {"forward_diff.log", "backward_diff.log"}


@pytest.mark.parametrize("naming", artifacts.Naming)
@pytest.mark.parametrize("frameworks", [("torch", "torch"), ("paddle", "torch"), ("numpy", ""), ("numpy", "ref"), ("torch", "pytorch")])
def test_the_two_sides_never_share_a_file(naming, frameworks):
    found = artifacts.names("forward", *frameworks, naming)
    assert len({found.reference, found.candidate, found.log}) == 3


def test_a_framework_that_is_not_known_gives_the_side_its_name(made, tmp_path):
    artifacts.write(CheckResult([stage()]), {"forward": (made(*FORWARD),) * 2}, tmp_path)
    assert (tmp_path / "forward_candidate.npy").is_file()


def test_what_an_earlier_check_wrote_of_a_stage_goes_what_it_wrote_of_others_stays(made, tmp_path):
    paddle = {"framework": "paddle"}
    both = {name: (made(*FORWARD),) * 2 for name in ("forward", "infer")}
    artifacts.write(CheckResult([stage(), stage(name="infer")], candidate=paddle), both, tmp_path)
    artifacts.write(CheckResult([StageResult("forward", ERROR)], candidate=paddle), {}, tmp_path)
    assert {p.name for p in tmp_path.glob("*.npy")} == {"infer_ref.npy", "infer_paddle.npy"}
    assert {p.name for p in (tmp_path / "log").iterdir()} == {"infer_diff.log"}


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    artifacts.replace(path, "old")
    artifacts.replace(path, "new ÷")
    assert path.read_text(encoding="utf-8") == "new ÷"
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(WriteFailed, match="cannot be written: full"):
        artifacts.replace(path, "half")
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    assert path.read_text(encoding="utf-8") == "new ÷"


def test_names_are_those_of_stages():
    assert set(artifacts.FILES) == set(STAGES) - {"weights", "init", "distributed"}
