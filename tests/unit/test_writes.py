"""What a rank is said to write and to print. The audit hook cannot be removed, so it is watched in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json, os, sys, warnings
sys.path.insert(0, os.path.abspath("site-packages"))
from paralign.worker.process import writes
opened = writes.Writes([])
printed = writes.watch_prints(opened.is_users)
import package
import own
package.save("saved.txt")
package.greet()
warnings.warn("a warning of the user's line")
print("a line of the log")
sys.stderr.write("another\\n")
found = {"files": {os.path.basename(path): bool(line) for path, line in opened.seen.items()}, "lines": [each.lines for each in printed]}
open(os.devnull, "w").close()
print(json.dumps(found), file=sys.__stdout__)
"""

PACKAGE = """
open("cache.json", "w").close()

def save(path):
    open(path, "w").close()

def greet():
    print("a banner")
"""


def test_what_packages_write_while_they_are_imported_and_warnings_are_not_the_users(tmp_path):
    """Two ranks that import a package with a cache, or that are warned, do nothing that a port could guard by its rank."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "package.py").write_text(PACKAGE)
    (tmp_path / "own.py").write_text("open('log.txt', 'w').close()\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["files"] == {"log.txt": True, "saved.txt": True}
    assert found["lines"] == [["a line of the log"], ["another"]]
