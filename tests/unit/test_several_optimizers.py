"""Programs whose ``build_optimizer`` gives several optimizers, with several schedules, in a list, a tuple or a dict."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.locate.optimizer import term_causes
from paralign.locate.optimizer.identify import Difference
from paralign.model import ALIGNED, DIVERGED, Unjudged
from paralign.worker.optimization.several import as_one

torch = pytest.importorskip("torch")
NOISE, REAL = (np.random.default_rng(width).random((7, width), np.float32) for width in (5, 6))

functional = torch.nn.functional
schedules = torch.optim.lr_scheduler


class Pair(torch.nn.Module):
    """A generator, whose first bias a normalisation takes away again, and a critic."""

    def __init__(self):
        super().__init__()
        self.generator = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 6))
        self.critic = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LeakyReLU(0.2), torch.nn.Linear(8, 1))

    def forward(self, noise):
        return self.critic(self.generator(noise))


def adams(model, rates=(2e-4, 4e-4), betas=(0.5, 0.5)):
    networks = model.generator, model.critic
    return [torch.optim.Adam(each.parameters(), lr=lr, betas=(beta, 0.999)) for each, lr, beta in zip(networks, rates, betas, strict=True)]


def halved(optimizers, every=(2, 2)):
    return [schedules.StepLR(each, steps, 0.5) for each, steps in zip(optimizers, every, strict=True)]


def train(model, optimizer, batch, critic_steps=1, slope=1.0):
    noise, real = batch
    of_generator, of_critic = optimizer.values() if isinstance(optimizer, dict) else optimizer
    for _ in range(critic_steps):
        of_critic.zero_grad()
        loss = functional.softplus(-model.critic(real)).mean() + functional.softplus(model.critic(model.generator(noise).detach())).mean()
        loss.backward()
        of_critic.step()
    of_generator.zero_grad()
    fooled = slope * functional.softplus(-model(noise)).mean()
    fooled.backward()
    of_generator.step()
    return {"critic": loss, "generator": fooled}


def side(optimizer=adams, schedule=None, step=train):
    functions = {"build_model": Pair, "build_optimizer": optimizer, "train_step": step}
    return Side(framework="torch", functions={**functions, **({"build_scheduler": schedule} if schedule else {})})


def checked(stage, reference, candidate):
    return check(reference, candidate, inputs=NOISE, labels=REAL, stages=[stage])[stage]


@pytest.mark.parametrize("form", [list, tuple, lambda made: dict(zip(("g", "d"), made, strict=True))], ids=["list", "tuple", "dict"])
def test_updates_schedules_and_saving_of_all_of_them_are_judged(form):
    def scheduled(made):
        return form(halved(made.values() if isinstance(made, dict) else made))

    sides = [side(lambda model: form(adams(model)), scheduled) for _ in range(2)]
    result = checked("optimizer", *sides)
    assert result.verdict == ALIGNED, [*result.notes, *result.warnings]
    told = {part.what: part.compared for part in result.coverage}
    assert told["parameters"] == 10
    assert told["states carried across"] == 2
    assert told["resumed rates"] > 1000


def test_a_setting_of_one_of_them_is_found_for_its_parameters():
    result = checked("optimizer", side(), side(lambda model: adams(model, betas=(0.5, 0.9))))
    assert result.verdict == DIVERGED
    assert result.findings[0].cause.startswith("beta 1: 0.5 in the reference, 0.9 in the candidate, on critic.")


def test_exchanged_rates_are_found_although_they_are_the_same_numbers():
    result = checked("optimizer", side(), side(lambda model: adams(model, rates=(4e-4, 2e-4))))
    assert result.verdict == DIVERGED
    assert any("0.0004 in the reference, 0.0002 in the candidate" in finding.cause for finding in result.findings)


def test_a_schedule_of_one_of_them_is_found_and_a_cause_has_to_hold_in_all_of_it():
    """Halved every third step looks like a step late for as long as updates are made, and no longer."""
    result = checked("optimizer", side(schedule=halved), side(schedule=lambda made: halved(made, (2, 3))))
    assert result.verdict == DIVERGED
    assert any(pair.key == "schedule" and pair.verdict == DIVERGED for pair in result.pairs)
    assert not any("behind" in finding.cause or "ahead" in finding.cause for finding in result.findings)


def test_a_schedule_that_is_one_step_late_in_all_of_it_is_called_so():
    def late(made):
        return [schedules.LambdaLR(each, lambda n: 0.5 ** (max(0, n - 1) // 2)) for each in made]

    result = checked("optimizer", side(schedule=halved), side(schedule=late))
    assert any("one step behind" in finding.cause for finding in result.findings), result.findings


class Plain:
    """A rule written by hand that saves nothing."""

    def __init__(self, parameters):
        self.params, self.velocity = list(parameters), {}

    def step(self):
        with torch.no_grad():
            for parameter in self.params:
                held = self.velocity[parameter] = 0.9 * self.velocity.get(parameter, 0.0) + parameter.grad
                parameter.sub_(1e-3 * held)

    def zero_grad(self):
        for parameter in self.params:
            parameter.grad = None


def test_one_that_cannot_be_saved_is_told():
    def built(model):
        return [torch.optim.Adam(model.generator.parameters(), 1e-3), Plain(model.critic.parameters())]

    result = checked("optimizer", side(built), side(built))
    assert result.verdict == ALIGNED, result.notes
    assert any("has no state_dict()" in warning for warning in result.warnings), result.warnings


@pytest.mark.parametrize("other", [lambda _: None, lambda made: schedules.StepLR(made[0], 2)], ids=["none", "schedule"])
def test_a_list_with_something_else_in_it_is_an_error_that_says_so(other):
    def built(model):
        made = adams(model)
        return [*made, other(made)]

    name = type(other(adams(Pair()))).__name__
    result = checked("optimizer", side(), side(built))
    assert result.verdict == "error"
    assert f"build_optimizer gives a list with a {name} in it, which is no optimizer" in str(result.failure), result.failure


@pytest.mark.parametrize("critic_steps", [1, 5])
def test_a_bias_that_a_normalisation_takes_away_is_not_judged_in_the_second_update_either(critic_steps):
    def step(model, optimizer, batch):
        return train(model, optimizer, batch, critic_steps)

    def other_order(model, optimizer, batch):
        return step(model, optimizer, [part.flip(0) for part in batch])

    result = checked("backward", side(step=step), side(step=other_order))
    assert result.verdict == ALIGNED, result.notes
    left_out = [pair for pair in result.pairs if pair.unjudged is Unjudged.ROUNDING]
    assert any("generator.0.bias" in pair.key for pair in left_out)


def test_a_wrong_second_update_is_found():
    result = checked("backward", side(), side(step=lambda *given: train(*given, slope=0.9)))
    assert result.verdict == DIVERGED


class Carrying:
    """An optimizer that carries its schedule itself, as Paddle's do."""

    def __init__(self, schedule):
        self._learning_rate = schedule

    def step(self):
        pass

    def clear_grad(self):
        pass


class Counting:
    def __init__(self):
        self.count = 0

    def step(self):
        self.count += 1


class Trains:
    """As much of an adapter as is asked for."""

    def step(self, optimizer):
        optimizer.step()

    def step_scheduler(self, _, scheduler):
        scheduler.step()


def test_a_schedule_that_two_optimizers_share_is_stepped_once():
    shared = Counting()
    _, schedule = as_one(Trains(), [Carrying(shared), Carrying(shared)], None)
    schedule.step()
    assert shared.count == 1
    both = [Counting(), Counting()]
    _, schedule = as_one(Trains(), [Carrying(each) for each in both], None)
    schedule.step()
    assert [each.count for each in both] == [1, 1]


def test_what_is_said_of_rates_is_of_those_of_the_updates_where_the_schedule_does_not_tell_them():
    alone = Difference(("rates",), ((0.1, 0.1, 0.05),), ((0.01, 0.01, 0.005),), ["weight"])
    told = (0.1, 0.1, 0.05, 0.05, 0.025)
    assert term_causes._rates(alone, (told, told)) == ((0.1, 0.1, 0.05), (0.01, 0.01, 0.005))
    whole = told, tuple(rate / 10 for rate in told)
    assert term_causes._rates(alone, whole) == whole
    assert "0.1 times the reference's" in term_causes._schedule(*whole, "a")
    ending = (*told, 1e-25), (*whole[1], 7e-26)
    assert "0.1 times the reference's" in term_causes._schedule(*ending, "a"), "what rounding leaves of a rate says nothing"
