"""The core's dependencies at the least versions that a ``pyproject.toml`` promises, as pip takes them. Runs under Python 3.10.

python benchmarks/lowest.py pyproject.toml
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def pinned(text: str) -> list[str]:
    r"""``name==bound`` of every core dependency; the markers of versions of Python are left to pip.

    >>> pinned('dependencies = [\n    "numpy>=1.24",\n    "tomli>=2; python_version < \'3.11\'",\n]')
    ['numpy==1.24', 'tomli==2']
    """
    listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    if listed is None:
        raise ValueError("no [project] dependencies")
    return [f"{name}=={bound}" for name, bound in re.findall(r'"([\w-]+)>=([\d.]+)', listed[1])]


if __name__ == "__main__":
    print(*pinned(Path(sys.argv[1]).read_text(encoding="utf-8")))
