"""The log of a prediction program.

Time before, in and after the model, and memory, as AutoLog's reports name them.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Dict, Iterator, List, Optional

from paralign.errors import UsageError
from paralign.trainlog.peaks import peak_bytes

#: the parts of a prediction
PARTS = ("preprocess", "inference", "postprocess")


class InferenceLog:
    """Times the parts of predictions.

    Args:
        warmup: predictions at the start whose times do not count.

    Example:
        >>> log = InferenceLog(warmup=0)
        >>> with log.part("preprocess"):
        ...     image = [0.0]
        >>> with log.part("inference"):
        ...     score = sum(image)
        >>> log.batch(samples=1)
        >>> sorted(log.report())[:3]
        ['batches', 'inference_time_ms', 'peak_memory_mb']
    """

    def __init__(self, *, warmup: int = 1) -> None:
        self._warmup = warmup
        self._now: Dict[str, float] = {}
        self._done: List[Dict[str, float]] = []
        self._samples = self._seen = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of a prediction.

        Raises:
            UsageError: there is no such part.
        """
        if name not in PARTS:
            raise UsageError(f"a prediction has no part {name!r}", hint="choose one of: " + ", ".join(PARTS))
        began = time.perf_counter()
        yield
        self._now[name] = self._now.get(name, 0.0) + time.perf_counter() - began

    def batch(self, samples: int) -> None:
        """A prediction of some samples has ended."""
        self._seen += 1
        if self._seen > self._warmup:
            self._done.append(self._now)
            self._samples += samples
        self._now = {}

    def report(self) -> Dict[str, Optional[float]]:
        """Milliseconds of each part of a batch, samples a second, and memory in MB.

        Milliseconds are means, None where none was timed.
        """
        count = len(self._done)
        told: Dict[str, Optional[float]] = {"batches": float(count), "samples": float(self._samples)}
        whole = sum(sum(each.values()) for each in self._done)
        for name in PARTS:
            timed = [each[name] for each in self._done if name in each]
            told[f"{name}_time_ms"] = 1e3 * sum(timed) / len(timed) if timed else None
        told["samples_per_second"] = self._samples / whole if whole > 0 else None
        told["peak_memory_mb"] = peak_bytes() / 2**20
        return told
