"""What a diverged check of ResNet-50 costs, without start-up, in plain forwards of the slower side.

    python benchmarks/speed/diverged.py [--batch 8] [--repeats 5] [--json FILE]

The port is in PyTorch and Paddle; the candidate's last activation of every block of 256 channels is taken before the sum. Plain
forwards of both sides are timed before and after the check, each in a process of its own, with the check's inputs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "diverged"
RIGHT, WRONG = "return self.relu(out + x)", "return self.relu(out) + x if self.conv2.weight.shape[0] == 256 else self.relu(out + x)"
PROJECT = """stages = ["weights", "forward"]
[reference]
framework = "torch"
[candidate]
framework = "paddle"
[inputs]
shape = [{batch}, 3, 224, 224]
"""

#: prints the medians of plain forwards of a side, in seconds and in seconds of processor time
FORWARD = """
import statistics, sys, time
import numpy as np
sys.path.insert(0, {folder!r})
from {side} import build_model
model = build_model()
model.eval()
x = np.random.default_rng(0).standard_normal(({batch}, 3, 224, 224)).astype("float32")
if {side!r} == "reference":
    import torch as framework
    given = framework.from_numpy(x)
else:
    import paddle as framework
    given = framework.to_tensor(x)
times, busy = [], []
with framework.no_grad():
    model(given)
    for _ in range({repeats}):
        began, used = time.perf_counter(), time.process_time()
        model(given).numpy()
        times.append(time.perf_counter() - began)
        busy.append(time.process_time() - used)
print(statistics.median(times), statistics.median(busy))
"""


def forward(folder, side, options):
    """Seconds and processor seconds of a plain forward of a side, in a process of its own."""
    code = FORWARD.format(folder=str(folder), side=side, batch=options.batch, repeats=options.repeats)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def prepare(folder, batch):
    """The project with its fault; the number of the faulty line."""
    shutil.copy(HERE / "reference.py", folder)
    text = (HERE / "candidate.py").read_text(encoding="utf-8")
    assert RIGHT in text
    (folder / "candidate.py").write_text(text.replace(RIGHT, WRONG), encoding="utf-8")
    (folder / "paralign.toml").write_text(PROJECT.format(batch=batch), encoding="utf-8")
    return next(number for number, line in enumerate(text.splitlines(), 1) if RIGHT in line)


def check(folder):
    command = [sys.executable, "-m", "paralign", "check", str(folder), "--profile", "--fresh", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout)


def peaks(folder):
    """The greatest memory of a side's process while it did a job, in bytes, as the captures tell it."""
    found = {}
    for side in ("reference", "candidate"):
        manifests = (folder / "result" / "captures" / side).glob("*/manifest.json")
        resources = [json.loads(file.read_text(encoding="utf-8")).get("resources", {}) for file in manifests]
        found[side] = max(each.get("peak_bytes", 0) for each in resources)
    return found


def table(seconds, busy, report, line, memory):
    """What the check came to, in Markdown."""
    profile, slower = report["profile"], max(seconds, key=lambda side: seconds[side])
    start = profile["parts"]["start-up"]["seconds"]
    spent, reached = profile["seconds"] - start, profile["confirmed"] - start
    point = report["stages"][1]["divergence"]
    found = point["candidate"]["source"].rpartition(":")[2] == str(line)
    rows = [
        "| ResNet-50 | seconds | forwards of the slower side |",
        "|---|---:|---:|",
        *(f"| plain forward, {side} | {each:.2f} | {each / seconds[slower]:.2f} |" for side, each in seconds.items()),
        f"| **to the first confirmed line, without start-up** | {reached:.1f} | **{reached / seconds[slower]:.1f}** |",
        f"| the whole check without start-up: looks for further faults, too | {spent:.1f} | {spent / seconds[slower]:.1f} |",
    ]
    rows += [
        f"| of it {name} | {part['seconds']:.1f} | {part['seconds'] / seconds[slower]:.1f} |"
        for name, part in profile["parts"].items()
        if name != "start-up"
    ]
    for side, spent_there in profile["sides"].items():
        jobs = sorted(spent_there["jobs"].items(), key=lambda item: -item[1]["seconds"])
        rows += [
            f"| {side}: {job['count']} x {name} | {job['seconds']:.1f} | {job['seconds'] / seconds[slower]:.1f} |" for name, job in jobs[:8]
        ]
    computed = {side: sum(job["busy"] for job in profile["sides"][side]["jobs"].values()) for side in seconds}
    rows += [
        f"| {side}: processor time of all jobs | {each:.1f} | {each / busy[slower]:.1f} (of processor time) |"
        for side, each in computed.items()
    ]
    rows += [f"| {side}: peak memory of its process | {each / 1e6:.0f} MB | |" for side, each in memory.items()]
    told = (
        f"the faulty line, {'confirmed' if point['confirmed'] else 'not confirmed'}" if found else f"NOT at the fault: {point['candidate']}"
    )
    return "\n".join([*rows, "", f"Start-up: {start:.1f} s. The point: {told}."]), reached / seconds[slower]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="where the project lies, and stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paralign-bench-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        line = prepare(folder, options.batch)
        before = {side: forward(folder, side, options) for side in ("reference", "candidate")}
        report, memory = check(folder), peaks(folder)
        after = {side: forward(folder, side, options) for side in ("reference", "candidate")}
    seconds, busy = ({side: statistics.mean([before[side][i], after[side][i]]) for side in before} for i in (0, 1))
    text, ratio = table(seconds, busy, report, line, memory)
    print(text)
    if options.json:
        options.json.write_text(
            json.dumps({"forwards": ratio, "seconds": seconds, "busy": busy, "peak_bytes": memory, "profile": report["profile"]}, indent=1)
        )


if __name__ == "__main__":
    main()
