"""Formulas done again in numpy: operations read as steps, and the one change that makes a result right."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.adapters._kinds import common
from paralign.locate.formula.from_record import step_of
from paralign.locate.formula.numpy_operations import apart, is_done, same
from paralign.locate.formula.repair import LESS, MORE, NUMBER, OTHER, Formula, operations_of
from paralign.locate.runs.dataflow import Operation, Value
from paralign.locate.source.statements import bound_name
from paralign.model import Record


class Notes:
    """Operations that are written down with what they made."""

    def __init__(self):
        self.operations, self.arrays, self.count = [], {}, 0

    def value(self, array, name="", maker=None):
        array = np.asarray(array)
        self.count += 1
        value = Value(Record(self.count, name, "operations", "input", str(array.dtype), array.shape), maker)
        self.arrays[value] = array
        return value

    def do(self, op, inputs, made, line=0, **arguments):
        arguments = {key.lstrip("_"): item for key, item in arguments.items()}
        number = len(self.operations)
        operation = Operation(number, op, common(op), "", (f"port.py:{line or number + 1}",), arguments, random=False, inputs=list(inputs))
        results = made if isinstance(made, tuple) else (made,)
        operation.outputs = [self.value(array, maker=operation) for array in results]
        for taken in inputs:
            taken.users.append(operation)
        self.operations.append(operation)
        return operation.outputs[-1]

    def formula(self, numbers=(), beside=()):
        return Formula(self.operations, self.arrays, numbers, beside)


RANDOM = np.random.default_rng(5)
X, Y = RANDOM.normal(size=(4, 6)), RANDOM.normal(size=(4, 6))
INDEX = np.array([[1], [5], [0], [2]])


def _step(op, made, *given, **arguments):
    notes = Notes()
    notes.do(op, [notes.value(each) for each in given], made, **arguments)
    return step_of(notes.operations[0]), notes.arrays


@pytest.mark.parametrize(
    ("op", "made", "given", "arguments"),
    [
        ("sub", X - 0.5, (X,), {"_1": 0.5}),
        ("rsub", 0.5 - X, (X,), {"_1": 0.5}),
        ("rtruediv", 2 / X, (X,), {"_1": 2}),
        ("aten.rsub.Scalar", 1 - X, (X,), {"other": 1}),
        ("aten.mul.Tensor", X * Y, (X, Y), {}),
        ("scale", X * -3.0, (X,), {"scale": -3.0, "bias": 0.0}),
        ("scale", X + 0.25, (X,), {"scale": 1.0, "bias": 0.25}),
        ("square", X * X, (X,), {}),
        ("mean", X.mean(1), (X,), {"axis": [1], "keepdim": False}),
        ("mean", X.mean(1, keepdims=True), (X,), {"axis": [-1], "keepdim": True}),
        ("sum", X.sum(), (X,), {}),
        ("max", X.max(0), (X,), {"_1": [0]}),
        ("maximum", np.maximum(X, Y), (X, Y), {}),
        ("aten._log_softmax.default", X - np.log(np.exp(X).sum(1, keepdims=True)), (X,), {"dim": 1}),
        ("less_than", X < 0.1, (X, np.float64(0.1)), {}),
        ("where", np.where(X > 0, X, Y), (X > 0, X, Y), {}),
        ("clip", X.clip(0, 1), (X,), {"min": 0, "max": 1}),
        ("getitem", X[:, 1:3], (X,), {"_1": ["slice(None, None, None)", "slice(1, 3, None)"]}),
        ("getitem", X[..., 0], (X,), {"_1": ["Ellipsis", 0]}),
        ("aten.slice.Tensor", X[:, 2:], (X,), {"dim": 1, "start": 2, "end": 9}),
        ("aten.select.int", X[:, 2], (X,), {"dim": -1, "index": 2}),
        ("take_along_axis", np.take_along_axis(X, INDEX, 1), (X, INDEX), {"_2": 1}),
        ("transpose", X.T, (X,), {"perm": [1, 0]}),
        ("matmul", X @ Y.T, (X, Y), {"transpose_x": False, "transpose_y": True}),
        ("stack", np.stack([X, Y], -1), (X, Y), {"_1": -1}),
        ("concat", np.concatenate([X, Y], 1), (X, Y), {"axis": 1}),
        ("tile", np.tile(X, (2, 1)), (X,), {"_1": [2, 1]}),
        ("expand", np.broadcast_to(X[:1], (4, 6)), (X[:1],), {"_1": [4, 6]}),
        ("astype", X.astype("int64"), (X,), {}),
        ("one_hot", np.eye(6)[INDEX[:, 0]], (INDEX[:, 0],), {"_1": 6}),
        ("label_smooth", 0.9 * X + 0.1 / 6, (X,), {"_2": 0.1}),
        ("complex", X + 1j * Y, (X, Y), {}),
        ("real", X, (X + 1j * Y,), {}),
        ("aten.imag.default", Y, (X + 1j * Y,), {}),
        ("aten.view_as_complex.default", X[:, 0] + 1j * X[:, 1], (X[:, :2],), {}),
        ("as_real", np.stack([X, Y], -1), (X + 1j * Y,), {}),
        ("aten._conj.default", X - 1j * Y, (X + 1j * Y,), {}),
        ("fft_r2c", np.fft.rfft(X), (X,), {"_1": [1], "_2": "backward", "_3": True, "_4": True}),
        ("aten._fft_r2c.default", np.fft.rfft(X), (X,), {"dim": [1], "normalization": 0, "onesided": True}),
        ("fft_c2r", np.fft.irfft(np.fft.rfft(X), 6), (np.fft.rfft(X),), {"_1": [1], "_2": "backward", "_3": False, "_4": 6}),
        ("aten._fft_c2r.default", np.fft.irfft(X + 1j * Y, 9), (X + 1j * Y,), {"dim": [1], "normalization": 2, "last_dim_size": 9}),
        ("aten._fft_c2c.default", np.fft.fft(X + 1j * Y), (X + 1j * Y,), {"dim": [1], "normalization": 0, "forward": True}),
        ("aten._fft_c2c.default", np.fft.ifft(X + 1j * Y), (X + 1j * Y,), {"dim": [1], "normalization": 2, "forward": False}),
        ("p_norm", np.sqrt((X**2).sum(1)), (X,), {"_1": 2.0, "_2": -1, "_3": 1e-12, "_4": False, "_5": False}),
        ("aten.linalg_vector_norm.default", np.abs(X).sum(), (X,), {"ord": 1}),
        ("pad", np.pad(X, ((0, 1), (2, 0))), (X,), {"paddings": [0, 1, 2, 0], "pad_value": 0.0}),
        ("aten.constant_pad_nd.default", np.pad(X, ((0, 0), (2, 1)), constant_values=3), (X,), {"pad": [2, 1], "value": 3}),
        ("arange", np.arange(1.0, 5.0), (np.array([1.0]), np.array([5.0]), np.array([1.0])), {}),
        ("aten.masked_fill.Scalar", np.where(X > 0, -9.0, X), (X, X > 0), {"value": -9}),
        ("aten.addmm.default", X[0, :4] + X @ Y.T, (X[0, :4], X, Y.T), {}),
        ("tril", np.tril(X, -1), (X,), {"_1": -1}),
        ("aten.triu.default", np.triu(X), (X,), {}),
        ("flip", X[:, ::-1], (X,), {"axis": [1]}),
        ("aten.index_select.default", X[:, [1, 5, 0, 2]], (X, INDEX[:, 0]), {"dim": 1}),
    ],
)
def test_operations_are_read_as_numpy_does_them(op, made, given, arguments):
    step, arrays = _step(op, made, *given, **arguments)
    assert step is not None
    assert is_done(step, arrays)
    assert not is_done(step, {value: array + 1 if value is step.made else array for value, array in arrays.items()})


@pytest.mark.parametrize("soft", [False, True])
def test_paddles_cross_entropy_is_its_second_result(soft):
    chances = X - np.log(np.exp(X).sum(1, keepdims=True))
    labels = np.abs(Y) if soft else np.array([[1], [-100], [0], [2]])
    due = -(labels * chances).sum(1, keepdims=True) if soft else -np.take_along_axis(chances, labels.clip(0), 1) * (labels >= 0)
    told = {"soft_label": soft, "use_softmax": True, "ignore_index": -100, "axis": -1}
    step, arrays = _step("cross_entropy_with_softmax", (np.exp(chances), due), X, labels, **told)
    assert is_done(step, arrays)
    assert step_of(_operation("cross_entropy_with_softmax", {**told, "axis": 0}, (X, labels), (X, due))) is None


def _operation(op, arguments, given, made):
    notes = Notes()
    notes.do(op, [notes.value(each) for each in given], made, **arguments)
    return notes.operations[0]


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("getitem", {"_1": "slice(a, b, c)"}),
        ("getitem", {"_1": ["__import__('os')"]}),
        ("getitem", {}),
        ("add", {}),
        ("add", {"_1": True}),
        ("scale", {"scale": 2.0, "bias": 1.0}),
        ("aten.add.Tensor", {"other": 1, "alpha": 2}),
        ("transpose", {"perm": [0]}),
        ("tile", {"_1": "x"}),
        ("gather", {}),
    ],
)
def test_what_arguments_do_not_tell_is_no_step(op, arguments):
    assert step_of(_operation(op, arguments, (X,), X)) is None


def test_a_step_that_is_not_known_or_does_not_fit_is_not_done():
    for op, given in (("my_own_kernel", (X,)), ("add", (X, Y.T)), ("stack", (X, Y[:2]))):
        step, arrays = _step(op, X, *given)
        assert not is_done(step, arrays)


def test_distances_are_shares_of_the_greater_value():
    assert apart(X, X) == 0.0
    assert apart(np.zeros(3), np.zeros(3)) == 0.0
    assert apart(np.zeros(3), np.ones(3)) == 1.0
    assert apart(X, X[:2]) == np.inf
    assert apart(X, np.full_like(X, np.nan)) == np.inf
    assert same(X, X * (1 + 1e-8))
    assert not same(X, X * 1.001)


def _huber(notes, *, factor=1, offset=0.15, over=False):
    """A smooth L1 loss of 0.3 by hand; ``factor`` and ``offset`` are its numbers, ``over`` divides by the step."""
    error = notes.value(X - Y, "error")
    square = notes.do("mul", [error, error], (X - Y) ** 2, 10)
    half = notes.do("rmul", [square], notes.arrays[square] * 0.5 * factor, 10, _1=0.5 * factor)
    by = notes.arrays[half] / 0.3 if over else notes.arrays[half] * 0.3
    near = notes.do("truediv" if over else "mul", [half], by, 11, _1=0.3)
    size = notes.do("abs", [error], np.abs(X - Y), 12)
    far = notes.do("sub", [size], np.abs(X - Y) - offset, 12, _1=offset)
    small = notes.do("lt", [size], np.abs(X - Y) < 0.3, 13, _1=0.3)
    chosen = notes.do("where", [small, near, far], np.where(notes.arrays[small], notes.arrays[near], notes.arrays[far]), 13)
    return notes.do("mean", [chosen], notes.arrays[chosen].mean(), 14)


DUE = np.where(np.abs(X - Y) < 0.3, 0.5 * (X - Y) ** 2 / 0.3, np.abs(X - Y) - 0.15).mean()


@pytest.mark.parametrize(
    ("planted", "line", "cost"),
    [({}, 11, OTHER), ({"over": True, "offset": 0.3}, 12, NUMBER), ({"over": True, "offset": -0.15}, 12, OTHER)],
)
def test_the_one_step_that_is_wrong_is_found(planted, line, cost):
    notes = Notes()
    found = notes_repairs(notes, _huber(notes, **planted), DUE)
    assert {repair.line for repair in found} == {f"port.py:{line}"}
    assert found[0].cost == cost


def notes_repairs(notes, value, due, **options):
    return notes.formula(**options).repairs(value, due)


def test_what_is_right_needs_no_repair_and_two_faults_have_none():
    notes = Notes()
    assert notes_repairs(notes, _huber(notes, over=True), DUE) == []
    notes = Notes()
    assert notes_repairs(notes, _huber(notes, over=False, offset=0.4), DUE) == []


def test_a_number_of_the_reference_comes_before_others():
    notes = Notes()
    value = _huber(notes, over=True, offset=0.07)
    assert notes_repairs(notes, value, DUE) == []
    (repair,) = notes_repairs(notes, value, DUE, numbers=[0.15])
    assert (repair.what, repair.line) == ("0.15 in place of 0.07", "port.py:12")


def _coded(notes, lines=(1, 2)):
    """Columns divided by 1 where 10 is due: two that read one setting, and a third with a number of its own."""
    x, one, two = notes.value(X[:, 0], "x"), notes.value(X[:, 1], "one"), notes.value(X[:, 2], "two")
    first = notes.do("truediv", [x], X[:, 0], lines[0], _1=1.0)
    second = notes.do("truediv", [one], X[:, 1], lines[1], _1=1.0)
    third = notes.do("truediv", [two], X[:, 2] / 5, 3, _1=5.0)
    return notes.do("stack", [first, second, third], np.stack([X[:, 0], X[:, 1], X[:, 2] / 5], -1), 4, _1=-1)


@pytest.mark.parametrize(("lines", "number"), [((1, 2), 1.0), ((1, 1), None)])
def test_a_number_that_stands_in_several_steps_is_another_in_all_of_them(lines, number):
    notes = Notes()
    value = _coded(notes, lines)
    (repair,) = notes_repairs(notes, value, np.stack([X[:, 0] / 10, X[:, 1] / 10, X[:, 2] / 5], -1))
    assert (repair.what, repair.line, repair.number) == ("10 in place of 1 wherever it stands so", "port.py:1", number)
    assert notes_repairs(notes, value, np.stack([X[:, 0] / 10, X[:, 1] / 20, X[:, 2] / 5], -1)) == []
    (alone,) = notes_repairs(notes, value, np.stack([X[:, 0], X[:, 1] / 10, X[:, 2] / 5], -1))
    assert (alone.what, alone.number) == ("10 in place of 1", None)


@pytest.mark.parametrize(("line", "weights"), [(1, (0.8, 0.2)), (1, (0.8, 0.3)), (2, (0.8, 0.2))])
def test_weights_that_add_up_to_one_are_others_together(line, weights):
    notes = Notes()
    x, y = notes.value(X, "x"), notes.value(Y, "y")
    first, second = notes.do("rmul", [x], -weights[0] * X, 1, _1=-weights[0]), notes.do("rmul", [y], weights[1] * Y, line, _1=weights[1])
    value = notes.do("sub", [first, second], -weights[0] * X - weights[1] * Y, 3)
    found = notes_repairs(notes, value, -0.9 * X - 0.1 * Y, numbers=[0.9, 0.5])
    assert [(r.what, r.line) for r in found] == ([("0.9 in place of 0.8", "port.py:1")] if sum(weights) == 1 else [])


@pytest.mark.parametrize("reduced", ["mean", "sum"])
def test_the_mean_of_what_is_kept_is_divided_by_how_much_that_is(reduced):
    kept = np.array([1.0, 1.0, 0.0, 1.0])
    for name, line in (("mul", ["port.py:3"]), ("add", [])):
        notes = Notes()
        x, share = notes.value(X[:, 0], "x"), notes.value(kept, "kept")
        joined = X[:, 0] * kept if name == "mul" else X[:, 0] + kept
        value = notes.do(reduced, [notes.do(name, [x, share], joined, 2)], getattr(joined, reduced)(), 3)
        assert [r.line for r in notes_repairs(notes, value, joined.sum() / 3)] == line


def test_a_near_miss_is_no_repair():
    notes = Notes()
    assert notes_repairs(notes, _huber(notes), DUE * (1 + 1e-4)) == []


def test_what_is_left_out_is_told_at_its_line():
    notes = Notes()
    x = notes.value(X, "x")
    size = notes.do("abs", [x], np.abs(X))
    twice = notes.do("sqrt", [size], np.sqrt(np.abs(X)))
    value = notes.do("mean", [twice], np.sqrt(np.abs(X)).mean())
    (repair,) = notes_repairs(notes, value, np.abs(X).mean())
    assert (repair.line, repair.cost, repair.what) == ("port.py:2", LESS, "the step sqrt left out")


def test_a_value_that_is_not_joined_is_found_beside():
    notes = Notes()
    x, y = notes.value(X, "x"), notes.value(Y, "y")
    size = notes.do("abs", [x], np.abs(X))
    value = notes.do("mean", [size], np.abs(X).mean())
    assert notes_repairs(notes, value, np.abs(X - Y).mean()) == []
    found = notes_repairs(notes, value, np.abs(X - Y).mean(), beside=[y])
    assert {repair.cost for repair in found} == {MORE}
    assert {repair.line for repair in found} == {"port.py:1"}


def test_nothing_is_said_behind_what_cannot_be_done_again():
    notes = Notes()
    x = notes.value(X, "x")
    wrong = notes.do("exp", [x], np.exp(X))
    strange = notes.do("my_own_kernel", [wrong], 3 * np.exp(X) + 1)
    value = notes.do("mean", [strange], (3 * np.exp(X) + 1).mean())
    assert notes_repairs(notes, value, (3 * np.expm1(X) + 1).mean()) == []


def test_values_that_are_not_numbers_or_not_there_do_no_harm():
    notes = Notes()
    value = _huber(notes)
    for due in (np.nan, np.inf, np.zeros(0), np.zeros((3, 3))):
        assert notes_repairs(notes, value, due) == []
    notes.arrays.pop(notes.operations[0].inputs[0])
    assert notes_repairs(notes, value, DUE)[0].line == "port.py:11"  # what hangs on the value that is lost is not needed


def test_a_formula_reaches_back_within_its_function(tmp_path):
    (tmp_path / "port.py").write_text("def body(x):\n    return x\n\n\ndef loss(x):\n    y = x\n    return y\n")
    notes = Notes()
    body = notes.do("exp", [notes.value(X)], np.exp(X), 2)
    inner = notes.do("abs", [body], np.exp(X), 6)
    value = notes.do("mean", [inner], np.exp(X).mean(), 7)
    for operation in notes.operations:
        operation.stack = (f"{tmp_path}/{operation.stack[0]}",)
    assert [o.op for o in operations_of(value, [value.maker])] == ["abs", "mean"]


def test_a_sum_along_another_axis_is_told():
    notes = Notes()
    ones = notes.do("ones_like", [], np.ones((3, 6)))
    places = notes.do("cumsum", [ones], np.ones((3, 6)).cumsum(0), axis=0)
    value = notes.do("sub", [places, ones], np.ones((3, 6)).cumsum(0) - 1)
    (repair,) = notes_repairs(notes, value, np.broadcast_to(np.arange(6.0), (3, 6)))
    assert (repair.line, repair.cost, repair.what) == ("port.py:2", OTHER, "along axis 1 in place of 0")


def test_shares_along_another_axis_are_told():
    notes = Notes()
    x = notes.value(X, "x")
    shares = np.exp(X) / np.exp(X).sum(0)
    weights = notes.do("softmax", [x], shares, axis=0)
    value = notes.do("mul", [weights, x], shares * X)
    (repair,) = notes_repairs(notes, value, np.exp(X) / np.exp(X).sum(1, keepdims=True) * X)
    assert (repair.line, repair.what) == ("port.py:1", "along axis 1 in place of 0")


def test_paddles_einsum_keeps_more_than_its_result():
    step, arrays = _step("einsum", (X @ Y.T, X), X, Y, _1="ik,jk->ij")
    assert is_done(step, arrays)
    assert step_of(_operation("einsum", {}, (X, Y), (X @ Y.T, X))) is None


def test_arrays_of_complex_numbers_are_apart_by_both_parts():
    assert apart(X + 1j * Y, X + 1j * Y) == 0
    assert apart(X + 1j * Y, X - 1j * Y) > 0.1


def _product(notes, sign):
    """A product of complex numbers by its parts, turned back by a transform; two operators stand in one line."""
    parts = [notes.value(array, name) for name, array in (("a", X), ("b", Y), ("c", Y[::-1]), ("d", X[::-1]))]
    (a, b, c, d) = (notes.arrays[part] for part in parts)
    products = [
        notes.do("mul", pair, one * two)
        for pair, one, two in (
            ((parts[0], parts[2]), a, c),
            ((parts[1], parts[3]), b, d),
            ((parts[0], parts[3]), a, d),
            ((parts[1], parts[2]), b, c),
        )
    ]
    real = notes.do("sub", products[:2], a * c - b * d, 9)
    imaginary = notes.do("add" if sign > 0 else "sub", products[2:], a * d + sign * b * c, 9)
    whole = (a * c - b * d) + 1j * (a * d + sign * b * c)
    joined = notes.do("complex", [real, imaginary], whole, 10)
    return notes.do("fft_c2r", [joined], np.fft.irfft(whole, 10), 11, _1=[1], _2="backward", _3=False, _4=10)


def test_a_wrong_sign_in_a_part_of_complex_numbers_is_told():
    notes, right = Notes(), Notes()
    value, due = _product(notes, -1), right.arrays[_product(right, 1)]
    (repair,) = notes_repairs(notes, value, due)
    assert (repair.line, repair.what) == ("port.py:9", "add in place of subtract")


@pytest.mark.parametrize("twice", [True, False])
def test_positions_of_a_helper_count_from_another_number_in_all_of_its_calls(twice):
    notes = Notes()
    ends = [notes.do("full", [], np.array([end]), 1) for end in (1.0, 7.0, 1.0)]
    made, due = [], []
    for array in (X, Y):
        counted = notes.do("arange", ends, np.arange(1, 7.0), 2)
        made.append(notes.do("mul", [counted, notes.value(array, "given")], np.arange(1, 7.0) * array, 3))
        due.append(np.arange(6.0) * array if twice or array is X else np.arange(1, 7.0) * array)
    value = notes.do("sub", made, notes.arrays[made[0]] - notes.arrays[made[1]], 4)
    (repair,) = notes_repairs(notes, value, due[0] - due[1])
    assert (repair.line, repair.what) == ("port.py:2", "minus 1 after arange")


def test_every_second_operation_of_a_line_is_changed_in_all_calls():
    notes, made, due = Notes(), [], []
    for array in (X, Y):
        given = notes.value(array, "given")
        inner = notes.do("exp", [notes.do("exp", [given], np.exp(array), 1)], np.exp(np.exp(array)), 1)
        made.append(inner)
        due.append(np.expm1(np.exp(array)))
    value = notes.do("mul", made, notes.arrays[made[0]] * notes.arrays[made[1]], 2)
    (repair,) = notes_repairs(notes, value, due[0] * due[1])
    assert (repair.line, repair.what) == ("port.py:1", "expm1 in place of exp")


@pytest.mark.parametrize(("diagonal", "told"), [(0, ["diagonal 0 in place of 1"]), (2, ["diagonal 2 in place of 1"]), (-1, [])])
def test_another_diagonal_is_told(diagonal, told):
    notes = Notes()
    value = notes.do("tril", [notes.value(X, "x")], np.tril(X, 1), 2, _1=1)
    assert [r.what for r in notes_repairs(notes, value, np.tril(X, diagonal))] == told


@pytest.mark.parametrize(
    ("index", "due", "what"),
    [
        (["Ellipsis", 1], X[..., 0], "[0] in place of [1]"),
        (["slice(None, None, None)", "slice(1, 5, None)"], X[:, 2:6], "[2:6] in place of [1:5]"),
        (["slice(None, None, None)", "slice(1, 5, None)"], X[:, 0:4], "[0:4] in place of [1:5]"),
    ],
)
def test_an_index_one_further_is_told(index, due, what):
    notes = Notes()
    own = X[..., 1] if index[0] == "Ellipsis" else X[:, 1:5]
    value = notes.do("exp", [notes.do("getitem", [notes.value(X, "x")], own, 3, _1=index)], np.exp(own), 4)
    (repair,) = notes_repairs(notes, value, np.exp(due))
    assert (repair.line, repair.what) == ("port.py:3", what)


def test_a_number_that_is_not_there_is_joined_where_the_reference_has_it():
    notes = Notes()
    value = notes.do("exp", [notes.do("tanh", [notes.value(X, "x")], np.tanh(X), 3)], np.exp(np.tanh(X)), 4)
    assert notes_repairs(notes, value, np.exp(np.tanh(X) * 0.35)) == []
    (repair, *_) = notes_repairs(notes, value, np.exp(np.tanh(X) * 0.35), numbers=[0.35])
    assert (repair.line, repair.what) == ("port.py:3", "times 0.35 after tanh")


def test_a_number_that_lacks_a_factor_of_the_reference_is_told():
    notes = Notes()
    size = notes.do("abs", [notes.value(X, "x")], np.abs(X), 3)
    value = notes.do("exp", [notes.do("sub", [size], np.abs(X) - 0.5, 4, _1=0.5)], np.exp(np.abs(X) - 0.5), 5)
    assert notes_repairs(notes, value, np.exp(np.abs(X) - 0.5 * 0.37)) == []
    (repair, *_) = notes_repairs(notes, value, np.exp(np.abs(X) - 0.5 * 0.37), numbers=[0.37, 1.0])
    assert (repair.line, repair.what) == ("port.py:4", "0.185 in place of 0.5")


@pytest.mark.parametrize("ends", [(0.0, 4.0, 0.0), (0.0, 1e12, 1.0), (0.0, 3.0, 1.0)])
def test_positions_are_counted_only_as_many_as_were_recorded(ends):
    step, _ = _step("arange", np.arange(4.0), *(np.array([end]) for end in (0.0, 4.0, 1.0)))
    assert same(step.done([np.array([end]) for end in (0.0, 4.0, 1.0)]), np.arange(4.0))
    with pytest.raises(ValueError, match="arange"):
        step.done([np.array([end]) for end in ends])


def test_a_diagonal_that_is_no_number_is_no_step():
    assert step_of(_operation("tril", {"1": "k"}, (X,), X)) is None


def _grown_before_leaking(lines):
    """(a + g) * s three times and stacked, where the reference has a * s + g; a line for each product."""
    notes = Notes()
    stays, grown = notes.value(RANDOM.uniform(0.3, 0.9, size=6)), [RANDOM.normal(size=6) for _ in range(3)]
    share, held, right = notes.arrays[stays], notes.value(np.zeros(6)), np.zeros(6)
    made, due = [], []
    for line, array in zip(lines, grown, strict=True):
        added = notes.do("add", [held, notes.value(array)], notes.arrays[held] + array, line=line)
        held = notes.do("multiply", [added, stays], notes.arrays[added] * share, line=line)
        right = right * share + array
        made.append(held)
        due.append(right)
    whole = notes.do("stack", made, np.stack([notes.arrays[v] for v in made]), line=90, axis=0)
    return notes, whole, np.stack(due)


def test_a_step_that_a_further_one_takes_back_is_named_itself():
    notes, whole, due = _grown_before_leaking([61, 61, 61])
    (repair, *_) = notes.formula().repairs(whole, due)
    assert (repair.line, repair.what) == ("port.py:61", "the step multiply taken back, which comes too early or once too often")


def test_a_step_of_several_lines_is_not_chosen_among_them():
    notes, whole, due = _grown_before_leaking([61, 62, 63])
    assert [repair.line for repair in notes.formula().repairs(whole, due)][:1] == ["port.py:90"]


def test_a_value_is_told_by_the_name_that_its_line_binds(tmp_path):
    path = tmp_path / "loss.py"
    path.write_text("keep = y != 0\nw = table[\n    y\n] * keep\na, b = w, keep\nprint(w)\nc = d = w\n")
    names = [bound_name(f"{path}:{line}") for line in range(1, 8)]
    assert names == ["keep", "w", "w", "w", "", "", ""]
    assert bound_name(None) == bound_name(f"{tmp_path / 'none.py'}:1") == ""


def test_another_value_is_told_by_its_name_where_it_has_one(tmp_path):
    path = tmp_path / "loss.py"
    path.write_text("keep = cast(y)\nweight = table * keep\ntotal = keep.sum()\nused = weight * 2\n")
    notes = Notes()
    table, given = notes.value(X), notes.value((Y > 0).astype(np.float64))
    lines = [f"{path}:{n}" for n in range(1, 5)]
    keep = notes.do("mul", [given, notes.value(1.0)], notes.arrays[given])
    weight = notes.do("mul", [table, keep], X * (Y > 0))
    total = notes.do("sum", [keep], np.float64((Y > 0).sum()))
    notes.do("mul", [weight, notes.value(2.0)], 2 * X * (Y > 0))
    for number, operation in enumerate(notes.operations):
        object.__setattr__(operation, "stack", (lines[number],))
    told = [each.what for each in notes.formula().repairs(total, (X * (Y > 0)).sum())]
    assert told[0] == "`weight` in place of `keep`"
    path.write_text("a, b = f(y)\n" * 4)  # lines that bind no one name
    other = [each.what for each in notes.formula().repairs(total, (X * (Y > 0)).sum())]
    assert not any("`" in what for what in other)
