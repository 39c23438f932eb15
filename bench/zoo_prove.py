"""One pair of real models: randomised, mapped, proven in float64; where it diverges, with the layer."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from paralign.adapters.base import load
from paralign.capture import Capture, CaptureWriter
from paralign.comparison import measure
from paralign.dtypes import EPS, is_floating
from paralign.locate import first_module
from paralign.model import Manifest, Record
from paralign.weights import plan, prove
from paralign.worker.forward import ModuleRecorder
from paralign.worker.session import Session
from paralign.worker.state import attributes
from paralign.worker.trees import leaves

#: seconds after which no further plan is tried
PATIENCE = 30.0

#: what a correct port in float32 may be off, in units of the reference's own noise
NATIVE = 10.0

#: axes of a batch of images
IMAGES = 4


def randomised(model, inputs):
    """The model with no two tensors equal by construction, and BatchNorm statistics of its own activations."""
    import torch

    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.randn(tensor.shape, generator=random) * 0.1)
        norms = [m for m in model.modules() if "BatchNorm" in type(m).__name__]
        if norms:
            model.train()
            momenta = [(m, m.momentum) for m in norms]
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # the mean over all passes, whatever the model's own pace
            for module in model.modules():
                if "Drop" in type(module).__name__:
                    module.eval()
            for _ in range(10):
                call(model, tuple(torch.from_numpy(i) for i in inputs))
            for norm, momentum in momenta:
                norm.momentum = momentum
    return model.eval()


def stretched(inputs):
    """Images with the second of the batch eight times as large: activations that saturate differ only there."""
    if isinstance(inputs, dict) or inputs[0].ndim != IMAGES or len(inputs[0]) == 1:
        return inputs
    image = inputs[0].copy()
    image[1] *= 8
    return (image, *inputs[1:])


def call(model, inputs):
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


class Run:
    """A model, its adapter, and its inputs as its own tensors."""

    def __init__(self, framework, model, inputs):
        self.adapter, self.model, self.inputs = load(framework), model, inputs
        self.session = Session("reference" if framework == "torch" else "candidate", {"build_model": lambda: model}, framework)

    def records(self):
        entries = self.adapter.state(self.model)
        shape = lambda e: tuple(int(n) for n in e.tensor.shape)  # noqa: E731 - a name for it
        names = [(e, self.adapter.to_array(e.tensor).dtype) for e in entries]
        return [Record(n, e.name, "weights", e.role, dtype, shape(e), op=e.kind, attrs=attributes(e)) for n, (e, dtype) in enumerate(names)]

    def state(self):
        return {e.name: self.adapter.to_array(e.tensor) for e in self.adapter.state(self.model)}

    def arguments(self, dtype):
        from paralign.dtypes import typed

        def own(array):
            return self.adapter.from_array(typed(array.astype(dtype) if array.dtype.kind == "f" else array))

        return {k: own(v) for k, v in self.inputs.items()} if isinstance(self.inputs, dict) else tuple(own(v) for v in self.inputs)

    def outputs(self, dtype="float64"):
        arguments = self.arguments(dtype)
        with self.adapter.no_grad():
            found = call(self.model, arguments)
        return [self.adapter.to_array(leaf) for _, leaf in leaves(found, self.adapter.is_tensor) if self.adapter.is_tensor(leaf)]

    def watched(self, folder, dtype="float64"):
        """A capture of every module call of one float64 pass, and the paths in the order of their first execution."""
        with CaptureWriter(folder, Manifest(side=self.session.name if hasattr(self.session, "name") else "", stage="forward")) as writer:
            recorder = ModuleRecorder(self.session, writer, "float64", full=False)
            with self.adapter.no_grad(), self.adapter.observe(self.model, recorder):
                call(self.model, self.arguments(dtype))
        capture = Capture.open(folder)
        return capture, list(dict.fromkeys(r.name for r in capture.records))


def examine(build):
    """The row of a pair: tensors, how they were mapped, error, verdict, seconds, what was found."""
    began = time.perf_counter()
    model, port, inputs = build()
    model = randomised(model, inputs)
    port.eval()
    inputs = stretched(inputs)
    reference, candidate = Run("torch", model, inputs), Run("paddle", port, inputs)
    native = reference.outputs("float32")
    for side in (reference, candidate):
        side.adapter.cast(side.model, "float64")
    truth = reference.outputs()
    noise = max([max(measure(t, n).rel_l2, EPS["float32"] * 2) for t, n in zip(truth, native, strict=True) if is_floating(t.dtype)])
    folder = Path(tempfile.mkdtemp(prefix="paralign-zoo-"))
    traced, called = reference.watched(folder / "reference")
    double = runs_double(candidate)
    called_there = candidate.watched(folder / "candidate", double)[1]
    records = reference.records()
    planned = time.perf_counter()
    mapped = plan(records, candidate.records(), "torch", "paddle", calls=(called, called_there))
    planned = time.perf_counter() - planned
    weights = reference.state()
    trials = []

    def run(trial):
        if trials and time.perf_counter() - began > PATIENCE:
            return float("inf")
        given = {t.name: trial.assemble(t.name, weights.get) for t in trial.targets} if trial.complete else {}
        if not trial.complete:
            return float("inf")
        candidate.adapter.load_state(candidate.model, given)
        trials.append(worst(truth, candidate.outputs(double)) / noise / (1 if double == "float64" else NATIVE))
        return trials[-1]

    proof = prove(mapped, run, limit=60)
    row = {
        "tensors": len(records),
        "how": how(proof.plan),
        "rules": [r[:2] for r in proof.plan.rules.rows()],
        "error": proof.error,
        "noise": noise,
        "verdict": verdict(proof),
        "changed": proof.changed,
        "ambiguous": proof.ambiguous,
        "untested": len(proof.untested),
        "runs": proof.runs,
        "planning": planned,
        "seconds": time.perf_counter() - began,
        "left": [m.note for m in (*mapped.missing, *mapped.extra)],
        "missing": len(mapped.missing),
        "extra": len(mapped.extra),
    }
    if proof.plan.complete and not proof.proven:
        candidate.adapter.load_state(candidate.model, {t.name: proof.plan.assemble(t.name, weights.get) for t in proof.plan.targets})
        there, _ = candidate.watched(folder / "diverged", double)
        found = first_module(traced, there, run="float64", tolerance=1e-6)
        if found is not None:
            ends = [f"{p.name} ({p.op})" for p in (found.reference, found.candidate) if p is not None]
            row["layer"] = " / ".join(ends) + "".join(f": {n}" for n in (found.pair.notes if found.pair else []))
    return row


def runs_double(candidate):
    """``float64`` where the candidate runs in it; else it is cast back."""
    try:
        candidate.outputs()
    except Exception:  # noqa: BLE001 - frameworks raise anything for a missing float64 kernel
        candidate.adapter.cast(candidate.model, "float32")
        return "float32"
    return "float64"


def worst(truth, outputs):
    """The greatest error of the outputs that both have, in order; what a side gives twice counts once."""
    pairs = list(zip(distinct(truth), distinct(outputs), strict=False))
    if not pairs or any(a.array.shape != b.array.shape for a, b in pairs):
        return float("inf")
    return max(measure(a, b).rel_l2 for a, b in pairs if is_floating(a.dtype))


def distinct(values):
    return list({(v.array.shape, v.array.tobytes()): v for v in values}.values())


def verdict(proof):
    if not proof.plan.complete:
        return "diverged (not the same tensors)"
    return "aligned" if proof.proven else "diverged"


def how(mapped):
    counted = {}
    for move in mapped.moves:
        counted[move.how] = counted.get(move.how, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counted.items(), key=lambda item: -item[1]))
