"""Which environment variables a run depended on, by digests of their values."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from paralign.worker.process import variables
from paralign.worker.process.variables import ALL, UNSET, changed, depended_on, mark

START = {"MODE": "a", "SECRET": "hunter2", "PWD": "/here", "OMP_NUM_THREADS": "1", "ODD": "\udcff"}


@pytest.fixture(autouse=True)
def listening(monkeypatch):
    """``os.environ`` of these variables alone, listened to as in a worker."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in START.items():
        monkeypatch.setenv(name, value)
    kept = type(os.environ)
    monkeypatch.setattr(variables, "_read", set())
    monkeypatch.setattr(variables, "_at_start", {})
    variables.install()
    yield
    os.environ.__class__ = os.environb.__class__ = kept


def read(*names):
    assert set(depended_on()) == {"OMP_NUM_THREADS", *names}


@pytest.mark.parametrize(
    "look",
    [
        lambda: os.environ["MODE"],
        lambda: os.environ.get("MODE"),
        lambda: os.getenv("MODE"),
        lambda: "MODE" in os.environ,
        lambda: os.environ.pop("MODE"),
        lambda: os.environ.setdefault("MODE", "b"),
        lambda: os.environb[b"MODE"],
        lambda: os.getenvb(b"MODE"),
        lambda: os.path.expandvars("$MODE"),
    ],
)
def test_a_variable_that_is_asked_for_is_noted_with_what_it_was_at_first(look):
    look()
    os.environ["MODE"] = "c"
    assert depended_on() == {name: mark(name, START) for name in ("MODE", "OMP_NUM_THREADS")}
    assert changed(depended_on(), START) == []
    assert changed(depended_on(), {**START, "OTHER": "x", "PWD": "/there"}) == []
    assert changed(depended_on(), {**START, "MODE": "c"}) == ["MODE"]


def test_a_variable_that_is_not_there_is_noted_too():
    assert os.environ.get("NONE", "default") == "default"
    with pytest.raises(KeyError):
        os.environ["GONE"]
    assert "LOST" not in os.environ
    read("NONE", "GONE", "LOST")
    assert depended_on()["NONE"] == UNSET
    assert changed(depended_on(), {**START, "NONE": ""}) == ["NONE"]


@pytest.mark.parametrize(
    "look",
    [
        lambda: dict(os.environ),
        os.environ.copy,
        lambda: [name for name in os.environ if name.startswith("MO")],
        lambda: list(os.environ.items()),
        lambda: list(os.environ.values()),
        lambda: {**os.environ},
        lambda: dict(os.environb),
        lambda: len(os.environ),
    ],
)
def test_who_goes_through_all_variables_has_read_all_but_those_of_the_terminal(look):
    look()
    known = depended_on()
    assert ALL in known
    assert "PWD" not in known
    assert changed(known, {**START, "PWD": "/there", "OLDPWD": "/", "SHLVL": "9", "SSH_TTY": "x", "PYTEST_CURRENT_TEST": "y"}) == []
    for other in ({**START, "MODE": "b"}, {**START, "NEW": ""}, {name: START[name] for name in START if name != "MODE"}):
        assert ALL in changed(known, other)


def test_a_variable_of_the_terminal_counts_where_it_is_asked_for():
    assert os.environ["PWD"] == "/here"
    assert changed(depended_on(), {**START, "PWD": "/there"}) == ["PWD"]


def test_after_and_beside_a_way_through_all_variables_a_read_is_a_read():
    assert dict(os.environ)["PWD"] == "/here"
    assert "PWD" not in depended_on()
    assert os.environ["PWD"] == "/here"
    assert "PWD" in depended_on()
    thread = threading.Thread(target=lambda: os.environ.get("TERM"))
    thread.start()
    thread.join()
    assert "TERM" in depended_on()
    assert os.environ.get("SHLVL") is None
    assert "SHLVL" in depended_on()


@pytest.mark.parametrize("name", ["MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "FLAGS_x", "NVIDIA_TF32_OVERRIDE"])
def test_what_compiled_code_reads_unseen_counts_for_every_run(name):
    known = depended_on()
    assert changed(known, {**START, name: "1"}) == [name]
    assert changed(known, {**START, "OMP_NUM_THREADS": "8"}) == ["OMP_NUM_THREADS"]


def test_no_value_is_kept():
    assert os.environ["SECRET"]
    assert dict(os.environ)
    assert "hunter2" not in repr(depended_on())


def test_it_is_still_the_environment():
    os.environ["CHILD"] = "1"
    assert os.environb[b"CHILD"] == b"1"
    assert subprocess.check_output(["/bin/sh", "-c", "echo $CHILD"]) == b"1\n"
    del os.environ["CHILD"]
    assert isinstance(os.environ, os._Environ)
    assert {name: value for name, value in os.environ.items() if name in START} == START
