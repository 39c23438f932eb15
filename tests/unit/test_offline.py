"""What was recorded earlier, compared without running anything: files of arrays, and captures."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paralign.api import compare
from paralign.capture import CaptureWriter, save_foreign
from paralign.context import PERTURBED
from paralign.dtypes import EPS, Typed
from paralign.errors import CaptureFormatError, UnsafeFile, UnsupportedTensor, UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Manifest
from paralign.stages.offline.from_captures import GRANTED, UNTOLD
from paralign.worker.sides.session import DOUBLE, NATIVE

PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "reprod_log"
X = np.random.RandomState(0).randn(50)
X32 = X.astype(np.float32)


@pytest.fixture
def files(tmp_path):
    """Saves two values as reprod_log does and compares them; gives the stage."""

    def of(reference, candidate, **options):
        for name, value in (("reference.npy", reference), ("candidate.npy", candidate)):
            if isinstance(value, dict):
                save_foreign(tmp_path / name, value)
            else:
                np.save(tmp_path / name, value)
        (stage,) = compare(tmp_path / "reference.npy", tmp_path / "candidate.npy", **options).stages
        return stage

    return of


def verdicts(stage):
    return {p.key: p.verdict for p in stage.pairs}


# -- files -------------------------------------------------------------------------------------------------------------------


def test_equal_files_are_aligned(files):
    stage = files({"logits": X32, "loss": np.float32(2)}, {"logits": X32, "loss": np.float32(2)})
    assert (stage.name, stage.verdict) == ("reference.npy", ALIGNED)
    assert stage.method == "assumed: no noise was recorded, a hundred roundings are granted"
    assert verdicts(stage) == {"logits": ALIGNED, "loss": ALIGNED}


@pytest.mark.parametrize(
    ("dtype", "relative", "verdict"),
    [
        ("float32", 1e-6, ALIGNED),
        ("float32", 1e-4, UNDERPOWERED),
        ("float32", 9e-3, UNDERPOWERED),
        ("float32", 1.1e-2, DIVERGED),
        ("float64", 1e-14, ALIGNED),
        ("float64", 1e-12, UNDERPOWERED),
        ("float16", 5e-2, ALIGNED),
        ("float16", 2e-1, DIVERGED),
    ],
)
def test_without_noise_there_are_three_bands(files, dtype, relative, verdict):
    stage = files({"x": X.astype(dtype)}, {"x": (X * (1 + relative)).astype(dtype)})
    (pair,) = stage.pairs
    assert (stage.verdict, pair.verdict) == (verdict, verdict)
    assert (pair.noise.value, pair.noise.how) == (EPS[dtype], f"one rounding of {dtype}")
    told = "more than rounding, less than a hundredth: without the reference's noise nobody can tell; `paralign check` measures it"
    assert (told in pair.notes) is (verdict == UNDERPOWERED)
    assert (stage.divergence is not None) is (verdict == DIVERGED)


def test_the_bands_meet_where_they_say(files):
    for relative, verdict in ((0.99 * GRANTED * EPS["float64"], ALIGNED), (1.02 * GRANTED * EPS["float64"], UNDERPOWERED)):
        assert files({"x": X}, {"x": X + relative * np.linalg.norm(X) * np.eye(50)[7]}).verdict == verdict
    for relative, verdict in ((0.999 * UNTOLD, UNDERPOWERED), (1.001 * UNTOLD, DIVERGED)):
        assert files({"x": X}, {"x": X * (1 + relative)}).verdict == verdict


def test_the_coarser_of_two_types_counts(files):
    for sides in ((X32, X.astype(np.float16)), (X.astype(np.float16), X32)):
        stage = files({"x": sides[0]}, {"x": sides[1]})
        assert stage.verdict == ALIGNED
        assert stage.pairs[0].noise.value == EPS["float16"]


@pytest.mark.parametrize(
    ("options", "verdict"),
    [({"ratio": 1e5}, ALIGNED), ({"ratio": 10}, DIVERGED), ({"atol": 1.0}, ALIGNED), ({"atol": 1e-6}, DIVERGED), ({"rtol": 2e-3}, ALIGNED), ({"rtol": 1e-5}, DIVERGED)],
    ids=str,
)  # fmt: skip
def test_the_users_tolerance_leaves_no_doubt(files, options, verdict):
    assert files({"x": X32}, {"x": X32 * np.float32(1.001)}, **options).verdict == verdict


@pytest.mark.parametrize(("atol", "verdict"), [(1e-3, ALIGNED), (1e-4, DIVERGED)])
def test_two_figures_are_judged_by_the_users_tolerance_alone(files, atol, verdict):
    stage = files({"top1": 0.7512, "top5": 0.92}, {"top1": 0.7516, "top5": 0.92}, atol=atol)
    assert (stage.verdict, stage.method) == (verdict, f"the user's tolerance: atol {atol:g}")
    assert [(p.ratio, p.granted.atol) for p in stage.pairs] == [(None, atol)] * 2
    assert stage.worst.key == "top1"


@pytest.mark.parametrize("options", [{"atol": -1.0}, {"rtol": float("nan")}])
def test_an_impossible_tolerance_is_refused(files, options):
    with pytest.raises(UsageError):
        files({"x": X}, {"x": X}, **options)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_diverge(files, wrong):
    spoilt = np.where(np.arange(50) == 3, wrong, X)
    for sides in ((X, spoilt), (spoilt, X), (spoilt, np.where(np.arange(50) == 4, wrong, X))):
        stage = files({"x": sides[0]}, {"x": sides[1]})
        assert stage.verdict == DIVERGED
        assert stage.pairs[0].ratio == np.inf
    assert files({"x": spoilt}, {"x": spoilt}).verdict == ALIGNED


def test_missing_and_extra_entries_diverge(files):
    stage = files({"a": X, "b": X}, {"b": X, "c": X})
    assert verdicts(stage) == {"a": DIVERGED, "b": ALIGNED, "c": DIVERGED}
    assert [p.notes for p in stage.pairs if p.verdict == DIVERGED] == [["missing in the candidate"], ["missing in the reference"]]
    assert stage.divergence.pair.key == "a"


def test_nested_entries_are_named_by_their_path(files):
    nested = {"grad": {"conv": {"weight": X32}, "fc": [X32, (1, 2.5)]}, "names": ["a", "b"], 3: np.arange(2), "none": None}
    stage = files(nested, nested)
    assert list(verdicts(stage)) == ["grad.conv.weight", "grad.fc.0", "grad.fc.1.0", "grad.fc.1.1", "names.0", "names.1", "3"]
    assert stage.verdict == ALIGNED
    changed = {**nested, "grad": {**nested["grad"], "conv": {"weight": X32 * 2}}, "names": ["a", "c"]}
    assert [p.key for p in files(nested, changed).pairs if p.verdict == DIVERGED] == ["grad.conv.weight", "names.1"]


def test_a_plain_array_has_a_name(files):
    assert verdicts(files(X32, X32 * 2)) == {"array": DIVERGED}


def test_integers_booleans_and_texts_are_exact(files):
    assert (
        files({"n": np.array([1 << 60]), "b": np.array([True])}, {"n": np.array([(1 << 60) + 1]), "b": np.array([True])}).verdict
        == DIVERGED
    )
    assert verdicts(files({"t": "cat", "n": np.arange(3)}, {"t": "dog", "n": np.arange(3)})) == {"t": DIVERGED, "n": ALIGNED}


def test_a_text_against_an_array_diverges(files):
    assert files({"x": "1.0"}, {"x": np.array(1.0)}).pairs[0].notes == ["text against a tensor of type float64"]


def test_shapes_that_differ_by_ones_are_comparable_and_told_others_diverge(files):
    stage = files({"x": np.float32(1.5), "y": X32}, {"x": np.array([1.5], np.float32), "y": X32.reshape(5, 10)})
    assert verdicts(stage) == {"x": ALIGNED, "y": DIVERGED}
    assert stage.pairs[0].notes == ["shape () against (1,)"]
    assert "shape (50,) against (5, 10)" in stage.pairs[1].notes


def test_a_transposed_array_is_recognised_and_not_accepted(files):
    matrix = X32.reshape(5, 10)
    pair = files({"w": matrix}, {"w": matrix.T}).pairs[0]
    assert pair.verdict == DIVERGED
    assert any("the candidate's values are the reference's" in n for n in pair.notes)


def test_nothing_to_compare_is_not_tested(files):
    for empty in ({}, {"x": None}, {"x": np.zeros((0, 3))}):
        stage = files(empty, empty)
        assert (stage.verdict, stage.notes) == (NOT_TESTED, ["nothing was compared"])


def test_what_cannot_be_compared_is_named(files, tmp_path):
    with pytest.raises(UnsupportedTensor, match="an entry of type bytes cannot be compared") as caught:
        files({"a": {"raw": b"x"}}, {"a": {"raw": b"x"}})
    assert caught.value.where == f"{tmp_path / 'reference.npy'}: a.raw"


def test_an_array_of_texts_is_named(files, tmp_path):
    with pytest.raises(UnsupportedTensor) as caught:
        files({"names": np.array(["a", "b"])}, {"names": np.array(["a", "b"])})
    assert caught.value.where == f"{tmp_path / 'reference.npy'}: names"


def test_entries_whose_paths_are_the_same_are_both_compared(files):
    def both(first):
        return {"a.b": first, "a": {"b": X32}, 1: first, "1": X32}

    assert files(both(X32), both(X32 * 2)).verdict == DIVERGED


def test_archives_of_arrays_are_files_too(tmp_path):
    np.savez(tmp_path / "a.npz", x=X32, y=np.arange(3))
    save_foreign(tmp_path / "b.npy", {"x": X32, "y": np.arange(3)})
    assert compare(tmp_path / "a.npz", tmp_path / "b.npy").verdict == ALIGNED


# -- files that cannot be read -------------------------------------------------------------------------------------------------


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.system, (f"touch {self.path}",)


def test_a_malicious_pickle_is_refused_by_name_and_not_run(tmp_path):
    np.save(tmp_path / "good.npy", np.array({"x": X}, dtype=object))
    np.save(tmp_path / "bad.npy", np.array({"x": Payload(tmp_path / "owned")}, dtype=object))
    for sides in (("good.npy", "bad.npy"), ("bad.npy", "good.npy")):
        with pytest.raises(UnsafeFile, match=r"posix\.system|nt\.system") as caught:
            compare(*(tmp_path / s for s in sides))
        assert str(tmp_path / "bad.npy") in caught.value.where
    assert not (tmp_path / "owned").exists()
    np.load(tmp_path / "bad.npy", allow_pickle=True)  # the payload is real
    assert (tmp_path / "owned").exists()


@pytest.mark.parametrize("cut", [0, 5, 9, 60, 130, -1])
def test_a_truncated_file_is_told(tmp_path, cut):
    save_foreign(tmp_path / "good.npy", {"x": X})
    content = (tmp_path / "good.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:cut])
    with pytest.raises(CaptureFormatError) as caught:
        compare(tmp_path / "good.npy", tmp_path / "cut.npy")
    assert str(tmp_path / "cut.npy") in caught.value.where


def test_what_is_not_there_or_of_another_kind_is_told(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "notes.txt").write_text("no arrays")
    capture(tmp_path / "c", [("x", X, {})])
    with pytest.raises(UsageError, match="there is no such file or folder") as caught:
        compare(tmp_path / "x.npy", tmp_path / "nowhere.npy")
    assert caught.value.where == str(tmp_path / "nowhere.npy")
    for sides in (("x.npy", "c"), ("c", "x.npy")):
        with pytest.raises(UsageError, match="a capture cannot be compared with a file"):
            compare(*(tmp_path / s for s in sides))
    with pytest.raises(CaptureFormatError, match=r"the file is neither \.npy nor \.npz"):
        compare(tmp_path / "x.npy", tmp_path / "notes.txt")


# -- captures ------------------------------------------------------------------------------------------------------------------


def capture(folder, rows, *, stage="data", complete=True, **settings):
    """A capture of (name, value, fields) rows."""
    manifest = Manifest(stage=stage, settings=settings)
    writer = CaptureWriter(folder, manifest)
    for name, value, fields in rows:
        writer.add(name, value, **{"role": "output", **fields})
    writer._finish(complete=complete)
    return folder


def forward(folder, scale=1.0, runs=(NATIVE, DOUBLE), failed=None, noise=1e-6, **options):
    values = {NATIVE: (X * scale * (1 + noise)).astype(np.float32), DOUBLE: X * scale}
    module = ("fc", X * 9, {"run": runs[-1], "attrs": {"module": True}})
    rows = [module, *(("output", values[run], {"run": run}) for run in runs)]
    return capture(folder, rows, stage="forward", answer={"runs": list(runs), "failed": failed or {}}, **options)


@pytest.fixture
def both(tmp_path):
    def of(reference, candidate):
        (stage,) = compare(reference(tmp_path / "a"), candidate(tmp_path / "b")).stages
        return stage

    return of


def test_captures_with_their_noise_are_judged_by_it(both):
    for scale, verdict in ((1 + 5e-7, ALIGNED), (1 + 1e-4, DIVERGED)):
        stage = both(lambda p: forward(p / str(scale)), lambda p: forward(p / str(scale), scale))  # noqa: B023 - called at once
        assert (stage.name, stage.method, stage.verdict) == ("forward", "float64", verdict)
        assert [(p.key, p.judged) for p in stage.pairs] == [("module fc", False), ("output", True)]
        assert stage.pairs[1].noise.value == pytest.approx(1e-6, rel=0.1)


def test_a_candidate_that_computes_lower_is_judged_as_kindly_as_by_check(both):
    output = ("output", (X * (1 + 5e-6)).astype(np.float32), {"run": DOUBLE})
    answer = {"runs": [NATIVE, DOUBLE], "failed": {}}
    stage = both(forward, lambda p: capture(p, [output, ("output", output[1], {"run": NATIVE})], stage="forward", answer=answer))
    assert (stage.method, stage.verdict) == ("float64, partly in lower precision", ALIGNED)


def test_a_candidate_without_float64_is_held_against_the_references(both):
    stage = both(forward, lambda p: forward(p, runs=(NATIVE,), failed={DOUBLE: "E: no"}))
    assert (stage.method, stage.verdict) == ("native against float64", ALIGNED)
    assert stage.notes[0] == "the candidate does not run in float64: E: no"


def test_without_a_measured_noise_captures_are_judged_like_files(both):
    native = {"runs": (NATIVE,), "failed": {DOUBLE: "E: no"}, "noise": 0.0}
    assert both(lambda p: forward(p, **native), lambda p: forward(p, 1 + 1e-4, **native)).verdict == UNDERPOWERED


def test_captures_of_perturbed_runs_are_judged_by_them(both):
    def perturbed(folder, scale=1.0):
        runs = {run: (X * scale * (1 + 1e-5 * n)).astype(np.float32) for n, run in enumerate((NATIVE, *PERTURBED))}
        return capture(
            folder, [("output", v, {"run": r}) for r, v in runs.items()], stage="forward", answer={"runs": list(runs), "failed": {}}
        )

    for scale, verdict in ((1 + 2e-4, ALIGNED), (1 + 5e-4, DIVERGED)):
        stage = both(lambda p: perturbed(p / str(scale)), lambda p: perturbed(p / str(scale), scale))  # noqa: B023 - called at once
        assert (stage.method, stage.verdict) == ("perturbation", verdict)


def test_captures_without_runs_are_judged_like_files(both):
    rows = [("sample_0", X32, {"leaf": "0"}), ("sample_0", np.arange(3), {"leaf": "1"}), ("name", "cat", {})]
    stage = both(lambda p: capture(p, rows), lambda p: capture(p, [("sample_0", X32 * np.float32(1.001), {"leaf": "0"}), *rows[1:]]))
    assert (stage.name, verdicts(stage)) == ("data", {"sample_0.0": UNDERPOWERED, "sample_0.1": ALIGNED, "name": ALIGNED})


def test_a_capture_without_a_stage_is_called_so(both):
    assert both(*[lambda p: capture(p, [("x", X, {})], stage="")] * 2).name == "capture"


def test_records_of_one_side_and_other_names_are_told(both):
    stage = both(lambda p: capture(p, [("a", X, {}), ("b", X, {})]), lambda p: capture(p, [("a", X, {})]))
    assert verdicts(stage) == {"a": ALIGNED, "b": DIVERGED}


def test_bfloat16_is_compared_by_its_values(tmp_path):
    low = Typed(np.array([0x3F80, 0x4000], np.uint16), "bfloat16")
    near = Typed(np.array([0x3F81, 0x4000], np.uint16), "bfloat16")
    capture(tmp_path / "a", [("x", low, {})])
    capture(tmp_path / "b", [("x", near, {})])
    (pair,) = compare(tmp_path / "a", tmp_path / "b").stages[0].pairs
    assert (pair.verdict, pair.stats.max_abs) == (ALIGNED, 2.0**-7)


def test_values_that_were_not_kept_are_not_tested(both):
    stage = both(*[lambda p: capture(p, [("x", X, {"keep": False})])] * 2)
    assert stage.verdict == NOT_TESTED
    assert stage.pairs[0].notes == ["the values of the reference were not kept", "the values of the candidate were not kept"]


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_an_incomplete_capture_is_warned_about_and_compared(tmp_path, side):
    for name in ("reference", "candidate"):
        capture(tmp_path / name, [("x", X, {})], complete=name != side)
    (stage,) = compare(tmp_path / "reference", tmp_path / "candidate").stages
    assert (stage.verdict, verdicts(stage)) == (ALIGNED, {"x": ALIGNED})
    assert stage.warnings == [f"the {side}'s capture is incomplete: its run was interrupted; what is there was compared"]


def test_of_a_forward_that_was_killed_what_is_there_is_compared(tmp_path):
    forward(tmp_path / "a")
    killed = forward(tmp_path / "b", complete=False)
    manifest = killed / "manifest.json"
    import json

    content = json.loads(manifest.read_text())
    del content["settings"]["answer"]  # it is set when the job is done
    manifest.write_text(json.dumps(content))
    (stage,) = compare(tmp_path / "a", tmp_path / "b").stages
    assert [p.key for p in stage.pairs if p.judged] == ["output"]


def test_a_folder_that_is_no_capture_and_damaged_ones_are_told(tmp_path):
    good = capture(tmp_path / "good", [("x", X, {})])
    (tmp_path / "empty").mkdir()
    records = capture(tmp_path / "records", [("x", X, {})])
    (records / "records.jsonl").write_text("{}\n")
    shard = capture(tmp_path / "shard", [("x", X, {})])
    path = next((shard / "shards").iterdir())
    path.write_bytes(path.read_bytes()[:-8])
    for folder, told in (("empty", "is not a capture"), ("records", "line 1 is damaged"), ("shard", "truncated|damaged|bytes")):
        with pytest.raises(CaptureFormatError, match=told):
            compare(good, tmp_path / folder)


# -- the public name -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    ["import paralign.comparison", "from paralign import check", "from paralign import Side, check, compare", "import paralign.api"],
)
def test_compare_is_the_function_whatever_was_imported_before(first):
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\nimport paralign\nassert callable(paralign.compare), paralign.compare"], check=False
    )
    assert done.returncode == 0


def test_the_function_is_reachable():
    assert importlib.import_module("paralign.api").compare is compare


# -- the files that the guide publishes ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
def test_published_losses_have_the_published_differences():
    (stage,) = compare(PUBLISHED / "losses_ref.npy", PUBLISHED / "losses_paddle.npy").stages
    lines = (PUBLISHED / "backward_diff.log").read_text().splitlines()
    told = {lines[n].split("INFO: ")[1].strip().rstrip(":"): float(lines[n + 1].rsplit("value: ", 1)[1]) for n in range(0, 12, 2)}
    assert list(told) == ["loss_0", "lr_0", "loss_1", "lr_1", "loss_2", "lr_2"]
    assert {p.key: p.stats.mean_abs for p in stage.pairs} == pytest.approx(told, rel=1e-12)
    assert {p.key for p in stage.pairs if p.verdict == ALIGNED} == set(told)  # by reprod_log's threshold the losses of a good port fail


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
def test_published_outputs_have_the_difference_that_the_guide_prints():
    (stage,) = compare(PUBLISHED / "forward_ref.npy", PUBLISHED / "forward_paddle.npy").stages
    (pair,) = stage.pairs
    assert pair.key == "logits"
    assert pair.stats.mean_abs == pytest.approx(2.308018565599923e-06, rel=1e-5)
    assert pair.verdict == ALIGNED
