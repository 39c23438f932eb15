"""Updates as they are.

What an optimizer rounds to a lower precision does not show where all is float64.

Each side's native steps are held against its own float64 steps, as inherent differences of two update rules are in both. The
reference's distance is the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison import compare_pair
from paralign.comparison import judge as judge_pair
from paralign.dtypes import EPS
from paralign.locate.optimizer import read_config
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import DIVERGED, Divergence, Noise, Point
from paralign.stages.common.judging import FLOAT64
from paralign.stages.steps import resolution
from paralign.stages.steps.equal_gradients import Given, record_steps
from paralign.worker.protocol import Update
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.optimizer.update_rules import Terms
    from paralign.model import Pair, Record, StageResult
    from paralign.stages.steps.equal_gradients import Experiment

#: a change may be this much less exact than the reference's, and than the least noise: of 13 optimizers of both frameworks right ports
#: measured up to 2, with gradients rounded to float16 or bfloat16 from 15 on
LIMIT = 10.0

#: the least noise that is granted, relative: constants in float32, and few roundings that happen to cancel
LEAST = 2e-6

#: :func:`resolution.stored` holds for two sides that round, and twice their mean: one side rounds by a quarter
APART = 4.0

#: rounding of gradients to bfloat16 moves an update by this share of it, or more
COARSE = 1e-3

_HIDDEN_BY_STORING = (
    "the updates as they are, without float64, are too small beside the parameters to show a lower precision of the optimizer: "
    "only those in float64 were compared"
)
_HIDDEN_BY_BETAS = (
    "betas so near 1, of which kernels in float32 lose digits, hide a lower precision of the optimizer: "
    "only updates in float64 were compared"
)

#: families that divide a mean by what a beta leaves of one, ``1 - β``; and those that take a root of the one of squares
_FIRST, _SECOND = ("adam", "adabelief", "nadam", "radam", "adamax"), ("adam", "adabelief", "nadam", "radam", "rmsprop", "adadelta")

#: native steps of a training that are less exact than the reference's by this factor are worth an experiment: so may right ones be
DOUBTFUL = 3.0


@dataclass(frozen=True)
class _Ends:
    """What the steps did to a parameter of one side: in its float64 run and in its native one."""

    double: Record
    native: Record
    capture: Capture

    @property
    def far(self) -> tuple[float, float]:
        """The norms of the native change's distance from the one in float64, and of that one."""
        one, other = (np.asarray(self.capture.array(r), np.float64) for r in (self.double, self.native))
        return float(np.linalg.norm(one - other)), float(np.linalg.norm(one))

    @property
    def share(self) -> float:
        """The relative distance; 0 of what did not move."""
        far, size = self.far
        if size and math.isfinite(far):
            return far / size
        return 0.0


def judge(context: Context, result: StageResult, experiment: Experiment, stage: str) -> None:
    """Judge the candidate's native steps from equal gradients, where those in float64 agree.

    Args:
        context: the check.
        result: of the stage; gets the pairs that diverge, a verdict, the place.
        experiment: steps of both sides, in float64 and as they are.
        stage: whose tolerance decides; one that the user set leaves nothing to be judged here.
    """
    tolerance = context.settings.tolerance_of(stage)
    if tolerance.absolute or tolerance.ratio is not None:
        return
    if result.verdict == DIVERGED or experiment.run != DOUBLE:
        return
    last = len(experiment.steps) - 1
    theirs, ours = (_ends(capture, DOUBLE, NATIVE, last) for capture in (experiment.reference, experiment.candidate))
    told = read_config.told(experiment.abouts[1], experiment.rates[1])
    rounded = max(map(constants, told.values()), default=0.0)
    judged = []
    for name, ends in theirs.items():
        names = [record.name for record in experiment.plan.candidates_of(name)]
        judged += [_pair(experiment, name, ends, ours[each], rounded) for each in names if each in ours]
    wrong = [pair for pair in judged if pair.verdict == DIVERGED]
    if wrong:
        _diverge(result, experiment, wrong)
    elif judged and all(_is_hidden(pair) for pair in judged):
        result.notes.append(_HIDDEN_BY_BETAS if rounded > COARSE else _HIDDEN_BY_STORING)


def _is_hidden(pair: Pair) -> bool:
    """Whether a change's noise is so large that a lower precision would not show beside it."""
    return pair.noise is not None and LIMIT * pair.noise.value > COARSE


def doubt(context: Context, result: StageResult, captures: tuple[Capture, Capture], method: str) -> None:
    """Look at the optimizers alone where the candidate's steps are natively less exact.

    Gradients may be the reason, which are judged by themselves; from equal gradients it shows.

    Args:
        context: the check.
        result: of the stage, whose steps in float64 agree.
        captures: both sides' steps.
        method: by which those in eval mode were judged.
    """
    if result.verdict == DIVERGED or method != FLOAT64.name:
        return
    last, runs = context.settings.steps - 1, (f"{DOUBLE}:eval", f"{NATIVE}:eval")
    own, other = (_together(_ends(capture, *runs, last)) for capture in captures)
    if other <= DOUBTFUL * max(own, LEAST):
        return
    given = Given.of(captures[0], context.settings.steps)
    experiment = record_steps(context, given, result)
    if experiment is not None:
        judge(context, result, experiment, "backward")


def _together(found: dict[str, _Ends]) -> float:
    """The relative distance of all changes of a side together."""
    both = [ends.far for ends in found.values()]
    size = math.sqrt(sum(size**2 for _, size in both))
    far = math.sqrt(sum(far**2 for far, _ in both))
    if not size or not math.isfinite(far):
        return 0.0
    return far / size


def _ends(capture: Capture, double: str, native: str, step: int) -> dict[str, _Ends]:
    """Name of a parameter -> its whole change after a step, in both runs."""
    exact, rounded = (capture.by_name(role="parameter", run=run, step=step) for run in (double, native))
    found = {}
    for name, first in exact.items():
        second = rounded.get(name)
        if second is None or first.location is None or second.location is None:
            continue
        found[name] = _Ends(first, second, capture)
    return found


def constants(terms: Terms) -> float:
    """How much, relative, a step moves by a kernel's betas (or their powers) in float32.

    Of one near 1, ``1 - β`` keeps few digits.

    Example:
        >>> from paralign.locate.optimizer.update_rules import Terms
        >>> f"{constants(Terms('adam', (0.1,), first=0.9, second=0.9999)):.1g}"
        '0.0003'
    """
    half = EPS["float32"] / 2
    first = second = 0.0
    if terms.family in _FIRST and terms.first < 1:
        first = half / (1 - terms.first)
    if terms.family in _SECOND and terms.second < 1:
        second = half / (1 - terms.second) / 2
    return first + second


def _pair(experiment: Experiment, name: str, theirs: _Ends, ours: _Ends, rounded: float) -> Pair:
    """The candidate's native change of a parameter beside its own in float64.

    ``rounded``: what constants in float32 explain of it.
    """
    held = next((r for r in experiment.weights.records if r.name == name and r.location is not None), None)
    noise, how = max((theirs.share, "the reference's own native steps against its float64 ones"), (LEAST, "float32 constants"))
    noise, how = max((noise, how), (rounded / LIMIT, "what betas in float32 leave of one"))
    if held is not None:
        weight = resolution.rms(experiment.weights.array(held))
        change = min(resolution.rms(ends.capture.array(ends.double)) for ends in (theirs, ours))
        stored = resolution.stored(held.dtype, weight, change, len(experiment.steps)) / APART if change else math.inf
        noise, how = max((noise, how), (stored, f"storing the parameter in {held.dtype}"))
    values = [ours.capture.value(record) for record in (ours.double, ours.native)]
    pair = compare_pair(f"moved {name} (native)", theirs.native, ours.native, values[0], values[1])
    pair.noise = Noise(noise, how)
    judge_pair(pair, limit=LIMIT)
    return pair


def _diverge(result: StageResult, experiment: Experiment, wrong: list[Pair]) -> None:
    """The verdict, what it rests on, and where the optimizers are built."""
    worst = max(wrong, key=lambda pair: pair.ratio or 0.0)
    result.pairs += wrong
    result.verdict = DIVERGED
    own = worst.noise_value
    result.notes.append(
        f"from equal gradients the updates agree in float64; as they are, the candidate's of {len(wrong)} parameters are up to "
        f"{worst.error or 0.0:.2g} away from its own in float64, where rounding explains {own:.2g}: a lower precision in the optimizer "
        "(gradients or states that are cast)?"
    )
    if result.divergence is not None:
        return
    ends = []
    for capture, record in ((experiment.reference, worst.reference), (experiment.candidate, worst.candidate)):
        answer = Update.answer(capture)
        source = answer.sources("" if record is None else record.name)["optimizer"]
        ends.append(Point("" if record is None else record.name, answer.optimizer["class"], source, code_at(source)))
    result.divergence = Divergence(ends[0], ends[1], worst, inputs_agree=True, last_agreeing="the gradients, which are equal")
