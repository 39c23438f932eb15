"""The stage ``optimizer``: whole trainings' schedules, by update and by epoch, resumed, with a metric, from a project file."""

from __future__ import annotations

import time

import numpy as np
import pytest

from paralign import Side, check
from paralign.api import check_project
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Unjudged
from paralign.report import plots, text
from paralign.run.pace import Pace, pace_of
from paralign.stages.steps import rate_schedules
from paralign.worker.optimization.optimizers import is_stock
from paralign.worker.optimization.pacing import advancing, made_up, waits_for

torch = pytest.importorskip("torch")
schedules = torch.optim.lr_scheduler

SIDE = """
import torch
from torch.optim import lr_scheduler

def build_model():
    return torch.nn.Linear(6, 4)

def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)

def build_scheduler(optimizer):
    return {schedule}

{more}
"""


def written(folder, schedule, training="", more="", other=None):
    """A project of two sides in this process's framework, which differ in their schedule alone."""
    for side, made in (("reference", schedule), ("candidate", other or schedule)):
        (folder / f"{side}.py").write_text(SIDE.format(schedule=made, more=more))
    (folder / "paralign.toml").write_text(
        f'stages = ["optimizer"]\n[reference]\nframework = "torch"\n[candidate]\nframework = "torch"\n{training}'
    )
    return folder


def live(schedule, optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.1), loader=None, metric=None):
    made = {"build_scheduler": schedule, "build_dataloader": loader, "schedule_metric": metric}
    functions = {"build_model": lambda: torch.nn.Linear(6, 4), "build_optimizer": optimizer}
    return Side(framework="torch", functions={**functions, **{name: function for name, function in made.items() if function}})


def checked(reference, candidate, training=None):
    return check(reference, candidate, stages=["optimizer"], schedule=training)["optimizer"]


def test_the_schedule_of_a_whole_training_by_epoch_leaves_its_files_and_names_the_line(tmp_path):
    right, wrong = "lr_scheduler.StepLR(optimizer, 30)", "lr_scheduler.StepLR(optimizer, 31)"
    training = '[training]\nepochs = 90\nsteps_per_epoch = 5004\nstep_on = "epoch"'
    result, out = check_project(written(tmp_path, right, training, other=wrong))
    found = result["optimizer"]
    assert found.verdict == DIVERGED
    assert found.divergence.candidate.code == f"return {wrong}"
    assert found.divergence.pair.notes == ["epoch 30 is the first whose rate differs: 0.01 in the reference, 0.1 in the candidate"]
    assert next(c for c in found.coverage if c.what == rate_schedules.RATES).total == 90
    saved = np.load(out / "schedule_ref.npy", allow_pickle=True).item()["schedule"]
    assert (saved.shape, saved[30, 0]) == ((90, 1), 0.1 * 0.1)
    assert (
        (out / "log" / "optimizer_diff.log")
        .read_text()
        .splitlines()[-1]
        .endswith("judged by rates step by step, updates from equal gradients)")
    )
    assert [row[0] for row in found.tables[0].rows][3:6] == ["29", "30", "31"]


def test_a_million_steps_are_followed_in_seconds():
    from paralign.adapters.finding import load
    from paralign.worker.optimization.schedule import Walk, _Made, _without_warnings

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    made = _Made(load("torch"), optimizer, schedules.StepLR(optimizer, 300_000))
    began = time.process_time()
    with _without_warnings():
        rates, _ = made.follow(Walk(100_000, patience=600), {"ended": ""})
    assert len(rates) == 100_000
    assert time.process_time() - began < 1.5  # a tenth of a million, with some patience for a busy machine: 0.5 measured


def test_schedules_that_are_advanced_differently_are_compared_update_by_update():
    training = {"epochs": 12, "steps_per_epoch": 10, "step_on": {"reference": "epoch", "candidate": "iteration"}}

    def found(second):
        return checked(live(lambda o: schedules.StepLR(o, 3)), live(lambda o: schedules.MultiStepLR(o, [30, second, 90])), training)

    result = found(60)
    assert result.verdict == ALIGNED, result.notes
    assert next(c for c in result.coverage if c.what == rate_schedules.RATES).compared == 120
    assert found(61).divergence.pair.notes[0].startswith("step 60 is the first")


def test_the_length_of_an_epoch_is_the_loaders():
    sides = [live(lambda o: schedules.StepLR(o, 30), loader=lambda _, n=n: list(range(n))) for n in (20, 18)]
    result = checked(*sides, {"epochs": 4, "accumulate": 2})
    assert any("an epoch has 20 batches in the reference and 18 in the candidate" in w and "40 and 36 steps" in w for w in result.warnings)
    assert (result.verdict, result.coverage[0].compared, result.coverage[0].total) == (UNDERPOWERED, 36, 40)


def test_a_metric_from_the_project_or_a_function_of_a_side():
    def plateau(patience, **functions):
        return live(lambda o: schedules.ReduceLROnPlateau(o, patience=patience), **functions)

    training = {"epochs": 6, "step_on": "epoch"}
    result = checked(plateau(1), plateau(2), {**training, "schedule_metric": [3.0, 2.0, 2.0, 2.0]})
    assert result.divergence.pair.notes[0].startswith("epoch 4 is the first whose rate differs: 0.01")
    result = checked(plateau(1, metric=lambda _: 1.0), plateau(1), training)
    assert result.verdict == ALIGNED
    assert any("that of schedule_metric(epoch)" in note for note in result.notes)
    assert [row[1] for row in result.tables[0].rows] == ["0.1", "0.1", "0.1", "0.01", "0.01", "0.001"]


class Forgetful(schedules.StepLR):
    """A schedule that does not save how far it is."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_a_schedule_that_forgets_where_it_was_is_found(monkeypatch):
    monkeypatch.setattr("paralign.stages.optimizer.stage.STEPS", 100)
    right = live(lambda o: schedules.StepLR(o, 30))
    result = checked(right, live(lambda o: Forgetful(o, 30)))
    assert result.verdict == DIVERGED
    assert [p.key for p in result.pairs if p.verdict == DIVERGED] == ["resumed schedule"]
    told = next(p for p in result.pairs if p.verdict == DIVERGED).notes
    assert "saved after 50 steps and loaded, goes on otherwise at 60" in told[0]
    assert told[0].endswith("its state does not bring back _step_count, last_epoch")
    assert not any("goes on otherwise" in warning for warning in result.warnings)


@pytest.mark.parametrize("strict", [False, True])
def test_what_a_class_of_the_framework_forgets_is_told_and_not_blamed(monkeypatch, strict):
    monkeypatch.setattr("paralign.stages.optimizer.stage.STEPS", 100)
    monkeypatch.setattr(schedules.StepLR, "state_dict", lambda _: {})
    monkeypatch.setattr(schedules.StepLR, "load_state_dict", lambda *_: None)
    sides = live(lambda o: schedules.MultiStepLR(o, [30, 60, 90])), live(lambda o: schedules.StepLR(o, 30))
    result = check(*sides, stages=["optimizer"], strict=strict)["optimizer"]
    pair = next(p for p in result.pairs if p.key == "resumed schedule")
    if strict:
        assert (result.verdict, pair.verdict) == (DIVERGED, DIVERGED)
        return
    assert (result.verdict, pair.unjudged) == (ALIGNED, Unjudged.INHERENT)
    told = [warning for warning in result.warnings if "resum" in warning]
    assert told[0].startswith("the candidate's schedule, saved after 50 steps and loaded, goes on otherwise at 60")
    assert told[1].startswith("StepLR of the candidate's framework does not save _step_count, last_epoch: to resume such a training")


class Halving:
    """A schedule of one's own that saves nothing, for use inside a framework's."""

    def __init__(self, optimizer):
        self.optimizer, self.last_epoch = optimizer, 0

    def step(self):
        self.last_epoch += 1

    def state_dict(self):
        return {}


def test_a_schedule_of_ones_own_inside_a_frameworks_is_no_stock():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    stock = schedules.StepLR(optimizer, 3)
    assert is_stock(stock)
    assert is_stock(schedules.SequentialLR(optimizer, [stock, schedules.StepLR(optimizer, 4)], [5]))
    assert not is_stock(Forgetful(optimizer, 3))
    stock.inner = Halving(optimizer)
    assert not is_stock(stock)
    assert not is_stock(schedules.ChainedScheduler([schedules.StepLR(optimizer, 2), Forgetful(optimizer, 3)]))
    assert not is_stock(schedules.LambdaLR(optimizer, lambda epoch: 0.5**epoch))


def test_a_table_of_rates_marks_those_that_differ_in_the_seventh_digit(monkeypatch):
    monkeypatch.setattr("paralign.stages.optimizer.stage.STEPS", 20)
    right, other = (live(lambda o, last=last: schedules.LambdaLR(o, lambda n: last if n > 9 else 1.0)) for last in (0.5, 0.500001))
    rows = checked(right, other).tables[0].rows
    assert [row for row in rows if row[0] in {"9", "10"}] == [["9", "0.1", "0.1", ""], ["10", "0.05", "0.0500001", "≠"]]


class Scheduled:
    """An optimizer that sets its rate as it steps, as Noam's."""

    def __init__(self, inner, warmup):
        self.inner, self.count, self.warmup, self.param_groups = inner, 0, warmup, inner.param_groups

    def step(self):
        self.count += 1
        for group in self.param_groups:
            group["lr"] = min(self.count**-0.5, self.count * self.warmup**-1.5)
        self.inner.step()


def test_an_optimizer_that_sets_its_own_rate_is_followed():
    def noam(warmup):
        return lambda m: Scheduled(torch.optim.SGD(m.parameters(), lr=0.1), warmup)

    assert checked(live(None, noam(40)), live(None, noam(40))).verdict == ALIGNED
    result = checked(live(None, noam(40)), live(None, noam(41)))
    assert result.verdict == DIVERGED
    assert "schedule" in [p.key for p in result.pairs if p.verdict == DIVERGED]


def test_without_a_schedule_the_updates_are_compared_and_that_is_said():
    result = checked(live(None), live(None))
    assert result.verdict == ALIGNED
    assert "neither side has a schedule: the rates of the update below are those of the whole training" in result.notes
    wrong = checked(live(None), live(None, lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.1)))
    assert wrong.verdict == DIVERGED
    assert any("settings differ first at weight: momentum, betas: 0 in the reference, 0.1 in the candidate" in n for n in wrong.notes)


class Plain:
    """A rule written by hand: the parameters and a rate, no groups."""

    def __init__(self, parameters):
        self.parameters, self.lr = list(parameters), 0.1

    def get_lr(self):
        return self.lr

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.add_(parameter.grad, alpha=-self.lr)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


def test_an_optimizer_without_groups_is_no_difference_of_settings():
    result = checked(live(None, lambda m: torch.optim.SGD(m.parameters(), lr=0.1)), live(None, lambda m: Plain(m.parameters())))
    assert result.verdict == ALIGNED
    assert not result.warnings, result.warnings
    assert any("the candidate's optimizer does not tell all settings of its parameters" in note for note in result.notes), result.notes


class Lion(torch.optim.Optimizer):
    """A rule of the user's own that has the name of a known one; the decay is a setting of its groups, or the optimizer's own."""

    def __init__(self, params, decay, *, told):
        super().__init__(params, {"lr": 0.1, "betas": (0.9, 0.99), **({"weight_decay": decay} if told else {})})
        self.decay = decay

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                p.mul_(1 - 0.1 * self.decay).sub_(0.1 * (0.9 * mean + 0.1 * p.grad).sign())
                mean.lerp_(p.grad, 0.01)


@pytest.mark.parametrize(("decay", "verdict"), [(0.01, ALIGNED), (0.0101, DIVERGED)])
def test_a_rule_of_the_users_own_may_keep_its_settings_elsewhere(decay, verdict):
    theirs, ours = (lambda m: Lion(m.parameters(), 0.01, told=True)), (lambda m: Lion(m.parameters(), decay, told=False))
    result = checked(live(None, theirs), live(None, ours))
    assert result.verdict == verdict, result.warnings
    assert not any("do not show it" in w for w in result.warnings), result.warnings
    told = [note for note in result.notes if "may keep settings elsewhere" in note]
    assert bool(told) == (verdict == ALIGNED), result.notes


class Decayed(torch.optim.Optimizer):
    """A rule of the user's own that tells its decay in its groups, and applies what it is told to."""

    def __init__(self, params, told, applied):
        super().__init__(params, {"lr": 0.1, "weight_decay": told})
        self.applied = applied

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(0.1 * (p.grad + self.applied * p))


@pytest.mark.parametrize(("told", "warned"), [(0.01, False), (0.02, True), (None, True)])
def test_a_setting_that_a_rule_of_the_users_own_tells_is_held_against_a_known_rules(told, warned):
    theirs, ours = (lambda m: torch.optim.SGD(m.parameters(), lr=0.1, weight_decay=0.01)), (lambda m: Decayed(m.parameters(), told, 0.01))
    result = checked(live(None, theirs), live(None, ours))
    assert result.verdict == ALIGNED, result.warnings
    assert any("weight decay" in w and "do not show it" in w for w in result.warnings) == warned, result.warnings


class Clipped(torch.optim.SGD):
    """Scales its gradients down before it steps."""

    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 0.01)
        return super().step(closure)


def test_a_step_that_clips_by_itself_is_no_difference_of_settings():
    result = checked(live(None, lambda m: Clipped(m.parameters(), lr=0.1)), live(None, lambda m: Clipped(m.parameters(), lr=0.1)))
    assert result.verdict == ALIGNED
    assert not result.warnings, result.warnings
    cells = {column: row for table in result.tables for column, row in zip(table.columns, table.rows[0], strict=True)}
    assert "clipping" not in cells, "what an own step does to gradients is not told"
    other = checked(live(None, lambda m: Clipped(m.parameters(), lr=0.1)), live(None, lambda m: torch.optim.SGD(m.parameters(), lr=0.1)))
    assert other.verdict == DIVERGED, "it is seen by the updates"


def test_a_setting_that_no_update_shows_is_told():
    theirs, ours = (lambda m: torch.optim.SGD(m.parameters(), lr=0.1)), (lambda m: torch.optim.SGD(m.parameters(), lr=0.1, dampening=0.5))
    result = checked(live(None, theirs), live(None, ours))
    assert result.verdict == ALIGNED
    assert any("dampening 0.5 in the candidate" in w and "do not show it" in w for w in result.warnings), result.warnings


def test_sides_without_gradients_or_optimizers_are_not_tested():
    side = Side(framework="numpy", model=lambda x: x)
    assert checked(side, side).verdict == NOT_TESTED


def test_the_table_is_shown_and_the_stage_runs_only_when_named():
    side = live(lambda o: schedules.StepLR(o, 30))
    result = check(side, side, stages=["optimizer"])
    assert "learning rate" in "".join(str(t.title) for t in result["optimizer"].tables)
    assert any(getattr(part, "renderable", None) for part in text.details(result["optimizer"]))
    assert "optimizer" not in [s.name for s in check(side, side).stages]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"epoch": 3}, "unknown key 'epoch'"),
        ({"epochs": 0}, "'epochs' must be at least 1"),
        ({"step_on": "batch"}, "'batch' is not a choice"),
        ({"step_on": {"port": "epoch"}}, "unknown key 'port'"),
        ({"step_on": {"reference": "epoch"}}, "need steps_per_epoch"),
        ({"schedule_metric": [1.0, float("nan")]}, "list of finite numbers"),
        ({"schedule_metric": []}, "must not be empty"),
        ({"batches_from": "candidate"}, "is not a choice"),
    ],
)
def test_settings_that_cannot_work_are_refused(table, told):
    with pytest.raises(UsageError, match=told):
        pace_of(table, "paralign.toml: [training]")


def test_how_many_updates_lie_between_two_steps_of_a_schedule():
    assert Pace().steps_between(0) == 1
    assert Pace(step_on=("epoch", "iteration"), steps_per_epoch=7).steps_between(0) == 7
    assert Pace(step_on=("epoch", "epoch")).steps_between(1) == 0


def test_what_a_schedule_is_given():
    class Timm:
        def __init__(self):
            self.seen = []

        def step(self, epoch, metric=None):
            self.seen.append(("epoch", epoch))

        def step_update(self, num_updates, metric=None):
            self.seen.append(("update", num_updates))

    class Waiting:
        def __init__(self):
            self.seen = []

        def step(self, val_loss):
            self.seen.append(val_loss)

    timm, waiting = Timm(), Waiting()
    advancing(timm, None, by_update=True)(4)
    advancing(timm, None, by_update=False)(4)
    assert timm.seen == [("update", 5), ("epoch", 5)]
    advance = advancing(waiting, [2.0, 1.0], by_update=True)
    assert [advance(n) for n in range(3)] == [None] * 3
    assert waiting.seen == [2.0, 1.0, 1.0]
    assert waits_for(waiting.step) == ["val_loss"]
    assert len(made_up(77)) == 77


def test_a_plot_is_drawn_where_matplotlib_is_there(tmp_path):
    rates = np.where(np.arange(10_000) < 5000, 1.0, 0.1)[:, None]
    steps = plots.curve(rates)
    assert {0, 4999, 5000, 9999} <= set(steps.tolist())
    assert len(steps) < 5000
    drawn = plots.schedule(tmp_path, rates, rates)
    assert drawn == (tmp_path / plots.SCHEDULE).exists()


@pytest.mark.parametrize(
    ("sides", "told"), [((0, 1), "train_step of the reference and the candidate"), ((1,), "train_step of the candidate"), ((), "")]
)
def test_own_steps_that_the_stage_does_not_run_are_said(sides, told):
    both = [live(None) for _ in range(2)]
    for side in sides:
        both[side].functions["train_step"] = lambda _model, optimizer, _batch: optimizer.step()
    said = [w for w in checked(*both).warnings if "train_step" in w]
    assert [w.startswith(told) for w in said] == [True] * bool(sides)


def test_own_steps_that_another_stage_of_the_check_compares_are_no_warning():
    both = [live(None) for _ in range(2)]
    for side in both:
        side.functions["train_step"] = lambda _model, optimizer, _batch: optimizer.step()
    given = {"inputs": np.ones((4, 6), np.float32), "labels": np.ones((4, 4), np.float32), "stages": ["optimizer", "backward"]}
    result = check(*both, **given)["optimizer"]
    assert not [w for w in result.warnings if "train_step" in w]
    assert [n for n in result.notes if n.endswith("what train_step does with them is compared by the stage backward")]
    without = check(*both, stages=["optimizer", "backward"])["optimizer"]  # and no batch: the stage backward runs none then
    assert [w for w in without.warnings if w.startswith("train_step of the reference and the candidate was not run here")]
    del both[0].functions["train_step"]
    result = check(*both, **given)["optimizer"]
    assert [w for w in result.warnings if w.startswith("train_step of the candidate was not run here")]
