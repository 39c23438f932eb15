"""Rules of ``observe``: every call is seen once, as it was, from the line that made it, and nothing stays behind."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from paralign.adapters import finding
from paralign.adapters._calls import SourceLine, accepted


def watch(kit, model, *args, select=None, sink=None, **kwargs):
    calls = []
    with kit.adapter.observe(model, sink or calls.append, select):
        model(*args, **kwargs)
    return calls


def seen(calls):
    return [(call.name, call.number, call.depth, call.leaf) for call in calls]


def test_every_call_is_seen_in_the_order_of_its_end(kit):
    calls = watch(kit, kit.models.Net(), kit.ones(2, 4))
    assert seen(calls) == [
        ("layers.0", 0, 1, True),
        ("layers.1", 0, 1, True),
        ("twice", 0, 1, True),
        ("twice", 1, 1, True),
        ("block.inner", 0, 2, True),
        ("block", 0, 1, False),
        ("head", 0, 1, True),
        ("", 0, 0, False),
    ]
    names = {call.name: (call.op, call.kind) for call in calls}
    linear = ("Dense", "") if kit.plain else ("Linear", "Linear")
    assert names["block.inner"] == linear
    assert names["block"] == ("Block", "")
    assert names[""] == ("Net", "")


def test_values_are_those_of_the_call(kit):
    model, x = kit.models.Net(), kit.ones(2, 4)
    kept = {}

    def sink(call):
        if call.name in ("layers.0", ""):
            kept[call.name] = call.inputs, call.outputs

    with kit.adapter.observe(model, sink):
        out = model(x, shift=x)
    assert kept["layers.0"][0][0] is x
    assert isinstance(kept["layers.0"][0], tuple)
    assert kept[""][1] is out
    assert kept[""][0][0] is x
    assert kept[""][0][1]["shift"] is x
    assert out["none"] is None


def test_keyword_arguments_are_marked(kit):
    calls = {call.name: call for call in watch(kit, kit.models.Taking(), kit.ones(1), "tensor")}
    assert calls[""].attrs == {}
    assert len(calls[""].inputs) == 2
    assert calls["child"].attrs == {"kwargs": ["returned"]}
    assert calls["child"].inputs[1] == {"returned": "tensor"}


@pytest.mark.parametrize("returned", ["none", "tensor", "tuple", "object"])
def test_any_output_passes_unchanged(kit, returned):
    model, x = kit.models.Taking(), kit.ones(2)
    outputs = []
    with kit.adapter.observe(model, lambda call: outputs.append(call.outputs)):
        out = model(x, returned)
    assert len(outputs) == 2
    assert outputs[0] is outputs[1] is out


def test_the_users_line_is_named(kit):
    calls = []
    model = kit.models.Net()
    with kit.adapter.observe(model, calls.append):
        model(kit.ones(1, 4))
        here = inspect.currentframe().f_lineno - 1
    sources = {call.name: call.source for call in calls}
    assert sources["layers.1"] == kit.line("layers")
    assert sources["block.inner"] == kit.line("inner")
    assert sources["head"] == kit.line("head")
    assert sources[""] == f"{__file__}:{here}"


def test_source_lines_skip_python_and_the_framework():
    finder = SourceLine(["/opt/framework"], models=["/opt/framework/models"])
    known = {
        "/opt/framework/nn.py": False,
        "/opt/framework/models/resnet.py": True,
        "/opt/frameworks/mine.py": True,
        "<frozen runpy>": False,
        "<eval_with_key>.1": False,
        inspect.getsourcefile(inspect): False,
        "/usr/lib/python3/dist-packages/torchvision/x.py": True,
        inspect.getsourcefile(SourceLine): False,
        __file__: True,
        pytest.__file__: True,
    }
    assert {path: finder._is_users(path) for path in known} == known
    assert finder().startswith(__file__)


def test_no_source_where_all_frames_are_foreign():
    finder = SourceLine([])
    finder._is_users = lambda _path: False
    assert finder() is None


def test_only_what_is_selected_is_reported(kit):
    asked = []

    def select(path, module):
        asked.append((path, module))
        return path in ("block.inner", "twice")

    model = kit.models.Net()
    calls = watch(kit, model, kit.ones(1, 4), select=select)
    assert seen(calls) == [("twice", 0, 1, True), ("twice", 1, 1, True), ("block.inner", 0, 2, True)]
    assert asked == kit.adapter.modules(model)


def test_observing_changes_nothing(kit):
    model, x = kit.models.Net(), kit.ones(2, 4)
    before = kit.hooks(model)
    plain = kit.adapter.to_array(model(x)["out"]).array.copy()
    with kit.adapter.observe(model, lambda _call: None):
        assert kit.hooks(model) != before
        observed = kit.adapter.to_array(model(x)["out"]).array.copy()
    assert kit.hooks(model) == before
    np.testing.assert_array_equal(plain, observed, strict=True)


def test_nothing_remains_after_the_model_raises(kit):
    model = kit.models.Broken()
    before = kit.hooks(model)
    calls = []
    with pytest.raises(ValueError, match="no good after"), kit.adapter.observe(model, calls.append):
        model(kit.ones(1, 4))
    assert kit.hooks(model) == before
    assert [call.name for call in calls] == ["inner.inner", "inner"]


def test_nothing_remains_after_the_sink_raises(kit):
    model = kit.models.Net()
    before = kit.hooks(model)

    def sink(call):
        raise KeyError(call.name)

    with pytest.raises(KeyError, match=r"layers\.0"), kit.adapter.observe(model, sink):
        model(kit.ones(1, 4))
    assert kit.hooks(model) == before
    assert len(watch(kit, model, kit.ones(1, 4))) == 8


def test_nothing_remains_after_select_raises(kit):
    model = kit.models.Net()
    before = kit.hooks(model)
    with pytest.raises(ZeroDivisionError), kit.adapter.observe(model, print, lambda path, _module: 1 / len(path)):
        pass
    assert kit.hooks(model) == before


def test_a_failure_that_the_model_survives_is_not_a_call(kit):
    calls = watch(kit, kit.models.Guarded(), kit.ones(1, 4))
    assert seen(calls) == [("bad.inner.inner", 0, 3, True), ("bad.inner", 0, 2, False), ("good", 0, 1, True), ("", 0, 0, False)]


def test_calls_made_while_handling_an_exception_are_seen(kit):
    model, calls = kit.models.Block(), []
    with kit.adapter.observe(model, calls.append):
        try:
            raise KeyError("unrelated")  # noqa: TRY301 - the point
        except KeyError:
            model(kit.ones(1, 4))
    assert seen(calls) == [("inner", 0, 1, True), ("", 0, 0, False)]


def test_counts_go_on_and_start_again(kit):
    model, calls = kit.models.Block(), []
    with kit.adapter.observe(model, calls.append):
        model(kit.ones(1, 4))
        model(kit.ones(1, 4))
        model.inner(kit.ones(1, 4))
    assert seen(calls) == [("inner", 0, 1, True), ("", 0, 0, False), ("inner", 1, 1, True), ("", 1, 0, False), ("inner", 2, 0, True)]
    assert seen(watch(kit, model, kit.ones(1, 4))) == [("inner", 0, 1, True), ("", 0, 0, False)]


def test_nested_observations_do_not_disturb_each_other(kit):
    model, outer, inner = kit.models.Block(), [], []
    before = kit.hooks(model)
    with kit.adapter.observe(model, outer.append):
        model(kit.ones(1, 4))
        with kit.adapter.observe(model.inner, inner.append):
            model(kit.ones(1, 4))
        model(kit.ones(1, 4))
    assert seen(outer) == [("inner", n // 2, 1, True) if n % 2 == 0 else ("", n // 2, 0, False) for n in range(6)]
    assert seen(inner) == [("", 0, 0, True)]
    assert kit.hooks(model) == before


def test_a_sink_may_run_the_model(kit):
    model, calls = kit.models.Block(), []

    def sink(call):
        calls.append(call)
        model(kit.ones(1, 4))

    watch(kit, model, kit.ones(1, 4), sink=sink)
    assert seen(calls) == [("inner", 0, 1, True), ("", 0, 0, False)]


def test_a_shared_module_is_counted_under_its_first_name(kit):
    assert seen(watch(kit, kit.models.Tied(), kit.ones(1, 4))) == [("encoder", 0, 1, True), ("encoder", 1, 1, True), ("", 0, 0, False)]


def test_in_place_changes_after_the_call_come_too_late(trained):
    model = trained.models.Block()
    kept = []
    with trained.adapter.observe(model, lambda call: kept.append(trained.adapter.to_array(call.outputs).array.copy())):
        out = model(trained.ones(1, 4))
        with trained.adapter.no_grad():
            out.multiply_(trained.ones(1, 4) * 0) if trained.name == "paddle" else out.mul_(0)
    assert kept[1].any()
    assert not trained.adapter.to_array(out).array.any()


def test_recurrent_layers(trained):
    model = {"torch": lambda: __import__("torch").nn.LSTM(3, 4), "paddle": lambda: __import__("paddle").nn.LSTM(3, 4)}[trained.name]()
    calls = watch(trained, model, trained.ones(2, 1, 3))
    assert (calls[-1].name, calls[-1].op, calls[-1].kind) == ("", "LSTM", "LSTM")
    assert trained.adapter.is_tensor(calls[-1].outputs[0])
    assert calls[-1].source.startswith(__file__)


def test_the_users_own_hooks_are_heard(trained):
    model, calls = trained.models.Block(), []
    register = model.inner.register_forward_hook if trained.name == "torch" else model.inner.register_forward_post_hook
    register(lambda _layer, _inputs, outputs: outputs * 0)
    with trained.adapter.observe(model, calls.append):
        model(trained.ones(1, 4))
    assert not trained.adapter.to_array(calls[0].outputs).array.any()


def test_older_versions_hide_keyword_arguments(trained, monkeypatch):
    """A framework whose hooks take no options: kwargs and failures are unseen, the rest holds."""
    name = "register_forward_hook" if trained.name == "torch" else "register_forward_post_hook"
    original = getattr(trained.layer, name)

    def register(self, hook):
        return original(self, hook)

    monkeypatch.setattr(trained.layer, name, register)
    assert accepted(register, "with_kwargs") == {}
    calls = watch(trained, trained.models.Taking(), trained.ones(1), "tensor")
    assert seen(calls) == [("child", 0, 1, True), ("", 0, 0, False)]
    assert len(calls[0].inputs) == 1
    survived = watch(trained, trained.models.Guarded(), trained.ones(1, 4))
    assert seen(survived)[-1] == ("", 0, 0, False)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_torchscript_is_passed_over():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.jit.script(torch.nn.Sequential(torch.nn.ReLU())), torch.nn.Linear(2, 2))
    adapter, calls = finding.load("torch"), []
    with adapter.observe(model, calls.append):
        model(torch.ones(1, 2))
    assert [call.name for call in calls] == ["1", ""]
    adapter.train(model, "quiet")
    adapter.set_mode(model, adapter.mode(model))


def test_numpy_inheritance_reports_once():
    class Base:
        def __call__(self, x):
            return x + 1

    class Derived(Base):
        def __call__(self, x):
            return super().__call__(x) * 2

    class Model:
        def __init__(self):
            self.one, self.two = Base(), Derived()

        def __call__(self, x):
            return self.two(self.one(x)) + Derived()(x)

    calls = []
    model = Model()
    with finding.load("numpy").observe(model, calls.append):
        assert model(1.0) == 10.0
    assert seen(calls) == [("one", 0, 1, True), ("two", 0, 1, True), ("", 0, 0, False)]
    assert "__call__" in vars(Derived)


def test_numpy_functions_are_not_seen():
    calls = []
    with finding.load("numpy").observe(np.tanh, calls.append):
        assert np.tanh(0.0) == 0.0
    assert calls == []
