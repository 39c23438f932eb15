"""Rules of ``Training``."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.errors import UsageError


class Parts:
    """A framework's optimizers and schedules, by one name."""

    def __init__(self, name):
        if name == "torch":
            import torch

            self.sgd = lambda params, lr: torch.optim.SGD(params, lr=lr)
            self.adam = lambda params, lr: torch.optim.Adam(params, lr=lr)
            self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
        else:
            import paddle

            self.sgd = lambda params, lr: paddle.optimizer.SGD(lr, parameters=params)
            self.adam = lambda params, lr: paddle.optimizer.Adam(lr, parameters=params)
            self.plateau = lambda _optimizer: paddle.optimizer.lr.ReduceOnPlateau(0.1)


@pytest.fixture
def parts(trained):
    return Parts(trained.name)


def loss_of(kit, model, dtype="float32"):
    return model(kit.ones(2, 4, dtype=dtype))["out"].sum()


def test_one_update(trained, parts):
    adapter, model = trained.adapter, trained.models.Net()
    optimizer = parts.sgd(adapter.parameters(model), 0.5)
    before = trained.values(model)
    adapter.backward(loss_of(trained, model))
    gradients = {name: adapter.to_array(g).array.copy() for name, g in adapter.gradients(model).items()}
    assert list(gradients) == [e.name for e in adapter.state(model) if e.role == "parameter"]
    assert gradients["head.bias"].tolist() == [2.0, 2.0]
    adapter.step(optimizer)
    after = trained.values(model)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(after[name], before[name] - 0.5 * gradient, rtol=1e-6)
    np.testing.assert_array_equal(after["scale"], before["scale"])


def test_gradients_before_and_after(trained, parts):
    adapter, model = trained.adapter, trained.models.Net()
    optimizer = parts.sgd(adapter.parameters(model), 0.5)
    assert set(adapter.gradients(model).values()) == {None}
    for clear in (optimizer, None):
        adapter.backward(loss_of(trained, model))
        assert None not in list(adapter.gradients(model).values())
        adapter.clear_gradients(model, clear)
        assert set(adapter.gradients(model).values()) == {None}
    adapter.backward(loss_of(trained, model))
    adapter.clear_gradients(None, optimizer)
    assert set(adapter.gradients(model).values()) == {None}


def test_tied_parameters_are_named_once(trained):
    assert list(trained.adapter.gradients(trained.models.Tied())) == ["encoder.weight", "encoder.bias"]


def test_frozen_parameters_have_no_gradient(trained):
    model = trained.models.Block()
    if trained.name == "torch":
        model.inner.weight.requires_grad_(False)
    else:
        model.inner.weight.stop_gradient = True
    trained.adapter.backward(model(trained.ones(1, 4)).sum())
    gradients = trained.adapter.gradients(model)
    assert gradients["inner.weight"] is None
    assert gradients["inner.bias"] is not None


def test_watched_tensors_keep_their_gradient(trained):
    adapter, x = trained.adapter, trained.ones(3)
    leaf = adapter.watch(x)
    assert adapter.gradient(leaf) is None
    adapter.backward((leaf * leaf).sum())
    assert adapter.to_array(adapter.gradient(leaf)).array.tolist() == [2, 2, 2]
    assert adapter.gradient(x) is None
    assert not np.shares_memory(adapter.to_array(leaf).array, adapter.to_array(x).array)


def test_watching_inside_a_graph_starts_a_new_one(trained):
    adapter = trained.adapter
    first = adapter.watch(trained.ones(2))
    second = adapter.watch(first * 3)
    adapter.backward((second * 5).sum())
    assert adapter.to_array(adapter.gradient(second)).array.tolist() == [5, 5]
    assert adapter.gradient(first) is None


def test_what_has_no_gradient_is_returned_as_it_is(trained):
    for dtype in ("int64", "bool", "uint8"):
        tensor = trained.tensor(np.ones(2, dtype))
        assert trained.adapter.watch(tensor) is tensor
    assert trained.adapter.watch(trained.tensor(np.ones(2, "complex64"))) is not None


def test_tensors_on_the_graph_can_be_read(trained):
    leaf = trained.adapter.watch(trained.ones(2))
    assert trained.adapter.to_array(leaf).array.tolist() == [1, 1]
    assert trained.adapter.to_array(leaf * 2).array.tolist() == [2, 2]


def test_no_gradients_inside_no_grad(trained):
    adapter, leaf = trained.adapter, trained.adapter.watch(trained.ones(2))
    with adapter.no_grad():
        out = leaf * 2
    assert (out.requires_grad if trained.name == "torch" else not out.stop_gradient) is False
    assert adapter.gradient(leaf) is None


def test_a_loss_is_a_scalar(trained):
    leaf = trained.adapter.watch(trained.ones(2, 3))
    with pytest.raises(UsageError) as caught:
        trained.adapter.backward(leaf * 2)
    assert str(caught.value) == (
        "a backward pass starts from a scalar, the loss has shape [2, 3]\n  where: loss\n  fix:   take its mean or sum"
    )
    trained.adapter.backward(trained.adapter.watch(trained.ones(1)) * 2)


def test_an_optimizer_built_before_a_cast_still_updates(trained, parts):
    adapter, model = trained.adapter, trained.models.Net()
    optimizer = parts.adam(adapter.parameters(model), 0.25)
    adapter.cast(model, "float64")
    before = trained.values(model)
    adapter.backward(loss_of(trained, model, "float64"))
    assert {adapter.to_array(g).dtype for g in adapter.gradients(model).values()} == {"float64"}
    adapter.step(optimizer)
    after = trained.values(model)
    np.testing.assert_allclose(np.abs(after["head.bias"] - before["head.bias"]), 0.25, rtol=1e-6)
    assert trained.dtypes(model)["head.bias"] == "float64"


def test_gradients_follow_a_cast(trained):
    adapter, model = trained.adapter, trained.models.Net()
    adapter.backward(loss_of(trained, model))
    first = adapter.to_array(adapter.gradients(model)["head.weight"]).array.copy()
    adapter.cast(model, "float64")
    adapter.backward(loss_of(trained, model, "float64"))
    double = adapter.to_array(adapter.gradients(model)["head.weight"])
    assert double.dtype == "float64"
    np.testing.assert_allclose(double.array, 2 * first.astype("float64"), rtol=1e-5, atol=1e-5)
    adapter.cast(model, "float32")
    adapter.backward(loss_of(trained, model))
    np.testing.assert_allclose(adapter.to_array(adapter.gradients(model)["head.weight"]).array, 3 * first, rtol=1e-5, atol=1e-5)


def test_a_cast_after_gradients_were_cleared(trained, parts):
    adapter, model = trained.adapter, trained.models.Net()
    optimizer = parts.sgd(adapter.parameters(model), 0.5)
    adapter.backward(loss_of(trained, model))
    adapter.clear_gradients(model, optimizer)
    adapter.cast(model, "float64")
    assert set(adapter.gradients(model).values()) == {None}
    adapter.backward(loss_of(trained, model, "float64"))
    assert adapter.to_array(adapter.gradients(model)["head.bias"]).array.tolist() == [2.0, 2.0]


def test_learning_rates(trained, parts):
    model = trained.models.Net()
    assert trained.adapter.learning_rates(parts.sgd(trained.adapter.parameters(model), 0.5)) == [0.5]


@pytest.mark.torch
def test_torch_groups_and_schedules():
    torch = pytest.importorskip("torch")
    adapter = finding.load("torch")
    a, b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": torch.tensor(0.5)}], lr=0.25)
    assert adapter.learning_rates(optimizer) == [0.25, 0.5]
    scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([a], lr=0.5), 1, 0.5)
    rates = []
    for _ in range(3):
        rates += adapter.learning_rates(scheduler.optimizer)
        adapter.step_scheduler(scheduler.optimizer, scheduler)
    assert rates == [0.5, 0.25, 0.125]
    adapter.step_scheduler(scheduler.optimizer, None)
    assert adapter.learning_rates(scheduler.optimizer) == [0.0625]


@pytest.mark.paddle
def test_paddle_groups_and_schedules():
    paddle = pytest.importorskip("paddle")
    adapter = finding.load("paddle")
    a, b = paddle.nn.Linear(1, 1), paddle.nn.Linear(1, 1)
    groups = [{"params": a.parameters()}, {"params": b.parameters(), "learning_rate": 0.5}]
    scheduler = paddle.optimizer.lr.StepDecay(0.5, 1, 0.5)
    optimizer = paddle.optimizer.SGD(scheduler, parameters=groups)
    assert adapter.learning_rates(optimizer) == [0.5, 0.25]
    before = {e.name: adapter.to_array(e.tensor).array.copy() for e in adapter.state(b)}
    b(paddle.ones([1, 1])).sum().backward()
    adapter.step(optimizer)
    assert np.isclose(adapter.to_array(b.bias).array, before["bias"] - 0.25)  # the factor is what Paddle itself applies
    adapter.step_scheduler(optimizer, None)
    assert adapter.learning_rates(optimizer) == [0.25, 0.125]
    adapter.step_scheduler(optimizer, scheduler)
    assert adapter.learning_rates(optimizer) == [0.125, 0.0625]
    constant = paddle.optimizer.SGD(0.5, parameters=a.parameters())
    adapter.step_scheduler(constant, None)
    assert adapter.learning_rates(constant) == [0.5]


def test_schedules_on_a_metric_are_refused(trained, parts):
    optimizer = parts.sgd(trained.adapter.parameters(trained.models.Net()), 0.5)
    with pytest.raises(UsageError, match=r"ReduceL?R?OnPlateau cannot be advanced without a metric") as caught:
        trained.adapter.step_scheduler(optimizer, parts.plateau(optimizer))
    assert caught.value.where == "build_scheduler"
