"""Programs run as their own commands: numpy scripts of two sides, each fault seen, each failure told."""

from __future__ import annotations

import json
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.api import check_project
from paralign.capture import Capture, CaptureWriter, clear
from paralign.checking import failed
from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED, Manifest, StageResult
from paralign.run.invocation import Program
from paralign.run.project import read
from paralign.stages.common.judging import conclude
from paralign.stages.data.stage import first
from paralign.stages.infer import programs, wrong_prediction
from paralign.worker.predictions.prediction import predicted
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import Session

SIDE = "def build_model():\n    return lambda x: x\n"

#: a classifier of pictures that are lists of numbers; faults are planted by replacing a line
PROGRAM = """
    import sys, json
    from pathlib import Path
    import numpy as np
    NAMES = ["cat", "dog", "fox"]
    WEIGHTS = np.random.RandomState(3).randn(64, 3) / 30

    def runs():
        count = Path("count.txt")
        count.write_text((count.read_text() if count.exists() else "") + "x")
        return len(count.read_text())

    def softmax(scores):
        e = np.exp(scores - scores.max())
        return e / e.sum()

    def load(path):
        pixels = np.loadtxt(path)
        scaled = pixels / 255.0
        centred = scaled - 0.485
        normal = centred / 0.229
        return normal

    def main(path, out=None):
        x = load(path)
        scores = x.reshape(-1) @ WEIGHTS
        probs = softmax(scores)
        best = int(probs.argmax())
        name = NAMES[best]
        print(f"class_id: {best}, class_name: {name}, prob: {probs[best]:.4f}")
        if out:
            np.save(out, probs)

    if __name__ == "__main__":
        main(*sys.argv[1:])
"""


class Fake:
    """A check whose sides are traced in this process."""

    def __init__(self, folder, settings):
        self.settings, self.artifacts, self.folder = settings, {}, folder
        self.reference, self.candidate = (SimpleNamespace(folder=folder / "captures" / side) for side in ("reference", "candidate"))

    def record_both(self, name, order, candidate):
        found = []
        for side, given in (("reference", order), ("candidate", candidate)):
            session = Session(side, {"build_model": lambda: abs}, "numpy")
            path = self.folder / "captures" / side / name
            clear(path)
            with CaptureWriter(path, Manifest(side=side, stage=order.task)) as writer:
                try:
                    writer.manifest.settings["answer"] = encode(predicted(session, writer, given, {}))
                except UsageError as failure:
                    raise WorkerFailed("UsageError", failure.what, side=side) from failure
            found.append(Capture.open(path))
        return tuple(found)


def judged(folder):
    """What the stage makes of the programs, without workers."""
    settings = read(folder).settings
    settings.paths = [str(folder / path) for path in settings.paths]
    context = Fake(folder, settings)
    result = StageResult("infer")
    try:
        programs.run(context, result, None)
    except WorkerFailed as failure:
        return failed("infer", failure)
    conclude(result, "native")
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
        wrong_prediction.follow(context, result)
    return result


@pytest.fixture
def project(tmp_path):
    """A project of two programs: ``make(candidate=[(old, new), …], **infer)`` writes it and checks it."""
    random = np.random.RandomState(0)
    for number in range(2):
        np.savetxt(tmp_path / f"{number} it's a picture.txt", random.randint(0, 256, (8, 8)))

    def make(candidate=(), command="python tools/predict.py {path}", reference=(), other=None, count=1, whole=False, **infer):
        for side, edits in (("reference", reference), ("candidate", candidate)):
            text = textwrap.dedent(PROGRAM)
            for old, new in edits:
                assert old in text
                text = text.replace(old, new)
            (tmp_path / side / "tools").mkdir(parents=True, exist_ok=True)
            (tmp_path / side / "tools" / "predict.py").write_text(text)
            (tmp_path / f"{side}.py").write_text(SIDE)
        paths = [f"{n} it's a picture.txt" for n in range(count)]
        infer = {"paths": paths, "reference_command": command, "candidate_command": other or command, **infer}
        head = "".join(f'[{side}]\nframework = "numpy"\nroot = "{side}"\n' for side in ("reference", "candidate"))
        (tmp_path / "paralign.toml").write_text(
            "timeout = 60\n" + head + "[infer]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in infer.items())
        )
        return check_project(tmp_path, ["infer"])[0].stages[0] if whole else judged(tmp_path)

    return make


def test_a_right_port_is_aligned(project):
    result = project(candidate=[("pixels / 255.0", "pixels * (1 / 255.0)")], count=2, whole=True)
    assert result.verdict == ALIGNED, result
    assert str(result.coverage[0]) == "2 printed lines and written values"
    assert [p.key for p in result.pairs] == [f"command_{n}.line_1.{k}" for n in (0, 1) for k in (0, 1)]


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ([("scaled - 0.485", "scaled - 0.456")], "centred = scaled - 0.456"),
        ([("pixels / 255.0", "pixels / 256.0")], "scaled = pixels / 256.0"),
        ([("centred / 0.229", "centred / 0.225")], "normal = centred / 0.225"),
        ([("e / e.sum()", "e / e.max()")], "return e / e.max()"),
        ([("np.exp(scores", "np.exp(0.5 * scores")], None),
    ],
    ids=["mean", "scale", "deviation", "softmax", "temperature"],
)
def test_a_fault_is_found_with_its_line(project, edits, code):
    result = project(candidate=edits)
    assert result.verdict == DIVERGED
    point = result.divergence.candidate
    assert "candidate/tools/predict.py" in point.source
    assert code is None or point.code == code, (point, result.findings, result.notes)


def test_a_cause_is_proven_by_a_path_that_did_not_show_it(project):
    edits = [("scaled - 0.485", "scaled - 0.456")]
    alone, both = (project(candidate=edits, count=count) for count in (1, 2))
    assert [(f.rule, f.proven) for f in alone.findings + both.findings] == [("data/shift", False), ("data/shift", True)]


def test_another_class_name_is_seen(project):
    result = project(candidate=[('"cat", "dog", "fox"', '"fox", "cat", "dog"')])
    assert result.verdict == DIVERGED
    assert any(note.startswith("text differs from character") and "cat" in note for p in result.pairs for note in p.notes)


def test_the_file_that_is_written_is_compared_digit_by_digit(project):
    command = "python tools/predict.py {path} {out}.npy"
    fine = [("np.save(out, probs)", "np.save(out, probs * 1.0003)")]
    assert project(candidate=fine).verdict == ALIGNED  # four printed digits do not show it
    result = project(candidate=fine, command=command)
    assert (result.verdict, result.divergence.pair.key) == (DIVERGED, "command_0")


def test_json_beside_json(project):
    def written(*values):
        return [("np.save(out, probs)", f'Path(out).write_text(json.dumps(dict(top={values!r}, names=["a"])))')]

    command = "python tools/predict.py {path} {out}.json"
    assert project(reference=written(1, 0.5), candidate=written(1, 0.5), command=command).verdict == ALIGNED
    result = project(reference=written(1, 0.5), candidate=written(1, 0.6), command=command)
    assert [p.key for p in result.pairs if p.verdict == DIVERGED] == ["command_0.top"]


def test_a_line_that_changes_by_itself_is_not_judged(project):
    timed = [("    if out:", '    print(f"time: {2.0 ** runs():.6f} s")\n    if out:')]
    result = project(reference=timed, candidate=timed)
    assert result.verdict == ALIGNED, result
    assert "not judged, for two runs of the reference differ in it: 'time: # s'" in result.notes


def test_a_candidate_that_draws_is_told_so(project):
    result = project(candidate=[("scores = x.reshape(-1) @ WEIGHTS", "scores = x.reshape(-1) @ WEIGHTS * runs()")])
    assert result.verdict == DIVERGED
    assert "infer/random" in {f.rule for f in result.findings}


def test_chatter_is_counted_and_lines_can_be_chosen(project):
    chat = [("def main(path, out=None):\n", 'def main(path, out=None):\n    print("no gpu here")\n    print("stage 3 begins")\n')]
    result = project(candidate=chat)
    assert result.verdict == DIVERGED  # a line with a number that the reference does not print
    assert any(note.startswith("1 printed lines without numbers have no counterpart") for note in result.notes)
    result = project(candidate=chat, lines="class_id")
    assert result.verdict == ALIGNED
    assert "printed lines left out by [infer] lines: 0 of the reference, 2 of the candidate" in result.notes


def _printing(text):
    head = "def main(path, out=None"
    return [(head + "):", f'{head}, weights=""):\n    print("{text}")')]


@pytest.mark.parametrize(
    ("reference", "candidate", "weights", "verdict"),
    [
        ("best match 0017.pt", "best match 0018.pt", ("", ""), DIVERGED),
        ("loading net.pth", "loading net.pdparams", ("", ""), ALIGNED),
        ("loading one.pth", "loading other.pdparams", ("", ""), DIVERGED),
        ("loading one.pth", "loading other.pdparams", (" runs/one.pth", " runs/other.pdparams"), ALIGNED),
        ("loading one.pth", "loading other.pdparams", (" runs/one.pth", " runs/one.pth"), DIVERGED),
        ("loading one.pth", "loading one.pth", (" runs/one.pth", " runs/other.pdparams"), ALIGNED),
    ],
)
def test_another_name_of_weights_is_a_difference_unless_it_is_the_sides_own(project, reference, candidate, weights, verdict):
    own, other = ("python tools/predict.py {path} {out}" + each for each in weights)
    result = project(_printing(candidate), command=own, other=other, reference=_printing(reference))
    named = next(pair for pair in result.pairs if pair.key.endswith("line_1"))
    assert (result.verdict, named.verdict) == (verdict, verdict)


@pytest.mark.parametrize(
    ("printed", "infer"),
    [("pass", {}), ('print("class_id: 1")', {"lines": "score"}), ('print(f"score: {2.0 ** runs():.6f}")', {})],
    ids=["nothing", "nothing that is chosen", "times alone"],
)
def test_programs_that_give_nothing_to_compare_prove_nothing(project, printed, infer):
    line = 'print(f"class_id: {best}, class_name: {name}, prob: {probs[best]:.4f}")'
    result = project(candidate=[(line, printed)], reference=[(line, printed)], **infer)
    assert result.verdict == UNDERPOWERED
    assert result.pairs[0].notes[0].startswith("nothing that the programs print or write")


def test_a_path_that_gives_nothing_is_told_beside_one_that_does(project):
    line = 'print(f"class_id: {best}, class_name: {name}, prob: {probs[best]:.4f}")'
    silent = [(line, f'{line} if "0 it" in sys.argv[1] else None')]
    result = project(candidate=silent, reference=silent, count=2)
    assert result.verdict == UNDERPOWERED
    assert [p.key for p in result.pairs if p.verdict == UNDERPOWERED] == ["command_1"]


def test_a_program_of_one_side_in_another_language_is_compared_without_lines(project):
    result = project(candidate=[("0.485", "0.4")], other=f"{sys.executable} -u tools/predict.py {{path}}")
    assert result.verdict == DIVERGED
    assert "the candidate's program is no Python script of its interpreter: its steps cannot be followed" in result.notes


@pytest.fixture
def interpreter(tmp_path):
    """An interpreter of its own, in a folder whose name holds a blank and a quote; it says that it was started."""
    folder = tmp_path / "it's an environment" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text(f'#!/bin/sh\necho x >> "$0.started"\nexec {sys.executable} "$@"\n')
    (folder / "python").chmod(0o755)
    return folder / "python"


@pytest.mark.parametrize("command", ["{python} tools/predict.py {path}", "env A=1 {python} -u tools/predict.py {path}"])
def test_the_interpreter_of_a_side_stands_anywhere_in_its_command(project, interpreter, command, tmp_path, monkeypatch):
    started = interpreter.with_name("python.started")
    monkeypatch.setattr("paralign.run.project.sys.executable", str(interpreter))  # the default of both sides
    assert project(command=command).verdict == ALIGNED
    assert len(started.read_text().split()) == 4  # two runs a side
    result = project(command=command, candidate=[("scaled - 0.485", "scaled - 0.456")])
    assert result.verdict == DIVERGED
    assert (result.divergence.candidate is not None and result.divergence.candidate.code == "centred = scaled - 0.456") == (
        command.startswith("{python}")
    )


def test_each_side_has_its_own_interpreter(tmp_path, interpreter):
    (tmp_path / "side.py").write_text(SIDE)
    table = 'framework = "numpy"\nmodule = "side.py"\n'
    (tmp_path / "paralign.toml").write_text(f"[reference]\n{table}[candidate]\n{table}python = {json.dumps(str(interpreter))}\n")
    sides = read(tmp_path).settings.sides
    command = "{python} x.py --by={python} {path} {{path}} {{{path}}} ${HOME} {out}.npy"
    tokens = {side: Program(side, command, given, 1.0).tokens("/a {out}", "/o {path}") for side, given in sides.items()}
    for side, python in (("reference", sys.executable), ("candidate", str(interpreter))):
        assert tokens[side] == [python, "x.py", f"--by={python}", "/a {out}", "{path}", "{/a {out}}", "${HOME}", "/o {path}.npy"]


@pytest.mark.parametrize(
    ("edits", "command", "told"),
    [
        ([("x = load(path)", "raise KeyError('conv1.weight')")], None, "ended with exit code 1"),
        ([("x = load(path)", "import os; os.abort()")], None, "was ended by signal SIGABRT"),
        ([("np.save(out, probs)", "pass")], "python tools/predict.py {path} {out}.npy", "it wrote no file to {out}"),
        ([("np.save(out, probs)", "Path(out).write_bytes(b'\\x80\\x04.')")], "python tools/predict.py {path} {out}", "neither .npy nor .npz nor JSON"),
        ([], "nowhere-to-be-found {path}", "`nowhere-to-be-found` does not start"),
        ([], "python tools/none.py {path}", "ended with exit code 2"),
    ],
    ids=["raises", "aborts", "no file", "no such format", "no program", "no script"],
)  # fmt: skip
def test_a_program_that_fails_is_an_error_of_its_side(project, edits, command, told):
    result = project(candidate=edits, other=command, command=(command if edits and command else "python tools/predict.py {path}"))
    assert (result.verdict, result.failure["side"]) == (ERROR, "candidate")
    assert told in result.failure["message"]


def test_a_program_without_end_is_ended(project, monkeypatch, tmp_path):
    from paralign.run import invocation

    before = invocation.Program.__init__

    def short(self, side, command, settings, timeout, lines=""):
        before(self, side, command, settings, 1.0 if side == "candidate" else timeout, lines)

    monkeypatch.setattr(invocation.Program, "__init__", short)
    result = project(candidate=[("x = load(path)", "import time; time.sleep(60)")])
    assert (result.failure["type"], result.failure["side"]) == ("timeout", "candidate")


def test_no_shell_reads_a_path(project, tmp_path):
    bait = tmp_path / "$(touch hacked); touch hacked.txt"
    bait.write_text((tmp_path / "0 it's a picture.txt").read_text())
    assert project(paths=[bait.name]).verdict == ALIGNED
    assert not list(tmp_path.rglob("hacked"))


@pytest.mark.parametrize(
    ("infer", "told"),
    [
        ({"reference_command": "python x.py"}, "has no {path}"),
        ({"reference_command": "python 'x.py {path}"}, "cannot be taken apart"),
        ({"reference_command": " "}, "the command is empty"),
        ({"reference_command": "python x.py {path} {output}"}, "the unknown placeholder '{output}'"),
        ({"candidate_command": "{pyhton} x.py {path}"}, "known are: {path}, {out}, {python}; {{pyhton}} stands for"),
        ({"reference_command": "{python} x.py {{path}}"}, "has no {path}"),
        ({"lines": "("}, "is no regular expression"),
        ({"pictures": -1}, "must not be negative"),
    ],
)
def test_a_wrong_setting_is_refused(project, infer, told):
    with pytest.raises(UsageError, match=r".") as caught:
        project(**infer)
    assert told in str(caught.value)
