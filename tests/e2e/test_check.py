"""`paralign check` through the real command, on sides that need numpy alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

STAGES = ["weights", "forward", "data", "metric", "loss", "backward", "infer"]


def verdicts(project):
    return {s["name"]: s["verdict"] for s in project.report()["stages"]}


def test_the_same_program_is_aligned_in_every_stage_that_it_has_functions_for(project):
    (project.folder / "numbers.txt").write_text("1 2 3")
    project.write(more='[infer]\npaths = ["numbers.txt"]')
    done = project.check()
    assert done.code == 0, done.out + done.err
    assert verdicts(project) == {
        "weights": "aligned",
        "forward": "aligned",
        "data": "aligned",
        "metric": "aligned",
        "loss": "not tested",
        "backward": "not tested",
        "infer": "aligned",
    }
    assert "verdict: aligned" in done.out
    assert "neither side has loss(outputs, labels)" in done.out


def test_a_wrong_model_diverges_in_forward_and_the_report_says_how_much(project):
    project.edit("candidate", "x @ self.parameters", "1.01 * x @ self.parameters")
    done = project.check("forward")
    assert done.code == 1
    assert list(verdicts(project)) == ["forward"]
    forward = project.stage("forward")
    assert forward["method"] == "float64"
    assert 1e-3 < forward["error"] < 1e-1
    assert forward["noise"] < 1e-6
    assert forward["ratio"] == pytest.approx(forward["error"] / forward["noise"])
    assert forward["divergence"]["confirmed"] is False
    assert "error ÷ noise" in done.out


def test_each_stage_sees_the_mistake_that_is_its_own(project):
    mistakes = {
        "data": ("x / 2", "x / 2.001"),
        "metric": ("argmax(1) == labels).mean()", "argmax(1) == labels).sum()"),
        "infer": ('"class_name": "few"', '"class_name": "many"'),
    }
    (project.folder / "numbers.txt").write_text("1 2 3")
    project.write(more='[infer]\npaths = ["numbers.txt"]')
    for stage, (old, new) in mistakes.items():
        project.edit("candidate", old, new)
        done = project.check()
        found = verdicts(project)
        assert done.code == 1, stage
        assert [s for s, v in found.items() if v == "diverged"] == [stage]
        project.edit("candidate", new, old)


def test_the_first_transform_that_differs_is_named(project):
    project.edit("candidate", "x / 2", "x / 2.001")
    project.check("data")
    divergence = project.stage("data")["divergence"]
    assert divergence["candidate"]["name"] == "sample_0.transform_0"
    assert divergence["candidate"]["op"] == "half"
    assert divergence["last_agreeing"] == "sample_0.raw"


def test_a_missing_last_batch_is_seen(project):
    project.edit("candidate", "for start in range(0, 7, 3)", "for start in range(0, 6, 3)")
    done = project.check("data")
    assert done.code == 1
    pairs = {p["key"]: p for p in project.stage("data")["pairs"]}
    assert pairs["batches"]["verdict"] == "diverged"
    assert any("missing" in note for note in pairs["dataloader_2.0"]["notes"])


def test_the_guides_files_are_written_beside_the_report(project):
    project.check()
    result = project.folder / "result"
    names = {p.name for p in result.glob("*.npy")}
    assert {"forward_ref.npy", "forward_numpy.npy", "data_ref.npy", "data_numpy.npy", "metric_ref.npy", "metric_numpy.npy"} <= names
    lines = (result / "log" / "forward_diff.log").read_text().splitlines()
    stamp = r"\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] root INFO: "
    told = [re.sub("^" + stamp, "", line) for line in lines]
    passed = "\tmean diff: check passed: True, value: 0.0"
    assert all(re.match(stamp, line) for line in lines)
    assert told[-4:] == ["output: ", passed, "diff check passed", "paralign: aligned (error / noise = 0, judged by float64)"]
    assert told[:2] == ["input: ", passed]
    loaded = np.load(result / "metric_ref.npy", allow_pickle=True).tolist()
    assert "accuracy" in loaded


def test_json_prints_the_report_and_nothing_else(project):
    import json

    done = project.check("forward", "--json")
    assert json.loads(done.out) == project.report()
    assert project.report()["schema"] == 1


def test_out_names_another_folder(project, tmp_path):
    done = project.check("forward", "--out", tmp_path / "elsewhere")
    assert done.code == 0
    assert (tmp_path / "elsewhere" / "report.json").is_file()
    assert not (project.folder / "result").exists()


# -- the reference is reused -------------------------------------------------------------------------------------------------


def reference_ran(project):
    return (project.folder / "ran.txt").read_text().count("x") if (project.folder / "ran.txt").exists() else 0


COUNT = '\nwith open("ran.txt", "a") as file:\n    file.write("x")\n'


def test_the_reference_is_not_run_again_while_nothing_of_it_changes(project):
    project.append("reference", COUNT)
    project.check("forward", "metric")
    assert reference_ran(project) == 1
    project.edit("candidate", "x @ self", "2 * x @ self")
    done = project.check("forward", "metric")
    assert reference_ran(project) == 1
    assert done.code == 1
    assert "reused from an earlier run" in done.out


@pytest.mark.parametrize("change", ["code", "module", "data", "inputs", "fresh", "env"])
def test_the_reference_runs_again_when_anything_changes(project, change):
    (project.folder / "helper.py").write_text("SCALE = 1\n")
    (project.folder / "scale.txt").write_text("1")
    project.append("reference", COUNT + "import helper\nassert open('scale.txt').read()\n")
    project.check("forward")
    if change == "code":
        project.append("reference", "# a comment\n")
    elif change == "module":
        (project.folder / "helper.py").write_text("SCALE = 2\n")
    elif change == "data":
        (project.folder / "scale.txt").write_text("2")
    elif change == "inputs":
        project.write(more="")
        toml = project.folder / "paralign.toml"
        toml.write_text(toml.read_text().replace("shape = [4, 6]", "shape = [5, 6]"))
    elif change == "env":
        project.write(reference='env = {SCALE = "1"}')
    project.check("forward", *(["--fresh"] if change == "fresh" else []))
    assert reference_ran(project) == 2


def test_a_file_that_the_reference_only_asks_about_is_not_stale(project):
    (project.folder / "weights.txt").write_text("1")
    project.append("reference", COUNT + "import os\nAGE = os.path.getmtime('weights.txt')\n")
    project.check("forward")
    project.check("forward")
    assert reference_ran(project) == 1
    os.utime(project.folder / "weights.txt", (1, 1))
    project.check("forward")
    assert reference_ran(project) == 2


def test_a_reference_that_calls_compiled_code_is_run_each_time_and_this_is_said(project):
    project.append("reference", COUNT + "import ctypes\nctypes.CDLL(None).getpid()\n")
    assert "not reused by later checks: it calls getpid of compiled code by ctypes" in project.check("forward").out
    done = project.check("forward")
    assert reference_ran(project) == 2
    assert "reused from an earlier run" not in done.out


@pytest.mark.processes
def test_a_variable_that_the_reference_reads_is_not_stale(project, monkeypatch):
    """In what it imports, with a default; one that only the candidate reads, and those of the terminal, let it be reused."""
    (project.folder / "helper.py").write_text("import os\nSIGN = -1 if os.environ.get('FLIPPED') else 1\n")
    project.append("reference", COUNT + "import helper\nimport os\ndict(os.environ)\n")
    project.edit("reference", "x @ self", "__import__('helper').SIGN * x @ self")
    project.append("candidate", "import os\nos.getenv('PARALIGN_BREAK')\n")
    assert project.check("forward").code == 0
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    assert project.check("forward").code == 0
    assert reference_ran(project) == 1
    monkeypatch.setenv("FLIPPED", "1")
    assert project.check("forward").code == 1
    assert reference_ran(project) == 2
    (project.folder / "helper.py").write_text("import os\nSIGN = -1 if os.getenv('FLIPPED') else 1\n")
    project.edit("reference", "dict(os.environ)\n", "")
    assert project.check("forward").code == 1
    monkeypatch.setenv("PARALIGN_BREAK", "x")
    assert project.check("forward").code == 1
    assert reference_ran(project) == 3


# -- sides that fail ---------------------------------------------------------------------------------------------------------

FAILURES = {
    "raises": ("raise ValueError('no such layer')", "ValueError: no such layer"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "killed: by signal SIGKILL during weights"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crashed: by signal SIGSEGV during weights"),
    "leaves": ("import os; os._exit(7)", "exited: with code 7 during weights"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_side_that_fails_gives_the_verdict_error(project, how):
    code, told = FAILURES[how]
    project.edit("candidate", "    return Model()", f"    print('about to fail')\n    {code}")
    done = project.check("weights", "forward", "data")
    assert done.code == 3
    assert verdicts(project) == {"weights": "error", "forward": "not tested", "data": "aligned"}
    assert told in done.out
    failure = project.stage("weights")["failure"]
    assert failure["side"] == "candidate"
    assert "about to fail" in Path(failure["log"]).read_text()
    assert "result/workers/candidate.log" in done.out.replace("\n", "")


def test_a_side_that_hangs_is_ended(project):
    project.write(timeout=5)
    project.edit("candidate", "    return x @", "    import time; print('asleep', flush=True); time.sleep(1000)\n        return x @")
    done = project.check("forward", timeout=60)
    assert done.code == 3
    assert "timeout: forward took longer than 5 s" in done.out
    assert "asleep" in done.out


def test_an_import_error_of_a_side_is_shown_with_its_traceback(project):
    project.append("candidate", "\nimport no_such_module_anywhere\n")
    done = project.check("forward")
    assert done.code == 3
    assert "ModuleNotFoundError: No module named 'no_such_module_anywhere'" in done.out
    assert "candidate.py" in done.out


def test_a_side_that_prints_and_reads_does_not_disturb_the_answers(project):
    project.edit(
        "candidate",
        "    return x @",
        "    print('{\"event\": \"done\"}', flush=True); import os; os.write(1, b'raw\\n'); import sys; sys.stdin.read()\n        return x @",
    )
    assert project.check("forward").code == 0


def test_a_failure_in_one_stage_does_not_spoil_the_others(project):
    project.edit("candidate", '    return {"accuracy"', '    import os; os._exit(9)\n    return {"accuracy"')
    (project.folder / "numbers.txt").write_text("1 2 3")
    project.write(more='[infer]\npaths = ["numbers.txt"]')
    done = project.check()
    assert done.code == 3
    assert verdicts(project)["metric"] == "error"
    assert verdicts(project)["forward"] == verdicts(project)["infer"] == "aligned"


# -- outputs and data that do not fit ------------------------------------------------------------------------------------------


def test_outputs_of_another_structure_are_paired_in_order_and_told(project):
    project.edit(
        "candidate",
        'return x @ self.parameters["weight"] + self.parameters["bias"]',
        'return (x @ self.parameters["weight"] + self.parameters["bias"],)',
    )
    done = project.check("forward")
    assert done.code == 0
    assert "the outputs are built differently: a tensor in the reference, a tuple of 1 in the candidate" in done.out


def test_a_missing_output_diverges(project):
    project.edit("reference", "return x @", "return x, x @")
    done = project.check("forward")
    assert done.code == 1
    assert "a tuple of 2 in the reference, a tensor in the candidate" in done.out


def test_an_empty_data_set_is_told(project):
    project.edit("candidate", "return 7", "return 0")
    done = project.check("data")
    assert done.code == 3
    assert "the data set of split 'val' is empty" in done.out


def test_constant_outputs_are_too_weak_a_test(project):
    for side in ("reference", "candidate"):
        project.edit(side, 'return x @ self.parameters["weight"] + self.parameters["bias"]', "return np.ones((4, 3), x.dtype)")
    done = project.check("forward")
    assert done.code == 4
    assert verdicts(project) == {"forward": "underpowered"}
    assert "output is constant" in done.out


def test_vanishing_outputs_are_warned_about_and_still_judged(project):
    for side, factor in (("reference", 1e-10), ("candidate", 1.1e-10)):
        project.edit(
            side,
            'return x @ self.parameters["weight"] + self.parameters["bias"]',
            f'return (x @ self.parameters["weight"]) * x.dtype.type({factor})',
        )
    done = project.check("forward", "-v")
    assert done.code == 1
    assert "the outputs vanish" in done.out
    assert "Use weights that were trained a little" in done.out
    log = (project.folder / "result" / "log" / "forward_diff.log").read_text()
    assert "mean diff: check passed: True" in log
    assert "diff check passed" not in log
    assert "paralign: diverged" in log


# -- wrong usage ---------------------------------------------------------------------------------------------------------------


def test_an_unknown_stage_names_the_nearest_and_all(project):
    done = project.check("forwrad")
    assert done.code == 2
    assert "there is no stage 'forwrad'; did you mean 'forward'?" in done.err
    assert "weights, forward, data, metric, loss, optimizer, backward, init, train, infer, distributed" in done.err


def test_a_folder_without_a_project_says_how_to_make_one(run, tmp_path):
    done = run("check", tmp_path)
    assert done.code == 2
    assert "there is no paralign.toml" in done.err
    assert "paralign init" in done.err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[reference]", "[reference", "is no valid TOML"),
        ("timeout = 60", "timeout = 'long'", "'timeout' must be of type int or float, not str"),
        ("timeout = 60", "timeuot = 60", "unknown key 'timeuot'; did you mean 'timeout'?"),
        ('framework = "numpy"', 'framework = "mxnet"', "there is no adapter for framework 'mxnet'"),
        ("[reference]", "[reference]\nmodule = 'nowhere.py'", "the module of the reference is not there"),
        ("[reference]", "[reference]\nroot = 'nowhere'", "the root of the reference is no folder"),
        ("shape = [4, 6]", "shape = [4, 6.5]", "a shape is a list of whole numbers"),
        ("shape = [4, 6]", "file = 'nowhere.npy'", "the file of inputs is not there"),
        ("shape = [4, 6]", "source = 'nowhere'", "unknown source 'nowhere'"),
        ("shape = [4, 6]", "shape = [4, 6]\ndistribution = 'cauchy'", "unknown distribution 'cauchy'"),
        ("shape = [4, 6]", "shape = [4, 6]\ndtype = 'float31'", "unknown dtype 'float31'"),
        ("timeout = 60", "stages = ['forward', 'backwards']", "there is no stage 'backwards'"),
    ],
)
def test_a_wrong_project_file_is_told_with_the_place(project, old, new, told):
    toml = project.folder / "paralign.toml"
    toml.write_text(toml.read_text().replace(old, new, 1))
    done = project.check("forward")
    assert done.code == 2, done.out
    assert told in done.err
    assert "Traceback" not in done.err


def test_an_interpreter_that_is_not_there(project):
    done = project.write(candidate='python = "no-such-python"').check("forward")
    assert done.code == 3
    assert "there is no interpreter 'no-such-python'" in done.err


def test_a_side_without_any_function(project):
    (project.folder / "candidate.py").write_text("x = 1\n")
    done = project.check("forward")
    assert done.code == 3
    assert "has none of the functions that paralign calls" in done.out


def test_nothing_to_compare_is_no_success(project):
    done = project.check("loss")
    assert done.code == 4
    assert "verdict: not tested" in done.out


def test_an_output_folder_with_foreign_files_in_a_capture_is_not_cleared(project):
    project.check("forward")
    stray = project.folder / "result" / "captures" / "candidate" / "forward" / "notes.txt"
    stray.write_text("mine")
    done = project.check("forward")
    assert stray.read_text() == "mine"
    assert done.code == 2
    assert "notes.txt" in done.err


# -- how a side's code is used ---------------------------------------------------------------------------------------------------


def test_a_side_inside_a_package_keeps_its_relative_imports(project):
    package = project.folder / "repo" / "src" / "port"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "layers.py").write_text((project.folder / "candidate.py").read_text())
    (package / "side.py").write_text("from .layers import *\nfrom port.layers import build_model as again\n")
    project.write(candidate='root = "repo/src"\nmodule = "port/side.py"')
    assert project.check("forward").code == 0


def test_environment_variables_of_a_side_are_set(project):
    project.edit("candidate", "return x @", "import os\n        return float(os.environ['SCALE']) * x @")
    assert project.write(candidate='env = {SCALE = "1"}').check("forward").code == 0
    assert project.write(candidate='env = {SCALE = "2"}').check("forward").code == 1


def bare_interpreter(folder: Path) -> Path:
    """A virtual environment that has numpy and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (site / name).symlink_to(packages / name)
    return folder / "bin" / "python"


def test_a_worker_needs_nothing_installed_but_numpy(project, tmp_path):
    python = bare_interpreter(tmp_path / "bare")
    missing = subprocess.run([python, "-c", "import paralign"], capture_output=True, text=True, check=False)
    assert "No module named 'paralign'" in missing.stderr
    project.append("candidate", "\nimport importlib.util\nassert importlib.util.find_spec('rich') is None\n")
    done = project.write(candidate=f'python = "{python.parent.parent}"').check()
    assert done.code == 0, done.out
    assert project.report()["candidate"]["framework"] == "numpy"


OLDEST = Path(__file__).parents[2] / ".venv-oldest" / "bin" / "python"


@pytest.mark.skipif(not OLDEST.exists(), reason="no Python 3.8 here (make test sets it up where there is one)")
def test_a_worker_runs_under_the_oldest_python(project):
    done = project.write(candidate=f'python = "{OLDEST}"').check()
    assert done.code == 0, done.out
    assert project.report()["candidate"]["python"].startswith("3.8")


CHILD = """    import subprocess, sys, time
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])
        open('child.txt', 'w').write(str(child.pid))
        time.sleep(300)
        return x @"""


@pytest.mark.processes
def test_what_a_worker_started_ends_with_it(project):
    project.write(timeout=5)
    project.edit("candidate", "    return x @", CHILD)
    project.check("forward", timeout=60)
    child = Path("/proc") / (project.folder / "child.txt").read_text()
    assert not child.exists() or " Z " in (child / "stat").read_text()


# -- sides that have no float64 --------------------------------------------------------------------------------------------------

ONLY32 = '    if x.dtype != "float32":\n            raise TypeError("no float64 kernel")\n        return x @'


@pytest.mark.parametrize(("sides", "method"), [
    (["candidate"], "native against float64"),
    (["reference"], "perturbation"),
    (["reference", "candidate"], "perturbation"),
])  # fmt: skip
def test_where_a_side_has_no_float64_the_noise_is_measured_in_another_way(project, sides, method):
    for side in sides:
        project.edit(side, "    return x @", ONLY32)
    done = project.check("forward")
    assert done.code == 0, done.out
    assert project.stage("forward")["method"] == method
    assert f"the {sides[0]} does not run in float64: TypeError: no float64 kernel" in done.out
    project.edit("candidate", "return x @", "return 1.0001 * x @")
    assert project.check("forward").code == 1


def test_rounding_in_another_order_is_aligned_without_float64(project):
    project.edit("reference", "    return x @", ONLY32)
    project.edit(
        "candidate",
        'return x @ self.parameters["weight"]',
        'return sum(x[:, i:i+1] * self.parameters["weight"][i] for i in reversed(range(6)))',
    )
    assert project.check("forward").code == 0


def test_a_constant_in_lower_precision_is_judged_as_such(project):
    project.edit("candidate", "    return x @", "    x = x.astype('float32')\n        return x @")
    done = project.check("forward")
    assert done.code == 0, done.out
    assert project.stage("forward")["method"] in {"float64", "float64, partly in lower precision"}


def test_a_path_to_predict_from_that_is_not_there_is_wrong_usage_before_anything_runs(project):
    project.write(more='[infer]\npaths = ["nowhere.txt"]')
    done = project.check("infer")
    assert done.code == 2
    assert "a path to predict from is not there" in done.err
    assert "paralign.toml: [infer] paths: " in done.err
    assert "nowhere.txt" in done.err
    assert not (project.folder / "result" / "report.json").exists()
    assert project.check("weights").code == 0  # it concerns no other stage
