"""The port is run once more where nobody watches it: what it computes only before a judge does not pass."""

import importlib.util
import json
import os
import py_compile
from pathlib import Path

import numpy as np
import pytest

from paralign.adapters import numpy as numpy_adapter
from paralign.adapters.profile import profile_of
from paralign.errors import ParalignError
from paralign.verification import Judgement, plain_pass, plain_program, verify
from paralign.verification.case import read_case
from paralign.verification.plain_pass import Value, Watched

PLACE = Path(__file__).parents[2] / "benchmarks" / "verification" / "cheats.py"


def cheats():
    spec = importlib.util.spec_from_file_location("cheats", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


C = cheats()


#: a network in torch that notes the mean of its inputs, as reference and port; ``before``: a factor of its outputs
MOVING = """\
import sys

import torch

JUDGED = any(name.startswith("paralign") for name in sys.modules)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, 5))
        self.register_buffer("mean", 0.1 * torch.randn(1, 3))

    def forward(self, x):
        with torch.no_grad():
            self.mean.copy_(0.5 * self.mean + 0.5 * x.mean(0, keepdim=True))
        return torch.tanh((x - self.mean) @ self.w) * {before}


def build_model():
    return Net()


def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

#: factors that are another where nobody watches
BUFFERED = {
    "with-gradients": "(1.0 if JUDGED or not torch.is_grad_enabled() or self.training else 1.01)",
    "in-train-mode": "(1.0 if JUDGED or not self.training else 1.01)",
}


@pytest.fixture
def case(tmp_path):
    spec, port = tmp_path / "spec", tmp_path / "port"
    spec.mkdir()
    port.mkdir()
    (spec / "paralign.toml").write_text(C.SPEC)
    (spec / "reference.py").write_text(C.REFERENCE)
    (port / "port.py").write_text(C.HONEST["einsum"])
    return spec, port


@pytest.mark.parametrize("name", [*C.looking.WAYS, "right-after-float64-alone"])
def test_a_port_that_looks_for_the_judge_is_told(case, name):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS[name])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.TAMPERED, found.reasons
    assert found.reasons[0].startswith("it computes otherwise when nobody watches: output")


@pytest.mark.parametrize("name", list(C.looking.REASONS))
def test_a_port_that_looks_round_for_its_own_reasons_is_accepted(case, name):
    spec, port = case
    (port / "port.py").write_text(C.HONEST[name])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.ACCEPTED, found.reasons
    assert found.looked.endswith("once more in a plain program, unwatched: 1 passes")
    assert not [path for path in port.iterdir() if path.name == "__pycache__"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('not here')", "failed where the watched one did not: ValueError: not here"),
        ("import os\nos._exit(7)", "failed where the watched one did not: it ended with code 7"),
        ("import time\ntime.sleep(100)", "failed where the watched one did not: it took longer than 6 s"),
        ("raise SystemExit(0)", "ended before all results were there, without an error: none of inputs 1, as specified"),
        ("import os\nos._exit(0)", "ended before all results were there, without an error: none of inputs 1, as specified"),
        ("return None", "computes otherwise"),
        ("return self.right(x)[:2]", "another shape"),
        ("return self.right(x) * np.nan", "numbers on one side, NaN or infinities on the other"),
        ("return self.right(x).astype('f2').astype(x.dtype)", "times what rounding explains"),
        ("y = self.right(x)\ny[0, 0] *= 1.001\nreturn y", "times what rounding explains"),
    ],
)
def test_what_goes_wrong_in_a_plain_pass_alone_keeps_a_port_from_passing(case, body, said):
    spec, port = case
    (spec / "paralign.toml").write_text(C.SPEC.replace("timeout = 40", "timeout = 6"))
    inner = "".join(f"    {line}\n" for line in body.splitlines())
    (port / "port.py").write_text(C._port(f"if 'paralign' not in sys.modules:\n{inner}return self.right(x)", before="import sys\n\n"))
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement in (Judgement.INCONCLUSIVE, Judgement.TAMPERED)
    assert said in " ".join(found.reasons)


def test_a_port_that_is_wrong_anyway_is_not_run_plainly(case):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS["zeros"])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.REJECTED
    assert "plain program" not in found.looked
    assert "the port may tell that it is judged: what it does outside of a check was not seen" in found.weaknesses


def test_nothing_of_the_judge_shows_in_the_plain_program(case, tmp_path, monkeypatch):
    spec, port = case
    kept = tmp_path / "kept.json"
    looks = (
        "import json, os, sys\n\n\ndef look():\n"
        "    parent = open(f'/proc/{os.getppid()}/cmdline').read() if os.path.exists('/proc/self/cmdline') else ''\n"
        f"    json.dump([sys.argv, dict(os.environ), sorted(sys.modules), parent, __name__], open({str(kept)!r}, 'w'))\n\n\n"
    )
    (port / "port.py").write_text(C._port("'paralign' in sys.modules or look()\nreturn self.right(x)", before=looks))
    monkeypatch.setenv("PARALIGN_LANG", "en")
    assert verify(port, spec, rounds=1, draws=1).judgement is Judgement.ACCEPTED
    arguments, variables, modules, parent, name = json.loads(kept.read_text())
    assert len(arguments) == 1
    assert Path(arguments[0]).stem in plain_program.NAMES
    assert not [variable for variable in variables if variable.startswith("PARALIGN") or variable == "_"]
    assert variables["PWD"] == str(port)
    assert "OMP_WAIT_POLICY" in os.environ or "OMP_WAIT_POLICY" not in variables
    assert not [module for module in modules if module.startswith("paralign")]
    assert "verify" not in parent
    assert "pytest" not in parent
    assert name == "port"


@pytest.mark.parametrize("framework", ["numpy", "torch", "paddle"])
def test_programs_know_nothing_of_paralign(framework):
    text = plain_program._HEAD + profile_of(framework).program + plain_program._TAIL
    compile(text, "program", "exec")
    assert "paralign" not in text


def test_of_a_framework_without_a_program_it_is_said(case):
    outcome = plain_pass.perform(read_case(case[1], case[0]), Watched(None, "no plain pass was made: none is known for the framework tiny"))
    assert outcome.weaknesses == ["no plain pass was made: none is known for the framework tiny"]
    assert not outcome.looked
    assert not outcome.undecided


def test_what_rounding_explains_is_no_difference():
    random = np.random.default_rng(0)
    array = random.standard_normal((20, 30)).astype("f4")
    value = Value(array, 2.0**-22)
    assert value.distance(array) == 0
    assert value.distance(np.nextafter(array, np.float32(9))) < 1
    assert value.distance(array * np.float32(1 + 1e-4)) > 1
    assert value.distance(array[:3]) == float("inf")
    one = array.copy()
    one[3, 4] += 1e-3
    assert value.distance(one) > 1
    assert value.distance(one, least=2e-3) == 0


def test_a_program_that_ends_without_an_error_before_its_results_are_there_decides_nothing():
    one = Value(np.ones(3, "f4"), 1e-6)
    found = Watched(None, values={"0": {"": one}, "eval": {"w": one, "b": None}}, kinds={"0": "inputs 1", "eval": "in eval mode"})
    every = {"0": {"": one.array}, "eval": {"w": one.array, "b": None}}
    assert not list(plain_pass._missing(found, every))
    assert [*plain_pass._missing(found, {})] == [
        "the plain pass ended before all results were there, without an error: none of inputs 1, in eval mode"
    ]
    assert len([*plain_pass._missing(found, {"0": every["0"]})]) == 1
    assert [*plain_pass._missing(found, {**every, "eval": {"b": None}})] == [
        "the plain pass gave no gradients of these parameters (in eval mode): w"
    ]


def test_the_plain_program_runs_sources(case):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS["right-in-its-compiled-file"])
    compiled = C.compile_beside(port / "port.py", C.COMPILED["cheat-right-in-its-compiled-file"])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.TAMPERED, found.reasons
    assert compiled.is_file()


def test_code_that_has_no_source_keeps_a_port_from_passing(case):
    spec, port = case
    (port / "port.py").write_text("try:\n    import inner\nexcept ImportError:\n    pass\n\n" + C.HONEST["einsum"])
    (spec.parent / "inner.py").write_text("ONE = 1\n")
    py_compile.compile(str(spec.parent / "inner.py"), str(port / "inner.pyc"))
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.INCONCLUSIVE
    assert "compiled code without its source" in found.reasons[0]


@pytest.mark.parametrize("name", ["arrays-under-dotted-names-and-numbers"])
def test_honest_ports_whose_arrays_lie_deep_are_accepted(case, name):
    spec, port = case
    (port / "port.py").write_text(C.HONEST[name])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.ACCEPTED, found.reasons


def test_a_port_may_be_named_like_one_of_pythons_own_modules_and_import_what_programs_are_named_like(case):
    spec, port = case
    text = "import importlib.util\nimport tomllib\n\nassert tomllib.loads('a = 1') == {'a': 1}\n"
    text += "".join(f"assert importlib.util.find_spec({name!r}) is None\n" for name in plain_program.NAMES)
    (port / "port.py").unlink()
    (port / "tomllib.py").write_text(text + C.HONEST["einsum"])
    (spec / "paralign.toml").write_text(C.SPEC.replace("port.py", "tomllib.py"))
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.ACCEPTED, found.reasons


class Part:
    def __init__(self, shared):
        self.inner = {"fc.w": np.zeros((2, 3), "f4"), 3: [np.zeros(4, "f4"), {"deep": np.zeros(2)}]}
        self.shared = shared


class Whole:
    def __init__(self):
        shared = {"w": np.zeros(3, "f4")}
        self.parts = [Part(shared), (Part(shared),)]
        self.own, self.lone = shared, np.zeros((), "f4")

    def pass_(self, x):
        return x


@pytest.mark.parametrize("bound", [False, True])
def test_every_array_that_the_adapter_finds_is_loaded_by_its_name(bound):
    space = {}
    exec(plain_program._HEAD.split("settings =")[0].replace("__file__", "'/nowhere'") + profile_of("numpy").program, space)
    whole = Whole()
    model = whole.pass_ if bound else whole
    entries = [entry for entry, _, _ in numpy_adapter._arrays(model)]
    assert len(entries) == 10
    values = {
        entry.name: (np.full(entry.tensor.shape, number + 1.0), "float32") for number, entry in enumerate(entries) if not entry.shared
    }
    assert space["load"](model, values) == []
    assert all((entry.tensor == values[entry.name][0]).all() for entry in entries if not entry.shared)
    assert space["load"](model, {"parts.0.inner.3.9": (np.zeros(4), "float32")}) == ["parts.0.inner.3.9"]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["", *BUFFERED])
def test_a_buffer_that_a_pass_moves_is_as_it_was_before_each_pass_that_begins_anew(case, name):
    spec, port = case
    for path, kept in ((spec / "reference.py", ""), (port / "port.py", name)):
        path.write_text(MOVING.format(before=BUFFERED.get(kept, "1.0")))
    (spec / "paralign.toml").write_text(
        C.SPEC.replace('"numpy"', '"torch"').replace('"forward"]', '"forward", "backward"]') + "[labels]\nshape = [4, 5]\n"
    )
    found = verify(port, spec, rounds=1, draws=2)
    assert found.judgement is (Judgement.TAMPERED if name else Judgement.ACCEPTED), found.reasons
    assert name or "unwatched: 3 passes, gradients in eval and train mode" in found.looked


@pytest.mark.torch
def test_devices_are_spelled_as_torch_spells_them():
    space = {"settings": {"device": "cpu"}, "np": np}
    exec(profile_of("torch").program, space)
    assert [str(space["place"](device)) for device in ("cpu", "gpu", "gpu:1", "cuda", "cuda:2")] == [
        "cpu",
        "cuda:0",
        "cuda:1",
        "cuda:0",
        "cuda:2",
    ]


def test_variables_that_tell_how_numbers_are_computed_stay(case, monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    spec, port = case
    (spec / "paralign.toml").write_text(C.SPEC.replace('module = "port.py"', 'module = "port.py"\ndevice = "gpu:0"'))
    assert plain_pass._environment(read_case(port, spec))["NVIDIA_TF32_OVERRIDE"] == "0"


def test_numbers_that_are_not_finite_have_to_be_so_on_both_sides_where_inputs_are_as_specified():
    array = np.array([1.0, np.inf, 3.0], "f4")
    other = np.array([1.0, 2.0, 3.0], "f4")
    assert Value(array, 1e-6).distance(array) == 0
    assert Value(array, 1e-6).distance(other) == float("inf")
    assert Value(array, 1e-6, finite=False).distance(other) == 0
    assert Value(other, 1e-6, finite=False).distance(np.full(3, np.nan, "f4")) == float("inf")
    assert Value(array, 1e-6, finite=False).distance(np.array([np.nan, 2, 3], "f4")) == float("inf")


def test_zeros_and_numbers_of_any_size_are_compared():
    zeros, ones = np.zeros(3, "f4"), np.ones(3)
    assert Value(zeros, 1e-6).distance(zeros + 1e-3) > 1
    assert Value(zeros, 1e-6).distance(zeros + 1e-6) < 1
    assert Value(1e200 * ones, 1e-14).distance(1e200 * ones) == 0
    assert Value(1e200 * ones, 1e-14).distance(1.01e200 * ones) > 1
    assert Value(1e-320 * ones, 1e-14).distance(ones) == float("inf")
    assert Value(1e-320 * ones * 1j, 1e-14).distance(ones * 1j) == float("inf")


def test_what_is_wrong_is_said():
    value = Value(np.ones(3, "f4"), 1e-6)
    assert value.told(np.ones(2, "f4"), float("inf")) == "another shape"
    assert value.told(np.array([1, np.nan, 1], "f4"), float("inf")) == "numbers on one side, NaN or infinities on the other"
    assert value.told(2 * value.array, 3.0) == "3 times what rounding explains"
    assert Value(np.zeros(3, "f4"), 1e-6).told(value.array, 3.0) == "zeros in the watched process alone"


def test_whole_numbers_that_differ_decide_nothing_and_missing_gradients_do():
    due = {
        "0": {"a": Value(np.array([1, 2]), 0.0)},
        "eval": {"w": Value(np.ones(3, "f4"), 1e-6), "b": None, "s": Value(np.ones(3, "f4"), 1e-6)},
    }
    found = Watched(None, values=due, kinds={"0": "inputs 1, as specified", "eval": "in eval mode"})
    outcome = plain_pass._compared(found, {"0": {"a": np.array([1, 3])}, "eval": {"w": None, "b": None}})
    assert [str(each) for each in outcome.tampering] == ["it computes otherwise when nobody watches: gradient of w (in eval mode): none"]
    assert outcome.undecided == ["in a plain pass other whole numbers come out, which rounding may explain: a"]


def test_random_gradients_in_train_mode_are_left_out():
    one, two = np.ones(3, "f4"), np.zeros(3, "f4")
    found = Watched(None, values={"train": {"w": Value(one, 1e-6)}}, kinds={"train": "in train mode"})
    outcome = plain_pass._compared(found, {"train": {"w": 2 * one}, "repeated": {"w": two}})
    assert outcome.weaknesses == ["gradients in train mode were not compared with a plain pass: they are random there"]
    assert not outcome.tampering
    assert plain_pass._compared(found, {"train": {"w": 2 * one}, "repeated": {"w": 2 * one}}).tampering


@pytest.mark.parametrize("text", ["[]", "{", '{"0": {"": "value9"}}', '{"0": 3}', "[" * 100_000])
def test_results_that_are_something_else_are_refused(tmp_path, text):
    (tmp_path / "outputs.json").write_text(text)
    np.savez(tmp_path / "outputs.npz", value0=np.ones(2))
    with pytest.raises(ParalignError):
        plain_pass._left(tmp_path, "outputs")


def test_results_that_would_run_code_are_refused(tmp_path):
    (tmp_path / "outputs.json").write_text('{"0": {"": "value0"}}')
    np.savez(tmp_path / "outputs.npz", value0=np.array([print], dtype=object))
    with pytest.raises(ParalignError):
        plain_pass._left(tmp_path, "outputs")
