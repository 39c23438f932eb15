"""Real pairs of models that nobody here wrote: built, mapped, proven in float64, one process a pair.

python benchmarks/zoo/zoo.py [--only TEXT] [--expected KNOWN.csv] [--write docs/zoo.md] [--json ROWS.json] [--merge ROWS.json ...]
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import sys
from pathlib import Path

FORK = multiprocessing.get_context("fork")

#: packages of the pairs of zoo_formers.py
FORMERS = Path(sys.prefix) / "formers"

TEXT = """\
# Zoo: real models that nobody here wrote

Made by `python benchmarks/zoo/zoo.py --write docs/zoo.md` (`make zoo`) with {versions}.

Each pair is built with random weights in a process of its own and handed to `paralign.check` (stages `weights` and `forward`).
Before that, constant parameters are moved by noise, so that no two tensors are equal by construction; BatchNorm takes its
statistics from ten passes in train mode; of two images the second is eight times as large. No pair has a rule of its own, but
the one whose name says that it is forced.

*Error ÷ allowed* up to 1 is aligned ([methods](verdicts.md#methods)). How tensors were mapped: *name*; *rule* (a regular renaming
that was learned); *likeness* (words, numbers and neighbours); *calls* (the order of execution decided, or there was only one of
its kind and shape); *proof* (not what was proposed first, but what ran right); *shared* (tied); *user* (forced). *Undecided*:
groups of tensors that the run cannot tell apart, and that names do not tell apart either. Seconds are those of a busy machine.
What pairs that are not one model differ in was read in their sources; rows that are called *mended* take that difference out of
the candidate and show that no other is left.

{pairs} pairs: {counted}. {known}.

{table}
"""


def one(pair, answer):
    """Examine one pair in this process, which is its own, and send its row."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:  # what the libraries have to say
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    if pair.group == "formers":
        sys.path.insert(0, str(FORMERS))
    from zoo_prove import examine

    try:
        answer.send(examine(pair))
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the row of its pair
        answer.send({"verdict": "error", "told": f"{type(error).__name__}: {error}"[:300]})


def examined(pair, limit):
    """The row of a pair, made in a process of its own; forked, so that both frameworks are imported once for all."""
    row = {"group": pair.group, "reference": pair.reference, "candidate": pair.candidate}
    if pair.group == "formers" and not FORMERS.is_dir():
        return {**row, "verdict": "not tested", "told": f"{FORMERS} is not there: see benchmarks/zoo/zoo-formers-requirements.txt"}
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=one, args=(pair, there))
    process.start()
    there.close()
    try:
        row.update(here.recv() if here.poll(limit) else {"verdict": "error", "told": f"no result after {limit} s"})
    except EOFError:
        process.join()
        row.update({"verdict": "error", "told": f"exit code {process.exitcode}"})
    process.kill()
    process.join()
    return row


def frameworks():
    """Import both frameworks, which every pair needs, with one thread each and the same seeds."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    import paddle

    paddle.seed(0)


def expectations(path):
    """(reference, candidate) -> what a table says of it."""
    with path.open(newline="", encoding="utf-8") as file:
        return {(r["torch_impl"], r["paddle_impl"]): r["equivalent"] for r in csv.DictReader(file)}


def table(rows):
    """Markdown: one line a pair."""
    lines = [
        "| reference | candidate | tensors | how they were mapped | error ÷ allowed | undecided | verdict | seconds | what they are |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        error = row.get("error")
        told = row["verdict"] + (f": {shown(row['told'])}" if row.get("told") else "")
        cells = [
            row["reference"],
            row["candidate"],
            row.get("tensors", ""),
            row.get("how", ""),
            "" if error is None else f"{error:.1e}",
            len(row.get("ambiguous", [])) or "",
            told,
            f"{row.get('seconds', 0):.0f}",
            row["difference"] or "the same model",
        ]
        lines.append("| " + " | ".join(" ".join(str(c).replace("|", "\\|").split()) for c in cells) + " |")
    return "\n".join(lines)


def shown(layer):
    """Where a pair diverges, without the folders of this machine."""
    import re

    return re.sub(r"[^\s(]*/site-packages/", "", layer)


def page(rows):
    """docs/zoo.md."""
    import importlib.metadata

    packages = ("torch", "paddlepaddle", "torchvision", "transformers", "paddlenlp", "timm", "paddleclas")
    versions = ", ".join(f"{p} {v}" for p in packages if (v := version(importlib.metadata, p)))
    wrong = [r for r in rows if disagrees(r)]
    known = f"{len(wrong)} {'disagrees' if len(wrong) == 1 else 'disagree'} with what is known of the models"
    told = ", ".join(r["reference"] for r in wrong)
    counted = ", ".join(f"{count(rows, v)} {v}" for v in dict.fromkeys(["aligned", "diverged", *(r["verdict"] for r in rows)]))
    return TEXT.format(versions=versions, pairs=len(rows), counted=counted, known=known + (f": {told}" if told else ""), table=table(rows))


def version(metadata, package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def count(rows, verdict):
    return sum(1 for r in rows if r["verdict"].startswith(verdict))


def disagrees(row):
    """Whether a pair that is one model is not aligned, or one that is not is; and the same for what ``zoo_known.csv`` says of it."""
    verdict, expected = row["verdict"], row.get("expected", "")
    if verdict == "not tested":
        return False
    if (verdict == "aligned") == bool(row["difference"]) or verdict == "error":
        return True
    return (expected.startswith("yes") and verdict != "aligned") or (expected == "NO" and verdict == "aligned")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", help="pairs of whose group and names one of these texts is a part")
    known_pairs = Path(__file__).with_name("zoo_known.csv")
    parser.add_argument("--expected", type=Path, default=known_pairs, help="a table of pairs, and whether they are one model")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        help="rows of earlier runs (--json), later files replace rows of earlier ones, instead of running anything",
    )
    parser.add_argument("--limit", type=int, default=400)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    from zoo_pairs import PAIRS

    known, rows, done = expectations(options.expected), [], {}
    for file in options.merge or []:
        done.update({(row["reference"], row["candidate"]): row for row in json.loads(file.read_text())})
    if not options.merge:
        frameworks()
    for pair in PAIRS:
        key = pair.reference, pair.candidate
        if key not in done and (options.merge or not any(text in f"{pair.group} {pair.name}" for text in options.only or [""])):
            continue
        row = done.get(key) or examined(pair, options.limit)
        row.update(expected=known.get(key, ""), difference=pair.difference)
        rows.append(row)
        print(table([row]).splitlines()[-1], flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    missing = sorted(known.keys() - {(r["reference"], r["candidate"]) for r in rows})
    if options.merge:
        print("\n".join(f"only in {options.expected}: {' / '.join(key)}" for key in missing))
    if options.write:
        options.write.write_text(page(rows), encoding="utf-8")
    sys.exit(any(disagrees(r) for r in rows))


if __name__ == "__main__":
    main()
