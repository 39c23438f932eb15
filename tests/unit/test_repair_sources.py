"""Edits of source files: every byte outside of an edit stays, no edit brings in what acts on the world, files of the user's stay safe."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from paralign.errors import UsageError
from paralign.model import Divergence, Point, TracedValue
from paralign.repair.applying import BACKUP, apply, check_unchanged, remove_patch, write_patch
from paralign.repair.code_copy import Copy, _mirror
from paralign.repair.edited_source import Source, Unreadable, unified
from paralign.repair.edits import EDITS
from paralign.repair.fault_sites import Library, sites
from paralign.repair.proposals import statement_at
from paralign.repair.ranking import is_safe, ranked
from paralign.repair.trying import Repaired

LATIN = "# -*- coding: latin-1 -*-\r\ndef größe(x):\r\n\treturn x * 2.0  # fünf\r\n".encode("latin-1")


def edited(path: Path, content: bytes, old: str, new: str) -> bytes:
    source = Source(path, content)
    start = source.text.index(old)
    return source.edit(start, start + len(old), new).applied()


@pytest.mark.parametrize(
    "content",
    [
        LATIN,
        "\ufeffx = 1\n\ndef f(y):\n    return y * 2.0\n".encode(),
        b"def f(x):\r\n\treturn x * 2.0\r\n",
        b"def f(x):\r\treturn x * 2.0\r",
        "s = '𝒳é'; f = lambda x: x * 2.0  # ü, no end of line".encode(),
    ],
    ids=["latin-1, CRLF, tabs", "with BOM", "CRLF", "CR alone", "wide characters"],
)
def test_every_byte_outside_of_an_edit_stays(tmp_path, content):
    path = tmp_path / "candidate.py"
    after = edited(path, content, "2.0", "3.5")
    assert after == content.replace(b"2.0", b"3.5")
    source = Source(path, content)
    number = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and n.value == 2.0)
    assert source.segment(number) == "2.0"


def test_what_is_no_python_or_would_not_be_written_back_is_refused(tmp_path):
    for content in (b"def f(:\n", b"x = '\xff'\n", b"# coding: nonsense\n", b"x = 1\x00"):
        with pytest.raises(Unreadable):
            Source(tmp_path / "candidate.py", content)
    with pytest.raises(Unreadable):
        edited(tmp_path / "candidate.py", LATIN, "2.0", "'中'")


def test_the_patch_is_one_that_git_applies_byte_for_byte(tmp_path):
    for number, content in enumerate((LATIN, b"a = 1\nb = 2.0\n", b"b = 2.0")):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "candidate.py"
        path.write_bytes(content)
        after = edited(path, content, "2.0", "3.5")
        (folder / "repair.patch").write_bytes(unified("candidate.py", content, after))
        subprocess.run(["git", "apply", "--whitespace=nowarn", "repair.patch"], cwd=folder, check=True, capture_output=True)
        assert path.read_bytes() == after


def repaired(path: Path, after: bytes) -> Repaired:
    return Repaired(patch=b"patch", before={path: path.read_bytes()}, after={path: after})


def test_applying_keeps_the_file_as_it_was_beside_it_and_its_rights(tmp_path):
    path = tmp_path / "candidate.py"
    path.write_bytes(LATIN)
    path.chmod(0o640)
    (tmp_path / f"candidate.py{BACKUP}").write_text("an older copy")
    copies = apply(repaired(path, b"new\n"))
    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [copy.read_bytes() for copy in copies] == [LATIN]
    assert (tmp_path / f"candidate.py{BACKUP}").read_text() == "an older copy"


def test_a_file_that_has_changed_since_is_not_written(tmp_path):
    path = tmp_path / "candidate.py"
    path.write_bytes(LATIN)
    done = repaired(path, b"new\n")
    path.write_bytes(LATIN + b"# edited meanwhile\n")
    with pytest.raises(UsageError, match="changed since"):
        apply(done)
    assert path.read_bytes().endswith(b"# edited meanwhile\n")
    assert list(tmp_path.iterdir()) == [path]
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        apply(done)


def test_a_read_only_file_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    path, other = tmp_path / "candidate.py", tmp_path / "helper.py"
    for each in (path, other):
        each.write_bytes(LATIN)
    done = Repaired(patch=b"p", before={path: LATIN, other: LATIN}, after={path: b"1", other: b"2"})
    monkeypatch.setattr("os.access", lambda file, _: Path(file) != other)  # root may write everywhere
    with pytest.raises(UsageError, match="read-only"):
        apply(done)
    assert path.read_bytes() == other.read_bytes() == LATIN
    check_unchanged(Repaired())


def test_the_patch_of_an_earlier_check_is_removed(tmp_path):
    assert write_patch(tmp_path, Repaired()) is None
    assert write_patch(tmp_path, Repaired(patch=b"x")) == tmp_path / "repair.patch"
    remove_patch(tmp_path)
    remove_patch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def first(tmp_path, candidate, reference, *, own=None, theirs=None, value=None, framework="paddle", relation=""):
    """The proposals for the last line of two files."""
    ends = []
    for name, text, arguments in (("candidate.py", candidate, own), ("reference.py", reference, theirs)):
        (tmp_path / name).write_text(text)
        ends.append(Point("", "", f"{tmp_path / name}:{len(text.splitlines())}", arguments=arguments or {}))
    found = Divergence(ends[1], ends[0], value=value, relation=relation)
    site = next(iter(sites(found, Library(), (tmp_path, tmp_path), tmp_path / "reference.py", framework)))
    return site, ranked(site)


@pytest.mark.parametrize(
    ("candidate", "reference", "due", "rule", "more"),
    [
        ("y = F.leaky_relu(x)", "y = F.leaky_relu(x, 0.2)", "y = F.leaky_relu(x, negative_slope=0.2)", "argument",
         {"own": {"negative_slope": 0.01}, "theirs": {"negative_slope": 0.2}}),
        ("y = x.clip(-2.0, 2.0)", "y = torch.clamp(x, -5, 5)", "y = x.clip(-5, 5)", "argument",
         {"own": {"min": -2.0, "max": 2.0}, "theirs": {"min": -5, "max": 5}}),
        ("offset = 0.08", "offset = 0.008", "offset = 0.008", "value", {"value": TracedValue(0.08, 0.008, None)}),
        ("p = F.avg_pool2d(x, 3, 1, 1)", "p = F.avg_pool2d(x, 3, 1, 1)", "p = F.avg_pool2d(x, 3, 1, 1, exclusive=False)", "catalogue", {}),
        ("loss = F.cross_entropy(scores, y)", "loss = F.cross_entropy(scores, y, reduction='sum')",
         "loss = F.cross_entropy(scores, y, reduction='sum')", "catalogue", {}),
        ("x = (x - 0.485) / 0.225", "x = (x - 0.485) / 0.229", "x = (x - 0.485) / 0.229", "constant", {}),
        ("keep = score > 0.5", "keep = score >= 0.5", "keep = score >= 0.5", "operator", {}),
        ("y = h - x", "y = h + x", "y = h + x", "operator", {}),
        ("z = paddle.exp(a) / paddle.sum(a)", "z = torch.exp(a) / torch.mean(a)", "z = paddle.exp(a) / paddle.mean(a)", "function", {}),
        ("def f(x, h, g):\n    return x + h", "def f(x, h, g):\n    return x + g", "return x + g", "name", {}),
        ("h = self.conv(v)", "h = F.silu(self.conv(v))", "h = F.silu(self.conv(v))", "missing", {}),
        ("n = len(x)\nv = s / n", "v = x.std()", "v = s / (n - 1)", "off-by-one", {}),
        ("n = len(x)\nv = 1.0 / n", "v = x.var()", "v = 1.0 / (n - 1)", "off-by-one", {}),
        ("v = before(n // 2)", "v = before(-(-n // 2))", "v = before((n + 1) // 2)", "off-by-one", {}),
        ("def f(n, k):\n    return n // k", "def f(n, k):\n    return -(-n // k)", "return (-(-n // k))", "off-by-one", {}),
        ("v = rows[: n - 1]", "v = rows[:n]", "v = rows[: n]", "off-by-one", {}),
        ("y = x[::-1].transpose(1, 0, 2)", "y = x.swapaxes(0, 1)[::-1]", "y = x.transpose(1, 0, 2)[::-1]", "order", {}),
        ("n = 3\ny = paddle.exp(x)", "n = 3\ny = torch.exp(x)[:n]", "y = paddle.exp(x)[:n]", "missing", {}),
        ("y = k * a + (1 - k) * b", "y = k * b + (1 - k) * a", "y = k * b + (1 - k) * a", "turned", {}),
        ("y = F.elu(norm(x))", "y = norm(F.elu(x))", "y = norm(F.elu(x))", "turned", {}),
        ("y = top(a[i]) + low(b[j])", "y = top(a[j]) + low(b[i])", "y = top(a[j]) + low(b[i])", "turned", {}),
        ("order = np.argsort(scores, kind='stable')", "order = torch.argsort(-scores)", "order = np.argsort(-scores, kind='stable')", "sign", {}),
        ("def f(p, q, w):\n    return -(p - q) * w", "def f(p, q, w):\n    return (p - q) * w", "return (p - q) * w", "sign", {}),
        ("def unit(x, axis=-1):\n    return x\n\ny = unit((x),  # note\n)", "y = unit(x, 0)", "y = unit((x), axis=0,  # note\n)",
         "argument-left-out", {}),
        ("y = F.leaky_relu(  # see (a)\n    (x),  # and (b)\n)", "y = F.leaky_relu(x, 0.2)",
         "y = F.leaky_relu(  # see (a)\n    (x), negative_slope=0.2,  # and (b)\n)", "argument",
         {"own": {"negative_slope": 0.01}, "theirs": {"negative_slope": 0.2}}),
        ("y = x[:, :, :2]", "left, _, right, _ = x.unbind(-1)", "y = x[:, :, ::2]", "slice", {}),
        ("y = x[:, :2]", "y = x.chunk(2, 1)[1]", "y = x[:, 2:]", "slice", {}),
        ("def f(x, n):\n    on = n > 0\n    return g(x.sum()) / h(x)", "def f(x, n):\n    return norm(x, n)", "return g(on) / h(x)", "name", {}),
        ("def f(x, n):\n    on = n > 0\n    return x", "def f(x, n):\n    return norm(x, n)", "return x * on", "missing", {}),
        ("def f(x, seen):\n    return g(x * 2)", "def f(x, seen):\n    return g(x.unsqueeze(-1) / 3) * seen", "return g(x * 2) * seen", "missing", {}),
        ("gate, value = paddle.split(x, 2, axis=-1)", "value, gate = x.chunk(2, -1)", "value, gate = paddle.split(x, 2, axis=-1)", "order", {}),
        ("fixed = p", "fixed = p.detach()", "fixed = p.detach()", "detach", {}),
        ("def f(p):\n    fixed = p", "def f(p):\n    with torch.no_grad():\n        fixed = p", "fixed = p.detach()", "detach", {}),
        ("def unit(x, axis=-1):\n    return x\n\ny = unit(x)", "y = unit(x, 0)", "y = unit(x, axis=0)", "argument-left-out", {}),
        ("class Unit:\n    def __init__(self, n, swish=True):\n        pass\n\ny = Unit(4)", "y = Unit(4, act=False)", "y = Unit(4, swish=False)",
         "argument-left-out", {}),
        ("class Unit:\n    def __init__(self, n, wide=1):\n        pass\n\ndef f(n, wide):\n    return Unit(n)", "def f(n, w):\n    return Unit(n, w)",
         "return Unit(n, wide=wide)", "argument-left-out", {}),
        ("y = label(x, structure=s)", "y = components(x)", "y = label(x)", "extra", {}),
        ("def f(x):\n    x = x * 2.0\n    return x.exp()", "def f(x):\n    return x", "return x", "extra", {}),
    ],
)  # fmt: skip
def test_the_edit_of_each_kind_is_proposed(tmp_path, candidate, reference, due, rule, more):
    head = "import paddle\nfrom paddle.nn import functional as F\n"
    site, found = first(tmp_path, head + candidate, reference, **more)
    after = [proposal.edit.applied().decode() for proposal in found]
    place = next(n for n, text in enumerate(after) if text.endswith(due))
    assert found[place].rule == rule
    assert place < 12, f"place {place}: a time box has few trials"
    assert found[place].cause.zh
    assert statement_at(Source(site.source.path, found[place].edit.applied()), site.line) is not None


DRAWS = "import numpy as np\n\ndef f(n):\n    r = np.random.default_rng(n)\n    kinds = r.integers(1, 4, n)\n    kept = r.random(n) < 0.4\n"


def test_two_draws_from_one_generator_are_exchanged_before_much_else_is_tried(tmp_path):
    _, found = first(tmp_path, DRAWS, DRAWS.replace("r.integers(1, 4, n)", "r.integers(1, 4, n) * (r.random(n) < 0.4)"))
    place = next(n for n, each in enumerate(found) if each.rule == "order-of-draws")
    assert place < 3
    lines = found[place].edit.applied().decode().splitlines()
    assert lines[-2:] == ["    kept = r.random(n) < 0.4", "    kinds = r.integers(1, 4, n)"]
    assert "in the other order it does" in found[place].cause.en
    assert "交换次序后相同" in found[place].cause.zh


@pytest.mark.parametrize(
    "text",
    [
        DRAWS.replace("kept = r.random(n) < 0.4", "kept = kinds < 0.4"),  # takes what the other makes, and draws nothing
        DRAWS.replace("kept = r.random", "other = np.random.default_rng(n)\n    kept = other.random"),  # another generator
        "import paddle\n\ndef f(x):\n    a = paddle.exp(x)\n    b = paddle.tanh(x)\n",
    ],
)
def test_two_statements_that_do_not_draw_from_one_source_are_not_exchanged_first(tmp_path, text):
    _, found = first(tmp_path, text, text)
    assert "order-of-draws" not in {each.rule for each in found}


def last_line(proposal):
    return ast.unparse(ast.parse(proposal.edit.applied())).splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("relation", "due"),
    [
        ("`w` in place of `keep`", "return (w * n).sum() / w.sum()"),
        ("multiply with `keep` first", "return (w * n * keep).sum() / keep.sum()"),
        ("divide with `w` first", "return (w * n).sum() / (keep / w).sum()"),
    ],
)
def test_a_change_that_was_seen_to_make_the_result_right_is_tried_first(tmp_path, relation, due):
    candidate = "import paddle\n\ndef f(w, n, keep):\n    return (w * n).sum() / keep.sum()"
    told = f"with one change the result is the reference's: {relation}"
    _, found = first(tmp_path, candidate, "def f(x):\n    return F.nll_loss(x.transpose(1, 2), ignore_index=-100)", relation=told)
    assert due in map(last_line, found[:12])
    cause = next(each.cause.en for each in found if last_line(each) == due)
    assert "the reference has" not in cause, "no line of the reference has that name"
    _, others = first(tmp_path, candidate, "def f(x):\n    return F.nll_loss(x.transpose(1, 2), ignore_index=-100)")
    assert due not in map(last_line, others[:12])


@pytest.mark.parametrize(
    ("candidate", "reference", "wrong"),
    [
        ("y = np.triu(x, k=1)", "y = torch.triu(x, 1)", "diagonal="),  # numpy has other arguments
        ("y = np.pad(x, 3)", "y = torch.nn.functional.pad(x, [3, 3])", "pad_from_left_axis"),
        ("y = x.sum()", "y = F.cross_entropy(x, ignore_index=-100, smooth=7)", "axis=-100"),  # the value of another argument
        ("y = x.sum()", "y = f(x, 12)", "=12"),  # no axis, no name, no type
        ("y = x['mean'] + x['std']", "y = g(x, 'int64')", "['int64']"),
        ("y = F.softplus(x)", "y = F.softplus(x.unsqueeze(-1))", "F.unsqueeze"),  # not of that module
        ("y = self.wide(x)", "y = self.wide(x.chunk(2))", "self.chunk"),
        ("y = paddle.exp(x)", "y = x.exp2().float()", "paddle.float"),
    ],
)
def test_what_cannot_be_right_is_not_proposed(tmp_path, candidate, reference, wrong):
    _, found = first(tmp_path, f"import numpy as np\nimport paddle\n{candidate}", reference)
    assert not [after for each in found if wrong in (after := each.edit.applied().decode())]


def test_the_step_of_a_slice_is_a_whole_number_from_two_on(tmp_path):
    for text in ("y = x[:1]", "y = x[: n]", "y = x[-3:]", "y = x[:-2]"):
        _, found = first(tmp_path, f"n = 3\n{text}", "y = f(x)")
        assert not [after for each in found if each.rule == "slice" and "::" in (after := each.edit.applied().decode())]


def test_kinds_of_edits_take_turns(tmp_path):
    candidate = "import paddle\n\ndef f(a, b, c):\n    return paddle.logical_and(a > 0, b <= c[:, :, None])"
    _, found = first(tmp_path, candidate, "def f(a, b, c):\n    return (a > 0) & (b < c.unsqueeze(-1))")
    assert len({each.rule for each in found[:8]}) > 2  # not one kind at every place
    assert any(each.edit.applied().endswith(b"b < c[:, :, None])") for each in found[:16])


def test_the_kinds_have_ids_that_stay():
    assert set(EDITS) == {
        "value", "argument", "catalogue", "constant", "operator", "order", "function", "name", "missing", "layer", "entry", "statement",
        "off-by-one", "argument-left-out", "turned", "sign", "detach", "extra", "order-of-draws", "slice",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["y = open(x)", "y = os.system(x)", "y = x.__class__(x)", "y = eval(x)", "y = np.load(x)", "y = x.tofile(x)"]
)
def test_no_edit_brings_in_what_acts_on_the_world(tmp_path, text):
    site, found = first(tmp_path, "import numpy as np\nimport os\ny = np.tanh(x)", text, framework="numpy")
    assert found
    assert not is_safe(site, ast.parse(text).body[0])
    for proposal in found:
        after = proposal.edit.applied().decode().splitlines()[-1]
        assert not any(word in after for word in ("open", "system", "__class__", "eval", "load", "tofile"))


def test_a_table_of_numbers_is_no_repair(tmp_path):
    wrong, right = [[round(0.1 * n + shift, 2) for n in range(9)] for shift in (0.0, 0.05)]
    site, found = first(tmp_path, f"t = {wrong}", f"t = {right}", value=TracedValue(wrong, right, None))
    assert str(right) not in [p.edit.applied().decode()[4:] for p in found]
    assert not is_safe(site, ast.parse(f"t = f({right}, {right})").body[0])


def test_a_point_outside_of_the_candidates_root_has_no_statement(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    file = tmp_path / "elsewhere" / "x.py"
    file.write_text("y = 1\n")
    found = Divergence(None, Point("", "", f"{file}:1"))
    assert list(sites(found, Library(), (tmp_path / "root", tmp_path / "root"), file, "numpy")) == []
    assert list(sites(Divergence(None, None), Library(), (tmp_path, tmp_path), file, "numpy")) == []


def test_a_linked_folder_is_never_written_into(tmp_path):
    own, copy = tmp_path / "own", tmp_path / "copy"
    (own / "models").mkdir(parents=True)
    (own / "models" / "net.py").write_text("x = 1\n")
    copy.mkdir()
    (copy / "models").symlink_to(own / "models")
    mirrored = Copy(((own, copy),))
    assert not mirrored.holds(own / "models" / "net.py")
    with pytest.raises(UsageError, match="not among those that were copied"):
        mirrored.write({own / "models" / "net.py": b"x = 2\n"})
    assert (own / "models" / "net.py").read_text() == "x = 1\n"


def test_odd_entries_of_a_project_are_linked_or_left_out(tmp_path):
    own, copy = tmp_path / "own", tmp_path / "copy"
    (own / "closed").mkdir(parents=True)
    (own / "model.py").write_text("x = 1\n")
    (own / "loop.py").symlink_to(own / "loop.py")
    (own / "closed").chmod(0)
    try:
        _mirror(own, copy, own / "result")
    finally:
        (own / "closed").chmod(0o700)
    assert (copy / "model.py").read_text() == "x = 1\n"
    assert not (copy / "model.py").is_symlink()


def test_a_link_beside_a_file_is_not_written_through(tmp_path):
    file, victim = tmp_path / "model.py", tmp_path / "victim.txt"
    file.write_text("x = 1\n")
    victim.write_text("mine")
    (tmp_path / ".model.py.tmp").symlink_to(victim)
    repaired = Repaired(before={file: b"x = 1\n"}, after={file: b"x = 2\n"})
    apply(repaired)
    assert (victim.read_text(), file.read_text(), file.is_symlink()) == ("mine", "x = 2\n", False)
