"""What frameworks add for several processes: gradients are seen after every backward pass; layers compute as before in one process."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.adapters.parallel import parallel

X = np.random.RandomState(0).randn(6, 3).astype("float32")


def torch_parts():
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, requires_grad=True)
    layer = torch.nn.SyncBatchNorm(3)
    return weight, torch.nn.SyncBatchNorm, torch.nn.BatchNorm1d(3), layer, torch.tensor


def paddle_parts():
    paddle = pytest.importorskip("paddle")
    weight = paddle.to_tensor(np.ones(3, "float32"), stop_gradient=False)
    layer = paddle.nn.SyncBatchNorm(3)
    return weight, paddle.nn.SyncBatchNorm, paddle.nn.BatchNorm1D(3), layer, paddle.to_tensor


PARTS = {"torch": torch_parts, "paddle": paddle_parts}


@pytest.mark.parametrize("framework", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in PARTS])
def test_gradients_are_seen_after_a_backward_pass_and_only_inside(framework):
    weight, *_, tensor = PARTS[framework]()
    seen = []
    with parallel(framework).after_backward(lambda: seen.append(np.array(weight.grad.numpy()))):
        (tensor(X) @ weight).sum().backward()
        (tensor(X) @ weight).sum().backward()
    (tensor(X) @ weight).sum().backward()
    assert [np.allclose(value, times * X.sum(0), atol=1e-5) for times, value in zip((1, 2), seen, strict=True)] == [True, True]


@pytest.mark.parametrize("framework", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in PARTS])
def test_synchronised_layers_compute_on_the_cpu_as_plain_ones_do_in_one_process(framework):
    _, cls, plain, layer, tensor = PARTS[framework]()
    original = cls.forward
    try:
        parallel(framework).synchronise_on_cpu()
        for mode in ("train", "eval"):
            for each in (plain, layer):
                getattr(each, mode)()
            assert np.allclose(plain(tensor(X)).detach().numpy(), layer(tensor(X)).detach().numpy(), atol=1e-6)
    finally:
        cls.forward = original


def test_a_framework_without_a_part_has_none():
    assert parallel("numpy") is None
