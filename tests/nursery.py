"""Workers, the command, and programs that tests write, are forked from processes that have imported what they need.

Two frameworks cost more than most checks, and an interpreter that tells what is installed a tenth of a second.

Each is a process of its own, with its own pipes, variables, working directory and process group, as one that is started. What an
interpreter reads while it starts has to be as in the process that it is forked from: otherwise, and for other programs, it is started.
"""

from __future__ import annotations

import atexit
import dataclasses
import gc
import importlib
import importlib.util
import json
import os
import re
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from contextlib import suppress
from pathlib import Path

#: whose workers are forked
FRAMEWORKS = "torch", "paddle", "numpy"

#: the nursery of the command ``paralign``
COMMAND = "paralign"

#: the nurseries of programs, by the framework that they import
PROGRAMS = {"paddle": "program-paddle", "torch": "program-torch"}

#: what a worker imports for its first job
WORKER = [
    "paralign.worker.tasks",
    *(f"paralign.worker.process.{name}" for name in ("files", "variables", "standing")),
    *(f"paralign.worker.sides.{name}" for name in ("side", "session", "frames")),
]

#: the compiler that PyTorch imports when the first optimizer is built: 800 modules, a second
LATER = {"torch": "torch._dynamo"}

#: what the command does not have imported beforehand: adapters import frameworks
KEPT_OUT = "paralign.adapters.", "paralign.compat", "paralign.init", "paralign.testing", "paralign.__main__"

#: bytes of the longest request: a command, variables, a folder
MOST = 1 << 20

#: variables that tests and shells set, and that nothing reads while it is imported
FREE = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "PATH", "VIRTUAL_ENV", "TMPDIR", "COLUMNS", "LINES", "TERM", "PYTHONUNBUFFERED"})

#: variables that frameworks set when they are imported, or an optimizer is built: otherwise nothing would be forked after that
FREE |= {"CUSTOM_DEVICE_ROOT", "TORCHINDUCTOR_CACHE_DIR"}
FREE_BEGINNINGS = "PYTEST_", "PARALIGN_"


def telling(variables):
    """The variables that may change what a module is once it is imported."""
    return {name: value for name, value in variables.items() if name not in FREE and not name.startswith(FREE_BEGINNINGS)}


# -- the process that others are forked from -------------------------------------------------------------------------------------


class Nursery:
    """Forks a process for each request, until the tests have ended."""

    def __init__(self, folder, listening):
        self.folder, self.listening = folder, listening
        self.asking = {}  # pid -> the connection that waits for its end
        self.prepared = False

    def prepare(self):
        """Import what is needed, when it is first asked for."""

    def work(self, command):
        """In the forked process."""

    def ended(self, pid):
        """A forked process has ended."""

    def serve(self):
        ended, told = os.pipe()
        for end in (ended, told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as ready:
            for each in (self.listening, ended, 0):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj == 0:
                        return
                    if key.fileobj == ended:
                        os.read(ended, MOST)
                        self._collect()
                    else:
                        self._fork((ready, ended, told))

    def _collect(self):
        while self.asking:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self.asking.pop(pid) as connection, suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            self.ended(pid)

    def _fork(self, own):
        connection, _ = self.listening.accept()
        text, pipes, _, _ = socket.recv_fds(connection, MOST, 3)
        while not text.endswith(b"\n"):
            text += connection.recv(MOST)
        if not self.prepared:
            self.prepared = True
            self.prepare()
            gc.collect()
            gc.freeze()  # otherwise each process goes through all that was imported, and has pages of its own for it
        pid = os.fork()
        if pid:
            for pipe in pipes:
                os.close(pipe)
            self.asking[pid] = connection
            connection.sendall(f"{pid}\n".encode())
            return
        self._leave(connection, own)
        request = json.loads(text)
        become(request, pipes)
        os._exit(self._worked(request["command"]))

    def _leave(self, connection, own):
        """In the forked process: nothing of the one that it comes from stays open."""
        ready, ended, told = own
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ready.close()
        for each in (self.listening, connection, *self.asking.values()):
            each.close()
        os.close(ended)
        os.close(told)

    def _worked(self, command):
        """Work to the end; the exit code, as an interpreter gives it."""
        code = 0
        try:
            self.work(command)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                sys.stderr.write(end.code + "\n")
        except BaseException:  # noqa: BLE001 - the interpreter would write it
            traceback.print_exc()
            code = 1
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        return code


class WorkerNursery(Nursery):
    """Workers of a framework."""

    def __init__(self, folder, listening, framework, path):
        super().__init__(folder, listening)
        self.framework, self.program = framework, worker_program(path)
        self.program._find_paralign()

    def prepare(self):
        from paralign.worker.process.standing import _import, _know_libraries

        _import(self.framework)
        for name in WORKER:
            importlib.import_module(name)
        lay_aside(self.framework)
        _know_libraries()

    def work(self, command):
        from paralign.adapters import packages

        packages.take_over()
        sys.modules["__main__"] = self.program
        sys.argv = command
        if command[1] == "--standing":
            from paralign.worker.process import standing

            standing.serve(command[2], command[3:], self.program._die_with_parent, self.program._serve)
        else:
            self.program.main(command[1])


class ProgramNursery(Nursery):
    """Programs of a framework: ``python path.py arguments``, ``python -c text arguments``."""

    def __init__(self, folder, listening, framework):
        super().__init__(folder, listening)
        self.framework = framework

    def prepare(self):
        importlib.import_module(self.framework)
        lay_aside(self.framework)

    def work(self, command):
        if command[0] == "-c":
            file, text = "<string>", command.pop(1)
            sys.path.insert(0, "")
        else:
            file, text = command[0], Path(command[0]).read_bytes()
            sys.path.insert(0, str(Path(file).resolve().parent))
        sys.argv = command
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        if file != "<string>":
            main.__file__ = str(Path(file).absolute())
        try:
            exec(compile(text, file, "exec"), vars(main))
        finally:
            threading._shutdown()
            atexit._run_exitfuncs()


class CommandNursery(Nursery):
    """The command ``paralign``; what one run of it has imported, the next finds."""

    def prepare(self):
        importlib.import_module("paralign.cli")
        importlib.import_module("paralign.report.page")._template()
        ask(lambda: self.folder)
        from paralign import checking
        from paralign.run.process import environment
        from paralign.run.project import SideSettings

        checking.own_code()
        checking.interpreter(sys.executable, environment(SideSettings(Path("side.py"), Path(), python=sys.executable)))

    def work(self, command):
        sys.argv = command
        before = set(sys.modules)
        try:
            runpy.run_module("paralign", run_name="__main__", alter_sys=True)
        finally:
            threading._shutdown()
            atexit._run_exitfuncs()
            names = [name for name in sys.modules if name not in before and name.startswith("paralign.") and not name.startswith(KEPT_OUT)]
            (self.folder / f"imported-{os.getpid()}").write_text("\n".join(names))

    def ended(self, pid):
        path = self.folder / f"imported-{pid}"
        if path.exists():
            for name in path.read_text().split():
                importlib.import_module(name)
            path.unlink()
            gc.collect()
            gc.freeze()


def lay_aside(framework):
    """Have what a framework imports late imported, and not there."""
    if framework in LATER and LATER[framework] not in sys.modules:
        sys.meta_path.insert(0, Aside(LATER[framework]))


class Aside:
    """Has a package imported, and finds it when it is imported again: until then it is not there, as in a worker that is started.

    Args:
        name: of the package; the attribute of the one around it goes too.
    """

    def __init__(self, name):
        importlib.import_module(name)
        self._name = name
        self._modules = {each: sys.modules.pop(each) for each in list(sys.modules) if each == name or each.startswith(name + ".")}
        self._spec = self._modules[name].__spec__
        around, _, last = name.rpartition(".")
        vars(sys.modules[around]).pop(last, None)

    def find_spec(self, name, _path=None, _target=None):
        if name != self._name:
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, _spec):
        sys.meta_path.remove(self)
        sys.modules.update(self._modules)
        return self._modules[self._name]

    def exec_module(self, module):
        module.__spec__ = self._spec


def become(request, pipes):
    """The forked process as it was asked for: its group, pipes, folder and variables."""
    os.setsid()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])


def worker_program(path):
    """The worker's program as a module: nothing of it has run."""
    spec = importlib.util.spec_from_file_location("__worker__", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.__name__, program.__spec__ = "__main__", None
    return program


def main(kind, address, path):
    """Serve at an address until standard input ends."""
    del sys.path[0]
    folder = Path(address).parent
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        if kind == COMMAND:
            nursery = CommandNursery(folder, listening)
        elif kind in PROGRAMS.values():
            nursery = ProgramNursery(folder, listening, kind.rpartition("-")[2])
        else:
            nursery = WorkerNursery(folder, listening, kind, path)
        nursery.serve()


# -- who asks for processes ------------------------------------------------------------------------------------------------------


class Forked:
    """A worker of a nursery, as a :class:`subprocess.Popen`."""

    def __init__(self, connection, pid, stdin, stdout):
        self._connection, self.pid, self.stdin, self.stdout, self.returncode = connection, pid, stdin, stdout, None
        self._waiting = threading.Lock()

    def poll(self):
        if self._waiting.acquire(blocking=False):
            try:
                self._hear(1e-6)
            finally:
                self._waiting.release()
        return self.returncode

    def wait(self, timeout=None):
        with self._waiting:
            self._hear(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout)
        return self.returncode

    def _hear(self, timeout):
        """Take the exit code, where it comes in time."""
        if self.returncode is not None:
            return
        self._connection.settimeout(timeout)
        with suppress(TimeoutError):
            text = line(self._connection)
            self.returncode = int(text or -signal.SIGKILL)  # nobody who could say: the nursery has ended, and its workers with it
            self._connection.close()


def line(connection):
    """A line of a few digits, which comes at once or not at all; '' at the end."""
    first = connection.recv(1)
    connection.settimeout(None)
    found = first
    while found and not found.endswith(b"\n"):
        found += connection.recv(1)
    return found.decode().strip()


class Asking:
    """Starts processes as ``paralign.run.launching.launch``, workers with a framework by forking.

    Args:
        place: gives the folder with the nurseries' addresses.
        launch: starts a process.
    """

    def __init__(self, place, launch):
        self.place, self.launch = place, launch

    def __call__(self, command, **options):
        framework = framework_of(command)
        if not framework:
            return self.launch(command, **options)
        folder = self.place()
        if folder is None:
            return self.launch(command, **options)
        if telling(options["env"]) != json.loads((folder / "variables.json").read_text()):
            return self.launch(command, **options)
        return forked(str(folder / framework), command[2:], options)


def framework_of(command):
    """The framework that a command's worker imports, where a nursery has it; ''."""
    if command[0] != sys.executable or command[1] != "-u":
        return ""
    framework = ""
    if command[3] == "--standing":
        framework = command[4]
    elif not command[3].startswith("--"):
        framework = json.loads(Path(command[3]).read_text()).get("framework", "")
    return framework if framework in FRAMEWORKS else ""


def imported_by(command, cwd):
    """The framework that a program imports: ``python path.py`` or ``python -c text``; '' where a nursery cannot run it."""
    if len(command) < 2 or command[0] != sys.executable:
        return ""
    word = os.fspath(command[1])
    if word == "-c":
        text = command[2]
    elif word.endswith(".py"):
        text = Path(cwd or "", word).read_text(encoding="utf-8")
    else:
        return ""
    return next((name for name in PROGRAMS if re.search(rf"^\s*(import|from) {name}\b", text, re.MULTILINE)), "")


def forked(address, command, options):
    """A worker of the nursery at an address."""
    read, stdin = os.pipe()
    stdout, write = os.pipe()
    connection, pid = requested(address, command, options, [read, write, options["stderr"].fileno()])
    for pipe in (read, write):
        os.close(pipe)
    return Forked(connection, pid, os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0))


def requested(address, command, options, pipes):
    """The connection on which the end of a forked process is told, and its number."""
    request = {"command": command, "cwd": str(Path(options["cwd"]).absolute()), "env": dict(options["env"])}
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], pipes)
    return connection, int(line(connection))


class Answered:
    """Tells what is installed for an interpreter, as ``paralign.run.recorder.interpreter``; this one, which stays as it is, is asked once.

    Args:
        place: gives None where interpreters are to be asked each time.
        ask: starts an interpreter that tells.
    """

    def __init__(self, place, ask):
        self.place, self.ask, self.known = place, ask, {}

    def __call__(self, python, env):
        if python != sys.executable or "PYTHONPATH" in env or self.place() is None:
            return self.ask(python, env)
        key = json.dumps(telling(env), sort_keys=True)
        if key not in self.known:
            self.known[key] = self.ask(python, env), dict(env)
        found, asked = self.known[key]
        own = {name: value for name, value in found.variables.items() if asked.get(name) != value}
        gone = asked.keys() - found.variables.keys()
        return dataclasses.replace(found, variables={name: value for name, value in env.items() if name not in gone} | own)


def ask(place):
    """Have this process's workers forked from nurseries; what has it start them again."""
    from paralign import checking
    from paralign.run import launching, process, recorder, standing_process

    process.launch = standing_process.launch = Asking(place, launching.launch)
    checking.interpreter = Answered(place, recorder.interpreter)

    def start_again():
        process.launch = standing_process.launch = launching.launch
        checking.interpreter = recorder.interpreter

    return start_again


class Nurseries:
    """The nurseries of one process of tests, which start when they are first wanted, and end with it."""

    def __init__(self, folder):
        self._folder, self._started, self._starting, self.asleep = folder, [], threading.Lock(), False

    def place(self):
        """The folder with their addresses; None where processes are to be started."""
        if self.asleep:
            return None
        with self._starting:
            if not self._started:
                self._start()
        return self._folder

    def _start(self):
        from paralign.run.process import MAIN, environment
        from paralign.run.project import SideSettings

        own = dict(os.environ)
        variables = environment(SideSettings(Path("side.py"), Path()))
        self.main = str(MAIN.parents[1] / "__main__.py")
        for name, found in (("variables.json", variables), ("own.json", own)):
            (self._folder / name).write_text(json.dumps(telling(found)))
        for kind in (*FRAMEWORKS, *PROGRAMS.values(), COMMAND):
            command = [sys.executable, "-u", __file__, kind, str(self._folder / kind), str(MAIN)]
            env = variables if kind in FRAMEWORKS else own
            with (self._folder / f"{kind}.log").open("wb") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self._folder, env=env, start_new_session=True
                )
            self._started.append(process)
        for process in self._started:
            assert process.stdout.readline() == b"listening\n", process.args

    def run(self, arguments, cwd, timeout):
        """Run the command ``paralign``, as :func:`subprocess.run`."""
        command = [sys.executable, "-m", "paralign", *arguments]
        if not self._serves():
            return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)
        code, out, err = self._ran(COMMAND, [self.main, *arguments], cwd, timeout)
        return subprocess.CompletedProcess(command, code, out, err)

    def running(self, run):
        """``run``, which is :func:`subprocess.run`, but programs that import a framework are forked."""

        def forking(command, **options):
            known = {"cwd": None, "timeout": None, "check": False} | options
            framework = imported_by(command, known["cwd"])
            plain = known.pop("capture_output", False) and known.pop("text", False) and len(known) == len(("cwd", "timeout", "check"))
            if not framework or not plain or not self._serves():
                return run(command, **options)
            words = [os.fspath(word) for word in command[1:]]
            done = subprocess.CompletedProcess(command, *self._ran(PROGRAMS[framework], words, known["cwd"], known["timeout"]))
            if known["check"]:
                done.check_returncode()
            return done

        return forking

    def _serves(self):
        """Whether a process can be forked that has this one's variables."""
        folder = self.place()
        return folder is not None and telling(os.environ) == json.loads((folder / "own.json").read_text())

    def _ran(self, kind, words, cwd, timeout):
        """The exit code of a forked process, and what it wrote."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, Path(os.devnull).open("rb") as nothing:
            pipes = [each.fileno() for each in (nothing, out, errors)]
            options = {"cwd": cwd or Path.cwd(), "env": os.environ}
            connection, pid = requested(str(self._folder / kind), words, options, pipes)
            process = Forked(connection, pid, None, None)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(pid, signal.SIGKILL)
                process.wait()
                raise
            texts = []
            for each in (out, errors):
                each.seek(0)
                texts.append(each.read().decode())
        return process.returncode, *texts

    def close(self):
        for process in self._started:
            process.communicate()


if __name__ == "__main__":
    main(*sys.argv[1:])
