"""What each tool says of a planted port: flagged or not, and where."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpus
import measure
import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from verify import Corpus

    from paralign.model import CheckResult

#: what a check is asked for at each stage; a harmless variation is asked for all that the program has
ASKED = {
    "data": ["data"],
    "forward": ["forward"],
    "backward": ["forward", "loss", "backward"],
    "update": ["forward", "loss", "backward"],
    "random": ["forward", "loss", "backward"],
}


@dataclass
class Answer:
    """What a tool said."""

    flagged: bool = False
    #: ``file:line`` of the place that it puts first, and of all that it lists
    first: str = ""
    #: id of the rule that chose the first place
    rule: str = ""
    #: what all rules proposed for the first place, the strongest first: rule, line, and whether that is a true one
    proposals: list[tuple[str, str, bool]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    #: the first place or any of them is a true line; None where the tool names no lines
    exact: bool | None = None
    listed: bool | None = None
    failed: str = ""
    note: str = ""
    seconds: float = 0.0


def same_line(source: str | None, truth: set[str]) -> bool:
    """Whether ``file:line``, with as much of the path as is given, is one of the true lines."""
    if not source or ":" not in source:
        return False
    file, _, line = source.rpartition(":")
    parts = Path(file).parts[-2:]
    return any(line == known.rpartition(":")[2] and Path(known.rpartition(":")[0]).parts[-len(parts) :] == parts for known in truth)


def side(module: ModuleType, framework: str) -> Any:
    """A side of a check, from a program's module."""
    from paralign import Side
    from paralign.registry import SIGNATURES

    names = [name for name in SIGNATURES if name not in ("inputs", "labels") and hasattr(module, name)]
    return Side(framework=framework, functions={name: getattr(module, name) for name in names})


def paralign(base: Corpus, plant: corpus.Plant, module: ModuleType, truth: set[str]) -> Answer:
    """``paralign.check`` on the reference and the planted port, with the stages that concern the plant."""
    from paralign import check

    stages = ASKED[plant.stage] if plant.stage else [s for s in ("data", *ASKED["update"]) if _has(base, s)]
    began = time.perf_counter()
    port = side(module, "paddle")
    if plant.named:  # its user has carried the weights over by their names
        loaded = measure.Program(module, "paddle", base.given, "float32")
        loaded.put(base.state)
        port.functions["build_model"] = lambda: loaded.model
    result = check(
        side(base.reference, "torch"),
        port,
        inputs=base.given[0],
        labels=base.given[1],
        stages=stages,
        weights="as-is" if plant.named else "copy",
    )
    return answered(result, truth, time.perf_counter() - began)


def answered(result: CheckResult, truth: set[str], seconds: float) -> Answer:
    """What a check says of a fault whose true lines are known."""
    answer = Answer(flagged=any(s.verdict == "diverged" for s in result.stages), seconds=seconds)
    answer.failed = "; ".join(
        f"{s.name}: {(s.failure or {}).get('message', s.verdict)[:200]}" for s in result.stages if s.verdict == "error"
    )
    led: list[str] = []
    for stage in result.stages:
        if stage.verdict == "diverged":
            worst = stage.worst
            answer.note += f"{stage.name}: {worst.key if worst else ''} {worst.ratio if worst else ''}; "
            divergences = getattr(stage, "divergences", None) or [stage.divergence]
            located = [d for d in divergences if d is not None and d.candidate is not None]
            if located and not answer.places:
                answer.rule = located[0].rule
                answer.proposals = [(p.rule, p.line, same_line(p.line, truth)) for p in located[0].proposals]
            answer.places += [_place(d) for d in located]
            led += [line for d in located for line in d.candidate.lines]
    answer.first = answer.places[0] if answer.places else ""
    answer.exact, answer.listed = same_line(answer.first, truth), any(same_line(place, truth) for place in [*answer.places, *led])
    return answer


def _has(base: Corpus, stage: str) -> bool:
    return hasattr(base.reference, {"data": "build_dataset", "forward": "build_model"}.get(stage, "loss"))


def _place(divergence: Any) -> str:
    return divergence.candidate.source or divergence.candidate.name


def reprod(base: Corpus, plant: corpus.Plant, module: ModuleType) -> Answer:
    """reprod_log with its default threshold, on what its guide has one write down at the stage of the plant."""
    answer = Answer()
    began = time.perf_counter()
    for stage in [plant.stage] if plant.stage else base.stages():
        if stage == "random":
            continue  # the guide switches dropout off
        own, other = _written(base, plant, module, stage)
        answer.flagged |= not _passes(own, other)
    answer.seconds = time.perf_counter() - began
    return answer


def _written(base: Corpus, plant: corpus.Plant, module: ModuleType, stage: str) -> tuple[measure.Values, measure.Values]:
    """What both sides write down, in single precision: samples, outputs, or losses, rates and gradients."""
    state = (
        None
        if stage == "data"
        else measure.renamed(base.state, list(measure.Program(module, "paddle", base.given, "float32").state()), plant)
    )
    other = measure.values(module, "paddle", base.given, state, stage, "float32")
    own = base.single(stage)
    kept = ("loss", "lr", "gradient") if stage in ("backward", "update") else ("",)
    names = [n for n in own if n.startswith(kept) and not n.endswith("quiet") and n in other]
    return {n: own[n] for n in names}, {n: other[n] for n in names}


def _passes(own: measure.Values, other: measure.Values) -> bool:
    from reprod_log import ReprodDiffHelper, ReprodLogger
    from reprod_log.utils import check_print_diff

    helper, infos = ReprodDiffHelper(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for number, values in enumerate((own, other)):
            logger = ReprodLogger()
            for name, value in values.items():
                logger.add(name, value if value.size else np.zeros(1))
            logger.save(f"{folder}/{number}.npy")
            infos.append(helper.load_info(f"{folder}/{number}.npy"))
        try:
            helper.compare_info(*infos)
        except ValueError:  # shapes that do not broadcast: its user sees the error
            return False
        return bool(check_print_diff(helper.diff_dict, print_func=lambda *_: None))


def judge(base: Corpus, plant: corpus.Plant, folder: Path, tools: tuple[str, ...] = ("paralign", "reprod_log")) -> dict[str, Any]:
    """What tools say of one plant."""
    from verify import imported

    module = imported(plant, folder)
    truth = corpus.truth(plant, folder / module.__name__.split(".")[0])
    found: dict[str, Any] = {
        "id": plant.id,
        "stage": plant.stage,
        "bugs": plant.bugs,
        "what": plant.what,
        "truth": sorted(t.split("/")[-1] for t in truth),
    }
    acts = {"paralign": lambda: paralign(base, plant, module, truth), "reprod_log": lambda: reprod(base, plant, module)}
    for name in tools:
        try:
            answer = acts[name]()
        except Exception as error:  # noqa: BLE001 - one plant must not end the run; what failed is in the table
            answer = Answer(failed=f"{type(error).__name__}: {error}"[:300])
        found[name] = asdict(answer)
    return found
