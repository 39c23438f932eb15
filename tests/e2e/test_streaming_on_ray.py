"""Units of a streamed check as tasks of Ray: the same results as here; a worker that is killed loses nothing."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.e2e.test_streaming import port
from tests.e2e.test_sweep_on_ray import as_urgent_as_the_test, needs_ray, own_warnings

from paralign.api import check_project
from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.model import ALIGNED
from paralign.run.project import read

__all__ = ["as_urgent_as_the_test"]

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.slow]


def on_ray(folder, **more):
    project = folder / "paralign.toml"
    settings = "".join(f"{name} = {value}\n" for name, value in {"engine": '"ray"', "jobs": 2, **more}.items())
    project.write_text(project.read_text().replace("[model]\n", f"[model]\n{settings}"))


def told(result):
    return [(stage.name, stage.verdict, sorted(pair.key for pair in stage.pairs)) for stage in result.stages]


@needs_ray
@own_warnings
def test_units_come_to_the_same_as_here(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        port(tmp_path / name)
    on_ray(tmp_path / "there")
    here, _ = check_project(tmp_path / "here")
    there, _ = check_project(tmp_path / "there")
    assert there.verdict == ALIGNED
    assert told(there) == told(here)


def workers_of(folder):
    """Processes of sides that were started in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if process.name.isdigit() and "/worker/__main__.py" in line and str(folder / "result" / "units") in line:
            found.append(int(process.name))
    return found


def ray_worker(number):
    """The worker of Ray that a process was started by."""
    while number > 1:
        line = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace")
        if line.startswith("ray::"):
            return number
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return None


@needs_ray
@own_warnings
def test_a_worker_that_is_killed_loses_nothing(tmp_path):
    port(tmp_path)
    on_ray(tmp_path)
    killed = []

    def kill():
        end = time.monotonic() + 120
        while not killed and time.monotonic() < end:
            for side in workers_of(tmp_path):
                try:
                    found = ray_worker(side)
                except OSError:
                    continue
                if found is not None:
                    os.kill(found, signal.SIGKILL)
                    killed.append(found)
                    return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    result, _ = check_project(tmp_path)
    killer.join()
    assert killed
    assert result.verdict == ALIGNED


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    port(tmp_path)
    on_ray(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvironmentUnavailable, match="Ray is not installed") as fault:
        check_project(tmp_path)
    assert fault.value.hint == "pip install 'paralign[ray]'"


def test_another_engine_is_refused(tmp_path):
    port(tmp_path)
    on_ray(tmp_path, engine='"rya"')
    with pytest.raises(UsageError, match="there is no engine 'rya'; did you mean 'ray'"):
        read(tmp_path)
