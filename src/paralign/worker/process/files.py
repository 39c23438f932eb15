"""Which files a run depended on.

Those it opened for reading or missed, the folders it listed and the sources it imported.

Python's audit events tell of every file that Python code opens, also in children that it forks, and of the databases and commands that
it runs; ``looked_at`` notes what the side's own code asks about paths. Files read by compiled libraries on their own account are not
seen; for such a data set, run with ``--fresh`` after changing it. What the side's own code calls by ``ctypes``, and processes that are
not forked, may read anything: such a run depends on what never stays the same (``UNSEEN``).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import site
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set, Tuple

from paralign.adapters import packages
from paralign.worker.process import looked_at
from paralign.worker.process.deeds import Watch, is_library, watch_started_processes, without_compiled_sources

if TYPE_CHECKING:
    from types import FrameType

#: where paralign itself lies
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

#: files up to this size are known by their content, larger ones by size and time of change
CONTENT_LIMIT = 8 << 20

#: the fingerprint of a file that a run wanted to open and that was not there
ABSENT = "absent"

#: begins the name of what a run may have depended on unseen; its fingerprint is that of no file, so that the run is not reused
UNSEEN = "unseen: "

#: functions of compiled code that are listed
_LISTED = 3

_opened: Set[str] = set()
_listed: Set[str] = set()
_ignored: List[str] = []
_installed = False

#: the process that listens, and a file without a name in which its forked children (workers of data loaders) note what they read
_owner = 0
_notes: Optional[IO[bytes]] = None
_notes_are: Tuple[int, int] = (0, 0)

#: audit events of commands: where among their arguments the command stands, and its folder
_COMMANDS = {"subprocess.Popen": (1, 2), "os.system": (0, None), "os.exec": (1, None), "os.posix_spawn": (1, None), "pty.spawn": (0, None)}

#: the folder of code whose deeds are noted, and who notes them; None without one
_watch: Optional[Watch] = None

#: functions of compiled code that the side's own code took by ``ctypes``
_compiled: Set[str] = set()

#: modules that are imported where processes are started without a fork
_STARTING = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_spawn_win32", "multiprocessing.popen_forkserver")

#: paths that are none of the user's: of an imported framework there are thousands, which every capture would look up anew
_foreign: Set[str] = set()

#: those of them that were known before the side was; a process that serves one side after the other looks them up once
_foreign_to_all: Set[str] = set()

#: path, size and time of change -> fingerprint: a large data set is read once
_known: Dict[Tuple[str, int, int], str] = {}


def install(ignore: List[str], own: str = "", sources: str = "") -> None:
    """Start to listen; files below the folders in ``ignore`` (captures, logs) are left out.

    ``own``: the folder of code whose deeds are noted, ``sources``: of code that is imported from its sources alone; '' for none.
    """
    global _installed, _owner, _watch  # noqa: PLW0603 - an audit hook cannot be removed, so there is one for the life of the process
    _foreign.clear()
    _foreign.update(_foreign_to_all)
    _owner = os.getpid()
    _open_notes()
    _ignored.extend(os.path.realpath(p) for p in ignore)
    if sources:
        without_compiled_sources(sources, system_folders())
    if own:
        _watch = Watch(own, ignore, system_folders(), _note)
        watch_started_processes(_watch)
    if not _installed:
        sys.addaudithook(_listen)
        looked_at.install(_note, _is_own, is_library)
        _installed = True


def _open_notes() -> None:
    """Make the file that forked children write to; without room for it they are not seen."""
    global _notes, _notes_are  # noqa: PLW0603 - one for the life of the process, as the hook
    if _notes is None:
        with suppress(OSError):
            _notes = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as above
            status = os.fstat(_notes.fileno())
            _notes_are = status.st_dev, status.st_ino


def deeds() -> List[str]:
    """What the side's own code did beside computing, so far: ``event argument``, sorted."""
    return [] if _watch is None else _watch.told()


def seal(sealed: bool) -> None:
    """Let the watched code do nothing from an answer's end to the next request."""
    if _watch is not None:
        _watch.seal(sealed)


def _unseen() -> List[str]:
    """Why this process may have read what nobody saw; empty where nothing suggests it."""
    found = [f"calls {name} of compiled code by ctypes" for name in sorted(_compiled)[:_LISTED]]
    return found + ["starts processes without fork (multiprocessing)"] * any(name in sys.modules for name in _STARTING)


@lru_cache(maxsize=None)
def _is_own(file: str) -> bool:
    """Whether a source file is the user's."""
    return not file.startswith("<frozen ") and not os.path.realpath(file).startswith(_of_the_system())


@lru_cache(maxsize=1)
def _of_the_system() -> Tuple[str, ...]:
    return tuple(folder + os.sep for folder in system_folders())


def _note_compiled(function: str) -> None:
    """Note a function of compiled code that the user's code takes."""
    frame: Optional[FrameType] = sys._getframe(2)  # noqa: SLF001 - the code that runs
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and _is_own(frame.f_code.co_filename):
        _compiled.add(function)


def _listen(event: str, arguments: Tuple[Any, ...]) -> None:
    if _watch is not None:
        _watch.listen(event, arguments)
    if event == "ctypes.dlsym":
        _note_compiled(str(arguments[1]))
    for path in _named(event, arguments) if event in _COMMANDS else ():
        _note(path)
    if event == "sqlite3.connect" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        _note(_database(os.fsdecode(arguments[0])))
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], (str, bytes)):
        return
    if sys._getframe(1).f_code.co_filename == __file__:  # noqa: SLF001 - looking is not depending
        return
    path = os.path.abspath(os.fsdecode(arguments[0]) or os.curdir)  # now: the program may change its folder
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes_only = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_EXCL)  # O_EXCL: a file that is made here
        reads = mode[:1] == "r" if isinstance(mode, str) else not writes_only
        if reads:
            _note(path)
    else:
        _note_listed(event, path, sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - the code that lists


def _note_listed(event: str, path: str, file: str) -> None:
    """Note a folder that code of a source file lists; imports list every folder on the path."""
    if file.startswith("<frozen importlib"):
        return
    _note(path, _listed)
    if event == "os.scandir" and _is_own(file):  # the program gets the entries themselves
        _note(path + looked_at.ENTRIES)


def _note(path: str, known: Set[str] = _opened) -> None:
    """Keep a path; a forked child tells it to the process that listens."""
    if path in known:
        return
    known.add(path)
    if _notes is None or os.getpid() == _owner:
        return
    with suppress(OSError, ValueError):
        status = os.fstat(_notes.fileno())
        if (status.st_dev, status.st_ino) == _notes_are:  # else the child has closed it, and opened another file under this number
            os.write(_notes.fileno(), os.fsencode(path) + b"\0")


def _told_by_children() -> Set[str]:
    """Paths that forked children have read."""
    if _notes is None:
        return set()
    with suppress(OSError, ValueError, AttributeError):  # no pread on this system
        written = os.pread(_notes.fileno(), os.fstat(_notes.fileno()).st_size, 0)
        return {os.fsdecode(path) for path in written.split(b"\0")[:-1]}
    return set()


def _named(event: str, arguments: Tuple[Any, ...]) -> Iterator[str]:
    """The files that a command names."""
    at, folder_at = _COMMANDS[event]
    folder = arguments[folder_at] if folder_at is not None else None
    command = arguments[at]
    with suppress(TypeError, ValueError, OSError):  # anything may be given for a command: it fails by itself
        given = [command] if isinstance(command, (str, bytes)) else list(command)
        for each in given:
            word = os.fsdecode(each)
            for part in {word, word.partition("=")[2], *(shlex.split(word) if " " in word else ())}:
                path = os.path.abspath(os.path.join(os.fsdecode(folder or os.curdir), part))
                if part and os.path.isfile(path):
                    yield path


def _database(name: str) -> str:
    """The file of a database, which may be told as an address."""
    if not name.startswith("file:"):
        return os.path.abspath(name)
    from urllib.parse import unquote, urlsplit

    return os.path.abspath(unquote(urlsplit(name).path))


def fingerprint(path: str) -> Optional[str]:
    """What a file's content is known by, or a folder by the names in it.

    ``ABSENT`` for what is not there; None for what is neither. With a mark behind the path: the answer to what was asked.
    """
    asked, mark = looked_at.unmarked(path)
    try:
        return looked_at.answer(asked, mark) if mark else _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return None


def _content(path: str) -> Optional[str]:
    """As :func:`fingerprint`, of a path without a mark.

    Raises:
        OSError: it cannot be read, or is not there.
    """
    status = os.stat(path)
    if os.path.isdir(path):
        names = sorted(n for n in os.listdir(path) if looked_at.counts(n))
        return hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()
    if not os.path.isfile(path):
        return None
    if status.st_size > CONTENT_LIMIT:
        return f"{status.st_size}-{status.st_mtime_ns}"
    key = (os.path.realpath(path), status.st_size, status.st_mtime_ns)  # two ways to a file are read once
    if key not in _known:
        with open(path, "rb") as file:
            _known[key] = hashlib.sha256(file.read()).hexdigest()
    return _known[key]


#: kept here, as a side may put something else in its place
_opening = open

#: what Python calls a folder of installed packages, wherever it lies
_INSTALLED = ("site-packages", "dist-packages")


def system_folders() -> List[str]:
    """Folders of the interpreter, of installed packages, of the system and of paralign itself."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__), "/proc", "/sys", "/dev", "/etc", "/usr", "/lib"]
    folders += site.getsitepackages() if hasattr(site, "getsitepackages") else []
    folders.append(site.getusersitepackages())
    folders += [p for p in sys.path if os.path.basename(p.rstrip(os.sep)) in _INSTALLED]  # those that a .pth file or PYTHONPATH adds
    folders += [package for path in dict.fromkeys(sys.path) for package in _installed_into(path)]
    folders += [PACKAGE, *packages.homes()]
    return [real_place(f) for f in folders]


def real_place(path: str) -> str:
    """Where a source file or a folder of packages lies, without links.

    Absolute paths are looked up once in the life of the process: every frame of a stack is asked for, again and again.
    """
    return _real_place(path) if os.path.isabs(path) else os.path.realpath(path)


@lru_cache(maxsize=None)
def _real_place(path: str) -> str:
    folder, name = os.path.split(path)
    if folder == path or name in ("", os.curdir, os.pardir) or os.path.islink(path):
        return os.path.realpath(path)
    return os.path.join(_real_place(folder), name)


@lru_cache(maxsize=None)
def _installed_into(folder: str) -> List[str]:
    """Packages that ``pip install --target`` laid into a folder of any name.

    The user's code may lie beside them.
    """
    try:
        told = [name for name in os.listdir(folder or os.curdir) if name.endswith(".dist-info")]
    except OSError:  # an archive, or a path that is not there
        return []
    found = []
    for name in told:
        listed = os.path.join(folder, name, "top_level.txt")
        packages = [name.partition("-")[0].lower()]
        if os.path.isfile(listed):
            with _opening(listed, encoding="utf-8", errors="replace") as file:
                packages += file.read().split()
        found += [path for package in packages if os.path.isdir(path := os.path.join(folder, package))]
    return found


def _real(path: str) -> str:
    """A path without links; each folder is looked up once a call of :func:`depended_on`."""
    folder, name = os.path.split(path)
    if not name or name in (os.curdir, os.pardir) or os.path.islink(path):
        return os.path.realpath(path)
    return os.path.join(_real_folder(folder), name)


@lru_cache(maxsize=None)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def is_installed(path: str) -> bool:
    """Whether a file lies in a folder of the interpreter or of installed packages."""
    return (_real(path) + os.sep).startswith(tuple(folder + os.sep for folder in system_folders()))


def know_libraries() -> None:
    """Note that the files of all modules imported so far are none of the user's."""
    system = tuple(folder + os.sep for folder in system_folders())
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path not in _foreign_to_all and (_real(path) + os.sep).startswith(system):
            _foreign_to_all.add(path)


def depended_on() -> Dict[str, str]:
    """Fingerprint every file of the user's that this process has read or missed so far.

    By absolute path.

    A path through links is there too as the program wrote it: it may lead elsewhere later. Installed packages are left out: their versions
    are in the manifest.
    """
    _real_folder.cache_clear()
    system = tuple(folder + os.sep for folder in [*system_folders(), *_ignored])
    paths = _opened | _listed | _told_by_children()
    paths.update(f for f in (getattr(m, "__file__", None) for m in list(sys.modules.values())) if f)
    found = {UNSEEN + reason: "unseen" for reason in _unseen()}
    for path in paths - _foreign:
        asked, mark = looked_at.unmarked(path)
        real = _real(asked)
        if real.endswith(".pyc") or (real + os.sep).startswith(system):
            _foreign.add(path)
            continue
        print_ = fingerprint(path if mark else real)
        if mark and print_ is not None:
            found[path] = print_
        elif print_ is not None:
            found[real] = found[os.path.abspath(path)] = print_
    return found
