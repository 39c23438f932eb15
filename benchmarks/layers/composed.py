"""Check random models, composed of many steps, with their ports: all are right, and are proven so apart from paralign.

python benchmarks/layers/composed.py [--seed S] [--count N] [--json FILE] [--resume] [--faults] [--keep FOLDER] [--write PAGE]

From a seed, a PyTorch module and its Paddle port are written (``composed_programs.py``), proven equal in float64
(``composed_proof.py``), and
checked by ``paralign check`` as a user runs it. ``--faults`` plants one mistake in each port, of which
the check must not say ``aligned``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
sys.path.insert(0, str(HERE))

from composed_faults import UNSEEN, planted  # noqa: E402 - found beside this file only now
from composed_programs import compose  # noqa: E402
from composed_proof import NEAR, NEAR_BACKWARD, Silent, prove  # noqa: E402

STAGES = ("weights", "forward", "loss", "backward")

#: seconds after which a check counts as failed
PATIENCE = 300

#: a planted mistake counts where the proof shows that outputs or gradients move by this, relative
SEEN = 2e-6

#: mistakes that are tried before a port is left without one, and models before a seed is left without one
ATTEMPTS = 12


def checked(folder):
    """The verdict of each stage of ``paralign check``, and why one is not aligned."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "paralign", "check", str(folder), *STAGES, "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {}, f"no answer within {PATIENCE} s"
    except json.JSONDecodeError:
        return {}, f"exit code {done.returncode}: {done.stderr[-600:]}"
    stages = report["stages"]
    return {stage["name"]: stage["verdict"] for stage in stages}, next((said(s) for s in stages if s["verdict"] != "aligned"), "")


def said(stage):
    """Why a stage is not aligned, in short."""
    if stage["failure"]:
        return "{side}: {type}: {message}".format(**stage["failure"])[:400]
    places = []
    for found in stage["divergences"]:
        point = found["candidate"] or {}
        line = (point.get("source") or "").rpartition("/")[2]  # the folder is a temporary one
        places.append(f"{found['what']} {point.get('op', '')} {line}{' confirmed' * bool(found['confirmed'])}")
    causes = [f["cause"] for f in stage["findings"]]
    return f"{stage['name']}: error÷noise {stage['ratio']} at {stage['worst']}; {'; '.join([*places, *causes, *stage['warnings']])}"[:500]


def one(seed, keep, *, fault):
    """The row of one seed."""
    began = time.perf_counter()
    program, apart, why = telling(seed)
    row = {"seed": seed, "steps": program.steps, "fault": "", "verdicts": {}, "why": "", "apart": apart}
    if why:
        return {**row, "why": f"the generator's mistake: {why}"[:500], "generator": True}
    if apart[0] > NEAR or apart[1] > NEAR_BACKWARD:
        return {**row, "why": f"the generator's mistake: apart by {apart}", "generator": True}
    if fault:
        row["fault"], changed = broken(program)
        if changed is None:
            return {**row, "why": "no mistake could be planted", "generator": True}
        program.candidate = changed
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(keep or scratch) / (f"{seed}-fault" if fault else str(seed))
        program.write(folder)
        row["verdicts"], row["why"] = checked(folder)
    return {**row, "seconds": round(time.perf_counter() - began, 1)}


def telling(seed):
    """The program of a seed, how far its sides are apart, and what is wrong with it; drawn again where an output is constant."""
    for attempt in range(ATTEMPTS):
        program = compose(seed, attempt)
        try:
            return program, prove(program), ""
        except Silent:
            continue
        except Exception as error:  # noqa: BLE001 - a generator's mistake is a row, to be mended there
            return program, None, f"{type(error).__name__}: {error}"
    return program, None, "every draw has a constant output"


def broken(program):
    """A mistake and the candidate with it, drawn among those that the proof sees; None without one."""
    rng, right = random.Random(program.seed + 1), program.candidate
    for _ in range(ATTEMPTS):
        found = planted(right, rng)
        if found is None:
            break
        if found[0] in UNSEEN:
            return found
        program.candidate = found[1]
        try:
            seen = max(prove(program)) > SEEN
        except Exception:  # noqa: BLE001 - a mistake that does not run is none to look for
            seen = False
        program.candidate = right
        if seen:
            return found
    return "", None


def is_aligned(row):
    return set(row["verdicts"].values()) == {"aligned"}


def verdict(row):
    """What the whole check came to."""
    if row.get("generator"):
        return "generator"
    order = ("error", "diverged", "underpowered", "aligned")
    return next((v for v in order if v in row["verdicts"].values()), "error")


PAGE = """# Random ports that are right

Models composed at random, and their ports, each written out as a program: {least} to {most} steps (layers, formulas, attention,
recurrence, interpolation, …), in line, in nested modules, in functions, in loops, in residual and parallel branches, in modules that are
called twice; random sizes and arguments, a loss, labels and an optimizer. Every port is right: the benchmark runs both sides in float64
with the same weights, apart from paralign, and their outputs agree within 1e-9, loss and gradients within 1e-7. Then `paralign check`
judges them as a user runs it: weights, forward, loss, and backward with updates, in eval mode and in train mode.

What is not `aligned` is listed: a false alarm, or what Paddle 3.3 itself does otherwise behind the first step, which the proof does not see
(its `cross_entropy` takes no logarithm below -64, so that logits further apart give another loss).

Made by `make composed SEED={seed} COUNT={count}` with {versions}.

**{aligned} of {count} are `aligned` in every stage.**{told}

| stage | aligned | diverged | underpowered | error |
|---|---:|---:|---:|---:|
{table}
{listed}
## Steps that were drawn

{steps}
"""


def page(rows, seed, versions):
    """The rows as a page of docs."""
    right = sorted((row for row in rows if not row["fault"]), key=lambda row: row["seed"])
    table = []
    for stage in STAGES:
        counted = Counter(row["verdicts"].get(stage, "error") for row in right)
        table.append(f"| {stage} | {' | '.join(str(counted[v]) for v in ('aligned', 'diverged', 'underpowered', 'error'))} |")
    off = [row for row in right if not is_aligned(row)]
    listed = "".join(f"- seed {row['seed']}, {', '.join(row['steps'])}: {verdict(row)}: {row['why']}\n" for row in off)
    faults = [row for row in rows if row["fault"]]
    silent = [row for row in faults if verdict(row) == "aligned"]
    told = f" Of {len(faults)} mistakes planted in such ports {len(faults) - len(silent)} are not `aligned`." if faults else ""
    names = Counter(name for row in right for name in row["steps"])
    return PAGE.format(
        least=min(len(row["steps"]) for row in right),
        most=max(len(row["steps"]) for row in right),
        seed=seed,
        count=len(right),
        versions=versions,
        aligned=len(right) - len(off),
        told=told,
        table="\n".join(table),
        listed=f"\n{listed}" if listed else "",
        steps=", ".join(f"{name} {n}" for name, n in sorted(names.items())) + ".",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: one that nobody has seen, by the clock)")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--json", type=Path, help="a line for each row; with --resume those that are in it are not made again")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--faults", action="store_true", help="plant a mistake in each port")
    parser.add_argument("--keep", type=Path, help="keep the programs in this folder")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    rows = []
    if options.json and options.resume and options.json.exists():
        rows = [json.loads(line) for line in options.json.read_text(encoding="utf-8").splitlines()]
    elif options.json:
        options.json.write_text("", encoding="utf-8")
    known = {(row["seed"], bool(row["fault"])) for row in rows}
    for number in range(seed, seed + options.count):
        if (number, options.faults) in known:
            continue
        row = one(number, options.keep, fault=options.faults)
        rows.append(row)
        print(f"{verdict(row):12} {number} {row.get('seconds', 0):5} s  {row['fault']}  {row['why']}", flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print(f"seeds {seed} to {seed + options.count - 1}:", dict(Counter(map(verdict, rows))))
    if options.write:
        import paddle
        import torch

        options.write.write_text(page(rows, seed, f"PyTorch {torch.__version__} and Paddle {paddle.__version__}"), encoding="utf-8")
    silent = [row for row in rows if (verdict(row) == "aligned") == bool(row["fault"])]
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
