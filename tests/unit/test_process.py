"""A side's worker process: its answers, its failures, its end, and the environment that it is given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from paralign.capture import Capture
from paralign.errors import EnvironmentUnavailable, WorkerFailed
from paralign.run.process import TAIL, Process, environment, revision
from paralign.run.project import SideSettings
from paralign.run.recorder import Interpreter, interpreter
from paralign.worker.protocol import Describe, Entries, Job, Weights

pytestmark = pytest.mark.processes

SIDE = """
import os, signal, sys, time

def build_model():
    {body}
    return lambda x: x
"""


@pytest.fixture
def start(tmp_path):
    """Starts a worker whose build_model() does something first; ends it afterwards."""
    running = []

    def run(body="pass", *, module=None, timeout=30.0, python=sys.executable, **env):
        (tmp_path / "side.py").write_text(SIDE.format(body=body) if module is None else module)
        settings = SideSettings(tmp_path / "side.py", tmp_path, "numpy", python, env=env)
        running.append(Process("candidate", settings, tmp_path, tmp_path, seed=3, timeout=timeout, ignore=[]))
        return running[-1]

    yield run
    for process in running:
        process.close()


def job(folder, task="weights", **more):
    return Job(task, str(folder), **more)


# -- answers -----------------------------------------------------------------------------------------------------------------


def test_jobs_are_answered_and_leave_captures(start, tmp_path):
    process = start()
    process.request(job(tmp_path / "a", "describe"))
    process.request(job(tmp_path / "b", settings={"key": "k"}))
    assert Describe.answer(Capture.open(tmp_path / "a")).functions == ["build_model"]
    assert Weights.answer(Capture.open(tmp_path / "b")) == Entries(0)
    manifest = Capture.open(tmp_path / "b").manifest
    assert (manifest.side, manifest.seed, manifest.settings["key"]) == ("candidate", 3, "k")
    assert str(tmp_path / "side.py") in manifest.files
    assert process.alive
    process.close()
    assert not process.alive


def test_it_serves_on_after_a_failure(start, tmp_path):
    process = start("raise ValueError('no such layer')")
    with pytest.raises(WorkerFailed) as caught:
        process.request(job(tmp_path / "a"))
    failure = caught.value
    assert (failure.type, failure.message, failure.side) == ("ValueError", "no such layer", "candidate")
    assert "side.py" in failure.traceback
    assert "ValueError: no such layer" in Path(failure.log).read_text()
    assert process.alive
    process.request(job(tmp_path / "b", "describe"))
    assert Describe.answer(Capture.open(tmp_path / "b")).framework == "numpy"


def test_a_message_of_ours_comes_with_its_place_and_remedy_and_without_a_traceback(start, tmp_path):
    with pytest.raises(WorkerFailed) as caught:
        start().request(job(tmp_path / "a", "given", options={"function": "inputs"}))
    failure = caught.value
    assert failure.type == "UsageError"
    assert failure.traceback == ""
    assert failure.message.splitlines() == [
        "the candidate has no function inputs()",
        "  where: candidate",
        "  fix: define inputs() in the candidate's module",
    ]


@pytest.mark.parametrize("text", ["é\udcff\n\x00", "x" * 200_000])
def test_any_message_crosses_the_border(start, tmp_path, text):
    with pytest.raises(WorkerFailed) as caught:
        start(f"raise ValueError({text!r})").request(job(tmp_path / "a"))
    assert caught.value.message == text


def test_a_module_that_exits_or_raises_on_import_is_a_failure_of_the_job(start, tmp_path):
    for module, told in (
        ("import sys; sys.exit('later')", "SystemExit"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("def", "SyntaxError"),
    ):
        with pytest.raises(WorkerFailed) as caught:
            start(module=module).request(job(tmp_path / "a"))
        assert caught.value.type == told


# -- the end -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "type", "message"),
    [
        ("os._exit(7)", "exited", "with code 7 during weights"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed", "by signal SIGKILL during weights (the system does this when memory runs out)"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "killed", "by signal SIGTERM during weights"),
        ("os.abort()", "crashed", "by signal SIGABRT during weights"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "by signal SIGSEGV during weights"),
        (  # the signal's own effect, also where the tests were started by something that ignores it
            "signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
            "killed",
            "by signal SIGINT during weights",
        ),
    ],
)
def test_death_is_told_by_its_kind(start, tmp_path, body, type, message):
    process = start(f"print('about to', flush=True); {body}")
    with pytest.raises(WorkerFailed) as caught:
        process.request(job(tmp_path / "a"))
    assert caught.value.type == type
    assert caught.value.message.startswith(message + "; last lines of its log:\n")
    assert "about to" in Path(caught.value.log).read_text()
    assert not process.alive
    with pytest.raises(WorkerFailed):  # and it stays dead
        process.request(job(tmp_path / "b"))


def test_a_job_that_takes_too_long_is_ended_with_all_that_it_started(start, tmp_path):
    child = "import subprocess; p = subprocess.Popen(['sleep', '300']); open('child', 'w').write(str(p.pid)); print('asleep', flush=True)"
    process = start(f"{child}; time.sleep(300)", timeout=3)
    before = time.monotonic()
    with pytest.raises(WorkerFailed) as caught:
        process.request(job(tmp_path / "a"))
    assert time.monotonic() - before < 10
    assert caught.value.type == "timeout"
    assert caught.value.message == "weights took longer than 3 s; last lines of its log:\n    asleep"
    assert not process.alive
    state = Path("/proc") / (tmp_path / "child").read_text() / "stat"
    assert not state.exists() or ") Z " in state.read_text()


def test_the_log_is_quoted_from_its_end(start, tmp_path):
    process = start("[print(n) for n in range(100)]; sys.stdout.flush(); os._exit(1)")
    with pytest.raises(WorkerFailed) as caught:
        process.request(job(tmp_path / "a"))
    assert caught.value.message.splitlines()[1:] == [f"    {n}" for n in range(100 - TAIL, 100)]


def test_an_empty_log_is_said_to_be_empty(start, tmp_path):
    with pytest.raises(WorkerFailed, match=r"\(empty\)"):
        start("os._exit(1)").request(job(tmp_path / "a"))


def test_a_log_that_is_no_text_can_be_quoted(start, tmp_path):
    with pytest.raises(WorkerFailed, match="exited"):
        start("os.write(2, bytes([255, 0, 10])); os._exit(1)").request(job(tmp_path / "a"))


def test_closing_ends_a_worker_that_is_busy_and_can_be_repeated(start, tmp_path):
    process = start("time.sleep(300)")
    told = []

    def wait():
        try:
            process.request(job(tmp_path / "a"))
        except WorkerFailed as failure:
            told.append(failure.type)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    time.sleep(0.5)
    before = time.monotonic()
    process.close()
    assert time.monotonic() - before < 5
    process.close()
    waiting.join(5)
    assert told == ["killed"]


def test_death_is_seen_although_a_forked_child_lives_on(start, tmp_path):
    process = start("os.fork() or time.sleep(60); os.kill(os.getpid(), signal.SIGKILL)", timeout=3)
    with pytest.raises(WorkerFailed) as caught:
        process.request(job(tmp_path / "a"))
    assert caught.value.type == "killed"


def test_a_side_that_closes_all_files_is_not_waited_for_for_ever(start, tmp_path):
    process = start("os.closerange(3, 200); time.sleep(60)", timeout=1.5)
    guard = threading.Timer(5, os.killpg, (process._process.pid, signal.SIGKILL))
    guard.start()
    before = time.monotonic()
    with pytest.raises(WorkerFailed):
        process.request(job(tmp_path / "a"))
    guard.cancel()
    assert time.monotonic() - before < 4


def test_an_interpreter_that_cannot_start_is_told(start, tmp_path):
    (tmp_path / "python").write_text("no program")
    (tmp_path / "python").chmod(0o755)
    for python in (str(tmp_path / "nowhere"), str(tmp_path / "python")):
        with pytest.raises(EnvironmentUnavailable, match="the interpreter of the candidate does not start") as caught:
            start(python=python)
        assert caught.value.where == python
        assert caught.value.hint == "correct `python` in [candidate]"


def test_an_interpreter_that_is_no_python_is_a_failure_with_its_words(start, tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'not a python' >&2\nexit 5\n")
    program.chmod(0o755)
    with pytest.raises(
        WorkerFailed, match=r"exited: with code 5(.|\n)*not a python\n +fix: correct `python` in \[candidate\]: .* is no Python"
    ):
        start(python=str(program)).request(job(tmp_path / "a"))


@pytest.mark.parametrize("needed", ['[ "$HELLO" = 1 ]', "[ -f side.py ]"], ids=["variable", "folder"])
def test_an_interpreter_that_needs_the_sides_surroundings_is_asked_in_them(start, tmp_path, needed):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\n{needed} || exit 5\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    with pytest.raises(WorkerFailed, match="with code 7") as caught:
        start("import os; os._exit(7)", python=str(program), HELLO="1").request(job(tmp_path / "a"))
    assert "is no Python" not in str(caught.value)


def test_an_interpreter_that_is_slow_to_answer_is_not_said_to_be_none(start, tmp_path, monkeypatch):
    monkeypatch.setattr("paralign.run.process.ASKED", 0.2)
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\n[ "$1" = -c ] && exec sleep 5\nexit 5\n')
    program.chmod(0o755)
    with pytest.raises(WorkerFailed, match="with code 5") as caught:
        start(python=str(program)).request(job(tmp_path / "a"))
    assert "is no Python" not in str(caught.value)


# -- the environment -----------------------------------------------------------------------------------------------------------


def settings(python=sys.executable, device="cpu", **env):
    return SideSettings(Path("side.py"), Path(), "numpy", str(python), device, env=env)


@pytest.fixture
def clean(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("cores", "threads"), [(1, "1"), (2, "1"), (5, "2"), (64, "32"), (None, "1")])
def test_each_side_gets_half_the_cores(clean, cores, threads):
    clean.setattr(os, "cpu_count", lambda: cores)
    env = environment(settings())
    assert (env["OMP_NUM_THREADS"], env["OMP_WAIT_POLICY"], env["PYTHONUNBUFFERED"]) == (threads, "PASSIVE", "1")


def test_the_users_environment_comes_before_the_default_and_the_sides_before_both(clean):
    clean.setenv("OMP_NUM_THREADS", "7")
    assert environment(settings())["OMP_NUM_THREADS"] == "7"
    env = environment(settings(OMP_NUM_THREADS="9", OMP_WAIT_POLICY="ACTIVE", PYTHONUNBUFFERED="", SCALE="2"))
    assert (env["OMP_NUM_THREADS"], env["OMP_WAIT_POLICY"], env["PYTHONUNBUFFERED"], env["SCALE"]) == ("9", "ACTIVE", "", "2")


def test_products_on_a_device_are_computed_in_full_unless_the_user_says_otherwise(clean):
    clean.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    assert "NVIDIA_TF32_OVERRIDE" not in environment(settings())
    assert environment(settings(device="gpu:0"))["NVIDIA_TF32_OVERRIDE"] == "0"
    assert environment(settings(device="gpu:0", NVIDIA_TF32_OVERRIDE="1"))["NVIDIA_TF32_OVERRIDE"] == "1"
    assert "NVIDIA_TF32_OVERRIDE" not in environment(settings(device="gpu:0", NVIDIA_TF32_OVERRIDE=""))


def test_another_interpreters_home_is_not_handed_on_unless_the_side_asks(clean):
    clean.setenv("PYTHONHOME", "/somewhere")
    assert "PYTHONHOME" not in environment(settings())
    assert environment(settings(PYTHONHOME="/here"))["PYTHONHOME"] == "/here"


def test_a_virtual_or_conda_environment_is_entered(clean, tmp_path):
    clean.setenv("PATH", "/usr/bin")
    python = tmp_path / "env" / "bin" / "python"
    (tmp_path / "env" / "bin").mkdir(parents=True)
    env = environment(settings(python))
    assert env["PATH"] == f"{python.parent}{os.pathsep}/usr/bin"
    assert "VIRTUAL_ENV" not in env
    assert "CONDA_PREFIX" not in env
    (tmp_path / "env" / "conda-meta").mkdir()
    assert environment(settings(python))["CONDA_PREFIX"] == str(tmp_path / "env")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert environment(settings(python))["VIRTUAL_ENV"] == str(tmp_path / "env")


def test_this_process_is_not_changed(clean):
    clean.setenv("SCALE", "1")
    environment(settings(SCALE="2", OTHER="3"))
    assert os.environ["SCALE"] == "1"
    assert "OTHER" not in os.environ


def test_the_worker_sees_what_it_was_given(start, tmp_path):
    body = "raise ValueError(os.environ['SCALE'] + os.environ['OMP_NUM_THREADS'])"
    with pytest.raises(WorkerFailed) as caught:
        start(body, SCALE="two", OMP_NUM_THREADS="11").request(job(tmp_path / "a"))
    assert caught.value.message == "two11"


# -- the revision of the code ----------------------------------------------------------------------------------------------------


def test_the_revision_says_whether_the_code_was_changed_since(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision(tmp_path) is None
    (tmp_path / "side.py").write_text("x = 1\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    found = revision(tmp_path)
    assert len(found) == 40
    (tmp_path / "side.py").write_text("x = 2\n")
    assert revision(tmp_path) == f"{found}-dirty"


def test_without_git_there_is_no_revision(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision(tmp_path) is None


# -- what is installed -----------------------------------------------------------------------------------------------------------


def test_installed_packages_are_listed_without_being_imported():
    found = interpreter(sys.executable, dict(os.environ)).installed
    assert found["numpy"]
    assert found["python"] == sys.version.split()[0]


def test_what_is_installed_is_told_by_name_and_version_whatever_its_description_says(tmp_path):
    texts = {
        "plain": "Name: Plain.Name\nVersion: 1.2\n\nName: not this\n",
        "other": "name: Other\nversion: 3\n",
        "none": "Summary: nothing\n",
    }
    for name, text in texts.items():
        folder = tmp_path / f"{name}-0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\n" + text)
    found = interpreter(sys.executable, {"PYTHONPATH": str(tmp_path)}).installed
    assert (found["plain.name"], found["other"]) == ("1.2", "3")
    assert "not this" not in found


@pytest.mark.parametrize("script", ["exit 1", "echo 'no json'", "echo", "true", "echo '[1'", "echo '{}'", "echo '[1, 2]'"])
def test_an_interpreter_that_does_not_answer_gives_nothing(tmp_path, script):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert interpreter(str(program), {}).installed == {}


def test_an_interpreter_that_is_not_there_gives_nothing(tmp_path, monkeypatch):
    assert interpreter(str(tmp_path / "nowhere"), {"A": "1"}) == Interpreter({}, {"A": "1"})

    def late(*_args, **_kwargs):
        raise subprocess.TimeoutExpired("python", 60)

    monkeypatch.setattr(subprocess, "run", late)
    assert interpreter(sys.executable, {}).installed == {}
