"""What frameworks add for several processes: gradients are seen after every backward pass; layers compute as before in one process."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters.finding import load
from paralign.adapters.parallel import parallel
from paralign.worker.ranks.rank import _Generators, _Rank

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


def rank_of(framework, device="cpu"):
    session = SimpleNamespace(adapter=load(framework), functions={}, device=device)
    return _Rank(session, SimpleNamespace(options=None, saving="saved"), 0, None)


def drawn(rank, loader, steps):
    """The generators that are drawn from where a loader is opened and the steps are taken."""
    generators = _Generators(rank.session.adapter, 1, 0)
    rank.began = generators.states()
    batches = rank._opened(loader(), generators)
    steps(batches)
    return rank._drawn(None, generators.states(), random_layers=False)


@pytest.mark.torch
def test_only_the_seed_of_pytorchs_own_loader_is_set_aside():
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.zeros(6, 2))

    class Eager(torch.utils.data.Sampler):
        def __len__(self):
            return 6

        def __iter__(self):
            return iter(torch.randperm(6).tolist())

    def built(**options):
        return torch.utils.data.DataLoader(data, batch_size=2, **options)

    def drawing():
        torch.rand(1)
        return built()

    rank = rank_of("torch")
    assert drawn(rank, built, list) == []
    assert drawn(rank, lambda: built(generator=torch.Generator()), list) == []
    assert drawn(rank, built, lambda batches: [torch.rand(1) for _ in batches]) == ["framework"]
    assert drawn(rank, lambda: built(shuffle=True), list) == ["framework"]
    assert drawn(rank, drawing, list) == ["framework"]
    assert drawn(rank, lambda: torch.utils.data.DataLoader(data, batch_sampler=Eager()), lambda _: None) == ["framework"]
    assert drawn(rank, lambda: [1, 2], lambda _: np.random.rand()) == ["numpy"]  # noqa: NPY002 - what programs draw from
    assert drawn(rank_of("torch", "gpu:0"), built, list) == ["framework"]  # the card's own generator is not read


@pytest.mark.paddle
def test_what_paddles_loader_reads_ahead_is_drawn_whenever_it_is():
    paddle = pytest.importorskip("paddle")

    class Noise(paddle.io.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return np.random.rand(2)  # noqa: NPY002 - as above

    def finished(batches):
        """As a thread that has read all there is before the first step."""
        next(batches)

    assert drawn(rank_of("paddle"), lambda: paddle.io.DataLoader(Noise(), batch_size=2, num_workers=0), finished) == ["numpy"]


@pytest.mark.torch
def test_layers_that_never_draw_are_no_random_layers():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Frozen(nn.Module):
        def __init__(self, *layers):
            super().__init__()
            self.layers = nn.Sequential(*layers)

        def train(self, mode=True):
            super().train(mode)
            for layer in self.layers:
                layer.eval()
            return self

    class DropPath(nn.Module):
        def __init__(self, drop_prob):
            super().__init__()
            self.drop_prob = drop_prob

    rank = rank_of("torch")
    for quiet in (nn.Linear(2, 2), nn.Dropout(0.0), DropPath(0.0), Frozen(nn.BatchNorm1d(2), nn.Dropout(0.5)), nn.GRU(2, 2, 2)):
        assert not rank._quieted(nn.Sequential(quiet))
    for random in (nn.Dropout(0.5), DropPath(0.1), nn.RReLU(), nn.GRU(2, 2, 2, dropout=0.5), nn.MultiheadAttention(2, 1, dropout=0.1)):
        assert rank._quieted(nn.Sequential(random))
