"""One process: all that is asked for of one program, a line of JSON for each plant.

python benchmarks/faults/worker.py PROGRAM [ID…]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import corpus


def main() -> None:
    """Judge the plants and print the answers; whatever the programs print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    from judges import judge
    from verify import Corpus

    program, *wanted = sys.argv[1:]
    base = Corpus(program)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        for plant in corpus.plants(program):
            if not wanted or plant.id in wanted:
                print(json.dumps(judge(base.of(plant), plant, Path(folder))), file=answers, flush=True)


if __name__ == "__main__":
    main()
