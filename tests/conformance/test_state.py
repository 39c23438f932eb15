"""Rules of ``Adapter`` that have to do with a model's modules, state, type and mode."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.dtypes import Typed, widen
from paralign.errors import UsageError


def by_name(kit, model):
    return {entry.name: entry for entry in kit.adapter.state(model)}


def test_modules(kit):
    model = kit.models.Net()
    paths = [path for path, _ in kit.adapter.modules(model)]
    expected = ["", "layers", "layers.0", "layers.1", "twice", "block", "block.inner", "head"]
    assert paths == [path for path in expected if kit.containers or path != "layers"]
    assert dict(kit.adapter.modules(model))["block.inner"] is model.block.inner


def test_a_shared_module_is_listed_once(kit):
    model = kit.models.Tied()
    assert [path for path, _ in kit.adapter.modules(model)] == ["", "encoder"]


def test_state(kit):
    model = kit.models.Net()
    entries = by_name(kit, model)
    weight = entries[kit.weight("block.inner")]
    assert (weight.role, weight.owner, weight.trainable, weight.shared, weight.persistent) == ("parameter", "block.inner", True, None, True)
    assert weight.leaf == kit.weight("")
    assert weight.kind == ("" if kit.plain else "Linear")
    assert weight.attrs == {}
    steps = entries["steps"]
    assert (steps.role, steps.owner, steps.leaf, steps.kind, steps.trainable) == ("buffer", "", "steps", "", False)
    assert steps.tensor is model.steps
    assert [e.role for e in entries.values()].count("parameter") == 10
    assert [e.role for e in entries.values()].count("buffer") == 2


def test_definition_order(kit):
    names = [e.name for e in kit.adapter.state(kit.models.Net()) if e.role == "parameter"]
    owners = ["layers.0", "layers.1", "twice", "block.inner", "head"]
    assert names == [name for owner in owners for name in (kit.weight(owner), kit.weight(owner).replace("weight", "bias"))]


def test_state_matches_the_frameworks_own_state_dict(trained):
    model = trained.models.Tied()
    assert sorted(by_name(trained, model)) == sorted(model.state_dict())


def test_aliases_name_their_first_entry(kit):
    entries = by_name(kit, kit.models.Tied())
    first = kit.weight("encoder")
    if kit.plain:  # objects are visited once, so the second name of one is not seen
        assert list(entries) == [first, first.replace("weight", "bias")]
        return
    assert entries[first].shared is None
    assert entries[kit.weight("decoder")].shared == first


def test_a_tied_tensor_names_its_first_entry(kit):
    model = kit.models.Net()
    if kit.plain:
        model.head.parameters["weight"] = model.twice.parameters["weight"]
    else:
        model.head.weight = model.twice.weight
    entries = by_name(kit, model)
    assert entries[kit.weight("head")].shared == kit.weight("twice")
    assert entries[kit.weight("head")].tensor is entries[kit.weight("twice")].tensor
    assert entries[kit.weight("twice")].shared is None


def test_buffers_left_out_of_the_state_dict(trained):
    model = trained.models.Net()
    trained.buffer(model, "cache", np.zeros(2), persistent=False)
    entries = by_name(trained, model)
    assert not entries["cache"].persistent
    assert entries["steps"].persistent
    assert "cache" not in model.state_dict()


def test_frozen_parameters(trained):
    model = trained.models.Net()
    if trained.name == "torch":
        model.head.weight.requires_grad_(False)
    else:
        model.head.weight.stop_gradient = True
    entries = by_name(trained, model)
    assert (entries["head.weight"].role, entries["head.weight"].trainable) == ("parameter", False)
    assert entries["head.bias"].trainable


def test_loading_writes_in_place(kit):
    model = kit.models.Net()
    before = {e.name: e.tensor for e in kit.adapter.state(model)}
    name = kit.weight("head")
    new = np.arange(8, dtype="float64").reshape(np.shape(kit.values(model)[name]))
    kit.adapter.load_state(model, {name: Typed(new, "float64"), "steps": Typed(np.array([7, 8, 9], "int32"), "int32")})
    values = kit.values(model)
    np.testing.assert_array_equal(values[name], new.astype("float32"), strict=True)
    assert values["steps"].tolist() == [7, 8, 9]
    assert values["steps"].dtype == np.int64
    after = {e.name: e.tensor for e in kit.adapter.state(model)}
    if kit.mutable:
        assert all(after[key] is before[key] for key in before)
    assert all(e.trainable for e in kit.adapter.state(model) if e.role == "parameter")


def test_loading_everything_back_restores_every_bit(kit):
    model = kit.models.Net()
    saved = {name: Typed(array, str(array.dtype)) for name, array in kit.values(model).items()}
    kit.adapter.load_state(model, {name: Typed(np.zeros_like(v.array), v.dtype) for name, v in saved.items()})
    assert not any(value.any() for value in kit.values(model).values())
    kit.adapter.load_state(model, saved)
    for name, value in kit.values(model).items():
        np.testing.assert_array_equal(value, saved[name].array)


def test_loading_bfloat16_into_float32_and_back(trained):
    model = trained.models.Net()
    values = np.array([0x3F80, 0x7FC1], "uint16")  # 1.0 and a NaN with a payload
    trained.adapter.load_state(model, {"head.bias": Typed(values, "bfloat16")})
    assert trained.values(model)["head.bias"][0] == 1.0
    assert np.isnan(trained.values(model)["head.bias"][1])
    trained.adapter.cast(model, "bfloat16")
    trained.adapter.load_state(model, {"head.bias": Typed(values, "bfloat16")})
    assert trained.values(model)["head.bias"].tolist() == values.tolist()
    trained.adapter.load_state(model, {"head.bias": Typed(np.array([1.0, -2.5]), "float64")})
    out = next(e.tensor for e in trained.adapter.state(model) if e.name == "head.bias")
    assert widen(trained.adapter.to_array(out)).tolist() == [1.0, -2.5]


@pytest.mark.filterwarnings("error")
def test_values_too_large_become_infinite(kit):
    model = kit.models.Net()
    kit.adapter.load_state(model, {"scale": Typed(np.full(4, 1e300), "float64")})
    assert np.isinf(kit.values(model)["scale"]).all()


def test_loading_a_wrong_name_writes_nothing(kit):
    model = kit.models.Net()
    before = kit.values(model)
    with pytest.raises(UsageError) as caught:
        kit.adapter.load_state(model, {"scale": Typed(np.zeros(4), "float64"), "scalee": Typed(np.zeros(4), "float64")})
    assert caught.value.what == "the model has no parameter or buffer of this name"
    assert caught.value.where == "scalee"
    assert caught.value.hint.startswith("names that it has: scale")
    assert all((kit.values(model)[name] == before[name]).all() for name in before)


def test_loading_a_wrong_shape_writes_nothing(kit):
    model = kit.models.Net()
    before = kit.values(model)
    with pytest.raises(UsageError) as caught:
        kit.adapter.load_state(model, {"steps": Typed(np.zeros(3), "float64"), "scale": Typed(np.zeros((1, 4)), "float64")})
    assert caught.value.what == "the model's tensor has shape [4], the values have [1, 4]"
    assert caught.value.where == "scale"
    assert "transpose" in caught.value.hint
    assert all((kit.values(model)[name] == before[name]).all() for name in before)


def test_loading_complex_values_into_a_real_tensor_is_refused(kit):
    with pytest.raises(UsageError, match="complex values cannot be loaded into a tensor of float32"):
        kit.adapter.load_state(kit.models.Net(), {"scale": Typed(np.zeros(4, "complex64"), "complex64")})


def test_loading_nothing_into_nothing(kit):
    kit.adapter.load_state(kit.models.Net(), {})
    with pytest.raises(UsageError, match="no parameter or buffer") as caught:
        kit.adapter.load_state(kit.layer(), {"x": Typed(np.zeros(1), "float64")})
    assert caught.value.hint == "the model has no parameters or buffers"


def test_casting_there_and_back(kit):
    model = kit.models.Net()
    before, types_before = kit.values(model), kit.dtypes(model)
    kit.adapter.cast(model, "float64")
    assert {name: dtype for name, dtype in kit.dtypes(model).items() if dtype != "float64"} == {"steps": "int64"}
    model(kit.ones(2, 4, dtype="float64"))
    kit.adapter.cast(model, "float32")
    assert kit.dtypes(model) == types_before
    for name, value in kit.values(model).items():
        np.testing.assert_array_equal(value, before[name], strict=True)
    model(kit.ones(2, 4))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casting_down(kit, dtype):
    model = kit.models.Net()
    if dtype == "bfloat16" and kit.plain:
        pytest.importorskip("ml_dtypes")
    kit.adapter.cast(model, dtype)
    assert set(kit.dtypes(model).values()) == {dtype, "int64"}


def test_casting_keeps_ties(kit):
    model = kit.models.Net()
    if kit.plain:
        model.head.parameters["weight"] = model.twice.parameters["weight"]
    else:
        model.head.weight = model.twice.weight
    kit.adapter.cast(model, "float64")
    entries = by_name(kit, model)
    assert entries[kit.weight("head")].shared == kit.weight("twice")


def test_casting_keeps_the_objects(trained):
    model = trained.models.Net()
    before = {e.name: e.tensor for e in trained.adapter.state(model)}
    trained.adapter.cast(model, "float64")
    after = {e.name: e.tensor for e in trained.adapter.state(model)}
    assert all(after[name] is before[name] for name in before)
    assert all(e.trainable for e in trained.adapter.state(model) if e.role == "parameter")


def test_numpy_replaces_the_arrays_it_casts():
    adapter = finding.load("numpy")

    class Scale:
        def __init__(self):
            self.by = np.ones(2, "float32")

        def __call__(self, x):
            return x * self.by

    model = Scale()
    old = model.by
    adapter.cast(model, "float64")
    assert old.dtype == np.float32
    assert model.by.dtype == np.float64


def test_complex_buffers_follow(kit):
    model = kit.models.Net()
    kit.buffer(model, "phase", np.array([1 + 2j], "complex64"))
    kit.adapter.cast(model, "float64")
    assert kit.dtypes(model)["phase"] == "complex128"
    kit.adapter.cast(model, "float16")
    assert kit.dtypes(model)["phase"] == "complex128"
    kit.adapter.cast(model, "float32")
    assert kit.dtypes(model)["phase"] == "complex64"
    assert kit.values(model)["phase"].tolist() == [1 + 2j]


@pytest.mark.parametrize("dtype", ["int8", "complex64", "float8_e5m2", "double", ""])
def test_casting_to_what_is_not_floating(kit, dtype):
    model = kit.models.Net()
    with pytest.raises(UsageError) as caught:
        kit.adapter.cast(model, dtype)
    assert str(caught.value) == f"a model cannot be cast to {dtype!r}\n  fix:   choose one of: float64, float32, float16, bfloat16"
    assert kit.dtypes(model)["scale"] == "float32"


def test_unknown_modes_are_named(kit):
    with pytest.raises(UsageError) as caught:
        kit.adapter.train(kit.models.Net(), "loud")
    assert str(caught.value) == "there is no mode 'loud'\n  fix:   choose one of: eval, train, quiet, differentiable, apart"


def test_modes_go_back(kit):
    model = kit.models.Net()
    before = kit.adapter.mode(model)
    for mode in ("eval", "train", "quiet"):
        kit.adapter.train(model, mode)
    kit.adapter.set_mode(model, before)
    assert kit.adapter.mode(model) == before


def test_no_grad_is_a_context(kit):
    with kit.adapter.no_grad():
        out = kit.models.Net()(kit.ones(1, 4))["out"]
    assert kit.adapter.to_array(out).array.shape == (1, 2)
