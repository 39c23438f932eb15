"""`paralign doctor`: what is said of interpreters that are well, wrong, hanging, lying, or none at all."""

from __future__ import annotations

import json
import math
import platform
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from paralign import cli
from paralign.adapters import finding
from paralign.adapters.base import Diagnosing
from paralign.adapters.numpy import NumpyAdapter
from paralign.adapters.packages import Place
from paralign.commands.doctor import _told
from paralign.report.language import speaking
from paralign.run.doctor import judge
from paralign.run.examination import MOST, Check, Examination, Framework, Trouble, examine, read_answer, version
from paralign.run.project import SideSettings
from paralign.run.symptoms import Severity
from paralign.worker.interpreter import diagnosis


def side(name="reference", **changes):
    checks = [Check("matmul", 2e-7), Check("convolution", 3e-7), Check("backward", 3e-7)]
    framework = Framework("torch", build="cpu", versions={"torch": "2.13.0"}, devices=["cpu"], settings={"threads": "2"}, checks=checks)
    images = {"Pillow": {"version": "13.0.0", "jpeg": "libjpeg-turbo 3.2.0"}, "OpenCV": {}}
    known = {"framework": "torch", "python": "3.11.7", "numpy": "2.4.6", "frameworks": [framework], "images": images}
    return Examination(name, "/env/bin/python", **{"device": "cpu", **known, **changes})


def with_framework(**changes):
    made = side()
    for key, value in changes.items():
        setattr(made.frameworks[0], key, value)
    return made


# -- judgement ---------------------------------------------------------------------------------------------------------------


def test_two_sides_that_are_well_and_alike_have_no_findings():
    result = judge([side(), side("candidate")])
    assert (result.symptoms, result.differences, result.code) == ([], [], 0)


BAD = [
    ({"python": "3.6.9", "numpy": "", "frameworks": []}, "Python 3.6.9 is too old: paralign needs 3.8 or newer", "another interpreter"),
    ({"numpy": "", "numpy_failure": "ImportError: libx.so", "frameworks": []}, "numpy cannot be imported: ImportError: libx.so", "/env/bin/python -m pip install"),
    ({"numpy": "1.16.6"}, "numpy 1.16.6 is too old: paralign needs 1.19 or newer", "--upgrade numpy"),
    ({"frameworks": []}, "no framework is installed", "pip install torch"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "what", "fix"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_what_makes_checks_impossible_is_said_with_its_fix(changes, what, fix):
    (symptom,) = judge([side(**changes)]).symptoms
    assert symptom.severity is Severity.FAULT
    assert what in symptom.what
    assert fix in symptom.fix
    assert judge([side(**changes), side("candidate")]).code == 1


@pytest.mark.parametrize(
    ("check", "severity", "what"),
    [
        (Check("matmul", 9e-6), None, ""),
        (Check("matmul", 5e-4), Severity.WARNING, "fewer bits than float32"),
        (Check("matmul", 0.5), Severity.FAULT, "the matmul of torch on cpu is wrong"),
        (Check("matmul", math.nan), Severity.FAULT, "is wrong"),
        (Check("matmul", failure="RuntimeError: Numpy is not available"), Severity.FAULT, "fails: RuntimeError: Numpy is not available"),
    ],
)
def test_small_computations_are_judged_by_their_distance_from_numpys(check, severity, what):
    found = judge([with_framework(checks=[check])]).symptoms
    assert [s.severity for s in found] == ([] if severity is None else [severity])
    assert all(what in s.what and s.fix for s in found)


def test_a_device_that_is_not_there_is_a_fault_that_names_the_build_to_install():
    examined = with_framework(failure="Paddle has no device 'gpu' here", hint="choose one of: cpu", name="paddle")
    examined.device = "gpu"
    (symptom,) = judge([examined]).symptoms
    assert (symptom.severity, "install paddlepaddle-gpu" in symptom.fix) == (Severity.FAULT, True)


def test_a_broken_framework_beside_one_that_works_is_a_fault_only_where_it_is_needed():
    broken = Framework("paddle", failure="paddle 2.6.2 is too old: paralign needs paddle 3.0 or newer", hint="install a newer paddle")
    for changes, code in (({"framework": ""}, 0), ({"framework": "", "every": True}, 1), ({"framework": "paddle"}, 1)):
        examined = side(**changes)
        examined.frameworks.append(broken)
        result = judge([examined])
        assert (result.code, [s.fix for s in result.symptoms]) == (code, ["install a newer paddle"])


@pytest.mark.parametrize(
    ("changes", "severity", "what"),
    [
        ({"settings": {"default_dtype": "float64"}}, Severity.WARNING, "tensors of float64 by default"),
        ({"settings": {"deterministic": "False"}}, Severity.NOTE, "change from run to run"),
        ({"settings": {"deterministic": "True", "autotune": "0"}}, None, ""),
        ({"settings": {"autotune": "1"}}, Severity.WARNING, "takes the fastest"),
        ({"versions": {"torch": "2.14.0.dev20260101"}}, Severity.NOTE, "development build"),
        ({"build": "gpu"}, Severity.NOTE, "no NVIDIA driver is loaded"),
        ({"build": "gpu", "devices": ["cpu", "gpu:0"]}, None, ""),
    ],
)
def test_settings_that_change_numbers_are_said(changes, severity, what):
    found = judge([with_framework(**changes)])
    assert [s.severity for s in found.symptoms] == ([] if severity is None else [severity])
    assert all(what in s.what and s.fix for s in found.symptoms)
    assert found.code == 0


def test_differences_that_matter_come_first_and_say_why():
    pictures = {"Pillow": {"version": "9.5.0", "jpeg": "libjpeg 9.0"}, "OpenCV": {"failure": "ImportError: libGL.so.1"}}
    other = side("candidate", python="3.8.10", numpy="1.24.4", images=pictures, environment={"OMP_NUM_THREADS": "8"})
    result = judge([side(), other])
    told = [(d.what, d.reference, d.candidate, d.matters) for d in result.differences]
    assert told == [
        ("numpy, major version", "2", "1", True),
        ("Pillow", "13.0.0", "9.5.0", True),
        ("Pillow's JPEG library", "libjpeg-turbo 3.2.0", "libjpeg 9.0", True),
        ("OMP_NUM_THREADS", "not set", "8", False),
        ("Python", "3.11", "3.8", False),
    ]
    assert all(d.why and d.fix for d in result.differences)
    assert [s.severity for s in result.symptoms] == [Severity.WARNING]
    assert "OpenCV is installed and cannot be imported: ImportError: libGL.so.1" in result.symptoms[0].what


def test_flags_that_frameworks_write_in_their_own_way_are_no_difference():
    left, right = with_framework(settings={"deterministic": "False"}), with_framework(settings={"deterministic": "0"})
    assert judge([left, right]).differences == []
    right.frameworks[0].settings["deterministic"] = "1"
    assert [d.what for d in judge([left, right]).differences] == ["deterministic kernels"]


# -- answers -----------------------------------------------------------------------------------------------------------------


def lines(*entries):
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


HOSTILE = {
    "no JSON": b"hello\n",
    "no UTF-8": b'["python", "\xff\xfe"]\n',
    "no pair": lines({"python": "3.11"}),
    "unknown key": lines(["trouble", "none"]),
    "a check of no framework": lines(["check", {"name": "matmul", "error": 0}]),
    "a number as text": lines(["framework", {"name": "torch"}], ["check", {"name": "matmul", "error": "0"}]),
    "a list as text": lines(["python", ["3.11"]]),
    "a text as table": lines(["environment", "PATH"]),
    "no name": lines(["framework", {}]),
    "devices as text": lines(["framework", {"name": "torch", "devices": "cpu"}]),
    "a number beyond floats": b'["framework", {"name": "torch"}]\n["check", {"name": "m", "error": 1' + b"0" * 400 + b"}]\n",
    "too many digits": b'["python", 1' + b"0" * 5000 + b"]\n",
    "nested too deeply": b'["images", ' + b"[" * 100_000 + b"\n",
    "too long": b" " * (MOST + 1),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_no_probe_writes_is_a_failure_of_the_interpreter(data):
    found = Examination("reference", "python", "cpu")
    assert not read_answer(found, data + lines(["end", True]))
    assert found.trouble is Trouble.FOREIGN
    assert judge([found]).code == 3


def test_what_a_crash_has_cut_off_is_left_out():
    found = Examination("reference", "python", "cpu")
    assert not read_answer(found, lines(["step", "while importing torch"]) + b'["framework", {"na')
    assert (found.trouble, found.step, found.frameworks) == (None, "while importing torch", [])


def test_texts_of_an_answer_cannot_move_the_cursor():
    found = Examination("reference", "python", "cpu")
    assert read_answer(found, lines(["framework", {"name": "torch", "failure": "\x1b[2J\nall well"}], ["end", True]))
    assert found.frameworks[0].failure == "\\u001b[2J\\u000aall well"


def test_versions_are_read_where_there_are_any():
    assert [version(text) for text in ("2.13.0+cpu", "0.0.0", "", "x")] == [(2, 13), (0, 0), (0, 0), (0, 0)]


# -- interpreters ------------------------------------------------------------------------------------------------------------

REAL = f'if [ "$1" = -c ]; then exec {sys.executable} "$@"; fi\n'


@pytest.fixture
def examined(tmp_path):
    """What is known of an interpreter that is a shell script."""

    def run(script, *, limit=30.0, framework="numpy", **env):
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\n" + script)
        python.chmod(0o755)
        return examine("candidate", SideSettings(tmp_path, tmp_path, framework, str(python), env=env), tmp_path, limit)

    return run


@pytest.mark.parametrize(
    ("script", "trouble", "detail"),
    [
        ("exit 0", Trouble.NOT_PYTHON, "it wrote nothing; it ended with code 0"),
        ("printf 'perl 5\\377'; exit 2", Trouble.NOT_PYTHON, r"it wrote perl 5\xff; it ended with code 2"),
        (
            REAL + "echo 'Illegal instruction' >&2; kill -ILL $$",
            Trouble.DIED,
            "signal SIGILL; last lines of its output: Illegal instruction",
        ),
        (REAL + "exit 0", Trouble.DIED, "it ended with code 0; last lines of its output: none"),
        (REAL + 'printf "\\377\\n" > "$5"', Trouble.FOREIGN, r"no line of ours: \xff"),
        (REAL + 'echo \'["end", true]\' > "$5"; echo hello >> "$5"', Trouble.FOREIGN, "no line of ours: hello"),
        ("exec sleep 30", Trouble.TIMEOUT, "more than 0.5 s"),
        (REAL + "sleep 30 & exec sleep 30", Trouble.TIMEOUT, "more than 0.5 s"),
    ],
)
def test_an_interpreter_that_fails_is_named_with_its_end(examined, script, trouble, detail):
    found = examined(script, limit=0.5 if trouble is Trouble.TIMEOUT else 30.0)
    assert (found.trouble, detail in found.detail) == (trouble, True), found.detail
    result = judge([found])
    assert (result.code, len(result.symptoms)) == (3, 1)
    assert detail in result.symptoms[0].what


def test_an_interpreter_that_the_system_refuses_is_a_failure_and_no_traceback(tmp_path):
    found = examine("reference", SideSettings(tmp_path, tmp_path, "numpy", str(tmp_path / "gone")), tmp_path, 30.0)
    assert (found.trouble, found.detail) == (Trouble.NOT_STARTED, "No such file or directory")
    assert judge([found]).code == 3


def test_an_interpreter_that_is_too_old_is_not_asked_further(examined):
    found = examined("echo 'paralign asks: 3.6.9'; echo asked >> asked")
    assert (found.python, found.trouble) == ("3.6.9", None)
    assert judge([found]).code == 1


def test_this_interpreter_is_well_for_numpy_sides(examined):
    found = examined(f'exec {sys.executable} "$@"', OMP_NUM_THREADS="3")
    assert (found.trouble, found.python, found.numpy) == (None, platform.python_version(), np.__version__)
    assert (found.environment["OMP_NUM_THREADS"], found.frameworks[0].versions) == ("3", {"numpy": np.__version__})
    assert judge([found]).code == 0


#: what lies in a side's root under the name of the framework -> what is said, and the exit code
BROKEN = {
    "too old": ("__version__ = '2.6.2'", "paddle 2.6.2 is too old: paralign needs paddle 3.0 or newer", 1),
    "half installed": ("import paddle.libpaddle", "framework 'paddle' cannot be imported: No module named 'paddle.libpaddle'", 1),
    "a missing library": ("raise OSError('libcudart.so.12: cannot open shared object file')", "OSError: libcudart.so.12", 1),
    "an exit": ("raise SystemExit(0)", "SystemExit: 0", 1),
    "a crash": ("import os; os.kill(os.getpid(), 11)", "the interpreter died while importing paddle: it was ended by signal SIGSEGV", 3),
    "a hang": ("import time; time.sleep(60)", "the interpreter took too long while importing paddle: more than", 3),
}


@pytest.mark.parametrize(("code", "what", "exit_code"), BROKEN.values(), ids=BROKEN)
def test_a_framework_that_cannot_be_imported_is_said_and_no_traceback(examined, tmp_path, code, what, exit_code):
    (tmp_path / "paddle").mkdir()
    (tmp_path / "paddle" / "__init__.py").write_text(code)
    result = judge([examined(f'exec {sys.executable} "$@"', framework="paddle", limit=3.0 if "sleep" in code else 60.0)])
    assert result.code == exit_code
    assert what in result.symptoms[0].what
    assert result.symptoms[0].fix


# -- the probe ---------------------------------------------------------------------------------------------------------------


class Toy(NumpyAdapter):
    """An adapter whose kernels are numpy's, unless they are told otherwise."""

    name = "toy"

    def diagnose(self):
        return {"build": "cpu", "commit": "", "collectives": {}, "settings": {"threads": 1}}

    def rehearse(self, check, first, second):
        if check == "matmul":
            return first @ second
        if check == "backward":
            raise RuntimeError("no backward pass here")
        return np.zeros((2, 8, 16, 16), np.float32) * np.nan


def test_the_probe_tells_every_computation_apart(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_adapter", types.SimpleNamespace(create=Toy))
    monkeypatch.setitem(finding._OWN, "toy", Place("toy_adapter:create"))
    assert isinstance(Toy(), Diagnosing)
    said = []
    diagnosis.examine({"framework": "toy", "device": "cpu", "root": ""}, lambda key, value: said.append((key, value)))
    checks = [value for key, value in said if key == "check"]
    assert checks[0]["error"] < 1e-6
    assert checks[1] == {"name": "convolution", "failure": "the result is not finite"}
    assert checks[2] == {"name": "backward", "failure": "RuntimeError: no backward pass here"}


def test_the_expected_values_are_those_of_the_definition():
    draws = np.random.default_rng(1)
    image, kernel = draws.standard_normal((1, 2, 4, 4)), draws.standard_normal((3, 2, 3, 3))
    made = diagnosis._expected("convolution", image, kernel)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    assert made[0, 1, 2, 3] == pytest.approx((padded[0, :, 2:5, 3:6] * kernel[1]).sum())
    first, second = draws.standard_normal((2, 3)), draws.standard_normal((3, 2))
    moved = first.copy()
    moved[1, 2] += 1e-6
    slope = (((moved @ second) ** 2).sum() - ((first @ second) ** 2).sum()) / 1e-6
    assert diagnosis._expected("backward", first, second)[1, 2] == pytest.approx(slope, rel=1e-4)


# -- the command -------------------------------------------------------------------------------------------------------------

PROJECT = """
[reference]
framework = "numpy"
[candidate]
framework = "numpy"
python = "{python}"
"""


@pytest.fixture
def project(tmp_path):
    def write(python=""):
        for name in ("reference", "candidate"):
            (tmp_path / f"{name}.py").write_text("raise RuntimeError('the side itself is not run')\n")
        (tmp_path / "paralign.toml").write_text(PROJECT.format(python=python))
        return str(tmp_path)

    return write


def test_the_command_tells_both_sides_and_ends_with_a_verdict(project, capsys):
    assert cli.main(["doctor", project()]) == 0
    out = capsys.readouterr().out
    assert f"candidate: {sys.executable} (Python " in out
    assert "this adapter has no self-check" in out
    assert out.endswith("all well\n")


def test_the_command_gives_everything_as_json(project, tmp_path, capsys):
    false = tmp_path / "false"
    false.write_text("#!/bin/sh\nexit 1\n")
    false.chmod(0o755)
    assert cli.main(["doctor", project("false"), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["code"], told["sides"][1]["trouble"]) == (3, "not_python")
    assert [(s["severity"], s["side"]) for s in told["symptoms"]] == [("failed", "candidate")]


def test_numbers_that_json_has_not_are_null():
    from paralign.commands.doctor import _as_json

    assert (
        json.loads(_as_json(judge([with_framework(checks=[Check("matmul", failure="no")])])))["sides"][0]["frameworks"][0]["checks"][0][
            "error"
        ]
        is None
    )


def test_wrong_usage_is_said(project, tmp_path, capsys):
    assert cli.main(["doctor", str(tmp_path)]) == 2
    assert "there is no paralign.toml" in capsys.readouterr().err
    assert cli.main(["doctor", project("conda:nowhere")]) == 3
    assert "there is no conda environment" in capsys.readouterr().err


def test_nothing_that_was_started_is_left(examined, tmp_path):
    examined(REAL + f"sleep 60 & echo $! > {tmp_path}/child; wait", limit=1.0)
    state = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    assert not state.exists() or ") Z " in state.read_text()  # gone, or dead and not yet collected


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("3.3.1", "3.3.1 is the version that paralign's tables were made with"),
        ("3.0.0", "3.0.0 is older than 3.3.1"),
        ("3.10.0", "3.10.0 is newer than 3.3.1"),
        ("0.0.0", "paralign's tables were made with 3.3.1"),
        ("3.4.0.dev20260101", "paralign's tables were made with 3.3.1"),
    ],
)
def test_a_version_is_set_beside_the_one_that_was_measured(own, said):
    from paralign.commands.doctor import _releases

    side = Examination("candidate", "/env/bin/python", "cpu")
    found = _releases(side, Framework("paddle", build="gpu", versions={"paddle": own}))
    assert found.startswith(said)
    assert found.endswith("/env/bin/python -m pip index versions paddlepaddle-gpu")
    assert _releases(side, Framework("numpy", versions={"numpy": "2.0.0"})) == ""


# -- in Chinese --------------------------------------------------------------------------------------------------------------

#: what examinations may come to: every trouble, symptom and difference
TOLD = [
    *([side(**changes)] for changes, _, _ in BAD),
    *([side(trouble=trouble, detail="boom")] for trouble in Trouble),
    *([side(trouble=trouble, step="while importing torch", detail="boom")] for trouble in (Trouble.DIED, Trouble.TIMEOUT, Trouble.FOREIGN)),
    *([with_framework(checks=[check])] for check in (Check("matmul", 5e-4), Check("matmul", 0.5), Check("collective", failure="NCCL: y"))),
    [with_framework(checks=[])],
    [with_framework(versions={"torch": "2.14.0.dev1"}, build="gpu", commit="0" * 40, collectives={"nccl": "2.1", "gloo": "yes"})],
    [with_framework(failure="paddle 2.6.2 is too old: paralign needs paddle 3.0 or newer")],
    *([with_framework(settings={name: value})] for name, value in (("default_dtype", "float64"), ("deterministic", "0"), ("autotune", "1"))),
    [side(images={"Pillow": {"failure": "ImportError: z"}, "OpenCV": {}}, driver="550.1", environment={"OMP_NUM_THREADS": "3"})],
    [
        side(environment={"OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "0"}),
        side("candidate", python="3.9.1", numpy="1.26.4", device="gpu:0", images={"Pillow": {"version": "1", "jpeg": "a"}, "OpenCV": {"version": "4", "jpeg": "b"}}),
    ],
]  # fmt: skip


@pytest.mark.parametrize("sides", TOLD, ids=lambda sides: "-".join(each.side for each in sides))
def test_every_line_is_chinese_where_that_is_asked(sides):
    result = judge(sides)
    with speaking("zh"):
        lines = _told(result)
    english = [line for line in lines if not re.search("[\u4e00-\u9fff]", line) or re.search(r"\b(is|are|the|was|for this)\b", line)]
    assert english == []
    assert not any(re.search("[\u4e00-\u9fff]", line) for line in _told(result))
