"""A table of ports: one report, a failing port stops nothing, what is done is not done again, within a time and a memory."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from paralign import __version__
from paralign.cli import main
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.sweeping import Outcome, Port, read, sweep
from paralign.sweeping.engine import _startable
from paralign.sweeping.one_port import PROGRAM, from_json, memory_of
from paralign.sweeping.ports import Sweep
from paralign.sweeping.store import Store

PROJECT = 'stages = ["weights", "forward"]\n[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n[inputs]\nshape = [2, 3]\n'
MODEL = "def build_model():\n    return lambda x: x * {factor}\n"
DOUBLED = MODEL.format(factor=2)
DOCS = Path(__file__).parents[2] / "docs"


def port(folder, candidate=DOUBLED):
    folder.mkdir()
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(DOUBLED)
    (folder / "candidate.py").write_text(candidate)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of four ports: right, wrong, one whose side fails, and one that is no project; then the same again after a change."""
    folder = tmp_path_factory.mktemp("sweep")
    port(folder / "right")
    port(folder / "wrong", MODEL.format(factor=3))
    port(folder / "broken", "raise OSError('no weights here')\n")
    names = ("right", "wrong", "broken", "absent")
    (folder / "ports.toml").write_text("jobs = 2\n" + "".join(f'[[port]]\nproject = "{name}"\n' for name in names))
    code = main(["sweep", str(folder / "ports.toml"), "--quiet"])
    first = json.loads((folder / "sweep" / "sweep.json").read_text())
    (folder / "wrong" / "candidate.py").write_text(MODEL.format(factor=2))
    second = sweep(read(folder / "ports.toml"), jobs=2)
    return folder, code, first, second


def test_a_failing_port_stops_no_other(swept):
    _, code, first, _ = swept
    assert code == 3
    assert first["verdict"] == ERROR
    verdicts = {each["name"]: each["verdict"] for each in first["ports"]}
    assert verdicts == {"right": ALIGNED, "wrong": DIVERGED, "broken": ERROR, "absent": ERROR}
    by_name = {each["name"]: each for each in first["ports"]}
    assert by_name["right"]["stages"]["forward"] == ALIGNED
    assert "no weights here" in by_name["broken"]["headline"] + by_name["broken"]["failure"]
    assert "there is no paralign.toml" in by_name["absent"]["failure"]
    assert by_name["right"]["peak_bytes"] > 1e7


def test_a_sweep_goes_on_where_it_was(swept):
    """What holds is kept; what has changed, and what failed, is checked again."""
    _, _, _, second = swept
    assert {each.name: each.reused for each in second} == {"right": True, "wrong": False, "broken": False, "absent": False}
    assert {each.name: each.verdict for each in second} == {"right": ALIGNED, "wrong": ALIGNED, "broken": ERROR, "absent": ERROR}


def test_servers_are_told_of_every_port(swept):
    folder, _, _, _ = swept
    suites = {suite.get("name"): suite for suite in ET.fromstring((folder / "sweep" / "junit.xml").read_text())}
    assert list(suites) == ["right", "wrong", "broken", "absent"]
    assert suites["right"].get("failures") == suites["right"].get("errors") == "0"
    assert int(suites["absent"].get("errors")) == 1
    assert "there is no paralign.toml" in suites["absent"].find("testcase/error").get("message")


def test_the_table_is_printed(swept, capsys):
    folder, _, _, _ = swept
    table = folder / "one.toml"
    table.write_text(f'out = "{folder / "sweep"}"\n[[port]]\nproject = "right"\n')
    assert main(["sweep", str(table)]) == 0
    told = capsys.readouterr().out
    assert "right" in told
    assert "from before" in told
    assert main(["sweep", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ports"][0]["reused"] is True
    assert main(["sweep", str(table), "--lang", "zh", "--quiet"]) == 0
    assert "一致" in capsys.readouterr().out


# --- without processes ----------------------------------------------------------------------------------------------


def ports(*names, **settings):
    return tuple(Port(name, Path("/nowhere") / name, **settings) for name in names)


def table_of(folder, *names, **settings):
    listed = "".join(f'[[port]]\nproject = "{name}"\n' for name in names)
    (folder / "ports.toml").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()) + listed)
    return read(folder / "ports.toml")


def test_at_most_so_many_at_a_time(tmp_path):
    under_way, most, lock = [], [], threading.Lock()

    def checked(port, folder, stop):
        with lock:
            under_way.append(port.name)
            most.append(len(under_way))
        time.sleep(0.05)
        with lock:
            under_way.remove(port.name)
        return Outcome(port.name, str(port.project), ALIGNED)

    found = sweep(table_of(tmp_path, *"abcdef", jobs=2), checked=checked)
    assert [each.name for each in found] == list("abcdef")
    assert max(most) == 2


def test_a_port_begins_where_its_memory_is_left():
    small, large = ports("a", "b", "c", memory=2.0), ports("large", memory=8.0)[0]
    assert _startable([large, *small], [], 4, 10.0) == [large, small[0]]
    assert _startable([large, *small], [small[0]], 4, 10.0) == [large]
    assert _startable([large, *small[1:]], [small[0]], 4, 9.0) == [*small[1:]]
    assert _startable([large], [], 4, 8.0) == [large]


def test_an_interrupted_sweep_keeps_what_is_done_and_nothing_else(tmp_path):
    stopped = []

    def checked(port, folder, stop):
        if port.name == "slow":
            stopped.append(stop.wait(10))
        return Outcome(port.name, str(port.project), ALIGNED)

    def interrupt(done, total, name):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(table_of(tmp_path, "quick", "slow", jobs=2), checked=checked, progress=interrupt)
    assert stopped == [True]
    assert (tmp_path / "sweep" / "quick" / "port.json").is_file()
    assert not (tmp_path / "sweep" / "slow" / "port.json").exists()
    assert not (tmp_path / "sweep" / "sweep.json").exists()


def test_results_lie_where_fsspec_reaches():
    pytest.importorskip("fsspec")

    def checked(port, folder, stop):
        (folder / "captures").mkdir(parents=True)
        (folder / "captures" / "00000.safetensors").write_bytes(b"values")
        (folder / ".paralign.lock").write_text("")
        return Outcome(port.name, str(port.project), DIVERGED)

    store = Store("memory://sweeps/today")
    sweep(Sweep(Path("ports.toml"), store.root, 1, None, ports("a", "b")), checked=checked)
    assert json.loads(store.read("sweep.json"))["verdict"] == DIVERGED
    assert store.read("a/captures/00000.safetensors") == b"values"
    assert store.read("a/.paralign.lock") is None
    assert from_json(store.read("b/port.json")).verdict == DIVERGED
    assert store.read("nothing") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema": 1}',
        b'{"schema": 99, "name": "a", "project": "b"}',
        b"\xff",
        b'{"schema": 1, "name": 3, "project": ""}',
        b"[" * 99999,
    ],
)
def test_a_damaged_result_is_none(data):
    assert from_json(data) is None


@pytest.mark.parametrize(("limit", "told"), [("timeout = 1.0", "took longer than 1 s"), ("memory = 0.01", "0.01 GB are allowed")])
def test_a_port_that_takes_too_much_is_ended(tmp_path, limit, told):
    port(tmp_path / "slow", "import time\ntime.sleep(60)\n" + MODEL.format(factor=2))
    (tmp_path / "ports.toml").write_text(f'[[port]]\nproject = "slow"\n{limit}\n')
    began = time.monotonic()
    outcome = sweep(read(tmp_path / "ports.toml"))[0]
    assert outcome.verdict == ERROR
    assert told in outcome.failure
    assert time.monotonic() - began < 40


def test_memory_is_that_of_a_process_and_of_its_children():
    assert memory_of(os.getpid()) > 1e7
    assert memory_of(2**30) == 0.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the table has no port"),
        ("[[port]]\nname = 'x'\n", "the port has no project"),
        ("[[port]]\nproject = 'a'\n[[port]]\nproject = 'b/a'\n", "two ports are called 'a'"),
        ("[[port]]\nproject = 'a'\nname = '../b'\n", "a port cannot be called"),
        ("[[port]]\nproject = 'a'\nstages = ['forwrad']\n", "did you mean 'forward'?"),
        ("[[port]]\nprojct = 'a'\n", "unknown key 'projct'; did you mean 'project'?"),
        ("jobs = 0\n[[port]]\nproject = 'a'\n", "'jobs' must be above 0"),
        ("memory = 2\n[[port]]\nproject = 'a'\nmemory = 3\n", "may take 3 GB, the sweep 2 GB"),
        ("jobs = true\n[[port]]\nproject = 'a'\n", "'jobs' must be of type int"),
        ("port = [1]\n", "a port must be a table"),
    ],
)
def test_a_table_that_cannot_be_swept_is_refused(tmp_path, text, told):
    (tmp_path / "ports.toml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(told)):
        read(tmp_path / "ports.toml")


def test_a_url_that_nobody_knows_is_refused():
    pytest.importorskip("fsspec")
    with pytest.raises(UsageError, match="nothing reaches 'nowhere://'"):
        Store("nowhere://bucket")


@pytest.mark.parametrize("page", ["sweep.md", "sweep.zh.md"])
def test_the_example_of_the_page_can_be_read(tmp_path, page):
    text = (DOCS / page).read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    (tmp_path / "ports.toml").write_text(example)
    table = read(tmp_path / "ports.toml")
    assert [each.name for each in table.ports] == ["resnet50", "bert-base"]
    assert (table.jobs, table.memory, table.ports[1].memory, table.ports[0].stages) == (2, 16, 10.0, ("weights", "forward"))


def test_an_earlier_result_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "one" / "port.json").mkdir(parents=True)
    with pytest.raises(UsageError, match="an earlier result cannot be read"):
        Store(str(tmp_path)).read("one/port.json")


def test_the_command_is_of_this_package_whatever_lies_in_the_current_folder(tmp_path):
    (tmp_path / "json.py").write_text("print('not mine')\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert "not mine" not in done.stdout
    assert __version__ in done.stdout
