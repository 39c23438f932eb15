"""A stage of several parts of which one fails: the others keep their verdicts; arguments and groups that have no name."""

from __future__ import annotations

import io

import numpy as np
import pytest

from paralign.api import check
from paralign.locate.source.argument_names import NAMES, named
from paralign.model import ALIGNED, DIVERGED, ERROR, CheckResult, Side, Tolerance
from paralign.report.text import render
from paralign.report.told import told
from paralign.stages.steps import rate_schedules
from paralign.stages.steps.rate_schedules import Followed

X = np.random.RandomState(0).randn(2, 3).astype("float32")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def predict(path, model):
    import torch

    return model(torch.from_numpy(np.loadtxt(path, dtype="float32", ndmin=2)))


def wrong(path, model):
    return predict(path, model) * 1.01


def fails(*_):
    raise RuntimeError("the exporter does not know this operator")


def written(torch):
    def export(model, path):
        torch.export.save(torch.export.export(model, (torch.from_numpy(X),)), f"{path}.pt2")
        return f"{path}.pt2"

    return export


def inferred(torch, tmp_path, reference, candidate):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).eval()
    (tmp_path / "x.txt").write_text("1 2 3\n")
    sides = [Side(framework="torch", model=model, **functions) for functions in (reference, candidate)]
    return check(*sides, inputs=X, stages=["infer"], paths=[str(tmp_path / "x.txt")]).stages[-1]


def shown(stage):
    from rich.console import Console

    out = io.StringIO()
    Console(width=200, file=out).print(render(CheckResult(stages=[stage])))
    return out.getvalue()


def verdicts(stage):
    return {pair.key: pair.verdict for pair in stage.pairs}


def test_an_export_that_fails_leaves_the_predictions_their_verdict(torch, tmp_path):
    stage = inferred(torch, tmp_path, {"predict": predict}, {"predict": predict, "export": fails})
    assert stage.verdict == ERROR, "a part that failed is never aligned"
    assert verdicts(stage) == {"predict_0": ALIGNED, "candidate's export": ERROR}
    text = shown(stage)
    assert "the candidate failed: RuntimeError: the exporter does not know this operator" in text
    assert "test_stages_parts.py" in text
    rows = {row[0]: row[1] for row in stage.tables[0].rows}
    assert rows == {"predictions": ALIGNED, "candidate's export": ERROR}
    sentence = told(CheckResult(stages=[stage]).to_dict()).stages[0].sentence
    assert "the exporter does not know this operator" in sentence


def test_predictions_that_differ_stay_diverged_whatever_else_fails(torch, tmp_path):
    stage = inferred(torch, tmp_path, {"predict": predict, "export": fails}, {"predict": wrong})
    assert stage.verdict == DIVERGED
    assert verdicts(stage) == {"predict_0": DIVERGED, "reference's export": ERROR}
    assert stage.divergence is not None


def test_a_prediction_that_fails_leaves_the_export_its_verdict(torch, tmp_path):
    stage = inferred(torch, tmp_path, {"predict": predict}, {"predict": fails, "export": written(torch)})
    assert stage.verdict == ERROR
    found = verdicts(stage)
    assert found.pop("candidate's predict") == ERROR
    assert found
    assert set(found.values()) == {ALIGNED}
    assert "it failed for " in stage.pairs[-1].notes[0]


def test_where_nothing_fails_there_is_no_table_of_parts(torch, tmp_path):
    stage = inferred(torch, tmp_path, {"predict": predict}, {"predict": predict, "export": written(torch)})
    assert (stage.verdict, stage.tables, stage.failure) == (ALIGNED, [], None)


# -- arguments --------------------------------------------------------------------------------------------------------------------------


def test_arguments_by_position_are_named_or_counted():
    assert named("label_smooth", {"2": 0.1}) == {"epsilon": 0.1}
    assert named("clip_", {"min": 0}) == {"min": 0}
    assert named("squeeze_", {"1": [0]}) == {"axis": [0]}
    assert named("no_such_operation", {"5": 0}) == {"argument 6": 0}
    assert named("prod", {"9": 1}) == {"argument 10": 1}


def test_names_of_operations_that_a_run_records_by_position():
    paddle = pytest.importorskip("paddle")
    from paralign.adapters._paddle_operations import _ARGUMENTS

    assert not set(NAMES) & (set(_ARGUMENTS) - {"instance_norm"}), "these are named where they are recorded"
    unknown = [op for op in NAMES if not hasattr(paddle._C_ops, op)]
    assert unknown == []


# -- groups of rates ----------------------------------------------------------------------------------------------------------------------


def followed(rates):
    record = type(
        "R",
        (),
        {"name": "schedule", "key": "schedule", "text": None, "dtype": "float64", "shape": (1,), "role": "scalar", "location": None},
    )
    return Followed(np.array(rates, np.float64), record, True, "", None, "StepLR")  # fmt: skip


def test_schedules_of_other_groups_have_an_error_nonetheless():
    from paralign.model import StageResult

    result = StageResult("optimizer")
    both = followed([[0.1, 0.01], [0.01, 0.001]]), followed([[0.1], [0.1]])
    found = rate_schedules.compared(result, both, Tolerance(), "step")
    assert found is not None
    assert result.pairs[0].error == pytest.approx(9.0), "0.1 for 0.01, the nearest"
    same = rate_schedules.compared(result, (both[0], followed([[0.1], [0.01]])), Tolerance(), "step")
    assert same is None
    assert result.pairs[-1].error == 0


def test_groups_of_rates_that_one_side_has_alone_are_not_the_worst_tensor(torch):
    def grouped(parameters):
        first, *rest = list(parameters)
        return torch.optim.SGD([{"params": [first], "lr": 0.01}, {"params": rest}], lr=0.1)

    def single(parameters):
        return torch.optim.SGD(parameters, lr=0.2)

    def build():
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2)

    loss = torch.nn.functional.cross_entropy
    sides = [Side(framework="torch", model=build(), loss=loss, optimizer=optimizer) for optimizer in (grouped, single)]
    stage = check(*sides, inputs=X, labels=np.array([0, 1]), stages=["backward"])["backward"]
    assert stage.verdict == DIVERGED
    assert stage.worst.error not in (None, float("inf"))
    lonely = [pair for pair in stage.pairs if pair.key.startswith("lr_") and None in (pair.reference, pair.candidate)]
    assert lonely
    assert not any(pair.judged for pair in lonely)
