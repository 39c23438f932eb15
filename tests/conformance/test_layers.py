"""What each framework's own layers, and numpy's lack of them, ask of its adapter."""

from __future__ import annotations

import types

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.dtypes import Typed
from paralign.errors import UnsupportedTensor, UsageError


class Leaf:
    def __init__(self, value):
        self.parameters = {"weight": np.full(2, value)}

    def __call__(self, x):
        return x


class TestNumpyModels:
    adapter = finding.load("numpy")

    def names(self, model):
        return [entry.name for entry in self.adapter.state(model)]

    def test_functions_have_no_state(self):
        assert self.adapter.modules(np.tanh) == [("", np.tanh)]
        assert self.names(np.tanh) == self.names(lambda x: x) == []

    def test_cycles_end(self):
        model = Leaf(1.0)
        model.self, model.list = model, [model]
        model.list.append(model.list)
        assert self.names(model) == ["parameters.weight"]
        assert self.adapter.modules(model) == [("", model)]

    def test_nested_holders(self):
        model = Leaf(1.0)
        model.table = {"a": [np.zeros(1), {"b": np.zeros(1)}], "leaf": Leaf(2.0)}
        model.more = types.SimpleNamespace(x=np.zeros(1))
        model.labels, model.text, model.number = np.array(["cat"]), "text", 3
        assert self.names(model) == ["parameters.weight", "table.a.0", "table.a.1.b", "table.leaf.parameters.weight", "more.x"]
        assert [path for path, _ in self.adapter.modules(model)] == ["", "table.leaf"]

    def test_pythons_own_objects_are_not_searched(self):
        import logging
        import random

        model = Leaf(1.0)
        model.log, model.random, model.generator = logging.getLogger("x"), random.Random(1), np.random.default_rng(1)
        model.log.stray = np.zeros(3)
        try:
            assert self.names(model) == ["parameters.weight"]
        finally:
            del model.log.stray

    def test_a_bound_method_stands_for_its_object(self):
        assert self.names(Leaf(1.0).__call__) == ["parameters.weight"]

    def test_read_only_arrays(self):
        model = Leaf(1.0)
        model.fixed = np.zeros(2)
        model.fixed.flags.writeable = False
        with pytest.raises(UsageError, match="this array of the model is read-only") as caught:
            self.adapter.load_state(model, {"parameters.weight": Typed(np.ones(2), "float64"), "fixed": Typed(np.ones(2), "float64")})
        assert caught.value.where == "fixed"
        assert model.fixed.tolist() == [0, 0]
        assert model.parameters["weight"].tolist() == [1, 1]
        self.adapter.cast(model, "float32")
        assert model.fixed.dtype == np.float32


@pytest.mark.torch
class TestTorchModels:
    @pytest.fixture(autouse=True)
    def _framework(self):
        pytest.importorskip("torch")

    def test_kinds(self):
        import torch
        from torch.nn.utils import parametrize

        class Mine(torch.nn.Linear):
            pass

        class Chain(torch.nn.Sequential):
            pass

        class Own(torch.nn.Module):
            pass

        class Double(torch.nn.Module):
            def forward(self, x):
                return 2 * x

        parametrized = torch.nn.Linear(2, 2)
        parametrize.register_parametrization(parametrized, "weight", Double())
        kind = finding.load("torch").kind
        cases = [
            (Mine(1, 1), "Linear"),
            (Chain(), "Sequential"),
            (Own(), ""),
            (torch.nn.ModuleList(), "ModuleList"),
            (torch.nn.BatchNorm2d(1), "BatchNorm2d"),
            (torch.nn.Module(), ""),
            (parametrized, "Linear"),
            (torch.nn.LSTM(1, 1), "LSTM"),
        ]
        assert [kind(module) for module, _ in cases] == [name for _, name in cases]

    def test_normalisation_buffers_carry_their_settings(self):
        import torch

        entries = {e.name: e for e in finding.load("torch").state(torch.nn.BatchNorm1d(2, momentum=None, eps=0.5))}
        assert entries["running_mean"].attrs == {"momentum": None, "epsilon": 0.5}
        assert entries["weight"].attrs == {}
        assert entries["num_batches_tracked"].role == "buffer"

    def test_quiet_mode(self):
        import torch

        class DropPath(torch.nn.Module):
            pass

        class Attending(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = torch.nn.MultiheadAttention(4, 2, dropout=0.5)
                self.lstm = torch.nn.LSTM(4, 4, num_layers=2, dropout=0.5)
                self.rest = torch.nn.Sequential(
                    torch.nn.Dropout(0.5),
                    torch.nn.AlphaDropout(),
                    torch.nn.FeatureAlphaDropout(),
                    torch.nn.Dropout2d(),
                    torch.nn.RReLU(),
                    DropPath(),
                    torch.nn.BatchNorm1d(4),
                )

            def forward(self, x):
                return self.lstm(self.attention(x, x, x)[0])[0]

        check_quiet_mode(finding.load("torch"), Attending(), torch.ones(3, 2, 4), random=6)

    def test_lstm_casts_and_runs(self):
        import torch

        adapter = finding.load("torch")
        model = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        assert len(adapter.state(model)) == 16
        adapter.cast(model, "float64")
        assert model(torch.ones(2, 1, 3, dtype=torch.float64))[0].dtype == torch.float64

    @pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
    def test_lazy_modules(self):
        import torch

        with pytest.raises(UnsupportedTensor, match="a parameter of a lazy module has no shape yet"):
            finding.load("torch").cast(torch.nn.LazyLinear(2), "float64")


@pytest.mark.paddle
class TestPaddleModels:
    @pytest.fixture(autouse=True)
    def _framework(self):
        pytest.importorskip("paddle")

    def test_kinds(self):
        import paddle

        class Mine(paddle.nn.Linear):
            pass

        class Chain(paddle.nn.Sequential):
            pass

        class Own(paddle.nn.Layer):
            pass

        kind = finding.load("paddle").kind
        cases = [
            (Mine(1, 1), "Linear"),
            (Chain(), "Sequential"),
            (Own(), ""),
            (paddle.nn.LayerList(), "LayerList"),
            (paddle.nn.BatchNorm2D(1), "BatchNorm2D"),
            (paddle.nn.Layer(), ""),
            (paddle.nn.LSTM(1, 1), "LSTM"),
            (paddle.vision.models.LeNet(), ""),  # a model, which counts as the code of its user
        ]
        assert [kind(module) for module, _ in cases] == [name for _, name in cases]

    @pytest.mark.parametrize("name", ["BatchNorm", "BatchNorm1D", "BatchNorm2D", "SyncBatchNorm"])
    def test_running_statistics_are_buffers(self, name):
        import paddle

        class Mine(getattr(paddle.nn, name)):
            pass

        adapter = finding.load("paddle")
        entries = {e.name: e for e in adapter.state(Mine(2, momentum=0.75, epsilon=0.5))}
        assert {n: e.role for n, e in entries.items()} == {
            "weight": "parameter",
            "bias": "parameter",
            "_mean": "buffer",
            "_variance": "buffer",
        }
        assert entries["_variance"].attrs == {"momentum": 0.75, "epsilon": 0.5}
        assert not entries["_mean"].trainable
        assert entries["weight"].attrs == {}
        assert list(adapter.gradients(Mine(2))) == ["weight", "bias"]

    def test_recurrent_layers_list_their_aliases(self):
        import paddle

        adapter = finding.load("paddle")
        model = paddle.nn.LSTM(3, 4)
        entries = {e.name: e for e in adapter.state(model)}
        assert sorted(entries) == sorted(model.state_dict())
        assert entries["0.cell.weight_ih"].shared == "weight_ih_l0"
        assert entries["0.cell.weight_ih"].kind == "LSTMCell"
        assert [e.shared for e in entries.values()].count(None) == 4
        model._buffers["_dropout_state"] = paddle.ones([8])  # what a run with dropout on a GPU leaves there
        assert [e.name for e in adapter.state(model)] == list(entries)
        adapter.cast(model, "float64")
        assert model(paddle.ones([2, 1, 3], dtype="float64"))[0].dtype == paddle.float64

    def test_casting_sets_and_restores_the_layers_dtype(self):
        import paddle

        model = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.BatchNorm(2), paddle.nn.Softmax2D())
        model[0]._dtype = paddle.float32
        before = [(layer._dtype, type(layer._dtype)) for layer in model.sublayers(include_self=True)]
        adapter = finding.load("paddle")
        adapter.cast(model, "float64")
        assert [layer._dtype for layer in model.sublayers(include_self=True)] == ["float64", paddle.float64, "float64", None]
        adapter.cast(model, "float32")
        assert [(layer._dtype, type(layer._dtype)) for layer in model.sublayers(include_self=True)] == before

    @pytest.mark.filterwarnings("ignore:When training, we now always track:UserWarning")
    def test_legacy_batch_norm_runs_in_float64(self):
        import paddle

        adapter = finding.load("paddle")
        model = paddle.nn.Sequential(paddle.nn.Conv2D(1, 2, 3), paddle.nn.BatchNorm(2), paddle.nn.BatchNorm2D(2))
        adapter.cast(model, "float64")
        assert {e.tensor.dtype for e in adapter.state(model)} == {paddle.float64}
        for mode in ("train", "eval"):
            adapter.train(model, mode)
            assert model(paddle.ones([2, 1, 5, 5], dtype="float64")).dtype == paddle.float64

    def test_quiet_mode(self):
        import paddle

        class DropPath(paddle.nn.Layer):
            pass

        class Attending(paddle.nn.Layer):
            def __init__(self):
                super().__init__()
                self.attention = paddle.nn.MultiHeadAttention(4, 2, dropout=0.5)
                self.lstm = paddle.nn.LSTM(4, 4, num_layers=2, dropout=0.5)
                self.rest = paddle.nn.Sequential(
                    paddle.nn.Dropout(0.5),
                    paddle.nn.AlphaDropout(),
                    paddle.nn.FeatureAlphaDropout(),
                    paddle.nn.Dropout2D(),
                    paddle.nn.Dropout3D(),
                    paddle.nn.RReLU(),
                    DropPath(),
                    paddle.nn.BatchNorm1D(4),
                )

            def forward(self, x):
                return self.lstm(self.attention(x, x, x))[0]

        check_quiet_mode(finding.load("paddle"), Attending(), paddle.ones([3, 2, 4]), random=7)


def check_quiet_mode(adapter, model, x, random):
    """Quiet is train mode without randomness, backward included; what it took comes back."""

    def draws():
        return [adapter.to_array(model(x)).array.tolist() for _ in range(2)]

    adapter.train(model, "eval")
    evaluated = adapter.mode(model)
    assert not any(training for _, training, _ in evaluated)
    adapter.train(model, "train")
    noisy = draws()
    assert noisy[0] != noisy[1]
    before = adapter.mode(model)
    adapter.train(model, "quiet")
    quiet = adapter.mode(model)
    assert [type(module).__name__ for module, training, _ in quiet if not training] == [type(m).__name__ for m in model.rest][:random]
    calm = draws()
    assert calm[0] == calm[1]
    model(x).sum().backward()
    adapter.set_mode(model, before)
    assert (model.attention.dropout, model.lstm.dropout) == (0.5, 0.5)
    adapter.set_mode(model, quiet)
    assert (model.attention.dropout, model.lstm.dropout) == (0.0, 0.0)
    adapter.train(model, "train")
    assert all(training for _, training, _ in adapter.mode(model))
    assert (model.attention.dropout, model.lstm.dropout) == (0.5, 0.5)
    adapter.set_mode(model, evaluated)
    assert not model.training
