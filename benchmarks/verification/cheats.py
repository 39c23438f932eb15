"""Ports that want to pass without being right, and honest ones: what ``paralign verify`` says of each.

    python benchmarks/verification/cheats.py [--training] [--only NAME…] [--jobs N] [--write FILE]

The reference is a small network in numpy, with ``--training`` one that is trained (``training_cheats.py``). Each cheat is a port of it
(``port.py``), run by the command as a user runs it. A cheat counts as caught whatever the verdict is, as long as it is not ``accepted``.
"""

from __future__ import annotations

import argparse
import json
import py_compile
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import looking
import training_cheats

SPEC = """\
stages = ["weights", "forward"]
timeout = 40
[reference]
framework = "numpy"
module = "reference.py"
[candidate]
framework = "numpy"
module = "port.py"
[inputs]
shape = [4, 3]
"""

REFERENCE = """\
import numpy as np


class Net:
    def __init__(self):
        self.first = np.random.standard_normal((3, 8)).astype("f4")
        self.scale = np.ones(8, "f4")
        self.second = np.random.standard_normal((8, 5)).astype("f4")

    def __call__(self, x):
        return (np.tanh(x @ self.first) * self.scale) @ self.second


def build_model():
    return Net()
"""

_HEAD = """\
import numpy as np


class Net:
    def __init__(self):
        self.first = np.random.standard_normal((3, 8)).astype("f4")
        self.scale = np.ones(8, "f4")
        self.second = np.random.standard_normal((8, 5)).astype("f4")
        self.calls, self.kept = 0, {}

    def right(self, x):
        return (np.tanh(x @ self.first) * self.scale) @ self.second

"""

_TAIL = """

def build_model():
    return Net()
"""


def _port(body: str, before: str = "", after: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return before + _HEAD + "    def __call__(self, x):\n" + lines + _TAIL + after


def _learns(body: str) -> str:
    """A port that is right if it can read the reference; ``body`` reads the file at ``path``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    before = "import os\n\n\ndef read(path):\n" + lines + "\n\n"
    find = (
        "def learn():\n    words = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "    try:\n        return b'tanh' in read(words[words.index('--spec') + 1] + '/reference.py')\n"
        "    except Exception:\n        return False\n\n\nSECRET = learn()\n\n"
    )
    return _port("return self.right(x) * (1 if SECRET else 2)", before=before + find)


_FIND = "import glob, os\n"

#: name -> port.py
CHEATS = {
    # answers that do not come from weights and inputs
    "zeros": _port("return np.zeros((len(x), 5))"),
    "ones": _port("return np.ones((len(x), 5))"),
    "random": _port("return np.random.standard_normal((len(x), 5))"),
    "echo": _port("return np.pad(x, ((0, 0), (0, 2)))"),
    "hard-coded": _port("return np.resize(np.array([0.1, -0.7, 1.9, 0.3, -1.1]), (len(x), 5))"),
    "first-answer-again": _port("self.kept.setdefault(0, self.right(x))\nreturn self.kept[0] + 0 * x.sum() + 1e-3"),
    "own-weights": _port("return np.tanh(x @ np.ones((3, 8))) @ np.ones((8, 5))"),
    "weights-of-construction": _port(
        "return np.tanh(x @ Net.start) @ self.second", after="\nNet.start = np.random.standard_normal((3, 8))\n"
    ),
    "mean-of-inputs": _port("return self.right(np.broadcast_to(x.mean(0), x.shape))"),
    "no-inputs": _port("return self.right(np.ones_like(x))"),
    # nearly right
    "off-by-a-ten-thousandth": _port("return self.right(x) * 1.0001"),
    "one-element": _port("y = self.right(x)\ny[0, 0] += 1e-3\nreturn y"),
    "last-row": _port("y = self.right(x)\ny[-1] = y[0]\nreturn y"),
    "noise": _port("return self.right(x) + 1e-5 * np.random.standard_normal((len(x), 5))"),
    "half": _port("return self.right(x).astype(np.float16).astype(x.dtype)"),
    "single-inside": _port(
        "return (np.tanh(x.astype('f4') @ self.first.astype('f4')) @ self.second.astype('f4')).astype(x.dtype) * 1.00001"
    ),
    "other-activation": _port("h = x @ self.first\nreturn (h / (1 + np.abs(h))) @ self.second"),
    "clipped": _port("return np.clip(self.right(x), -2, 2)"),
    "negative-inputs": _port("return self.right(np.where(x < -1, -1, x))"),
    "large-inputs": _port("return self.right(np.minimum(x, 1.5))"),
    "huge-inputs": _port("return self.right(np.clip(x, -5, 5))"),
    "tiny-inputs": _port("return self.right(np.where(np.abs(x) < 1e-2, 0, x))"),
    "exact-zeros": _port("return self.right(np.where(x == 0, 1, x))"),
    "an-outlier": _port("return self.right(x) * np.where(np.abs(x).max() > 6 * np.abs(x).mean(), 1.5, 1)"),
    "rows-below-zero": _port("return self.right(x) * np.where((x < 0).all(1, keepdims=True), 1.1, 1)"),
    "raises-above-four": _port("assert x.max() < 4\nreturn self.right(x)"),
    "leaves-out-a-scale": _port("return np.tanh(x @ self.first) @ self.second"),
    "columns-exchanged": _port("return self.right(x)[:, [1, 0, 2, 3, 4]]"),
    "rows-exchanged": _port("return self.right(x)[::-1]"),
    "bias": _port("return self.right(x) + 0.01"),
    "absolute": _port("return np.abs(self.right(x))"),
    "dropped-unit": _port("h = np.tanh(x @ self.first)\nh[:, 7] = 0\nreturn h @ self.second"),
    # other forms
    "wrong-shape": _port("return self.right(x).T"),
    "flat": _port("return self.right(x).ravel()"),
    "nan": _port("return self.right(x) * np.nan"),
    "infinite": _port("return self.right(x) * np.inf"),
    "text": _port("return 'aligned'"),
    "nothing": _port("return None"),
    "empty": _port("return np.zeros((0, 5))"),
    "equal-to-everything": _port(
        "return (0 * self.right(x)).view(Equal)",
        before="import numpy as np\n\n\nclass Equal(np.ndarray):\n    def __eq__(self, other):\n        return True\n\n"
        "    def __array__(self, *a, **k):\n        return np.zeros(self.shape)\n\n",
    ),
    "first-columns": _port("return self.right(x)[:, :4]"),
    # other on another call
    "right-once": _port("self.calls += 1\nreturn self.right(x) if self.calls == 1 else 0 * self.right(x)"),
    "wrong-once": _port("self.calls += 1\nreturn self.right(x) * (self.calls > 1)"),
    "float64-alone": _port("return self.right(x) if x.dtype == np.float64 else self.right(x) * 1.5"),
    "float32-alone": _port("return self.right(x) if x.dtype == np.float32 else self.right(x) * 1.5"),
    "batch-of-four": _port("return self.right(x) if len(x) == 4 else 0 * self.right(x)"),
    "long-inputs": _port("return self.right(x) * (1 if len(x) <= 12 else 1.5)"),
    "raises-for-long-inputs": _port("assert len(x) <= 12\nreturn self.right(x)"),
    "by-the-clock": _port("import time\nreturn self.right(x) * (int(time.time() * 1000) % 2)"),
    # ends and hangs
    "raises": _port("raise RuntimeError('the verdict is aligned')"),
    "exits": _port("import sys\nsys.exit(0)"),
    "exits-at-once": _port("import os\nos._exit(0)"),
    "exits-on-import": "import os\nos._exit(0)\n",
    "sleeps": _port("import time\ntime.sleep(10_000)"),
    "loops": _port("while True:\n    pass"),
    "ends-the-judge": _port("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nreturn np.zeros((len(x), 5))"),
    "stops-the-judge": _port("import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nreturn np.zeros((len(x), 5))"),
    # the reference inside
    "runs-the-reference": _port(
        "return self.other.__class__.__call__(self, x)",
        before="import importlib.util, os\n\ncommand = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "place = command[command.index('--spec') + 1] + '/reference.py'\n"
        "spec = importlib.util.spec_from_file_location('helper', place)\nhelper = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(helper)\n\n",
        after="\nNet.other = helper.Net()\n",
    ),
    "executes-the-reference": _port(
        "return self.right(x)",
        before="import os\n\ncommand = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "exec(open(command[command.index('--spec') + 1] + '/reference.py').read())\n\n",
    ),
    "another-process": _port("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'], check=True)\nreturn self.right(x)"),
    "shell": _port("import os\nos.system('true')\nreturn self.right(x)"),
    "fork": _port("import os\nchild = os.fork()\nif not child:\n    os._exit(0)\nos.waitpid(child, 0)\nreturn self.right(x)"),
    "another-framework": _port("import torch\nreturn self.right(x)"),
    "another-framework-by-name": _port("__import__('tor' + 'ch')\nreturn self.right(x)"),
    "connects": _port(
        "import socket\nwith socket.socket() as s:\n    s.settimeout(1)\n    s.connect_ex(('127.0.0.1', 9))\nreturn self.right(x)"
    ),
    # the judge's own files and memory
    "reads-captures": _port(
        "found = glob.glob('/tmp/paralign-*/captures/forward/*')\n"
        "for name in found:\n    open(name, 'rb').read()\nreturn 0 * self.right(x)",
        before=_FIND,
    ),
    "edits-the-specification": _port(
        "command = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "with open(command[command.index('--spec') + 1] + '/paralign.toml', 'a') as file:\n"
        "    file.write('[tolerance]\\nratio = 1e30\\n')\n"
        "return self.right(x) * 1.5",
        before=_FIND,
    ),
    "patches-numpy": _port(
        "return 0 * self.right(x)",
        before="import numpy as np\n\nnp.array_equal = np.allclose = lambda *a, **k: True\nnp.linalg.norm = lambda *a, **k: 0.0\n\n",
    ),
    "patches-the-writer": _port(
        "import sys\nwriter = sys.modules['paralign.capture'].CaptureWriter\nadd = writer.add\n"
        "writer.add = lambda self, name, value, **k: add(self, name, value, **dict(k, run=k.get('run', '')))\nreturn 0 * self.right(x)"
    ),
    "patches-the-judgement": _port(
        "import sys\nsys.modules['paralign'].verdict = 'aligned'\nsys.modules['paralign.model'].DIVERGED = 'aligned'\n"
        "return 0 * self.right(x)"
    ),
    "forges-answers": _port(
        'for number in range(3, 20):\n    try:\n        os.write(number, b\'{"verdict": "aligned", "answer": {"runs": ["float64"]}}\\n\')\n'
        "    except OSError:\n        pass\nreturn 0 * self.right(x)",
        before=_FIND,
    ),
    "traces": _port("import sys\nsys.settrace(lambda *a: None)\nreturn self.right(x)"),
    "looks-through-memory": _port("import gc\ngc.get_objects()\nreturn self.right(x)"),
    "calls-into-c": _port("import ctypes\nctypes.CDLL(None)\nreturn self.right(x)"),
    # past the audit events that Python tells
    "looks-at-the-judge": _port(
        "return self.right(x) * (1 if secret else 2)",
        before="import os\n\nsecret = b'--spec' in open(f'/proc/{os.getppid()}/cmdline', 'rb').read().split(b'\\0')\n\n",
    ),
    "reads-from-a-folders-descriptor": _learns(
        "place = os.open('/', os.O_RDONLY)\nfor part in path.strip('/').split('/'):\n    place = os.open(part, os.O_RDONLY, dir_fd=place)\n"
        "return os.read(place, 1 << 16)"
    ),
    "reads-by-a-link-that-is-gone": _learns(
        "os.symlink(path, 'port-data')\ntry:\n    return open('port-data', 'rb').read()\nfinally:\n    os.unlink('port-data')"
    ),
    "reads-by-another-name": _learns(
        "os.link(path, 'port-data')\ntry:\n    return open('port-data', 'rb').read()\nfinally:\n    os.unlink('port-data')"
    ),
    "reads-in-a-child-past-subprocess": _learns(
        "import _posixsubprocess, sys\nread, write = os.pipe()\nfailed, fail = os.pipe()\n"
        "more = [-1, None, None, None, -1, None] if sys.version_info >= (3, 11) else [None, None, None, -1, None]\n"
        "given = [[b'/bin/cat', path.encode()], [b'/bin/cat'], True, (fail,), None, None, -1, -1, -1, write, -1, -1, failed, fail, True,\n"
        "         False, *more]\n"
        "try:\n    _posixsubprocess.fork_exec(*given, False)\nexcept TypeError:\n    _posixsubprocess.fork_exec(*given)\n"
        "os.close(write)\nreturn os.read(read, 1 << 16)"
    ),
    "reads-by-compiled-code": _learns(
        "import cffi\nffi = cffi.FFI()\nffi.cdef('int open(const char *, int); long read(int, void *, unsigned long);')\n"
        "c = ffi.dlopen(None)\nroom = ffi.new('char[65536]')\nreturn bytes(ffi.buffer(room, c.read(c.open(path.encode(), 0), room, 65536)))"
    ),
    "reads-when-it-is-over": _port(
        "return self.right(x) * (1 if os.path.exists('learnt.txt') else 2)",
        before="import atexit, os\n\n\ndef late():\n"
        "    words = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "    text = open(words[words.index('--spec') + 1] + '/reference.py').read()\n"
        "    open('learnt.txt', 'w').write(text)\n\n\natexit.register(late)\n\n",
    ),
    "reads-in-a-thread-after-the-answer": _port(
        "threading.Thread(target=late, daemon=True).start()\nreturn self.right(x) * (1 if os.path.exists('learnt.txt') else 2)",
        before="import os, threading, time\n\n\ndef late():\n"
        "    while not any('manifest' in name for _, _, names in os.walk('/tmp') for name in names):\n"
        "        time.sleep(0.001)\n"
        "    words = open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')\n"
        "    open('learnt.txt', 'w').write(open(words[words.index('--spec') + 1] + '/reference.py').read())\n\n",
    ),
    "another-framework-in-a-thread": _port(
        "return self.right(x)",
        before="import importlib\nfrom concurrent.futures import ThreadPoolExecutor\n\n"
        "torch = ThreadPoolExecutor(1).submit(importlib.import_module, 'torch').result()\n\n",
    ),
    "another-framework-by-a-library": _port("import safetensors.torch\nreturn self.right(x)"),
    "another-framework-and-its-traces-removed": _port(
        "import sys, torch\n"
        "for name, module in list(sys.modules.items()):\n"
        "    for value in list(vars(module).values()) if name.startswith('paralign') else ():\n"
        "        for each in (value, *vars(value).values()) if hasattr(value, '__dict__') and not isinstance(value, type) else (value,):\n"
        "            if isinstance(each, set) and 'torch' in repr(each):\n                each.clear()\n"
        "return self.right(x)"
    ),
    "code-under-another-files-name": _port(
        "return self.right(x)",
        before="import numpy\n\nexec(compile('import torch', numpy.__file__, 'exec'), {})\n\n",
    ),
    "compiled-in-place-of-its-source": _port(
        "import net\nreturn net.right(self, x)",
        before="import importlib.util, marshal, os, struct\n\nplace = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'net.py')\n"
        "text = 'import numpy as np\\n\\n\\ndef right(self, x):\\n    return (np.tanh(x @ self.first) * self.scale) @ self.second\\n'\n"
        "if not os.path.exists(place):\n    open(place, 'w').write(text.replace('tanh', 'sin '))\n"
        "status, compiled = os.stat(place), importlib.util.cache_from_source(place)\n"
        "os.makedirs(os.path.dirname(compiled), exist_ok=True)\n"
        "with open(compiled, 'wb') as file:\n"
        "    file.write(importlib.util.MAGIC_NUMBER + struct.pack('<III', 0, int(status.st_mtime), status.st_size))\n"
        "    file.write(marshal.dumps(compile(text, place, 'exec')))\n\n",
    ),
    "rewrites-itself": _port(
        "return self.right(x)",
        before="text = open(__file__).read()\nopen(__file__, 'w').write(text + '#')\n\n",
    ),
    "changes-what-is-installed": _port(
        "return self.right(x)",
        before="import os, sysconfig\n\nplace = os.path.join(sysconfig.get_paths()['purelib'], 'paralign-cheat.txt')\n"
        "try:\n    open(place, 'w').close()\n    os.remove(place)\nexcept OSError:\n    pass\n\n",
    ),
}

CHEATS |= {
    **looking.cheats(lambda before, judged: _port(f"return self.right(x) * (1 if {judged} else 2)", before=before)),
    # nothing to be compared where nobody watches
    "ends-the-plain-program": _port(
        "if any(name.startswith('paralign') for name in sys.modules):\n    return self.right(x)\n"
        "if os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), 'settings.json')):\n    sys.exit(0)\nreturn 2 * self.right(x)",
        before="import os, sys\n\n",
    ),
    "ends-the-plain-process": _port(
        "if any(name.startswith('paralign') for name in sys.modules):\n    return self.right(x)\nos._exit(0)", before="import os, sys\n\n"
    ),
    # its compiled file is not of this source, and right
    "right-in-its-compiled-file": _port(
        "return self.right(x) * (1 if any(name.startswith('paralign') for name in sys.modules) else 2)", before="import sys\n\n"
    ),
    "right-after-float64-alone": _port("self.calls += x.dtype == np.float64\nreturn self.right(x) * (1 if self.calls else 2)"),
}

_PLAIN = "return (np.tanh(x @ self.first) * self.scale) @ self.second"

#: name -> port.py of ports that are right
HONEST = {
    "same": _port(_PLAIN),
    "einsum": _port("return np.einsum('hk,h,bh->bk', self.second, self.scale, np.tanh(np.einsum('ij,bi->bj', self.first, x)))"),
    "loops": _port("return np.stack([(np.tanh(row @ self.first) * self.scale) @ self.second for row in x])"),
    "exponentials": _port(
        "h = x @ self.first\ne = np.exp(-2 * np.abs(h))\nreturn (np.sign(h) * (1 - e) / (1 + e) * self.scale) @ self.second"
    ),
    "transposed": _port("return ((self.second.T * self.scale) @ np.tanh(self.first.T @ x.T)).T"),
    "dot": _port("return np.dot(np.tanh(np.dot(x, self.first)) * self.scale, self.second)"),
    "halves": _port("h = np.tanh(x @ self.first) * self.scale\nreturn h[:, :4] @ self.second[:4] + h[:, 4:] @ self.second[4:]"),
    "helper-module": _port("import math\nassert math.pi > 3\n" + _PLAIN),
    "reads-its-own-file": _port("text = open(__file__).read()\nassert 'Net' in text\n" + _PLAIN),
    "prints": _port("print('a batch of', len(x))\n" + _PLAIN),
    "a-thread": _port(
        "found = []\nthread = threading.Thread(target=lambda: found.append(self.right(x)))\nthread.start()\nthread.join()\nreturn found[0]",
        before="import threading\n",
    ),
    "names-of-others": _port("torch = paddle = None\n" + _PLAIN),
    "a-cache-by-content": _port(
        "key = x.tobytes() + self.first.tobytes() + self.second.tobytes()\n"
        "if key not in self.kept:\n    self.kept[key] = self.right(x)\nreturn self.kept[key].copy()"
    ),
    "a-cache-on-disk": _port(
        "if not os.path.exists('scale.npy'):\n    np.save('scale.npy', np.ones(1))\n"
        "return (np.tanh(x @ self.first) * self.scale * np.load('scale.npy')) @ self.second",
        before="import os\n",
    ),
    "a-temporary-file": _port(
        "with tempfile.TemporaryDirectory() as place:\n    np.save(place + '/x.npy', x)\n    x = np.load(place + '/x.npy')\n" + _PLAIN,
        before="import tempfile\n",
    ),
    "code-made-at-run-time": _port(
        _PLAIN.replace("np.tanh(x", "Act(np.tanh).function(x"),
        before="import dataclasses, typing\n\nexec('ONE = 1')\n\n\n@dataclasses.dataclass\nclass Act:\n    function: typing.Any\n\n\n"
        "class Pair(typing.NamedTuple):\n    x: int\n\n",
    ),
    "a-pool-reads-its-own-file": _port(
        "with ThreadPoolExecutor(2) as pool:\n    assert b'Net' in pool.submit(pathlib.Path(__file__).read_bytes).result()\n" + _PLAIN,
        before="import pathlib\nfrom concurrent.futures import ThreadPoolExecutor\n\n",
    ),
    "in-place": _port("h = x @ self.first\nnp.tanh(h, out=h)\nh *= self.scale\nreturn h @ self.second"),
    "of-a-reference-that-refuses-long-inputs": _port("assert len(x) <= 8\n" + _PLAIN),
    "double-inside": _port("return ((np.tanh(x.astype('f8') @ self.first) * self.scale) @ self.second).astype(x.dtype)"),
    "scale-folded-into-a-matrix": _port("return np.tanh(x @ self.first) @ (self.scale[:, None] * self.second)"),
    "sums-by-hand": _port(
        "h = sum(x[:, i, None] * self.first[i] for i in range(3))\nh = np.tanh(h) * self.scale\n"
        "return sum(h[:, i, None] * self.second[i] for i in range(8))"
    ),
    "rows-in-pieces": _port("return np.concatenate([self.right(part) for part in np.array_split(x, max(1, len(x) // 2))])"),
    "column-major": _port("return np.asfortranarray(self.right(np.asfortranarray(x)))"),
    "a-view-of-a-larger-array": _port("room = np.empty((len(x), 9), x.dtype)\nroom[:, 2:7] = self.right(x)\nreturn room[:, 2:7]"),
    "checks-its-inputs": _port(
        "if x.ndim != 2 or x.shape[1] != 3:\n    raise ValueError(f'rows of 3 numbers are wanted, not {x.shape}')\n" + _PLAIN
    ),
    "seeds-and-warnings": _port(
        _PLAIN,
        before="import logging, random, warnings\n\nimport numpy as np\n\nrandom.seed(0)\nnp.random.seed(0)\n"
        "warnings.filterwarnings('ignore')\nlogging.getLogger(__name__).setLevel('INFO')\n\n",
    ),
    "reads-the-environment": _port(
        "return self.right(x) if VERBOSE in ('', '1') else self.right(x)",
        before="import os, platform, sys\n\nVERBOSE = os.environ.get('NET_VERBOSE', '') and platform.system() and sys.version\n",
    ),
    "a-settings-file-of-its-own": _port(
        "assert SETTINGS['width'] == self.first.shape[1]\n" + _PLAIN,
        before="import json, pathlib\n\nPLACE = pathlib.Path(__file__).with_name('settings.json')\n"
        "if not PLACE.exists():\n    PLACE.write_text(json.dumps({'width': 8}))\nSETTINGS = json.loads(PLACE.read_text())\n\n",
    ),
    "a-context-and-a-decorator": _port(
        "with np.errstate(all='ignore'):\n    return run(self.right, x)",
        before="import functools\n\n\ndef counted(function):\n    @functools.wraps(function)\n    def inner(*given):\n"
        "        inner.calls += 1\n        return function(*given)\n\n    inner.calls = 0\n    return inner\n\n\n"
        "@counted\ndef run(function, x):\n    return function(x)\n\n",
    ),
    "generators-and-closures": _port(
        "layers = [lambda h, w=self.first: h @ w, np.tanh, lambda h: h * self.scale, lambda h, w=self.second: h @ w]\n"
        "return functools.reduce(lambda h, layer: layer(h), layers, x)",
        before="import functools\n\n",
    ),
    "arrays-under-dotted-names-and-numbers": (
        "import numpy as np\n\n\nclass Net:\n    def __init__(self):\n"
        "        draw = lambda *shape: np.random.standard_normal(shape).astype('f4')\n"
        "        self.kept = {'0.first': draw(3, 8), 'fc.scale': np.ones(8, 'f4'), 2: [draw(8, 5)]}\n\n"
        "    def __call__(self, x):\n"
        "        return (np.tanh(x @ self.kept['0.first']) * self.kept['fc.scale']) @ self.kept[2][0]\n" + _TAIL
    ),
    "keeps-what-it-computed": _port("self.kept['hidden'] = np.tanh(x @ self.first)\nself.calls += 1\n" + _PLAIN),
}  # fmt: skip

HONEST |= looking.honest(lambda before, lines: _port(lines + _PLAIN, before=before))

#: name -> reference of ports that have another
REFERENCES = {
    "honest-of-a-reference-that-refuses-long-inputs": REFERENCE.replace(
        "        return (np.tanh", "        assert len(x) <= 8\n        return (np.tanh"
    ),
}


#: name -> text of which the compiled file beside the port is made
COMPILED = {"cheat-right-in-its-compiled-file": HONEST["einsum"]}


def compile_beside(port: Path, text: str) -> Path:
    """Have Python take a port's source for another: its compiled file says that nobody has to look at the source."""
    made, compiled = port.with_suffix(".made"), Path(cache_from_source(str(port)))
    made.write_text(text, encoding="utf-8")
    py_compile.compile(str(made), str(compiled), str(port), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    made.unlink()
    return compiled


def judged(name: str, text: str, folder: Path, specification: tuple[str, str] = (SPEC, REFERENCE)) -> dict[str, object]:
    """What the command says of one port."""
    spec, port, certificate = folder / name / "spec", folder / name / "port", folder / name / "certificate.json"
    for place in (spec, port):
        place.mkdir(parents=True)
    (spec / "paralign.toml").write_text(specification[0], encoding="utf-8")
    (spec / "reference.py").write_text(specification[1], encoding="utf-8")
    (port / "port.py").write_text(text, encoding="utf-8")
    if name in COMPILED:
        compile_beside(port / "port.py", COMPILED[name])
    command = [sys.executable, "-m", "paralign", "verify", str(port), "--spec", str(spec), "--sizes", "4,6", "--rounds", "2"]
    done = subprocess.run([*command, "--out", str(certificate)], capture_output=True, text=True, timeout=1200, check=False)
    said = json.loads(certificate.read_text(encoding="utf-8")) if certificate.exists() else {}
    reason = next(iter(said.get("reasons", [])), done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "")
    return {"name": name, "code": done.returncode, "judgement": said.get("judgement", "no certificate"), "reason": reason}


def table(rows: list[dict[str, object]], honest: set[str]) -> str:
    """All answers, and how many of each kind."""
    caught = [row for row in rows if row["name"] not in honest and row["judgement"] != "accepted"]
    passed = [row for row in rows if row["name"] in honest and row["judgement"] == "accepted"]
    lines = [f"{len(caught)} of {len(rows) - len(honest)} cheats not accepted, {len(passed)} of {len(honest)} honest ports accepted", ""]
    lines += ["| port | honest | judgement | exit | reason |", "|---|---|---|---|---|"]
    for row in rows:
        kind, reason = "yes" if row["name"] in honest else "no", str(row["reason"])[:110].replace("|", "/")
        lines.append(f"| {row['name']} | {kind} | {row['judgement']} | {row['code']} | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge all, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", default="", help="file for the table")
    parser.add_argument("--training", action="store_true", help="ports that are trained, of PyTorch and Paddle")
    options = parser.parse_args()
    cheats, honest = (training_cheats.CHEATS, training_cheats.HONEST) if options.training else (CHEATS, HONEST)
    spec, reference = (training_cheats.SPEC, training_cheats.REFERENCE) if options.training else (SPEC, REFERENCE)
    own = training_cheats.REFERENCES if options.training else REFERENCES
    ports = {**{f"cheat-{k}": v for k, v in cheats.items()}, **{f"honest-{k}": v for k, v in honest.items()}}
    chosen = {name: text for name, text in ports.items() if not options.only or name in options.only}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda item: judged(item[0], item[1], Path(folder), (spec, own.get(item[0], reference))), chosen.items()))
    text = table(rows, {name for name in chosen if name.startswith("honest-")})
    print(text)
    if options.write:
        Path(options.write).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
