"""The port is run once more where nobody watches it: what it computes only before a judge does not pass."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest

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
        ("return None", "computes otherwise"),
        ("return self.right(x)[:2]", "another shape, or none"),
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


def test_numbers_that_are_not_finite_have_to_be_so_on_both_sides_where_inputs_are_as_specified():
    array = np.array([1.0, np.inf, 3.0], "f4")
    other = np.array([1.0, 2.0, 3.0], "f4")
    assert Value(array, 1e-6).distance(array) == 0
    assert Value(array, 1e-6).distance(other) == float("inf")
    assert Value(array, 1e-6, finite=False).distance(other) == 0
    assert Value(np.zeros(3, "f4"), 1e-6).distance(other) == float("inf")


def test_whole_numbers_that_differ_decide_nothing_and_missing_gradients_do():
    due = {
        "0": {"a": Value(np.array([1, 2]), 0.0)},
        "eval": {"w": Value(np.ones(3, "f4"), 1e-6), "b": None, "s": Value(np.ones(3, "f4"), 1e-6)},
    }
    found = Watched(None, values=due, kinds={"0": "inputs 1, as specified", "eval": "in eval mode"})
    outcome = plain_pass._compared(found, {"0": {"a": np.array([1, 3])}, "eval": {"w": None, "b": None}})
    assert [str(each) for each in outcome.tampering] == [
        "it computes otherwise when nobody watches: gradient of w (in eval mode): another shape, or none"
    ]
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
