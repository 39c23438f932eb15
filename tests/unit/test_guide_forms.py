"""The guides' own forms: drawn inputs as files, logs of differences, keys of checkpoints, outputs of modules."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paralign import cli
from paralign.api import check_project, compare
from paralign.capture import CaptureWriter, load_foreign, save_foreign
from paralign.compat.reprod_log import ReprodDiffHelper, read_diff_log
from paralign.errors import CaptureFormatError, UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, Manifest
from paralign.worker.sides.session import NATIVE

X = np.random.RandomState(0).randn(4, 5).astype(np.float32)

# -- drawn inputs ------------------------------------------------------------------------------------------------------------


def test_drawn_inputs_are_written_as_the_check_draws_them(project, capsys):
    assert cli.main(["inputs", str(project.folder)]) == 0
    assert "fake_data.npy: float32 [4, 6]" in capsys.readouterr().out
    drawn = np.load(project.folder / "fake_data.npy"), np.load(project.folder / "fake_label.npy")
    assert (drawn[0].dtype, drawn[0].shape, drawn[1].dtype) == (np.float32, (4, 6), np.int64)
    check_project(project.folder, ["forward"])
    used = load_foreign(project.folder / "result" / "forward_ref.npy")
    assert np.array_equal(used["input"], drawn[0])
    assert np.array_equal(used["label"], drawn[1])


def test_files_that_are_there_are_not_replaced(project, capsys):
    (project.folder / "fake_label.npy").write_text("mine")
    assert cli.main(["inputs", str(project.folder)]) == 2
    assert "fake_label.npy would be overwritten" in capsys.readouterr().err
    assert not (project.folder / "fake_data.npy").exists()
    assert cli.main(["inputs", str(project.folder), "--out", str(project.folder / "reference.py")]) == 3


def test_inputs_by_keyword_and_by_position(project):
    project.write(more="")
    path = project.folder / "paralign.toml"
    path.write_text(path.read_text().replace("[inputs]\nshape = [4, 6]", "[inputs.x]\nshape = [2]\n[inputs.y]\nshape = [3]"))
    assert cli.main(["inputs", str(project.folder)]) == 0
    assert {name: value.shape for name, value in load_foreign(project.folder / "fake_data.npy").items()} == {"x": (2,), "y": (3,)}
    path.write_text(path.read_text().replace("[inputs.x]", "[[inputs]]").replace("[inputs.y]", "[[inputs]]"))
    (project.folder / "more").mkdir()
    assert cli.main(["inputs", str(project.folder), "--out", str(project.folder / "more")]) == 0
    assert {p.name for p in (project.folder / "more").iterdir()} == {"fake_data_0.npy", "fake_data_1.npy", "fake_label.npy"}


def test_inputs_that_are_not_drawn_are_told(project, capsys):
    path = project.folder / "paralign.toml"
    text = path.read_text()
    path.write_text(text[: text.index("[inputs]")])
    assert cli.main(["inputs", str(project.folder)]) == 2
    assert "draws neither inputs nor labels" in capsys.readouterr().err


# -- logs of differences -----------------------------------------------------------------------------------------------------

NEW = """\
[2021/12/21 15:00:38] root INFO: logits:
[2021/12/21 15:00:38] root INFO: \tmean diff: check passed: True, value: 2.7e-06
[2021/12/21 15:00:38] root INFO: diff check passed
"""
OLD = """\
2021-09-28 01:07:44,832 - reprod_log.utils - INFO - demo_test_1:
2021-09-28 01:07:44,832 - reprod_log.utils - INFO -     mean diff: check passed: True, value: 0.0
2021-09-28 01:07:44,832 - reprod_log.utils - INFO - demo_test_2:
2021-09-28 01:07:44,832 - reprod_log.utils - INFO -     mean diff: check passed: False, value: 0.3336232304573059
2021-09-28 01:07:44,832 - reprod_log.utils - INFO - diff check failed
"""


@pytest.mark.parametrize(
    ("text", "figures", "passed"),
    [
        (NEW, [("logits", "mean", True, 2.7e-06)], True),
        (OLD, [("demo_test_1", "mean", True, 0.0), ("demo_test_2", "mean", False, 0.3336232304573059)], False),
        (NEW + "[2021/12/21 15:00:38] root INFO: paralign: diverged (judged by float64)\n", [("logits", "mean", True, 2.7e-06)], False),
        (NEW.replace("2.7e-06", "nan").replace("True", "False"), [("logits", "mean", False, float("nan"))], False),
    ],
)
def test_both_line_formats_are_read(tmp_path, text, figures, passed):
    (tmp_path / "x.log").write_text(text)
    log = read_diff_log(tmp_path / "x.log")
    found = [(each.name, each.method, each.passed, each.value) for each in log.figures]
    assert repr(found) == repr(figures)  # NaN is not equal to itself
    assert (log.passed, log.unread) == (passed, [])


def test_nested_entries_and_what_our_own_report_writes_are_read(tmp_path):
    helper = ReprodDiffHelper()
    helper.compare_info({"a": {"b": X, "c": X}, "d": X}, {"a": {"b": X, "c": X + 1}, "d": X})
    helper.report(diff_method="all", path=str(tmp_path / "x.log"))
    log = read_diff_log(tmp_path / "x.log")
    assert [figure.name for figure in log.figures] == ["a.b"] * 3 + ["a.c"] * 3 + ["d"] * 3
    assert [figure.name for figure in log.failed] == ["a.c"] * 3


@pytest.mark.parametrize("text", ["", "hello\n", "\0", "epoch 1, loss: 3\n"])
def test_what_is_no_log_of_differences_is_refused(tmp_path, text):
    (tmp_path / "x.log").write_text(text)
    with pytest.raises(CaptureFormatError):
        read_diff_log(tmp_path / "x.log")
    with pytest.raises(UsageError):
        read_diff_log(tmp_path / "y.log")


def test_a_line_of_another_program_is_told_and_forges_no_verdict(tmp_path, capsys):
    (tmp_path / "x.log").write_text(OLD + "warning: paralign: aligned\n\x1b[2Jlast\n")
    assert cli.main(["log", "checks", str(tmp_path / "x.log")]) == 1
    out = capsys.readouterr().out
    assert "failed, 2 lines, 1 of them beyond their threshold" in out
    assert "demo_test_2: mean diff 0.333623" in out
    assert "line 7 is none of such a log: \\u001b[2Jlast" in out


# -- compare -----------------------------------------------------------------------------------------------------------------


def test_a_comparison_writes_a_log_that_can_be_read_back(tmp_path, capsys):
    save_foreign(tmp_path / "a.npy", {"x": X, "y": X})
    save_foreign(tmp_path / "b.npy", {"x": X, "y": X + np.float32(0.5)})
    log = tmp_path / "x_diff_log.txt"
    arguments = ["compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--log", str(log)]
    assert cli.main(arguments) == 1
    read = read_diff_log(log)
    assert ([figure.name for figure in read.failed], read.verdict, read.passed) == (["y"], DIVERGED, False)
    assert "mean differences beyond the threshold of 1e-06 (--diff-threshold)" in log.read_text()
    assert cli.main(arguments) == 2
    assert "the log is there already" in capsys.readouterr().err
    assert cli.main([*arguments[:-1], str(tmp_path / "other.txt"), "--diff-threshold", "1", "--atol", "1"]) == 0
    assert read_diff_log(tmp_path / "other.txt").failed == []


def test_a_comparison_names_no_report_that_it_does_not_write(tmp_path, capsys):
    for name, shift in (("a", 0), ("b", 1)):
        save_foreign(tmp_path / f"{name}.npy", {"x": X + shift})
    paths = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    assert cli.main(["compare", *paths]) == 1
    out = capsys.readouterr().out
    assert "--json prints all" in out
    assert "report.json" not in out
    assert cli.main(["compare", *paths, "--lang", "zh"]) == 1
    assert "a.npy a.npy" not in capsys.readouterr().out


def test_a_log_that_cannot_be_written_says_what_to_do(tmp_path, capsys):
    save_foreign(tmp_path / "a.npy", {"x": X})
    arguments = ["compare", str(tmp_path / "a.npy"), str(tmp_path / "a.npy")]
    assert cli.main([*arguments, "--log", str(tmp_path / "none" / "x.log")]) == 3
    assert f"make the folder {tmp_path / 'none'} first" in capsys.readouterr().err
    assert cli.main([*arguments, "--log", str(tmp_path / "a.npy" / "x.log")]) == 3
    assert "a file in place of a folder" in capsys.readouterr().err
    assert cli.main([*arguments, "--diff-threshold", "1"]) == 2
    assert "name a new file: --log FILE" in capsys.readouterr().err


def test_inputs_that_differ_are_reported_first(tmp_path):
    save_foreign(tmp_path / "a.npy", {"logits": X, "label": np.arange(3), "fake_data": X})
    save_foreign(tmp_path / "b.npy", {"logits": X + 1, "label": np.arange(3), "fake_data": X + 1})
    (stage,) = compare(tmp_path / "a.npy", tmp_path / "b.npy").stages
    assert [pair.key for pair in stage.pairs] == ["label", "fake_data", "logits"]
    assert stage.divergence.pair.key == "fake_data"
    assert stage.warnings[0] == "the inputs differ (fake_data): what else differs may only follow from that"


def test_a_scalar_within_the_tolerance_has_no_ratio(tmp_path, capsys):
    for name, value in (("a", 0.7512), ("b", 0.7515)):
        save_foreign(tmp_path / f"{name}.npy", {"acc": np.array(value)})
    assert cli.main(["compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--atol", "0.001"]) == 0
    assert "e+" not in capsys.readouterr().out


@pytest.fixture
def modules(tmp_path):
    """Compares two captures of module calls: name, call, value; and outputs."""

    count = iter(range(100))

    def of(reference, candidate, outputs=(X, X), *, keep=True):
        folder = tmp_path / str(next(count))
        for name, calls, output in (("a", reference, outputs[0]), ("b", candidate, outputs[1])):
            with CaptureWriter(folder / name, Manifest(stage="forward")) as writer:
                for module, call, value in calls:
                    writer.add(module, value, role="output", run=NATIVE, call=call, keep=keep, attrs={"module": True})
                if output is not None:
                    writer.add("output", output, role="output", run=NATIVE)
        return compare(folder / "a", folder / "b").stages[0]

    return of


def test_outputs_of_modules_inform_and_the_models_output_decides(modules):
    stage = modules([("stem", 0, X), ("head", 0, X)], [("stem", 0, X), ("head", 0, X + 1)])
    assert [(pair.key, pair.verdict, pair.judged) for pair in stage.pairs] == [
        ("module stem", ALIGNED, False), ("module head", DIVERGED, False), ("output", ALIGNED, True)]  # fmt: skip
    assert stage.verdict == ALIGNED
    assert "the first whose output differs: head" in stage.notes


def test_captures_of_modules_alone_are_judged_by_them(modules):
    calls = [("stem", 0, X), ("stem", 1, X), ("head", 0, X)]
    assert modules(calls, calls, (None, None)).verdict == ALIGNED
    stage = modules(calls, [calls[0], ("stem", 1, X * 2), calls[2]], (None, None))
    assert (stage.verdict, stage.divergence.pair.key) == (DIVERGED, "module stem call 2")


def test_a_module_without_a_counterpart_is_counted_and_does_not_diverge(modules):
    stage = modules([("stem", 0, X), ("extra", 0, X), ("more", 0, X)], [("stem", 0, X)])
    assert stage.verdict == ALIGNED
    assert "outputs of 1 modules were compared; 2 have no counterpart" in stage.notes


def test_digests_alone_say_how_to_have_values(modules):
    stage = modules([("stem", 0, X)], [("stem", 0, X)], (None, None), keep=False)
    assert stage.verdict == NOT_TESTED
    assert any('modules = "full"' in note for note in stage.notes)


def test_a_check_with_full_modules_can_be_compared_afterwards(project):
    project.write(more='[forward]\nmodules = "full"')
    check_project(project.folder, ["forward"])
    captures = project.folder / "result" / "captures"
    stage = compare(captures / "reference" / "forward", captures / "candidate" / "forward").stages[0]
    assert stage.verdict == ALIGNED


# -- checkpoints -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "w.npz"
    np.savez(path, **{"fc.weight": X, "fc.bias": X[0], "norm.count": np.int64(3)})
    return path


def test_keys_shapes_and_types_are_listed(checkpoint, capsys):
    assert cli.main(["weights", "show", str(checkpoint)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["fc.weight", "[4,", "5]", "float32"], ["fc.bias", "[5]", "float32"], ["norm.count", "[]", "int64"]]  # fmt: skip
    assert lines[3] == "3 of 3 tensors, 26 elements, 0.0 MB, format npz"


def test_keys_can_be_chosen_and_printed_as_json(checkpoint, capsys):
    assert cli.main(["weights", "show", str(checkpoint), "--match", "fc.*", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["shape"], each["dtype"]) for each in told["tensors"]] == [
        ("fc.weight", [4, 5], "float32"), ("fc.bias", [5], "float32")]  # fmt: skip
    assert cli.main(["weights", "show", str(checkpoint), "--match", "none*"]) == 4


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, capsys):
    (tmp_path / "w.pth").write_bytes(b"\x80\x04cos\nsystem\n")
    assert cli.main(["weights", "show", str(tmp_path / "w.pth")]) == 3
    assert cli.main(["weights", "show", str(tmp_path / "absent.pth")]) == 2


def test_a_conversion_lists_both_shapes(checkpoint, tmp_path, capsys):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[route]]\nreference = "fc.weight"\ncandidate = "head.weight"\ntransform = "transpose(1, 0)"\n')
    arguments = ["convert", "weights", str(checkpoint), str(tmp_path / "v.npz"), "--rules", str(rules), "--dry-run"]
    cli.main([*arguments, "--all"])
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if "head.weight" in line)
    assert line.split() == ["fc.weight", "[4,", "5]", "head.weight", "[5,", "4]", "transpose(1,", "0)"]
    cli.main([*arguments, "--json"])
    first = json.loads(capsys.readouterr().out)["tensors"][0]
    assert (first["source_shape"], first["destination_shape"]) == ([4, 5], [5, 4])
