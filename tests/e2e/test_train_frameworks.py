"""The stage ``train`` on a PyTorch program and its Paddle port, with dropout, batch normalisation, a schedule and workers' batches."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, Coverage
from paralign.run.trainings import Trainings

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


def data():
    own = np.random.RandomState(3)
    x = own.normal(size=(96, 10)).astype("float32")
    return x, (x[:, :3].argmax(axis=1)).astype("int64")


def rows(size=16):
    order = np.random.permutation(96)  # noqa: NPY002 - what a check seeds
    return [order[start : start + size] for start in range(0, 96, size)]


def torch_model():
    nn = torch.nn
    return nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))


def torch_train(log):
    model = log.model(torch_model())
    optimizer = log.optimizer(torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
    x, y = data()
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}

    def load(stem):
        for name, kept in torch.load(stem + ".pth", weights_only=True).items():
            parts[name].load_state_dict(kept)

    for epoch in range(log.resume(load), 3):
        model.train()
        for _, (images, labels) in log.batches([(torch.tensor(x[r]), torch.tensor(y[r])) for r in rows()], epoch):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            log.step(samples=len(labels), loss=loss)
        model.eval()
        with torch.no_grad():
            out = model(torch.tensor(x))
        log.evaluation(epoch, acc=(out.argmax(1).numpy() == y).mean(), loss=torch.nn.functional.cross_entropy(out, torch.tensor(y)))
        log.checkpoint(epoch, lambda stem: torch.save({name: part.state_dict() for name, part in parts.items()}, stem + ".pth"))


def paddle_model(slope=0.0):
    nn = paddle.nn
    return nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1D(32, momentum=0.9), nn.LeakyReLU(slope), nn.Dropout(0.2), nn.Linear(32, 3))


def paddle_training(decay=1e-3, gamma=0.5, forget=False, factor=1.0, slope=0.0, keep=("pdparams", "pdopt")):
    def train(log):
        model = log.model(paddle_model(slope))
        schedule = paddle.optimizer.lr.StepDecay(0.01, 6, gamma)
        optimizer = log.optimizer(paddle.optimizer.Adam(schedule, parameters=model.parameters(), weight_decay=decay))
        x, y = data()
        parts = {"pdparams": model, "pdopt": optimizer}

        def load(stem):
            for suffix in keep:
                parts[suffix].set_state_dict(paddle.load(f"{stem}.{suffix}"))

        for epoch in range(log.resume(load), 3):
            if not (forget and epoch):
                model.train()
            for _, (images, labels) in log.batches([(paddle.to_tensor(x[r]), paddle.to_tensor(y[r][:, None])) for r in rows()], epoch):
                loss = paddle.nn.functional.cross_entropy(model(images), labels) * factor
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                schedule.step()
                log.step(samples=len(labels), loss=loss)
            model.eval()
            with paddle.no_grad():
                out = model(paddle.to_tensor(x))
            log.evaluation(
                epoch, acc=(out.argmax(1).numpy() == y).mean(), loss=paddle.nn.functional.cross_entropy(out, paddle.to_tensor(y))
            )
            log.checkpoint(epoch, lambda stem: [paddle.save(part.state_dict(), f"{stem}.{suffix}") for suffix, part in parts.items()])

    return train


REFERENCE = Side(framework="torch", functions={"build_model": torch_model, "train": torch_train})


def checked(**changed):
    candidate = Side(framework="paddle", functions={"build_model": paddle_model, "train": paddle_training(**changed)})
    return check(REFERENCE, candidate, stages=["train"], training=Trainings(runs=0))["train"]


def test_a_right_port_takes_equal_steps():
    result = checked()
    assert [(p.key, p.notes) for p in result.pairs if p.judged and p.verdict == DIVERGED] == []
    assert (result.verdict, result.coverage) == (ALIGNED, [Coverage("steps one by one", 18, 18), Coverage("resumed trainings", 2, 2)])


def test_mistakes_of_the_loop_part_at_their_step():
    found = {}
    for name, changed in (("decay", {"decay": 2e-3}), ("schedule", {"gamma": 0.1}), ("mode", {"forget": True})):
        result = checked(**changed)
        assert result.verdict == DIVERGED
        found[name] = next(p for p in result.pairs if p.verdict == DIVERGED).notes[0]
    assert found["decay"].startswith("parts at step 1 ")
    assert found["schedule"].startswith("parts at step 7 ")
    assert found["mode"].startswith("parts at step 6 (epoch 1, batch 0)")


def test_a_checkpoint_without_the_state_of_the_optimizer_is_found():
    pairs = {p.key: p for p in checked(keep=("pdparams",)).pairs}
    assert pairs["resumed training of the reference"].verdict == ALIGNED
    found = pairs["resumed training of the candidate"]
    assert found.verdict == DIVERGED
    assert found.notes[0].startswith("interrupted after 6 steps, loss parts at step 7 ")


def test_the_references_outputs_tell_the_network_from_the_loss():
    for changed, part in (({"factor": 0.9}, "loss"), ({"slope": 0.1}, "network"), ({"forget": True}, "network")):
        first = next(iter((result := checked(**changed)).findings), None)
        assert first is not None, result.notes
        assert first.rule == "train/model"
        assert first.proven == (part == "network"), first.cause
        assert f"look at the {part}" in first.fix
        assert "with the reference's network outputs in place of its own" in first.cause


def test_the_operation_that_makes_a_loss_infinite_is_named_with_its_line():
    def train(log):
        model = log.model(torch_model())
        optimizer = log.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
        x, y = (torch.tensor(each) for each in data())
        for step, _ in log.batches(range(6), 0):
            probabilities = torch.softmax(model(x), 1).gather(1, y[:, None])
            if step == 3:
                probabilities = probabilities * 0
            loss = -torch.log(probabilities).mean()  # the line to be named
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.step(samples=96, loss=loss)

    candidate = Side(framework="torch", functions={"build_model": torch_model, "train": train})
    result = check(REFERENCE, candidate, stages=["train"], training=Trainings(runs=1, exact_steps=0, cross="never"))["train"]
    assert result.verdict == DIVERGED
    finding = next(f for f in result.findings if f.rule == "train/nonfinite")
    assert "loss is inf at epoch 0, batch 3; the first operation that makes it of finite values is aten.log" in finding.cause
    assert result.divergence.candidate.code.endswith("# the line to be named")


def functional(framework, p):
    """A training whose dropout is a function: no layer that could be switched off."""
    nn = torch.nn if framework == "torch" else paddle.nn
    tensor = torch.tensor if framework == "torch" else paddle.to_tensor

    def train(log):
        model = log.model(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if framework == "torch" else paddle.optimizer.SGD(0.1, model.parameters())
        x, y = data()
        for _, (images, labels) in log.batches([(tensor(x[r]), tensor(y[r])) for r in rows()], 0):
            hidden = nn.functional.dropout(model[1](model[0](images)), p)
            loss = nn.functional.cross_entropy(model[2](hidden), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad() if framework == "torch" else optimizer.clear_grad()
            log.step(samples=len(labels), loss=loss)

    return Side(
        framework=framework,
        functions={"build_model": lambda: nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)), "train": train},
    )


def test_draws_of_steps_are_replayed_where_no_layer_can_be_switched_off():
    right = check(functional("torch", 0.3), functional("paddle", 0.3), stages=["train"], training=Trainings(runs=0))["train"]
    assert (right.verdict, [p.key for p in right.pairs if p.verdict != ALIGNED]) == (ALIGNED, [])
    assert "steps draw random numbers: 6 draws of the reference were put in place of the candidate's" in right.notes
    wrong = check(functional("torch", 0.3), functional("paddle", 0.2), stages=["train"], training=Trainings(runs=0))["train"]
    assert wrong.verdict == DIVERGED
    assert wrong.pairs[0].notes[0].startswith("parts at step 0 ")
