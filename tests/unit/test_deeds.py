"""What the code of a watched folder does beside computing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paralign.worker.process import deeds

SRC = Path(__file__).parents[2] / "src"

START = """\
import json, os, sys
sys.path.insert(0, sys.argv[1])
from paralign.worker.process import files
port = os.path.abspath("port")
files.install([os.path.abspath("captures")], port, port)
sys.path.insert(0, port)
try:
    import port
    getattr(port, "later", int)()
    failed = ""
except Exception as error:
    failed = type(error).__name__
if len(sys.argv) > 2:
    files.seal(True)
    try:
        port.sealed()
    except PermissionError:
        failed = "PermissionError"
print(json.dumps([failed, files.deeds(), sorted(files.depended_on())]))
"""


@pytest.fixture
def watched(tmp_path):
    """Run a port in a watched process: how it failed, its deeds, the files that it depends on."""
    (tmp_path / "port").mkdir()
    (tmp_path / "captures").mkdir()
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "reference.py").write_text("SECRET = 1\n")

    def run(code, *options):
        (tmp_path / "port" / "port.py").write_text(code)
        command = [sys.executable, "-c", START, str(SRC), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def events(deeds):
    return {deed.partition(" ")[0] for deed in deeds} - {"import", "outside", "change", "made"}


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("import readline", "past-python"),
        ("import importlib\nimportlib.import_module('_cffi_backend')", "past-python"),
        ("import _posixsubprocess\ntry:\n    _posixsubprocess.fork_exec([b'x'], [b'x'])\nexcept TypeError:\n    pass", "subprocess.Popen"),
        ("import os\nfd = os.open('/', os.O_RDONLY)\nos.close(fd)", "open-folder"),
        ("import os\ntry:\n    open(f'/proc/{os.getppid()}/cmdline').read()\nexcept OSError:\n    pass", "other-process"),
        ("import os\ncode = compile('x = 1', os.__file__, 'exec')", "disguised-code"),
        ("import os\ndef f():\n    pass\ncode = f.__code__.replace(co_filename=os.__file__)", "disguised-code"),
        ("import marshal\ncode = marshal.loads(marshal.dumps(compile('x = 1', 'x', 'exec')))", "compiled-code"),
        ("from threading import Timer\nimport subprocess, sys\nTimer(0, subprocess.call, ([sys.executable, '-c', ''],)).run()", "subprocess.Popen"),
        ("import os\nos.mkfifo('pipe')\nfd = os.open('pipe', os.O_RDONLY | os.O_NONBLOCK)", "open-pipe"),
    ],
)  # fmt: skip
@pytest.mark.skipif(sys.platform != "linux", reason="paths and modules of Linux")
def test_what_reaches_past_the_port_is_told(watched, code, event):
    assert event in events(watched(code)[1])


def test_a_thread_that_only_runs_functions_of_pythons_own_counts_as_the_ports(watched):
    pool = "from concurrent.futures import ThreadPoolExecutor\nimport importlib\n"
    deeds = watched(pool + "ThreadPoolExecutor(1).submit(importlib.import_module, 'sqlite3').result()")[1]
    assert "import sqlite3.dbapi2" in deeds


@pytest.mark.parametrize(
    "code",
    [
        "import dataclasses, collections\nP = collections.namedtuple('P', 'x')\n@dataclasses.dataclass\nclass C:\n    x: int = 0\nexec('y = 1')",
        "import subprocess, multiprocessing, logging, pdb, code, pickle\nassert pickle.loads(pickle.dumps([1])) == [1]",
        "import json, os\nopen(__file__).read()\nopen('/proc/self/status').close() if os.path.exists('/proc/self') else None",
        "import helper",
    ],
)  # fmt: skip
def test_what_honest_code_does_is_no_deed(watched, tmp_path, code):
    (tmp_path / "port" / "helper.py").write_text("X = 1\n")
    failed, deeds, _ = watched(code)
    assert (failed, events(deeds)) == ("", set())


@pytest.mark.parametrize("way", ["os.symlink(there, here)", "os.link(there, here)"])
def test_a_file_that_is_read_by_another_name_is_told_when_that_name_is_gone(watched, tmp_path, way):
    code = f"import os\nthere, here = os.path.abspath('judge/reference.py'), 'port/x.txt'\n{way}\nopen(here).read()\nos.remove(here)"
    assert str(tmp_path / "judge" / "reference.py") in watched(code)[2]


def test_installed_packages_cannot_be_changed(watched, tmp_path):
    site = "import os, sysconfig\nplace = os.path.join(sysconfig.get_paths()['purelib'], 'paralign_test_attack.pth')\n"
    try:
        failed, deeds, _ = watched(site + "open(place, 'w').close()")
        assert failed == "PermissionError"
        assert any(deed.startswith("change ") for deed in deeds)
        assert watched(site + "open('port/x', 'w').close()\nos.replace('port/x', place)")[0] == "PermissionError"
        assert watched("open('port/cache.txt', 'w').close()\nopen('captures/x', 'w').close()")[0] == ""
    finally:
        import sysconfig

        Path(sysconfig.get_paths()["purelib"], "paralign_test_attack.pth").unlink(missing_ok=True)


def test_nothing_is_done_between_an_answer_and_the_next_request(watched):
    code = "def sealed():\n    open('judge/reference.py').read()\n"
    assert watched(code)[0] == ""
    assert watched(code, "sealed")[0] == "PermissionError"


def test_compiled_files_do_not_stand_in_for_their_sources(watched, tmp_path):
    import importlib.util
    import marshal
    import struct

    source = tmp_path / "port" / "net.py"
    source.write_text("X = 'source'\n")
    status = source.stat()
    head = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(status.st_mtime), status.st_size)
    compiled = Path(importlib.util.cache_from_source(str(source)))
    compiled.parent.mkdir()
    compiled.write_bytes(head + marshal.dumps(compile("X = 'other'\n", str(source), "exec")))
    assert watched("import net\nassert net.X == 'source'")[0] == ""
    bare = tmp_path / "port" / "bare.pyc"
    bare.write_bytes(compiled.read_bytes())
    assert watched("import bare")[0] == "ImportError"
    told = watched("import marshal\ncode = open('port/bare.pyc', 'rb').read()")[1]
    assert "compiled-code" in events(told)


def test_a_file_that_the_port_writes_is_told_and_one_that_it_removes_is_not(watched, tmp_path):
    (tmp_path / "answer").write_text("x")
    code = "import os\nopen('ask.tmp', 'w').close()\nos.rename('ask.tmp', 'ask')\nopen('answer').read()\nos.remove('answer')"
    told = watched(code)[1]
    assert {deed for deed in told if deed.startswith("made ")} == {f"made {tmp_path / name}" for name in ("ask", "ask.tmp")}
    assert f"outside {tmp_path / 'answer'}" in told


@pytest.mark.parametrize("name", ["NamedTemporaryFile", "TemporaryFile"])
def test_a_temporary_file_opens_no_folder(watched, name):
    failed, deeds, _ = watched(f"import tempfile\nwith tempfile.{name}() as file:\n    file.write(b'x')")
    assert (failed, events(deeds)) == ("", set())


def test_an_environment_in_the_ports_folder_is_not_the_ports_code(tmp_path):
    watch = deeds.Watch(str(tmp_path), [], [str(tmp_path / "venv")], str)
    assert watch.is_installed(str(tmp_path / "venv" / "x.pyc"))
    watch.imports("import", ("x", str(tmp_path / "venv" / "x.so")))
    assert watch.told() == []
    watch.imports("import", ("x", str(tmp_path / "x.so")))
    assert watch.told() == [f"compiled-code {tmp_path / 'x.so'}"]


def test_compiled_code_elsewhere_counts_where_the_port_loads_it(tmp_path, monkeypatch):
    watch = deeds.Watch(str(tmp_path / "port"), [], [], str)
    cached = str(tmp_path / "cache" / "x.so")
    for own, told in ((False, []), (True, [f"compiled-code {cached}"])):
        monkeypatch.setattr(watch, "is_own", lambda *_, own=own: own)
        watch.imports("import", ("x", cached))
        assert watch.told() == told


def test_sockets_without_a_connection_are_told(watched):
    code = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 0))\ns.sendto(b'x', s.getsockname())"
    told = watched(code)[1]
    assert "socket.bind ('127.0.0.1', 0)" in told
    assert "socket.sendto" in events(told)


@pytest.mark.parametrize("way", ["open('answer', 'r+').read()", "import os\nos.rename('answer', 'port/answer')"])
def test_a_foreign_file_is_not_made_by_opening_or_renaming_it(watched, tmp_path, way):
    (tmp_path / "answer").write_text("x")
    assert not [deed for deed in watched(way)[1] if deed.startswith("made ")]


def test_a_file_that_is_added_to_is_read_too(watched, tmp_path):
    (tmp_path / "answer").write_text("x")
    assert f"outside {tmp_path / 'answer'}" in watched("file = open('answer', 'a+')")[1]


def test_a_folder_of_installed_packages_that_exists_may_be_asked_for(watched):
    assert watched("import os, sysconfig\nos.makedirs(sysconfig.get_paths()['purelib'], exist_ok=True)")[0] == ""
