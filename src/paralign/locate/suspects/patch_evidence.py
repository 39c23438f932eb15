"""What became right, or less wrong, in a run with the reference's values in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.runs.counterparts import ALIKE, is_telling
from paralign.locate.runs.traverse import computing_users
from paralign.locate.suspects.propose import Reason

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.suspects.propose import Trial

#: operations after a point that are looked at to see whether a value put there makes them right
FOLLOWED = 32

#: an error that falls by this factor has fallen
FALL = 3.0


def places(judgement: Judgement) -> dict[tuple[int, int], Value]:
    """The candidate's results by the number of their operation and their place there."""
    return {(v.maker.number, v.place): v for v in judgement.candidate.values.values() if v.maker is not None and not v.maker.written}


def improved(before: Judgement, after: Judgement, trial: Trial) -> bool:
    """Whether the reference's value at a point makes what follows right, or less wrong."""
    if trial.value.maker is None:
        return False
    value = places(after).get((trial.value.maker.number, trial.value.place))
    if value is None:
        return False
    if trial.why is Reason.BEFORE and _spoilt(before, after, trial.value):
        return False
    if _is_right_output(after, value):
        return True
    then, spoils = places(before), _spoils_outputs(before, after)
    for user, near in followed(after, value):
        for result in user.outputs:
            if (user.number, result.place) in after.candidate.made:
                continue  # the reference's by itself
            old = then.get((user.number, result.place))
            if old is None or not _says_something(after, value, user, result):
                continue
            if _is_right_now(before, after, old, result) or (near and not spoils and _has_fallen(before, after, old, result)):
                return True
    return False


def _is_right_output(judgement: Judgement, value: Value) -> bool:
    """Whether a value is an output that the reference has at the same place."""
    limit = judgement.scale.own * judgement.scale.floor
    return any(second is value for _, second, far in judgement.outputs if far <= limit)


def _says_something(judgement: Judgement, value: Value, user: Operation, result: Value) -> bool:
    """Whether a result of what takes a value is an output, or is used and not only moved."""
    if is_output(judgement, result):
        return True
    if user.kind in MOVES or result.digest == value.digest:
        return False
    return bool(result.users)


def _is_right_now(before: Judgement, after: Judgement, old: Value, new: Value) -> bool:
    """Whether a result has become right, in its elements or their order.

    A mask that has become all zeros, say, shows nothing: any value might have made it.
    """
    if old in before.wrong and new not in after.wrong:
        return is_telling(new) or is_output(after, new)
    return before.disordered(old) and not after.disordered(new)


def _has_fallen(before: Judgement, after: Judgement, old: Value, new: Value) -> bool:
    """Whether a result's error has fallen; what resembles nothing has none."""
    error = min(before.error[old], ALIKE)
    return error > after.scale.equal / 10 and error > FALL * after.error[new]


def _spoils_outputs(before: Judgement, after: Judgement) -> bool:
    """Whether the outputs are much further from the reference's than they were.

    Then what comes nearer to some value on the way does so by chance.
    """
    errors = [max((far for _, _, far in judged.outputs), default=0.0) for judged in (before, after)]
    return errors[0] > 0 and errors[1] > FALL * errors[0]


def _spoilt(before: Judgement, after: Judgement, value: Value) -> bool:
    """Whether something that is computed of a value was right and is wrong now."""
    now = places(after)
    for user in computing_users(value):
        if user.kind in MOVES:
            continue
        for old in user.outputs:
            new = now.get((user.number, old.place))
            if new is None:
                return True
            if before.is_right(old) and not after.is_right(new):
                return True
    return False


def repaired(before: Judgement, after: Judgement) -> bool:
    """Whether an output that was wrong is right."""
    return len(after.wrong_outputs()) < len(before.wrong_outputs())


def is_output(judgement: Judgement, value: Value) -> bool:
    """Whether a value is one of the model's outputs."""
    return any(second is value for _, second, _ in judgement.outputs)


def followed(judgement: Judgement, value: Value) -> list[tuple[Operation, bool]]:
    """The operations that compute with a value, as long as the reference has none of it.

    With each, whether it is near: behind what hands the value on, and steps whose results resemble nothing of the reference. Further on
    errors fall for other reasons as well.
    """
    found: dict[Operation, bool] = {}
    todo = [(user, True) for user in computing_users(value)]
    while todo and len(found) < FOLLOWED:
        user, near = todo.pop(0)
        if user in found:
            continue
        found[user] = near
        others = [v for v in user.outputs if v.digest != value.digest]
        if not judgement.wrong.issuperset(others):
            continue
        near = near and all(judgement.matches.nearest(v)[1] is None for v in others)
        for made in user.outputs:
            todo += [(following, near) for following in computing_users(made)]
    return list(found.items())
