"""Which term explains an update: recipes identified from steps, and the differences that matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paralign.locate.optimizer import read_config
from paralign.locate.optimizer import term_causes as words
from paralign.locate.optimizer.identify import causes, differences, errors, factors, far, identify
from paralign.locate.optimizer.update_rules import Terms, Trace, moved

RANDOM = np.random.default_rng(0)
SHAPES = {"fc.weight": (8, 12), "fc.bias": (8,), "head.weight": (3, 8), "head.bias": (3,)}
COUNT = 5
LIMITS = dict.fromkeys(SHAPES, 5e-7)


def traces(reference, candidate):
    """What two recipes do from equal weights and gradients."""
    found = {}
    for name, shape in SHAPES.items():
        gradients = [RANDOM.normal(size=math.prod(shape)) for _ in range(COUNT)]
        found[name] = Trace(
            name, RANDOM.normal(size=math.prod(shape)), gradients, [float(np.linalg.norm(g)) for g in gradients], dims=len(shape)
        )
    for side, recipe in (("reference", reference), ("candidate", candidate)):
        for name, steps in moved(recipe, found).items():
            found[name].steps[side] = steps
    return found


def everywhere(**terms):
    terms = {"family": "adam", "rates": (0.01,) * COUNT, "first": 0.9, **terms}
    return {name: Terms(**terms) for name in SHAPES}


def some(recipe, names, **terms):
    return {n: replace(t, **terms) if n in names else t for n, t in recipe.items()}


SGD = {"family": "sgd", "first": 0.9}
BIASES = ["fc.bias", "head.bias"]

#: reference, candidate, start, terms of the only cause
HIDDEN = {
    "rate": (everywhere(), everywhere(rates=(0.005,) * COUNT), ("rates",)),
    "a parameter's rate": (everywhere(), some(everywhere(), ["fc.bias"], rates=(0.001,) * COUNT), ("rates",)),
    "one step behind": (everywhere(rates=(1.0, 0.5, 0.25, 0.1, 0.0)), everywhere(rates=(1.0, 1.0, 0.5, 0.25, 0.1)), ("rates",)),
    "no decay": (everywhere(decay=0.1), everywhere(), ("decay", "style")),
    "another decay": (everywhere(decay=0.1), everywhere(decay=0.03), ("decay", "style")),
    "coupled": (everywhere(decay=0.1, style="decoupled"), everywhere(decay=0.1), ("decay", "style")),
    "after": (everywhere(decay=0.1, style="decoupled"), everywhere(decay=0.1, style="after"), ("decay", "style")),
    "decay on biases": (some(everywhere(decay=0.1), BIASES, decay=0.0), everywhere(decay=0.1), ("decay", "style")),
    "beta 1": (everywhere(), everywhere(first=0.8), ("first",)),
    "beta 2": (everywhere(), everywhere(second=0.98), ("second",)),
    "epsilon": (everywhere(), everywhere(eps=1e-3), ("eps",)),
    "epsilon inside": (everywhere(eps=1e-3), everywhere(eps=1e-3, place="inside"), ("place",)),
    "epsilon hat": (everywhere(eps=1e-3), everywhere(eps=1e-3, place="hat"), ("place",)),
    "no correction": (everywhere(), everywhere(corrected="none"), ("corrected",)),
    "amsgrad": (everywhere(second=0.5), everywhere(second=0.5, amsgrad=True), ("amsgrad",)),
    "ascent": (everywhere(), everywhere(sign=-1.0), ("sign",)),
    "momentum": (everywhere(**SGD), everywhere(**{**SGD, "first": 0.0}), ("first",)),
    "nesterov": (everywhere(**SGD), everywhere(**SGD, nesterov=True), ("nesterov",)),
    "dampening": (everywhere(**SGD), everywhere(**SGD, dampening=0.1), ("dampening",)),
    "rate in momentum": (
        everywhere(**SGD, rates=(1.0, 0.5, 0.2, 0.1, 0.1)),
        everywhere(**SGD, rates=(1.0, 0.5, 0.2, 0.1, 0.1), scaled=True),
        ("scaled",),
    ),
    "clipping": (everywhere(**SGD), everywhere(**SGD, clip="global", threshold=3.0), ("clip", "threshold", "slack", "late")),
    "clipping by tensor": (
        everywhere(**SGD, clip="global", threshold=2.0),
        everywhere(**SGD, clip="tensor", threshold=2.0),
        ("clip", "threshold", "slack", "late"),
    ),
    "clipping by value": (
        everywhere(**SGD, clip="global", threshold=2.0),
        everywhere(**SGD, clip="value", threshold=0.25),
        ("clip", "threshold", "slack", "late"),
    ),
    "clipped updates": (everywhere(), everywhere(whole=(0.5, 0.4, 0.3, 0.7, 0.2)), ("whole",)),
    "centred": (everywhere(family="rmsprop", first=0.0), everywhere(family="rmsprop", first=0.0, centered=True), ("centered",)),
    "frozen": (everywhere(), some(everywhere(), ["head.bias"], moves=False), ("moves",)),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_a_difference_that_no_setting_tells_of_is_found_from_the_steps(what):
    """The candidate's optimizer tells the reference's settings; what it does differs in one term."""
    reference, candidate, terms = HIDDEN[what]
    seen = traces(reference, candidate)
    known = identify("candidate", seen, [reference], LIMITS)
    assert known.left == {}
    (found,) = causes(reference, known.recipe, seen, LIMITS)
    assert found.terms == terms
    changed = [n for n in SHAPES if reference[n] != candidate[n]]
    assert set(found.parameters) == set(changed)
    assert found.before > 1e-5
    assert found.after <= 5e-7


@pytest.mark.parametrize("what", HIDDEN)
def test_equal_sides_differ_in_nothing(what):
    recipe = HIDDEN[what][1]
    seen = traces(recipe, recipe)
    known = identify("candidate", seen, [recipe], LIMITS)
    assert (known.left, known.fitted) == ({}, set())
    assert causes(recipe, known.recipe, seen, LIMITS) == []


def test_several_causes_are_all_needed():
    reference = everywhere(decay=0.1, style="decoupled")
    candidate = some(everywhere(decay=0.1, style="decoupled", second=0.98), BIASES, decay=0.0)
    found = causes(reference, candidate, traces(reference, candidate), LIMITS)
    assert {d.terms for d in found} == {("second",), ("decay", "style")}
    assert {d.terms: set(d.parameters) for d in found}["decay", "style"] == set(BIASES)


def test_a_setting_that_changes_nothing_is_no_cause():
    reference, candidate = everywhere(**SGD, eps=1e-8), everywhere(**SGD, eps=1.0, rates=(0.02,) * COUNT)
    assert {d.terms for d in differences(reference, candidate)} == {("eps",), ("rates",)}
    (found,) = causes(reference, candidate, traces(reference, candidate), LIMITS)
    assert found.terms == ("rates",)


def test_another_algorithm_is_one_cause():
    reference, candidate = everywhere(), everywhere(family="rmsprop", first=0.0, second=0.9)
    (found,) = causes(reference, candidate, traces(reference, candidate), LIMITS)
    assert found.terms == ("family",)


def test_steps_that_no_rule_makes_are_left_unexplained():
    seen = traces(everywhere(), everywhere())
    for trace in seen.values():
        trace.steps["candidate"] = RANDOM.normal(size=trace.steps["candidate"].shape)
    known = identify("candidate", seen, [everywhere()], LIMITS)
    assert set(known.left) == set(SHAPES)


def test_without_a_start_nothing_is_known():
    known = identify("candidate", traces(everywhere(), everywhere()), [], LIMITS)
    assert (known.recipe, set(known.left)) == ({}, set(SHAPES))


def test_a_factor_is_seen_without_any_rule():
    seen = traces(everywhere(), some(everywhere(), BIASES, rates=(0.02,) * COUNT))
    assert factors(seen, LIMITS) == {
        "fc.weight": pytest.approx(1),
        "head.weight": pytest.approx(1),
        "fc.bias": pytest.approx(2),
        "head.bias": pytest.approx(2),
    }


@pytest.mark.parametrize(
    ("expected", "observed", "distance"),
    [([1.0], [1.0], 0.0), ([0.0], [0.0], 0.0), ([1.0], [0.0], math.inf), ([math.nan], [1.0], math.inf), ([2.0], [1.0], 1.0)],
)
def test_how_far_two_histories_are_apart(expected, observed, distance):
    assert far(np.array(expected), np.array(observed)) == distance


def test_errors_are_told_parameter_by_parameter():
    seen = traces(everywhere(), some(everywhere(), ["fc.bias"], rates=(0.02,) * COUNT))
    found = errors(everywhere(), seen, "candidate")
    assert {n for n, e in found.items() if e} == {"fc.bias"}


# -- what an optimizer tells -------------------------------------------------------------------------------------------------------


def about(kind="AdamW", framework="torch", settings=None, groups=None, parameters=None, **more):
    return {"class": kind, "module": f"{framework}.optim", "kind": kind, "framework": framework, "own": False, "settings": settings or {}, "groups": groups or [{}],
            "clip": {}, "regularization": {}, "parameters": parameters or {"w": {"group": 0}}, **more}  # fmt: skip


def test_torch_groups_are_read():
    groups = [{"lr": 0.1, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.01, "amsgrad": True, "maximize": True}]
    (terms,) = read_config.told(about(groups=groups), [[0.1], [0.2]]).values()
    assert (terms.family, terms.rates, terms.first, terms.second, terms.eps) == ("adam", (0.1, 0.2), 0.8, 0.9, 1e-6)
    assert (terms.decay, terms.style, terms.amsgrad, terms.sign) == (0.01, "decoupled", True, -1.0)


def test_paddle_settings_regularizers_and_clipping_are_read():
    told = about(
        "Momentum", "paddle", {"momentum": 0.9, "use_nesterov": True}, [{"learning_rate": 0.1}, {}],
        {"a": {"group": 0, "rate": 0.1, "decay": 0.3}, "b": {"group": 1, "clipped": False}},
        clip={"clip": "ClipGradByGlobalNorm", "clip_norm": 2.0}, regularization={"decay": 0.5, "l1": True},
    )  # fmt: skip
    found = read_config.told(told, [[0.01, 0.1]])
    assert (found["a"].family, found["a"].first, found["a"].nesterov) == ("sgd", 0.9, True)
    assert (found["a"].rates, found["b"].rates) == ((0.01,), (0.1,))
    assert ((found["a"].decay, found["a"].style), (found["b"].decay, found["b"].style)) == ((0.3, "coupled"), (0.5, "l1"))
    assert ((found["a"].clip, found["a"].threshold), found["b"].clip) == (("group", 2.0), "")


def test_a_parameter_that_paddles_adamw_exempts_has_no_decay():
    told = about(
        framework="paddle",
        settings={"type": "adamw", "weight_decay": 0.1},
        parameters={"a": {"group": 0, "decayed": False}, "b": {"group": 0, "decayed": True}},
    )
    found = read_config.told(told, [[0.1]])
    assert (found["a"].decay, found["b"].decay) == (0.0, 0.1)


def test_an_optimizer_of_no_known_family_tells_nothing_unless_it_is_like_another():
    told = about("Mine", "torch", groups=[{"lr": 0.1, "weight_decay": 0.2}])
    assert read_config.told(told, [[0.1]]) == {}
    (terms,) = read_config.told(told, [[0.1]], Terms("adam", (), first=0.7)).values()
    assert (terms.family, terms.first, terms.decay) == ("adam", 0.7, 0.2)


# -- in words ----------------------------------------------------------------------------------------------------------------------


def finding(reference, candidate, abouts=None):
    seen = traces(reference, candidate)
    abouts = abouts or (about(parameters={}), about(framework="paddle", settings={"weight_decay": 0.1, "epsilon": 1e-8}, parameters={}))
    return [words.finding(d, abouts, seen, candidate[d.parameters[0]], proven=True) for d in causes(reference, candidate, seen, LIMITS)]


def test_a_cause_names_both_values_the_parameters_and_the_fix():
    (found,) = finding(some(everywhere(decay=0.1, style="decoupled"), BIASES, decay=0.0), everywhere(decay=0.1, style="decoupled"))
    assert found.rule == "update/decay"
    assert found.cause == (
        "weight decay: none in the reference, 0.1, decoupled, before the update in the candidate, "
        "on biases and normalisation (all one-dimensional parameters)"
    )
    assert found.fix == "set weight_decay as in the reference: none"
    assert found.proven


def test_a_schedule_that_lags_is_called_so():
    (found,) = finding(everywhere(rates=(1.0, 0.5, 0.25, 0.1, 0.0)), everywhere(rates=(1.0, 1.0, 0.5, 0.25, 0.1)))
    assert found.cause == "learning rate: the candidate's schedule is one step behind, on all parameters"
    assert found.fix.startswith("step the schedule once more before the first update")


@pytest.mark.parametrize(
    ("factor", "own", "fix"),
    [
        (0.1, 0.01, "a rate in ParamAttr or in a parameter group is a factor in Paddle: set the ratio that is wanted, 1"),
        (2.0, 0.2, "these parameters have the factor 2 of ParamAttr or their parameter group: 1 gives the reference's rate"),
        (0.5, 0.2, "these parameters have the factor 0.5 of ParamAttr or their parameter group: 0.25 gives the reference's rate"),
        (1.0, 0.2, "set learning_rate as in the reference"),
    ],
)
def test_a_factor_is_told_of_where_the_wrong_parameters_have_one(factor, own, fix):
    seen = {name: {"group": 0, "rate": factor} for name in everywhere()}
    sides = about(parameters={}), about(framework="paddle", parameters=seen)
    (found,) = finding(everywhere(rates=(0.1,) * COUNT), everywhere(rates=(own,) * COUNT), sides)
    assert found.fix.startswith(fix)


def test_a_factor_of_other_parameters_says_nothing():
    first = next(iter(everywhere()))
    seen = {name: {"group": 0, "rate": 3.0 if name == first else 1.0} for name in everywhere()}
    wrong = [name for name in everywhere() if name != first]
    sides = about(parameters={}), about(framework="paddle", parameters=seen)
    reference = everywhere(rates=(0.1,) * COUNT)
    for found in finding(reference, some(reference, wrong, rates=(0.2,) * COUNT), sides):
        assert "factor" not in found.fix


@pytest.mark.parametrize(("framework", "fix"), [("paddle", "give the schedule to the optimizer"), ("torch", "build the schedule on this")])
def test_a_rate_that_never_changes_is_no_setting_but_a_schedule_beside_the_optimizer(framework, fix):
    sides = about(parameters={}), about(framework=framework, parameters={})
    (found,) = finding(everywhere(rates=(0.1, 0.2, 0.3, 0.4, 0.5)), everywhere(rates=(0.7,) * COUNT), sides)
    assert found.fix.startswith(fix)
    (other,) = finding(everywhere(rates=(0.1, 0.2, 0.3, 0.4, 0.5)), everywhere(rates=(0.7, 0.6, 0.1, 0.4, 0.2)), sides)
    assert not other.fix.startswith(fix)


@pytest.mark.parametrize(("groups", "said"), [(2, "each parameter group by its own norm"), (1, "in its training loop")])
def test_a_norm_of_each_group_is_told_apart_from_one_of_all(groups, said):
    sides = about(parameters={}), about(framework="paddle", groups=[{}] * groups, parameters={})
    candidate = everywhere(**SGD, clip="group", threshold=0.5)
    found = finding(everywhere(**SGD), candidate, sides)
    assert any(said in each.fix for each in found if each.rule == "update/clip")


def test_what_frameworks_write_differently_is_inherent():
    clip = {"clip": "global", "threshold": 2.0}
    (found,) = finding(everywhere(**SGD, **clip, slack=1e-3), everywhere(**SGD, **clip))
    assert found.rule == "update/inherent"
    (found,) = finding(everywhere(**SGD, **clip), everywhere(**SGD, **{**clip, "threshold": 1.0}))
    assert found.rule == "update/clip"


@pytest.mark.parametrize(("family", "name"), [("rmsprop", "RMSProp"), ("adamax", "Adamax")])
@pytest.mark.parametrize(("eps", "rule"), [(1e-6, "update/inherent"), (1e-3, "update/place")])
def test_the_place_of_epsilon_is_inherent_unless_epsilon_was_chosen_large(eps, rule, family, name):
    terms = {"family": family, "first": 0.0, "eps": eps}
    sides = about(name, parameters={}), about(name, "paddle", parameters={})
    (found,) = finding(everywhere(**terms), everywhere(**terms, place="inside"), sides)
    assert found.rule == rule
    assert "write the update by hand" in found.fix


def test_between_equal_frameworks_and_for_own_optimizers_nothing_is_inherent():
    terms = {"family": "adamax", "eps": 1e-2}
    for sides in ((about("Adamax"), about("Adamax")), (about("Adamax"), about("Adamax", "paddle", own=True))):
        (found,) = finding(everywhere(**terms), everywhere(**terms, place="inside"), sides)
        assert found.rule == "update/place"
