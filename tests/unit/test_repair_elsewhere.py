"""Edits of statements that no point names: which are proposed, in which order, and which never are."""

from __future__ import annotations

import pytest

from paralign.model import Divergence, Point
from paralign.repair import elsewhere
from paralign.repair.edited_settings import Settings
from paralign.repair.edited_source import Source

REFERENCE = """
import torch

LEVEL = 1.6449


def spread(values, keep=0.95):
    total = sum(values)
    return keep * total / (len(values) - 1)


def metric(outputs, labels):
    width = spread(outputs)
    shift = width * 3.5
    return {"cover": LEVEL * width + shift, "kind": torch.mean(outputs)}


def predict(path):
    return 0.625
"""

CANDIDATE = REFERENCE.replace("torch", "paddle")


def proposed(tmp_path, right, wrong, *, stage="metric", named=0, reference=REFERENCE, candidate=CANDIDATE):
    """Contents after each proposed edit of a candidate with a mistake, the likeliest first."""
    assert candidate.count(right) == 1
    paths = tmp_path / "reference.py", tmp_path / "candidate.py"
    texts = reference, candidate.replace(right, wrong)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    points = [Divergence(None, Point("", source=f"{paths[1].resolve()}:{named}"))] if named else []
    sides = tuple([Source(path.resolve(), text.encode())] for path, text in zip(paths, texts, strict=True))
    found = elsewhere.proposals(stage, [], sides, "paddle", points)
    assert [each.weight for each in found] == sorted((each.weight for each in found), reverse=True)
    return [each.edit.applied().decode() for each in found]


@pytest.mark.parametrize(
    ("right", "wrong", "within"),
    [
        ("LEVEL = 1.6449", "LEVEL = 1.2816", 2),
        ("keep=0.95", "keep=0.05", 2),
        ("width * 3.5", "width * 2.5", 4),
        ("(len(values) - 1)", "len(values)", 12),
        ("paddle.mean(outputs)", "paddle.sum(outputs)", 12),
    ],
)
def test_the_statement_that_is_unlike_the_references_comes_first(tmp_path, right, wrong, within):
    assert CANDIDATE in proposed(tmp_path, right, wrong)[:within]


def test_two_statements_that_the_reference_has_the_other_way_round(tmp_path):
    reference = """
def metric(outputs, labels):
    weak = moved(outputs, 1)
    strong = moved(outputs, 2)
    return weak - strong
"""
    turned = "    strong = moved(outputs, 2)\n    weak = moved(outputs, 1)\n"
    right = "    weak = moved(outputs, 1)\n    strong = moved(outputs, 2)\n"
    assert reference in proposed(tmp_path, right, turned, reference=reference, candidate=reference)[:6]


def test_what_the_stage_does_not_run_is_left_alone(tmp_path):
    after = proposed(tmp_path, "0.625", "0.125")
    assert after
    assert all("return 0.125" in text for text in after)
    assert CANDIDATE in proposed(tmp_path, "0.625", "0.125", stage="infer")[:2]


def test_what_stands_near_a_named_line_comes_before_the_rest(tmp_path):
    reference = "def metric(x, y):\n    return a(x) + b(y)\n\n\ndef a(x):\n    n = x - 7\n    return n\n\n\ndef b(y):\n    m = y - 9\n    return m\n"
    wrong = reference.replace("- 7", "+ 7").replace("- 9", "+ 9")
    for line, due in ((7, "n = x - 7"), (12, "m = y - 9")):
        first = proposed(tmp_path, wrong, wrong, named=line, reference=reference, candidate=wrong)[0]
        assert due in first


@pytest.mark.parametrize(
    "text",
    [
        "def metric(x, y):\n    return open('scores', 'rb').read()\n",
        "def metric(x, y):\n    x.save('scores_of_epoch')\n    return x\n",
        "def metric(x, y):\n    os.remove(y)\n    x = x + 1\n    return x\n",
    ],
)
def test_no_edit_changes_what_acts_on_the_world(tmp_path, text):
    reference = "def metric(x, y):\n    open('other_name', 'wb')\n    x.save('weights_of_epoch')\n    os.rename(y, x)\n    return x\n"
    wanted = ("'wb'", "other_name", "weights_of_epoch", "rename")
    for after in proposed(tmp_path, text, text, reference=reference, candidate=text):
        assert not any(word in after for word in wanted), after
        assert after.find("x = x + 1") == -1 or after.find("os.remove") < after.find("x = x + 1"), after


@pytest.mark.parametrize(
    "body",
    [
        "if x: y = 2; z = 3",
        "match x:\n        case 1:\n            y = 2\n        case _:\n            y = 3",
        "while (n := x) > 3:\n        x = n - 1",
        "try:\n        y = 1\n    except ValueError as error:\n        y = str(error)\n    finally:\n        z = f'{x:{y}}'",
        "with x as y, z:\n        pass\n    async def inner(*a, b=3, **c):\n        await b",
        "x = 'ä' * 3; y = 'ö' + x",
        "return lambda *a, b=2: [c for c in a if c > b]",
    ],
)
def test_odd_sources_give_python_or_nothing(tmp_path, body):
    text = f"@cached\ndef metric(x, y):\n    {body}\n"
    for after in proposed(tmp_path, text, text, reference=REFERENCE, candidate=text):
        assert "def metric" in after


def test_a_side_without_functions_of_these_names_is_looked_at_whole(tmp_path):
    text = "def score(x):\n    return x * 2.5\n"
    assert any("2.75" in after for after in proposed(tmp_path, text, text, reference=text.replace("2.5", "2.75"), candidate=text))


def test_an_argument_that_is_left_out_where_only_the_reference_has_the_number(tmp_path):
    reference = "def metric(x, y):\n    return F.elu(x, 0.8) - y\n"
    right = "import paddle.nn.functional as F\n\n\ndef metric(x, y):\n    h = F.elu(x, alpha=0.8)\n    return h - y\n"
    after = proposed(tmp_path, ", alpha=0.8", "", reference=reference, candidate=right)
    assert right in after[:6]


def test_an_if_and_its_elif_in_the_other_order(tmp_path):
    right = "def metric(x, y):\n    if x > 3:\n        y += 1\n        y += 2\n    elif y > 3:\n        y += 5\n    else:\n        y = 0\n    return y\n"
    one, other = "x > 3:\n        y += 1\n        y += 2\n", "y > 3:\n        y += 5\n"
    wrong = right.replace(f"if {one}    elif {other}", f"if {other}    elif {one}")
    after = proposed(tmp_path, right, wrong, reference=right, candidate=right)
    assert right in after
    one_line = "def metric(x, y):\n    if x: y += 1\n    elif y: y += 2\n    return y\n"
    for text in proposed(tmp_path, one_line, one_line, reference=REFERENCE, candidate=one_line):
        assert "elif" in text


@pytest.mark.parametrize("number", ["1e999", "0x" + "f" * 400, "float('nan')", "-1e999"])
def test_numbers_that_no_float_holds_end_nothing(tmp_path, number):
    one, other = (f"LIMIT = {text}\n\n\ndef metric(x, y):\n    return x * LIMIT - {text}\n" for text in (number, "7.25"))
    assert proposed(tmp_path, one, one, reference=other, candidate=one)
    assert proposed(tmp_path, other, other, reference=one, candidate=other)


def test_generated_statements_are_left_alone_and_the_time_is_kept(tmp_path):
    deep = f"T = {'+'.join(['a'] * 900)}\nW = [{', '.join(f'{n}.5' for n in range(300))}]\n\n\ndef metric(x, y):\n    return T * W * 2.5\n"
    after = proposed(tmp_path, deep, deep, reference=deep.replace("2.5", "2.75"), candidate=deep)
    assert all(text.startswith(deep[:1900]) for text in after)
    many = "def metric(x, y):\n" + "".join(f"    v{n} = x * {n}.25 + y\n" for n in range(400)) + "    return v0\n"
    path = tmp_path / "many.py"
    path.write_text(many)
    sides = [Source(path, many.encode())], [Source(path, many.replace(".25", ".75").encode())]
    assert len(elsewhere.proposals("metric", [], sides, "paddle", [], until=0.0)) < 2000


@pytest.mark.parametrize(
    "text",
    [
        "def metric(x, keep):\n    if not keep:\n        shutil.rmtree(x)\n    return x * 2.5\n",
        "def metric(x, refresh=False):\n    if refresh:\n        os.remove(x)\n    return x * 2.5\n",
        "def metric(x, y):\n    name = x + '.bak' * 2\n    open(name, 'w')\n    return x * 2.5\n",
        "def metric(x, y):\n    np.save(f'a{y}', x * 2.5)\n    return x\n",
        "STEPS = 7\n\n\ndef metric(x, y):\n    open(f'ckpt_{STEPS}', mode='wb').write(x)\n",
    ],
)
def test_functions_that_change_files_are_not_edited(tmp_path, text):
    reference = text.replace("2.5", "2.75").replace("False", "True").replace("STEPS = 7", "STEPS = 9").replace("not keep", "keep")
    assert proposed(tmp_path, text, text, reference=reference, candidate=text) == []


def test_a_number_that_the_reference_has_in_its_settings(tmp_path):
    right = "def metric(x, y):\n    return soften(x, knee=0.35) - y\n"
    (tmp_path / "reference.py").write_text("def metric(x, y):\n    return soften(x, get('knee')) - y\n")
    texts = [(tmp_path / "reference.py").read_text(), right.replace("0.35", "0.85")]
    sides = tuple([Source(tmp_path / name, text.encode())] for name, text in zip(("reference.py", "candidate.py"), texts, strict=True))
    files = ([Settings(tmp_path / "net.toml", b"knee = 0.35\nother = 0.85\n")], [])
    found = elsewhere.proposals("metric", [], sides, "paddle", [], settings=files)
    assert found[0].edit.applied().decode() == right
    assert right not in [each.edit.applied().decode() for each in elsewhere.proposals("metric", [], sides, "paddle", [])]
