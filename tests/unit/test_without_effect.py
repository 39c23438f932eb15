"""Gradients at a model's outputs that differ, where no parameter's gradient does."""

from __future__ import annotations

from paralign.checking import WITHOUT_EFFECT, leave_out_without_effect
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, CheckResult, Divergence, Pair, Record, StageResult, Unjudged


def pair(key, role, verdict, step=0):
    record = Record(id=0, stage="backward", name=key, role=role, dtype="float64", shape=[1], step=step)
    return Pair(key, record, record, verdict=verdict)


def checked(loss, backward=ALIGNED, gradients=2):
    result = CheckResult()
    first = StageResult("loss", DIVERGED, pairs=loss)
    first.divergences = [Divergence(None, None, loss[-1])]
    first.divergence = first.divergences[0]
    last = StageResult("backward", backward, pairs=[pair(f"weight {n}", "gradient", ALIGNED) for n in range(gradients)])
    result.stages = [first, last]
    return result


def test_a_gradient_that_no_parameter_feels_is_left_out():
    result = checked([pair("loss", "loss", ALIGNED), pair("gradient.0", "gradient", DIVERGED)])
    leave_out_without_effect(result)
    loss = result.stages[0]
    assert (loss.verdict, loss.divergence, loss.divergences) == (ALIGNED, None, [])
    assert loss.pairs[1].unjudged is Unjudged.WITHOUT_EFFECT
    assert loss.notes == [f"gradient.0: {WITHOUT_EFFECT} (2 were compared, see `backward`)"]


def test_it_stays_where_backward_is_too_weak():
    result = checked([pair("gradient.0", "gradient", DIVERGED)], UNDERPOWERED)
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_is_left_out_where_updates_alone_differ():
    result = checked([pair("loss", "loss", ALIGNED), pair("gradient.0", "gradient", DIVERGED)], DIVERGED)
    result.stages[1].pairs += [pair("moved weight", "update", DIVERGED), pair("later weight", "gradient", DIVERGED, step=1)]
    leave_out_without_effect(result)
    assert result.stages[0].verdict == ALIGNED


def test_it_stays_where_a_gradient_of_the_first_step_differs():
    result = checked([pair("gradient.0", "gradient", DIVERGED)], DIVERGED)
    result.stages[1].pairs.append(pair("gradient_0 bias", "gradient", DIVERGED))
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_stays_where_no_gradient_was_compared():
    result = checked([pair("gradient.0", "gradient", DIVERGED)], gradients=0)
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_stays_where_the_loss_differs_too():
    result = checked([pair("loss", "loss", DIVERGED), pair("gradient.0", "gradient", DIVERGED)])
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_stays_where_an_operation_was_confirmed_to_be_at_fault():
    result = checked([pair("gradient.0", "gradient", DIVERGED)])
    result.stages[0].divergences[0].confirmed = True
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_stays_where_it_is_of_native_runs_which_backward_does_not_compare():
    result = checked([pair("gradient.0 (native)", "gradient", DIVERGED)])
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_it_stays_where_the_user_grants_what_backward_differs_by():
    result = checked([pair("gradient.0", "gradient", DIVERGED)])
    result.stages[1].pairs[0].granted = 0.5
    leave_out_without_effect(result)
    assert result.stages[0].verdict == DIVERGED


def test_a_loss_that_is_too_weak_stays_too_weak():
    result = checked([pair("loss", "loss", UNDERPOWERED), pair("gradient.0", "gradient", DIVERGED)])
    leave_out_without_effect(result)
    assert result.stages[0].verdict == UNDERPOWERED
