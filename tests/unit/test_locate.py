"""Location on synthetic runs: a few lines of numpy record calls exactly as a watched model would."""

import math
import time
from collections import Counter

import numpy as np
import pytest

from paralign.capture.digest import agree, is_evidence, moments
from paralign.errors import CaptureFormatError, UsageError
from paralign.locate import first_module
from paralign.locate.runs.value_index import Values
from paralign.model import DIVERGED, Record

TOLERANCE = 1e-9
RUN = "float64"
BETWEEN = "its modules work as they should: the code between them makes the wrong value or misses a step"
NOWHERE = "no module of the reference consumes these inputs: a step before this one may be missing, or this one misplaced"
WEIGHTS = {name: np.random.default_rng(i).standard_normal((12, 12)) / 3 for i, name in enumerate("abcdefghqkvpstuw")}
INPUT = np.random.default_rng(99).standard_normal((4, 6, 12))


class Tape:
    """Runs a function as the root module and records every call; what a capture offers for reading."""

    def __init__(self, forward, *inputs):
        self.records, self.depth, self.numbers = [], 0, Counter()
        self.call("", "Net", lambda *values: forward(self, *values), *inputs)

    def select(self, **fields):
        return [r for r in self.records if all(getattr(r, k) == v for k, v in fields.items())]

    def call(self, name, op, body, *inputs, kind=None, source=None):
        number = self.numbers[name]
        self.numbers[name] += 1
        self.depth += 1
        outputs = body(*inputs)
        self.depth -= 1
        attrs = {"module": True, "kind": op if kind is None else kind, "depth": self.depth, "leaf": kind != ""}
        taken = tuple(self.add(name, number, "input", op, source, attrs, value, str(i)).id for i, value in enumerate(inputs))
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        for i, value in enumerate(several):
            self.add(name, number, "output", op, source, attrs, value, str(i) if isinstance(outputs, tuple) else "").inputs = taken
        return outputs

    def add(self, name, number, role, op, source, attrs, value, leaf):
        value = np.asarray(value)
        record = Record(
            len(self.records),
            name,
            "forward",
            role,
            value.dtype.name,
            value.shape,
            leaf=leaf,
            run=RUN,
            call=number,
            op=op,
            source=source,
            digest=moments(value),
            attrs=dict(attrs),
        )
        self.records.append(record)
        return record

    def linear(self, name, x, weight, scale=1.0, **more):
        return self.call(name, "Linear", lambda v: v @ WEIGHTS[weight] * scale, x, **more)

    def relu(self, name, x):
        return self.call(name, "ReLU", relu, x)

    def norm(self, name, x, eps=1e-5):
        return self.call(name, "LayerNorm", lambda v: normed(v, eps), x)

    def inside(self, name, body, *inputs, op="Block"):
        return self.call(name, op, body, *inputs, kind="")


def relu(x):
    return np.maximum(x, 0)


def normed(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def block(tape, x, name, weights="ab", *, first=1.0, second=1.0, residual=1.0, activation=True, eps=1e-5):
    def body(x):
        y = tape.norm(f"{name}.norm", tape.linear(f"{name}.one", x, weights[0], first), eps)
        y = tape.relu(f"{name}.act", y) if activation else y
        return tape.linear(f"{name}.two", y, weights[1], second) + x * residual

    return tape.inside(name, body, x)


def net(stem=1.0, head=1.0, **change):
    def forward(tape, x):
        x = tape.linear("stem", x, "s", stem)
        x = block(tape, x, "first", "ab")
        x = block(tape, x, "second", "cd", **change)
        x = block(tape, x, "third", "ef")
        return tape.linear("head", x.mean(1), "h", head)

    return forward


def locate(reference, candidate, tolerance=TOLERANCE, inputs=(INPUT,)):
    return first_module(Tape(reference, *inputs), Tape(candidate, *inputs), run=RUN, tolerance=tolerance)


def names(divergence):
    return divergence.reference and divergence.reference.name, divergence.candidate.name, divergence.last_agreeing


def test_nothing_is_found_where_all_is_right():
    assert locate(net(), net()) is None


@pytest.mark.parametrize(
    ("change", "guilty", "last"),
    [
        ({"first": 1.001}, "second.one", "first"),
        ({"second": 1.001}, "second.two", "second.act"),
        ({"eps": 1e-3}, "second.norm", "second.one"),
        ({"stem": -1.0}, "stem", None),
        ({"head": 2.0}, "head", "third"),
    ],
)
def test_a_wrong_child_is_found(change, guilty, last):
    found = locate(net(), net(**change))
    assert names(found) == (guilty, guilty, last)
    assert found.candidate.op == found.reference.op
    assert found.inputs_agree
    assert not found.confirmed
    assert found.pair.verdict == DIVERGED
    assert found.pair.how == "content"
    assert (found.pair.reference.role, found.pair.reference.name, found.pair.candidate.name) == ("output", guilty, guilty)
    assert found.pair.notes == []


def test_a_change_within_tolerance_is_none():
    assert locate(net(), net(second=1 + 1e-7), tolerance=1e-5) is None
    assert names(locate(net(), net(second=1 + 1e-7)))[1] == "second.two"


def test_code_between_modules_is_blamed_on_its_container():
    found = locate(net(), net(residual=0.5))
    assert names(found) == ("second", "second", "second.two")
    assert found.candidate.op == "Block"
    assert found.pair.notes == [BETWEEN + ", after 'second.two' (Linear)"]


def test_code_between_two_modules_says_between_which():
    def forward(scale):
        def run(tape, x):
            x = tape.linear("one", x, "a")
            return tape.linear("two", tape.linear("mid", x * scale, "b"), "c", source="net.py:7")

        return run

    found = locate(forward(1.5), forward(1.0))
    assert names(found) == (None, "mid", "one")  # the factor is missing: the input of its consumer is right, as the result of 'one'
    found = locate(forward(1.5), forward(1.25))
    assert names(found) == ("", "", "one")
    assert found.pair.notes == [BETWEEN + ", after 'one' (Linear), before 'mid' (Linear)"]


def test_code_before_the_first_module():
    def forward(scale):
        return lambda tape, x: tape.linear("two", tape.linear("one", x * scale, "a"), "b")

    found = locate(forward(1.5), forward(1.25))
    assert names(found) == ("", "", None)
    assert found.pair.notes[0].endswith("misses a step, before 'one' (Linear)")


def test_a_missing_residual_is_found_in_its_block():
    assert names(locate(net(), net(residual=0.0))) == ("second", "second", "second.two")


def test_a_missing_residual_of_the_last_block_is_found():
    def forward(residual):
        return lambda tape, x: block(tape, block(tape, x, "first"), "last", "cd", residual=residual)

    assert names(locate(forward(1.0), forward(0.0))) == ("last", "last", "last.two")


def test_a_missing_activation_shows_at_its_consumer():
    found = locate(net(), net(activation=False))
    assert names(found) == ("second.act", "second.two", "second.norm")
    assert found.pair.notes == ["the reference hands these inputs to 'second.act' (ReLU): that step may be missing before this one"]


def test_a_missing_function_shows_at_its_consumer():
    def forward(function):
        return lambda tape, x: tape.linear("two", function(tape.linear("one", x, "a")), "b")

    found = locate(forward(np.tanh), forward(lambda x: x))
    assert names(found) == (None, "two", "one")
    assert found.pair.notes == [NOWHERE]
    assert found.pair.reference is None


def test_an_activation_replaced_by_an_identity_is_found_itself():
    def forward(op, function):
        def run(tape, x):
            return tape.linear("two", tape.call("act", op, function, tape.linear("one", x, "a")), "b")

        return run

    assert names(locate(forward("ReLU", relu), forward("Identity", lambda x: x))) == ("act", "act", "one")


def test_a_missing_step_at_the_end_is_the_models():
    found = locate(lambda t, x: np.tanh(t.linear("one", x, "a")), lambda t, x: t.linear("one", x, "a"))
    assert names(found) == ("", "", "one")


def test_renamed_modules_are_found_by_their_values():
    def renamed(scale):
        def forward(tape, x):
            x = tape.linear("input_projection", x, "s")
            x = block(tape, x, "encoder.0", "ab")
            x = block(tape, x, "encoder.1", "cd", second=scale)
            x = block(tape, x, "encoder.2", "ef")
            return tape.linear("classifier", x.mean(1), "h")

        return forward

    assert locate(net(), renamed(1.0)) is None
    assert names(locate(net(), renamed(1.001))) == ("second.two", "encoder.1.two", "encoder.1.act")


def test_branches_in_another_order_and_with_other_names():
    def attention(order, names, wrong=None):
        def forward(tape, x):
            made = {w: tape.linear(names[w], x, w, 1.01 if w == wrong else 1.0) for w in order}
            scores = made["q"] @ np.swapaxes(made["k"], -1, -2)
            return tape.linear("out", scores @ made["v"], "p")

        return forward

    reference = attention("qkv", {"q": "q_proj", "k": "k_proj", "v": "v_proj"})
    ported = {"q": "wq", "k": "wk", "v": "wv"}
    assert locate(reference, attention("vkq", ported)) is None
    for weight in "qkv":
        assert names(locate(reference, attention("vkq", ported, weight)))[:2] == (f"{weight}_proj", f"w{weight}")


def test_values_that_were_only_moved_are_the_same():
    def moved(scale):
        def forward(tape, x):
            x = tape.linear("one", x, "a").transpose(0, 2, 1)
            x = tape.call("two", "Linear", lambda v: (v.transpose(0, 2, 1) @ WEIGHTS["b"] * scale).transpose(0, 2, 1), x)
            return tape.linear("three", x.transpose(0, 2, 1), "c")

        return forward

    def plain(tape, x):
        return tape.linear("three", tape.linear("two", tape.linear("one", x, "a"), "b"), "c")

    assert locate(plain, moved(1.0)) is None
    assert names(locate(plain, moved(1.1))) == ("two", "two", "one")


def fused(tape, x, head=1.0, scale=1.0):
    x = tape.linear("one", x, "a", 2.0)
    return tape.linear("head", tape.linear("mid", relu(x) * scale, "b"), "h", head)


def split(tape, x, head=1.0, scale=1.0):
    x = tape.call("affine", "Scale", lambda v: v * 2.0, tape.linear("one", x, "a"))
    return tape.linear("head", tape.linear("mid", relu(x) * scale, "b"), "h", head)


@pytest.mark.parametrize(("reference", "candidate"), [(fused, split), (split, fused)])
def test_fused_and_split_steps_meet_again(reference, candidate):
    assert locate(reference, candidate) is None
    assert names(locate(reference, lambda t, x: candidate(t, x, head=1.1))) == ("head", "head", "mid")
    found = locate(lambda t, x: reference(t, x, scale=3.0), lambda t, x: candidate(t, x, scale=3.1))
    assert names(found)[:2] == ("", "")
    assert "before 'mid' (Linear)" in found.pair.notes[0]


def test_a_difference_that_code_takes_back_is_not_blamed():
    """A module whose values match nothing, taken back by code, stands before another fault in the same container."""

    def forward(halved, factor):
        def run(tape, x):
            y = tape.linear("one", x, "a", 0.5 if halved else 1.0) * (2.0 if halved else 1.0)
            y = tape.linear("two", y, "b")
            return tape.linear("three", np.tanh(y) * factor, "c")

        return run

    assert locate(forward(False, 1.0), forward(True, 1.0)) is None
    found = locate(forward(False, 2.0), forward(True, 2.5))
    assert names(found) == ("", "", "two")
    assert found.pair.notes[0].endswith("after 'two' (Linear), before 'three' (Linear)")


def test_a_module_for_what_the_reference_does_without_is_not_blamed():
    """Positions: a parameter there, a module over counted positions here, with the fault in the code of the same container."""
    positions = np.arange(12.0) + 0.5

    def table(places):
        return np.outer(places[:6], WEIGHTS["p"][0])

    def forward(module, factor, scale):
        def run(tape, x):
            added = tape.call("positions", "Embedding", table, positions) if module else table(positions)
            y = tape.linear("one", x + added, "a")
            return tape.linear("two", tape.relu("act", y * factor), "b", scale)

        return run

    assert locate(forward(False, 2.0, 1.0), forward(True, 2.0, 1.0)) is None
    assert names(locate(forward(False, 2.0, 1.0), forward(True, 2.0, 1.1))) == ("two", "two", "act")
    found = locate(forward(False, 2.0, 1.0), forward(True, 2.1, 1.0))
    assert names(found) == ("", "", "one")
    assert found.pair.notes == [BETWEEN + ", after 'one' (Linear), before 'act' (ReLU)"]


def test_a_wrong_branch_that_code_joins():
    def forward(scale):
        def body(tape, x):
            y = tape.linear("block.main", x, "a", scale)
            return relu(tape.norm("block.norm", y) + tape.linear("block.short", x, "b"))

        return lambda tape, x: tape.linear("head", tape.inside("block", lambda v: body(tape, v), x), "h")

    assert names(locate(forward(1.0), forward(1.01))) == ("block.main", "block.main", None)


def test_a_wrong_last_module_of_a_joined_branch():
    def forward(scale):
        def run(tape, x):
            y = tape.linear("main", x, "a", scale)
            z = tape.linear("short", x, "b")
            return tape.linear("after", relu(y + z), "c")

        return run

    assert names(locate(forward(1.0), forward(-1.0))) == ("main", "main", None)


def joined(main=1.0, short=1.0):
    """A branch whose second half starts from a value made by code, beside a branch of one module."""

    def forward(tape, x):
        y = tape.linear("main", x, "a", main)
        z = tape.linear("short.two", np.tanh(tape.linear("short.one", x, "b", short)), "c")
        return tape.linear("after", relu(y + z), "d")

    return forward


def test_right_values_of_another_branch_do_not_excuse_a_wrong_one():
    assert names(locate(joined(), joined(main=1.1))) == ("main", "main", None)
    assert names(locate(joined(), joined(short=1.1))) == ("short.one", "short.one", "main")


def test_of_two_wrong_branches_the_first_is_told():
    assert names(locate(joined(), joined(main=1.1, short=1.1))) == ("main", "main", None)


def test_a_module_with_a_known_duty_is_blamed_before_one_without():
    """Both may be behind the wrong sum; only one of them should have made something that is nowhere."""
    positions = np.arange(12.0)

    def table(places):
        return np.outer(places[:6], WEIGHTS["p"][0])

    def forward(module, scale):
        def run(tape, x):
            added = tape.call("positions", "Embedding", table, positions) if module else table(positions)
            return tape.linear("two", tape.linear("one", x, "a", scale) + added, "b")

        return run

    assert locate(forward(False, 1.0), forward(True, 1.0)) is None
    assert names(locate(forward(False, 1.0), forward(True, 1.1))) == ("one", "one", None)


def test_an_input_of_another_form_does_not_stop_the_search():
    """The candidate takes its second input in other units; the fault has nothing to do with it."""
    angles = np.random.default_rng(7).standard_normal((6, 12))

    def forward(unit, scale):
        def run(tape, x, given):
            def body(v, u):
                return tape.linear("block.two", tape.linear("block.one", v, "a", scale) + u * unit, "b")

            return tape.linear("head", tape.inside("block", body, x, given), "h")

        return run

    def both(scale):
        return (Tape(forward(1.0, 1.0), INPUT, angles), Tape(forward(0.5, scale), INPUT, angles * 2))

    assert first_module(*both(1.0), run=RUN, tolerance=TOLERANCE) is None
    found = first_module(*both(1.1), run=RUN, tolerance=TOLERANCE)
    assert names(found) == ("block.one", "block.one", None)
    assert found.inputs_agree


@pytest.mark.parametrize(("scales", "guilty"), [((1.0, 1.01), 1), ((1.01, 1.0), 0), ((1.01, 1.01), 0)])
def test_a_shared_module_called_twice(scales, guilty):
    def forward(first, second):
        def run(tape, x):
            x = tape.relu("act", tape.linear("same", x, "a", first))
            return tape.linear("head", tape.relu("act", tape.linear("same", x, "a", second)), "h")

        return run

    assert locate(forward(1.0, 1.0), forward(1.0, 1.0)) is None
    found = locate(forward(1.0, 1.0), forward(*scales))
    assert names(found)[:2] == ("same", "same")
    assert (found.pair.reference.call, found.pair.candidate.call) == (guilty, guilty)


def test_the_innermost_container_is_found():
    def forward(scale):
        def run(tape, x):
            def stage(v):
                def inner(u):
                    return tape.linear("stage.inner.b", np.tanh(tape.linear("stage.inner.a", u, "a")) * scale, "b")

                return tape.inside("stage.inner", inner, v)

            return tape.linear("head", tape.inside("stage", stage, tape.linear("stem", x, "s")), "h")

        return run

    assert names(locate(forward(2.0), forward(2.1))) == ("stage.inner", "stage.inner", "stage.inner.a")


def test_the_first_of_several_faults_is_told():
    assert names(locate(net(), net(first=1.1, second=1.1, head=1.1)))[1] == "second.one"


def test_containers_that_only_one_side_has():
    def flat(scale):
        def run(tape, x):
            return tape.linear("c", tape.linear("b", tape.linear("a", x, "a"), "b", scale), "c")

        return run

    def nested(scale):
        def run(tape, x):
            def body(v):
                return tape.linear("box.b", tape.linear("box.a", v, "a"), "b", scale)

            return tape.linear("c", tape.inside("box", body, x), "c")

        return run

    assert locate(flat(1.0), nested(1.0)) is None
    assert names(locate(flat(1.0), nested(1.1))) == ("b", "box.b", "box.a")
    assert names(locate(nested(1.0), flat(1.1))) == ("box.b", "b", "a")


def test_a_tuple_of_one_meets_a_tensor_and_every_output_counts():
    def forward(scale, wrap):
        def run(tape, x):
            return tape.linear("one", x, "a"), tape.linear("two", x, "b", scale)

        return run if wrap else lambda tape, x: (run(tape, x)[1],)

    assert locate(forward(1.0, True), forward(1.0, True)) is None
    found = locate(forward(1.0, True), forward(1.1, True))
    assert names(found) == ("two", "two", "one")
    assert locate(lambda t, x: t.linear("one", x, "a"), lambda t, x: (t.linear("one", x, "a"),)) is None


def test_tiny_values_are_compared_with_those_of_the_twin():
    x = np.array([[0.3, -1.2]])

    def forward(scale):
        def run(tape, v):
            v = tape.call("one", "Linear", lambda u: u * 1.5, v)
            v = tape.call("two", "Linear", lambda u: u * scale + 0.1, v)
            return tape.call("three", "Linear", lambda u: u * 0.5, v)

        return run

    assert locate(forward(1.0), forward(1.0), inputs=(x,)) is None
    assert names(locate(forward(1.0), forward(1.1), inputs=(x,)))[:2] == ("two", "two")


def test_a_tiny_output_of_a_large_model():
    def forward(scale):
        def run(tape, x):
            x = tape.linear("one", x, "a")
            x = tape.call("pool", "Pool", lambda v: v.reshape(-1, 2).mean(0) * scale, x)
            return tape.call("head", "Linear", lambda v: v * 3 + 1, x)

        return run

    assert names(locate(forward(1.0), forward(1.1))) == ("pool", "pool", "one")


def test_a_module_that_makes_a_constant_where_it_should_not():
    def forward(dead):
        def run(tape, x):
            x = tape.call("gate", "Gate", lambda v: v * (0.0 if dead else 0.7), tape.linear("one", x, "a"))
            return tape.call("head", "Linear", lambda v: v @ WEIGHTS["h"] + np.arange(12.0), x)

        return run

    assert names(locate(forward(False), forward(True))) == ("gate", "gate", "one")


def test_constants_and_masks_do_not_link_or_match():
    mask = np.ones((6, 6))

    def forward(fill, scale):
        def run(tape, x, m):
            scores = x @ np.swapaxes(x, -1, -2)
            scores = tape.call("mask", "Mask", lambda s, k: np.where(np.tril(k) > 0, s, fill), scores, m)
            return tape.call("out", "Linear", lambda s: np.exp(s - s.max(-1, keepdims=True)) * scale, scores)

        return run

    assert locate(forward(-1e9, 1.0), forward(-math.inf, 1.0), inputs=(INPUT, mask)) is None
    assert names(locate(forward(-1e9, 1.0), forward(-1e9, 1.1), inputs=(INPUT, mask)))[:2] == ("out", "out")


def test_not_a_number_is_found_where_it_arises():
    def forward(spoil):
        def run(tape, x):
            def middle(v):
                v = v @ WEIGHTS["b"]
                if spoil:
                    v[0, 0, 0] = np.nan
                return v

            return tape.linear("c", tape.call("b", "Linear", middle, tape.linear("a", x, "a")), "c")

        return run

    assert names(locate(forward(False), forward(True))) == ("b", "b", "a")


def test_other_inputs_are_said():
    found = first_module(Tape(net(), INPUT), Tape(net(), INPUT * 1.01), run=RUN, tolerance=TOLERANCE)
    assert names(found) == (None, "", None)
    assert not found.inputs_agree
    assert found.pair.notes == ["an input of the whole model is not among the reference's values: give both sides the same inputs"]


def test_a_model_called_twice_in_a_pass():
    def twice(scale):
        tape = Tape(net(), INPUT)
        tape.call("", "Net", lambda x: net(second=scale)(tape, x), INPUT + 1)
        return tape

    assert first_module(twice(1.0), twice(1.0), run=RUN, tolerance=TOLERANCE) is None
    found = first_module(twice(1.0), twice(1.1), run=RUN, tolerance=TOLERANCE)
    assert names(found)[:2] == ("second.two", "second.two")
    assert found.pair.candidate.call == 1


def test_source_lines_are_read_where_they_can_be(tmp_path):
    file = tmp_path / "port.py"
    file.write_text("first\n    x = self.two(x)  # port\n")

    def forward(scale, source):
        return lambda tape, x: tape.linear("two", tape.linear("one", x, "a"), "b", scale, source=source)

    found = locate(forward(1.0, "gone.py:3"), forward(1.1, f"{file}:2"))
    assert (found.candidate.source, found.candidate.code) == (f"{file}:2", "x = self.two(x)  # port")
    assert (found.reference.source, found.reference.code) == ("gone.py:3", None)
    assert locate(forward(1.0, None), forward(1.1, "port.py:x")).candidate.code is None


def test_only_the_pass_that_is_asked_for_counts():
    reference, candidate = Tape(net(), INPUT), Tape(net(head=2.0), INPUT)
    assert first_module(reference, candidate, run="float32", tolerance=TOLERANCE) is None
    for record in candidate.records:
        record.run = "float32"
    assert first_module(reference, candidate, run=RUN, tolerance=TOLERANCE) is None


def test_records_that_are_no_module_calls_are_left_alone():
    reference, candidate = Tape(net(), INPUT), Tape(net(), INPUT)
    candidate.records.append(Record(9999, "output", "forward", "output", "float64", (4, 12), run=RUN, digest=moments(INPUT)))
    candidate.records[0].digest = None  # a text or a missing value among the inputs
    assert first_module(reference, candidate, run=RUN, tolerance=TOLERANCE) is None


def test_a_side_without_module_calls_gives_nothing():
    empty = Tape(net(), INPUT)
    empty.records.clear()
    assert first_module(empty, Tape(net(), INPUT), run=RUN, tolerance=TOLERANCE) is None
    assert first_module(Tape(net(), INPUT), empty, run=RUN, tolerance=TOLERANCE) is None


def test_a_corrupt_digest_is_named():
    candidate = Tape(net(head=2.0), INPUT)
    candidate.records[-1].digest = "m1:rubbish"
    with pytest.raises(CaptureFormatError, match="'m1:rubbish' is no digest of a tensor"):
        first_module(Tape(net(), INPUT), candidate, run=RUN, tolerance=TOLERANCE)


@pytest.mark.parametrize("tolerance", [1.0, math.inf])
def test_noise_as_large_as_the_values_locates_nothing(tolerance):
    assert locate(net(), net(head=2.0), tolerance=tolerance) is None
    assert locate(net(), net(head=2.0), tolerance=0.1) is not None


@pytest.mark.parametrize("tolerance", [-1e-9, math.nan])
def test_a_tolerance_that_means_nothing_is_refused(tolerance):
    with pytest.raises(UsageError) as caught:
        locate(net(), net(), tolerance=tolerance)
    assert str(caught.value) == (
        f"values cannot be told apart with a tolerance of {tolerance}\n  fix:   take one between 0 and 1, such as 1e-6"
    )


def test_a_long_flat_model_is_searched_quickly():
    """Three thousand calls in one container, everything after the fault wrong: neither recursion nor all pairs."""

    def forward(wrong):
        def run(tape, x):
            for i in range(3000):
                x = tape.call(str(i), "Linear", lambda v, i=i: np.roll(v * (1.1 if i == wrong else 1.0), 1, -1) * 1.0001 + 1e-3, x)
                x = x + 0.001 if i % 7 == 0 else x
            return x

        return run

    small = INPUT[:1, :2]
    reference, candidate = Tape(forward(None), small), Tape(forward(1500), small)
    start = time.perf_counter()
    found = first_module(reference, candidate, run=RUN, tolerance=TOLERANCE)
    assert names(found) == ("1500", "1500", "1499")
    assert time.perf_counter() - start < 20


def test_the_index_finds_what_a_search_through_all_pairs_finds():
    random = np.random.default_rng(5)
    base = [random.standard_normal(size) * scale for size in (6, 20) for scale in (1e-12, 1.0, 1e8) for _ in range(10)]
    near = [x * (1 + random.choice([0.0, 0.9e-3, -0.9e-3, 2e-3])) for x in base]
    known = [moments(x) for x in base] + ["c1:20,0.0", "e1:0", "c1:20,1.0"]
    values = Values(1e-3)
    for digest in known:
        values.add(digest, digest)
    for digest in [moments(x) for x in near] + ["c1:20,0.0", "e1:0", "c1:20,1.0005", "c1:20,1.1", "c1:6,1.0"]:
        expected = [other for other in known if agree(other, digest, 1e-3)]
        assert sorted(values.find(digest)) == sorted(expected)
        assert (digest in values) == bool(expected)


def test_a_zero_tolerance_still_finds_equal_digests():
    values = Values(0.0)
    digest = moments(INPUT)
    values.add(digest, 1)
    values.add(digest, 2)
    assert values.find(digest) == [1, 2]
    assert is_evidence(digest)
