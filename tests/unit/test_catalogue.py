"""The catalogue: read, looked up, its conditions told from source, its fixes applied; no framework is needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

import paralign
from paralign.catalogue import Outcome, look_up, read_all
from paralign.catalogue.binding import UNREADABLE, bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import read
from paralign.catalogue.naming import canonical, paddle_argument, paddle_name, torch_signature
from paralign.catalogue.parameters import Kind, parse, read_table, stored
from paralign.catalogue.source_fixes import NotApplicable, advice, fixed_expression
from paralign.cli import main
from paralign.errors import CaptureFormatError

ENTRIES = read_all()


def bound(call, signature):
    node = ast.parse(call, mode="eval").body
    return bind(parse(signature), node.args, node.keywords)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_says_all_that_it_should(entry):
    assert entry.torch in stored("torch") or entry.torch in stored("torchvision"), entry.torch
    if entry.outcome is not Outcome.RAISES:
        assert entry.paddle in stored("paddle")
    for name in entry.also:
        assert name in stored("torch") or name in stored("torchvision"), name
    assert entry.measured.before != "", "run benchmarks/catalogue.py --record"
    if entry.outcome is Outcome.EQUAL:
        return
    assert all((entry.differs.zh, entry.fix.words.en, entry.fix.words.zh))
    assert bool(entry.data.en) == bool(entry.data.zh)
    signature = torch_signature(entry.torch)
    holds(entry.when, bind(signature, [], []))
    compile(entry.naive, "<naive>", "eval")
    compile(fixed_expression(entry, signature), "<fixed>", "eval")
    assert entry.measured.after != ""


def test_there_are_enough_of_them():
    assert len(ENTRIES) >= 250
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)


SIGNATURE = "x, padding=0, exclusive=True, *, mode='mean'"


@pytest.mark.parametrize(
    ("condition", "call", "expected"),
    [
        ("padding != 0", "f(x, 1)", True),
        ("padding != 0", "f(x)", False),
        ("padding != 0", "f(x, p)", None),
        ("padding not in (0, (0, 0))", "f(x, padding=[0, 0])", False),
        ("given(mode)", "f(x, mode='sum')", True),
        ("given(mode)", "f(x)", False),
        ("given(mode)", "f(x, **more)", None),
        ("mode == 'sum' or padding != 0", "f(x, p, mode='sum')", True),
        ("mode == 'sum' and padding != 0", "f(x, p)", False),
        ("mode == 'mean' and padding != 0", "f(x, p)", None),
        ("not exclusive", "f(x)", False),
        ("padding > 2", "f(x, 'same')", None),
        ("", "f(x)", True),
        ("unheard == 1", "f(x)", None),
        ("number(padding)", "f(x, 2)", True),
        ("number(padding)", "f(x, [2, 3])", False),
        ("number(padding)", "f(x, p)", None),
    ],
)
def test_a_condition_is_true_false_or_not_to_be_told(condition, call, expected):
    assert holds(condition, bound(call, SIGNATURE)) is expected


@pytest.mark.parametrize("condition", ["__import__('os')", "padding.real == 1", "padding + 1 == 2", "given('x')", "a < b < c", "1 +"])
def test_a_condition_is_never_code(condition):
    with pytest.raises(ValueError):  # noqa: PT011 - the kind is what matters
        holds(condition, bound("f(x)", SIGNATURE))


def test_arguments_are_bound_as_python_does():
    found = bound("f(a, 1, mode='sum', more=2)", SIGNATURE)
    assert (ast.unparse(found.given["x"]), found.value("padding"), found.value("exclusive"), found.value("mode")) == ("a", 1, True, "sum")
    assert list(found.unknown) == ["more"]
    assert bound("f(*a)", SIGNATURE).value("padding") is UNREADABLE
    assert len(bound("f(a, 1, 2, 3, 4)", SIGNATURE).many) == 2


def test_signatures_are_read():
    found = parse("a, b=(1, 2), c='x, y', *d, e=None, **f")
    assert [(each.name, each.kind, each.default) for each in found.parameters] == [
        ("a", Kind.PLAIN, None),
        ("b", Kind.PLAIN, "(1, 2)"),
        ("c", Kind.PLAIN, "'x, y'"),
        ("d", Kind.ARGUMENTS, None),
        ("e", Kind.KEYWORD, "None"),
        ("f", Kind.KEYWORDS, None),
    ]
    assert parse("...").known is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.nn.Conv2d", "paddle.nn.Conv2D"),
        ("torch.nn.ConvTranspose2d", "paddle.nn.Conv2DTranspose"),
        ("torch.optim.lr_scheduler.StepLR", "paddle.optimizer.lr.StepDecay"),
        ("torch.utils.data.DataLoader", "paddle.io.DataLoader"),
        ("torch.cat", "paddle.cat"),
        ("torch.nn.Module.parameters", "paddle.nn.Layer.parameters"),
        ("torch.Tensor.permute", "paddle.Tensor.permute"),
        ("torchvision.transforms.CenterCrop", "paddle.vision.transforms.CenterCrop"),
        ("torchvision.models.resnet18", "paddle.vision.models.resnet18"),
        ("torch.nn.utils.rnn.pack_padded_sequence", ""),
        ("torch.nn.RMSNorm", ""),
    ],
)
def test_names_lead_to_what_this_paddle_has(name, expected):
    assert paddle_name(name, stored("paddle")) == expected


def test_where_a_class_is_defined_is_not_its_name():
    assert canonical("torch.nn.modules.conv.Conv2d") == "torch.nn.Conv2d"
    assert canonical("torch.optim.adam.Adam") == "torch.optim.Adam"
    assert canonical("torch.unheard.of") == "torch.unheard.of"


def test_arguments_lead_to_what_the_callable_has():
    assert paddle_argument("dim", {}, parse("x, axis=None")) == "axis"
    assert paddle_argument("dim", {}, parse("x, dim=None")) == "dim"
    assert paddle_argument("dim", {"dim": "over"}, parse("x")) == "over"
    assert paddle_argument("inplace", {}, parse("x")) is None


def entry(name):
    return next(each for each in ENTRIES if each.id == name)


def advised(name, call):
    node = ast.parse(call, mode="eval").body
    found = entry(name)
    return advice(found, bind(torch_signature(found.torch), node.args, node.keywords))


def test_a_fix_is_written_for_the_call_at_hand():
    assert advised("batch-norm2d-momentum", "f(64, momentum=0.01)") == "momentum=0.99"
    assert advised("avg-pool2d-padding", "f(3, 2, 1)") == "exclusive=False"
    assert advised("gather", "f(scores, 1, index)") == "paddle.take_along_axis(scores, index, 1, broadcast=False)"
    assert advised("gather", "f(*many)") == ""


@pytest.mark.parametrize(
    ("name", "call", "written"),
    [
        ("linear-default-weight", "f(width, 3)", "Uniform(-(width ** -0.5), width ** -0.5)"),
        ("linear-default-weight", "f(width * 4, 3)", "Uniform(-((width * 4) ** -0.5), (width * 4) ** -0.5)"),
        ("linear-default-weight", "f(self.widths[-1], 3)", "Uniform(-(self.widths[-1] ** -0.5), self.widths[-1] ** -0.5)"),
        ("batch-norm2d-momentum", "f(8, momentum=1 - keep)", "momentum=1 - (1 - keep)"),
        ("batch-norm2d-momentum", "f(8, momentum=a if b else c)", "momentum=1 - (a if b else c)"),
        ("gather", "f(a + b, -1, index)", "paddle.take_along_axis(a + b, index, -1, broadcast=False)"),
    ],
)
def test_an_argument_with_an_operator_keeps_its_meaning_in_a_fix(name, call, written):
    assert written in advised(name, call)


def test_a_fix_that_does_not_fit_its_example_is_refused():
    import dataclasses

    broken = dataclasses.replace(entry("avg-pool2d-padding"), paddle="paddle.nn.Nothing")
    with pytest.raises(NotApplicable):
        fixed_expression(broken, torch_signature(broken.torch))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[entry]]\nid = 'a'\n", "missing"),
        ("[[entry]]\nid = 'a'\ntorch = 't'\noutcome = 'odd'\n", "odd"),
        ("[[entry]]\nid = 'a'\ntorch = 't'\noutcome = 'equal'\nextra = 1\n", "extra"),
        ("[[entry]]\nid = 'a'\ntorch = 't'\noutcome = 'silent'\n", "not described"),
        ("[[entry]]\nid = 'a'\ntorch = 't'\noutcome = 'equal'\nwhen = '1 +'\n", "condition"),
        ("[[entry", "no catalogue"),
    ],
)
def test_an_entry_of_another_form_is_named(tmp_path, text, said):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(CaptureFormatError, match=said) as error:
        read(path)
    assert "x.toml" in str(error.value)


def test_names_are_found_as_people_write_them():
    assert look_up("F.pad").names[0] == "torch.nn.functional.pad"
    assert look_up("AvgPool2d").names == ["torch.nn.AvgPool2d"]
    assert "batch-norm2d-momentum" in {each.id for each in look_up("nn.BatchNorm2d").entries}
    assert [each.id for each in look_up("adadelta").entries][:1] == ["adadelta"]
    assert look_up("paddle.nn.AvgPool2D").entries
    assert "torch.nn.AvgPool2d" in look_up("avgpol2d").suggestions
    assert look_up("zzzzzzzz").suggestions == []


def test_explain_prints_an_entry_in_both_languages(capsys):
    assert main(["explain", "torch.nn.AvgPool2d"]) == 0
    assert capsys.readouterr().out.splitlines()[4] == (
        "  differs: Paddle leaves padded zeros out of the average (exclusive=True); PyTorch counts them (count_include_pad=True)."
    )
    assert main(["explain", "torch.nn.AvgPool2d", "--lang", "zh"]) == 0
    assert "差异: Paddle 求平均时不计入填充的零" in capsys.readouterr().out
    assert main(["explain", "torch.nn.AvgPool2d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"][0]["outcome"] == "silent"


def test_explain_of_a_call_without_entry_shows_signatures(capsys):
    assert main(["explain", "torch.exp2"]) == 0
    assert "not in this Paddle; paddle.pow" in capsys.readouterr().out


def test_explain_suggests_names(capsys):
    assert main(["explain", "avgpol2d\x1b[2J"]) == 2
    said = capsys.readouterr().err
    assert "torch.nn.AvgPool2d" in said
    assert "\x1b" not in said


PACKAGE = """
__version__ = "1.2"
def plain(a, b=1, *rest, c=None, **more): "plain"
def _hidden(): pass
class Layer:
    def __init__(self, width, act="relu"): pass
    def forward(self, x): pass
"""


def test_a_package_is_asked_for_its_signatures(tmp_path):
    (tmp_path / "odd_package.py").write_text(PACKAGE)
    script = next(paralign.__path__.__iter__()) + "/worker/interpreter/signatures.py"
    done = subprocess.run(
        [sys.executable, script, "odd_package", "odd_package.Layer", "odd_package.gone"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.splitlines()[:3] == [
        "# odd_package 1.2",
        "odd_package.Layer(width, act='relu')",
        "odd_package.plain(a, b=1, *rest, c=None, **more)",
    ]
    assert "odd_package.Layer.forward(x)" in done.stdout
    assert "! odd_package.gone: AttributeError" in done.stdout
    table = read_table(done.stdout)
    assert (table.package, table.version, "odd_package.plain" in table) == ("odd_package", "1.2", True)


def test_a_package_that_breaks_is_said(tmp_path):
    (tmp_path / "odd_package.py").write_text("raise SystemError('broken')")
    script = next(paralign.__path__.__iter__()) + "/worker/interpreter/signatures.py"
    done = subprocess.run(
        [sys.executable, script, "odd_package"], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout == "! odd_package: SystemError: broken\n"


def test_another_type_of_result_is_silent_in_explain_as_in_scan(capsys, tmp_path):
    entry = next(each for each in read_all() if each.outcome.value == "type")
    assert main(["explain", entry.id]) == 0
    assert f"[{entry.id}, silent, another type]" in capsys.readouterr().out
    assert main(["explain", entry.id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["entries"][0]
    assert (told["outcome"], told["status"]) == ("type", "silent")
