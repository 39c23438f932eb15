"""One process: padiff on one program's plants, a line of JSON for each.

    PADIFF=FOLDER python benchmarks/faults/padiff_worker.py PROGRAM [ID…]

padiff patches both frameworks when it is imported, so it has a process of its own, and is imported before them. It is given the right
weights, eval mode, the loss and, for mistakes in the update, the optimizers.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import corpus
    from judges import Answer
    from verify import Corpus

#: padiff's own defaults compare means up to 1e-7, which rounding exceeds in every float32 model; the other setting compares every element
SETTINGS: dict[str, dict[str, Any]] = {"padiff": {"atol": 1e-4, "rtol": 1e-4, "compare_mode": "strict"}, "padiff_default": {}}


def arguments(program: Any) -> dict[str, Any]:
    """The inputs by the names of the model's own parameters."""
    if isinstance(program.inputs, dict):
        return dict(program.inputs)
    return {next(iter(inspect.signature(program.model.forward).parameters)): program.inputs}


def steps(program: Any) -> Any:
    """A function that updates the model once."""
    optimizer = program.module.build_optimizer(program.model)
    scheduler = program.module.build_scheduler(optimizer) if hasattr(program.module, "build_scheduler") else None

    def step() -> None:
        program.adapter.step(optimizer)
        program.adapter.step_scheduler(optimizer, scheduler)
        program.adapter.clear_gradients(program.model, optimizer)

    return step


def compare(base: Corpus, plant: corpus.Plant, module: Any, truth: set[str], options: dict[str, Any]) -> Answer:
    """``auto_diff`` on both models, and what its output says of the place."""
    import measure
    from judges import Answer
    from padiff import auto_diff

    if plant.stage in ("data", "random"):
        return Answer(note="padiff does not look at this")
    reference = measure.Program(base.reference, "torch", base.given, "float32")
    reference.put(base.own)
    candidate = measure.Program(module, "paddle", base.given, "float32")
    candidate.put(measure.renamed(base.state, list(candidate.state()), plant))
    for program in (reference, candidate):
        program.adapter.train(program.model, "eval")
    more: dict[str, Any] = {}
    forward = plant.stage == "forward" or not hasattr(base.reference, "loss")
    if not forward:
        more["loss_fn"] = tuple((lambda out, p=p: p.module.loss(out, p.labels)) for p in (candidate, reference))
    if plant.stage == "update":
        more |= {"optimizer": (steps(candidate), steps(reference)), "steps": 3}
    settings = {**options, **({"diff_phase": "forward"} if forward else {})}
    told, began = io.StringIO(), time.perf_counter()
    try:
        with contextlib.redirect_stdout(told):
            good = auto_diff(
                candidate.model, reference.model, (arguments(candidate), arguments(reference)), auto_weights=False, options=settings, **more
            )
    except Exception as error:  # noqa: BLE001 - whatever padiff raises is its answer
        return Answer(failed=f"{type(error).__name__}: {error}"[:300], seconds=time.perf_counter() - began)
    answer = Answer(flagged=not good, seconds=time.perf_counter() - began)
    text = told.getvalue()
    stack = re.findall(r"File (\S+): (\d+)", text.partition("Torch  Stacks")[0])
    answer.places = [f"{file}:{line}" for file, line in stack if Path(file).parent == Path(module.__file__).parent]
    kinds = re.findall(r"Type of layer is  : \S+ vs (\S+)", text)
    answer.first = " ".join([*kinds, *answer.places[:1]])
    answer.exact = bool(set(kinds) & classes(truth)) or _named(answer.places[:1], truth)
    answer.listed = answer.exact or _named(answer.places, truth)
    return answer


def _named(places: list[str], truth: set[str]) -> bool:
    from judges import same_line

    return any(same_line(place, truth) for place in places)


def classes(truth: set[str]) -> set[str]:
    """The class of layer in which each true line is."""
    found = set()
    for place in truth:
        file, _, line = place.rpartition(":")
        for text in reversed(Path(file).read_text(encoding="utf-8").splitlines()[: int(line)]):
            if match := re.match(r"(?:class|def) (\w+)", text):
                found.add(match[1])
                break
    return found


def main() -> None:
    """Judge the plants and print the answers; whatever padiff prints besides goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    here = str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory(prefix="padiff-") as folder:
        sys.path[:0] = [folder, os.environ["PADIFF"]]  # padiff writes its logs beside the first
        import padiff  # noqa: F401 - before the frameworks, which it patches

        sys.path.append(here)
        import corpus
        from verify import Corpus, imported

        program, *wanted = sys.argv[1:]
        base = Corpus(program)
        for plant in corpus.plants(program):
            if wanted and plant.id not in wanted:
                continue
            module = imported(plant, Path(folder))
            truth = corpus.truth(plant, Path(folder) / module.__name__.split(".")[0])
            row = {"id": plant.id} | {
                name: asdict(compare(base.of(plant), plant, module, truth, options)) for name, options in SETTINGS.items()
            }
            print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main()
