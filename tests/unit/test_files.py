"""Which files a run depended on. The audit hook cannot be removed, so it is watched in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paralign.worker.process import files
from paralign.worker.sides.frames import is_users

WATCH = """
import json, os, sys
from pathlib import Path
from paralign.worker.process import files
files.install(json.loads(sys.argv[1]))
{code}
print(json.dumps(files.depended_on()))
"""


@pytest.fixture
def seen(tmp_path):
    """Runs code in ``tmp_path`` and gives the names of the files below it that it depended on."""

    def run(code, ignore=()):
        program = tmp_path / "program.py"
        program.write_text(WATCH.format(code=code))
        done = subprocess.run(
            [sys.executable, program, json.dumps([str(tmp_path / i) for i in ignore])],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert all(Path(path).is_absolute() or path.startswith(files.UNSEEN) for path in found)
        here = os.path.realpath(tmp_path) + os.sep
        return {path[len(here) :]: mark for path, mark in found.items() if path.startswith(here) and not path.endswith("program.py")}

    (tmp_path / "data.txt").write_text("1 2 3")
    (tmp_path / "other.txt").write_text("4")
    return run


@pytest.mark.parametrize(
    "code",
    [
        "open('data.txt').read()",
        "open(b'data.txt', 'rb').read()",
        "Path('data.txt').read_bytes()",
        "os.read(os.open('data.txt', os.O_RDONLY), 3)",
        "os.close(os.open(Path('data.txt'), os.O_RDONLY))",
        "import numpy; numpy.loadtxt('data.txt')",
        "open('data.txt').read(); open('data.txt').read()",
    ],
)
def test_opened_files_are_seen_with_their_content(seen, code):
    found = seen(code)
    assert list(found) == ["data.txt"]
    assert found["data.txt"] == hashlib.sha256(b"1 2 3").hexdigest()


@pytest.mark.parametrize(
    "code",
    [
        "child = os.fork()\nif not child: open('data.txt').read(); os._exit(0)\nos.waitpid(child, 0)",
        "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as pool: pool.map(Path.read_text, [Path('data.txt')] * 4)",
        "import subprocess; subprocess.run(['cat', 'data.txt'])",
        "import subprocess; subprocess.run(['cat', 'data.txt'], cwd=os.getcwd())",
        "import subprocess; subprocess.run('cat  data.txt | cat', shell=True)",
        "import subprocess; subprocess.run(['echo', '--file=data.txt'])",
        "os.system('cat data.txt > /dev/null')",
    ],
)
def test_what_children_and_commands_read_is_seen(seen, code):
    """Workers of data loaders are forked; a program that decodes films is named the film."""
    print_output = "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)"
    kept = f"kept = os.dup(1); {print_output}\n{code}\nos.dup2(kept, 1)"
    assert list(seen(kept)) == ["data.txt"]


def test_a_child_that_has_closed_its_files_writes_into_no_other(seen, tmp_path):
    code = (
        "child = os.fork()\nif not child:\n    os.closerange(3, 20)\n    made = [os.open('new.txt', os.O_WRONLY | os.O_CREAT) for _ in range(9)]\n"
        "    open('data.txt').read(); os._exit(0)\nos.waitpid(child, 0)"
    )
    seen(code)
    assert (tmp_path / "new.txt").read_bytes() == b""


@pytest.mark.parametrize("name", ["'base.db'", "'file:base.db?mode=rwc', uri=True", "__import__('pathlib').Path('base.db')"])
def test_databases_are_seen(seen, name):
    pytest.importorskip("sqlite3")
    assert "base.db" in seen(f"import sqlite3; sqlite3.connect({name}).execute('create table t(v)')")


@pytest.mark.parametrize("path", ["link.txt", "folder/data.txt"])
def test_links_are_seen_as_the_program_wrote_them(seen, tmp_path, path):
    """A link to the newest checkpoint leads to another one later."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
    links = tmp_path / "link.txt", tmp_path / "folder"
    links[0].symlink_to("old/data.txt")
    links[1].symlink_to("old")
    mark = seen(f"open({path!r}).read()")[path]
    for link, now in zip(links, ("new/data.txt", "new"), strict=True):
        link.unlink()
        link.symlink_to(now)
    assert files.fingerprint(str(tmp_path / path)) != mark


def test_imported_modules_are_seen_also_when_they_come_from_the_cache(seen, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package import layers\n")
    (tmp_path / "package" / "layers.py").write_text("WIDTH = 3\n")
    for _ in range(2):  # the second time from the compiled files
        assert set(seen("import package")) == {"package/__init__.py", "package/layers.py"}


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "open('new.txt', 'w').write('x')",
        "open('new.txt', 'x').write('x')",
        "open('other.txt', 'a').write('x')",
        "os.close(os.open('new.txt', os.O_WRONLY | os.O_CREAT))",
        "os.close(os.open('new.txt', os.O_RDWR | os.O_CREAT | os.O_EXCL)); os.remove('new.txt')",
        "os.open('.', os.O_RDONLY)",
        "open('/proc/self/status').read(); open('/etc/hostname').read() if os.path.exists('/etc/hostname') else None",
    ],
)
def test_written_and_system_files_are_not(seen, code):
    assert seen(code) == {}


@pytest.mark.parametrize("path", ["nowhere.txt", "nowhere/settings.json", "data.txt/settings.json"])
def test_files_that_were_looked_for_in_vain_are_seen(seen, path):
    """A file that is there later changes what the run does."""
    code = f"try: open({path!r})\nexcept OSError: pass"
    assert seen(code) == {path: files.ABSENT}


@pytest.mark.parametrize(
    "code",
    [
        "os.listdir('images')",
        "list(os.scandir('images'))",
        "list(Path('images').glob('*.png'))",
        "list(os.walk('images'))",
        "os.listdir(b'images')",
    ],
)
def test_listed_folders_are_seen(seen, tmp_path, code):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_text("")
    assert set(seen(code)) - {"images//there", "images//entries"} == {"images"}


def test_entries_of_a_folder_that_the_program_gets_are_seen_by_size_and_time(seen, tmp_path):
    folder = tmp_path / "images"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.png").write_text("1")
    code = "[e.stat().st_size for e in os.scandir('images')]"
    marks = [seen(code)["images//entries"]]
    for name, text, counts in (("a.png", "22", True), ("inner/b.png", "1", False), (".hidden", "1", False), ("c.png", "1", True)):
        (folder / name).write_text(text)
        marks.append(files.fingerprint(f"{folder}//entries"))
        assert (marks[-1] != marks[-2]) is counts, name
    assert "images//entries" not in seen("list(os.walk('images'))")


def test_what_imports_list_on_the_path_is_not(seen, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "more.py").write_text("")
    assert set(seen("sys.path.insert(0, 'lib'); import more")) == {"lib/more.py"}


@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_installed_packages_are_not_wherever_their_folder_lies(seen, tmp_path, name):
    """A .pth file or PYTHONPATH may name the packages of another environment; a folder of the user's on the path stays theirs."""
    for folder in (f"elsewhere/{name}", "mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere" / name / "library.py").write_text("")
    (tmp_path / "mine" / "helper.py").write_text("")
    assert set(seen(f"sys.path[:0] = ['elsewhere/{name}/', 'mine']; import library, helper")) == {"mine/helper.py"}


def test_ignored_folders_are_left_out_and_their_neighbours_are_not(seen, tmp_path):
    for name in ("captures", "captures2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    assert set(seen("open('captures/x.txt').read(); open('captures2/x.txt').read()", ignore=["captures"])) == {"captures2/x.txt"}


def test_installing_twice_listens_once_and_ignores_both(seen, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    assert seen(f"files.install([{str(tmp_path / 'b')!r}]); open('a/x.txt').read(); open('b/x.txt').read()", ignore=["a"]) == {}


def test_a_relative_path_counts_from_where_the_program_was_when_it_opened_it(seen):
    assert set(seen("open('data.txt').read(); os.mkdir('deeper'); os.chdir('deeper')")) == {"data.txt"}


def test_a_file_that_was_opened_to_be_read_and_written_counts_as_read(seen):
    assert set(seen("open('data.txt', 'r+').read()")) == {"data.txt"}


# -- fingerprints ------------------------------------------------------------------------------------------------------------


def test_a_fingerprint_is_that_of_the_content(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "c").write_text("y")
    os.utime(tmp_path / "b", (0, 0))
    a, b, c = (files.fingerprint(str(tmp_path / n)) for n in "abc")
    assert a == b == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert a != c


def test_a_large_file_is_known_by_size_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CONTENT_LIMIT", 3)
    path = tmp_path / "large"
    path.write_text("1234")
    os.utime(path, ns=(5, 5))
    assert files.fingerprint(str(path)) == "4-5"
    os.utime(path, ns=(6, 6))
    assert files.fingerprint(str(path)) == "4-6"


def test_a_folder_is_known_by_the_names_in_it(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    marks = [files.fingerprint(str(folder))]
    for name, counts in (("a.png", True), (".hidden", False), ("a.png~", False), ("__pycache__", False), ("b.png", True)):
        (folder / name).write_text("")
        marks.append(files.fingerprint(str(folder)))
        assert (marks[-1] != marks[-2]) is counts, name
    (folder / "a.png").write_text("other content")
    assert files.fingerprint(str(folder)) == marks[-1]


def test_what_is_neither_file_nor_folder_has_no_fingerprint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert files.fingerprint(str(tmp_path / "pipe")) is None
    for name in ("nowhere", "dangling", "dangling/x"):
        assert files.fingerprint(str(tmp_path / name)) == files.ABSENT


def test_where_a_place_lies_is_looked_up_once_and_through_links(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    source = tmp_path / "real" / "model.py"
    source.write_text("")
    (tmp_path / "real" / "second.py").symlink_to("model.py")
    for way in ("real/model.py", "link/model.py", "link/second.py", "link/../link/model.py"):
        assert files.real_place(str(tmp_path / way)) == os.path.realpath(source), way
    monkeypatch.chdir(tmp_path)
    assert files.real_place("link/model.py") == os.path.realpath(source)
    monkeypatch.chdir(tmp_path / "link")
    assert files.real_place("model.py") == os.path.realpath(source), "a relative path is looked up anew"

    asked = []
    monkeypatch.setattr(os, "lstat", lambda path, lstat=os.lstat: asked.append(path) or lstat(path))
    before = files.system_folders()
    assert not is_users(str(tmp_path / "link" / "model.py"), [*before, os.path.realpath(tmp_path)])
    asked.clear()
    assert files.system_folders() == before
    assert is_users(str(tmp_path / "link" / "model.py"), before)
    assert not asked, "each frame of a stack would be looked up again"


def test_packages_laid_into_a_folder_of_any_name_are_not_the_users_code(seen, tmp_path):
    """``pip install --target libs`` and PYTHONPATH: what a framework prints there is no line of the port."""
    for package, listed in (("engine", "Engine_core\n_missing\n"), ("plain", None)):
        info = tmp_path / "libs" / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        if listed is not None:
            (info / "top_level.txt").write_text(listed)
    for name in ("Engine_core", "plain", "users"):
        (tmp_path / "libs" / name).mkdir()
    code = (
        "sys.path[:0] = ['libs', '', 'no/such/folder', 'data.txt']; "
        "here = os.path.realpath(os.curdir) + os.sep; "
        "Path('found').write_text(' '.join(sorted(p[len(here):] for p in files.system_folders() if p.startswith(here))))"
    )
    assert not [path for path in seen(code) if path.startswith("libs") or path == ""], "looking is not depending"
    assert (tmp_path / "found").read_text().split() == ["libs/Engine_core", "libs/plain"]


@pytest.mark.parametrize(
    ("code", "mark", "change", "same"),
    [
        ("os.path.exists('data.txt')", "//there", lambda p: p.unlink(), lambda p: p.write_text("changed")),
        ("Path('data.txt').is_file()", "//there", lambda p: p.unlink(), lambda p: p.write_text("changed")),
        ("os.access('data.txt', os.R_OK)", "//there", lambda p: p.unlink(), lambda p: p.write_text("changed")),
        ("os.path.getmtime('data.txt')", "//time", lambda p: os.utime(p, (1, 1)), lambda _: None),
        ("max(['data.txt'], key=os.path.getmtime)", "//time", lambda p: os.utime(p, (1, 1)), lambda _: None),
        ("os.stat('data.txt').st_size", "//time", lambda p: p.write_text("changed"), lambda _: None),
        ("Path('data.txt').stat()", "//time", lambda p: os.utime(p, (1, 1)), lambda _: None),
        ("os.lstat(b'data.txt')", "//time", lambda p: os.utime(p, (1, 1)), lambda _: None),
    ],
)
def test_what_was_asked_about_a_file_is_seen(seen, tmp_path, code, mark, change, same):
    found = seen(code)
    assert set(found) == {"data.txt" + mark}
    path = str(tmp_path / "data.txt")
    same(tmp_path / "data.txt")
    assert files.fingerprint(path + mark) == found["data.txt" + mark]
    change(tmp_path / "data.txt")
    assert files.fingerprint(path + mark) != found["data.txt" + mark]


def test_a_file_that_was_not_there_when_it_was_asked_for_is_seen(seen, tmp_path):
    assert seen("os.path.exists('new.txt')") == {"new.txt//there": files.ABSENT}
    (tmp_path / "new.txt").write_text("")
    assert files.fingerprint(f"{tmp_path}/new.txt//there") == "file"


@pytest.mark.parametrize("code", ["os.readlink('link')", "os.path.realpath('link')", "Path('link').resolve()"])
def test_where_a_link_leads_is_seen(seen, tmp_path, code):
    (tmp_path / "link").symlink_to("data.txt")
    found = seen(code)
    assert found["link//link"] == files.fingerprint(f"{tmp_path}/link//link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other.txt")
    assert files.fingerprint(f"{tmp_path}/link//link") != found["link//link"]


@pytest.mark.parametrize(
    "code", ["import shutil; shutil.copy('data.txt', 'copy.txt')", "import linecache; linecache.getline('data.txt', 1)"]
)
def test_questions_of_other_functions_are_no_dependence_on_the_time(seen, code):
    assert "data.txt//time" not in seen(code)


def test_copies_keep_their_times_under_observation(seen, tmp_path):
    os.utime(tmp_path / "data.txt", (1, 1))
    seen("import shutil; shutil.copy2('data.txt', 'copy.txt'); shutil.rmtree('nowhere', ignore_errors=True)")
    assert (tmp_path / "copy.txt").stat().st_mtime == 1


SPAWN = """
import multiprocessing
if __name__ == '__main__':
    child = multiprocessing.get_context('spawn').Process(target=os.getpid)
    child.start()
    child.join()
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import ctypes; ctypes.CDLL(None).getpid()", "calls getpid of compiled code by ctypes"),
        (SPAWN, "starts processes without fork (multiprocessing)"),
    ],
)
def test_what_may_read_unseen_is_what_no_later_run_has(tmp_path, code, told):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, json\nfrom paralign.worker.process import files\n"
        f"if __name__ == '__main__':\n    files.install([])\n{code}\nif __name__ == '__main__':\n    print(json.dumps(files.depended_on()))\n"
    )
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert files.fingerprint(files.UNSEEN + told) != found[files.UNSEEN + told]


def test_importing_ctypes_and_multiprocessing_is_nothing_unseen(seen):
    assert not seen("import ctypes, multiprocessing, numpy")
    assert "unseen" not in "".join(seen("import multiprocessing; multiprocessing.get_context('fork')"))


def test_data_that_is_asked_whether_it_is_a_path_is_none(seen):
    assert seen("os.path.isfile('no' + chr(0) + 'path'), os.path.exists(b'no' + bytes(1))") == {}
