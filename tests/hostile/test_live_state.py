"""A check of live objects gives back what it was given: also inside another, in another thread, and after an exception."""

from __future__ import annotations

import random
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

from paralign import Side, check
from paralign.errors import UsageError
from paralign.run import turns
from paralign.run.borrowing import Borrowed

INPUTS = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
LABELS = np.linspace(0, 1, 8, dtype="float32").reshape(4, 2)


def plain(model=np.tanh):
    return Side(framework="numpy", model=model)


def checked(model=np.tanh):
    return check(plain(model), plain(model), inputs=INPUTS, stages=["forward"]).verdict


# -- turns -------------------------------------------------------------------------------------------------------------------


def test_a_check_inside_a_check_is_of_the_same_turn():
    seen = []

    def model(x):
        seen.append(checked())
        return np.tanh(x)

    assert checked(model) == "aligned"
    assert seen
    assert set(seen) == {"aligned"}


def test_checks_of_several_threads_wait_for_each_other():
    at_work, most, found = [], [], []

    def model(x):
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.01)
        at_work.pop()
        return np.tanh(x)

    threads = [threading.Thread(target=lambda: found.append(checked(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == ["aligned"] * 4
    assert max(most) == 1


def test_a_check_in_a_thread_that_a_model_waits_for_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr(turns, "STUCK", 0.5)
    told = []

    def inner():
        try:
            checked()
        except UsageError as error:
            told.append(str(error))

    def model(x):
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
        return np.tanh(x)

    assert checked(model) == "aligned"
    assert told
    assert all("another check runs in this process" in text and "where: thread MainThread" in text for text in told)
    assert not turns.is_mine()


def test_an_interrupt_ends_a_check_in_the_users_own_thread_and_gives_the_turn_back():
    def model(x):
        assert threading.current_thread() is threading.main_thread()
        raise KeyboardInterrupt

    state = random.getstate()
    with pytest.raises(KeyboardInterrupt):
        checked(model)
    assert random.getstate() == state
    assert checked() == "aligned"


# -- numpy -------------------------------------------------------------------------------------------------------------------


class Model:
    """Counts its calls, keeps what it saw, and replaces an array."""

    def __init__(self):
        self.parameters = {"weight": np.arange(6, dtype="float32").reshape(3, 2)}
        self.scale = np.ones(2, "float32")
        self.calls, self.seen = 0, []

    def __call__(self, x):
        self.calls += 1
        self.seen.append(x)
        self.scale = self.scale * 1
        return np.tanh(x @ self.parameters["weight"].astype(x.dtype) * self.scale)


@pytest.mark.parametrize("fails", [False, True])
def test_numpy_models_and_generators_are_as_before(fails):
    first, second = Model(), Model()
    second.parameters["weight"] = second.parameters["weight"] * 2
    arrays = [(m, m.parameters["weight"], m.scale, m.parameters["weight"].copy()) for m in (first, second)]
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002 - what checks seed

    def metric(outputs, labels):
        raise ValueError if fails else None

    side = Side(framework="numpy", model=first, metric=metric if fails else lambda o, _: o.mean())
    result = check(side, Side(framework="numpy", model=second, metric=side.metric), inputs=INPUTS, labels=LABELS)
    assert result.verdict == ("error" if fails else "aligned")
    for model, weight, scale, values in arrays:
        assert model.parameters["weight"] is weight
        assert model.scale is scale
        assert np.array_equal(weight, values)
        assert (model.calls, model.seen) == (0, [])
    assert random.getstate() == python
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), legacy, strict=True))  # noqa: NPY002 - as above


def test_a_borrowed_object_works_on_copies_and_starts_anew_each_time():
    class Schedule:
        step = 3

        def __init__(self):
            self.history = [1]

    class Optimizer:
        def __init__(self):
            self.schedule, self.state, self.handle = Schedule(), {"a": np.ones(2)}, threading.Lock()

    own, weight = Optimizer(), np.ones(2)
    schedule, state, history = own.schedule, own.state, own.schedule.history
    borrowed = Borrowed()
    for _ in range(2):
        taken = borrowed.take(own, [weight])
        assert taken is own
        assert borrowed.take(schedule, []) is own.schedule  # the one that the optimizer now uses
        assert own.schedule is not schedule
        assert own.schedule.history == [1]
        assert own.state["a"].tolist() == [1, 1]
        own.schedule.history.append(2)
        own.state["a"] += 1
        own.extra = 1
    borrowed.give_back()
    assert own.schedule is schedule
    assert own.state is state
    assert (schedule.history, history) == ([1], [1])
    assert state["a"].tolist() == [1, 1]
    assert not hasattr(own, "extra")


# -- PyTorch and Paddle ------------------------------------------------------------------------------------------------------


def torch_side(fail):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm, self.calls = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), 0
            self.kept = torch.ones(2)
            self.dropped = torch.nn.Dropout(0.5)

        def forward(self, x):
            self.calls += 1
            self.kept.add_(1.0)
            return self.dropped(self.norm(self.inner(x)))

    torch.manual_seed(1)
    model = Net().train()
    model.dropped.eval()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        torch.nn.functional.mse_loss(model(torch.tensor(INPUTS)), torch.tensor(LABELS)).backward()
        optimizer.step()
        schedule.step()
    pending = model(torch.tensor(INPUTS)).sum()  # a graph of the user's, not differentiated yet

    def loss(outputs, labels):
        if fail:
            raise ValueError("as planned")
        return torch.nn.functional.mse_loss(outputs, labels)

    side = Side(model=model, loss=loss, optimizer=lambda _: optimizer, scheduler=lambda _: schedule)
    tensors = [*model.parameters(), *model.buffers(), model.kept]

    def state():
        return {
            "values": [t.detach().numpy().tobytes() for t in tensors],
            "memory": [t.data_ptr() for t in tensors],
            "gradients": [None if t.grad is None else (t.grad.data_ptr(), t.grad.numpy().tobytes()) for t in model.parameters()],
            "versions": [t._version for t in tensors],
            "optimizer": str(optimizer.state_dict()) + str([id(v) for s in optimizer.state.values() for v in s.values()]),
            "schedule": str(schedule.state_dict()),
            "modes": [m.training for m in model.modules()],
            "calls": model.calls,
            "random": torch.get_rng_state().numpy().tobytes(),
        }

    return side, state, pending.backward


def paddle_side(fail):
    import paddle

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner, self.norm, self.calls = paddle.nn.Linear(3, 2), paddle.nn.BatchNorm1D(2), 0
            self.dropped = paddle.nn.Dropout(0.5)

        def forward(self, x):
            self.calls += 1
            return self.dropped(self.norm(self.inner(x)))

    paddle.seed(1)
    model = Net()
    model.train()
    model.dropped.eval()
    schedule = paddle.optimizer.lr.StepDecay(0.01, 2)
    optimizer = paddle.optimizer.Adam(schedule, parameters=model.parameters())
    for _ in range(3):
        paddle.nn.functional.mse_loss(model(paddle.to_tensor(INPUTS)), paddle.to_tensor(LABELS)).backward()
        optimizer.step()
        schedule.step()

    def loss(outputs, labels):
        if fail:
            raise ValueError("as planned")
        return paddle.nn.functional.mse_loss(outputs, labels)

    side = Side(model=model, loss=loss, optimizer=lambda _: optimizer, scheduler=lambda _: schedule)
    tensors = [*model.parameters(), *model.buffers()]

    def state():
        return {
            "values": [t.numpy().tobytes() for t in tensors],
            "memory": [t.data_ptr() for t in tensors],
            "gradients": [None if t.grad is None else (t.grad.data_ptr(), t.grad.numpy().tobytes()) for t in model.parameters()],
            "optimizer": {k: v.numpy().tobytes() if hasattr(v, "numpy") else str(v) for k, v in optimizer.state_dict().items()},
            "schedule": str(schedule.state_dict()),
            "modes": [layer.training for layer in model.sublayers(include_self=True)],
            "calls": model.calls,
            "flags": [t.stop_gradient for t in tensors],
        }

    return side, state, lambda: None


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("fail", [False, True])
def test_frameworks_objects_are_as_before_bit_for_bit(fail):
    paddle = pytest.importorskip("paddle")
    for make in (torch_side, paddle_side):
        (one, one_state, one_pending), (other, other_state, other_pending) = make(fail), make(fail)
        before = one_state(), other_state()
        generator = paddle.get_rng_state()
        np.random.seed(5)  # noqa: NPY002 - what checks seed
        random.seed(6)
        result = check(one, other, inputs=INPUTS, labels=LABELS, steps=2)
        assert result.verdict == ("error" if fail else "aligned"), [(s.name, s.verdict, s.notes, s.failure) for s in result.stages]
        for was, state in zip(before, (one_state, other_state), strict=True):
            now = state()
            assert [key for key in was if was[key] != now[key]] == []
        assert np.random.random() == np.random.RandomState(5).random_sample()  # noqa: NPY002 - as above
        assert random.random() == random.Random(6).random()
        drawn = paddle.rand([4]).numpy()
        paddle.set_rng_state(generator)
        assert np.array_equal(drawn, paddle.rand([4]).numpy())
        one_pending()
        other_pending()


@pytest.mark.torch
def test_settings_of_the_users_thread_do_not_reach_the_sides():
    import torch

    def side():
        return Side(model=torch.nn.Linear(3, 2), loss=torch.nn.functional.mse_loss, optimizer=lambda p: torch.optim.SGD(p, 0.1))

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        result = check(side(), side(), inputs=INPUTS, labels=LABELS)
        assert not torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert result["backward"].verdict == "aligned"


@pytest.mark.paddle
def test_a_program_that_asks_for_automatic_casts_sees_none():
    """Layers of other packages round to float16 where ``amp_state()`` is filled, as it is under ``auto_cast(enable=False)``."""
    paddle = pytest.importorskip("paddle")
    from paddle.amp.auto_cast import amp_state

    class Norm(paddle.nn.Layer):
        def forward(self, x):
            seen.append(amp_state())
            return x.astype("float16").astype(x.dtype) if amp_state() else x * 2.0

    def model(x):
        return x * 2.0

    seen: list[object] = []
    assert check(Side(model=model), Side(model=Norm(), framework="paddle"), inputs=INPUTS)["forward"].verdict == "aligned"
    assert seen
    assert not any(seen)


@pytest.mark.paddle
def test_automatic_casts_are_switched_off_and_on_again():
    paddle = pytest.importorskip("paddle")
    from paddle.amp.auto_cast import amp_state
    from paddle.base.framework import _dygraph_tracer

    from paralign.adapters._autocast_paddle import no_autocast

    levels = paddle.base.core.AmpLevel
    with pytest.warns(UserWarning, match="amp_guard can only be enabled") if not paddle.is_compiled_with_cuda() else nullcontext():
        within = paddle.amp.auto_cast(level="O1")
        within.__enter__()
    tracer = _dygraph_tracer()
    before, state = tracer._amp_level, amp_state()
    tracer._amp_level = levels.O1
    try:
        with no_autocast():
            assert tracer._amp_level == levels.O0
            assert amp_state() is None
        assert tracer._amp_level == levels.O1
        assert amp_state() is state is not None
    finally:
        tracer._amp_level = before
        within.__exit__(None, None, None)
    assert amp_state() is None
