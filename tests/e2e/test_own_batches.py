"""Each side's own step on the first batch of its own loader, with nothing cast: element types that a program does not take."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

X = np.random.default_rng(0).standard_normal((12, 6)).astype("float32")
Y = np.random.default_rng(1).integers(0, 3, 12)

STAGES = ["data", "metric", "loss", "backward"]


def reference():
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def port():
    return paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def ported_sgd(model):
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())


def step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return {"loss": float(loss.detach())}


def ported_step(model, optimizer, batch):
    loss = paddle.nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(loss)}


def casting_step(model, optimizer, batch):
    return ported_step(model, optimizer, (batch[0].astype("float32"), batch[1].astype("int64")))


def loader(images, labels, make):
    """Batches of four of the element types given, whatever the split."""

    def build(split):
        return [(make(X[i : i + 4].astype(images)), make(Y[i : i + 4].astype(labels))) for i in (0, 4, 8)]

    return build


def as_arrays(value):
    return value


def accuracy(outputs, labels):
    return (outputs.argmax(-1) == labels).to(torch.float32).mean()


def ported_accuracy(outputs, labels):
    return (outputs.argmax(-1) == labels).astype("float32").mean()


def cross_entropy(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs, labels)


def ported_cross_entropy(outputs, labels):
    return paddle.nn.functional.cross_entropy(outputs, labels)


REFERENCE = {
    "build_model": reference,
    "build_optimizer": sgd,
    "train_step": step,
    "build_dataloader": loader("float32", "int64", torch.from_numpy),
    "metric": accuracy,
    "loss": cross_entropy,
}

PORT = {
    "build_model": port,
    "build_optimizer": ported_sgd,
    "train_step": ported_step,
    "build_dataloader": loader("float32", "int64", paddle.to_tensor),
    "metric": ported_accuracy,
    "loss": ported_cross_entropy,
}


def checked(theirs=None, ours=None, without=(), stages=STAGES):
    sides = [{**REFERENCE, **(theirs or {})}, {**PORT, **(ours or {})}]
    functions = [{name: f for name, f in side.items() if name not in without} for side in sides]
    return check(
        Side(framework="torch", functions=functions[0]),
        Side(framework="paddle", functions=functions[1]),
        inputs=X[:4],
        labels=Y[:4],
        stages=stages,
    )


def counted(stage):
    return [str(part) for part in stage.coverage]


def test_a_loader_that_gives_what_its_step_does_not_take_is_a_fault_with_its_line():
    result = checked(ours={"build_dataloader": loader("float64", "int64", paddle.to_tensor)})
    backward, data, metric = result["backward"], result["data"], result["metric"]
    assert any("which gives batch[0] in float64 for float32" in finding.cause for finding in metric.findings)
    assert backward.verdict == data.verdict == DIVERGED
    for stage in (backward, data):
        (finding,) = [f for f in stage.findings if f.rule == "own_batch/element-type"]
        assert finding.proven
        assert "gives batch[0] in float64 for float32" in finding.cause
        assert stage.divergence.candidate.source.startswith(f"{__file__}:")
    assert any("train_step of the candidate failed with" in warning for warning in backward.warnings)
    assert "3 batches in float64 for float32" in counted(data)
    assert metric.verdict == ERROR
    assert metric.failure["side"] == "candidate"


def test_a_type_that_the_step_casts_is_a_remark_in_the_row_of_data():
    more = {"build_dataloader": loader("float64", "int32", paddle.to_tensor), "train_step": casting_step}
    result = checked(ours=more, stages=["data", "loss", "backward"])
    assert [stage.verdict for stage in result.stages if stage.name != "weights"] == [ALIGNED] * 3
    assert {"3 batches in float64 for float32", "3 batches in int32 for int64"} <= set(counted(result["data"]))
    assert any(note.startswith("each side's own train_step") and "takes its element types" in note for note in result["data"].notes)


def test_an_evaluation_that_one_side_cannot_do_is_not_aligned_where_its_step_prepares_batches():
    more = {"build_dataloader": loader("float64", "int32", paddle.to_tensor), "train_step": casting_step}
    metric = checked(ours=more)["metric"]
    assert metric.verdict == UNDERPOWERED
    assert any("the candidate's own evaluation failed with" in warning for warning in metric.warnings)


def cast_step(model, optimizer, batch):
    return step(model, optimizer, (batch[0].float(), batch[1].long()))


def test_batches_that_both_steps_prepare_are_not_given_to_the_models_as_they_are():
    wide = [{"build_dataloader": loader("float64", "int64", make)} for make in (torch.from_numpy, paddle.to_tensor)]
    theirs, ours = {**wide[0], "train_step": cast_step}, {**wide[1], "train_step": casting_step}
    result = checked(theirs, ours)
    assert [stage.verdict for stage in result.stages] == [ALIGNED] * 4, [(s.name, s.verdict, s.failure) for s in result.stages]
    assert any("does not take its loader's batches as they are" in note for note in result["metric"].excused)
    wrong = checked(theirs, {**ours, "metric": lambda outputs, labels: ported_accuracy(outputs, labels) / 2})
    assert wrong["metric"].verdict == DIVERGED
    assert checked(wide[0], wide[1], stages=["metric"])["metric"].verdict == ERROR


def test_without_a_training_step_the_model_and_the_loss_take_the_batch():
    result = checked(ours={"build_dataloader": loader("float64", "int64", paddle.to_tensor)}, without=("train_step",))
    assert result["loss"].verdict == result["backward"].verdict == result["data"].verdict == DIVERGED
    assert "loss of the candidate fails" in result["loss"].findings[0].cause
    right = checked(without=("train_step",))
    assert [stage.verdict for stage in right.stages] == [ALIGNED] * 4


def test_a_step_that_fails_for_no_type_is_told_as_a_failure():
    def refusing(model, optimizer, batch):
        if float(batch[0].sum()) != pytest.approx(float(X[:4].sum()), rel=1e-3):
            raise LookupError("these images are not known")
        return ported_step(model, optimizer, batch)

    def shifted(split):
        return [(paddle.to_tensor(X[4:8]), paddle.to_tensor(Y[4:8]))]

    backward = checked(ours={"build_dataloader": shifted, "train_step": refusing}, stages=["backward"])["backward"]
    assert backward.verdict == ERROR
    assert (backward.failure["side"], backward.failure["type"]) == ("candidate", "LookupError")
    assert backward.findings[0].rule == "own_batch/raised"
    assert not backward.findings[0].proven
    assert "LookupError" in backward.findings[0].cause


def test_a_reference_that_fails_on_its_own_batch_is_named():
    backward = checked(theirs={"build_dataloader": loader("float64", "int64", torch.from_numpy)}, stages=["backward"])["backward"]
    assert backward.verdict == ERROR
    assert backward.failure["side"] == "reference"


def test_loaders_of_arrays_are_given_as_tensors_of_the_same_type():
    arrays = {"build_dataloader": loader("float32", "int64", as_arrays)}
    assert checked(arrays, arrays, stages=["backward"])["backward"].verdict == ALIGNED
    wide = {"build_dataloader": loader("float64", "int64", as_arrays)}
    assert checked(arrays, wide, stages=["backward"])["backward"].verdict == DIVERGED


class Shifted(NamedTuple):
    """The inputs of a model that takes them by name."""

    shift: object
    ids: object


class ByName(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(6, 3)

    def forward(self, *, ids, shift):
        return self.out(ids - 3 * shift)


class InAnyWay(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.out = paddle.nn.Linear(6, 3)

    def forward(self, ids, shift):
        return self.out(ids - 3 * shift)


def test_inputs_in_a_named_tuple_are_handed_over_by_name():
    sides = []
    for own, model, make in ((REFERENCE, ByName, torch.from_numpy), (PORT, InAnyWay, paddle.to_tensor)):
        batch = Shifted(make(X[:4]), make(X[4:8])), make(Y[:4])
        functions = {**own, "build_model": model, "build_dataloader": lambda split, batch=batch: [batch]}  # noqa: ARG005
        del functions["train_step"]
        sides.append(functions)
    found = check(
        Side(framework="torch", functions=sides[0]),
        Side(framework="paddle", functions=sides[1]),
        inputs={"ids": X[4:8], "shift": X[:4]},
        labels=Y[:4],
        stages=["backward"],
    )["backward"]
    assert (found.verdict, found.failure) == (ALIGNED, None)


def test_where_both_sides_fail_alike_nobody_is_accused():
    theirs, ours = ({"build_dataloader": loader("float64", "int64", make)} for make in (torch.from_numpy, paddle.to_tensor))
    assert checked(theirs, ours, stages=["backward"])["backward"].verdict == ALIGNED


def test_a_live_model_and_its_optimizer_are_left_as_they_were():
    model, other = reference(), port()
    kept = copy.deepcopy(model.state_dict()), {name: value.numpy().copy() for name, value in other.state_dict().items()}
    theirs, ours = (
        {"build_model": lambda: model},
        {"build_model": lambda: other, "build_dataloader": loader("float64", "int64", paddle.to_tensor)},
    )
    checked(theirs, ours, stages=["backward"])
    assert all(torch.equal(value, kept[0][name]) for name, value in model.state_dict().items())
    assert all(value.grad is None for value in model.parameters())


@pytest.mark.parametrize(
    "build",
    [lambda split: [], lambda split: iter(()), lambda split: [None], lambda split: 1 / 0, lambda split: [object()]],  # noqa: ARG005
    ids=["empty", "spent", "none", "raises", "no batch"],
)
def test_loaders_that_give_nothing_are_no_fault_of_a_step(build):
    backward = checked({"build_dataloader": build}, {"build_dataloader": build}, stages=["backward"])["backward"]
    assert backward.verdict == ALIGNED, (backward.failure, backward.findings)


def nll(outputs, labels):
    return paddle.nn.functional.nll_loss(paddle.nn.functional.log_softmax(outputs, 1), labels)


def cast_entropy(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs, labels.long())


WHOLE = {
    "reference": {"build_dataloader": loader("float32", "int32", torch.from_numpy), "loss": cast_entropy},
    "candidate": {"build_dataloader": loader("float32", "int32", paddle.to_tensor), "loss": nll},
}


def test_labels_that_only_the_port_refuses_fail_in_its_own_program_too_and_the_type_it_takes_is_told():
    result = checked(WHOLE["reference"], WHOLE["candidate"], without=("train_step",), stages=["metric", "loss", "backward"])
    for name in ("loss", "backward"):
        stage = result[name]
        assert stage.verdict == ERROR
        (finding,) = stage.findings
        assert finding.rule == "own_batch/fails"
        assert finding.proven
        assert "loss of the candidate fails in its own program too" in finding.cause
        assert "loss of the reference takes the first batch of its own, which gives batch[0] in float32, batch[1] in int32" in finding.cause
        assert finding.cause.endswith("With batch[1] in int64 it runs")
        assert finding.fix == "cast batch[1] to int64 in loss, or in the data set"


def test_labels_that_both_cast_are_no_fault():
    ours = {
        **WHOLE["candidate"],
        "loss": lambda o, y: nll(o, y.astype("int64")),
        "metric": lambda o, y: ported_accuracy(o, y.astype("int64")),
    }
    result = checked(WHOLE["reference"], ours, without=("train_step",), stages=["metric", "loss", "backward"])
    assert [stage.verdict for stage in result.stages] == [ALIGNED] * 3


class Marked(paddle.nn.Layer):
    """Marks its outputs, which no file keeps."""

    def __init__(self):
        super().__init__()
        self.inner = port()

    def forward(self, x):
        found = self.inner(x)
        found.mark = "own"
        return found


def marked_accuracy(outputs, labels):
    return ported_accuracy(outputs, labels) if outputs.mark == "own" else 0.0


def test_a_metric_that_takes_its_own_outputs_alone_is_said_to_fail_for_the_check():
    metric = checked(ours={"metric": marked_accuracy, "build_model": Marked}, stages=["metric"])["metric"]
    assert metric.verdict == ERROR
    assert not metric.findings
    assert any(said.endswith("it fails on what the check gives it alone") for said in metric.warnings)


def test_a_metric_that_always_fails_is_said_to_fail_in_its_own_program():
    def broken(outputs, labels):
        raise ValueError(f"no metric of {outputs.shape} and {labels.shape}")

    (finding,) = checked(ours={"metric": broken}, stages=["metric"])["metric"].findings
    assert "metric of the candidate fails in its own program too" in finding.cause
    assert not finding.proven
    assert finding.fix == "mend it there first"
