"""Ports and mistakes that were written without sight of the engine, judged by the command as a user runs it.

    python benchmarks/unseen/run.py [--set NAME…] [--only PROGRAM…] [--faults [--sample N [--part K]]] [--json FILE] [--write FILE]
    python benchmarks/unseen/run.py --repair N [--seed S] [--set NAME…]      patches for N mistakes drawn from these sets

A program is a folder below ``programs/<set>/``: a right port, and ``faults.json``, edits of its candidate, each a mistake or (kind
``harmless``) a change that means the same. The reference of a program is run once and reused, as in daily work.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
SOURCE = HERE.parents[1] / "src"

#: seconds after which a check counts as failed
PATIENCE = 600

#: lines between the named and the true one that still count as near
NEAR = 2

HARMLESS = "harmless"

#: stages that run only where they are asked for: a mistake in what they look at is looked for by them
APART = {"init", "optimizer"}


def programs(sets: list[str], only: list[str]) -> list[Path]:
    """The folders of the programs that were asked for."""
    found = sorted(path.parent for path in PROGRAMS.glob("*/*/paralign.toml"))
    return [p for p in found if (not sets or p.parent.name in sets) and (not only or p.name in only)]


def faults(program: Path) -> list[dict[str, Any]]:
    """The edits of a program."""
    file = program / "faults.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def check(folder: Path, *stages: str) -> dict[str, Any]:
    """What ``paralign check`` says of a folder: exit code, verdict of each stage, the first place that it names.

    Args:
        folder: the program.
        stages: in place of those that run by themselves.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "paralign", "check", str(folder), *stages, "--json"]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"code": None, "stages": {}, "first": None, "seconds": float(PATIENCE)}
    row: dict[str, Any] = {"code": done.returncode, "stages": {}, "first": None, "seconds": round(time.perf_counter() - began, 1)}
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return {**row, "failed": done.stderr[-300:]}
    row["stages"] = {stage["name"]: stage["verdict"] for stage in report["stages"]}
    named = [d for stage in report["stages"] for d in stage["divergences"] or [stage["divergence"]] if d and d["candidate"]]
    row["first"] = next((d["candidate"]["source"] for d in named), None)
    row["confirmed"] = bool(named and named[0]["confirmed"])
    row["proposals"] = [(p["rule"], p["line"]) for p in named[0]["proposals"]] if named else []
    return row


def judged(program: Path, fault: dict[str, Any] | None, folder: Path) -> dict[str, Any]:
    """The row of a program as it is, or with one edit; the edit is taken back afterwards."""
    told = {"id": f"{program.parent.name}/{program.name}/{fault['id'] if fault else 'port'}", "kind": fault["kind"] if fault else "port"}
    if fault is None:
        return told | check(folder)
    path = folder / fault["file"]
    text = path.read_text(encoding="utf-8")
    if text.count(fault["old"]) != 1:
        raise ValueError(f"{told['id']}: the text to be replaced occurs {text.count(fault['old'])} times")
    path.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    try:
        row = told | check(folder, *(APART & {fault.get("stage", "")}))
    finally:
        path.write_text(text, encoding="utf-8")
    row["truth"] = [f"{fault['file']}:{line}" for line in [fault["line"], *fault.get("also", [])]]
    row["distance"] = distance(row["first"], row["truth"])
    return row


def distance(named: str | None, truth: list[str]) -> int | None:
    """Lines between the named place and the nearest true one; None in another file."""
    place = re.match(r"(.*):(\d+)$", named or "")
    if place is None:
        return None
    same = [int(line) for file, _, line in (t.rpartition(":") for t in truth) if Path(file).name == Path(place[1]).name]
    return min((abs(int(place[2]) - line) for line in same), default=None)


def sampled(found: list[dict[str, Any]], most: int, part: int) -> list[dict[str, Any]]:
    """Some of a program's edits, drawn without looking: every harmless edit, and mistakes in a fixed random order.

    Of these ``most`` (0: all), the first, second, … so many of them: what one part has shown says nothing of the next.
    """
    mistakes = [fault for fault in found if fault["kind"] != HARMLESS]
    drawn = random.Random(len(mistakes)).sample(mistakes, len(mistakes))
    chosen = drawn[part * most : (part + 1) * most] if most else drawn
    return [fault for fault in found if fault["kind"] == HARMLESS or fault in chosen]


def run(chosen: list[Path], *, with_faults: bool, most: int = 0, part: int = 0) -> list[dict[str, Any]]:
    """Judge programs one after the other."""
    rows = []
    for program in chosen:
        with tempfile.TemporaryDirectory(prefix="unseen-") as home:
            folder = Path(home) / program.name
            shutil.copytree(program, folder, ignore=shutil.ignore_patterns("result", "__pycache__", "faults.json"))
            for fault in [None, *(sampled(faults(program), most, part) if with_faults else [])]:
                rows.append(judged(program, fault, folder))
                print(line(rows[-1]), flush=True)
    return rows


def repairs(chosen: list[Path], count: int, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Try to repair some mistakes of programs, drawn from all of them."""
    planted = [(p, fault) for p in chosen for fault in faults(p) if fault["kind"] != HARMLESS]
    rows = []
    for program, fault in random.Random(seed).sample(planted, min(count, len(planted))):
        with tempfile.TemporaryDirectory(prefix="unseen-") as home:
            folder = Path(home) / program.name
            shutil.copytree(program, folder, ignore=shutil.ignore_patterns("result", "__pycache__", "faults.json"))
            rows.append(repaired(folder, fault, seconds))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def repaired(folder: Path, fault: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What ``paralign repair`` makes of one mistake: no patch, one that undoes it, or another one that is called proven.

    A patch is right if the file means what it did before the mistake (the same tree), or else if the repaired port is aligned in a check
    with other weights and inputs than those that it was found with.
    """
    path = folder / fault["file"]
    right = path.read_bytes()
    text = right.decode("utf-8")
    path.write_bytes(text.replace(fault["old"], fault["new"]).encode("utf-8"))
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "paralign", "repair", str(folder), "--apply", "--seconds", str(seconds)]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE + 4 * seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"id": fault["id"], "kind": fault["kind"], "came": "no patch", "how": "the command took too long"}
    row = {"id": fault["id"], "kind": fault["kind"], "code": done.returncode, "seconds": round(time.perf_counter() - began, 1)}
    patch = folder / "result" / "repair.patch"
    if not patch.exists():
        return {**row, "came": "no patch", "how": done.stdout.strip()[-200:] or done.stderr.strip()[-200:]}
    row["patch"] = patch.read_text(encoding="utf-8")
    undone = meaning(path, path.read_bytes()) == meaning(path, right)
    if undone:
        return {**row, "came": "right", "how": "the statement as it was"}
    settings = folder / "paralign.toml"
    kept = re.sub(r"(?m)^seed\s*=.*\n", "", settings.read_text(encoding="utf-8"))  # a second key of a name is no TOML
    settings.write_text(f"seed = 20260101\n{kept}", encoding="utf-8")
    code = check(folder)["code"]
    return {**row, "came": "right" if code == 0 else "wrong", "how": f"another statement; with another seed exit code {code}"}


def meaning(path: Path, content: bytes) -> Any:
    """What a file says: the tree of Python, the values of JSON; of other settings the text without blanks."""
    if path.suffix == ".py":
        return ast.dump(ast.parse(content))
    return json.loads(content) if path.suffix == ".json" else b"".join(content.split())


def tallied(rows: list[dict[str, Any]]) -> str:
    """The figures of repairs."""
    came = [row["came"] for row in rows]
    right, none, wrong = (came.count(word) for word in ("right", "no patch", "wrong"))
    return f"{len(rows)} mistakes: {right} patches proven and right, {none} without a patch, {wrong} wrong and called proven"


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    verdicts = " ".join(f"{name}={verdict}" for name, verdict in row["stages"].items() if verdict != "not tested")
    named = f"named {row['first']}, true {row.get('truth', '-')}"
    return f"{row['id']} [{row['kind']}] exit {row['code']}, {named}, {row['seconds']} s: {verdicts}"


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The figures of some rows."""
    ports, harmless = ([r for r in rows if r["kind"] == kind] for kind in ("port", HARMLESS))
    planted = [r for r in rows if r["kind"] not in ("port", HARMLESS)]
    flagged = [r for r in planted if r["code"] == 1]
    return {
        "ports": len(ports),
        "aligned": sum(r["code"] == 0 for r in ports),
        "faults": len(planted),
        "flagged": len(flagged),
        "first": sum(r["distance"] == 0 for r in flagged),
        "near": sum(r["distance"] is not None and 0 < r["distance"] <= NEAR for r in flagged),
        "misleading": sum(bool(r["confirmed"]) and (r["distance"] is None or r["distance"] > NEAR) for r in flagged),
        "harmless": len(harmless),
        "alarms": sum(r["code"] != 0 for r in harmless),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The figures by set."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["id"].split("/")[0]].append(row)
    lines = [
        "| set | right ports: aligned | mistakes: flagged | line first | within two lines | confirmed elsewhere | harmless: alarms |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, own in sorted(groups.items()):
        n = counts(own)
        lines.append(
            f"| {name} | {n['aligned']} of {n['ports']} | {n['flagged']} of {n['faults']} | {n['first']} | {n['near']} | {n['misleading']} "
            f"| {n['alarms']} of {n['harmless']} |"
        )
    return "\n".join(lines)


def document(rows: list[dict[str, Any]]) -> str:
    """The page: figures, then what was not as it should be."""
    wrong = [
        r
        for r in rows
        if (r["kind"] in ("port", HARMLESS) and r["code"] != 0) or (r["kind"] not in ("port", HARMLESS) and r.get("distance") != 0)
    ]
    about = (HERE / "about.md").read_text(encoding="utf-8")
    listed = [
        f"| {r['id']} | {r['kind']} | {r['code']} | {Path(r['first']).name if r['first'] else ''} | {', '.join(r.get('truth', []))} |"
        for r in wrong
    ]
    head = ["| program and edit | kind | exit code | named first | true |", "|---|---|---|---|---|"]
    return about.replace("{table}", table(rows)).replace("{wrong}", "\n".join([*head, *listed]))


def main() -> None:
    """Choose, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="*", default=[], help="names of sets")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--faults", action="store_true", help="plant the mistakes too")
    parser.add_argument("--sample", type=int, default=0, help="mistakes of each program that are planted, drawn at random; 0: all")
    parser.add_argument("--part", type=int, default=0, help="with --sample: the first (0), second (1), … so many")
    parser.add_argument("--json", type=Path, help="file for the rows; those that it holds are kept and not judged again")
    parser.add_argument("--write", type=Path, help="file for the page")
    parser.add_argument("--repair", type=int, default=0, metavar="N", help="try to repair so many mistakes, drawn from all")
    parser.add_argument("--seed", type=int, default=0, help="with --repair: which are drawn")
    parser.add_argument("--seconds", type=float, default=120.0, help="with --repair: the time box of each")
    options = parser.parse_args()
    if options.repair:
        found = repairs(programs(options.set, options.only), options.repair, options.seed, options.seconds)
        print(tallied(found))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return
    kept = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.exists() else []
    done = {"/".join(row["id"].split("/")[:2]) for row in kept}
    chosen = [p for p in programs(options.set, options.only) if f"{p.parent.name}/{p.name}" not in done]
    rows = [*kept, *run(chosen, with_faults=options.faults, most=options.sample, part=options.part)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(table(rows))
    if options.write:
        options.write.write_text(document(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
