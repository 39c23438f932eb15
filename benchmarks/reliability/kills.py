"""Kills at random: workers, paralign itself, or both end at a random moment of a check; then the next check is held against a clean one.

A project has two references and two candidates; a check is of one of each, right where they are of a kind: the truth is known. Checks
run in a folder that the ones before have left their captures in, each with a reference and a candidate drawn anew; after every second
kill, one runs to its end. Counted are wrong verdicts of checks with a kill, processes that are left after three seconds, checks without
a kill whose report is not that of a clean folder, and of those the ones that followed a change of the reference (stale reuse).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NUMPY = """
import numpy as np

WEIGHT = np.random.default_rng(0).normal(size=(6, 4))


def build_model():
    return lambda x: np.tanh(x @ WEIGHT.astype(x.dtype)) * {factor}


def metric(outputs, labels):
    return float((np.asarray(outputs).argmax(1) == labels).mean())
"""

TORCH = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)) * {factor})


def build_model():
    return Net()


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

#: edits are tried for long: how many the usual seconds suffice for depends on what else the machine does
SETTINGS = """
timeout = 200
stages = [{stages}]
[reference]
framework = "{framework}"
[candidate]
framework = "{framework}"
[inputs]
shape = [5, 6]
[labels]
shape = [5]
dtype = "int64"
high = 4
[repair]
seconds = 150
"""

STAGES = {"numpy": '"weights", "forward", "metric"', "torch": '"weights", "forward", "loss", "backward"'}
PROGRAMS = {"numpy": NUMPY, "torch": TORCH}

#: what the two references, and the two candidates, multiply with
FACTORS = (1.0, 1.5)

#: who is killed
VICTIMS = ("worker", "paralign", "both")

#: exit codes of a check that concluded: aligned, diverged; and of one that says that it could not
CONCLUDED, FAILED = {0: True, 1: False}, {3, 4}

#: kills after which a check without one follows: what one has left, the next one meets too
ROUND = 2

#: lines of what a check said that are told where it is not as it should be
SAID = 12

#: places at which a report is not as it should be that are told
APART = 5

#: seconds after which nothing may be left of a check
LIMIT = 3.0

#: the environment variable that all processes of one check share
MARK = "PARALIGN_KILLS"

Kind = tuple[int, int]

#: which reference, and which candidate
KINDS: tuple[Kind, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass
class Tally:
    """What came of the trials of one kind of victim."""

    kills: int = 0
    following: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unequal: list[str] = field(default_factory=list)
    changed: int = 0
    stale: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what another folder's trials came to as well."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Bench:
    """One project of a framework, with the clean reports of its checks."""

    def __init__(self, framework: str, folder: Path, kinds: tuple[Kind, ...] = KINDS) -> None:
        self.framework, self.folder, self.kinds = framework, folder, kinds
        folder.mkdir()
        text = SETTINGS.format(framework=framework, stages=STAGES[framework])
        (folder / "paralign.toml").write_text(text, encoding="utf-8")
        self.clean: dict[Kind, Any] = {}
        self.seconds = 0.0
        self.before: Kind = (0, 0)
        self.began = 0
        for kind in kinds:
            self.write(kind)
            began = time.monotonic()
            code = self.start(secrets.token_hex(8)).wait()
            self.seconds += (time.monotonic() - began) / len(kinds)
            if CONCLUDED.get(code) is not (kind[0] == kind[1]):
                raise SystemExit(f"a clean check of {framework} {kind} ends with exit code {code}: {self.said()}")
            self.clean[kind] = self.report()
            shutil.rmtree(folder / "result")

    def write(self, kind: Kind) -> None:
        """Put a reference and a candidate in place."""
        for name, number in zip(("reference", "candidate"), kind, strict=True):
            path = self.folder / f"{name}.py"
            path.write_text(PROGRAMS[self.framework].format(factor=FACTORS[number]), encoding="utf-8")

    def start(self, mark: str) -> subprocess.Popen[bytes]:
        """Begin a check whose processes bear a mark."""
        command = [sys.executable, "-m", "paralign", "check", str(self.folder)]
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, MARK: mark, "PARALIGN_PROGRESS": "lines"})

    def said(self) -> str:
        """The last lines of what the check said, in one."""
        lines = (self.folder / "said").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-SAID:])

    def report(self) -> Any:
        """The report without what differs from run to run; None where there is none."""
        path = self.folder / "result" / "report.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        for stage in found["stages"]:
            stage.pop("seconds", None)
            stage.pop("peak_bytes", None)
        found["preflight"] = [line for line in found["preflight"] if "reused" not in line]
        return found

    def trial(self, victim: str, draw: random.Random, tally: Tally) -> None:
        """One check whose victims are killed at a random moment; where it ends before, it is judged as a check without a kill."""
        kind = draw.choice(self.kinds)
        delay, mark = draw.uniform(0.0, self.seconds), secrets.token_hex(8)
        told = f"{self.framework}, {victim} after {delay:.2f} s, {self.before} then {kind}"
        self.write(kind)
        self.began = time.time_ns()
        process = self.start(mark)
        time.sleep(delay)
        if kill(victim, process, mark, draw):
            tally.kills += 1
            code = process.wait()
            remaining = left(mark, process.pid)
            if remaining:
                tally.left.append(f"{told}: {remaining}")
            came = self.outcome(code, kind)
            tally.outcomes[came] += 1
            if came == "wrong":
                tally.wrong.append(f"{told}: exit code {code}")
        else:
            self.judge(process.wait(), kind, tally, told)
        self.before = kind

    def outcome(self, code: int, kind: Kind) -> str:
        """What a check with a kill came to.

        ``right``, also ``with a note`` on what could not be tried; ``wrong``; ``failed``, and said so; ``ended`` with its victim,
        or ``before it began``: then the folder is as the last check left it.
        """
        right, found = kind[0] == kind[1], self.report()
        path = self.folder / "result" / "report.json"
        if found is not None and path.stat().st_mtime_ns < self.began:
            begun = b"starting both sides" in (self.folder / "said").read_bytes()
            return "wrong" if begun or code >= 0 else "ended before it began"
        if found is not None and {"aligned": True, "diverged": False}.get(found["verdict"], right) is not right:
            return "wrong"
        if code in CONCLUDED:
            if CONCLUDED[code] is not right or found is None:
                return "wrong"
            return "right" if found == self.clean[kind] else "right with a note"
        if code < 0:
            return "ended"
        return "failed" if code in FAILED else "wrong"

    def next(self, draw: random.Random, tally: Tally) -> None:
        """A check without a kill in the same folder."""
        kind = draw.choice(self.kinds)
        self.write(kind)
        self.judge(self.start(secrets.token_hex(8)).wait(), kind, tally, f"{self.framework}, {self.before} then {kind}")
        self.before = kind

    def judge(self, code: int, kind: Kind, tally: Tally, told: str) -> None:
        """The report of a check after kills has to be that of a clean one."""
        changed = self.before[0] != kind[0]
        tally.following += 1
        tally.changed += changed
        if self.report() != self.clean[kind] or CONCLUDED.get(code) is not (kind[0] == kind[1]):
            apart = ", ".join(differing(self.clean[kind], self.report())[:APART])
            tally.unequal.append(f"{told}: exit code {code}: other than a clean one: {apart or 'nothing'}: {self.said()}")
            if changed:
                tally.stale.append(told)


def differing(clean: Any, found: Any, place: str = "report") -> list[str]:
    """Where two reports differ: places and, of plain values, both."""
    if isinstance(clean, dict) and isinstance(found, dict):
        parts = [differing(clean.get(key), found.get(key), f"{place}.{key}") for key in sorted({*clean, *found})]
    elif isinstance(clean, list) and isinstance(found, list) and len(clean) == len(found):
        parts = [differing(one, other, f"{place}[{at}]") for at, (one, other) in enumerate(zip(clean, found, strict=True))]
    else:
        parts = [] if clean == found else [[f"{place}: {str(clean)[:80]} / {str(found)[:80]}"]]
    return [each for part in parts for each in part]


def kill(victim: str, process: subprocess.Popen[bytes], mark: str, draw: random.Random) -> bool:
    """Kill the victims; a worker that is not there yet is waited for. False where the check has ended before."""
    while True:
        if process.poll() is not None:
            return False
        workers = [pid for pid, command in marked(mark) if b"worker/__main__.py" in command]
        if workers or victim == "paralign":
            break
        time.sleep(0.01)
    chosen = [process.pid] if victim == "paralign" else [draw.choice(workers)]
    if victim == "both":
        chosen = [process.pid, *workers]
    with suppress(ProcessLookupError):
        for pid in chosen:
            os.kill(pid, signal.SIGKILL)
        return True
    return False


def marked(mark: str) -> list[tuple[int, bytes]]:
    """Living processes with a mark in their environment, and their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), (entry / "cmdline").read_bytes()))
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def left(mark: str, dead: int) -> list[str]:
    """What is left of a check after the limit; nothing as soon as nothing is."""
    until = time.monotonic() + LIMIT
    while True:
        found = [f"{pid} {command!r}" for pid, command in marked(mark) if pid != dead and command]
        if not found or time.monotonic() >= until:
            return found
        time.sleep(0.02)


def run(bench: Bench, count: int, seed: str, until: float) -> dict[str, Tally]:
    """So many kills, a third of each kind of victim; fewer where the time ends before."""
    draw = random.Random(f"{bench.framework} {seed}")
    tallies = {victim: Tally() for victim in VICTIMS}
    for number in range(count):
        tally = tallies[VICTIMS[number % len(VICTIMS)]]
        before = tally.kills
        while tally.kills == before:
            bench.trial(VICTIMS[number % len(VICTIMS)], draw, tally)
        late = time.monotonic() > until
        if number % ROUND == ROUND - 1 or number == count - 1 or late:
            bench.next(draw, tally)
        print(f"{bench.framework} {number + 1} of {count}", file=sys.stderr, flush=True)
        if late:
            break
    return tallies


def share(framework: str, count: int, chosen: argparse.Namespace, folder: Path) -> dict[str, Tally]:
    """The kills of a framework, in several folders at a time."""
    jobs, until = chosen.jobs, time.monotonic() + 60 * chosen.minutes

    def one(job: int) -> dict[str, Tally]:
        mine = count // jobs + (job < count % jobs)
        return run(Bench(framework, folder / f"{framework}-{job}"), mine, f"{chosen.seed} {job}", until)

    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(one, range(min(jobs, count))))
    tallies = {victim: Tally() for victim in VICTIMS}
    for part in parts:
        for victim, tally in part.items():
            tallies[victim].add(tally)
    return tallies


def table(framework: str, tallies: dict[str, Tally]) -> list[str]:
    """A row for each kind of victim."""
    rows = []
    for victim, tally in tallies.items():
        came = ", ".join(f"{count} {what}" for what, count in sorted(tally.outcomes.items()))
        cells = [
            f"{framework}: {victim}",
            f"{tally.kills}",
            came,
            f"{len(tally.wrong)}",
            f"{len(tally.left)}",
            f"{len(tally.unequal)} of {tally.following}",
            f"{len(tally.stale)} of {tally.changed}",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def main() -> int:
    """Print the table; exit code 1 where something is not as it should be."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--numpy", type=int, default=174, help="kills with numpy sides")
    options.add_argument("--torch", type=int, default=30, help="kills with PyTorch sides")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=600.0, help="time after which no further kill begins, for each framework")
    options.add_argument("--jobs", type=int, default=2, help="folders in which checks run at a time")
    chosen = options.parse_args()
    rows = [
        "| killed | kills | that check | wrong verdicts | left after 3 s | next check not as clean | stale reuses |",
        "|---|---|---|---|---|---|---|",
    ]
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="paralign-kills-") as folder:
        for framework, count in (("numpy", chosen.numpy), ("torch", chosen.torch)):
            if count:
                tallies = share(framework, count, chosen, Path(folder))
                rows += table(framework, tallies)
                faults += [fault for t in tallies.values() for fault in (*t.wrong, *t.left, *t.unequal)]
    print("\n".join(rows))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
