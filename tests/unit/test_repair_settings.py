"""Settings files that a repair may edit: their values with places, how they are written, whose they are, what is proposed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from paralign.capture import CaptureWriter
from paralign.model import Divergence, Manifest, Point
from paralign.repair import elsewhere, other_setting
from paralign.repair.code_copy import copied
from paralign.repair.edited_settings import LARGEST, Settings, is_valid
from paralign.repair.edited_source import Source, Unreadable
from paralign.repair.named_values import likeness, of_sources
from paralign.repair.proposals import is_number
from paralign.repair.settings_read import files_read, settings_read
from paralign.repair.settings_scan import DEEPEST, MOST, Unscanned, scanned
from paralign.run.project import read
from paralign.worker.process import looked_at

YAML = """\
# 3 comments
a:
- 1
- x: 2   # two
  y: [3,
      4]
- - 7
b: |
  c: 9
d: >-
   text 11
f: {g: 12, "h": yes}
j: 'it'
m: &anchor 14
n: *anchor
o: 1, 2
p: one, two
---
"k l":
    t: -5e-1
    u:
    - on
"""

INI = """\
; c = 1
top = 3
[s]
a = 1 ; two 2
b: 3, 4
c = 1 2
e =
    7
    8, 9
g = [1,
   2]
i = [not closed
k
"""

TOML = """\
# x = 1
"a.b".c = 1_000 # two
[t.u]
d = \"\"\"x
y = 5\"\"\"
f = 1979-05-27T07:32:00Z
g = [ # 1
  1, # 2
  2,
]
h = { i = true, j.k = ["#"] }
[[p]]
q = 1
[[p]]
q = 2
"""


def values(text, suffix):
    """Key path -> value of all that are no lists."""
    return {each.keys: each.value for each in scanned(text, suffix) if each.items < 0 and each.value is not ...}


def test_yaml():
    assert values(YAML, ".yaml") == {
        ("a", 0): 1, ("a", 1, "x"): 2, ("a", 1, "y", 0): 3, ("a", 1, "y", 1): 4, ("a", 2, 0): 7, ("f", "g"): 12, ("f", "h"): True,
        ("j",): "it", ("o", 0): 1, ("o", 1): 2, ("p",): "one, two", ("k l", "t"): -0.5, ("k l", "u", 0): True,
    }  # fmt: skip


def test_ini():
    assert values(INI, ".ini") == {
        ("top",): 3, ("s", "a"): 1, ("s", "b", 0): 3, ("s", "b", 1): 4, ("s", "c", 0): 1, ("s", "c", 1): 2, ("s", "e", 0): 7,
        ("s", "e", 1, 0): 8, ("s", "e", 1, 1): 9, ("s", "g", 0): 1, ("s", "g", 1): 2,
    }  # fmt: skip


def test_toml():
    assert values(TOML, ".toml") == {
        ("a.b", "c"): 1000, ("t", "u", "g", 0): 1, ("t", "u", "g", 1): 2, ("t", "u", "h", "i"): True, ("t", "u", "h", "j.k", 0): "#",
        ("p", 0, "q"): 1, ("p", 1, "q"): 2,
    }  # fmt: skip


def test_json_with_lists_in_lists():
    text = '\ufeff{"a": [1, [2, {"b": "x\\"y"}]],\r\n "c": -1.5e3, "d": null}\r\n'
    assert values(text, ".json") == {("a", 0): 1, ("a", 1, 0): 2, ("a", 1, 1, "b"): 'x"y', ("c",): -1500.0, ("d",): None}
    whole = next(each for each in scanned(text, ".json") if each.keys == ("a", 1))
    assert (text[whole.start : whole.end], whole.items) == ('[2, {"b": "x\\"y"}]', 2)


@pytest.mark.parametrize(("text", "suffix"), [("rate 0.1\nmode fast\n", ".conf"), ("rate=0.1\n! 3\nmode = fast", ".properties")])
def test_keys_without_sections(text, suffix):
    assert values(text, suffix) == {("rate",): 0.1, ("mode",): "fast"}


@pytest.mark.parametrize(
    ("name", "before", "keys", "value", "after"),
    [
        ("a.toml", 'x = "p" # "p"\r\ny = 1e-3 # 2\r\n', ("y",), 0.002, 'x = "p" # "p"\r\ny = 0.002 # 2\r\n'),
        ("a.toml", "y = 3\n", ("y",), 4.0, "y = 4\n"),
        ("a.toml", "y = 3.0\n", ("y",), 4, "y = 4.0\n"),
        ("a.toml", 'y = ["a"]\n', ("y",), ["a", "b"], 'y = ["a", "b"]\n'),
        ("a.toml", "y = [[], [1]] # axes\n", ("y",), [[], [2]], "y = [[], [2]] # axes\n"),
        ("a.json", '\ufeff{"y": [1, [2, 3]], "z": false}', ("y", 1, 1), 5, '\ufeff{"y": [1, [2, 5]], "z": false}'),
        ("a.json", '{"z": false}', ("z",), True, '{"z": true}'),
        ("a.json", '{"z": "a"}', ("z",), 'q"ü', '{"z": "q\\"ü"}'),
        ("a.ini", "[s]\ny = 42, 84 ; steps\n", ("s", "y"), [1, 2, 3], "[s]\ny = 1, 2, 3 ; steps\n"),
        ("a.ini", "[s]\ny = Yes\n", ("s", "y"), False, "[s]\ny = No\n"),
        ("a.yaml", "a:\n  - 'x' # x\n  - y\n", ("a", 0), "z", "a:\n  - 'z' # x\n  - y\n"),
        ("a.yaml", "a: '0.1'\n", ("a",), 0.2, "a: '0.2'\n"),
        ("a.toml", "y = [\n 1, # keep\n 2,\n]\n", ("y",), [2, 1], "y = [\n 2, # keep\n 1,\n]\n"),
        ("a.toml", "y = [ [1,2],  [0x3] , true]\n", ("y", 0), [1, 3], "y = [ [1,3],  [0x3] , true]\n"),
    ],
)
def test_only_the_value_is_replaced(tmp_path, name, before, keys, value, after):
    file = Settings(tmp_path / name, before.encode())
    entry = next(each for each in file.entries if each.keys == keys)
    edit = file.edit(entry.start, entry.end, file.written(entry, value))
    assert edit.applied() == after.encode()
    assert is_valid(edit.path, edit.applied())


@pytest.mark.parametrize("text", ["y = [\n 1, 2\n]\n", "y = [1, # keep\n 2]\n", "y = ['#', 'a']\n"])
def test_a_list_with_a_comment_or_lines_is_not_written_with_more_entries(tmp_path, text):
    file = Settings(tmp_path / "a.toml", text.encode())
    assert file.written(file.entries[0], [*file.entries[0].value, file.entries[0].value[0]]) == ""


@pytest.mark.parametrize(("name", "text"), [("a.ini", "[s]\ny = mean\n"), ("a.yaml", "y: mean\n")])
@pytest.mark.parametrize("value", ["a # b", "yes", "1.0", "x: y", "line\nline", "", "%(y)s"])
def test_a_text_that_would_mean_something_else_is_not_written_bare(tmp_path, name, text, value):
    file = Settings(tmp_path / name, text.encode())
    assert file.written(file.entries[0], value) == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"a": 1,}'),
        ("a.json", b'{"a": 1} // note'),
        ("a.json", b"[" * 100_000),
        ("a.json", b'{"a": ' + b"[" * DEEPEST * 2 + b"]" * DEEPEST * 2 + b"}"),
        ("a.json", json.dumps(list(range(MOST + 1))).encode()),
        ("a.toml", b"a = 1\na = 2\n"),
        ("a.yaml", b"a: \xff\xfe1"),
        ("a.yaml", b"a: 1\0"),
        ("a.yaml", b"a: 1\n" * LARGEST),
        ("a.yaml", b"a: 'x\n"),
        ("a.ini", b"[m]\nlayers\n    64\n"),
    ],
)
def test_what_is_not_of_its_format_or_large_is_left_alone(tmp_path, name, content):
    with pytest.raises(Unreadable):
        Settings(tmp_path / name, content)


@pytest.mark.parametrize(
    ("text", "suffix", "found"),
    [
        ('doc = """\\"""\n[ ]\nx"""\na = 1\n', ".toml", {("a",): 1}),
        ('doc = """\\\\"""\na = 1\n', ".toml", {("a",): 1}),
        ('doc: "first\n  b: 2 \\"\n  last"\na: 1\n', ".yaml", {("a",): 1}),
        ("doc: 'it''s\n  b: 2'\na: 1\n", ".yaml", {("a",): 1}),
        ("doc: 'it''s'\na: 1\n", ".yaml", {("a",): 1}),
        ("doc: 'mean' # so\n", ".yaml", {("doc",): "mean"}),
        ("[s]\ndoc = 'tis\na = 1\nb = 'x' or 'y'\n", ".ini", {("s", "a"): 1}),
        ("doc = 'tis\na = 1\n", ".conf", {("a",): 1}),
    ],
)
def test_quotes_over_lines_and_apostrophes_end_nothing(text, suffix, found):
    assert values(text, suffix) == found


@pytest.mark.parametrize("text", ["{", '{"a"', "[1", "'", "a = [", 'a = """x', "a = {b", "[[p", "]"])
@pytest.mark.parametrize("suffix", [".json", ".toml", ".yaml", ".ini", ".conf"])
def test_broken_texts_raise_one_error_or_nothing(text, suffix):
    try:
        found = scanned(text, suffix)
    except Unscanned:
        return
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert found == sorted(found, key=lambda each: (each.start, -each.end))


@pytest.mark.parametrize("text", ["a" + " " * 200_000 + "b", "[" + " " * 200_000, "a: " + "1, " * 60_000, "- " * 2_000, " \n" * 100_000])
@pytest.mark.parametrize("suffix", [".json", ".toml", ".yaml", ".ini", ".conf"])
def test_long_texts_take_no_time(text, suffix):
    began = time.monotonic()
    test_broken_texts_raise_one_error_or_nothing(text, suffix)
    assert time.monotonic() - began < 5


def test_of_a_key_that_stands_twice_the_last_one_holds(tmp_path):
    file = Settings(tmp_path / "a.json", b'{"a": 1, "a": 2}')
    assert [each.value for each in file.entries] == [2]


PROJECT = """
[reference]
framework = "numpy"
module = "{reference}"
[candidate]
framework = "numpy"
module = "{candidate}"
"""


def made(folder, files, reference="ref/main.py", candidate="own/main.py"):
    """A project of these files."""
    for name, text in ({"paralign.toml": PROJECT.format(reference=reference, candidate=candidate)} | files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read(folder)


def own_of(project):
    found = settings_read(project, project.folder / "result")
    folder = project.folder.resolve()
    return [path.relative_to(folder).as_posix() for path in found.own], [path.relative_to(folder).as_posix() for path in found.theirs]


def test_files_of_one_side_alone_are_edited(tmp_path):
    project = made(
        tmp_path,
        {
            "ref/main.py": "import json\nC = json.load(open('config.json'))\nS = open('common.yaml')\n",
            "own/main.py": "import json, part\nC = json.load(open('config.json'))\nS = open('../common.yaml')\nT = f'{1}/train' + '.toml'\n",
            "own/part.py": "N = 'settings/net'\n",
            "ref/config.json": "{}", "own/config.json": "{}", "common.yaml": "a: 1\n", "own/beside.ini": "[s]\na = 1\n",
            "own/settings/net.cfg": "[s]\na = 1\n", "own/settings/unnamed.cfg": "[s]\n", "data/labels.json": "{}", "result/config.json": "{}",
            "own/paralign.toml": "", "own/package.json": "{}",
        },
    )  # fmt: skip
    assert own_of(project) == (["own/beside.ini", "own/config.json", "own/settings/net.cfg"], ["common.yaml", "ref/config.json"])


def test_a_file_in_the_candidates_folder_that_the_reference_names_alone_is_shared(tmp_path):
    text = "import json\nC = json.load(open('own/config.json'))\n"
    project = made(tmp_path, {"ref/main.py": text, "own/main.py": text, "own/config.json": "{}"})
    assert own_of(project) == ([], ["own/config.json"])


def test_links_and_other_names_of_the_references_file_are_not_edited(tmp_path):
    files = {"ref/main.py": "C = 'config.json'\n", "own/main.py": "C = 'net.json', 'same.json'\n", "ref/config.json": "{}"}
    project = made(tmp_path, files)
    (tmp_path / "own/net.json").symlink_to(tmp_path / "ref/config.json")
    (tmp_path / "own/same.json").hardlink_to(tmp_path / "ref/config.json")
    assert own_of(project) == ([], ["ref/config.json"])


def test_in_one_folder_a_file_must_be_named_by_the_candidate_alone(tmp_path):
    files = {"r.py": "C = 'both.json', 'r.json'\n", "c.py": "C = 'both.json', 'c.json'\n"}
    project = made(tmp_path, files | dict.fromkeys(("both.json", "r.json", "c.json", "unnamed.json"), "{}"), "r.py", "c.py")
    assert own_of(project) == (["c.json"], ["both.json", "r.json"])


def test_settings_are_copied_and_data_is_linked(tmp_path):
    files = {"ref/main.py": "", "own/main.py": "C = 'net.json', 'large.json'\n", "own/net.json": '{"a": 1}', "own/labels.csv": "1"}
    project = made(tmp_path / "user", files | {"own/large.json": json.dumps([0] * LARGEST)})
    (tmp_path / "room").mkdir()
    copy = copied(project, tmp_path / "room", tmp_path / "user" / "result")
    own = project.folder.resolve() / "own"
    assert [copy.holds(own / name) for name in ("main.py", "net.json", "large.json", "labels.csv")] == [True, True, False, False]
    copy.write({own / "net.json": b'{"a": 2}'})
    assert (own / "net.json").read_text() == '{"a": 1}'


def proposed(tmp_path, own, theirs=("r.json", "{}"), *, sources=("", ""), stage="loss", named=0):
    """Contents after each proposed edit of a settings file, the likeliest first."""
    files = [Settings(tmp_path / name, text.encode()) for name, text in (theirs, own)]
    texts = [Source(tmp_path / f"{side}.py", text.encode()) for side, text in zip("rc", sources, strict=True)]
    points = [Divergence(None, Point("", source=f"{(tmp_path / 'c.py').resolve()}:{named}"))] if named else []
    found = other_setting.proposals(stage, [], ([files[0]], [files[1]]), ([texts[0]], [texts[1]]), points)
    assert [each.weight for each in found] == sorted((each.weight for each in found), reverse=True)
    return [after.decode() for each in found if is_valid(each.edit.path, after := each.edit.applied())]


@pytest.mark.parametrize(
    ("own", "right", "theirs"),
    [
        (("c.toml", "[loss]\ndelta = 1.0\nscale = 0.1\n"), "delta = 0.5", ("r.json", '{"loss": {"delta": 0.5, "scale": 0.1}}')),
        (("c.ini", "[optim]\nwarm_steps = 7\n"), "= 9", ("r.json", '{"optim": {"warmup": 9}}')),
        (("c.ini", "[optim]\nbeta2 = 0.99\n"), "= 0.98", ("r.json", '{"optim": {"betas": [0.9, 0.98]}}')),
        (("c.yaml", "kinds: [b, a]\n"), "[a, b]", ("r.ini", "[s]\nkinds = a, b\n")),
        (("c.yaml", "warm: true\n"), "warm: false", ("r.yaml", "warm: false\n")),
        (("c.toml", "reduction = 'sum'\n"), "'mean'", ("r.yaml", "reduction: mean\n")),
        (("c.toml", "first = 0.9\nknee = 1.0\nlast = 7\n"), "knee = 0.75", ("r.json", '{"x": 0.9, "beta": 0.75, "y": 7}')),
        (("c.toml", "first = 0.9\nradius = 5\nlast = 7.5\n"), "radius = 3", ("r.json", '{"x": 0.9, "window": 7, "y": 7.5}')),
        (("c.toml", "flips = [[], [1], [1, 2]]\n"), "[[], [2], [2, 3]]", ("r.json", "{}")),
        (("c.json", '{"bn_momentum": 0.1}'), '{"bn_momentum": 0.9}', ("r.json", '{"norm_momentum": 0.1}')),
    ],
)  # fmt: skip
def test_what_the_reference_has_comes_first(tmp_path, own, right, theirs):
    found = proposed(tmp_path, own, theirs)
    assert any(right in text for text in found[:3]), found[:3]


def test_values_of_the_references_sources(tmp_path):
    source = "class Config:\n    knee: float = 0.75\n\n\ndef side(n):\n    return 'film' in n or 'attend' in n\n"
    found = proposed(tmp_path, ("c.toml", 'knee = 1.5\nside = ["film"]\n'), sources=(source, ""))
    assert {'knee = 0.75\nside = ["film"]\n', 'knee = 1.5\nside = ["film", "attend"]\n'} <= set(found[:3])


def test_keys_near_the_named_line_come_first_and_those_of_other_stages_last(tmp_path):
    source = "def loss(o, y):\n    return o * get('loss.knee')\n\n\ndef predict(p):\n    return p * get('infer.edge')\n"
    found = proposed(tmp_path, ("c.toml", "[infer]\nedge = 4\n[loss]\nknee = 6\n"), sources=("", source), named=2)
    assert "edge = 4" in found[0]
    assert "knee = 6" not in found[0]


def test_what_the_reference_has_under_the_same_name_is_left_alone(tmp_path):
    theirs = ("r.json", '{"a": {"rate": 0.1, "steps": [3, 4]}, "b": {"rate": 0.4}}')
    found = proposed(tmp_path, ("c.toml", "[a]\nrate = 0.1\nsteps = [3, 4]\n[b]\nrate = 0.3\n"), theirs)
    assert found[0].endswith("[b]\nrate = 0.4\n")
    assert all("rate = 0.1\nsteps = [3, 4]" in text for text in found)


@pytest.mark.parametrize("text", ["path = '/tmp/a'", "url = 'x:y'", "note = 'a sentence of words'"])
def test_paths_and_sentences_are_left_alone(tmp_path, text):
    assert proposed(tmp_path, ("c.toml", text), ("r.toml", "path = 'other'\nurl = 'other'\nnote = 'other'\n")) == []


def test_numbers_that_no_float_holds_end_nothing(tmp_path):
    huge = "1" + "0" * 300
    sources = ("a = 1e999\nb = -1e999\nf(c=1e999)\n", "a = 3\n")
    for theirs in (("r.json", '{"a": 1e400, "b": 0.5}'), ("r.json", '{"a": [1e400, 2]}'), ("r.yaml", f"a: {huge}\nb: 1e999\n")):
        for text in ("a: 3\n", "a: 0.5\n", "a: [1, 2]\n", "a: null\n"):
            found = proposed(tmp_path, ("c.yaml", text), theirs, sources=sources)
            assert all("inf" not in each for each in found)
    for text in (f"a = {huge}\n", "a = 1e999\n", "a = nan\n", "a = -inf\n", "a = 0\n", "a = 0.0\n", "a = []\n"):
        proposed(tmp_path, ("c.yaml", text.replace(" =", ":")), ("r.toml", "a = 3\nb = 0.5\n"))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (("optim", "lr"), ("train", "learning_rate"), True),
        (("norm", "eps"), ("norm", "epsilon"), True),
        (("batch_train",), ("batch", "train"), True),
        (("betas", 0), ("beta1",), True),
        (("betas", 1), ("beta1",), False),
        (("knee",), ("edge",), False),
        (("default",), ("value",), False),
    ],
)
def test_names_that_mean_one_setting(one, other, alike):
    assert (likeness(one, other) >= other_setting.SAME) == alike


def test_names_of_values_in_sources():
    text = "def f(a=1, *, b=2):\n    p.add_argument('--c-d', default=3)\n    x, y = 4, [5, 6]\n    g(z=cfg.get('w', 7))\n    cfg['v'] = 8\n    return {'u': {'t': 9}}\n"
    found = {each.keys[-2:]: each.value for each in of_sources([Source(Path("a.py"), text.encode())])}
    assert found[("f", "a")] == 1
    assert found[("f", "b")] == 2
    assert found[("c-d", "default")] == 3
    assert found[("f", "x")] == 4
    assert found[("y", 1)] == 6
    assert next(value for keys, value in found.items() if keys[-1] == "w") == 7
    assert found[("f", "v")] == 8
    assert found[("u", "t")] == 9


def test_a_count_does_not_become_as_large_as_any_number_of_the_reference(tmp_path):
    theirs = ("r.toml", "seed = 123456\nsteps = 31\n")
    found = proposed(tmp_path, ("c.toml", "width = 8\n"), theirs)
    assert "width = 31\n" in found
    assert "width = 123456\n" not in found


def test_thinking_ends_in_time(tmp_path):
    theirs, own = (Settings(tmp_path / name, text) for name, text in (("r.toml", b"a = 0.5\n"), ("c.toml", b"a = 0.25\nb = 7\n")))

    def found(until, own=own):
        return other_setting.proposals("loss", [], ([theirs], [own]), ([], []), [], until)

    assert found(time.monotonic() + 60)
    assert found(time.monotonic() - 1) == []


def test_a_file_of_many_values_is_data(tmp_path):
    for count, kept in ((other_setting.DATA, True), (other_setting.DATA + 1, False)):
        text = "".join(f"a{number} = {number}\n" for number in range(count))
        assert bool(proposed(tmp_path, ("c.toml", text))) == kept


def test_many_like_values_take_no_time(tmp_path):
    own = "".join(f"a{number} = {number % 2}.5\n" for number in range(390))
    source = "".join(f"b{number} = {number % 2}.5\n" for number in range(3_900))
    theirs, own = Settings(tmp_path / "r.toml", b"z = 'x'\n"), Settings(tmp_path / "c.toml", own.encode())
    known = of_sources([Source(Path("r.py"), source.encode())])
    began = time.monotonic()
    other_setting._places(own, known, began + 60)
    other_setting.proposals("loss", [], ([theirs], [own]), ([Source(Path("r.py"), source.encode())], []), [], time.monotonic() + 1)
    assert time.monotonic() - began < 5


def test_numbers_that_are_not_finite_are_none():
    assert [is_number(each) for each in (float("inf"), float("nan"), 1.5, 3, 1 << 2_000, True)] == [False, False, True, True, False, False]


def test_infinite_numbers_of_the_reference_end_nothing_in_statements(tmp_path):
    theirs = Source(tmp_path / "r.py", b"def build_model():\n    return Linear(3, 4, groups=1e999)\n")
    own = Source(tmp_path / "c.py", b"import paddle\n\n\ndef build_model():\n    return paddle.nn.Conv2D(3, 4, 5)\n")
    found = elsewhere.proposals("forward", [], ([theirs], [own]), "paddle", [])
    assert found
    assert all("inf" not in each.edit.text for each in found)


def test_files_that_a_side_was_seen_to_read(tmp_path):
    for name in ("a.yaml", "b.yaml", "c.yaml", "d.yaml"):
        (tmp_path / name).write_text("x: 1\n")
    (tmp_path / "link.yaml").hardlink_to(tmp_path / "a.yaml")
    files = {
        str(tmp_path / "a.yaml"): "1",
        f"{tmp_path / 'b.yaml'}{looked_at.THERE}": "file",
        f"{tmp_path / 'd.yaml'}{looked_at.TIME}": "1",
    }
    with CaptureWriter(tmp_path / "captures" / "forward", Manifest(files=files)):
        pass
    recorder = SimpleNamespace(
        depended_on={str(tmp_path / "missing.yaml"): "absent"}, asked={"forward", "loss"}, folder=tmp_path / "captures"
    )
    read = files_read(recorder)
    found = [read.has(tmp_path / f"{name}.yaml") for name in ("a", "link", "b", "c", "d", "missing")]
    assert found == [True, True, False, False, True, False]
