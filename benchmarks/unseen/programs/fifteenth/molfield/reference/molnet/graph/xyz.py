from dataclasses import dataclass
from typing import List

import numpy as np


@dataclass
class Frame:
    symbols: List[str]
    positions: np.ndarray
    forces: np.ndarray
    energy: float


def read_xyz(path):
    frames = []
    with open(path) as f:
        while True:
            head = f.readline()
            if not head.strip():
                break
            n = int(head)
            info = dict(item.split("=", 1) for item in f.readline().split())
            rows = [f.readline().split() for _ in range(n)]
            values = np.array([[float(v) for v in row[1:]] for row in rows])
            frames.append(
                Frame(
                    symbols=[row[0] for row in rows],
                    positions=values[:, :3],
                    forces=values[:, 3:6],
                    energy=float(info["energy"]),
                )
            )
    return frames
