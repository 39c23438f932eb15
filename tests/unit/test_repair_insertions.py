"""What a port lacks is written in: a keyword, an entry of a list, the call of a layer, a whole statement; nothing that acts on the world."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from paralign.model import Divergence, Point
from paralign.repair.edited_source import Source
from paralign.repair.edited_statement import edited_statement
from paralign.repair.fault_sites import Library, sites
from paralign.repair.ranking import ranked
from paralign.repair.translated import translated

HEAD = "import paddle\nfrom paddle import nn\nfrom paddle.nn import functional as F\n"
THEIRS = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"

#: trials that a time box of two minutes has room for
FEW = 12


def proposed(tmp_path, candidate, reference, *, framework="paddle", what="", mark="#@", root=None):
    """The proposals for the lines that are marked."""
    ends = []
    for name, text in (("candidate.py", candidate), ("reference.py", reference)):
        number = next(n for n, line in enumerate(text.splitlines(), 1) if mark in line)
        (tmp_path / name).write_text(text.replace(f"  {mark}", ""))
        ends.append(Point("", "", f"{tmp_path / name}:{number}"))
    found = Divergence(ends[1], ends[0], what=what)
    site = next(iter(sites(found, Library(root=root), (tmp_path, tmp_path), tmp_path / "reference.py", framework)))
    return site, ranked(site)


def place_of(found, due, rule):
    """Where the proposal stands that gives some lines."""
    for number, proposal in enumerate(found):
        after = proposal.edit.applied().decode()
        if due in after:
            assert proposal.rule == rule
            assert proposal.cause.zh
            ast.parse(after)
            return number
    raise AssertionError(f"{due!r} was not proposed")


OPTIMIZERS = [
    ("paddle.optimizer.Adam(0.1, parameters=p)", "torch.optim.Adam(p, 0.1, weight_decay=1e-4)", "weight_decay=0.0001"),
    ("paddle.optimizer.Adam(0.1, parameters=p)", "torch.optim.Adam(p, 0.1, eps=1e-6)", "epsilon=1e-06"),
    ("paddle.optimizer.Momentum(0.1, 0.9, parameters=p)", "torch.optim.SGD(p, 0.1, 0.9, weight_decay=1e-4)", "weight_decay=0.0001"),
    ("paddle.optimizer.Adam(0.1, parameters=p)", "torch.optim.Adam(p, 0.1, weight_decay=DECAY)", "weight_decay=0.003"),
]


@pytest.mark.parametrize(("own", "theirs", "due"), OPTIMIZERS)
def test_a_keyword_of_an_optimizer_that_was_forgotten(tmp_path, own, theirs, due):
    body = "def build(p):\n    return {}  #@\n"
    _, found = proposed(tmp_path, HEAD + body.format(own), THEIRS + "DECAY = 0.003\n" + body.format(theirs))
    assert place_of(found, f"{own[:-1]}, {due})", "catalogue") < FEW


def test_an_entry_of_a_list_and_of_a_sequential(tmp_path):
    own = HEAD + "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))  #@\n"
    theirs = THEIRS + "net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))  #@\n"
    _, found = proposed(tmp_path, own, theirs)
    assert place_of(found, "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))", "entry") < FEW
    steps = "\ndef build(a, b, c):\n    return [{}]  #@\n"
    _, found = proposed(tmp_path, steps.format("a(1), b(2)"), steps.format("a(1), b(2), c(3)"), framework="numpy")
    assert place_of(found, "[a(1), b(2), c(3)]", "entry") < FEW


CLASS = """
class Net(nn.{base}):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
{made}
    def forward(self, x):
{body}
"""


def classes(made, body, their_made, their_body):
    own = HEAD + CLASS.format(base="Layer", made=f"        {made}\n" if made else "", body=body)
    return own, THEIRS + CLASS.format(base="Module", made=f"        {their_made}\n" if their_made else "", body=their_body)


def test_a_layer_that_is_built_and_never_called(tmp_path):
    files = classes(
        "self.drop = nn.Dropout(0.1)",
        "        return self.fc(x)  #@",
        "self.out = nn.Dropout(0.1)",
        "        return self.out(self.fc(x))  #@",
    )
    _, found = proposed(tmp_path, *files, what="missing")
    assert place_of(found, "return self.drop(self.fc(x))", "layer") < FEW


def test_an_activation_that_only_the_reference_builds(tmp_path):
    files = classes("", "        return self.fc(x)  #@", "self.act = nn.GELU()", "        return self.act(self.fc(x))  #@")
    _, found = proposed(tmp_path, *files, what="missing")
    assert place_of(found, "return nn.GELU()(self.fc(x))", "layer") < FEW


def test_a_value_that_is_not_cut_off(tmp_path):
    files = classes("", "        h = self.fc(x)\n        return x + h  #@", "", "        h = self.fc(x)\n        return x + h.detach()  #@")
    _, found = proposed(tmp_path, *files, what="kept")
    assert place_of(found, "return x + h.detach()", "detach") < FEW


def test_a_whole_statement_with_the_candidates_names_and_calls(tmp_path):
    files = classes(
        "",
        "        h = self.fc(x)  #@\n        return h.sum()",
        "",
        "        y = self.fc(x)\n        y = torch.cat([y, y], dim=1)  #@\n        return y.sum()",
    )
    _, found = proposed(tmp_path, *files, what="missing")
    assert place_of(found, "        h = self.fc(x)\n        h = paddle.cat([h, h], axis=1)\n        return", "statement") < FEW


@pytest.mark.parametrize("what", ["", "missing"])
def test_a_statement_that_the_named_one_goes_on_from_stands_before_it(tmp_path, what):
    own = HEAD + "def run(x, scale):\n    x = x * 0.5  #@\n    return x\n"
    theirs = THEIRS + "def run(x, scale):\n    x = torch.relu(scale)  #@\n    x = x * 0.5\n    return x\n"
    _, found = proposed(tmp_path, own, theirs, what=what)
    assert place_of(found, "    x = F.relu(scale)\n    x = x * 0.5\n", "statement") < FEW
    assert not [p for p in found if "x * 0.5\n    x = F.relu(scale)" in p.edit.applied().decode()]  # it would make the first one dead


def test_a_keyword_of_the_users_own_call_does_not_keep_pytorchs_in_another(tmp_path):
    own = HEAD + "def run(x, block):\n    y = block(x, dim=4)\n    s = y  #@\n    return s\n"
    theirs = THEIRS + "def run(x, block):\n    y = block(x, dim=4)\n    s = torch.softmax(y, dim=1)  #@\n    return s\n"
    _, found = proposed(tmp_path, own, theirs)
    texts = [p.edit.applied().decode() for p in found]
    assert any("softmax(y, axis=1)" in text for text in texts)
    assert not any("softmax(y, dim=1)" in text for text in texts)


def test_an_empty_line_at_which_a_step_is_missing_is_taken_for_the_statement_above(tmp_path):
    files = classes(
        "", "        h = self.fc(x)\n  #@\n        return h", "", "        h = self.fc(x)\n        h = torch.relu(h)  #@\n        return h"
    )
    site, found = proposed(tmp_path, *files, what="missing")
    assert ast.unparse(site.statement) == "h = self.fc(x)"
    assert place_of(found, "h = self.fc(x)\n        h = F.relu(h)\n", "statement") < FEW


def test_line_ends_and_depth_of_the_file_are_kept(tmp_path):
    own = b"def f(x):\r\n\th = x * 2.0\r\n\treturn h\r\n"
    (tmp_path / "candidate.py").write_bytes(own)
    (tmp_path / "reference.py").write_text("def f(x):\n    h = x * 2.0\n    h = h - 1.0\n    return h\n")
    point = Divergence(Point("", "", f"{tmp_path / 'reference.py'}:3"), Point("", "", f"{tmp_path / 'candidate.py'}:2"), what="missing")
    site = next(iter(sites(point, Library(), (tmp_path, tmp_path), tmp_path / "reference.py", "numpy")))
    after = [proposal.edit.applied() for proposal in ranked(site) if proposal.rule == "statement"]
    assert b"def f(x):\r\n\th = x * 2.0\r\n\th = h - 1.0\r\n\treturn h\r\n" in after


@pytest.mark.parametrize(
    "text", ["h = open(x)", "h = os.system('rm -rf /')", "h = eval(x)", "h = __import__('os')", "h = getattr(x, 'y')", "h = np.load(x)"]
)
def test_no_statement_that_acts_on_the_world_is_brought_in(tmp_path, text):
    own = "import os\nimport numpy as np\ndef f(x):\n    h = np.tanh(x)  #@\n    return h\n"
    theirs = f"import os\nimport numpy as np\ndef f(x):\n    h = np.tanh(x)\n    {text}  #@\n    return h\n"
    _, found = proposed(tmp_path, own, theirs, framework="numpy", what="missing")
    name = text.split("= ")[1].split("(")[0]
    assert not [p for p in found if f"{name}(" in p.edit.text]


def test_a_statement_that_takes_what_the_candidate_lacks_is_not_proposed(tmp_path):
    own = "def f(x):\n    h = x * 2.0  #@\n    return h\n"
    theirs = "def f(x, gate):\n    h = x * 2.0\n    h = h * gate  #@\n    return h\n"
    _, found = proposed(tmp_path, own, theirs, framework="numpy", what="missing")
    assert not [p for p in found if "gate" in p.edit.text]


def test_long_and_odd_sources_are_left_alone(tmp_path):
    long = "h = h + " + " + ".join(["x"] * 400)
    own = "def f(x): h = x * 2.0; return h  #@\n"
    _, found = proposed(tmp_path, own, f"def f(x):\n    h = x * 2.0\n    {long}  #@\n    return h\n", framework="numpy")
    for each in found:
        Source(tmp_path / "candidate.py", each.edit.applied())
        assert len(each.edit.text) < 1000
    assert not [p for p in found if p.rule == "statement"]


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        ("    scale = x * x  #@\n    h = h * scale\n", "2.0 = "),  # the reference's own `scale`, not the module's
        ("    h = h * scale  #@\n    scale = x.mean()\n", "h * 2.0"),
        ("    scale += x * x  #@\n", "2.0 +="),
        ("    h, scale = x, h  #@\n", "2.0 ="),
    ],
)
def test_a_name_that_the_reference_binds_itself_is_no_constant_of_its_module(tmp_path, steps, refused):
    own = "def f(x):\n    h = x - 1.0  #@\n    return h\n"
    theirs = f"scale = 2.0\ndef f(x):\n    h = x - 1.0\n{steps}    return h\n"
    _, found = proposed(tmp_path, own, theirs, framework="numpy", what="missing")
    assert not [p for p in found if refused in p.edit.applied().decode()]
    for each in found:
        ast.parse(each.edit.applied())


def test_a_constant_of_the_module_is_still_written_as_its_value(tmp_path):
    own = "def f(x):\n    h = x - 1.0  #@\n    return h\n"
    theirs = "scale = 2.0\ndef f(x):\n    h = x - 1.0\n    h = h * scale  #@\n    return h\n"
    _, found = proposed(tmp_path, own, theirs, framework="numpy", what="missing")
    assert place_of(found, "h = h * 2.0", "statement") < FEW


def test_a_piece_that_does_not_parse_is_none(tmp_path, monkeypatch):
    theirs = "def f(x):\n    h = x - 1.0\n    h = h * 3.0  #@\n    return h\n"
    own = "def f(x):\n    h = x - 1.0  #@\n    return h\n"
    site, _ = proposed(tmp_path, own, theirs, framework="numpy", what="missing")
    monkeypatch.setattr("paralign.repair.translated.ast.unparse", lambda _: "2.0 = x")
    assert translated(site, site.beside[0], site.beside[0].statement) == ""


FORMS = [
    # another form of the named statement takes its place; the smallest edit with that result is told
    ("        s = x.max(axis=-1)  #@", "        s = x.mean(dim=-1)  #@", "        s = x.mean(axis=-1)\n", "function", "the candidate has `max`, the reference `mean`"),
    (
        "        s = x.std(axis=1, keepdims=True, ddof=1)  #@\n        x = x / (s + 1e-5)",
        "        s = x.std(axis=1, keepdims=True)  #@\n        x = x / (s + 1e-5)",
        "        s = x.std(axis=1, keepdims=True)\n",
        "catalogue",
        "the candidate has `ddof=1` here, which the reference does not do",
    ),
    (
        "        x = x.reshape([2, self.heads, 4])  #@",
        "        x = x.view(2, 4, self.heads).transpose(1, 2)  #@",
        "        x = x.view(2, 4, self.heads).transpose(1, 2)\n",
        "statement",
        "the candidate has `x = x.reshape([2, self.heads, 4])`, the reference `x = x.view(2, 4, self.heads).transpose(1, 2)`",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("own", "theirs", "due", "rule", "said"), FORMS, ids=["function", "keyword", "whole"])
def test_another_form_of_the_named_statement_takes_its_place(tmp_path, own, theirs, due, rule, said):
    body = "class Net:\n    def forward(self, x):\n{}\n        return x + self.heads\n"
    site, found = proposed(tmp_path, HEAD + body.format(own), THEIRS + body.format(theirs))
    named = own.split("  #@")[0]
    place = next(n for n, each in enumerate(found) if due in each.edit.applied().decode() and named not in each.edit.applied().decode())
    assert place < FEW
    assert (found[place].rule, str(found[place].cause.en)) == (rule, said)
    beside = [n for n, each in enumerate(found) if due.strip() in each.edit.applied().decode() and named in each.edit.applied().decode()]
    assert all(n > place for n in beside)
    assert bool(beside) == (rule == "statement"), "a statement that would be dead, or make the named one so, is not put beside it"
    assert site.text(site.statement) == named.strip()


def test_an_attribute_that_is_bound_otherwise_is_not_bound_twice(tmp_path):
    body = "class Net(nn.Layer):\n    def __init__(self):\n        self.norm = {}  #@\n"
    own = HEAD + body.format("nn.BatchNorm1D(8, momentum=0.1)")
    _, found = proposed(tmp_path, own, THEIRS + body.replace("Layer", "Module").format("nn.BatchNorm1d(8)"))
    assert [each for each in found if each.edit.applied().count(b"self.norm =") > 1] == []
    assert place_of(found, "self.norm = nn.BatchNorm1D(8)\n", "catalogue") == 0


def test_a_number_that_both_functions_have_is_not_missing_in_a_statement(tmp_path):
    body = "def f(x, s):\n    y = x.std(ddof={})  #@\n    return y + {}\n"
    ends = {}
    for last in ("1e-05", "7.0"):
        _, found = proposed(tmp_path, body.format(1, last), body.format("1e-05", "1e-05"), framework="numpy")
        ends[last] = next(each.weight for each in found if b"ddof=1e-05" in each.edit.applied())
    theirs = "def f(x, s):\n    return x.std() + 1e-05  #@\n"
    own = "def f(x, s):\n    y = x.std(ddof=1)  #@\n    return y + {}\n"
    weights = []
    for last in ("1e-05", "7.0"):
        _, found = proposed(tmp_path, own.format(last), theirs, framework="numpy")
        weights.append(next(each.weight for each in found if b"ddof=1e-05" in each.edit.applied()))
    assert weights[0] < weights[1]
    assert ends["7.0"] == ends["1e-05"]  # the reference has two of them there: one is missing in both


ONE_LINE = [
    ("def f(x, t):\n    if t: x = x * {}  #@\n    return x\n", "if t: x = x * 3.0"),
    ("def f(x): return x * {}  #@\n", "def f(x): return x * 3.0"),
    ("def f(x, t):\n    if t:\n        x = x + 1\n    else: x = x * {}  #@\n    return x\n", "else: x = x * 3.0"),
    ("def f(x):\n    y = x + 1; x = y * {}  #@\n    return x\n", "y = x + 1; x = y * 3.0"),
    ("def f(x):\n    for _ in range(2): x = x * {}  #@\n    return x\n", "range(2): x = x * 3.0"),
]


@pytest.mark.parametrize(("text", "due"), ONE_LINE)
def test_statements_that_share_their_line_with_another_are_edited(tmp_path, text, due):
    _, found = proposed(tmp_path, HEAD + text.format("2.0"), THEIRS + text.format("3.0"))
    assert any(due in each.edit.applied().decode() for each in found[:FEW])


@pytest.mark.parametrize(("text", "due"), ONE_LINE[:2])
def test_an_edit_of_a_header_is_none_of_the_statement_behind_it(tmp_path, text, due):
    site, _ = proposed(tmp_path, HEAD + text.format("2.0"), THEIRS + text.format("3.0"))
    site = replace(site, statement=getattr(site.statement, "body", [site.statement])[0])
    header, end = site.source.offset(site.statement.lineno, 0), site.source.span(site.statement)[1]
    assert ast.unparse(edited_statement(site)) == due.rpartition(": ")[2].replace("3.0", "2.0")
    assert ast.unparse(edited_statement(site, site.source.edit(end - 3, end, "3.0"))) == due.rpartition(": ")[2]
    assert edited_statement(site, site.source.edit(header, header + 4, "")) is None


@pytest.mark.parametrize(
    ("imported", "module", "own"),
    [
        ("from .blocks import Conv2D", "", True),
        ("from blocks import Conv2D", "blocks.py", True),
        ("from kit.blocks import Conv2D", "../kit/blocks.py", True),
        ("from blocks import Conv2D", "", False),
        ("from outside.blocks import Conv2D", "../../outside/blocks.py", False),
    ],
)
def test_layers_of_the_users_own_modules_take_the_frameworks_arguments(tmp_path, imported, module, own):
    home = tmp_path / "project" / "nets"
    home.mkdir(parents=True)
    if module:
        (home / module).parent.mkdir(exist_ok=True)
        (home / module).write_text("Conv2D = None\n")
    body = "def f(x):\n    c = {}  #@\n    return c(x)\n"
    files = f"import paddle\n{imported}\n" + body.format("Conv2D(3, 4, 5)"), THEIRS + body.format("nn.Conv2d(3, 4, 5, stride=2)")
    site, found = proposed(home, *files, root=tmp_path / "project")
    assert site.is_foreign(site.statement.value) is not own
    assert any("stride=2" in each.edit.text and each.rule == "catalogue" for each in found) is own
