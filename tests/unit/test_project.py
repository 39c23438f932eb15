"""paralign.toml read and checked; interpreters found by file, folder, conda name or command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.model import Tolerance
from paralign.run import project as projects
from paralign.run.project import DEFAULTS, FILE, check_stages, interpreter, read


@pytest.fixture
def port(tmp_path):
    """Writes a project file with both sides; gives the project."""
    for side in ("reference", "candidate"):
        (tmp_path / f"{side}.py").write_text("x = 1\n")

    def write(top="", tables="", reference="", candidate=""):
        (tmp_path / FILE).write_text(f"{top}\n[reference]\n{reference}\n[candidate]\n{candidate}\n{tables}\n")
        return read(tmp_path)

    write.folder = tmp_path
    return write


def test_what_is_left_out_has_a_default(port):
    found = port()
    assert found.folder == port.folder.resolve()
    assert found.reference.module == (port.folder / "reference.py").resolve()
    assert found.candidate.root == port.folder.resolve()
    assert (found.reference.framework, found.reference.device, found.reference.python, found.reference.env) == (
        "",
        "cpu",
        sys.executable,
        {},
    )
    assert (found.inputs, found.labels, found.stages, found.timeout) == (None, None, list(DEFAULTS), 600)
    assert found.out == port.folder / "result"
    settings = found.settings
    assert (settings.seed, settings.split, settings.samples, settings.batches, settings.most, settings.steps) == (0, "val", 4, 4, None, 3)
    assert (settings.modes, settings.modules, settings.weights, settings.strict, settings.paths) == (
        ["eval", "train"],
        "digest",
        "copy",
        False,
        [],
    )
    assert settings.tolerance_of("forward") == Tolerance()


def test_everything_is_read(port):
    (port.folder / "repo").mkdir()
    (port.folder / "repo" / "port.py").write_text("")
    found = port(
        'out = "elsewhere"\nstages = ["loss", "forward"]\nseed = 7\ntimeout = 2.5\n',
        """
[inputs]
shape = [2, 3]
[labels.a]
shape = [2]
[data]
split = "test"
samples = 1
batches = 2
most = 3
[infer]
paths = ["cat.png", "/abs/dog.png"]
[backward]
steps = 5
modes = ["train"]
[forward]
modules = "full"
[weights]
mode = "as-is"
[tolerance]
ratio = 3
[tolerance.loss]
atol = 0.5
rtol = 1e-3
""",
        candidate='root = "repo"\nmodule = "port.py"\nframework = "paddle"\ndevice = "gpu:1"\nenv = {A = 1, B = "two"}',
    )
    assert (found.out, found.stages, found.timeout) == (port.folder / "elsewhere", ["forward", "loss"], 2.5)
    assert found.inputs == {"shape": [2, 3]}
    assert found.labels == {"keywords": {"a": {"shape": [2]}}}
    side = found.candidate
    assert side.module == (port.folder / "repo" / "port.py").resolve()
    assert (side.framework, side.device, side.env) == ("paddle", "gpu:1", {"A": "1", "B": "two"})
    settings = found.settings
    assert (settings.split, settings.samples, settings.batches, settings.most) == ("test", 1, 2, 3)
    assert settings.paths == [str(port.folder / "cat.png"), "/abs/dog.png"]
    assert (settings.seed, settings.steps, settings.modes, settings.modules, settings.weights) == (7, 5, ["train"], "full", "as-is")
    assert settings.tolerance_of("forward") == Tolerance(3.0)
    assert settings.tolerance_of("loss") == Tolerance(None, 0.5, 1e-3)


def test_a_file_of_rules_is_looked_for_beside_the_project(port):
    (port.folder / "rules.toml").write_text("")
    assert port(tables="[weights]\nrules = 'rules.toml'").rules == (port.folder / "rules.toml").resolve()
    assert port().rules is None


def test_a_module_is_looked_for_beside_the_file_first_then_below_the_root(port):
    (port.folder / "repo").mkdir()
    (port.folder / "repo" / "candidate.py").write_text("")
    assert port(candidate='root = "repo"').candidate.module.parent == port.folder.resolve()
    (port.folder / "candidate.py").unlink()
    assert port(candidate='root = "repo"').candidate.module.parent == (port.folder / "repo").resolve()


def test_the_file_itself_can_be_named(port):
    port()
    assert read(port.folder / FILE).folder == port.folder.resolve()


@pytest.mark.parametrize("place", [".", "nowhere", "nowhere/paralign.toml"])
def test_without_a_file_it_says_how_to_make_one(tmp_path, place):
    with pytest.raises(UsageError, match=r"there is no paralign\.toml") as caught:
        read(tmp_path / place)
    assert "paralign init" in caught.value.hint
    assert caught.value.where == str(tmp_path / place)


@pytest.mark.parametrize("text", ["[reference", "reference = ", "a = 1\na = 2", "[reference]\nx = 'é".encode("latin-1").decode("latin-1")])
def test_what_is_no_toml_is_told_with_the_line(tmp_path, text):
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"paralign\.toml is no valid TOML: .+"):
        read(tmp_path)


@pytest.mark.parametrize("missing", ["reference", "candidate"])
def test_a_missing_side_is_told(tmp_path, missing):
    other = "candidate" if missing == "reference" else "reference"
    (tmp_path / FILE).write_text(f"[{other}]\n")
    with pytest.raises(UsageError, match=rf"has no table \[{missing}\]"):
        read(tmp_path)


WRONG = {
    "an unknown key": ({"top": "ouput = 'x'"}, "unknown key 'ouput'; did you mean 'output'?"),
    "an unknown key of a side": ({"reference": "modul = 'x'"}, "unknown key 'modul'; did you mean 'module'?"),
    "an unknown table": ({"tables": "[tolerences]"}, "unknown key 'tolerences'; did you mean 'tolerance'?"),
    "nothing like it": ({"top": "zzz = 1"}, "unknown key 'zzz'"),
    "a table that is none": ({"top": "data = 3"}, "'data' must be of type dict, not int"),
    "a bool for a number": ({"top": "seed = true"}, "'seed' must be of type int, not bool"),
    "a text for a number": ({"tables": "[data]\nmost = 'all'"}, "'most' must be of type int, not str"),
    "a number for a list": ({"top": "stages = 'forward'"}, "'stages' must be of type list, not str"),
    "an unknown stage": ({"top": "stages = ['forwards']"}, "there is no stage 'forwards'; did you mean 'forward'?"),
    "a stage that is a number": ({"top": "stages = [3]"}, "there is no stage 3"),
    "an unknown mode": ({"tables": "[backward]\nmodes = ['test']"}, "'test' is not a choice"),
    "an unknown budget": ({"tables": "[forward]\nmodules = 'all'"}, "'all' is not a choice"),
    "an unknown way of weights": ({"tables": "[weights]\nmode = 'move'"}, "'move' is not a choice"),
    "rules that are not there": ({"tables": "[weights]\nrules = 'nowhere.toml'"}, "the file of rules is not there"),
    "rules that are no path": ({"tables": "[weights]\nrules = 3"}, "'rules' must be of type str, not int"),
    "no steps": ({"tables": "[backward]\nsteps = 0"}, "'steps' must be at least 1"),
    "no samples": ({"tables": "[data]\nsamples = 0"}, "'samples' must be at least 1"),
    "a negative tolerance": ({"tables": "[tolerance]\nratio = -1"}, "'ratio' must not be negative"),
    "a negative threshold of the logs": ({"tables": "[report]\ndiff_threshold = -1"}, "'diff_threshold' must not be negative"),
    "a tolerance that is no number": ({"tables": "[tolerance.loss]\natol = nan"}, "'atol' must not be negative"),
    "an unknown stage of tolerance": ({"tables": "[tolerance.losses]\natol = 1"}, "unknown key 'losses'; did you mean 'loss'?"),
    "a tolerance of a stage that is no table": ({"tables": "[tolerance]\nloss = 1"}, "'loss' must be of type dict, not int"),
    "an unknown framework": ({"reference": "framework = 'mxnet'"}, "there is no adapter for framework 'mxnet'"),
    "a root that is none": ({"reference": "root = 'candidate.py'"}, "the root of the reference is no folder"),
    "a module that is not there": ({"candidate": "module = 'port.py'"}, "the module of the candidate is not there"),
    "an unknown key of inputs": ({"tables": "[inputs]\nshap = [1]"}, "unknown key 'shap'; did you mean 'shape'?"),
    "an unknown key of one of several inputs": ({"tables": "[inputs.x]\nshap = [1]"}, "unknown key 'shap'"),
    "a shape that is no list": ({"tables": "[inputs]\nshape = 3"}, "'shape' must be of type list, not int"),
    "inputs that are a number": ({"top": "inputs = 3"}, "'inputs' must be of type dict or list, not int"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_the_place(port, what):
    arguments, told = WRONG[what]
    with pytest.raises(UsageError) as caught:
        port(**arguments)
    assert caught.value.what.startswith(told)
    if "key" in told or "must be of" in told:
        assert FILE in caught.value.where


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"top": "inputs = [4, 3, 32, 32]"}, "inputs"),
        ({"tables": "[infer]\npaths = [1]"}, "paths"),
        ({"top": "timeout = -1"}, "timeout"),
        ({"top": "timeout = nan"}, "timeout"),
        ({"top": "timeout = inf"}, "timeout"),
        ({"top": "seed = -1"}, "seed"),
        ({"top": "stages = []"}, "stage"),
        ({"tables": "[backward]\nmodes = []"}, "modes"),
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(port, arguments, told):
    with pytest.raises(UsageError, match=told):
        port(**arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[inputs]\nshape = [1]", {"shape": [1]}),
        ("[[inputs]]\nshape = [1]\n[[inputs]]\nshape = [2]", [{"shape": [1]}, {"shape": [2]}]),
        ("[inputs.x]\nshape = [1]\n[inputs.y]\nfile = 'y.npy'", {"keywords": {"x": {"shape": [1]}, "y": {"file": "y.npy"}}}),
        ("[inputs.keywords]\nshape = [1]", {"keywords": {"keywords": {"shape": [1]}}}),
        ("[inputs]\nsource = 'dataloader'", {"source": "dataloader"}),
        ("[inputs]", {}),
    ],
)
def test_inputs_are_one_tensor_a_list_or_keywords(port, text, expected):
    assert port(tables=text).inputs == expected


def test_stages_run_in_their_own_order_each_once():
    assert check_stages(["infer", "forward", "infer", "weights"]) == ["weights", "forward", "infer"]


# -- interpreters ------------------------------------------------------------------------------------------------------------


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_no_wish_is_this_interpreter(tmp_path):
    assert interpreter("", tmp_path) == sys.executable


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("my/python3.9", "my/python3.9"),
        ("venv/bin/python", "venv"),
        ("venv/Scripts/python.exe", "venv"),
        ("conda/python.exe", "conda"),
    ],
)
def test_a_file_or_an_environments_folder_relative_to_the_project(tmp_path, there, wanted):
    found = executable(tmp_path / there)
    assert interpreter(wanted, tmp_path) == str(found)
    assert interpreter(str(tmp_path / wanted), Path("/")) == str(found)


def test_a_link_is_not_followed_because_it_is_what_makes_a_virtual_environment(tmp_path):
    executable(tmp_path / "base")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(tmp_path / "base")
    assert interpreter("venv", tmp_path) == str(tmp_path / "venv" / "bin" / "python")


def test_a_path_from_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = executable(tmp_path / "venv" / "bin" / "python")
    assert interpreter("~/venv", Path("/")) == str(found)


def test_a_command_on_the_path(tmp_path, monkeypatch):
    found = executable(tmp_path / "bin" / "python-of-mine")
    monkeypatch.setenv("PATH", str(found.parent))
    assert interpreter("python-of-mine", tmp_path) == str(found)


@pytest.mark.parametrize("wanted", ["nowhere", "text.txt", "empty"])
def test_what_cannot_be_run_is_told(tmp_path, wanted):
    (tmp_path / "text.txt").write_text("no program")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EnvironmentUnavailable, match=f"there is no interpreter '{wanted}'") as caught:
        interpreter(wanted, tmp_path)
    assert caught.value.where == str(tmp_path / wanted)
    assert "conda:NAME" in caught.value.hint


def test_the_home_of_nobody_is_told(tmp_path):
    with pytest.raises(EnvironmentUnavailable):
        interpreter("~nobody-of-this-name/venv", tmp_path)


# -- conda -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("CONDA_EXE", "MAMBA_EXE", "CONDA_ENVS_PATH", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".conda").mkdir()
    return tmp_path


def test_conda_environments_are_found_in_the_list(home):
    found = executable(home / "somewhere" / "port" / "bin" / "python")
    other = home / "elsewhere" / "port"
    (home / ".conda" / "environments.txt").write_text(f"\n{other}\n{home / 'port-2'}\n{found.parents[1]}\n")
    assert interpreter("conda:port", home) == str(found)


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("CONDA_EXE", "conda/bin/conda", "conda/envs/port"),
        ("MAMBA_EXE", "mamba/bin/mamba", "mamba/envs/port"),
        ("CONDA_ENVS_PATH", "envs", "envs/port"),
        ("MAMBA_ROOT_PREFIX", "micromamba", "micromamba/envs/port"),
    ],
)
def test_conda_environments_are_found_beside_conda(home, monkeypatch, variable, value, place):
    monkeypatch.setenv(variable, str(home / value))
    with pytest.raises(EnvironmentUnavailable):
        interpreter("conda:port", home)
    found = executable(home / place / "bin" / "python")
    assert interpreter("conda:port", home) == str(found)


@pytest.mark.parametrize("name", ["port", "", "../port", "other"])
def test_a_conda_environment_that_is_not_there_is_told(home, name):
    executable(home / "x" / "other2" / "bin" / "python")
    (home / "x" / "port").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{home / 'x' / 'other2'}\n{home / 'x' / 'port'}\n")
    with pytest.raises(EnvironmentUnavailable, match=f"there is no conda environment '{name}'") as caught:
        interpreter(f"conda:{name}", home)
    assert "conda env list" in caught.value.hint


def test_the_base_environment_is_condas_own(home, monkeypatch):
    found = executable(home / "miniconda3" / "bin" / "python")
    monkeypatch.setenv("CONDA_EXE", str(executable(home / "miniconda3" / "bin" / "conda")))
    assert interpreter("conda:base", home) == str(found)


def test_several_folders_of_environments(home, monkeypatch):
    found = executable(home / "second" / "port" / "bin" / "python")
    monkeypatch.setenv("CONDA_ENVS_PATH", os.pathsep.join([str(home / "first"), str(home / "second")]))
    assert interpreter("conda:port", home) == str(found)


def test_a_bare_name_for_conda_is_no_crash(home, monkeypatch):
    monkeypatch.setenv("CONDA_EXE", "conda")
    with pytest.raises(EnvironmentUnavailable):
        interpreter("conda:port", home)


def test_the_stages_of_the_project_are_those_that_can_run():
    from paralign.registry import BY_NAME

    assert tuple(BY_NAME) == projects.STAGES
