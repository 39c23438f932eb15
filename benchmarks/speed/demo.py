"""Time and peak memory of every stage of the demo, on both sides, fresh and with the reference's captures reused.

python benchmarks/speed/demo.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "examples" / "mobilenetv3"


def check(out):
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "paralign", "check", PROJECT, "--out", out, "--json"], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    return seconds, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paralign-bench-") as folder:
        fresh, report = check(folder)
        again, _ = check(folder)
    rows = [{"stage": s["name"], "verdict": s["verdict"], "seconds": s["seconds"], "peak_bytes": s["peak_bytes"]} for s in report["stages"]]
    print(table(rows, fresh, again))
    if options.json:
        options.json.write_text(json.dumps({"stages": rows, "fresh": fresh, "again": again}, indent=1))


def table(rows, fresh, again):
    lines = ["| stage | verdict | reference | candidate | peak reference | peak candidate |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        seconds, peak = row["seconds"], row["peak_bytes"]
        times = [f"{seconds.get(side, 0.0):.1f} s" for side in ("reference", "candidate")]
        peaks = [f"{peak.get(side, 0.0) / 1e6:.0f} MB" for side in ("reference", "candidate")]
        lines.append("| " + " | ".join([row["stage"], row["verdict"], *times, *peaks]) + " |")
    return "\n".join([*lines, "", f"The whole check: {fresh:.0f} s; again, with the reference's captures reused: {again:.0f} s."])


if __name__ == "__main__":
    main()
