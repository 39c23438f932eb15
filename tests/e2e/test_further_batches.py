"""What the first batch of a loader does not hold: padding, labels to be ignored, a rare class."""

from __future__ import annotations

import pytest
from tests.e2e.written_projects import checked, line_of

from paralign.model import ALIGNED, DIVERGED, ERROR, Pair, Record
from paralign.stages.loss import further_batches

pytest.importorskip("torch")
pytest.importorskip("paddle")

LOADER = """
    import numpy as np
    WIDTH, CLASSES, PAD, PADDED = 6, 4, 0, (1, 2)

    def build_dataloader(split):
        random, found = np.random.default_rng(3), []
        for number in range(4):
            x = random.standard_normal((5, 7 - number, WIDTH)).astype("float32")  # each as long as its longest text
            y = random.integers(1, CLASSES, x.shape[:2])
            if number in PADDED:
                y[1:, -2:] = PAD
            found.append((tensor(x), tensor(y)))
        return found
"""

REFERENCE = f"""
    import torch
    tensor = torch.as_tensor
{LOADER}
    def build_model():
        return torch.nn.Linear(WIDTH, CLASSES)

    def build_optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(outputs, labels):
        kept = (labels != PAD).to(outputs.dtype)
        each = torch.nn.functional.cross_entropy(outputs.movedim(-1, 1), labels, reduction="none")
        return (each * kept).sum() / kept.sum()
"""

PORT = f"""
    import paddle
    tensor = paddle.to_tensor
{LOADER}
    def build_model():
        return paddle.nn.Linear(WIDTH, CLASSES)

    def build_optimizer(model):
        return paddle.optimizer.SGD(0.1, model.parameters())

    def loss(outputs, labels):
        kept = (labels != PAD).astype(outputs.dtype)
        each = paddle.nn.functional.cross_entropy(outputs, labels.unsqueeze(-1), reduction="none").squeeze(-1)
        return (each * kept).sum() / kept.sum()
"""

STEP = """
    def train_step(model, optimizer, batch):
        optimizer.zero_grad()
        value = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return float(value)
"""

WHOLE, AVERAGED = "(each * kept).sum() / kept.sum()", "(each * kept).mean()"
AVERAGING = PORT.replace(WHOLE, AVERAGED)
FIRST = "kept = (labels != PAD)"
REFUSAL = 'if bool((labels == PAD).any()): raise ValueError("padding is not for this loss")'


def refusing(text):
    """The same program, with a loss that takes no padding."""
    return text.replace(FIRST, f"{REFUSAL}\n        {FIRST}")


def padded(text, numbers):
    """The same program, with padding in other batches."""
    return text.replace("(1, 2)", str(numbers))


def wrong_pairs(result):
    return {pair.key for pair in result.pairs if pair.verdict == DIVERGED}


def batches_of(result):
    return [(c.compared, c.total) for c in result.coverage if c.what == "batches"]


def test_a_right_loss_is_aligned_on_every_batch(tmp_path):
    result = checked(tmp_path, REFERENCE, PORT, "loss")
    assert result.verdict == ALIGNED, result.notes
    assert {p.key for p in result.pairs if p.key.startswith("batch_")} == {f"batch_{n}" for n in range(4)}
    assert batches_of(result) == [(4, 4)]


def test_a_loss_that_counts_padding_is_found_though_the_first_batch_has_none(tmp_path):
    result = checked(tmp_path, REFERENCE, AVERAGING, "loss")
    assert result.verdict == DIVERGED
    assert wrong_pairs(result) == {"batch_1", "batch_2"}
    assert result.divergence.candidate.source.endswith(f"candidate.py:{line_of(AVERAGING, AVERAGED)}")
    assert any("other batches of the loader" in note for note in result.notes)


def test_where_the_last_batch_alone_has_padding_it_is_found_too(tmp_path):
    result = checked(tmp_path, padded(REFERENCE, (3,)), padded(AVERAGING, (3,)), "loss", "[data]\nbatches = 2\n")
    assert wrong_pairs(result) == {"batch_2"}  # of the first two and the last
    assert batches_of(result) == [(3, 4)]
    assert result.divergence.candidate.source.endswith(f"candidate.py:{line_of(AVERAGING, AVERAGED)}")


def test_without_any_padding_the_two_losses_are_equal(tmp_path):
    assert checked(tmp_path, padded(REFERENCE, ()), padded(AVERAGING, ()), "loss").verdict == ALIGNED


def test_a_loss_that_fails_on_a_later_batch_of_one_side_alone(tmp_path):
    result = checked(tmp_path, REFERENCE, refusing(PORT), "loss")
    assert result.verdict == ERROR
    assert "fails on batch 1, the reference's does not" in result.failure["message"]
    assert "padding is not for this loss" in result.failure["message"]


def test_batches_that_both_losses_refuse_are_left_out_and_counted(tmp_path):
    result = checked(tmp_path, refusing(REFERENCE), refusing(PORT), "loss")
    assert result.verdict == ALIGNED, result.notes
    assert [note for note in result.notes if "left out" in note] == [
        f"the reference's loss fails on batch {n} (ValueError: padding is not for this loss): left out" for n in (1, 2)
    ]
    assert batches_of(result) == [(2, 4)]


def test_a_batch_that_the_reference_alone_refuses_is_left_out(tmp_path):
    result = checked(tmp_path, refusing(REFERENCE), AVERAGING, "loss")
    assert result.verdict == ALIGNED, (wrong_pairs(result), result.notes)
    assert batches_of(result) == [(2, 4)]


@pytest.mark.parametrize("which", ["reference", "candidate", "both"])
def test_a_loss_that_differentiates_by_its_outputs(tmp_path, which):
    ours = REFERENCE.replace(
        f"return {WHOLE}",
        f"slope = torch.autograd.grad({WHOLE}, outputs, retain_graph=True)[0]\n        return {WHOLE} + slope.square().sum() * 0.0",
    )
    theirs = PORT.replace(
        f"return {WHOLE}",
        f"slope = paddle.grad({WHOLE}, outputs, retain_graph=True)[0]\n        return {WHOLE} + slope.square().sum() * 0.0",
    )
    sides = ours if which != "candidate" else REFERENCE, theirs if which != "reference" else PORT
    result = checked(tmp_path, *sides, "loss")
    assert result.verdict == ALIGNED, (wrong_pairs(result), result.notes, result.failure)
    assert batches_of(result) == [(4, 4)]


def test_a_loss_that_draws_where_there_is_padding(tmp_path):
    drawing = [
        text.replace(FIRST, f"{FIRST}", 1).replace(
            f"return {WHOLE}", f"drawn = {draw} if bool((labels == PAD).any()) else 0.0\n        return {WHOLE} + drawn"
        )
        for text, draw in ((REFERENCE, "torch.rand(())"), (PORT, "paddle.rand([])"))
    ]
    result = checked(tmp_path, *drawing, "loss")
    assert result.verdict == ALIGNED, (wrong_pairs(result), result.notes)
    assert sum("is random: left out" in note for note in result.notes) == 2
    assert batches_of(result) == [(2, 4)]


def stepping(reference=REFERENCE, port=PORT):
    """Both programs with training steps alone."""
    ported = STEP.replace("optimizer.zero_grad()", "optimizer.clear_grad()")
    return [text.replace("def loss(", "def own(") + step.replace("loss(", "own(") for text, step in ((reference, STEP), (port, ported))]


def test_own_steps_take_the_loaders_batches_in_turn(tmp_path):
    result = checked(tmp_path, *stepping(), "backward")
    assert result.verdict == ALIGNED, (result.notes, result.warnings)


def test_own_steps_that_differ_from_the_second_batch_on(tmp_path):
    result = checked(tmp_path, *stepping(port=AVERAGING), "backward")
    assert result.verdict == DIVERGED
    assert any("the gradients of batch 1 differ, from equal parameters" in f.cause for f in result.findings), result.findings


def test_own_steps_fall_back_to_one_batch_where_a_later_one_cannot_be_taken(tmp_path):
    result = checked(tmp_path, *stepping(refusing(REFERENCE)), "backward")
    assert result.verdict == ALIGNED, (result.notes, result.warnings)
    assert any("fails on a later batch of its loader (ValueError: padding is not for this loss)" in note for note in result.notes)


def test_a_step_of_the_candidate_that_fails_on_a_later_batch_is_an_error(tmp_path):
    result = checked(tmp_path, *stepping(port=refusing(PORT)), "backward")
    assert result.verdict == ERROR
    assert "padding is not for this loss" in result.failure["message"]


@pytest.mark.parametrize(
    ("wrong", "number"),
    [
        (["batch_2", "batch_1"], 1),
        (["batch_11", "probe_ties", "probe_ranked"], 11),
        (["probe_ties"], None),
        (["loss", "batch_1"], None),
        (["gradient", "batch_1", "probe_ties"], None),
        ([], None),
    ],
)
def test_probes_do_not_hide_which_batch_differs(wrong, number):
    """A probe is made of the check's own batch, whose loss may be equal all the same."""
    records = [Record(n, name, "loss", "scalar", "float64", ()) for n, name in enumerate([*wrong, "batch_3"])]
    pairs = [Pair(r.name, r, r, verdict=DIVERGED if n < len(wrong) else ALIGNED) for n, r in enumerate(records)]
    assert further_batches.first_wrong(pairs) == number
