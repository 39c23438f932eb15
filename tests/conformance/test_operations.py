"""Rules of ``operations``: every operation is seen once, with its line, and nothing of the framework remains changed."""

from __future__ import annotations

import inspect
import sys
import threading
import types

import numpy as np
import pytest

from paralign.adapters import finding

HERE = __file__


class Sink:
    """Keeps what it sees; tensors as copies of their values."""

    def __init__(self, kit, replace=None, on=None):
        self.kit, self.replace, self.on = kit, replace, on
        self.seen, self.inputs, self.outputs, self.asked = [], [], [], []

    def values(self, tensors):
        return [np.array(self.kit.adapter.to_array(tensor).array) for tensor in tensors]

    def before(self, inputs):
        self.asked.append(self.values(inputs))

    def after(self, operation):
        self.seen.append(operation)
        self.inputs.append(self.asked[-1])
        self.outputs.append(self.values(operation.outputs))
        if self.replace is not None and (self.on is None or operation.kind == self.on):
            return self.replace(operation)
        return None

    @property
    def kinds(self):
        """Kinds without what frameworks do beside: creating and moving."""
        return [o.kind for o in self.seen if o.kind not in ("view", "transpose", "fill", "copy", "cast", "slice")]


@pytest.fixture(params=[pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)])
def kit(request):
    """A framework whose operations can be watched, with names for what is spelled differently."""
    pytest.importorskip(request.param)
    return Torch() if request.param == "torch" else Paddle()


class Same:
    """Equal to the very same object only; keeps it alive, so that no other takes its place in memory."""

    def __init__(self, value):
        self.value = value

    __hash__ = None

    def __eq__(self, other):
        return self.value is other.value


def identities(spaces):
    return {(name, key): Same(value) for name, space in spaces.items() for key, value in space.items() if key != "__warningregistry__"}


class Torch:
    def __init__(self):
        import torch

        self.name, self.lib, self.adapter = "torch", torch, finding.load("torch")
        self.F, self.nn, self.Layer, self.Tensor = torch.nn.functional, torch.nn, torch.nn.Module, torch.Tensor

    def tensor(self, array, gradient=False):
        return self.lib.from_numpy(np.array(array, "float32")).requires_grad_(gradient)

    def state(self):
        """The identity of everything that an observation could have changed."""
        holders = (self.lib, self.F, self.lib.Tensor, self.lib.nn.Module, self.lib._C)
        found = identities({str(holder): vars(holder) for holder in holders})
        found["modes"] = self.lib._C._len_torch_dispatch_stack()
        return found

    def split(self, x):
        return self.lib.split(x, 2, dim=1)

    def twice(self):
        torch = self.lib

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(_, x):
                return x * 2.0  # call: twice

            @staticmethod
            def backward(_, gradient):
                return gradient * 2.0

        return Twice


class Paddle:
    def __init__(self):
        import paddle

        self.name, self.lib, self.adapter = "paddle", paddle, finding.load("paddle")
        self.F, self.nn, self.Layer, self.Tensor = paddle.nn.functional, paddle.nn, paddle.nn.Layer, paddle.Tensor

    def tensor(self, array, gradient=False):
        return self.lib.to_tensor(np.array(array, "float32"), stop_gradient=not gradient)

    def state(self):
        """The identity of everything that an observation could have changed."""
        spaces = {name: vars(module) for name, module in list(sys.modules.items()) if name.partition(".")[0] in ("paddle", "users")}
        return identities({**spaces, "Tensor": vars(self.lib.Tensor), "Layer": vars(self.lib.nn.Layer)})

    def split(self, x):
        return self.lib.split(x, [2, x.shape[1] - 2], axis=1)

    def twice(self):
        paddle = self.lib

        class Twice(paddle.autograd.PyLayer):
            @staticmethod
            def forward(_, x):
                return x * 2.0  # call: twice

            @staticmethod
            def backward(_, gradient):
                return gradient * 2.0

        return Twice


def framework_line(kit, marker):
    """``file:line`` of a mark in one framework's part above."""
    lines, start = inspect.getsourcelines(type(kit))
    return f"{HERE}:{start + next(i for i, text in enumerate(lines) if text.rstrip().endswith('# call: ' + marker))}"


def watched(kit, function, model=None, **options):
    sink = Sink(kit, **options)
    with kit.adapter.operations(sink, model):
        result = function()
    return sink, result


def line_of(marker):
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    return f"{HERE}:{1 + next(i for i, text in enumerate(lines) if text.endswith('# call: ' + marker))}"


def ramp(*shape):
    return np.linspace(-1.0, 2.0, int(np.prod(shape))).reshape(shape).astype("float32")


# -- what is seen ------------------------------------------------------------------------------------------------------------


def test_functions_methods_and_operators_are_seen_in_order_with_their_lines(kit):
    x = kit.tensor(ramp(2, 4))

    def run():
        y = kit.F.relu(x)
        y = y.exp()
        y = y * x
        return 1.0 - y

    sink, _ = watched(kit, run)
    first = run.__code__.co_firstlineno
    assert sink.kinds == ["relu", "exp", "multiply", "subtract"]
    lines = [o.stack[0] for o in sink.seen if o.kind in ("relu", "exp", "multiply", "subtract")]
    assert lines == [f"{HERE}:{first + step}" for step in (1, 2, 3, 4)]
    assert [o.index for o in sink.seen] == list(range(len(sink.seen)))
    assert all(o.stack[1].startswith(HERE) for o in sink.seen)


@pytest.mark.parametrize(
    ("kind", "work"),
    [
        ("add", lambda x: x + x),
        ("add", lambda x: 2 + x),
        ("subtract", lambda x: x - x),
        ("multiply", lambda x: x * x),
        ("divide", lambda x: x / (x * x + 1.0)),
        ("power", lambda x: x**2),
        ("matmul", lambda x: x @ x),
        ("matmul", lambda x: x.matmul(x)),
        ("gt", lambda x: x > 0.5),
        ("slice", lambda x: x[1:, :2]),
        ("sum", lambda x: x.sum()),
        ("mean", lambda x: x.mean()),
        ("copy", lambda x: x.clone()),
        ("copy", lambda x: x.detach()),
        ("view", lambda x: x.reshape([16])),
        ("tanh", lambda x: x.tanh()),
        ("abs", abs),
    ],
)
def test_an_operation_is_seen_with_its_kind_input_and_result(kit, kind, work):
    x = kit.tensor(ramp(4, 4))
    sink, result = watched(kit, lambda: work(x))
    operation = sink.seen[-1]
    assert kind in {o.kind.replace("greater_than", "gt") for o in sink.seen}
    if kind != "copy" or kit.name == "paddle":
        np.testing.assert_array_equal(sink.outputs[-1][0], kit.adapter.to_array(result).array)
    assert any(np.array_equal(given, ramp(4, 4)) for inputs in sink.inputs for given in inputs)
    assert operation.stack[0].startswith(HERE)


def test_attributes_are_the_arguments_that_are_no_tensors(kit):
    x = kit.tensor(ramp(1, 2, 4, 4))
    weight = kit.tensor(ramp(3, 2, 3, 3))
    sink, _ = watched(kit, lambda: kit.F.conv2d(x, weight, stride=2, padding=1))
    operation = next(o for o in sink.seen if o.kind == "convolution")
    spelled = {"torch": ("stride", "padding", "groups"), "paddle": ("strides", "paddings", "groups")}[kit.name]
    assert [operation.attrs[name] for name in spelled] == [[2, 2], [1, 1], 1]
    assert len(operation.inputs) == 2


def test_arguments_by_keyword_are_named(kit):
    x = kit.tensor(ramp(2, 6))
    sink, _ = watched(kit, lambda: kit.F.layer_norm(x, [6], None, None, 0.0009765625))
    operation = next(o for o in sink.seen if o.kind == "layer_norm")
    assert 0.0009765625 in operation.attrs.values()


def test_inputs_are_shown_as_they_were_before_an_operation_in_place(kit):
    x = kit.tensor(ramp(2, 3))
    sink, result = watched(kit, lambda: x.add_(kit.tensor(ramp(2, 3))))
    place = next(i for i, o in enumerate(sink.seen) if o.kind == "add")
    np.testing.assert_array_equal(sink.inputs[place][0], ramp(2, 3))
    np.testing.assert_array_equal(sink.outputs[place][0], 2 * ramp(2, 3))
    assert sink.seen[place].outputs[0] is x
    assert result is x


def test_writing_through_a_view_is_seen(kit):
    x, y = kit.tensor(ramp(3, 3)), kit.tensor(np.zeros(3))

    def run():
        x[:, 0] = y

    watched_sink, _ = watched(kit, run)
    assert watched_sink.seen
    written = kit.adapter.to_array(x).array
    assert (written[:, 0] == 0).all()
    assert any(
        np.array_equal(outputs[0].reshape(-1)[: y.shape[0]], np.zeros(3)) or outputs[0].shape == (3, 3) for outputs in watched_sink.outputs
    )
    line = f"{HERE}:{run.__code__.co_firstlineno + 1}"
    assert all(o.stack[0] == line for o in watched_sink.seen)


def test_a_list_of_results_is_seen_and_handed_on_whole(kit):
    x = kit.tensor(ramp(2, 4))
    sink, parts = watched(kit, lambda: kit.split(x))
    operation = next(o for o in sink.seen if o.kind == "split")
    assert len(operation.outputs) == len(parts) == 2
    np.testing.assert_array_equal(kit.adapter.to_array(parts[1]).array, ramp(2, 4)[:, 2:])


def test_a_function_with_its_own_gradient_is_seen_and_still_has_it(kit):
    x, function = kit.tensor(ramp(2, 3), gradient=True), kit.twice()
    sink, result = watched(kit, lambda: function.apply(x))
    operation = next(o for o in sink.seen if o.kind == "multiply")
    assert operation.stack[0] == framework_line(kit, "twice")
    result.sum().backward()
    np.testing.assert_array_equal(kit.adapter.to_array(x.grad).array, np.full((2, 3), 2.0))


def test_modules_give_their_paths_also_when_used_twice_or_failed_inside(kit):
    nn, layer = kit.nn, kit.Layer

    class Bad(layer):
        def forward(self, x):
            raise ValueError(x.tanh().shape)

    class Net(layer):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.bad = Bad()

        def forward(self, x):
            x = self.body(self.body(x))
            try:
                self.bad(x)
            except ValueError:
                x = x.exp()
            return x

    net = Net()
    sink, _ = watched(kit, lambda: net(kit.tensor(ramp(2, 4))), net)
    modules = [(o.kind, o.module) for o in sink.seen if o.kind in ("relu", "tanh", "exp", "matmul")]
    linear, relu = ("matmul", "body.0"), ("relu", "body.1")
    assert modules == [linear, relu, linear, relu, ("tanh", "bad"), ("exp", "")]


def test_functions_that_a_module_has_bound_at_import_are_seen(kit):
    users = types.ModuleType("users")
    names = "from paddle import amax, matmul\nfrom paddle.nn.functional import grid_sample\nfrom paddle.tensor.math import amin"
    if kit.name == "torch":
        names = "from torch import amax, amin, matmul\nfrom torch.nn.functional import grid_sample"
    exec(names, users.__dict__)
    sys.modules["users"] = users
    try:
        before = kit.state()
        x = kit.tensor(ramp(1, 2, 4, 4))
        grid = kit.tensor(ramp(1, 2, 2, 2))

        def run():
            users.amin(users.amax(x, -1), -1)
            users.matmul(x, x)
            return users.grid_sample(x, grid, align_corners=True)

        sink, _ = watched(kit, run)
        assert {"maximum", "minimum", "matmul", "grid_sample"} <= set(sink.kinds)
        assert kit.state() == before
    finally:
        del sys.modules["users"]


@pytest.mark.parametrize("train", [True, False])
def test_only_what_draws_numbers_is_random(kit, train):
    x = kit.tensor(np.ones((4, 4)))
    sink, _ = watched(kit, lambda: (kit.F.dropout(x, 0.5, training=train), x.exp(), kit.lib.rand([3])))
    drawn = [o.kind for o in sink.seen if o.random]
    assert "exp" not in drawn
    assert drawn[-1] == "random"
    assert len(drawn) == (2 if train else 1)


@pytest.mark.torch
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_torch_attention_is_random_only_with_dropout(p):
    pytest.importorskip("torch")
    kit = Torch()
    x = kit.tensor(ramp(1, 2, 3, 4))
    sink, _ = watched(kit, lambda: kit.F.scaled_dot_product_attention(x, x, x, dropout_p=p))
    assert any(o.random for o in sink.seen) is (p > 0)


# -- nothing else changes ----------------------------------------------------------------------------------------------------


def net(kit):
    nn = kit.nn
    norm, pool = (nn.BatchNorm2d, nn.MaxPool2d) if kit.name == "torch" else (nn.BatchNorm2D, nn.MaxPool2D)
    conv = nn.Conv2d if kit.name == "torch" else nn.Conv2D
    kit.adapter.seed(3)
    return nn.Sequential(conv(3, 4, 3), norm(4), nn.ReLU(), pool(2), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1))


def values(kit, model):
    return {e.name: np.array(kit.adapter.to_array(e.tensor).array) for e in kit.adapter.state(model)}


def step(kit, model, x):
    outputs = model(x)
    (outputs * outputs).sum().backward()
    gradients = {name: np.array(kit.adapter.to_array(g).array) for name, g in kit.adapter.gradients(model).items() if g is not None}
    return np.array(kit.adapter.to_array(outputs).array), gradients


def test_results_and_gradients_are_bit_equal_with_and_without(kit):
    x = kit.tensor(ramp(2, 3, 6, 6))
    plain, seen = net(kit), net(kit)
    expected, expected_gradients = step(kit, plain, x)
    sink, (found, gradients) = watched(kit, lambda: step(kit, seen, x), seen)
    assert sink.seen
    assert np.array_equal(expected, found)
    assert expected_gradients.keys() == gradients.keys()
    assert len(gradients) == 6
    assert all(np.array_equal(expected_gradients[name], gradients[name]) for name in gradients)
    ours, theirs = values(kit, plain), values(kit, seen)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_nothing_of_the_framework_remains_changed(kit):
    model, x, before = net(kit), kit.tensor(ramp(2, 3, 6, 6)), kit.state()
    hooks = [len(h) for m in kit.adapter.modules(model) for k, h in vars(m[1]).items() if k.endswith("_hooks") and hasattr(h, "__len__")]
    watched(kit, lambda: model(x), model)
    assert kit.state() == before
    after = [len(h) for m in kit.adapter.modules(model) for k, h in vars(m[1]).items() if k.endswith("_hooks") and hasattr(h, "__len__")]
    assert hooks == after


def test_during_an_observation_something_is_changed(kit):
    """The guards of this file can fail."""
    before = kit.state()
    with kit.adapter.operations(Sink(kit)):
        assert kit.state() != before
    assert kit.state() == before


def test_nothing_remains_after_an_exception_of_the_users(kit):
    before, sink = kit.state(), Sink(kit)

    def fail():
        kit.tensor(ramp(2)).exp()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), kit.adapter.operations(sink):
        fail()
    assert kit.state() == before
    count = len(sink.seen)
    kit.tensor(ramp(2)).exp()
    assert len(sink.seen) == count


def test_an_operation_that_fails_leaves_the_observation_working(kit):
    sink = Sink(kit)
    x = kit.tensor(ramp(2, 3))
    with kit.adapter.operations(sink):
        with pytest.raises((RuntimeError, ValueError)):
            _ = x @ x
        kit.tensor(ramp(2)).exp()
    assert sink.kinds[-1] == "exp"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_of_the_sink_is_the_users_to_see_and_ends_nothing_else(kit, when):
    class Failing(Sink):
        def before(self, inputs):
            if when == "before":
                raise LookupError("sink")
            super().before(inputs)

        def after(self, operation):
            raise LookupError("sink")

    before = kit.state()
    with pytest.raises(LookupError, match="sink"), kit.adapter.operations(Failing(kit)):
        kit.tensor(ramp(2)).exp()
    assert kit.state() == before
    sink, _ = watched(kit, lambda: kit.tensor(ramp(2)).exp())
    assert sink.kinds == ["exp"]


def test_what_a_sink_does_itself_is_unseen(kit):
    class Computing(Sink):
        def after(self, operation):
            (operation.outputs[0] * 2).sum()
            return super().after(operation)

    inner, outer = Computing(kit), Sink(kit)
    with kit.adapter.operations(outer), kit.adapter.operations(inner):
        kit.tensor(ramp(2)).exp()
    assert inner.kinds == outer.kinds == ["exp"]


def test_nested_observations_both_see(kit):
    outer, inner, before = Sink(kit), Sink(kit), kit.state()
    x = kit.tensor(ramp(3))
    with kit.adapter.operations(outer):
        x.exp()
        with kit.adapter.operations(inner):
            x.tanh()
        x.abs()
    assert inner.kinds == ["tanh"]
    assert outer.kinds == ["exp", "tanh", "abs"]
    assert kit.state() == before


def test_what_an_inner_or_an_outer_observation_replaces_is_gone_on_with(kit):
    x = kit.tensor(ramp(3))
    for replacing in (0, 1):
        sinks = [Sink(kit), Sink(kit)]
        sinks[replacing] = Sink(kit, replace=lambda o: [o.outputs[0] * 0 + 7.0], on="tanh")
        with kit.adapter.operations(sinks[0]), kit.adapter.operations(sinks[1]):
            y = x.tanh()
        assert [sink.kinds for sink in sinks] == [["tanh"], ["tanh"]]
    np.testing.assert_array_equal(kit.adapter.to_array(y).array, np.full(3, 7.0))


# -- threads -----------------------------------------------------------------------------------------------------------------


def in_thread(function):
    caught = []

    def run():
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, caught


def test_another_thread_is_neither_seen_nor_disturbed(kit):
    model, x = net(kit), kit.tensor(ramp(2, 3, 6, 6))
    kit.adapter.train(model, "eval")
    expected = kit.adapter.to_array(model(x)).array.copy()
    stop, results = threading.Event(), []

    def other():
        while not stop.is_set() or not results:
            results.append(kit.adapter.to_array(model(x)).array.copy())

    thread, caught = in_thread(other)
    sink = Sink(kit)
    with kit.adapter.operations(sink, model):
        for _ in range(20):
            kit.lib.tanh(x)
    stop.set()
    thread.join()
    assert not caught
    assert results
    assert all(np.array_equal(expected, result) for result in results)
    assert sink.kinds == ["tanh"] * 20
    assert {o.module for o in sink.seen} == {""}


def test_two_threads_observe_at_once_and_each_sees_its_own(kit):
    before, start = kit.state(), threading.Barrier(2)
    sinks = {"exp": Sink(kit), "tanh": Sink(kit)}

    def work(name):
        def run():
            x = kit.tensor(ramp(3))
            start.wait()
            for _ in range(30):
                with kit.adapter.operations(sinks[name]):
                    getattr(x, name)()

        return run

    threads = [in_thread(work(name)) for name in sinks]
    for thread, _ in threads:
        thread.join()
    assert not any(caught for _, caught in threads)
    assert {name: sink.kinds for name, sink in sinks.items()} == {name: [name] * 30 for name in sinks}
    assert kit.state() == before


# -- other values ------------------------------------------------------------------------------------------------------------


def test_a_replaced_result_is_what_the_program_goes_on_with(kit):
    x = kit.tensor(ramp(4))
    _, result = watched(kit, lambda: x.tanh() + 1.0, replace=lambda _: [kit.tensor(np.full(4, 3.0))], on="tanh")
    np.testing.assert_array_equal(kit.adapter.to_array(result).array, np.full(4, 4.0))


def test_a_replaced_result_of_an_operation_in_place_is_written_into_its_tensor(kit):
    x = kit.tensor(ramp(4))

    def run():
        x.add_(kit.tensor(np.ones(4)))

    watched(kit, run, replace=lambda _: [kit.tensor(np.full(4, 3.0))], on="add")
    np.testing.assert_array_equal(kit.adapter.to_array(x).array, np.full(4, 3.0))


def test_one_of_several_results_is_replaced(kit):
    x = kit.tensor(ramp(2, 4))
    _, parts = watched(kit, lambda: kit.split(x), replace=lambda o: [o.outputs[0], kit.tensor(np.zeros((2, 2)))], on="split")
    np.testing.assert_array_equal(kit.adapter.to_array(parts[0]).array, ramp(2, 4)[:, :2])
    np.testing.assert_array_equal(kit.adapter.to_array(parts[1]).array, np.zeros((2, 2)))


def test_gradients_pass_a_substituted_value_as_the_one_that_was_made(kit):
    x, due = kit.tensor(ramp(4), gradient=True), np.full(4, 0.5, "float32")

    def run():
        y = x - 1.0
        return (y * 3.0).sum()

    _, result = watched(kit, run, replace=lambda o: [kit.adapter.substitute(o.outputs[0], kit.tensor(due))], on="subtract")
    assert float(kit.adapter.to_array(result).array) == pytest.approx(6.0)
    result.backward()
    np.testing.assert_array_equal(kit.adapter.to_array(x.grad).array, np.full(4, 3.0))


# -- gradients ---------------------------------------------------------------------------------------------------------------


def test_gradients_come_whole_and_stop_when_asked(kit):
    x, seen = kit.tensor(ramp(4), gradient=True), []
    y = x * 2.0
    remove = kit.adapter.on_gradient(y, lambda g: seen.append(np.array(kit.adapter.to_array(g).array)))
    (y.sum() + (y * 3.0).sum()).backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], np.full(4, 4.0))
    remove()
    z = x * 2.0
    kit.adapter.on_gradient(z, seen.append)()
    z.sum().backward()
    assert len(seen) == 1


def test_hooks_on_parameters_are_not_left_behind(kit):
    model, x, seen = net(kit), kit.tensor(ramp(2, 3, 6, 6)), []
    parameters = kit.adapter.parameters(model)
    removals = [r for p in parameters if (r := kit.adapter.on_gradient(p, lambda _: seen.append(1))) is not None]
    model(x).sum().backward()
    assert len(seen) == len(removals) == 6
    for remove in removals:
        remove()
    model(x).sum().backward()
    assert len(seen) == 6


def test_what_a_sink_returns_takes_a_gradients_place(kit):
    x = kit.tensor(ramp(4), gradient=True)
    y = x * 2.0
    kit.adapter.on_gradient(y, lambda g: g * 0 + 5.0)
    y.sum().backward()
    np.testing.assert_array_equal(kit.adapter.to_array(x.grad).array, np.full(4, 10.0))


def test_what_has_no_gradient_is_told(kit):
    assert kit.adapter.on_gradient(kit.tensor(ramp(4)), list) is None
    x = kit.tensor(ramp(4), gradient=True)
    assert kit.adapter.on_gradient((x * 2).detach(), list) is None


def test_storage_is_shared_by_views_and_by_nothing_else(kit):
    x = kit.tensor(ramp(4, 4))
    assert kit.adapter.storage(x) == kit.adapter.storage(x[1:])
    assert kit.adapter.storage(x) != kit.adapter.storage(x.clone())
    assert kit.adapter.describe(x[1:]) == ("float32", (3, 4))


# -- where modules were constructed ------------------------------------------------------------------------------------------


def test_lines_that_constructed_layers(kit):
    nn, layer = kit.nn, kit.Layer

    class Own(nn.Linear):
        def __init__(self, width):
            super().__init__(width, width)

    class Net(layer):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 4)  # call: one
            self.own = Own(4)  # call: own
            self.many = nn.Sequential(
                *[
                    nn.Linear(4, 4)  # call: many
                    for _ in range(2)
                ]
            )

    before = vars(kit.Layer)["__init__"]
    with kit.adapter.constructions() as found:
        model = Net()  # call: model
    assert vars(kit.Layer)["__init__"] is before
    modules = dict(kit.adapter.modules(model))
    for path, marker in (("one", "one"), ("own", "own"), ("many.0", "many"), ("many.1", "many"), ("", "model")):
        assert found[id(modules[path])][0] == line_of(marker), path
    assert line_of("model") in found[id(modules["own"])]


def test_lines_that_changed_settings_of_layers_come_first(kit):
    nn = kit.nn

    class Own(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.factor = 2.0

        def change(self):
            self.factor = 3.0

    before = vars(kit.Layer)["__setattr__"]
    with kit.adapter.constructions() as found:
        one, two = Own(), nn.Linear(4, 4)
        one.change()  # by a method of its own
        kept = found[id(one)]
        two.weight = one.weight  # no setting
        assert len(found[id(two)]) == len(kept)
        two.mark = 5.0  # nothing that it had
        assert len(found[id(two)]) == len(kept)
        one.factor = 3.0  # as it is
        assert found[id(one)] == kept
        one.factor = 5.0  # call: changed
    assert found[id(one)] == (line_of("changed"), *kept)
    assert vars(kit.Layer)["__setattr__"] is before
    assert (one.factor, two.mark) == (5.0, 5.0)


def test_constructions_end_with_an_exception_and_do_not_see_other_threads(kit):
    before, others = vars(kit.Layer)["__init__"], []

    def fail():
        thread, _ = in_thread(lambda: others.append(kit.nn.ReLU()))
        thread.join()
        raise KeyError

    with pytest.raises(KeyError), kit.adapter.constructions() as found:
        fail()
    assert others
    assert found == {}
    assert vars(kit.Layer)["__init__"] is before


@pytest.mark.paddle
def test_paddle_lines_that_freeze_parameters_are_noted():
    paddle = pytest.importorskip("paddle")
    adapter = finding.load("paddle")
    flag = vars(paddle.Tensor)["stop_gradient"]
    with adapter.constructions() as found:
        layer = paddle.nn.Linear(2, 2)
        layer.weight.stop_gradient = True  # call: freeze
    assert found[id(layer.weight)][0] == line_of("freeze")
    assert id(layer.bias) not in found
    assert layer.weight.stop_gradient
    assert vars(paddle.Tensor)["stop_gradient"] is flag


@pytest.mark.torch
@pytest.mark.parametrize("device", [None, "cpu"])
def test_torch_lines_that_freeze_parameters_are_noted(device, request):
    torch = pytest.importorskip("torch")
    if device is not None:
        request.addfinalizer(lambda: torch.set_default_device(None))
        torch.set_default_device(device)
    adapter = finding.load("torch")
    before = torch.Tensor.requires_grad_, torch.Tensor.requires_grad
    with adapter.constructions() as outer, adapter.constructions() as found:
        layer, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        layer.weight.requires_grad = False  # call: flag
        other.requires_grad_(False)  # call: method
        other.bias.requires_grad_()
        thread, _ = in_thread(lambda: layer.bias.requires_grad_(False))
        thread.join()
    for seen in (found, outer):
        assert seen[id(layer.weight)][0] == line_of("flag")
        assert seen[id(other.weight)][0] == line_of("method")
        assert id(layer.bias) not in seen
    assert [p.requires_grad for p in (*layer.parameters(), *other.parameters())] == [False, False, False, True]
    assert (torch.Tensor.requires_grad_, torch.Tensor.requires_grad) == before
    assert not {"requires_grad", "requires_grad_"} & set(vars(torch.Tensor))


@pytest.mark.paddle
def test_paddle_a_value_cut_off_by_stop_gradient_is_seen():
    kit = Paddle() if pytest.importorskip("paddle") else None
    x = kit.tensor(ramp(3), gradient=True)

    def run():
        y = x * 2.0
        y.stop_gradient = True  # call: cut
        return y

    sink, result = watched(kit, run)
    assert [(o.kind, o.stack[0]) for o in sink.seen][-1] == ("copy", line_of("cut"))
    assert result.stop_gradient
