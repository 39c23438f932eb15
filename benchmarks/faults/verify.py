"""Is the corpus what it says? Measured without paralign's judgement, in float64: the ports are right, faults show, variations do not.

python benchmarks/faults/verify.py [PROGRAM…]
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpus
import measure

if TYPE_CHECKING:
    from collections.abc import Callable

#: what of a difference in float64 counts: above what constants stored in single precision cause (2.4e-07, docs/verdicts.md), with room
RIGHT, VISIBLE = 1e-5, 1e-6
#: how much the spread in train mode must differ: several times what chance makes of it
SPREAD = 0.05


class Corpus:
    """The reference and the right port of one program, with its weights."""

    def __init__(self, program: str, change: Callable[[Any], Any] | None = None) -> None:
        self.program = program
        self.reference, self.port = corpus.load(program, "reference"), corpus.load(program, "candidate")
        names = getattr(corpus.load(program, "plants"), "NAMES", {})
        inputs = self.reference.inputs()
        self.given = change(inputs) if change else inputs, self.reference.labels() if hasattr(self.reference, "labels") else None
        double = measure.Program(self.reference, "torch", self.given, "float64")
        port = self.right_port = measure.Program(self.port, "paddle", self.given, "float64")
        self.names = names
        self.own = double.state()
        self.state = measure.carried(self.own, port, names)
        missing = set(port.state()) - set(self.state)
        if missing:
            raise ValueError(f"{program}: the reference has nothing for {sorted(missing)}")
        self.right: dict[str, measure.Values] = {}
        self.written: dict[str, measure.Values] = {}

    def of(self, plant: corpus.Plant) -> Corpus:
        """The same on the plant's own inputs, where it has some."""
        return Corpus(self.program, plant.given) if plant.given else self

    def stages(self) -> list[str]:
        """The stages that the program has functions for."""
        wanted = ["forward", *(["backward"] if hasattr(self.reference, "loss") else [])]
        return (
            wanted
            + (["update"] if hasattr(self.reference, "build_optimizer") else [])
            + (["data"] if hasattr(self.reference, "build_dataset") else [])
        )

    def values(self, stage: str) -> measure.Values:
        """What the stage sees of the right port."""
        if stage not in self.right:
            self.right[stage] = measure.values(self.port, "paddle", self.given, self.state, stage, "float64")
        return self.right[stage]

    def planted(self, module: Any, state: measure.Values | None, stage: str) -> measure.Values:
        """What the stage sees of a planted port."""
        return measure.values(module, "paddle", self.given, state, stage, "float64")

    def single(self, stage: str) -> measure.Values:
        """What the stage sees of the reference in single precision, under the port's names."""
        if stage not in self.written:
            own = measure.values(self.reference, "torch", self.given, None if stage == "data" else self.own, stage, "float32")
            self.written[stage] = {name: value for name, value in own.items() if not name.startswith("gradient")}
            for mode in ("eval", "quiet"):
                names = {name.split()[1]: value for name, value in own.items() if name.startswith("gradient") and name.endswith(mode)}
                self.written[stage] |= {f"gradient {n} {mode}": v for n, v in measure.carried(names, self.right_port, self.names).items()}
        return self.written[stage]

    def correct(self) -> dict[str, float]:
        """How far the port is from the reference, stage by stage."""
        found = {}
        for stage in self.stages():
            own = measure.values(self.reference, "torch", self.given, self.own, stage, "float64")
            if stage not in {"forward", "data"}:
                own = {name: value for name, value in own.items() if name.startswith(("loss", "lr"))}
            found[stage] = measure.distance(own, self.values(stage))[0]
        return found

    def shows(self, plant: corpus.Plant, module: Any) -> dict[str, tuple[float, str]]:
        """How far the planted port is from the right one at its stage; at all stages for a harmless variation.

        Of inputs of a plant's own: how far the port is from the reference on them.
        """
        if plant.given:
            return {stage: (error, stage) for stage, error in self.correct().items()}
        stages = self.stages() if plant.harmless else [plant.stage]
        found = {}
        for stage in stages:
            state = None
            if stage != "data":
                wanted = list(measure.Program(module, "paddle", self.given, "float64").state())
                state = measure.renamed(self.state, wanted, plant)
                if set(wanted) - set(state):
                    raise ValueError(f"{plant.id}: no weights for {sorted(set(wanted) - set(state))}")
            own = self.values(stage)
            if plant.harmless:  # whether rates are kept by group or by parameter is nobody's business: the changes decide
                own = {name: value for name, value in own.items() if not name.startswith("lr")}
            try:
                found[stage] = measure.distance(own, self.planted(module, state, stage))
            except RuntimeError as error:
                if "is not registered" not in str(error):
                    raise
                single = [
                    measure.values(m, "paddle", self.given, s, stage, "float32") for m, s in ((self.port, self.state), (module, state))
                ]
                found[stage] = measure.distance(*single)  # Paddle has no kernel in double precision
        return found


def sound(plant: corpus.Plant, shown: dict[str, tuple[float, str]]) -> bool:
    """Whether a fault shows, or a harmless variation does not."""
    error = max(value for value, _ in shown.values())
    return error < RIGHT if plant.harmless else error > (SPREAD if plant.stage == "random" else VISIBLE)


def imported(plant: corpus.Plant, folder: Path) -> Any:
    """The planted port."""
    target = corpus.plant_copy(plant, folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(f"{target.name}.candidate")


def verify(program: str) -> int:
    """Print every figure; the number of those that are not as they should be."""
    base, wrong = Corpus(program), 0
    for stage, error in base.correct().items():
        wrong += error > RIGHT
        print(f"{'ok ' if error <= RIGHT else 'BAD'} {error:9.1e} {program} port, {stage}")
    with tempfile.TemporaryDirectory() as folder:
        for plant in corpus.plants(program):
            try:
                module = imported(plant, Path(folder))
                corpus.truth(plant, Path(folder) / module.__name__.split(".")[0])
                shown = base.of(plant).shows(plant, module)
            except Exception as error:  # noqa: BLE001 - a plant may break in any way; all are to be seen in one run
                print(f"BAD {type(error).__name__} {plant.id}: {str(error)[:300]}")
                wrong += 1
                continue
            good = sound(plant, shown)
            wrong += not good
            error, where = max(shown.values())
            print(f"{'ok ' if good else 'BAD'} {error:9.1e} {plant.id} ({plant.stage or 'harmless'}; {where})", flush=True)
    return wrong


if __name__ == "__main__":
    chosen = sys.argv[1:] or corpus.programs()
    sys.exit(1 if sum(verify(program) for program in chosen) else 0)
