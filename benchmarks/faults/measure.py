"""What a program computes at each stage, by name: the measure of the self-test, and what a user of reprod_log writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.adapters.finding import load
from paralign.dtypes import typed, widen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from corpus import Plant

Values = dict[str, np.ndarray]
STEPS = 3
#: passes in train mode from which the spread of random outputs is taken
PASSES = 96


def flat(value: Any, adapter: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor of a nest of dicts, lists and tuples, with its path; a list and a tuple are told apart by nobody."""
    if isinstance(value, dict):
        for key, item in sorted(value.items()):
            yield from flat(item, adapter, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from flat(item, adapter, f"{path}.{number}")
    else:
        yield path, np.array(widen(adapter.to_array(value)) if adapter.is_tensor(value) else value)


def tensors(value: Any, adapter: Any, dtype: str) -> Any:
    """A nest of arrays as tensors, floating ones in ``dtype``."""
    if isinstance(value, dict):
        return {key: tensors(item, adapter, dtype) for key, item in value.items()}
    return adapter.from_array(typed(value.astype(dtype) if value.dtype.kind == "f" else value))


class Program:
    """One side of a program, with weights, ready to be run."""

    def __init__(self, module: ModuleType, framework: str, given: tuple[Any, Any], dtype: str) -> None:
        self.module, self.adapter, self.dtype = module, load(framework), dtype
        self.adapter.use_device("cpu")
        self.adapter.seed(0)
        self.model = module.build_model()
        self.inputs, self.labels = (None if v is None else tensors(v, self.adapter, dtype) for v in given)
        self.adapter.cast(self.model, dtype)

    def state(self) -> Values:
        """Parameters and buffers that a checkpoint holds, shared ones once; other buffers are computed by the program."""
        entries = [e for e in self.adapter.state(self.model) if e.shared is None and e.persistent]
        return {e.name: np.array(widen(self.adapter.to_array(e.tensor))) for e in entries}

    def put(self, state: Values) -> None:
        """Load weights; those that the model does not know are left out."""
        known = {e.name for e in self.adapter.state(self.model)}
        self.adapter.load_state(self.model, {name: typed(value) for name, value in state.items() if name in known})

    def call(self) -> Any:
        """The model's outputs."""
        return self.model(**self.inputs) if isinstance(self.inputs, dict) else self.model(self.inputs)

    def forward(self) -> Values:
        """The outputs in eval mode."""
        self.adapter.train(self.model, "eval")
        with self.adapter.no_grad():
            return {f"output{path}": value for path, value in flat(self.call(), self.adapter)}

    def backward(self, mode: str) -> Values:
        """Loss and gradients, and in train mode the buffers afterwards."""
        self.adapter.train(self.model, mode)
        loss = self.module.loss(self.call(), self.labels)
        self.adapter.backward(loss)
        found = {f"loss {mode}": widen(self.adapter.to_array(loss)).copy()}
        for name, gradient in self.adapter.gradients(self.model).items():
            found[f"gradient {name} {mode}"] = np.zeros(0) if gradient is None else widen(self.adapter.to_array(gradient)).copy()
        if mode != "eval":
            found |= {
                f"buffer {e.name}": widen(self.adapter.to_array(e.tensor)).copy()
                for e in self.adapter.state(self.model)
                if e.role == "buffer"
            }
        self.adapter.clear_gradients(self.model, None)
        return found

    def update(self) -> Values:
        """Learning rates, losses and the parameters' changes over a few steps."""
        before, found, adapter = self.state(), {}, self.adapter
        adapter.train(self.model, "eval")
        optimizer = self.module.build_optimizer(self.model)
        scheduler = self.module.build_scheduler(optimizer) if hasattr(self.module, "build_scheduler") else None
        for step in range(STEPS):
            loss = self.module.loss(self.call(), self.labels)
            found[f"loss {step}"] = widen(adapter.to_array(loss)).copy()
            found[f"lr {step}"] = np.array(adapter.learning_rates(optimizer)[0])
            adapter.backward(loss)
            adapter.step(optimizer)
            adapter.step_scheduler(optimizer, scheduler)
            adapter.clear_gradients(self.model, optimizer)
        return found | {f"change {name}": value - before[name] for name, value in self.state().items()}

    def spread(self) -> Values:
        """How much the outputs vary in train mode, over many seeds."""
        before = self.state()
        seen = []
        for seed in range(PASSES):
            self.adapter.seed(seed)
            self.adapter.train(self.model, "train")
            with self.adapter.no_grad():
                seen.append(np.concatenate([v.ravel() for _, v in flat(self.call(), self.adapter)]))
            self.put(before)
        return {"spread": np.array(np.sqrt(np.var(seen, 0).mean()))}


def data(module: ModuleType, framework: str) -> Values:
    """Every sample and every batch, in the order in which they come."""
    adapter = load(framework)
    adapter.seed(0)
    dataset = module.build_dataset("val")
    found: Values = {"length": np.array(len(dataset))}
    for index in range(len(dataset)):
        found |= {f"sample {index}{path}": value for path, value in flat(list(dataset[index]), adapter)}
    for number, batch in enumerate(module.build_dataloader("val")):
        found |= {f"batch {number}{path}": value for path, value in flat(list(batch), adapter)}
    return found


def values(module: ModuleType, framework: str, given: tuple[Any, Any], state: Values | None, stage: str, dtype: str) -> Values:
    """What a stage sees of a program.

    Args:
        given: inputs and labels as arrays.
        state: weights; None for the program's own.
        stage: one of ``corpus.STAGES``.
        dtype: ``float64`` or ``float32``.
    """
    if stage == "data":
        return data(module, framework)
    program = Program(module, framework, given, dtype)
    if state is not None:
        program.put(state)
    if stage == "forward":
        return program.forward()
    if stage == "update":
        return program.update()
    if stage == "random":
        return program.spread()
    found = program.backward("eval")
    return found | program.backward("quiet")


def carried(own: Values, program: Program, names: dict[str, str]) -> Values:
    """A reference's values under the names and in the layout of a port of it whose layers have the same names.

    Args:
        own: the reference's tensors by name.
        names: parts of the port's names and what stands there in the reference's.
    """
    found = {}
    for entry in program.adapter.state(program.model):
        name = entry.name
        for new, old in names.items():
            name = name.replace(new, old)
        name = name.replace("._mean", ".running_mean").replace("._variance", ".running_var")
        if name in own and entry.shared is None and entry.persistent:
            found[entry.name] = own[name].T if entry.kind == "Linear" and own[name].ndim == 2 else own[name]  # noqa: PLR2004 - a matrix
    return found


def renamed(state: Values, wanted: list[str], plant: Plant) -> Values:
    """The port's weights under the names of its variation; packed ones joined along the last axis."""
    found = {}
    for name in wanted:
        parts = [name] if name in state else []
        for new, olds in plant.weights.items():
            if name not in state and new in name:
                parts = [name.replace(new, old) for old in olds]
        arrays = [state[p.removesuffix(":T")].T if p.endswith(":T") else state[p] for p in parts]
        if arrays:
            found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, -1)
    return found


def distance(reference: Values, candidate: Values) -> tuple[float, str]:
    """The greatest relative L2 distance of what both have, and where; infinite where shapes differ or values are missing on one side."""
    worst, where = 0.0, ""
    total = np.sqrt(sum(float(np.sum(v.astype("float64") ** 2)) for n, v in reference.items() if n.startswith("gradient") and v.size))
    for name, value in reference.items():
        other = candidate.get(name)
        if other is None:
            if name.startswith(("sample", "batch", "output")):
                return float("inf"), name
            continue
        error = _error(value, other, 1e-6 * total if name.startswith("gradient") else 0.0)
        if error > worst:
            worst, where = error, name
    return worst, where


def _error(value: np.ndarray, other: np.ndarray, least: float) -> float:
    if value.size == 0 or other.size == 0:  # no gradient means a gradient of zeros
        value, other = (
            (np.zeros_like(v[0] if v[0].size else v[1]) for v in ((value, other), (other, value)))
            if value.size == other.size == 0
            else (value if value.size else np.zeros_like(other), other if other.size else np.zeros_like(value))
        )
    if value.squeeze().shape != other.squeeze().shape:
        return float("inf")
    value, other = value.squeeze().astype("float64"), other.squeeze().astype("float64")
    norm = max(float(np.linalg.norm(value)), least)
    error = float(np.linalg.norm(value - other))
    return error / norm if norm else error
