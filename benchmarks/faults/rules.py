"""What each line rule earns, on planted faults and on mistakes in programs that the engine had not seen.

    python benchmarks/faults/rules.py [--planted N] [--unseen N] [--seed S] [--minutes M] [--json FILE] [--write FILE]

Every fault is judged once. A divergence holds what all rules proposed, the strongest first: what would be named without a rule is the
next proposal of another one. ``N`` mistakes of each program are drawn at random.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

HERE = Path(__file__).resolve().parent

#: faults of two kinds: in programs that the engine was written with, and in programs that were written without sight of it
PLANTED, UNSEEN = "planted", "unseen"

#: faults below which nothing is said of a rule that earned nothing
ENOUGH = 100

TEXT = """\
# What each line rule earns

Made by `make rules` (`python benchmarks/faults/rules.py --planted {planted} --unseen {unseen} --seed {seed} --minutes {minutes}`)
at revision {revision}.
A fault is judged once; `report.json` holds what every rule proposed for the line to look at, the strongest first. What would be named
without a rule is the next proposal of another one. `PARALIGN_ABLATE=id,id` leaves rules out of a check.

- *Asked*: faults for which the rule proposed a line. *Won*: its line was named first. *Right*: that was the true line.
- *Earned*: it won rightly, and without it another line would be named. *Cost*: it won wrongly, and without it the true line would be named.

{sample}

Provenance runs the user's files once more, so it speaks only where a check is started from a project's folder, as in the unseen
programs; planted faults are judged in one process, and there the older rules speak alone.

{table}

## Rules that earned nothing

{idle}
"""


@dataclass
class Earning:
    """How one rule did on some faults."""

    asked: int = 0
    won: int = 0
    right: int = 0
    earned: int = 0
    cost: int = 0

    def add(self, rule: str, lines: list[list[Any]]) -> None:
        """One fault: what rules proposed, the strongest first, as (rule, line, whether it is a true one)."""
        if all(each[0] != rule for each in lines):
            return
        self.asked += 1
        if lines[0][0] != rule:
            return
        self.won += 1
        right = bool(lines[0][2])
        following = next((bool(each[2]) for each in lines if each[0] != rule), False)
        self.right += right
        self.earned += right and not following
        self.cost += following and not right

    def __str__(self) -> str:
        return f"{self.asked} | {self.won} | {self.right} | {self.earned} | {self.cost}"


@dataclass
class Draw:
    """Which faults are judged, in the order in which they are, and how many there are of their kind."""

    chosen: list[tuple[str, list[str]]]
    of: int
    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() - self.began > self.seconds


def judged(group: str, draw: Draw, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of drawn faults, one process a program; those that are kept are not judged again."""
    done = {row["id"] for row in kept}
    for program, ids in draw.chosen:
        rest = [each for each in ids if each not in done]
        if draw.over or not rest:
            continue
        command = [sys.executable, str(HERE / "rules.py"), "--worker", group, program, *rest]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"OMP_NUM_THREADS": "1", **os.environ}) as process:
            for line in process.stdout or ():
                yield {"group": group, **json.loads(line)}
                if draw.over:
                    process.terminate()
                    break


def planted(program: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    """The answers on faults of ``programs/``."""
    from judges import judge
    from verify import Corpus

    base = Corpus(program)
    with tempfile.TemporaryDirectory(prefix="rules-") as folder:
        for plant in (each for each in corpus.plants(program) if each.id in ids):
            row = judge(base.of(plant), plant, Path(folder), tools=("paralign",))
            answer = row["paralign"]
            told = {"flagged": answer["flagged"], "first": answer["exact"], "lines": answer["proposals"], "failed": answer["failed"]}
            yield {"id": plant.id, "stage": plant.stage, "seconds": round(answer["seconds"], 1), **told}


def unseen(program: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    """The answers on mistakes in one of the unseen programs."""
    bench = unseen_bench()
    home = bench.PROGRAMS / program
    with tempfile.TemporaryDirectory(prefix="rules-") as folder:
        copy = Path(folder) / home.name
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("result", "__pycache__", "faults.json"))
        for fault in (each for each in bench.faults(home) if f"{program}/{each['id']}" in ids):
            row = bench.judged(home, fault, copy)
            lines = [(rule, line, bench.distance(line, row["truth"]) == 0) for rule, line in row.get("proposals", ())]
            told = {"flagged": row["code"] == 1, "first": row["distance"] == 0, "lines": lines, "failed": row.get("failed", "")}
            yield {"id": row["id"], "stage": "", "seconds": row["seconds"], **told}


def unseen_bench() -> ModuleType:
    """The benchmark of unseen programs, under a name of its own."""
    spec = importlib.util.spec_from_file_location("unseen_run", HERE.parent / "unseen" / "run.py")
    if spec is None or spec.loader is None:
        raise ImportError("benchmarks/unseen/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(group: str, count: int, seed: int, minutes: float) -> Draw:
    """So many mistakes of every program, of programs in a random order."""
    if group == PLANTED:
        faults = {program: [p.id for p in corpus.plants(program) if p.stage and p.stage != "data"] for program in corpus.programs()}
    else:
        bench = unseen_bench()
        homes = {f"{home.parent.name}/{home.name}": home for home in bench.programs([], [])}
        mistakes = {name: [f for f in bench.faults(home) if f["kind"] != bench.HARMLESS] for name, home in homes.items()}
        faults = {name: [f"{name}/{f['id']}" for f in found] for name, found in mistakes.items()}
    chance = random.Random(seed)
    chosen = [(name, chance.sample(ids, min(count, len(ids)))) for name, ids in sorted(faults.items())]
    chance.shuffle(chosen)
    return Draw([each for each in chosen if each[1]], sum(map(len, faults.values())), minutes * 60)


def registered() -> dict[str, str]:
    """Every rule that proposes a line: its id, and what it knows."""
    from paralign.locate.described import GRADIENT
    from paralign.locate.lines import choose, kinds, number_lines
    from paralign.locate.optimizer import watched_steps
    from paralign.locate.provenance.tracing_back import STAGE
    from paralign.locate.shared_lines import SHARED

    lists = (
        number_lines.NUMBER_RULES,
        choose.REPAIR_RULES,
        choose.MISSING_AT_END_RULES,
        choose.MISSING_RULES,
        choose.WIRED_RULES,
        choose.REGION_LINE_RULES,
        kinds.REGION_RULES,
        choose.OPERATION_RULES,
    )
    alone = {
        SHARED: "the line that several regions have in common",
        GRADIENT: "the operation behind which a gradient is wrong first",
        watched_steps.RULE: "the operation of an optimizer's own step that is wrong first",
        STAGE: "what the stage named itself, where no rule knows better",
    }
    return {rule.id: rule.about for rules in lists for rule in rules} | alone


def earnings(rows: list[dict[str, Any]]) -> dict[str, Earning]:
    """How every rule did; also those ids that are in no list."""
    rules = dict.fromkeys([*registered(), *(each[0] for row in rows for each in row["lines"])])
    found = {rule: Earning() for rule in rules}
    for row in rows:
        for rule, earning in found.items():
            if row["lines"]:
                earning.add(rule, row["lines"])
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """What each rule earned, on both kinds of faults."""
    own = [earnings([row for row in rows if row["group"] == group]) for group in (PLANTED, UNSEEN)]
    about = registered()
    head = [
        "| rule | knows | planted: asked | won | right | earned | cost | unseen: asked | won | right | earned | cost |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    rules = [*about, *sorted({*own[0], *own[1]} - set(about))]
    return "\n".join(
        head + [f"| `{rule}` | {about.get(rule, '')} | {own[0].get(rule, Earning())} | {own[1].get(rule, Earning())} |" for rule in rules]
    )


def sample(rows: list[dict[str, Any]], draws: dict[str, Draw]) -> str:
    """What was measured, and how much was not."""
    said = []
    for group, draw in draws.items():
        own = [row for row in rows if row["group"] == group]
        asked = sum(len(ids) for _, ids in draw.chosen)
        located = sum(bool(row["lines"]) for row in own)
        said.append(
            f"- {group}: {len(own)} of {asked} drawn faults were judged before the time was up, of {draw.of} that there are; "
            f"{sum(row['flagged'] for row in own)} flagged, {sum(bool(row['first']) for row in own)} with the true line first; "
            f"in {located} of them rules proposed lines."
        )
    return "\n".join(said)


def idle(rows: list[dict[str, Any]]) -> str:
    """The rules that earned nothing, in words."""
    every = earnings(rows)
    never = [f"`{rule}`" for rule, earning in every.items() if not earning.asked]
    nothing = [f"`{rule}`" for rule, earning in every.items() if earning.asked and not earning.earned]
    count = sum(bool(row["lines"]) for row in rows)
    enough = "" if count >= ENOUGH else f" With fewer than {ENOUGH} faults that says little."
    return (
        f"Of {count} faults for which rules proposed lines.{enough}\n\n"
        f"Proposed nothing: {', '.join(never) or 'none'}.\n\n"
        f"Proposed lines, none of which was the only true one: {', '.join(nothing) or 'none'}."
    )


def main() -> None:
    """Draw, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planted", type=int, default=6, help="faults of each program of the corpus")
    parser.add_argument("--unseen", type=int, default=2, help="mistakes of each unseen program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="for each kind of faults")
    parser.add_argument("--json", type=Path, help="file for the rows; faults that it holds are not judged again")
    parser.add_argument("--write", type=Path, help="file for the page")
    parser.add_argument("--worker", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        answer(*options.worker[:2], options.worker[2:])
        return
    rows = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.exists() else []
    draws = {}
    for group, count in ((PLANTED, options.planted), (UNSEEN, options.unseen)):
        draws[group] = drawn(group, count, options.seed, options.minutes)
        for row in judged(group, draws[group], rows):
            rows.append(row)
            print(
                row["id"], "line" if row["first"] else "-", [each[0] for each in row["lines"]], row["failed"], file=sys.stderr, flush=True
            )
            if options.json:
                options.json.write_text(json.dumps(rows), encoding="utf-8")
    page = TEXT.format(**vars(options), revision=revision(), sample=sample(rows, draws), table=table(rows), idle=idle(rows))
    print(page)
    if options.write:
        options.write.write_text(page, encoding="utf-8")


def revision() -> str:
    """The revision whose engine the figures are of."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown (no git checkout)"


def answer(group: str, program: str, ids: list[str]) -> None:
    """Print rows as they come, one a line; whatever the programs print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for row in (planted if group == PLANTED else unseen)(program, ids):
        print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main()
