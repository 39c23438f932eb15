"""Ports that look for the judge and compute otherwise where they do not find it, and honest ones that look round for other reasons.

They belong to the lists of ``cheats.py`` (numpy) and ``training_cheats.py`` (PyTorch to Paddle). Each way of looking is one expression,
true where a judge of old was: under a worker of paralign.
"""

from __future__ import annotations

from typing import Callable

#: name -> (imports and functions before the port, expression that holds where it is judged)
WAYS = {
    "walks-up-the-stack": (
        (
            "import sys\n\n\ndef callers():\n    frame = sys._getframe(1)\n    while frame is not None:\n"
            "        yield frame.f_code.co_filename\n        frame = frame.f_back\n\n\n"
        ),
        "any('/worker/' in file for file in callers())",
    ),
    "inspects-the-stack": ("import inspect\n\n", "any('paralign' in info.filename for info in inspect.stack(0))"),
    "extracts-the-stack": ("import traceback\n\n", "len(traceback.extract_stack()) > 8"),
    "asks-what-is-imported": ("import sys\n\n", "'paralign' in sys.modules"),
    "asks-what-was-imported-first": ("import sys\n\nJUDGED = any(name.startswith('paralign') for name in sys.modules)\n\n", "JUDGED"),
    "reads-the-arguments": ("import sys\n\n", "sys.argv[-1].endswith('.json')"),
    "reads-the-variables": ("import os\n\n", "'OMP_WAIT_POLICY' in os.environ"),
    "asks-for-the-main-program": ("import sys\n\n", "hasattr(sys.modules['__main__'], '_find_paralign')"),
    "counts-the-threads": ("import threading\n\n", "threading.active_count() > 1"),
    "asks-who-reads-its-source": ("\n", "'frozen' not in type(__spec__.loader).get_code.__code__.co_filename"),
    "asks-whether-it-leads-its-session": ("import os\n\n", "os.getsid(0) == os.getpid()"),
    "looks-for-pipes": (
        (
            "import os, stat\n\n\ndef is_pipe(number):\n    try:\n        return stat.S_ISFIFO(os.fstat(number).st_mode)\n"
            "    except OSError:\n        return False\n\n\n"
        ),
        "any(map(is_pipe, range(3, 32)))",
    ),
}

#: name -> (imports and functions before the port, lines that a pass begins with)
REASONS = {
    "logs-where-it-was-called": (
        "import logging\n\nlogging.basicConfig(level='DEBUG')\nLOG = logging.getLogger(__name__)\n\n",
        "LOG.debug('a batch', stack_info=True, stacklevel=2)\n",
    ),
    "warns-its-caller": ("import warnings\n\n", "warnings.warn('float32 is tried alone', stacklevel=3)\n"),
    "names-its-caller": (
        "import inspect\n\n",
        "frame = inspect.currentframe()\nself.caller = '' if frame is None or frame.f_back is None else frame.f_back.f_code.co_name\n",
    ),
    "asks-for-signatures": (
        (
            "import inspect\n\n\ndef known(function, **settings):\n    taken = inspect.signature(function).parameters\n"
            "    return {name: value for name, value in settings.items() if name in taken}\n\n\n"
        ),
        "assert known(sorted, reverse=True, other=2) == {'reverse': True}\n",
    ),
    "parses-arguments-that-it-knows": (
        (
            "import argparse\n\nPARSER = argparse.ArgumentParser(add_help=False)\nPARSER.add_argument('--verbose', action='store_true')\n"
            "OPTIONS, _ = PARSER.parse_known_args()\n\n"
        ),
        "if OPTIONS.verbose:\n    print(x.shape)\n",
    ),
    "is-quiet-under-tests": (
        "import os, sys\n\nQUIET = 'pytest' in sys.modules or os.environ.get('CI') or not sys.stdout.isatty()\n\n",
        "if not QUIET:\n    print(x.shape)\n",
    ),
    "keeps-the-stack-of-an-error": (
        "import traceback\n\n",
        "try:\n    raise KeyError('none')\nexcept KeyError:\n    self.stack = traceback.format_stack() + [traceback.format_exc()]\n",
    ),
    "has-a-program-of-its-own": (
        "import sys\n\nif getattr(sys.modules['__main__'], '__file__', None) == __file__:\n    print('a port')\n\n",
        "",
    ),
}


def cheats(port: Callable[[str, str], str]) -> dict[str, str]:
    """Name -> text of ports that are right where they see a judge.

    Args:
        port: makes the text of what stands before a port, and of the expression that tells a judge.
    """
    return {name: port(before, judged) for name, (before, judged) in WAYS.items()}


def honest(port: Callable[[str, str], str]) -> dict[str, str]:
    """Name -> text of ports that are right.

    Args:
        port: makes the text of what stands before a port, and of the lines that its pass begins with.
    """
    return {name: port(before, lines) for name, (before, lines) in REASONS.items()}
