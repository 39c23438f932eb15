"""What watching every operation costs: plain forwards against forwards that record the digest and the sketch of every value.

ResNet-50 and a 12-layer transformer encoder (768 wide, 128 tokens), float32, in PyTorch and in Paddle. Of each model and batch the
contenders run in turn within one process for time, and each in a process of its own for peak memory. padiff runs where a folder
that it is installed in is named; it runs both frameworks at once.

    python benchmarks/speed/observe.py [--repeats 5] [--batches 8,16] [--frameworks torch,paddle] [--models resnet50,transformer]
                                       [--padiff FOLDER] [--device gpu:0]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTENDERS = ("plain forward", "operations alone", "digests", "digests and sketches")
PADIFF = ("plain forward", "padiff 0.2.0")
WIDTH, HEADS, LAYERS, TOKENS = 768, 12, 12, 128


class Unordered:
    """An adapter that makes no sketches."""

    def __init__(self, adapter):
        self._adapter = adapter

    def __getattr__(self, name):
        return getattr(self._adapter, name)

    def fingerprint(self, tensor, sketch=True):  # noqa: ARG002 - the signature is the adapter's
        return self._adapter.fingerprint(tensor, sketch=False)


def torch_model(name):
    import torch

    if name == "resnet50":
        from capture import resnet50

        return resnet50()
    torch.backends.mha.set_fastpath_enabled(False)  # else a plain forward would run other operations than an observed one
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).eval()


def paddle_model(name):
    import paddle

    if name == "resnet50":
        model = paddle.vision.models.resnet50()
    else:
        layer = paddle.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu")
        model = paddle.nn.TransformerEncoder(layer, LAYERS)
    model.eval()
    return model


def given(name, batch):
    import numpy as np

    shape = (batch, 3, 224, 224) if name == "resnet50" else (batch, TOKENS, WIDTH)
    return np.random.RandomState(0).randn(*shape).astype("float32")


def prepare(framework, name, batch, device):
    """A function that runs one contender and gives its seconds, those of all processors, and how many values it digested."""
    from paralign.adapters.finding import load
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session

    model = {"torch": torch_model, "paddle": paddle_model}[framework](name)
    adapter = load(framework)
    session = Session("reference", {"build_model": lambda: model}, framework, device)
    assert session.model is not None
    tensor = adapter.from_array(Typed(given(name, batch), "float32"))

    def once(contender):
        folder = Path(tempfile.mkdtemp(prefix="paralign-bench-"))
        try:
            with adapter.no_grad():
                began, used = time.perf_counter(), time.process_time()
                watched(contender, session, tensor, folder)
                wait(device)
                seconds = time.perf_counter() - began, time.process_time() - used
            return (*seconds, digested(folder / "capture"))
        finally:
            shutil.rmtree(folder)

    return once


def wait(device):
    """Until a card has done what it was given; PyTorch alone is measured on one."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def watched(contender, session, tensor, folder):
    """One forward under a contender."""
    from paralign.capture import CaptureWriter
    from paralign.model import Manifest
    from paralign.worker.protocol import Watch
    from paralign.worker.sides.session import NATIVE
    from paralign.worker.watching.operations import OperationRecorder

    adapter, model = session.adapter, session.model
    if contender == "plain forward":
        model(tensor)
        return
    if contender == "operations alone":
        with adapter.operations(Nothing(), model):
            model(tensor)
        return
    with CaptureWriter(folder / "capture", Manifest()) as writer:
        recorder = OperationRecorder(session, writer, NATIVE, Watch(), {})
        if contender == "digests":
            recorder.adapter = Unordered(adapter)
        with recorder, adapter.operations(recorder, model):
            model(tensor)


def digested(capture):
    """The number of digested values of a capture, if there is one."""
    records = capture / "records.jsonl"
    return sum('"digest":"' in line.replace(": ", ":") for line in records.read_text().splitlines()) if records.exists() else 0


class Nothing:
    """A sink that only looks."""

    def before(self, inputs):
        """Nothing."""

    def after(self, operation):
        """Nothing."""


def prepare_padiff(name, batch):
    """As ``prepare``, for padiff's own runner, which runs both frameworks, and the plain forwards of both."""
    importlib.import_module("padiff")  # first: it wraps the frameworks as they are imported
    import paddle
    import torch
    from padiff.trainer.Runner import Runner
    from padiff.trainer.trainer_utils import Report
    from padiff.utils import init_LayerMap, init_options

    layer, module = paddle_model(name), torch_model(name)
    array = given(name, batch)
    inputs = {"x" if name == "resnet50" else "src": array}
    options = {"diff_phase": "forward"}
    init_options(options)
    layer_map = init_LayerMap(layer, module, None)
    runner = Runner(layer, module, None, layer_map, options)

    def once(contender):
        example = tuple({k: make(v) for k, v in inputs.items()} for make in (paddle.to_tensor, torch.from_numpy))
        began, used = time.perf_counter(), time.process_time()
        if contender == "plain forward":
            with paddle.no_grad(), torch.no_grad():
                layer(*example[0].values())
                module(*example[1].values())
        else:
            runner.set_report(Report("paddle"), Report("torch"))
            with paddle.no_grad(), torch.no_grad():
                runner.forward_step(example)
        return time.perf_counter() - began, time.process_time() - used, 0

    return once


def measure(options):
    """Within this process: the times of all contenders, or the peak of one; a line of JSON."""
    from paralign.trainlog.peaks import forget_peak, peak_bytes

    if options.framework == "both":
        sys.path[:0] = os.environ["PADIFF"].split(os.pathsep)
        once, contenders = prepare_padiff(options.model, options.batch), PADIFF
    else:
        once, contenders = prepare(options.framework, options.model, options.batch, options.device), CONTENDERS
    if options.only:
        once("plain forward")
        forget_peak()
        once(options.only)
        once(options.only)
        print(json.dumps({"peak": peak_bytes()}))
        return
    seconds, processor = ({c: [] for c in contenders} for _ in range(2))
    values = {}
    once("plain forward")
    for _ in range(options.repeats):
        for contender in contenders:
            taken, used, values[contender] = once(contender)
            seconds[contender].append(taken)
            processor[contender].append(used)
    print(json.dumps({"seconds": seconds, "processor": processor, "values": values}))


def child(padiff, where, model, batch, *rest):
    framework, device = where
    command = [sys.executable, __file__, "--framework", framework, "--model", model, "--batch", str(batch), "--device", device, *rest]
    with tempfile.TemporaryDirectory(prefix="paralign-bench-") as folder:  # padiff writes its logs beside the first of sys.path
        environment = {**os.environ, "PADIFF": os.pathsep.join((folder, padiff))} if padiff else None
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return json.loads(done.stdout.splitlines()[-1])


def rows(padiff, where, model, batch, repeats, contenders):
    framework = where[0]
    timed = child(padiff, where, model, batch, "--repeats", str(repeats))
    peaks = {c: child(padiff, where, model, batch, "--only", c)["peak"] for c in contenders}
    plain = timed["seconds"]["plain forward"]
    for contender in contenders:
        seconds = timed["seconds"][contender]
        yield {
            "model": model,
            "framework": framework,
            "batch": batch,
            "contender": contender,
            "values": timed["values"][contender],
            "seconds": statistics.median(seconds),
            "processor": statistics.median(timed["processor"][contender]),
            "ratio": statistics.median(a / b for a, b in zip(seconds, plain, strict=True)),
            "above_mb": (peaks[contender] - peaks["plain forward"]) / 1e6,
        }


def table(found):
    lines = [
        "| model | framework | batch | | values | seconds | against plain | processor seconds | peak above plain |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for r in found:
        lines.append(
            f"| {r['model']} | {r['framework']} | {r['batch']} | {r['contender']} | {r['values'] or ''} | {r['seconds']:.3f} "
            f"| {r['ratio']:.2f} | {r['processor']:.3f} | {r['above_mb']:.0f} MB |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", default="8,16")
    parser.add_argument("--frameworks", default="torch,paddle")
    parser.add_argument("--models", default="resnet50,transformer")
    parser.add_argument("--padiff", help="a folder with padiff: pip install --no-deps --target FOLDER padiff==0.2.0 pyyaml")
    parser.add_argument("--device", default="cpu", help="where PyTorch computes")
    parser.add_argument("--framework")
    parser.add_argument("--model")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.framework:
        measure(options)
        return
    found = []
    for model in options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            for framework in options.frameworks.split(","):
                found += rows(None, (framework, options.device), model, batch, options.repeats, CONTENDERS)
            if options.padiff:
                found += rows(options.padiff, ("both", "cpu"), model, batch, options.repeats, PADIFF)
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
