"""The way of a sample: which lines made which values, and that nothing of the watching remains."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from paralign.dtypes import typed
from paralign.errors import UnsupportedTensor
from paralign.worker.optimization.optimizers import construction, steps
from paralign.worker.traces import tracing
from paralign.worker.traces.tracing import Tracer


def convert(value):
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
    if value is None or isinstance(value, (str, bytes)) or callable(value):
        return None
    try:
        return typed(value)
    except (UnsupportedTensor, TypeError):
        return None


@pytest.fixture
def module(tmp_path):
    """Imports a text as a module of the user's."""
    count = iter(range(100))

    def load(text):
        path = tmp_path / f"side_{next(count)}.py"
        path.write_text("import numpy as np\n" + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    return load


def follow(act, made=lambda _: None):
    tracer = Tracer(convert, made)
    with tracer.watching():
        act()
    return tracer


def told(tracer):
    return [(s.op, int(s.source.rsplit(":", 1)[1]), s.inputs) for s in tracer.steps]


def test_every_new_and_changed_value_is_a_step_with_its_line_and_what_it_read(module):
    side = module(
        "def sample():\n"  # 2
        "    x = np.arange(6.0)\n"  # 3
        "    y = x * 2\n"  # 4
        "    y += 1\n"  # 5
        "    y[0] = 9\n"  # 6
        "    z = y\n"  # 7
        "    return z - x\n"  # 8
    )
    tracer = follow(side.sample)
    assert told(tracer) == [("x", 3, ()), ("y", 4, (0,)), ("y", 5, (1,)), ("y", 6, (2,)), ("return", 8, (0, 3))]
    assert tracer.result == {"": 4}
    assert tracer.steps[3].value.array[0] == 9
    assert tracer.steps[2].value.array[0] == 1


def test_functions_attributes_and_constants_are_followed(module):
    side = module(
        "MEAN = [1.0, 2.0, 3.0]\n"  # 2
        "def normalise(picture, shift):\n"  # 3
        "    return picture - np.array(MEAN) - shift\n"  # 4
        "class Data:\n"  # 5
        "    def __init__(self):\n"  # 6
        "        self.names = ['b', 'a', 'c']\n"  # 7
        "    def __getitem__(self, i):\n"  # 8
        "        name = self.names[i]\n"  # 9
        "        picture = np.full(3, float(ord(name)))\n"  # 10
        "        return {'picture': normalise(picture, 1), 'label': i + 1}\n"  # 11
    )

    def text(value):
        return typed(np.array([ord(v) for v in value])) if isinstance(value, list) and isinstance(value[0], str) else convert(value)

    building = Tracer(text, lambda _: None)
    with building.watching():
        data = side.Data()
    tracer = building.continued()
    with tracer.watching():
        data[1]
    found = {s.op: s for s in tracer.steps}
    assert found["self.names"].source.endswith(":7")
    assert found["self.names"].number in found["picture"].inputs
    assert found["MEAN"].kind == "constant"
    normalised = tracer.steps[tracer.result["picture"]]
    assert (normalised.function, normalised.source.rsplit(":", 1)[1]) == ("normalise", "4")
    assert {found["MEAN"].number, found["picture"].number} <= set(normalised.inputs)
    assert tracer.steps[tracer.result["label"]].value.array == 2


COMPOSE = (
    "class Compose:\n"
    "    def __init__(self, steps):\n"
    "        self.steps = steps\n"
    "    def __call__(self, x):\n"
    "        for step in self.steps:\n"
    "            x = step(x)\n"
    "        return x\n"
    "class Add:\n"
    "    def __init__(self, by):\n"
    "        self.by = by\n"
    "    def __call__(self, x):\n"
    "        return x + self.by\n"
)


def test_transforms_of_a_nested_composition_are_named_with_the_line_that_built_them(module, monkeypatch):
    library = module(COMPOSE)
    monkeypatch.setattr(tracing, "system_folders", lambda: [library.__file__])  # a library's own lines are not the user's
    monkeypatch.setattr(Tracer, "_is_users", lambda _self, path: path != library.__file__)
    side = module(
        "def build(Compose, Add):\n"  # 2
        "    return Compose([\n"  # 3
        "        Add(1),\n"  # 4
        "        Compose([Add(2), np.negative]),\n"  # 5
        "        Add(\n"  # 6
        "            3),\n"
        "    ])\n"
    )
    with construction(callable) as built:
        composed = side.build(library.Compose, library.Add)
    tracer = follow(lambda: composed(np.zeros(4)), built.source)
    assert [(s.op, s.kind, s.source.rsplit(":", 1)[-1]) for s in tracer.steps if s.kind == "transform"][:2] == [
        ("Add", "transform", "4"),
        ("Add", "transform", "5"),
    ]
    taken = [s for s in tracer.steps if s.kind != "argument"]  # what the lambda of this test hands over is one, too
    assert [s.op for s in taken] == ["Add", "Add", "negative", "Add"]
    assert [float(s.value.array[0]) for s in taken] == [1, 3, -3, 0]


def test_a_list_of_callables_given_to_a_function_is_a_composition(module):
    side = module("def run(x, ops):\n    for op in ops:\n        x = op(x)\n    return x\n")
    tracer = follow(lambda: side.run(np.ones(3), [np.negative, np.square]))
    assert [(s.op, s.kind) for s in tracer.steps] == [("x", "argument"), ("negative", "transform"), ("square", "transform")]


def test_containers_are_looked_into(module):
    side = module(
        "def sample():\n    data = {'image': np.zeros(3), 'boxes': [[1, 2], [3, 4]]}\n    data['image'] = data['image'] + 1\n    return data\n"
    )
    tracer = follow(side.sample)
    assert [s.op for s in tracer.steps][-1] == "data"
    assert set(tracer.result) == {"image", "boxes.0", "boxes.1"}
    assert tracer.steps[tracer.result["image"]].source.endswith(":4")


# -- scope and bounds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_the_trace_function_is_put_back(module, fails):
    side = module("def sample(fails):\n    x = np.ones(3)\n    if fails:\n        raise KeyError('x')\n    return x\n")

    def mine(_frame, _event, _arg):
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        tracer = Tracer(convert, lambda _: None)
        if fails:
            with pytest.raises(KeyError), tracer.watching():
                side.sample(fails)
        else:
            with tracer.watching():
                side.sample(fails)
        assert sys.gettrace() is mine
    finally:
        sys.settrace(before)
    assert [s.op for s in tracer.steps] == ["x"]


def test_other_threads_are_not_traced(module):
    side = module("def sample():\n    return np.ones(3) + 1\n")

    def act():
        thread = threading.Thread(target=side.sample)
        thread.start()
        thread.join()

    assert follow(act).steps == []


@pytest.mark.parametrize(("bound", "value"), [("STEPS", 5), ("LINES", 20), ("BYTES", 500), ("PATIENCE", -1.0)])
def test_every_bound_ends_the_trace_and_not_the_program(module, monkeypatch, bound, value):
    side = module(
        "def sample():\n    found = []\n    for i in range(30):\n        x = np.full(9, i)\n        y = x + 1\n        z = y * 2\n        found.append(z.sum())\n    return found\n"
    )
    monkeypatch.setattr(tracing, bound, value)
    tracer = Tracer(convert, lambda _: None)
    with tracer.watching():
        result = side.sample()
    assert len(result) == 30
    assert tracer.exhausted
    assert len(tracer.steps) <= 20


def test_a_loop_over_pixels_is_recorded_a_few_times_only(module):
    side = module("def sample():\n    x = np.zeros(50)\n    for i in range(50):\n        x[i] = i + 1\n    return x * 2\n")
    tracer = follow(side.sample)
    assert not tracer.exhausted
    assert len([s for s in tracer.steps if s.op == "x"]) <= tracing.TIMES + 1
    assert tracer.steps[-1].op == "return"


def test_objects_that_fight_back_are_left_alone(module):
    side = module(
        "class Odd:\n"
        "    def __len__(self):\n        raise RuntimeError\n"
        "    def __eq__(self, other):\n        raise RuntimeError\n"
        "    __hash__ = None\n"
        "def sample():\n"
        "    odd = Odd()\n"
        "    x = np.ones(3)\n"
        "    return {'odd': odd, 'x': x, 'self': {}}\n"
    )
    assert [s.op for s in follow(side.sample).steps] == ["x"]


# -- construction --------------------------------------------------------------------------------------------------------------------


class Made:
    def step(self):
        pass


class Derived(Made):
    def __init__(self):
        super().__init__()
        self.inner = Inner()


class Inner(Made):
    def __init__(self):
        self.x = 1


def test_the_line_that_built_an_object_is_known_and_the_profile_function_put_back():
    def mine(*_):
        return None

    sys.setprofile(mine)
    try:
        with construction(steps) as built:
            made = Derived()  # here
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    line = next(n for n, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1) if text.endswith("# here"))
    assert built.source(made) == f"{__file__}:{line}"
    assert built.source(made.inner).startswith(__file__)
    assert built.source(object()) is None


def test_construction_is_left_after_an_exception():
    with pytest.raises(ValueError, match="no"), construction(steps):
        raise ValueError("no")
    assert sys.getprofile() is None


def test_single_numbers_of_one_line_are_recorded_a_few_times_only(module):
    side = module(
        "def table():\n"
        "    return {f'w{i}': [j for j in (i, i + 1, i + 2)][0] for i in range(200)}\n"
        "def sample():\n    known = table()\n    x = np.full(3, known['w7'])\n    return x * 2\n"
    )
    tracer = follow(side.sample)
    singles = [s for s in tracer.steps if s.value.array.ndim == 0]
    assert len(singles) <= 2 * tracing.SINGLE  # lines 3 and 5
    assert not tracer.exhausted
    assert [s.op for s in tracer.steps if s.value.array.size == 3][-2:] == ["x", "return"]


def test_single_numbers_of_a_loop_are_recorded_as_often_as_is_asked(module):
    side = module("def sample():\n    total = 0.0\n    for i in range(60):\n        total = total + i / 7\n    return total\n")
    tracer = Tracer(convert, lambda _: None, times=100)
    with tracer.watching():
        side.sample()
    assert len([s for s in tracer.steps if s.op == "total"]) == 61 - 1  # 0 / 7 leaves the total as it is
    assert tracer.steps[tracer.result[""]].op == "total"


def test_a_comprehension_reads_what_it_goes_through(module):
    side = module("def sample():\n    x = np.arange(3) + 5\n    return [float(v) * 2 for v in x]\n")
    tracer = follow(side.sample)
    made = next(s for s in tracer.steps if s.op == "x")
    assert made.number in {n for s in tracer.steps if s.source.endswith(":4") for n in s.inputs}


def test_pythons_own_library_composes_nothing(module):
    side = module(
        "import argparse\ndef sample():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--n', type=int, nargs=1)\n"
        "    parsed = parser.parse_args(['--n', '7'])\n    return np.full(4, parsed.n[0])\n"
    )
    tracer = follow(side.sample)
    assert {s.function for s in tracer.steps} == {"sample"}
