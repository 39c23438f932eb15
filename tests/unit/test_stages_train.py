"""The stage ``train``: right ports agree step by step, training-only faults are found, what cannot be said is said."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Coverage
from paralign.run.trainings import Trainings

draw = np.random  # the global generator is what a check seeds
SAMPLES, FEATURES, BATCH, EPOCHS = 64, 6, 16, 4


def data(seed=5):
    own = np.random.RandomState(seed)
    x = own.normal(size=(SAMPLES, FEATURES)).astype("float32")
    return x, (x @ own.normal(size=(FEATURES, 1)) + 0.1 * own.normal(size=(SAMPLES, 1))).astype("float32")


class Net:
    def __init__(self, scale=0.5):
        self.parameters = {
            "first": draw.normal(0, scale, (FEATURES, 8)).astype("float32"),
            "second": draw.normal(0, scale, (8, 1)).astype("float32"),
        }

    def __call__(self, x):
        self.x, self.hidden = x, np.tanh(x @ self.parameters["first"])
        return self.hidden @ self.parameters["second"]

    def backward(self, gradient):
        inner = (gradient @ self.parameters["second"].T) * (1 - self.hidden**2)
        return {"first": self.x.T @ inner, "second": self.hidden.T @ gradient}


class SGD:
    def __init__(self, net, rate, decay=0.0, momentum=0.9, skip=()):
        self.net, self.rate, self.decay, self.momentum, self.skip = net, rate, decay, momentum, skip
        self.kept = {name: np.zeros_like(value) for name, value in net.parameters.items()}

    def step(self, gradients):
        for name, value in self.net.parameters.items():
            if name not in self.skip:
                self.kept[name] = self.momentum * self.kept[name] + gradients[name] + self.decay * value
                np.subtract(value, (self.rate * self.kept[name]).astype("float32"), out=value)


def loader(batch, *, shuffle=True, drop=False):
    x, y = data()
    order = draw.permutation(SAMPLES) if shuffle else np.arange(SAMPLES)
    for start in range(0, SAMPLES, batch):
        rows = order[start : start + batch]
        if not drop or len(rows) == batch:
            yield x[rows], y[rows]


def training(
    batch=BATCH, rate=0.05, schedule=lambda _: 1.0, clip=None, shuffle=True, epochs=EPOCHS, noise=0.0, hooks=True, net=Net, **optimizer
):
    def train(log):
        model = net()
        model = log.model(model) if hooks else model
        steps = SGD(model, rate, **optimizer)
        number = 0
        for epoch in range(epochs):
            for _, (x, y) in log.batches(loader(batch, shuffle=shuffle), epoch):
                steps.rate = rate * schedule(number)
                output = model(x + noise * draw.normal(size=x.shape).astype("float32"))
                loss = float(((output - y) ** 2).mean())
                gradients = model.backward(2 * (output - y) / len(y))
                if clip:
                    size = np.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
                    gradients = {n: g * min(1.0, clip / size) for n, g in gradients.items()}
                steps.step(gradients)
                log.step(samples=len(x), loss=loss, lr=steps.rate)
                number += 1
            x, y = data()
            log.evaluation(epoch, mse=float(((model(x) - y) ** 2).mean()))

    return train


def side(net=Net, **changed):
    return Side(framework="numpy", functions={"build_model": net, "train": training(net=net, **changed)})


def checked(reference, candidate, **keys):
    return check(reference, candidate, stages=["train"], training=Trainings(**{"runs": 0, **keys}))["train"]


def pair(result, key):
    return next(p for p in result.pairs if p.key == key)


def wrong(result):
    return [p.key for p in result.pairs if p.judged and p.verdict == DIVERGED]


def test_equal_steps_from_equal_weights_are_aligned_whatever_seeds_and_loaders_draw():
    result = checked(side(), side(net=lambda: Net(0.1)))
    assert (result.verdict, wrong(result)) == (ALIGNED, [])
    assert Coverage("steps one by one", 16, 16) in result.coverage
    ends = {f"parameters.{name} at the end" for name in ("first", "second")}
    assert {p.key for p in result.pairs} == {"loss (train)", "mse (eval)", "learning rate", *ends}


@pytest.mark.parametrize("steps", [3, 4, 6, 8])
def test_steps_that_end_within_an_epoch_or_with_it_are_followed_by_no_evaluation_of_one_side_alone(steps):
    result = checked(side(), side(), exact_steps=steps)
    notes = [note for note in result.notes if "one by one" not in note]
    assert (result.verdict, wrong(result), notes) == (ALIGNED, [], [])
    assert Coverage("steps one by one", steps, steps) in result.coverage


def wide():
    net = Net()
    net.parameters = {name: value.astype("float64") for name, value in net.parameters.items()}
    return net


def test_a_constant_that_a_framework_stores_in_float32_is_no_fault_of_a_training_in_float64():
    result = checked(side(net=wide), side(net=wide, momentum=float(np.float32(0.9))))
    assert (result.verdict, wrong(result)) == (ALIGNED, [])
    ends = [p for p in result.pairs if p.key.endswith("at the end")]
    assert max(p.stats.rel_l2 for p in ends) > 1e-10, "the constant does show"
    assert checked(side(net=wide), side(net=wide, momentum=0.9001)).verdict == DIVERGED


FAULTS = {
    "rate": ({"rate": 0.0501}, 1),
    "decay": ({"decay": 1e-3}, 1),
    "momentum": ({"momentum": 0.8}, 2),
    "clipping": ({"clip": 0.5}, 1),
    "schedule": ({"schedule": lambda step: 1.0 if step < 8 else 0.5}, 9),
    "frozen": ({"skip": ("second",)}, 1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_training_is_found_at_its_step(name):
    changed, step = FAULTS[name]
    result = checked(side(), side(**changed))
    assert result.verdict == DIVERGED
    loss = next(p for p in result.pairs if p.key == "loss (train)")
    assert loss.notes[0].startswith(f"parts at step {step} (epoch {step // 4}, batch {step % 4}):")
    told = result.divergence.notes[-1]
    assert "after updates" in told
    assert ("learning rates differ" in told) == (name in ("rate", "schedule"))
    assert result.divergence.candidate.source is None, "nothing shows that one line is at fault"


def test_what_keeps_the_exact_trajectory_from_being_compared_is_said():
    def alone(log):
        for number in range(4):
            log.step(samples=2, loss=1 / (number + 1))

    def told(changed, other=None):
        result = checked(changed, other or changed)
        assert result.verdict == NOT_TESTED
        return result.notes[0].partition("compared: ")[2]

    assert told(side(hooks=False)) == "the reference's train(log) does not call log.model(model), so that it cannot be given equal weights"
    loop = Side(framework="numpy", functions={"build_model": Net, "train": lambda log: (log.model(Net()), alone(log))})
    assert told(loop).startswith("the reference's train(log) does not take its batches from log.batches(loader, epoch)")
    assert told(side(noise=0.1)).startswith("the reference's steps draw random numbers although dropout layers are off")
    assert told(side(), side(hooks=False)).startswith("the candidate's train(log) does not call log.model(model)")


def test_batches_are_put_together_as_the_candidates_loop_takes_them():
    def train(log):
        model = log.model(Net())
        steps = SGD(model, 0.05)
        for epoch in range(EPOCHS):
            batches = [{"y": y[:, 0].astype("float64"), "x": x} for x, y in loader(32)]
            for _, batch in log.batches(batches, epoch):
                assert (batch["y"].dtype, batch["y"].ndim, sorted(batch)) == (np.float64, 1, ["x", "y"])
                output = model(batch["x"])
                error = output - batch["y"][:, None]
                steps.step({n: g.astype("float32") for n, g in model.backward(2 * error / len(error)).items()})
                log.step(samples=len(error), loss=(error**2).mean())

    result = checked(side(), Side(framework="numpy", functions={"build_model": Net, "train": train}))
    assert (result.verdict, wrong(result)) == (ALIGNED, [])

    def three(log):
        log.model(Net())
        for _ in log.batches([(x, y, y) for x, y in loader(32)], 0):
            pass

    result = checked(side(), Side(framework="numpy", functions={"build_model": Net, "train": three}))
    assert result.notes[0].endswith("candidate: this side's batches have 3 tensors, the reference's 2")


def test_a_training_whose_rounding_grows_too_fast_is_underpowered_and_the_step_is_said():
    wild = {"rate": 0.9, "momentum": 0.0, "epochs": 12}
    result = checked(side(**wild), side(**wild))
    assert result.verdict in (UNDERPOWERED, ALIGNED)
    assert any("rounding alone moves the reference by more than 1%: nothing is said of later steps" in note for note in result.notes)


def test_one_run_a_side_is_underpowered_and_several_know_their_spread():
    one = checked(side(), side(), runs=1, exact_steps=0)
    assert one.verdict == UNDERPOWERED
    assert "one run a side cannot tell a wrong port from another seed" in one.pairs[-1].notes[1]
    assert "nobody knows how far seeds alone would be" in one.pairs[-1].notes[1]
    wide = checked(side(), side(), runs=4, exact_steps=0, margin=2.0)
    assert (wide.verdict, wrong(wide)) == (ALIGNED, [])
    assert "proven to be within the margin" in wide.pairs[-1].notes[1]
    assert "these runs would have shown a difference of" in wide.pairs[-1].notes[2]
    narrow = checked(side(), side(), runs=4, exact_steps=0)
    assert narrow.verdict == UNDERPOWERED
    assert "not proven to be within or beyond the margin" in narrow.pairs[-1].notes[1]
    assert Coverage("runs a side", 4, 4) in narrow.coverage


def test_different_batches_and_rates_are_said_whatever_the_curves_do():
    result = checked(side(), side(batch=8, rate=0.049), runs=1, exact_steps=0)
    assert wrong(result) == ["batch size", "steps an epoch", "learning rate"]
    notes = {p.key: p.notes for p in result.pairs}
    assert notes["batch size"] == ["16 in the reference, 8 in the candidate"]
    assert notes["learning rate"][0].startswith("differs from epoch 0, batch 0 on: 0.05 in the reference, 0.049")


def test_a_training_that_fails_is_an_error_with_its_line():
    def train(log):
        raise ValueError("no data")

    broken = Side(framework="numpy", functions={"build_model": Net, "train": train})
    result = checked(side(), broken, runs=1, exact_steps=0)
    assert (result.verdict, result.failure["type"], result.failure["side"]) == (ERROR, "ValueError", "candidate")
    lacking = checked(side(), Side(framework="numpy", functions={"build_model": Net}))
    assert (lacking.verdict, lacking.notes[0]) == (NOT_TESTED, "the candidate has no train(log)")


# -- statistics of runs that are given ------------------------------------------------------------------------------------------------


def log_of(path, accuracies, losses=None, rate=0.1, samples=32):
    lines = []
    for epoch, accuracy in enumerate(accuracies):
        for step in range(3):
            loss = (losses or [2.0] * len(accuracies))[epoch]
            lines.append(
                f"[Epoch {epoch}, iter: {step}] loss: {loss:.5f}, lr: {rate:.5f}, avg_reader_cost: 0.00100 sec, "
                f"avg_batch_cost: 0.01000 sec, avg_samples: {samples}.0, avg_ips: 3200.00000 images/sec."
            )
        lines.append(f"[Epoch {epoch}, eval] acc: {accuracy:.5f}.")
    path.write_text("\n".join(lines) + "\n")
    return path


def logs_of(folder, *sides, **keys):
    files = [[log_of(folder / f"{name}{n}.log", *run) for n, run in enumerate(runs)] for name, runs in zip("rc", sides, strict=True)]
    empty = Side(framework="numpy", model=lambda x: x)
    return check(empty, empty, stages=["train"], training=Trainings(logs=(files[0], files[1]), **keys), atol=keys.pop("atol", None))[
        "train"
    ]


def accuracies(end, draws):
    return [[0.5, 0.7, end + draw] for draw in draws]


def drawn(seed, count, spread=0.002):
    return [
        (a, [2.0 + d, 1.0 + d, 0.5 + d])
        for a, d in ((a, a[-1] / 100) for a in accuracies(0.8, np.random.RandomState(seed).normal(0, spread, count)))
    ]


def moved(runs, by):
    return [([*a[:-1], a[-1] + by], losses) for a, losses in runs]


def test_finished_logs_are_compared_within_the_margin(tmp_path):
    result = logs_of(tmp_path, drawn(1, 6), drawn(2, 6), margin=0.01)
    assert (result.verdict, result.method) == (ALIGNED, "finished logs")
    assert (tmp_path / "r0.log").is_file()
    worse = logs_of(tmp_path, drawn(1, 6), moved(drawn(2, 6), -0.03), margin=0.01)
    assert worse.verdict == DIVERGED
    assert "proven to be beyond the margin of 0.00799" in pair(worse, "acc at the end").notes[1]
    one_sided = logs_of(tmp_path, drawn(1, 6), moved(drawn(2, 6), 0.03), margin=0.01, one_sided=True)
    assert pair(one_sided, "acc at the end").verdict == ALIGNED
    assert "acc: higher is better, and a better candidate is allowed ([training] one_sided)" in one_sided.notes


def test_the_first_epoch_at_which_curves_part_is_named(tmp_path):
    later = [(a, [losses[0], losses[1] + 0.2, losses[2] + 0.3]) for a, losses in drawn(2, 6)]
    result = logs_of(tmp_path, drawn(1, 6), later)
    assert wrong(result) == ["loss (train)"]
    assert "from epoch 1 on the sides are further apart than their seeds" in result.pairs[-1].notes[0]


def test_logs_without_spread_and_damaged_ones_are_told_as_such(tmp_path):
    single = logs_of(tmp_path, drawn(1, 1), drawn(1, 1))
    assert single.verdict == UNDERPOWERED
    equal = logs_of(tmp_path, drawn(1, 1) * 3, drawn(1, 1) * 3)
    assert equal.verdict == UNDERPOWERED
    assert "all runs of a side are equal: the seed changes nothing there" in equal.pairs[-1].notes[1]
    (tmp_path / "r0.log").write_text("[Epoch 0, iter: 0] loss:\nsome other line\n")
    empty = Side(framework="numpy", model=lambda x: x)
    training_ = Trainings(logs=([tmp_path / "r0.log"], [tmp_path / "c0.log"]))
    result = check(empty, empty, stages=["train"], training=training_)["train"]
    assert (result.verdict, result.notes) == (NOT_TESTED, ["the reference's logs have no line of a training"])
    assert result.warnings == ["reference: r0.log has 1 damaged lines, which are not compared: 1"]


def test_a_tolerance_of_the_users_compares_logs_place_by_place(tmp_path):
    files = [log_of(tmp_path / f"{name}.log", [0.5, 0.7], [2.0, loss]) for name, loss in (("r", 1.0), ("c", 1.001))]
    empty = Side(framework="numpy", model=lambda x: x)
    logs = ([files[0]], [files[1]])
    near = check(empty, empty, stages=["train"], training=Trainings(logs=logs), atol=0.01)["train"]
    far = check(empty, empty, stages=["train"], training=Trainings(logs=logs), atol=1e-4)["train"]
    assert (near.verdict, far.verdict) == (ALIGNED, DIVERGED)
    assert wrong(far) == ["loss (train)"]
    assert pair(far, "loss (train)").notes == ["parts at epoch 1, batch 0: 1 in the reference, 1.001 in the candidate"]


def test_the_guides_files_are_written(tmp_path):
    check(side(), side(), stages=["train"], training=Trainings(runs=2, exact_steps=0), out=tmp_path)
    ends = [np.load(tmp_path / f"train_align_{name}.npy", allow_pickle=True).item() for name in ("benchmark", "numpy")]
    assert [sorted(end) for end in ends] == [["eval.mse", "train.loss"]] * 2
    text = (tmp_path / "log" / "train_align_diff_log.txt").read_text()
    assert "eval.mse" in text
    assert "paralign: underpowered" in text


# -- what is wrong by itself, cross experiments, speed ----------------------------------------------------------------------------------


def findings(result):
    return {f.rule: f for f in reversed(result.findings)}


def test_a_training_that_explodes_is_stopped_with_its_tensor_and_reason():
    result = checked(side(), side(rate=50.0), runs=1, exact_steps=0, cross="never")
    found = findings(result)["train/exploded"]
    assert "candidate, seed 2: the parameters' norm has grown to" in found.cause
    assert "by epoch 0, batch 1; parameters." in found.cause
    assert any("ended early" in note for note in result.notes)
    assert result.divergence.candidate.name.startswith("parameters.")


def test_what_is_not_finite_is_a_finding_with_its_step():
    def broken(log):
        inner = log.step

        def step(samples, loss, lr):
            inner(samples, loss=float("nan") if len(log.steps) == 5 else loss, lr=lr)

        log.step = step
        training()(log)

    candidate = Side(framework="numpy", functions={"build_model": Net, "train": broken})
    result = checked(side(), candidate, runs=1, exact_steps=0, cross="never")
    assert result.verdict == DIVERGED
    assert "loss is nan at epoch 1, batch 1" in findings(result)["train/nonfinite"].cause


def test_parameters_that_never_move_on_one_side_are_named():
    result = checked(side(), side(skip=("second",)), runs=1, exact_steps=0, cross="never")
    assert "parameters that never move" in wrong(result)
    assert findings(result)["train/still"].cause.startswith("no step moves parameters.second in the candidate")
    both = checked(side(skip=("second",)), side(skip=("second",)), runs=1, exact_steps=0)
    assert wrong(both) == []
    assert "no step moves parameters.second, on either side" in both.notes


def test_a_rate_that_is_too_large_is_suspected_where_the_loss_grows():
    result = checked(side(), side(rate=0.6, momentum=0.0), runs=1, exact_steps=0, cross="never")
    assert "train/rate" in findings(result) or "train/exploded" in findings(result)
    assert not {"train/rate", "train/exploded"} & set(findings(checked(side(), side(), runs=1, exact_steps=0)))


def test_a_loss_near_zero_that_grows_while_steps_move_little_is_no_rate_that_is_too_large():
    def growing(log):
        inner = log.step

        def step(samples, lr, **_):
            inner(samples, loss=0.005 + 0.004 * len(log.steps), lr=lr)

        log.step = step
        training(rate=1e-6)(log)

    grows = Side(framework="numpy", functions={"build_model": Net, "train": growing})
    assert "train/rate" not in findings(checked(grows, grows, runs=1, exact_steps=0, cross="never"))


@pytest.mark.parametrize(("steps", "said"), [(6, True), (200, False)])
def test_steps_that_were_not_taken_are_said(steps, said):
    result = checked(side(), side(), exact_steps=steps)
    told = f"later steps were not compared one by one: after {steps} steps, as many as are compared one by one"
    assert (told in result.notes) is said


def test_speed_is_told_with_its_spread_and_judged_by_nothing():
    result = checked(side(), side(), runs=2, exact_steps=0)
    told = [note for note in result.notes if "samples/s" in note]
    assert [note.partition(":")[0] for note in told] == ["reference", "candidate"]
    assert "quartiles" in told[0]
    assert "reading" in told[0]
    assert "30 steps timed" in told[0]


class Shifted(Net):
    def __call__(self, x):
        return super().__call__(x) + np.float32(0.05)


class Slow(Net):
    def backward(self, gradient):
        return {name: value / 2 for name, value in super().backward(gradient).items()}


CROSSED = {
    "model": side(net=Shifted),
    "optimizer": side(momentum=0.8),
    "optimizer, through the gradients": side(net=Slow),
    "init": side(net=lambda: Net(0.25)),
    "data": side(shuffle=False),
}


@pytest.mark.parametrize("name", CROSSED)
def test_the_swap_that_closes_the_gap_is_the_first_finding(name):
    result = checked(side(), CROSSED[name], runs=3, cross="always")
    parts = [f.rule.partition("/")[2] for f in result.findings]
    assert parts[:1] == [name.partition(",")[0]]
    if name == "optimizer":
        assert result.findings[0].proven
        assert "what is left is the optimizer, or the gradients" in result.findings[0].cause


def test_cross_experiments_accuse_no_part_of_a_right_port():
    assert checked(side(), side(), runs=3, cross="always").findings == []


def test_curves_of_all_runs_are_drawn_where_matplotlib_is(tmp_path):
    pytest.importorskip("matplotlib")
    result = check(side(), side(), stages=["train"], training=Trainings(runs=2, exact_steps=0), out=tmp_path)["train"]
    text = (tmp_path / "train_align.svg").read_text()
    assert text.count("<!-- reference -->") == text.count("<!-- candidate -->") > 0
    assert any(note.startswith("curves of 3 of 3 figures") for note in result.notes)


def test_without_matplotlib_a_note_says_that_nothing_was_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("paralign.report.overlaid.find_spec", lambda _: None)
    result = check(side(), side(), stages=["train"], training=Trainings(runs=1, exact_steps=0), out=tmp_path)["train"]
    assert "no curves were drawn: matplotlib is not installed (pip install 'paralign[plot]')" in result.notes
    assert not (tmp_path / "train_align.svg").exists()
