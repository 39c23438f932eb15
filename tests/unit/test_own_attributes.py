"""What user code keeps beside a model's tensors is put back between runs: attributes, variables of modules."""

from __future__ import annotations

import sys
from threading import Lock
from types import ModuleType
from weakref import WeakKeyDictionary

import pytest

from paralign.worker.calls.own_attributes import keep_attributes, keep_globals


@pytest.fixture
def module(tmp_path):
    made = ModuleType("side_of_a_test")
    made.__file__ = str(tmp_path / "side.py")
    sys.modules[made.__name__] = made
    exec("def train_step(): ...", vars(made))  # a function that belongs to the module
    yield made
    del sys.modules[made.__name__]


class Key:
    pass


def test_variables_of_the_sides_modules_are_put_back(module):
    key = Key()
    module.averages, module.seen, module.count, module.weak = {"a": 1}, [1], 3, WeakKeyDictionary()
    same = module.averages
    put_back = keep_globals({"train_step": module.train_step})
    for _ in range(2):
        module.averages["a"], module.averages["b"], module.count = 2, 3, 9
        module.seen.append(2)
        module.weak[key] = 1
        put_back()
        assert (module.averages, module.seen, module.count, dict(module.weak)) == ({"a": 1}, [1], 3, {})
    assert module.averages is same


def test_modules_elsewhere_stay_as_they_are(module):
    other = ModuleType("elsewhere_in_a_test")
    other.__file__, other.held = "/nowhere/elsewhere.py", []
    sys.modules[other.__name__] = other
    try:
        put_back = keep_globals({"train_step": module.train_step})
        other.held.append(1)
        put_back()
    finally:
        del sys.modules[other.__name__]
    assert other.held == [1]


def test_a_proxy_of_nothing_is_not_asked_what_it_is(module):
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError

    module.request, module.seen = Proxy(), []
    put_back = keep_globals({"train_step": module.train_step})
    module.seen.append(1)
    put_back()
    assert module.seen == []


def test_functions_without_a_module_keep_nothing():
    keep_globals({"train_step": max})()


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_attributes_of_a_model_are_put_back_and_its_tensors_stay(framework):
    library = pytest.importorskip(framework)
    from paralign.adapters.finding import load

    model = library.nn.Sequential(library.nn.Linear(2, 3))
    model.count, model.held = 1, {"a": [1]}
    weight = model[0].weight
    put_back = keep_attributes(load(framework), model)
    for _ in range(2):
        model.count = 5
        model.held["a"].append(2)
        model.average = object()
        model[0].calls = 1
        put_back()
        assert (model.count, model.held) == (1, {"a": [1]})
        assert not hasattr(model, "average")
        assert not hasattr(model[0], "calls")
    assert model[0].weight is weight


def test_a_model_that_is_something_else_of_the_framework_too():
    torch = pytest.importorskip("torch")
    stateful = pytest.importorskip("torch.distributed.checkpoint.stateful")
    from paralign.adapters.finding import load

    class Kept(torch.nn.Linear, stateful.Stateful):
        pass

    class Data(torch.nn.Linear, torch.utils.data.Dataset):
        pass

    for kind in (Kept, Data):
        model = kind(2, 2)
        model.count = 1
        put_back = keep_attributes(load("torch"), model)
        model.count = 2
        put_back()
        assert model.count == 1


def test_an_attribute_that_cannot_be_copied_stays():
    torch = pytest.importorskip("torch")
    from paralign.adapters.finding import load

    class Stubborn:
        def __deepcopy__(self, memo):
            raise RuntimeError

    model = torch.nn.Linear(2, 2)
    model.own = stubborn = Stubborn()
    keep_attributes(load("torch"), model)()
    assert model.own is stubborn


def test_an_object_that_parts_share_and_that_cannot_be_copied_stays_whole():
    torch = pytest.importorskip("torch")
    from paralign.adapters.finding import load

    class Settings:
        def __init__(self):
            self.lock, self.width = Lock(), 4

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].settings = model[1].settings = settings = Settings()
    keep_attributes(load("torch"), model)()
    assert model[0].settings is model[1].settings is settings
    assert settings.width == 4


def test_a_model_of_no_framework_keeps_its_attributes():
    from paralign.adapters.finding import load

    class Model:
        def __init__(self):
            self.parameters = {}

        def __call__(self, x):
            return x

    model = Model()
    put_back = keep_attributes(load("numpy"), model)
    model.count = 1
    put_back()
    assert model.count == 1
