"""A sweep as tasks of Ray: the same results, a failing port stops nothing, a worker that is killed loses nothing."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from paralign.cli import main
from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.sweeping import read, sweep
from paralign.sweeping.on_ray import Cluster
from paralign.sweeping.store import Store

PROJECT = 'stages = ["weights", "forward"]\n[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n[inputs]\nshape = [2, 3]\n'
MODEL = "def build_model():\n    return lambda x: x * {factor}\n"

#: notes each start with its process; the first one hangs
HANGING = """import os, time
from pathlib import Path
starts = Path(__file__).parent / "starts"
first = not starts.exists()
with starts.open("a") as file:
    file.write(f"{os.getpid()}\\n")
if first:
    time.sleep(300)
""" + MODEL.format(factor=2)

needs_ray = pytest.mark.skipif(
    not any((Path(folder) / "ray").is_dir() for folder in sys.path if folder), reason="Ray is not installed (pip install 'paralign[ray]')"
)


@pytest.fixture(autouse=True)
def as_urgent_as_the_test(monkeypatch):
    """Ray makes its workers nice, beside whatever else runs here."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


own_warnings = pytest.mark.filterwarnings("ignore::Warning")  # Ray's own, at import and at its end


def port(folder, candidate):
    folder.mkdir()
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(MODEL.format(factor=2))
    (folder / "candidate.py").write_text(candidate)


def table(folder, *names, head="jobs = 2\n"):
    (folder / "ports.toml").write_text(head + "".join(f'[[port]]\nproject = "{name}"\n' for name in names))
    return folder / "ports.toml"


def parents(number):
    """A process and those that it was started by, with their command lines."""
    while number > 1:
        yield number, Path(f"/proc/{number}/cmdline").read_bytes()
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_ray
@own_warnings
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path):
    """Two workers; the one that hangs is killed: its port is checked again, those that were done are not."""
    port(tmp_path / "right", MODEL.format(factor=2))
    port(tmp_path / "wrong", MODEL.format(factor=3))
    port(tmp_path / "broken", "raise OSError('no weights here')\n")
    port(tmp_path / "hanging", HANGING)
    listed = read(table(tmp_path, "hanging", "right", "wrong", "broken", "absent"))
    starts = tmp_path / "hanging" / "starts"
    killed = []

    def kill(done, total, name):
        if done < total - 1 or killed:
            return  # the others first: they go on beside the one that hangs
        until = time.monotonic() + 400
        while not (starts.exists() and starts.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.05)
        side = int(starts.read_text())
        worker = next(number for number, command in parents(side) if command.startswith(b"ray::"))
        os.kill(worker, signal.SIGKILL)
        killed.extend([worker, side])

    outcomes = {each.name: each for each in sweep(listed, engine="ray", progress=kill)}
    verdicts = {name: each.verdict for name, each in outcomes.items()}
    assert killed
    assert verdicts == {"hanging": ALIGNED, "right": ALIGNED, "wrong": DIVERGED, "broken": ERROR, "absent": ERROR}
    assert len(starts.read_text().split()) >= 2
    assert not any(map(is_running, killed))
    again = {each.name: each.reused for each in sweep(listed)}
    assert again == {"hanging": True, "right": True, "wrong": True, "broken": False, "absent": False}


@needs_ray
@own_warnings
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_interrupted_sweep_ends_what_is_under_way_and_goes_on_later(tmp_path, capsys):
    port(tmp_path / "quick", MODEL.format(factor=2))
    port(tmp_path / "hanging", HANGING)
    starts = tmp_path / "hanging" / "starts"

    def interrupt(done, total, name):
        until = time.monotonic() + 400
        while not (starts.exists() and starts.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.05)
        raise KeyboardInterrupt

    listed = table(tmp_path, "quick", "hanging")
    with pytest.raises(KeyboardInterrupt):
        sweep(read(listed), engine="ray", progress=interrupt)
    until = time.monotonic() + 120
    while is_running(int(starts.read_text())):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert not (tmp_path / "sweep" / "hanging" / "port.json").exists()
    assert main(["sweep", str(listed), "--engine", "ray", "--jobs", "2"]) == 0
    assert "from before" in capsys.readouterr().out


@needs_ray
@own_warnings
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_a_cluster_cannot_hold_or_share_is_said(tmp_path):
    """A session that this process has is used and left open; a port too large for it fails alone; a store that is not shared is refused."""
    import ray

    port(tmp_path / "small", MODEL.format(factor=2))
    port(tmp_path / "large", MODEL.format(factor=2))
    ray.init("local", num_cpus=1, _memory=1_500_000_000, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        listed = table(tmp_path, "small", head="memory = 1\n")
        with listed.open("a") as file:
            file.write('[[port]]\nproject = "large"\nmemory = 3\n')
        listed.write_text(listed.read_text().replace("memory = 1\n", "", 1).replace('"small"\n', '"small"\nmemory = 1\n'))
        found = {each.name: each for each in sweep(read(listed), engine="ray")}
        assert found["small"].verdict == ALIGNED
        assert "the largest machine of the cluster has 1.5 GB" in found["large"].failure
        listed = table(tmp_path, "small", head='out = "memory://apart"\n')
        listed.write_text(listed.read_text() + "memory = 1\n")
        with pytest.raises(UsageError, match="results of small are not where this process looks for them"):
            sweep(read(listed), engine="ray")
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@needs_ray
@own_warnings
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_that_does_not_answer_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(EnvironmentUnavailable, match="Ray does not start"):
        Cluster(Store(str(tmp_path)), 1)


def test_without_ray_a_line_says_so(tmp_path, monkeypatch, capsys):
    port(tmp_path / "one", MODEL.format(factor=2))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["sweep", str(table(tmp_path, "one")), "--engine", "ray"]) == 3
    told = capsys.readouterr().err
    assert "Ray is not installed" in told
    assert "pip install 'paralign[ray]'" in told
    assert threading.active_count() < 50
