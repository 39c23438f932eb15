"""Where what a line of an optimizer's step reads was put: by reading code, none of which runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.locate.optimizer.setting_lines import exempting_line, group_line, kept_line
from paralign.locate.source.bindings import Code, number_line, only_keeps, unkept_line
from paralign.locate.source.statements import composition_line

CODE = """
class Rule:
    def __init__(self, rho, epsilon):
        self.rho, self.epsilon = epsilon, rho
        self.beta = 0.9
        self.squares = {}

    def step(self, parameter, gradient, name):
        before = self.squares.get(name, 0.0)
        square = self.rho * before + gradient
        rate = self.beta / 2
        other = square
        self.squares[name] = square
        self.rates[name] = rate
        parameter.set_value(parameter - rate * square)


def build_optimizer(model):
    weights, others = [], [p for p in model if p.ndim < 2]
    for p in model:
        if p.ndim > 1:
            weights.append(p)
    groups = [{"params": weights, "decay": 0.1}, {"params": others}]
    return Rule(groups)
"""


def line(text):
    return next(number for number, row in enumerate(CODE.splitlines(), 1) if text in row)


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "code.py"
    found.write_text(CODE, encoding="utf-8")
    return found


def test_a_number_is_followed_to_the_line_that_computes_it(path):
    source = f"{path}:{line('set_value')}"
    assert number_line(source, {f"{path}:{line('square = self.rho')}"}) == f"{path}:{line('rate = ')}"
    assert number_line(source, {f"{path}:{line('square = self.rho')}", f"{path}:{line('rate = ')}"}) is None
    assert number_line(source, ()) is None  # two names, either of which may be one


def changed(path, old, new):
    assert old in CODE
    path.write_text(CODE.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("self.squares[name] = square", "self.squares[rate] = square", "self.squares[name]"),
        ("self.squares[name] = square", "self.squares[name] = before", "self.squares[name]"),
        ("self.squares.get(name, 0.0)", "self.squares.get(rate, 0.0)", "before = "),
        ("self.rho * before + gradient", "self.rho * gradient + before", "square = self.rho"),
        ("self.rho * before + gradient", "self.rho * gradient", "square = self.rho"),
    ],
)
def test_what_a_step_lacks_was_put_or_taken_at_the_wrong_place(path, old, new, expected):
    changed(path, old, new)
    source = f"{path}:{line('square = self.rho')}"
    assert unkept_line(source, [source]) == f"{path}:{line(expected)}"


def test_what_is_kept_nowhere_has_no_line(path):
    changed(path, "        self.squares[name] = square\n", "")
    source = f"{path}:{line('square = self.rho')}"
    assert unkept_line(source, [source]) is None


def test_lines_that_only_keep_something_are_told_from_others(path):
    assert only_keeps(f"{path}:{line('self.squares[name]')}")
    assert not only_keeps(f"{path}:{line('other = square')}")
    assert not only_keeps(f"{path}:{line('set_value')}")


def abouts(theirs, ours):
    return {"settings": theirs, "groups": [{}]}, {"settings": ours, "groups": [{}]}


def test_a_setting_of_another_value_is_followed_to_the_constructor(path):
    source, right = f"{path}:{line('square = self.rho')}", SimpleNamespace(family="rmsprop", second=0.9)
    assert kept_line(source, abouts({}, {"rho": 1e-3}), right, None) == f"{path}:{line('self.rho, self.epsilon')}"
    assert kept_line(source, abouts({}, {"rho": 0.9}), right, None) is None
    assert kept_line(source, abouts({}, {"rho": 1e-3}), None, None) is None
    assert kept_line(source, abouts({"rho": 0.9}, {"rho": 1e-3}), None, None) == f"{path}:{line('self.rho, self.epsilon')}"


def test_a_group_is_chosen_by_the_test_that_fills_it_or_where_it_is_made(path):
    source = f"{path}:{line('return Rule')}"
    assert group_line(source, "moves", 0) == f"{path}:{line('if p.ndim > 1')}"
    assert group_line(source, "decay", 1) == f"{path}:{line('weights, others')}"
    assert group_line(source, "decay", 2) is None


@pytest.mark.parametrize("source", [None, "", "none.py:3", "code.py:999", "code.py:x"])
def test_what_cannot_be_read_has_no_lines(path, source):
    source = source and source.replace("code.py", str(path))
    code = Code(source)
    assert (code.names, code.attributes, code.kept(), code.taken()) == ([], [], [], [])
    assert number_line(source, ()) is None
    assert unkept_line(source, []) is None
    assert group_line(source, "moves", 0) is None
    assert kept_line(source, abouts({}, {}), None, None) is None
    assert not only_keeps(source)


def test_broken_code_has_no_lines(path):
    path.write_text("def step(", encoding="utf-8")
    assert number_line(f"{path}:1", ()) is None
    assert unkept_line(f"{path}:1", [f"{path}:1"]) is None


def test_a_function_is_found_in_the_list_that_puts_it_together_with_others(path):
    path.write_text("BARE = [crop]\n\n\ndef transforms():\n    return [\n        resize,\n        crop,\n    ]\n", encoding="utf-8")
    assert composition_line(f"{path}:1", "crop", {"resize", "other"}) == f"{path}:7"
    assert composition_line(f"{path}:1", "crop", {"other", "crop"}) is None
    assert composition_line(f"{path}:1", "flip", {"resize"}) is None
    assert composition_line(None, "crop", {"resize"}) is None


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        ("    names = {p.name for p in parameters}\n", 2),
        ("    names = set()\n    for p in parameters:\n        if p.ndim > 0:\n            names.add(p.name)\n", 4),
        ("    def kept(name):\n        return 'bias' in name\n", 3),
        ("", 4),
    ],
    ids=["a set", "filled under a test", "a function", "a test in place"],
)
def test_the_line_that_chooses_what_decays(tmp_path, chosen, line):
    chooser = {2: "lambda name: name in names", 4: "names.__contains__", 3: "kept"}[line] if chosen else "lambda name: 'bias' in name"
    text = f"def built(parameters):\n{chosen}    return AdamW(\n        parameters=parameters,\n        apply_decay_param_fun={chooser},\n    )\n"
    (tmp_path / "side.py").write_text(text)
    call = text.splitlines().index("    return AdamW(") + 1
    assert exempting_line(f"{tmp_path / 'side.py'}:{call}") == f"{tmp_path / 'side.py'}:{line}"


def test_no_line_chooses_what_decays_where_nothing_is_exempted(tmp_path):
    (tmp_path / "side.py").write_text("def built(parameters):\n    return AdamW(parameters)\n")
    assert exempting_line(f"{tmp_path / 'side.py'}:2") is None
    assert exempting_line(None) is None
