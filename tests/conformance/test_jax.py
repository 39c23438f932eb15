"""What the adapter of JAX does beyond the rules of all: trees of parameters, tuples, partials, flax.nnx, tracing, types of 64 bits."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.errors import UnsupportedTensor

jax = pytest.importorskip("jax", reason="needs JAX (the extra `jax`)")
jnp = jax.numpy
trees = pytest.importorskip("paralign_jax.trees")
adapter = pytest.importorskip("paralign_jax.adapter").create()


class Layer(NamedTuple):
    w: object
    b: object


def network(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    return x @ params[-1].w + params[-1].b


def ones(*shape):
    return jnp.ones(shape, "float32")


def functional():
    return partial(network, [(ones(3, 4), ones(4)), Layer(ones(4, 2), ones(2))])


def zeros(entries):
    return {e.name: Typed(np.zeros(e.tensor.shape, "float32"), "float32") for e in entries}


def test_a_function_over_a_tree_of_tuples_is_a_model():
    model = functional()
    entries = adapter.state(model)
    assert [e.name for e in entries] == ["params.0.0", "params.0.1", "params.1.w", "params.1.b"]
    assert {e.role for e in entries} == {"parameter"}
    assert adapter.is_model(model)
    assert model(ones(5, 3)).any()
    adapter.load_state(model, zeros(entries))
    assert not model(ones(5, 3)).any()
    assert isinstance(model.args[0][1], Layer)
    adapter.cast(model, "float64")
    assert model(jnp.ones((5, 3), "float64")).dtype == "float64"
    assert model.func is network


def test_what_is_given_by_keyword_is_told_apart():
    model = partial(lambda x, params, state: x * params["w"] + state["mean"], params={"w": ones(3)}, state={"mean": ones(3)})
    assert {e.name: e.role for e in adapter.state(model)} == {"params.w": "parameter", "state.mean": "buffer"}
    adapter.load_state(model, {"state.mean": Typed(np.full(3, 5.0), "float64")})
    assert model(ones(3)).tolist() == [6.0, 6.0, 6.0]


def test_programs_keep_32_bits_where_they_name_no_type():
    assert jnp.zeros(2).dtype == "float32"
    assert jnp.arange(2).dtype == "int32"
    assert adapter.from_array(Typed(np.arange(2), "int64")).dtype == "int64"


def test_arrays_without_values_are_refused_by_name():
    with pytest.raises(UnsupportedTensor, match="key of random numbers"):
        adapter.to_array(jax.random.key(0))
    assert not adapter.is_tensor(jax.random.key(0))
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(UnsupportedTensor, match="donated"):
        adapter.to_array(gone)

    @jax.jit
    def traced(x):
        assert not adapter.is_tensor(x)
        with pytest.raises(UnsupportedTensor, match="being traced"):
            adapter.to_array(x)
        return x

    traced(jnp.ones(2))


class Inner:
    def __init__(self):
        self.params = {"w": ones(3)}

    def __call__(self, x):
        return x * self.params["w"]


class Outer:
    def __init__(self):
        self.inner = Inner()
        self.compiled = jax.jit(self.inner)

    def __call__(self, x):
        return self.compiled(self.inner(x))


def test_calls_that_are_traced_are_not_reported():
    seen = []
    with adapter.observe(Outer(), seen.append):
        Outer.__call__(model := Outer(), ones(3))
    assert seen == []  # another object than the one observed
    with adapter.observe(model, seen.append):
        model(ones(3))
    assert [call.name for call in seen] == ["inner", ""]


def test_a_lent_model_is_given_back():
    model = functional()
    give_back = adapter.lend(model)
    adapter.load_state(model, zeros(adapter.state(model)))
    adapter.cast(model, "float16")
    give_back()
    assert model(ones(5, 3)).dtype == "float32"
    assert model(ones(5, 3)).any()


@pytest.fixture
def net():
    nnx = pytest.importorskip("flax.nnx", reason="needs flax")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Conv(3, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)])
            self.words = nnx.Embed(7, 4, rngs=rngs)
            self.head = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x.mean(axis=(1, 2)))

    return Net(nnx.Rngs(0))


def test_modules_of_nnx_are_layers_with_names_of_pytorch(net):
    found = {e.name: (e.kind, e.leaf, e.role) for e in adapter.state(net)}
    assert found["layers.0.kernel"] == ("Conv2d", "weight", "parameter")
    assert found["layers.1.scale"] == ("BatchNorm", "weight", "parameter")
    assert found["layers.1.mean"] == ("BatchNorm", "running_mean", "buffer")
    assert found["words.embedding"] == ("Embedding", "weight", "parameter")
    assert found["head.kernel"] == ("Linear", "weight", "parameter")
    assert not any("rngs" in name for name in found)
    assert [path for path, _ in adapter.modules(net)] == ["", "layers.0", "layers.1", "layers.2", "words", "head"]


def test_nnx_is_watched_cast_loaded_and_switched(net):
    seen = []
    adapter.train(net, "eval")
    with adapter.observe(net, seen.append):
        net(ones(2, 5, 5, 3))
    assert [(call.name, call.kind) for call in seen] == [
        ("layers.0", "Conv2d"), ("layers.1", "BatchNorm"), ("layers.2", "Dropout"), ("head", "Linear"), ("", ""),
    ]  # fmt: skip
    assert all(call.source and call.source.startswith(__file__) for call in seen)
    adapter.cast(net, "float64")
    assert net(jnp.ones((2, 5, 5, 3), "float64")).dtype == "float64"
    adapter.cast(net, "float32")
    adapter.load_state(net, zeros(adapter.state(net)))
    assert not net(ones(2, 5, 5, 3)).any()
    before = adapter.mode(net)
    adapter.train(net, "quiet")
    assert (net.layers[1].use_running_average, net.layers[2].deterministic) == (False, True)
    adapter.train(net, "train")
    assert net.layers[2].deterministic is False
    adapter.set_mode(net, before)
    assert (net.layers[1].use_running_average, net.layers[2].deterministic) == (True, True)
