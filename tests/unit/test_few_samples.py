"""Which samples of a batch a divergence is located on: two, where each is wrong by itself and none depends on the others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.locate.laboratory import few_samples as room
from paralign.locate.laboratory.few_samples import few_samples
from paralign.model import Manifest
from paralign.run import inputs as given
from paralign.run import samples
from paralign.run.turns import turn

SIZE = 6
X = np.random.default_rng(0).normal(size=(SIZE, 3))
Y = np.random.default_rng(1).normal(size=(SIZE, 5))


def forward(folder, outputs, *, failed=False):
    """A forward capture with outputs in float64, and one large module natively."""
    settings = {"answer": {"runs": ["native"] if failed else ["float64", "native"], "failed": {}}}
    with CaptureWriter(folder, Manifest(side=folder.name, stage="forward", settings=settings)) as writer:
        writer.add("layer", np.zeros((SIZE, 8), "float32"), run="native", role="output", keep=False, attrs={"module": True})
        for leaf, value in outputs.items():
            writer.add("output", value, run="float64", role="output", leaf=leaf)
    return Capture.open(folder)


def watched(folder, value, random=()):
    """A capture of a watched pass whose output is a value, with what it draws."""
    with CaptureWriter(folder, Manifest(side=folder.name, stage="operations")) as writer:
        number = writer.add("", value, run="float64", role="output", digest=moments(value), attrs={"operation": "add"}).id
        writer.manifest.settings["operations"] = {"float64": {"outputs": {"": number}, "random": list(random)}}
        writer.manifest.settings["answer"] = {"runs": ["float64"], "failed": {}}
    return Capture.open(folder)


def context(tmp_path, own, *, x=X, due=None, failed=False):
    """A check whose outputs are Y on the reference, ``own`` on the candidate."""
    sides = [SimpleNamespace(folder=tmp_path / name, instead={}) for name in ("reference", "candidate")]
    due = {"": Y} if due is None else due
    own = own if isinstance(own, dict) else {"": own}
    captures = (forward(tmp_path / "one", due), forward(tmp_path / "two", own, failed=failed))
    inputs = given.save(tmp_path / "inputs", "inputs", x)
    return SimpleNamespace(inputs=inputs, artifacts={"forward": captures}, reference=sides[0], candidate=sides[1])


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(room, "LARGE", SIZE * 8 * 4)


def test_the_two_samples_that_are_wrong_most_are_taken_in_their_order(tmp_path):
    errors = np.array([1.0, 5.0, 1.0, 9.0, 2.0, 1.0])[:, None]
    few = few_samples(context(tmp_path, Y * (1 + 0.01 * errors)))
    assert (few.rows, few.size) == ((1, 3), SIZE)
    record = few.inputs.select(name="inputs")[0]
    assert np.array_equal(few.inputs.array(record), X[[1, 3]])
    assert few.inputs.manifest.settings["key"].endswith("samples 1,3")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"own": Y * np.where(np.arange(SIZE) == 4, 1.0, 1.01)[:, None]}, id="a sample is right"),
        pytest.param({"own": Y * (1 + np.where(np.arange(SIZE) == 4, 1e-9, 0.01))[:, None]}, id="a sample is wrong by far less"),
        pytest.param({"own": np.where(np.arange(SIZE)[:, None] == 4, np.nan, Y * 1.01)}, id="a sample is no number"),
        pytest.param({"own": Y}, id="nothing is wrong"),
        pytest.param({"own": Y[:, :4] * 1.01}, id="another shape"),
        pytest.param({"own": {"": Y * 1.01, "more": Y}}, id="an output more"),
        pytest.param({"own": (Y * 1.01).sum(), "due": {"": Y.sum()}}, id="one number for all"),
        pytest.param({"own": Y * 1.01, "x": X[:5]}, id="inputs of another size"),
        pytest.param({"own": Y * 1.01, "x": (X, X[0])}, id="an input without samples"),
        pytest.param({"own": Y * 1.01, "failed": True}, id="no float64"),
        pytest.param({"own": Y * 1.01, "due": {"": np.where(np.arange(SIZE)[:, None] == 4, 0.0, Y)}}, id="a sample of zeros"),
    ],
)
def test_all_samples_are_taken_where_two_may_not_show_what_all_show(tmp_path, changed):
    assert few_samples(context(tmp_path, **changed)) is None


def test_all_samples_are_taken_of_a_small_model(tmp_path, monkeypatch):
    check = context(tmp_path, Y * 1.01)
    assert few_samples(check) is not None
    monkeypatch.setattr(room, "LARGE", SIZE * 8 * 4 + 1)
    assert few_samples(check) is None


def test_all_samples_are_taken_where_leaving_some_out_is_not_worth_while(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "LEAST", SIZE + 1)
    assert few_samples(context(tmp_path, Y * 1.01)) is None


def test_all_samples_are_taken_where_a_side_reads_batches_of_its_own(tmp_path):
    check = context(tmp_path, Y * 1.01)
    check.candidate.instead["inputs"] = check.inputs
    assert few_samples(check) is None


def test_samples_that_depend_on_the_others_are_seen(tmp_path):
    own = Y * 1.01
    few = few_samples(context(tmp_path, own))
    rows = list(few.rows)
    right = watched(tmp_path / "right", Y[rows]), watched(tmp_path / "also", own[rows])
    assert few.are_apart(right)
    assert not few.are_apart((right[0], watched(tmp_path / "mixed", own[rows] - own[rows].mean())))
    assert not few.are_apart((watched(tmp_path / "other", Y[rows] - Y[rows].mean()), right[1]))


def test_samples_are_taken_from_every_input(tmp_path):
    inputs = given.save(tmp_path / "inputs", "inputs", {"x": X, "mask": np.arange(SIZE)})
    few = samples.taken(inputs, [0, 5], tmp_path / "few")
    assert samples.batch_size(few) == 2
    assert {r.leaf: few.array(r).tolist() for r in few.select(name="inputs", leaf="mask")} == {"mask": [0, 5]}
    assert few.manifest.settings["trees"] == inputs.manifest.settings["trees"]


def test_all_samples_are_taken_of_live_objects(tmp_path):
    check = context(tmp_path, Y * 1.01)
    with turn():
        assert few_samples(check) is None
    assert few_samples(check) is not None


#: what each sample of a candidate is off by
OFF = 0.01 * np.where(np.isin(np.arange(SIZE), [1, 3]), 1.0, 0.9)[:, None]

DRAW = {"number": 0, "op": "randn", "module": "", "source": None, "family": "normal", "p": None, "shape": [3], "name": "", "given": None}


class Passes:
    """Stands for the watching of both sides: all samples can be watched; of two, ``two`` is what the sides give, None where they fail."""

    def __init__(self, folder, two, random=()):
        self.folder, self.two, self.random, self.sizes = folder, two, random, []

    def __call__(self, check, order, given):
        size = samples.batch_size(given["inputs"])
        self.sizes.append(size)
        if size < SIZE and self.two is None:
            raise WorkerFailed("ValueError", "cannot reshape", side="reference")
        values = self.two if size < SIZE else (Y, Y * (1 + OFF))
        random = () if size < SIZE else self.random
        pair = [watched(self.folder / f"{len(self.sizes)} {side}", value, random) for side, value in enumerate(values)]
        return SimpleNamespace(reference=pair[0], candidate=pair[1])


ALIKE, OTHERS = (Y[[1, 3]], (Y * (1 + OFF))[[1, 3]]), (Y[[1, 3]] - Y[[1, 3]].mean(), (Y * (1 + OFF))[[1, 3]])


@pytest.fixture
def check(tmp_path):
    found = context(tmp_path, Y * (1 + OFF))
    found.observed, found.inseparable = True, None
    return found


@pytest.fixture
def searched(monkeypatch):
    """The number of samples of every search."""
    sizes = []

    def search(seen, **_):
        sizes.append(seen.reference.records[0].shape[0])
        return pipeline.Searched([SimpleNamespace(confirmed=True, hidden=False)])

    monkeypatch.setattr(pipeline, "_searched", search)
    return sizes


@pytest.mark.parametrize(("two", "sizes"), [(ALIKE, [2]), (None, [2, SIZE]), (OTHERS, [2, SIZE])])
def test_all_samples_are_searched_where_two_cannot_be_run_or_give_other_outputs(tmp_path, monkeypatch, check, searched, two, sizes):
    passes = Passes(tmp_path, two)
    monkeypatch.setattr(pipeline, "Watched", passes)
    pipeline.forward(check, diverged=True)
    assert (searched, passes.sizes) == (sizes[-1:], sizes)


@pytest.mark.parametrize(("two", "nothing"), [(ALIKE, True), (None, False), (OTHERS, False)])
def test_all_samples_are_asked_whether_they_draw_where_two_do_not_tell(tmp_path, monkeypatch, check, two, nothing):
    monkeypatch.setattr(pipeline, "Watched", Passes(tmp_path, two, [DRAW]))
    assert pipeline._draws_nothing(check) is nothing


def test_two_samples_that_did_not_do_are_tried_again_after_another_forward_pass_alone(tmp_path, monkeypatch, check, searched):
    passes = Passes(tmp_path, None)
    monkeypatch.setattr(pipeline, "Watched", passes)
    assert pipeline._draws_nothing(check)
    pipeline.forward(check, diverged=True)
    assert passes.sizes.count(2) == 1
    check.artifacts["forward"] = (*check.artifacts["forward"][:1], forward(tmp_path / "three", {"": Y * (1 + OFF)}))
    pipeline.forward(check, diverged=True)
    assert passes.sizes.count(2) == 2
    assert searched == [SIZE, SIZE]
