"""Checks of PyTorch on a GPU against PyTorch on the CPU, with one table of what they said.

Each program of ``programs`` is held against itself on the other device: as it is, and with edits of the side on the GPU.
Then the commands that have to do with a device: self-checks, memory that grows, memory that does not suffice, collectives.
``--device cpu`` runs what needs no GPU on the CPU.

    python benchmarks/device/run.py --device gpu:0 --jobs 8 --out device --programs benchmarks/unseen/programs
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

try:
    import tomllib
except ImportError:  # Python before 3.11
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src"
PROGRAMS = ("conv", "attention", "recurrent", "graph")
STAGES = ("weights", "forward", "data", "metric", "loss", "backward", "optimizer", "infer")
PATIENCE = 400

PROJECT = """
seed = 4
stages = {stages}

[reference]
module = "reference.py"
framework = "torch"
device = "{reference}"

[candidate]
module = "candidate.py"
framework = "torch"
device = "{candidate}"

{more}
"""

#: steps whose memory grows: outputs that stay on the device
KEPT = """
HELD = []


def train_step(model, optimizer, batch):
    pictures, labels = batch
    optimizer.zero_grad()
    outputs = model(pictures)
    value = loss(outputs, labels)
    value.backward()
    optimizer.step()
    HELD.append(outputs.detach())
    return value
"""

#: a model that no card holds
LARGE = """
class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x) + x.new_zeros(1 << 20, 1 << 20).sum()


def build_model():
    return Large()
"""

#: what the stage of several processes needs besides
JOINED = """
import os

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def distribute(model):
    dist.init_process_group("nccl")
    device = "cuda:" + os.environ["LOCAL_RANK"]
    torch.cuda.set_device(device)
    return DistributedDataParallel(model.to(device), device_ids=[device])
"""


def project(folder: Path, program: str, reference: str, candidate: str, edit: dict[str, str] | None = None, more: str = "") -> Path:
    """Write a project of a program and its edited copy."""
    folder.mkdir(parents=True)
    text = (HERE / "programs" / f"{program}.py").read_text(encoding="utf-8")
    (folder / "reference.py").write_text(text, encoding="utf-8")
    (folder / "candidate.py").write_text(edited(text, edit), encoding="utf-8")
    stages = [stage for stage in STAGES if stage != "infer" or "def predict" in text]
    if "infer" in stages:
        rows = [" ".join(str((row * 3 + column) % 7 / 7) for column in range(8)) for row in range(8)]
        (folder / "digit.txt").write_text("\n".join(rows), encoding="utf-8")
        more += '\n[infer]\npaths = ["digit.txt"]\n'
    settings = PROJECT.format(stages=json.dumps(stages), reference=reference, candidate=candidate, more=more)
    (folder / "paralign.toml").write_text(settings, encoding="utf-8")
    return folder


def other_project(folder: Path, program: Path, device: str) -> Path:
    """Copy a program that others wrote, its candidate replaced by the reference on the device."""
    shutil.copytree(program, folder)
    text = (folder / "paralign.toml").read_text(encoding="utf-8")
    framework = "" if "framework" in _table("reference", text) else 'framework = "torch"\n'
    made = _table("reference", text).replace("[reference]\n", f'[candidate]\ndevice = "{device}"\n{framework}', 1)
    (folder / "paralign.toml").write_text(text.replace(_table("candidate", text), made.rstrip("\n") + "\n\n"), encoding="utf-8")
    return folder


def _table(name: str, text: str) -> str:
    """The lines of one table of a project file."""
    found = re.search(rf"^\[{name}\]\n(?:(?!\[).*(?:\n|$))*", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"no table [{name}]")
    return found.group()


def edited(text: str, edit: dict[str, str] | None) -> str:
    """The text with an edit.

    Raises:
        ValueError: the text to be replaced does not occur once.
    """
    if edit is None:
        return text
    if text.count(edit["old"]) != 1:
        raise ValueError(f"{edit['name']}: the text to be replaced occurs {text.count(edit['old'])} times")
    return text.replace(edit["old"], edit["new"])


def line_of(program: str, edit: dict[str, str]) -> int:
    """The first line of the edited copy that an edit has changed."""
    text = (HERE / "programs" / f"{program}.py").read_text(encoding="utf-8")
    pairs = zip(text.splitlines(), edited(text, edit).splitlines(), strict=False)
    return next(number for number, (before, after) in enumerate(pairs, 1) if before != after)


def command(*words: str) -> dict[str, Any]:
    """What a command of paralign ended with: exit code, seconds, the document that it printed, or its text."""
    environment = {"OMP_NUM_THREADS": "2", **os.environ, "PYTHONPATH": str(SOURCE)}
    began = time.perf_counter()
    try:
        words = (sys.executable, "-m", "paralign", *words)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"code": None, "seconds": float(PATIENCE), "said": ""}
    row: dict[str, Any] = {
        "code": done.returncode,
        "seconds": round(time.perf_counter() - began, 1),
        "said": (done.stderr + done.stdout)[-6000:],
    }
    if "--json" in words:
        try:
            row["report"] = json.loads(done.stdout)
            row["said"] = done.stderr[-3000:]
        except ValueError:
            pass
    return row


def checked(folder: Path) -> dict[str, Any]:
    """What a check said of a project: exit code, verdicts, the first place, notes and warnings."""
    row = command("check", str(folder), "--json")
    report = row.pop("report", None)
    if report is None:
        return row
    row["stages"] = {stage["name"]: stage["verdict"] for stage in report["stages"]}
    named = [d for stage in report["stages"] for d in stage["divergences"] or [stage["divergence"]] if d and d["candidate"]]
    row["first"] = next((d["candidate"]["source"] for d in named), None)
    row["told"] = {stage["name"]: [*stage["notes"], *stage["warnings"]] for stage in report["stages"]}
    failed = {stage["name"]: stage["failure"] for stage in report["stages"] if stage["verdict"] == "error"}
    return {**row, "failed": failed} if failed else row


def cases(home: Path, device: str) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is run, by name."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for program in PROGRAMS:
        for name, reference in (("cpu", "cpu"), ("itself", device)):
            found[f"right/{program}/{name}"] = lambda p=program, n=name, r=reference: checked(
                project(home / f"right-{p}-{n}", p, r, device)
            )
    for edit in tomllib.loads((HERE / "programs" / "edits.toml").read_text(encoding="utf-8"))["edit"]:
        found[f"{edit.get('kind', 'edit')}/{edit['name']}"] = lambda e=edit: _edit(home, e, device)
    found["doctor"] = lambda: command("doctor", str(project(home / "doctor", "conv", "cpu", device)))
    for name, tail in (("kept", KEPT), ("right", "")):
        edit = {"name": name, "old": "def predict(", "new": tail.lstrip() + "\n\ndef predict("}
        found[f"memory/{name}"] = lambda n=name, e=edit: command(
            "watch-memory", str(project(home / f"memory-{n}", "conv", device, device, e)), "--json"
        )
    if device != "cpu":
        large = {"name": "large", "old": "def build_model():\n    return Net()\n", "new": LARGE.lstrip()}
        found["memory/too-little"] = lambda: command("check", str(project(home / "large", "conv", "cpu", device, large)), "forward")
        found["collectives/two-on-one-card"] = lambda: _joined(home / "joined", device)
    return found


def others(home: Path, device: str, programs: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """The references of the unseen programs, on the device against the CPU."""
    folders = sorted(file.parent for file in programs.rglob("paralign.toml"))
    names = [folder.relative_to(programs) for folder in folders]
    return {
        f"unseen/{name.as_posix()}": lambda f=folder, n=name: checked(other_project(home / "unseen" / n, f, device))
        for folder, name in zip(folders, names, strict=True)
    }


def _edit(home: Path, edit: dict[str, str], device: str) -> dict[str, Any]:
    program, _, name = edit["name"].partition("/")
    row = checked(project(home / f"edit-{program}-{name}", program, "cpu", device, edit))
    return {**row, "truth": f"candidate.py:{line_of(program, edit)}"}


def _joined(folder: Path, device: str) -> dict[str, Any]:
    made = project(folder, "conv", device, device, None, "[distributed]\nnproc = 2\ntimeout = 120\n")
    for side in ("reference", "candidate"):
        with (made / f"{side}.py").open("a", encoding="utf-8") as file:
            file.write(JOINED)
    return command("check", str(made), "distributed")


def line(name: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    stages = " ".join(f"{stage}:{verdict}" for stage, verdict in row.get("stages", {}).items() if verdict != "aligned")
    place = f" first {Path(row['first']).name if row['first'] else None}, truth {row['truth']}" if "truth" in row and "first" in row else ""
    return f"{name:30} code {row['code']} {row['seconds']:6.1f} s {stages or 'all aligned' if 'stages' in row else ''}{place}"


def main() -> None:
    """Run, print the table, write everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--programs", type=Path, help="projects whose references are held on the device against the CPU too")
    parser.add_argument("--out", type=Path, default=Path("device-checks"), help="a folder that is not there yet")
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"{options.out} is there already")
    home = options.out.resolve()
    known = cases(home, options.device) | ({} if options.programs is None else others(home, options.device, options.programs))
    chosen = {name: case for name, case in known.items() if name.startswith(options.only)}
    rows: dict[str, Any] = {}

    def done(item: tuple[str, Callable[[], dict[str, Any]]]) -> None:
        rows[item[0]] = item[1]()
        print(line(item[0], rows[item[0]]), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(done, chosen.items()))
    (options.out / "rows.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
