"""The judge of ports: what it accepts, what it does not, and that nobody can talk it over. `make cheats` tries the whole list."""

import importlib.util
import json
import threading
from pathlib import Path

import pytest

from paralign import cli
from paralign.adapters import packages
from paralign.capture import Capture, CaptureWriter
from paralign.context import Context
from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Manifest, StageResult
from paralign.run.project import Settings
from paralign.run.recorder import Recorder
from paralign.verification import Judgement, constant_buffers, followed_tables, longer_inputs, verify
from paralign.verification.certificate import genuine
from paralign.verification.commitment import Committed, Turn, Waiting
from paralign.worker.protocol import Forward
from paralign.worker.sides.session import NATIVE

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


def test_an_honest_port_is_accepted_and_its_certificate_is_genuine(case):
    spec, port = case
    found = verify(port, spec, rounds=2, sizes=(4, 6))
    assert found.judgement is Judgement.ACCEPTED
    assert [r.verdicts for r in found.rounds] == [{"weights": "aligned", "forward": "aligned"}] * 2
    assert list(found.port_files) == ["port.py"]
    assert "training was not judged: the specification does not ask for the stage backward" in found.weaknesses
    text = found.to_json(b"secret")
    assert genuine(text)
    assert genuine(text, b"secret")
    assert not genuine(text, b"other")
    assert not genuine(text.replace('"accepted"', '"rejected"'))


@pytest.mark.parametrize(
    ("name", "judgement"),
    [
        ("hard-coded", Judgement.REJECTED),
        ("batch-of-four", Judgement.REJECTED),
        ("nan", Judgement.REJECTED),
        ("executes-the-reference", Judgement.TAMPERED),
        ("another-process", Judgement.TAMPERED),
        ("compiled-in-place-of-its-source", Judgement.TAMPERED),
        ("rewrites-itself", Judgement.TAMPERED),
        ("exits-at-once", Judgement.FAILED),
    ],
)
def test_cheats_are_not_accepted(case, name, judgement):
    spec, port = case
    text = C.CHEATS[name].replace("command[command.index('--spec') + 1]", repr(str(spec)))
    (port / "port.py").write_text(text)
    found = verify(port, spec, rounds=2, sizes=(4, 6))
    assert found.judgement is judgement, found.reasons
    assert found.reasons


@pytest.mark.parametrize(
    "name",
    [
        "large-inputs",
        "huge-inputs",
        "tiny-inputs",
        "exact-zeros",
        "an-outlier",
        "rows-below-zero",
        "raises-above-four",
        "float32-alone-and-large",
    ],
)
def test_a_port_that_is_wrong_for_rare_inputs_alone_is_rejected_by_default(case, name):
    spec, port = case
    other = C._port("return self.right(x) * (1.5 if x.dtype == np.float32 and np.abs(x).max() > 8 else 1)")
    (port / "port.py").write_text(C.CHEATS.get(name, other))
    found = verify(port, spec, rounds=1)
    assert found.judgement is Judgement.REJECTED
    assert found.reasons


def test_without_further_inputs_rare_ones_are_not_seen(case):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS["huge-inputs"])
    found = verify(port, spec, rounds=1, draws=1)
    assert found.judgement is Judgement.ACCEPTED
    assert "forward on" not in found.looked


def test_a_reference_that_fails_on_further_inputs_is_no_fault_of_the_port(case):
    spec, port = case
    text = C.REFERENCE.replace("        return (np.tanh", "        assert np.abs(x).max() < 5\n        return (np.tanh")
    (spec / "reference.py").write_text(text)
    found = verify(port, spec, rounds=1)
    assert found.judgement is Judgement.ACCEPTED, found.reasons
    assert any("wide: not judged, as the reference fails there" in weakness for weakness in found.weaknesses)


@pytest.mark.parametrize("name", ["long-inputs", "raises-for-long-inputs"])
def test_a_port_that_is_wrong_for_a_long_first_axis_is_rejected_once_lengths_are_named(case, name):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS[name])
    assert verify(port, spec, rounds=1).judgement is Judgement.ACCEPTED
    found = verify(port, spec, rounds=1, sizes=(4, 6))
    assert found.judgement is Judgement.REJECTED
    assert "a first axis of" in " ".join(found.reasons)


def test_a_length_that_the_reference_refuses_is_no_fault_of_the_port(case):
    spec, port = case
    name = "of-a-reference-that-refuses-long-inputs"
    (spec / "reference.py").write_text(C.REFERENCES[f"honest-{name}"])
    (port / "port.py").write_text(C.HONEST[name])
    found = verify(port, spec, rounds=1, sizes=(4, 6))
    assert found.judgement is Judgement.ACCEPTED, found.reasons
    assert any("a first axis of" in weakness and "the reference fails there" in weakness for weakness in found.weaknesses)


@pytest.mark.parametrize(("greatest", "elements"), [(6, 8.0), (6, 5e4), (1, 1.0), (64, 1e4)])
def test_a_longer_first_axis_is_several_times_the_greatest_and_bounded(greatest, elements):
    lengths = {longer_inputs.drawn_length(greatest, elements) for _ in range(200)}
    most = max(2 * longer_inputs.LEAST * greatest, longer_inputs.CHEAP / elements)
    assert all(longer_inputs.LEAST * greatest <= length <= most for length in lengths)
    assert len(lengths) > 1


def test_a_longer_first_axis_that_takes_too_much_memory_is_not_drawn():
    assert longer_inputs.drawn_length(6, longer_inputs.BOUND / 35) is None
    assert longer_inputs.drawn_length(6, longer_inputs.BOUND / 37) is not None


def test_what_is_constant_as_constructed_is_moved_in_every_second_round(case):
    spec, port = case
    (port / "port.py").write_text(C.CHEATS["leaves-out-a-scale"])
    assert verify(port, spec, rounds=1).judgement is Judgement.ACCEPTED
    found = verify(port, spec, rounds=2)
    assert found.judgement is Judgement.REJECTED
    assert [r.verdicts["forward"] for r in found.rounds] == ["aligned", "diverged"]


def test_weights_whose_places_only_runs_can_tell_are_placed_by_them(case):
    spec, port = case
    square = C.REFERENCE.replace("(3, 8)", "(3, 3)").replace("(8, 5)", "(3, 3)").replace("np.ones(8", "np.ones(3")
    (spec / "reference.py").write_text(square)
    (spec / "paralign.toml").write_text("timeout = 30\n" + C.SPEC.replace("timeout = 40\n", ""))
    other = square.replace("self.first", "self.zebra").replace("self.second", "self.aardvark")
    (port / "port.py").write_text(other)
    found = verify(port, spec, rounds=1)
    assert found.judgement is Judgement.ACCEPTED, found.reasons


def test_a_port_that_changes_the_specification_is_told(case):
    spec, port = case
    (port / "port.py").write_text(C._port(f"open({str(spec / 'extra.toml')!r}, 'w').close()\nreturn self.right(x)"))
    found = verify(port, spec, rounds=1)
    assert found.judgement is Judgement.TAMPERED
    assert any("files of the judge changed" in reason and "extra.toml" in reason for reason in found.reasons)


def test_packages_of_adapters_are_hashed_and_a_port_that_changes_one_is_told(case, tmp_path, monkeypatch):
    spec, port = case
    adapter = tmp_path / "site" / "tiny_adapter.py"
    about = adapter.parent / "tiny_adapter-1.0.dist-info"
    about.mkdir(parents=True)
    adapter.write_text("def create():\n    return None\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-adapter\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[paralign.adapters]\ntinygrad = tiny_adapter:create\n")
    monkeypatch.syspath_prepend(adapter.parent)
    packages.places.cache_clear()
    try:
        before = verify(port, spec, rounds=1)
        (port / "port.py").write_text(C._port(f"open({str(adapter)!r}, 'a').write('#')\nreturn self.right(x)"))
        found = verify(port, spec, rounds=1)
        after = verify(port, spec, rounds=1)
    finally:
        monkeypatch.undo()
        packages.places.cache_clear()
    assert before.judgement is Judgement.ACCEPTED
    assert {"paralign_jax", "paralign_onnxruntime", "tiny_adapter"} <= set(before.adapters)
    assert json.loads(before.to_json())["adapters"] == before.adapters
    assert found.judgement is Judgement.TAMPERED
    assert any("files of the judge changed" in reason and "tiny_adapter.py" in reason for reason in found.reasons)
    same = {name for name, known in before.adapters.items() if after.adapters[name] == known}
    assert same == set(before.adapters) - {"tiny_adapter"}


def test_stages_that_a_side_cannot_do_make_it_inconclusive(case):
    spec, port = case
    (spec / "paralign.toml").write_text(C.SPEC.replace('"forward"]', '"forward", "backward"]'))
    assert verify(port, spec, rounds=1).judgement is Judgement.INCONCLUSIVE  # numpy has no gradients


def test_the_command_writes_a_certificate(case, tmp_path, capsys):
    spec, port = case
    (tmp_path / "key").write_text("secret\n")
    out = tmp_path / "certificate.json"
    code = cli.main(["verify", str(port), "--spec", str(spec), "--rounds", "1", "--out", str(out), "--key", str(tmp_path / "key")])
    assert code == 0
    assert capsys.readouterr().out == "accepted\n"
    assert genuine(out.read_text(), b"secret")
    assert json.loads(out.read_text())["judgement"] == "accepted"


def test_a_certificate_without_a_folder_is_told_before_anything_runs(case, tmp_path, capsys):
    spec, port = case
    assert cli.main(["verify", str(port), "--spec", str(spec), "--out", str(tmp_path / "nowhere" / "c.json")]) == 2
    told = capsys.readouterr().err
    assert "the folder of the certificate is not there" in told
    assert "round" not in told


@pytest.mark.parametrize(
    ("port", "spec", "told"),
    [
        ("spec", "spec", "outside of the port"),
        ("spec/inner", "spec", "outside of the port"),
        ("port", ".", "outside of the port"),
        ("spec/missing", "spec", "no folder"),
        ("port", "nowhere", "the specification is not there"),
    ],
)
def test_folders_that_cannot_be_judged_are_told(case, tmp_path, port, spec, told):
    (case[0] / "inner").mkdir()
    (tmp_path / "paralign.toml").write_text(C.SPEC)
    with pytest.raises(UsageError, match=told):
        verify(tmp_path / port, tmp_path / spec)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("shape = [4, 3]", 'file = "x.npy"', "which a port may know"),
        ("[inputs]\nshape = [4, 3]", "", "has no \\[inputs\\]"),
        ('"weights", "forward"', '"data"', "does not ask for the stage forward"),
        ('module = "port.py"', 'module = "port.py"\nroot = ".."', "outside of the port"),
    ],
)
def test_specifications_that_judge_nothing_are_told(case, old, new, told):
    spec, port = case
    (spec / "paralign.toml").write_text(C.SPEC.replace(old, new))
    with pytest.raises(UsageError, match=told):
        verify(port, spec)


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--sizes", "4,x"], ["--sizes", "0"], ["--draws", "0"]])
def test_other_arguments_are_told(case, arguments):
    spec, port = case
    assert cli.main(["verify", str(port), "--spec", str(spec), *arguments]) == 2


def test_the_reference_answers_after_the_port(monkeypatch, tmp_path):
    order, turn = [], Turn()

    class Made:
        path = tmp_path

    def record(self, name, order_, values=None, *, prelude=False):
        order.append(self.side)
        return Made()

    monkeypatch.setattr(Recorder, "record", record)
    reference = Waiting("reference", None, tmp_path, {}, turn=turn, timeout=20)
    thread = threading.Thread(target=lambda: reference.record("forward", Forward([NATIVE])))
    thread.start()
    thread.join(0.2)
    assert order == []
    Committed("candidate", None, tmp_path, {}, turn=turn).record("forward", Forward([NATIVE]))
    thread.join(20)
    assert order == ["candidate", "reference"]


def test_a_port_that_never_answers_is_no_reason_to_wait_for_ever(tmp_path):
    reference = Waiting("reference", None, tmp_path, {}, turn=Turn(), timeout=0.05)
    with pytest.raises(WorkerFailed, match="has not answered"):
        reference.record("forward", Forward([NATIVE]))


def test_buffers_that_no_round_has_changed_are_named():
    rounds = [{"places": "a", "drawn": "b", "gain": "c"}, {"places": "a", "drawn": "d", "gain": "c"}]
    (told,) = constant_buffers.weaknesses(rounds, {"gain"})
    assert told.endswith(": places")
    assert constant_buffers.weaknesses(rounds, {"gain", "places"}) == []
    assert constant_buffers.told({"norm.running_mean", "gain"}) == "; constant buffers moved by noise: gain"


def test_tables_that_the_port_makes_itself_are_a_weakness_and_rejected_where_that_is_asked_for():
    found = followed_tables.Tables(followed={"bias"}, own={"places", "angles"})
    (told,) = followed_tables.weakness(found)
    assert told.endswith(": angles, places")
    result = StageResult("forward", ALIGNED)
    followed_tables.reject(result, found)
    assert result.verdict == DIVERGED
    assert "angles, places" in result.findings[0].cause


def test_tables_that_the_port_follows_are_neither():
    result = StageResult("forward", ALIGNED)
    followed_tables.reject(result, followed_tables.Tables(followed={"bias"}))
    assert (result.verdict, result.findings) == (ALIGNED, [])
    assert followed_tables.weakness(followed_tables.Tables(followed={"bias"})) == []


@pytest.mark.parametrize(
    ("answers", "own", "followed"),
    [
        ([True], set(), {"a", "b"}),
        ([False, True, False], {"b"}, {"a"}),
        ([False, True, True], {"a", "b"}, set()),
        ([None, None, True], set(), {"b"}),
        ([False, None, True], {"a"}, {"b"}),
    ],
    ids=["followed", "one is its own", "only together", "the reference fails", "what is left of those that are not followed"],
)
def test_tables_are_asked_of_together_then_each(monkeypatch, answers, own, followed):
    given = iter(answers)
    monkeypatch.setattr(followed_tables, "_is_followed", lambda *_: next(given))
    found = followed_tables.ask(None, {"a": None, "b": None}, lambda number: number)
    assert (found.own, found.followed) == (own, followed)
    assert next(given, "none left") == "none left"
    assert found.unasked == {"a", "b"} - own - followed


@pytest.mark.parametrize("ignored", [{"t18"}, {"t2", "t18"}, {"t0", "t16", "t19"}, set()], ids=lambda each: ", ".join(sorted(each)))
def test_of_many_tables_those_that_are_not_followed_are_named_and_no_others(monkeypatch, ignored):
    names = [f"t{number}" for number in range(20)]
    monkeypatch.setattr(followed_tables, "_is_followed", lambda _, values, __: not ignored & set(values))
    found = followed_tables.ask(None, dict.fromkeys(names), lambda number: number)
    assert (found.own, found.followed, found.unasked) == (ignored, set(names) - ignored, set())


def test_so_many_tables_that_not_each_is_tried_are_not_said_to_be_the_ports_own(monkeypatch):
    names = [f"t{number}" for number in range(200)]
    monkeypatch.setattr(followed_tables, "_is_followed", lambda _, values, __: "t0" in values and len(values) == 1)
    found = followed_tables.ask(None, dict.fromkeys(names), lambda number: number)
    assert found.followed == {"t0"}
    assert found.own
    assert found.unasked
    assert found.own | found.unasked == set(names) - {"t0"}


@pytest.mark.parametrize(("verdict", "followed"), [(ALIGNED, True), (DIVERGED, False), (UNDERPOWERED, None), (NOT_TESTED, None)])
def test_a_test_that_is_too_weak_does_not_show_that_a_table_is_not_followed(monkeypatch, tmp_path, verdict, followed):
    CaptureWriter(tmp_path, Manifest(side="reference", stage="inputs")).close()
    monkeypatch.setattr(followed_tables.moved_weights, "load", lambda *_: None)
    monkeypatch.setattr(followed_tables.stage, "judged", lambda _: StageResult("forward", verdict))
    assert followed_tables._is_followed(Context(None, None, Settings()), {}, Capture.open(tmp_path)) is followed


def test_a_table_that_was_not_followed_once_is_the_ports_own():
    found = followed_tables.together([followed_tables.Tables({"a", "b"}), followed_tables.Tables(own={"b"}, unasked={"a", "c"})])
    assert found == followed_tables.Tables({"a"}, {"b"}, {"c"})
    (told,) = followed_tables.undecided(found)
    assert told.endswith(": c")
    assert followed_tables.undecided(followed_tables.Tables({"a"}, {"b"})) == []
