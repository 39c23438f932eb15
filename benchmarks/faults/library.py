"""Random mistakes in models that nobody here wrote: Paddle models of the zoo, edited as :mod:`mutants` edits the benchmark's ports.

    .venv-zoo/bin/python benchmarks/faults/library.py [--pair NAME…] [--seed S] [--count N] [--json FILE] [--write FILE] [--jobs N]

A mutant is an edit of the file in which the model's class stands, of a line that runs, that changes the outputs.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import inspect
import json
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "zoo"))

import corpus
import judges
import mutants
import mutate
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: the reference's name in the zoo of one model of each kind: convolutions, attention, with and without masks, from four libraries
PAIRS = (
    "torchvision.resnet18",
    "torchvision.densenet121",
    "torchvision.mobilenet_v2",
    "torchvision.shufflenet_v2_x1_0",
    "timm.deit_tiny_patch16_224",
    "timm.convnext_tiny",
    "HF.BertModel",
    "HF.DistilBertModel",
    "HF.ElectraModel",
    "HF.GPT2Model",
    "HF.LlamaModel GQA",
    "HF.T5Model",
)

#: a relative difference of the outputs, in float32, above which a mutant changes something
CHANGED = 2e-5

TEXT = """\
# Random mistakes in models of libraries

Made by `.venv-zoo/bin/python benchmarks/faults/library.py --seed {seed} --count {count} --write docs/library-mutants.md`
(`make library-mutants`): random edits, as in [mutants](mutants.md), of the files in which Paddle models of the
[zoo](zoo.md) stand, each of a line that runs and that changes the outputs (by more than {changed:g}). The reference is the model of
the other library; the two were written by different people. Only `forward` is asked for.

{summary}

## By model

{models}

## By kind of edit

{kinds}

## By rule

Which rule of `locate/` chose the place that is named first; `ABLATE=id,id` leaves rules out.

{rules}

## Missed

{missed}
"""


class Model:
    """A pair of the zoo, its candidate's file, and what it computes as it is."""

    def __init__(self, reference: str) -> None:
        import zoo_pairs
        import zoo_prove

        self._pair = next(p for p in zoo_pairs.PAIRS if p.reference == reference)
        self.reference, port, self.inputs = zoo_prove.prepared(self._pair)
        self._original = sys.modules[type(port).__module__]
        self._file = inspect.getsourcefile(type(port)) or ""
        self.text = Path(self._file).read_text(encoding="utf-8")
        self._state = self._given(port)
        self.lines: set[int] = set()
        before = sys.gettrace()
        sys.settrace(self._ran)
        try:
            self._right = self.outputs(self.build(self._original))
        finally:
            sys.settrace(before)

    def _given(self, port: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The port's state as a check gives it to it: what a mutant changes only with other weights is no mistake that could be seen."""
        from paralign import Side, check

        found: dict[str, np.ndarray[Any, Any]] = {}
        types = {name: tensor.numpy().dtype for name, tensor in port.state_dict().items()}

        def note(*_: object) -> None:
            found.update({name: tensor.numpy().astype(types[name]) for name, tensor in port.state_dict().items()})

        hook = port.register_forward_post_hook(note)
        result = check(
            Side(model=self.reference, framework="torch"), Side(model=port, framework="paddle"), inputs=self.inputs, stages=["forward"]
        )
        hook.remove()
        if result.verdict != "aligned":
            raise ValueError(f"{self._pair.name} is {result.verdict} as it is")
        return found

    def _ran(self, frame: Any, event: str, _: Any) -> Any:  # noqa: ARG002 - what a trace function takes
        if frame.f_code.co_filename != self._file:
            return None
        self.lines.add(frame.f_lineno)
        return self._ran

    def module(self, text: str, number: int, folder: Path) -> tuple[ModuleType, Path]:
        """The file with another text, as a module beside the original; imports within its package find what the original found."""
        name = f"{self._original.__name__}_{number}"
        path = folder / f"{name.replace('.', '_')}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(name)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, path

    def build(self, module: ModuleType) -> Any:
        """The port, of another module's classes."""
        with self.instead(module):
            return self.port(module)

    def port(self, module: ModuleType) -> Any:
        """The port, of the classes that stand :meth:`instead` now: the lines that find these would be traced as the model's own."""
        port = self._pair.build()[1]
        if type(port).__module__ != module.__name__:
            raise TypeError(f"the model is of {type(port).__module__}, not of {module.__name__}")
        port.eval()
        return port

    @contextmanager
    def instead(self, module: ModuleType) -> Iterator[None]:
        """Whoever took a class or a function from the original has the other module's."""
        package = self._original.__name__.split(".")[0]
        taken = [
            (place, name, value)
            for space, place in list(sys.modules.items())
            if place is not None and place not in (self._original, module) and space.split(".")[0] == package
            for name, value in list(vars(place).items())
            if getattr(value, "__module__", None) == self._original.__name__ and hasattr(module, name)
        ]
        for place, name, _ in taken:
            setattr(place, name, getattr(module, name))
        try:
            yield
        finally:
            for place, name, value in taken:
                setattr(place, name, value)

    def outputs(self, port: Any) -> list[np.ndarray[Any, Any]]:
        """What a port computes with weights that say something."""
        import paddle

        own = port.state_dict()
        if {k: list(v.shape) for k, v in own.items()} != {k: list(v.shape) for k, v in self._state.items()}:
            raise ValueError("other weights")
        port.set_state_dict({k: paddle.to_tensor(v) for k, v in self._state.items()})
        with paddle.no_grad():
            if isinstance(self.inputs, dict):
                found = port(**{k: paddle.to_tensor(v) for k, v in self.inputs.items()})
            else:
                found = port(*(paddle.to_tensor(v) for v in self.inputs))
        return [leaf.numpy() for leaf in _leaves(found)]

    def changed(self, port: Any) -> bool:
        """Whether a port computes something else, of the same shapes and finite."""
        now = self.outputs(port)
        if [v.shape for v in now] != [v.shape for v in self._right] or not all(np.isfinite(v).all() for v in now):
            return False
        pairs = zip(self._right, now, strict=True)
        return max(float(np.linalg.norm(v.astype(float) - own) / (np.linalg.norm(own) or 1)) for own, v in pairs) > CHANGED


def _leaves(value: Any) -> Iterator[Any]:
    if hasattr(value, "numpy"):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def judged(reference: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """What paralign says of mutants of one model."""
    model, found = Model(reference), 0
    with tempfile.TemporaryDirectory(prefix="library-") as folder:
        for number, (what, text, lines) in enumerate(mutants.edits(model.text, random.Random(f"{reference} {seed}"), model.lines), 1):
            if what.startswith("detached"):
                continue
            try:
                module, path = model.module(text, number, Path(folder))
                if not model.changed(model.build(module)):
                    continue
            except Exception:  # noqa: BLE001 - an edit at random may break a model in any way, and such edits are no mistakes to be found
                continue
            finally:
                gc.collect()  # a model is a cycle, and large
            truth = corpus.whole_statements(text, corpus.changed(model.text.splitlines(), text.splitlines())) | lines
            row = _row(model, module, {f"{path}:{line}" for line in truth})
            yield {"id": f"{reference}/m{seed}-{number}", "stage": "forward", "what": what, **row}
            found += 1
            if found == count:
                return


def _row(model: Model, module: ModuleType, truth: set[str]) -> dict[str, Any]:
    from paralign import Side, check

    began = time.perf_counter()
    port = Side(framework="paddle", functions={"build_model": lambda: model.port(module)})
    try:
        with model.instead(module):
            result = check(Side(model=model.reference, framework="torch"), port, inputs=model.inputs, stages=["forward"])
        answer = judges.answered(result, truth, time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001 - one mutant must not end the run; what failed is in the row
        answer = judges.Answer(exact=False, listed=False, failed=f"{type(error).__name__}: {error}"[:300])
    return {"truth": sorted(t.rpartition("/")[2] for t in truth), "paralign": asdict(answer)}


def document(rows: list[dict[str, Any]], seed: int, count: int) -> str:
    """The page."""
    return TEXT.format(
        seed=seed,
        count=count,
        changed=CHANGED,
        summary=mutate.table(rows, "", lambda _: "**all**"),
        models=mutate.table(rows, "model", lambda r: r["id"].split("/")[0]),
        kinds=mutate.table(rows, "edit", lambda r: r["what"].split(":")[0]),
        rules=mutate.table(rows, "rule", lambda r: r["paralign"].get("rule") or "(none)"),
        missed=mutate.missed(rows),
    )


def main() -> None:
    """Choose, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", nargs="*", default=list(PAIRS), help="references of the zoo's pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=8, help="mutants of each model")
    parser.add_argument("--json", default="", help="file for the answers")
    parser.add_argument("--write", default="", help="file for the page")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        mutate.told(judged(options.worker, options.seed, options.count))
        return
    answers = mutate.asked(__file__, options.pair, options.seed, options.count, options.jobs)
    print(mutate.table(answers[0], "model", lambda r: r["id"].split("/")[0]))
    mutate.settled(answers, {options.json: json.dumps, options.write: partial(document, seed=options.seed, count=options.count)})


if __name__ == "__main__":
    main()
