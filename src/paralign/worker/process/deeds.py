"""What the side's own code does beside computing, while a judge watches its process.

Python's audit events tell. An event is the side's own where the innermost code that is none of Python's own is the side's, or is code
without a file, or where there is none: a thread or a handler that was given a function of Python's own. What Python tells no event of
is told by other signs: modules that reach the system past it, compiled code and compiled sources in the side's folder.

Some deeds are refused at once, since nobody could report them later: changes to what other processes run, and anything on files between
the end of an answer and the next request.
"""

from __future__ import annotations

import importlib.machinery
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

if TYPE_CHECKING:
    from types import FrameType

#: audit events that a model has no need of: other processes, connections, foreign code; imports tell of other frameworks
PLAIN = frozenset(
    ("import", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn", "socket.connect",
     "socket.bind", "socket.sendto", "socket.sendmsg",
     "ctypes.dlopen", "sys.settrace", "sys.setprofile", "gc.get_objects", "gc.get_referrers")
)  # fmt: skip

#: frameworks: a port of one has no need of the others
FRAMEWORKS = frozenset({"torch", "paddle", "jax", "tensorflow", "onnxruntime"})

#: deeds that have no audit event of their name: "event argument" of each
PAST, COMPILED, DISGUISED, LIBRARY, PROCESS, PIPE, FOLDER, OUTSIDE, CHANGED, MADE = (
    "past-python", "compiled-code", "disguised-code", "library-import", "other-process", "open-pipe", "open-folder", "outside", "change",
    "made",
)  # fmt: skip

#: modules by which code reaches the system without an audit event
DOORS = frozenset(
    ("cffi", "_cffi_backend", "_ctypes", "readline", "_posixsubprocess", "_testcapi", "_testinternalcapi", "_xxsubinterpreters")
)

#: audit events of changes to the file system -> which of their arguments are paths
CHANGES = {
    "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (0, 1), "os.remove": (0,),
    "os.rmdir": (0,), "os.mkdir": (0,), "os.truncate": (0,),
    "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,),
}  # fmt: skip

#: of those, the ones by which a file gets another name: reading that one reads the first
_NAMING = ("os.rename", "os.link", "os.symlink")

#: audit events of code objects that are made -> which of their arguments is the file that they say they come from
_CODE = {"compile": 1, "code.__new__": 1}

#: flags of an open call that change a file
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: characters of a deed that are kept: the longest path of Linux
_MOST = 4096

#: folders of the system's own that hold no code
_PASSING = ("/proc/", "/sys/", "/dev/")

#: the folder of memory that processes share
_SHARED = "/dev/shm/"  # noqa: S108 - nothing is written there

#: how files of compiled sources end
_COMPILED_SOURCES = ".pyc"

#: where Python's own modules lie
_LIBRARY = os.path.dirname(os.__file__) + os.sep

#: files whose frames are passed over: they hand events on
_HANDING_ON = (__file__, os.path.join(os.path.dirname(__file__), "files.py"))


def is_library(file: str) -> bool:
    """Whether a file is one of Python's own, which acts for its caller."""
    if file.startswith("<frozen "):
        return True
    return file.startswith(_LIBRARY) and "site-packages" not in file


class Watch:
    """Keeps what the code of a folder does.

    Args:
        own: the folder; ``ignored``: folders that it may change as well, beside its own.
        installed: folders of the interpreter and of installed packages.
        note: takes a path that the code has read, as if it had opened it itself.
    """

    def __init__(self, own: str, ignored: List[str], installed: List[str], note: Callable[[str], None]) -> None:
        self._own = os.path.realpath(own) + os.sep
        self._ignored = tuple(os.path.realpath(folder) + os.sep for folder in ignored)
        self._free = (self._own, *self._ignored)
        self._installed = tuple(folder + os.sep for folder in installed if folder + os.sep not in _PASSING)
        self._packages = tuple(folder for folder in self._installed if folder.startswith(self._own))
        self._note = note
        self._deeds: Set[str] = set()
        self._sealed = False
        self._main = threading.get_ident()

    def told(self) -> List[str]:
        """What was done so far: ``event argument``, sorted."""
        asked = {f"{LIBRARY} {name}" for name in FRAMEWORKS if not _is_there(name)}  # a library may ask in vain
        return sorted(self._deeds - asked)

    def seal(self, sealed: bool) -> None:
        """From the end of an answer to the next request the side's code may touch no file."""
        self._sealed = sealed

    def do(self, event: str, argument: Any) -> None:
        """Keep a deed."""
        self._deeds.add(f"{event} {argument}"[:_MOST])

    def listen(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Take an audit event.

        Raises:
            PermissionError: it is refused.
        """
        if event not in PLAIN and event not in _LISTENERS:
            return
        if self._sealed and (threading.get_ident() != self._main or self.is_own()):
            raise PermissionError(f"the answer is given: nothing may be done before the next request ({event})")
        if event in PLAIN and self.is_own():
            at = 1 if event.startswith("socket.") else 0  # the address, not the socket
            self.do(event, arguments[at] if len(arguments) > at else "")
        act = _LISTENERS.get(event)
        if act is not None:
            act(self, event, arguments)

    def is_own(self, passed_over: Callable[[str], bool] = is_library) -> bool:
        """Whether the code that runs is the side's, or nobody's."""
        frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - the code that runs
        while frame is not None and (frame.f_code.co_filename in _HANDING_ON or passed_over(frame.f_code.co_filename)):
            frame = frame.f_back
        place = "" if frame is None else frame.f_code.co_filename
        return not place or place.startswith("<") or self._in_port(os.path.realpath(place))

    def is_installed(self, path: str) -> bool:
        """Whether a path lies where the interpreter and packages do, and not in the side's folder."""
        if path.startswith(self._packages):
            return True
        return path.startswith(self._installed) and not path.startswith(self._free)

    def _in_port(self, real: str) -> bool:
        """Whether a path lies in the side's folder, and in no environment within it."""
        return real.startswith(self._own) and not real.startswith(self._packages)

    # -- events -------------------------------------------------------------------------------------------------------------

    def imports(self, _: str, arguments: Tuple[Any, ...]) -> None:
        """Modules that reach past Python, frameworks, the side's compiled modules."""
        name, file = str(arguments[0]), arguments[1] if len(arguments) > 1 else None
        if name in DOORS and self.is_own(_importing):
            self.do(PAST, name)
        if name.partition(".")[0] in FRAMEWORKS:  # ``importlib.import_module`` itself makes no event, what it imports does
            self.do(LIBRARY, name.partition(".")[0])
        real = os.path.realpath(file) if isinstance(file, str) else ""
        if real and (self._in_port(real) or (not self.is_installed(real) and self.is_own(_importing))):
            self.do(COMPILED, file)

    def makes_code(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Code that says it comes from a file of an installed package."""
        file = arguments[_CODE[event]]
        file = os.fsdecode(file) if isinstance(file, (str, bytes)) else ""
        if not _is_importing() and os.path.isabs(file) and self.is_installed(os.path.realpath(file)) and self.is_own():
            self.do(DISGUISED, file)

    def reads_code(self, event: str, _: Tuple[Any, ...]) -> None:
        """Compiled code from bytes."""
        if not _is_importing() and self.is_own():
            self.do(COMPILED, event)

    def changes(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Files that are named otherwise, removed or changed."""
        paths = [os.path.abspath(os.fsdecode(arguments[at])) for at in CHANGES[event] if isinstance(arguments[at], (str, bytes))]
        if event in _NAMING and paths:
            self._note(os.path.realpath(paths[0]))
        for path in paths:
            if not (event == "os.mkdir" and os.path.isdir(path)):  # it fails, or is let pass, without a change
                self._change(path)
        if event in _NAMING and len(paths) > 1 and f"{MADE} {os.path.realpath(paths[0])}"[:_MOST] in self._deeds:
            self._make(paths[1])

    def opens(self, _: str, arguments: Tuple[Any, ...]) -> None:
        """Files and folders that are opened."""
        if not isinstance(arguments[0], (str, bytes)):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]) or os.curdir)
        real = os.path.realpath(path)
        mode, flags = arguments[1], arguments[2]
        if os.path.isdir(real) and _is_temporary(mode, flags):
            return
        if (
            (mode[:1] == "r" or ("+" in mode and mode[:1] not in "wx"))
            if isinstance(mode, str)
            else not (isinstance(flags, int) and flags & os.O_WRONLY)
        ):
            self._read(real)
        if self._in_port(real) and real.endswith(_COMPILED_SOURCES):
            self.do(COMPILED, real)
        if _of_another_process(path) or _of_another_process(real):
            self.do(PROCESS, path)
        if os.path.isdir(real):
            self.do(FOLDER, real)
        if (isinstance(flags, int) and flags & WRITING) or (isinstance(mode, str) and set(mode) & set("wax+")):
            self._change(path)
            if _makes(real, mode, flags):
                self._make(path)

    def _read(self, real: str) -> None:
        self._note(real)  # now: a link may be gone when the files are told
        try:
            mode = os.stat(real).st_mode
        except OSError:
            return
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or real.startswith(_SHARED):
            self.do(PIPE, real)
        elif stat.S_ISREG(mode) and not self.is_installed(real) and not real.startswith(self._ignored) and not real.startswith(_PASSING):
            self.do(OUTSIDE, real)

    def _make(self, path: str) -> None:
        """Note a file that is written here: reading it tells what the port knows already."""
        real = os.path.realpath(path)
        if not real.startswith((*_PASSING, *self._ignored)):
            self.do(MADE, real)

    def _change(self, path: str) -> None:
        """Note a change, and refuse one of what is installed."""
        here = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # of a link itself
        for each in sorted({here, os.path.realpath(path)}):
            if each.startswith(_PASSING) or (each.startswith(self._free) and not each.startswith(self._own)):
                continue
            self.do(CHANGED, each)
            if self.is_installed(each):
                raise PermissionError(f"a judged port may not change what other processes run ({each})")


_LISTENERS: Dict[str, Callable[[Watch, str, Tuple[Any, ...]], None]] = {
    "import": Watch.imports,
    "open": Watch.opens,
    "marshal.loads": Watch.reads_code,
    **dict.fromkeys(_CODE, Watch.makes_code),
    **dict.fromkeys(CHANGES, Watch.changes),
}


def _is_temporary(mode: Any, flags: Any) -> bool:
    """Whether an open call of a folder gives no way into it.

    ``tempfile`` tells of its files so: they are written, and without a name.
    """
    temporary = getattr(os, "O_TMPFILE", 0)
    if isinstance(mode, str):
        return mode[:1] in ("w", "a", "x")
    return bool(temporary and isinstance(flags, int) and flags & temporary == temporary)


def _makes(real: str, mode: Any, flags: Any) -> bool:
    """Whether an open call makes a file or empties it: all that is in it is written here then."""
    if isinstance(mode, str) and mode[:1] in ("w", "x"):
        return True
    if not isinstance(flags, int):
        return False
    return bool(flags & os.O_TRUNC or (flags & os.O_CREAT and not os.path.exists(real)))


def _importing(file: str) -> bool:
    """Whether a file is part of Python's import system."""
    return file.startswith(("<frozen importlib", os.path.join(_LIBRARY, "importlib")))


def _is_importing() -> bool:
    """Whether the import system itself caused the event that is looked at."""
    frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - the code that runs
    while frame is not None and frame.f_code.co_filename in _HANDING_ON:
        frame = frame.f_back
    return frame is not None and _importing(frame.f_code.co_filename)


def _of_another_process(path: str) -> bool:
    """Whether a path is one of what Linux tells about another process."""
    parts = path.split(os.sep)
    return parts[:2] == ["", "proc"] and len(parts) > 2 and parts[2].isdigit() and int(parts[2]) != os.getpid()  # noqa: PLR2004 - the number's place


def _is_there(name: str) -> bool:
    """Whether a package of this name is installed: a library may ask in vain whether it is."""
    return importlib.machinery.PathFinder.find_spec(name) is not None


def without_compiled_sources(folder: str, installed: List[str]) -> None:
    """Import code below a folder from its sources alone.

    Compiled files beside them are not used. Installed packages below it are left as they are.
    """
    own = os.path.realpath(folder) + os.sep
    packages = tuple(each + os.sep for each in installed if (each + os.sep).startswith(own))
    loader: Any = importlib.machinery.SourceFileLoader
    sourceless: Any = importlib.machinery.SourcelessFileLoader
    before, bare = loader.get_code, sourceless.get_code

    def is_own(path: str) -> bool:
        real = os.path.realpath(path)
        return real.startswith(own) and not real.startswith(packages)

    def get_code(self: Any, name: str) -> Any:
        path = self.get_filename(name)
        return self.source_to_code(self.get_data(path), path) if is_own(path) else before(self, name)

    def refuse(self: Any, name: str) -> Any:
        path = self.get_filename(name)
        if is_own(path):
            raise ImportError(f"{path} is compiled: a judge reads sources")
        return bare(self, name)

    loader.get_code, sourceless.get_code = get_code, refuse
    sys.dont_write_bytecode = True


def watch_started_processes(watch: Watch) -> None:
    """Tell of processes that are started past ``subprocess``.

    Python has no audit event for them.
    """
    try:
        import _posixsubprocess as inner
    except ImportError:  # Windows
        return
    before = inner.fork_exec

    def fork_exec(*arguments: Any) -> Any:
        if watch.is_own():
            watch.do("subprocess.Popen", arguments[1] if len(arguments) > 1 else "")
        return before(*arguments)

    inner.fork_exec = fork_exec
