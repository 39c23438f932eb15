"""Programs of a few operations on numpy arrays, recorded as the task ``operations`` records those of the frameworks.

A program is a function that calls the methods of a :class:`Machine`. Machines run it in float64 and in float32, write what they see
through ``CaptureWriter``, and put other values in place of results, so that a program can be held against another with a planted fault
and experimented on.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.capture.sketch import sketch
from paralign.locate.described import divergence, gradient_divergence, merged
from paralign.locate.gradients.gradient_patching import proven
from paralign.locate.laboratory.watched import Recorded
from paralign.locate.runs.dataflow import Graph
from paralign.locate.suspects.patching import guilty
from paralign.model import Manifest
from paralign.worker.values.masks import reaches_down, unmasked

TYPES = {"float64": np.float64, "native": np.float32}


@dataclass(eq=False)
class Node:
    """A value of a program, with what leads back from it."""

    array: np.ndarray
    record: int
    where: tuple = (-1, "")
    parents: list = field(default_factory=list)
    detached: bool = False

    @property
    def shape(self):
        return self.array.shape


class Machine:
    """Runs one pass of one program and records it."""

    def __init__(self, writer, run, inputs, parameters, patches=(), gradients=(), undo=(), frozen=()):
        self.writer, self.run, self.undo, self.frozen = writer, run, set(undo), frozen
        self.patches = {(p.number, p.place): p for p in patches}
        self.gradient_patches = {(g.number, g.place): g.value.array for g in gradients}
        self.inputs, self.parameters = inputs, parameters
        self.nodes, self.sketches, self.known = [], [], {}
        self.count, self.path, self.kinds, self.built = 0, "", {}, {}

    # -- recording

    def _record(self, array, **fields):
        digest, shown = moments(array), array
        if array.dtype.kind in "fi" and reaches_down(digest):
            kept = unmasked(array)
            if kept is not None and not (rest := moments(kept)).startswith("c"):
                shown, fields["attrs"] = kept, {**fields["attrs"], "unmasked": rest}
        record = self.writer.add(fields.pop("name", self.path), array, run=self.run, digest=digest, keep=False, **fields)
        self.sketches.append((record.id, sketch(shown)))
        return record.id

    def given(self, name, array, role="input"):
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype(TYPES[self.run])
        if name and name in self.known:
            return self.known[name]
        node = Node(array, self._record(array, name=name, role=role, attrs={"operation": "given"}), (-1, name))
        self.nodes.append(node)
        if name:
            self.known[name] = node
        return node

    def input(self, name="x"):
        return self.given(name, self.inputs[name])

    def parameter(self, name):
        return self.given(name, self.parameters[name], "parameter")

    def constant(self, array):
        return self.given("", array)

    @contextmanager
    def module(self, path, kind=""):
        """A layer of the framework, where it has a kind, constructed at the line that asks for it."""
        before, self.path = self.path, f"{self.path}.{path}".strip(".")
        if kind:
            self.kinds[self.path] = kind
        self.built.setdefault(self.path, lines())
        try:
            yield
        finally:
            self.path = before

    def operation(self, kind, make, *inputs, random=False, back=None, **arguments):
        """Run one operation; ``make`` gives an array or a list of them, ``back`` the gradients of the inputs from that of the result."""
        arrays = [node.array for node in inputs]
        made = make(*arrays)
        several, number = isinstance(made, list), self.count
        if number in self.undo:
            made, back = arrays[0], lambda g, *_: (g,)
        self.count += 1
        stack = lines()
        attrs = {"operation": kind, "stack": stack[1:], "arguments": arguments, **({"random": True} if random else {})}
        found = []
        for place, array in enumerate(made if several else [made]):
            result, more = array, {}
            patch = self.patches.get((number, place))
            if patch is not None:
                assert list(patch.shape) == list(array.shape)
                more["made"] = [moments(array)]
                result = patch.value.array.astype(array.dtype)
            record = self._record(
                result,
                role="output",
                leaf=str(place) if several else "",
                call=number,
                op=kind,
                source=stack[0] if stack else None,
                inputs=[node.record for node in inputs],
                attrs={**attrs, **more},
            )
            node = Node(result, record, (number, place), [(i, parent, back) for i, parent in enumerate(inputs)])
            self.nodes.append(node)
            found.append(node)
        return found if several else found[0]

    # -- the language

    def add(self, a, b):
        return self.operation("add", lambda x, y: x + y, a, b, back=lambda g, _, y: (g, summed(g, y)))

    def multiply(self, a, b):
        return self.operation("multiply", lambda x, y: x * y, a, b, back=lambda g, x, y: (g * y, summed(g * x, y)))

    def scale(self, a, by):
        return self.operation("multiply", lambda x: x * x.dtype.type(by), a, back=lambda g, _: (g * by,), scale=by)

    def shift(self, a, by):
        return self.operation("add", lambda x: x + x.dtype.type(by), a, back=lambda g, *_: (g,), other=by)

    def matmul(self, a, b):
        return self.operation("matmul", np.matmul, a, b, back=lambda g, x, y: (g @ y.swapaxes(-1, -2), summed(x.swapaxes(-1, -2) @ g, y)))

    def linear(self, a, w, b):
        return self.operation("matmul", lambda x, y, z: x @ y + z, a, w, b, back=lambda g, x, y, z: (g @ y.T, x.T @ g, summed(g, z)))

    def relu(self, a, slope=0.0):
        return self.operation(
            "relu",
            lambda x: np.where(x > 0, x, x * x.dtype.type(slope)),
            a,
            back=lambda g, x: (np.where(x > 0, g, g * slope),),
            slope=slope,
        )

    def tanh(self, a, factor=1.0):
        """``factor`` spoils the gradient."""
        return self.operation("tanh", np.tanh, a, back=lambda g, x: (g * (1 - np.tanh(x) ** 2) * factor,))

    def exp(self, a):
        return self.operation("exp", np.exp, a, back=lambda g, x: (g * np.exp(x),))

    def gelu(self, a, tanh=False):
        def run(x):
            if tanh:
                return (x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)
            return (x / 2 * (1 + erf(x / np.sqrt(2)))).astype(x.dtype)

        return self.operation("gelu", run, a, approximate=tanh)

    def softmax(self, a, axis=-1):
        def run(x):
            e = np.exp(x - x.max(axis, keepdims=True))
            return e / e.sum(axis, keepdims=True)

        return self.operation("softmax", run, a, axis=axis)

    def layer_norm(self, a, w, b, eps=1e-5):
        def run(x, weight, bias):
            centred = x - x.mean(-1, keepdims=True)
            return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias).astype(x.dtype)

        return self.operation("layer_norm", run, a, w, b, epsilon=eps)

    def reshape(self, a, *shape):
        return self.operation("view", lambda x: x.reshape(shape), a, back=lambda g, x: (g.reshape(x.shape),), shape=list(shape))

    def transpose(self, a, *axes):
        return self.operation(
            "transpose", lambda x: x.transpose(axes), a, back=lambda g, _: (g.transpose(np.argsort(axes)),), perm=list(axes)
        )

    def copy(self, a):
        return self.operation("copy", np.copy, a, back=lambda g, *_: (g,))

    def detach(self, a):
        return self.operation("copy", np.copy, a)

    def split(self, a, parts, axis=-1):
        return self.operation("split", lambda x: np.split(x, parts, axis), a, axis=axis)

    def concatenate(self, *parts, axis=-1):
        return self.operation("concatenate", lambda *xs: np.concatenate(xs, axis), *parts, axis=axis)

    def mean(self, a, axis=None):
        def back(g, x):
            return (np.broadcast_to(np.expand_dims(g, axis) if axis is not None else g, x.shape) * (g.size / x.size),)

        return self.operation("mean", lambda x: np.asarray(x.mean(axis)), a, back=back, axis=axis)

    def dropout(self, a, p, seed):
        keep = np.random.default_rng(seed).random(a.shape) >= p
        return self.operation("dropout", lambda x: (x * keep / (1 - p)).astype(x.dtype), a, random=True, p=p)

    # -- the end of a pass

    def finish(self, outputs, loss=None):
        """Write what is said once, and gradients where there is a loss."""
        outputs = outputs if isinstance(outputs, dict) else {"": outputs}
        said = {"outputs": {path: node.record for path, node in outputs.items()}, "built": self.built, "kinds": self.kinds, "random": []}
        said["frozen"] = {name: [line] for name, line in dict(self.frozen).items()}
        if loss is not None:
            said["loss"] = {"": loss.record}
            said["hooked"] = self._backward(loss)
        table = np.stack([one for _, one in self.sketches])
        self.writer.add("sketches", table, role="state", run=self.run, attrs={"records": [record for record, _ in self.sketches]})
        self.writer.manifest.settings.setdefault("operations", {})[self.run] = said

    def _backward(self, loss):
        gradients, hooked = {loss.record: np.ones_like(loss.array)}, self._trained()
        for node in reversed(self.nodes):
            gradient = gradients.get(node.record)
            if gradient is None or node.record not in hooked:
                continue
            gradient = gradient.astype(node.array.dtype)
            record = self.writer.add(
                "",
                gradient,
                role="gradient",
                run=self.run,
                digest=moments(gradient),
                keep=False,
                inputs=[node.record],
                attrs={"operation": "gradient"},
            )
            self.sketches.append((record.id, sketch(gradient)))
            node.gradient = gradient
            gradient = self.gradient_patches.get(node.where, gradient)
            if node.parents and node.parents[0][2] is not None:
                parts = node.parents[0][2](gradient, *(parent.array for _, parent, _ in node.parents))
                for (_, parent, _), part in zip(node.parents, parts, strict=True):
                    gradients[parent.record] = gradients.get(parent.record, 0) + part
        return sorted(hooked)

    def _trained(self):
        """Values that have a place in the graph of gradients: parameters that are not frozen, and what is made of such without a cut."""
        found = set()
        for node in self.nodes:
            if node.parents:
                if node.parents[0][2] is not None and any(parent.record in found for _, parent, _ in node.parents):
                    found.add(node.record)
            elif node.where[1] in self.parameters and node.where[1] not in dict(self.frozen):
                found.add(node.record)
        return found


def summed(gradient, array):
    """A gradient of an array that was broadcast."""
    while gradient.ndim > array.ndim:
        gradient = gradient.sum(0)
    return gradient


def erf(x):
    """Abramowitz and Stegun, formula 7.1.26 (to 1.5e-7)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def lines():
    """The lines of the program that are running, innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None and frame.f_code.co_name != "execute":
        if frame.f_code.co_filename != __file__ and "contextlib" not in frame.f_code.co_filename:
            found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return found


def drawn(seed, *shape):
    """Normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def line_in(file, marker):
    """The line of a file that ends with a marker, as places are written."""
    source = Path(file).read_text(encoding="utf-8").splitlines()
    return f"{file}:{1 + next(i for i, text in enumerate(source) if text.endswith('# line: ' + marker))}"


def named(found):
    """The candidate's line of each divergence."""
    return [d.candidate.source for d in found]


class Laboratory:
    """Two programs with the same inputs and parameters, recorded, located, and run again as often as asked."""

    def __init__(self, folder, reference, candidate, inputs, parameters, others=None, frozen=(), runs=("float64", "native")):
        self.folder, self.programs = Path(folder), {"reference": reference, "candidate": candidate}
        self.inputs, self.parameters = inputs, {"reference": parameters, "candidate": parameters if others is None else others}
        self.frozen, self.runs, self.spent, self.number = frozen, runs, 0, itertools.count()
        self.recorded = Recorded(self.capture("reference", runs), self.capture("candidate", runs))

    def execute(self, side, machine):
        program = self.programs[side]
        made = program(machine)
        outputs, loss = made if isinstance(made, tuple) else (made, None)
        machine.finish(outputs, loss)
        return machine

    def capture(self, side, runs, **changes):
        folder = self.folder / f"{side}-{next(self.number)}"
        with CaptureWriter(folder, Manifest(side=side, stage="operations", settings={"answer": {"runs": list(runs)}})) as writer:
            for run in runs:
                frozen = self.frozen if side == "candidate" else ()
                machine = self.execute(side, Machine(writer, run, self.inputs, self.parameters[side], frozen=frozen, **changes))
                if side == "reference" and run == runs[0]:
                    self.nodes = {node.record: node for node in machine.nodes}
        return Capture.open(folder)

    def run(self, patches):
        self.spent += 1
        try:
            return Graph(self.capture("candidate", self.runs[:1], patches=patches), self.runs[0])
        except ValueError:  # the program cannot go on with a value of that shape
            return None

    def backward(self, gradients, undo):
        self.spent += 1
        return Graph(self.capture("candidate", self.runs[:1], gradients=gradients, undo=undo), self.runs[0])

    def values(self, wanted):
        from paralign.dtypes import typed

        return {value: typed(np.array(self.nodes[value.record.id].array)) for value in wanted}

    def gradients(self, wanted):
        from paralign.dtypes import typed

        return {value: typed(np.array(self.nodes[value.record.id].gradient)) for value in wanted}

    # -- what is found

    def judgement(self, *, fine=False):
        return self.recorded.judgement(fine=fine)

    def guilty(self, *, fine=False):
        """Faults and remarks."""
        return guilty(self, self.judgement(fine=fine))

    def divergences(self, *, fine=False):
        return merged([divergence(guilt) for guilt in self.guilty(fine=fine)[0]])

    def gradient_faults(self):
        return proven(self, self.recorded.judged_gradients(), self.recorded.judged_gradients)

    def gradient_divergences(self):
        judgement = self.judgement()
        return [gradient_divergence(fault, judgement) for fault in self.gradient_faults()]


__all__ = ["Laboratory", "Machine"]
