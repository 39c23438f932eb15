"""The settings that each parameter has in both optimizers, as a table; what differs first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paralign.locate.optimizer import read_config
from paralign.locate.optimizer import term_causes as words
from paralign.model import DIVERGED, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.locate.optimizer.update_rules import Terms
    from paralign.model import StageResult
    from paralign.stages.steps.equal_gradients import Experiment

#: rows of the table; further ones are counted
ROWS = 12

#: families whose rule has a mean of squares, and those that start from a momentum or a mean of gradients
_SQUARES = ("adam", "nadam", "radam", "adamax", "rmsprop", "adadelta", "adabelief", "lion")
_WITHOUT_EPSILON = ("sgd", "lion")

_NAMES = {"lr": "rate", "learning_rate": "rate", "weight_decay": "weight decay", "momentum": "momentum", "betas": "betas", "eps": "epsilon"}

#: the class that both frameworks' optimizers derive from
BASE = "Optimizer"

#: columns that only inform: the frameworks write one rule in different places
_INFORM = ("rule",)


@dataclass(frozen=True)
class Row:
    """One parameter's settings on both sides, column by column, in words.

    Where a rule is not known, only some settings are told: ``is_whole`` is false, and what one side does not tell is no difference.
    """

    name: str
    reference: dict[str, str]
    candidate: dict[str, str]
    is_whole: bool = True

    @property
    def differing(self) -> list[str]:
        """The columns that are not told alike."""
        judged = filter(self._is_judged, self.columns)
        return [c for c in judged if not self._agrees(self.reference.get(c, ""), self.candidate.get(c, ""))]

    def _is_judged(self, column: str) -> bool:
        """Whether a column that is not told alike is a difference."""
        if column in _INFORM:
            return False
        if column in self.reference and column in self.candidate:
            return True
        return self.is_whole and column != "clipping"

    def _agrees(self, one: str, other: str) -> bool:
        """Whether two cells say the same.

        Of a rule that is not known, a number stands without what it does.
        """
        if self.is_whole or not one or not other:
            return one == other
        return one.partition(", ")[0] == other.partition(", ")[0]

    @property
    def columns(self) -> list[str]:
        """All columns, the reference's first."""
        return list(dict.fromkeys([*self.reference, *self.candidate]))

    def cell(self, column: str) -> str:
        """One value where both sides have it, else both."""
        one, other = self.reference.get(column, "-"), self.candidate.get(column, "-")
        return one if one == other else f"{one} ≠ {other}"


def tell(result: StageResult, experiment: Experiment) -> list[Listing]:
    """The table of settings; the first that differs becomes a note of the result.

    It is a warning where no update has shown it.
    """
    rows = _rows(experiment)
    if not rows:
        return []
    silent = _silent(experiment)
    if silent:
        line = f"the {silent}'s optimizer does not tell all settings of its parameters: these are compared by the updates that it made"
        result.notes.append(line)
    if not all(about["mapped"] for about in experiment.abouts):
        return []
    wrong = [row for row in rows if row.differing]
    if wrong:
        column = wrong[0].differing[0]
        one, other = (side.get(column, "not told") for side in (wrong[0].reference, wrong[0].candidate))
        line = (
            f"settings differ first at {wrong[0].name}: {column}: {one} in the reference, {other} in the candidate "
            f"({len(wrong)} of {len(rows)} parameters differ)"
        )
        if result.verdict == DIVERGED:
            result.notes.append(line)
        elif _may_be_kept_elsewhere(experiment, wrong[0], column):
            result.notes.append(
                f"the settings that the optimizers tell are not the same (first at {wrong[0].name}: {column}), but a rule of the user's "
                "own may keep settings elsewhere: the updates that were made agree"
            )
        else:
            result.warnings.append(f"{line}; the updates that were made do not show it")
    return [_table(rows)]


def _may_be_kept_elsewhere(experiment: Experiment, row: Row, column: str) -> bool:
    """Whether nothing says a setting for sure.

    Both rules are the users' own, or the one that is does not tell it.
    """
    own = [_has_own_rule(about) for about in experiment.abouts]
    silent = [column not in told for told in (row.reference, row.candidate)]
    return all(own) or any(is_own and tells_not for is_own, tells_not in zip(own, silent, strict=True))


def _has_own_rule(about: Mapping[str, Any]) -> bool:
    """Whether an optimizer derives from no rule of a framework.

    Then nothing says what its settings do.
    """
    return bool(about["own"]) and about["kind"] in ("", BASE)


def _table(rows: list[Row]) -> Listing:
    """Parameters with the same settings on a line; those that differ first."""
    columns = list(dict.fromkeys(column for row in rows for column in row.columns))
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in sorted(rows, key=lambda r: not r.differing):
        alike.setdefault(tuple(row.cell(c) for c in columns), []).append(row.name)
    lines = [[_some(names), *cells] for cells, names in alike.items()]
    shown = lines[:ROWS]
    if len(lines) > ROWS:
        shown.append([f"… {len(lines) - ROWS} more groups", *("" for _ in columns)])
    return Listing("settings of the parameters (reference ≠ candidate)", ["parameters", *columns], shown)


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _rows(experiment: Experiment) -> list[Row]:
    """The settings of every parameter that the reference's optimizer has, or the candidate's."""
    told, known = [], []
    for about, rates in zip(experiment.abouts, experiment.rates, strict=True):
        mapped = {**about, "parameters": about["mapped"]}
        cells = {name: _cells(about, terms) for name, terms in read_config.told(mapped, rates).items()}
        known.append(bool(cells))
        told.append(cells or {name: _raw(about, own) for name, own in about["mapped"].items()})
    names = list(dict.fromkeys([*told[0], *told[1]]))
    absent = {"rule": "not updated"}
    rows = [Row(name, told[0].get(name, absent), told[1].get(name, absent)) for name in names]
    return [replace(row, is_whole=all(known) or absent in (row.reference, row.candidate)) for row in rows]


def _silent(experiment: Experiment) -> str:
    """The side whose own optimizer alone has settings that cannot be read; '' elsewhere."""
    known = [bool(read_config.told({**a, "parameters": a["mapped"]}, r)) for a, r in zip(experiment.abouts, experiment.rates, strict=True)]
    if all(known) or not any(known):
        return ""
    return ("reference", "candidate")[known.index(False)]


def _cells(about: Mapping[str, Any], terms: Terms) -> dict[str, str]:
    """Terms of a known rule in words."""
    cells = {"rule": str(about["class"]), "rate": words.number(terms.rates[0]) if terms.rates else ""}
    if terms.decay or not about["own"] or read_config.tells(about, terms.group, "decay"):  # else it may be kept under another name
        cells["weight decay"] = words.told("decay", (terms.decay, terms.style), terms)
    if terms.clip:
        cells["clipping"] = words.told("clip", (terms.clip, terms.threshold, terms.slack, terms.late), terms)
    elif not about["own"]:  # a step of the user's own may clip by itself: that is seen by its updates alone
        cells["clipping"] = "none"
    first = words.number(terms.first)
    cells["momentum, betas"] = f"{first}, {words.number(terms.second)}" if terms.family in _SQUARES else first
    cells["epsilon"] = "" if terms.family in _WITHOUT_EPSILON else words.number(terms.eps)
    flags = [name for name in ("nesterov", "amsgrad", "centered") if getattr(terms, name)]
    flags += [f"dampening {words.number(terms.dampening)}"] if terms.dampening else []
    flags += ["maximize"] if terms.sign < 0 else []
    cells["besides"] = ", ".join(flags)
    return cells


def _raw(about: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, str]:
    """What the group of a parameter says, where the rule is not known."""
    group = about["groups"][own["group"]] if own["group"] < len(about["groups"]) else {}
    found = {"rule": str(about["class"])}
    found.update({_NAMES[key]: _said(key, value) for key, value in {**about["settings"], **group}.items() if key in _NAMES})
    return found


def _said(key: str, value: Any) -> str:
    """A setting as those of known rules are said."""
    if key == "weight_decay" and not value:
        return "none"
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return words.number(float(value)) if plain else str(value)
