"""What a launched process knows of itself, and where it leaves its files."""

import json
import os
from typing import Any, Dict, Optional, Tuple

from paralign.trainlog.log import RANKS

__all__ = ["LOCAL_RANKS", "LOOK", "RANKS", "SIZES", "number", "put", "rank_file"]

#: the variables by which launchers tell a process how many there are
SIZES = ("WORLD_SIZE", "PADDLE_TRAINERS_NUM", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")

#: the same for its number on this machine, by which it takes its device
LOCAL_RANKS = ("LOCAL_RANK", "PADDLE_RANK_IN_NODE", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")

#: seconds between two looks at the child and at the launcher
LOOK = 0.05


def number(names: Tuple[str, ...]) -> Optional[int]:
    """The first of some environment variables that holds a number; None where none does."""
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def rank_file(folder: str, rank: int, what: str) -> str:
    """The path of one of a rank's files.

    ``answer.json``, ``end.json``, ``stacks``, ``fault``, ``progress``.
    """
    return os.path.join(folder, f"rank-{rank}.{what}")


def put(path: str, value: Dict[str, Any]) -> None:
    """Write a file of JSON that is there whole or not at all."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".tmp", path)
