"""Values that a program read from a file of settings: the line of the file, and how little of a file may be trusted."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
import time

import pytest

from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.settings_files import SettingsFiles, entries_of, is_value, text_of
from paralign.locate.provenance.values.value_graph import ValueGraph
from paralign.worker.instrumentation.fresh_imports import rewritten
from paralign.worker.instrumentation.observed import Recorder
from paralign.worker.provenance.recording import lines_of

YAML = """\
model:
  width: 64
  eps: 1e-6  # small
  scale: [2.0, 0.25, 6.0]
  steps:
    - 10
    - 20
head:
  width: 64
  act: 'gelu'
  flag: yes
  inline: {drop: 0.1, depth: 3}
"""

JSON = """\
{"a": {"lr": 0.1, "betas": [0.9,
  0.98]},
 "b": {"lr": 0.1,
  "fast": true, "name": "x: 3", "none": null}}
"""

INI = """\
; a comment
[train]
lr = 0.5
name: foo
[val]
lr=0.5
bare 7
"""


def entries(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [(e.line, e.key, e.value, e.around) for e in entries_of(path, text_of(path))]


def test_yaml(tmp_path):
    found = entries(tmp_path, "a.yaml", YAML)
    assert (2, "width", 64, ("model",)) in found
    assert (3, "eps", 1e-6, ("model",)) in found
    assert (4, "scale", [2.0, 0.25, 6.0], ("model",)) in found
    assert (5, "steps", [10, 20], ("model",)) in found
    assert (9, "width", 64, ("head",)) in found
    assert (10, "act", "gelu", ("head",)) in found
    assert (11, "flag", True, ("head",)) in found
    assert {(12, "drop", 0.1, ("head",)), (12, "depth", 3, ("head",))} <= {e for e in found if e[0] == 12}


def test_json(tmp_path):
    found = entries(tmp_path, "a.json", JSON)
    assert (1, "lr", 0.1, ("a",)) in found
    assert (1, "betas", [0.9, 0.98], ("a",)) in found
    assert (3, "lr", 0.1, ("b",)) in found
    assert (4, "fast", True, ("b",)) in found
    assert (4, "name", "x: 3", ("b",)) in found
    assert (4, "none", None, ("b",)) in found
    assert not [e for e in found if e[1] == "x"]


def test_ini_and_bare_lines(tmp_path):
    found = entries(tmp_path, "a.ini", INI)
    assert found == [(3, "lr", 0.5, ("train",)), (4, "name", "foo", ("train",)), (6, "lr", 0.5, ("val",)), (7, "bare", 7, ())]


def test_sections_tell_entries_apart(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(YAML, encoding="utf-8")
    files = SettingsFiles([str(path)])
    assert files.place("width", 64) is None, "two entries have it"
    assert files.place("width", 64, ["head"]).line == 9
    assert files.place("width", 63) is None
    assert files.place("scale", (2.0, 0.25, 6.0)).line == 4
    assert files.line("  eps: 1e-6  # small\n").line == 3
    assert files.line("width: 64") is None, "two lines are that text"
    assert files.line("- 1") is None, "too short to be known again"


def test_what_is_the_same_value():
    assert is_value("0.1", 0.1)
    assert is_value([1, 2.5], (1, 2.5))
    assert not is_value(True, 1)
    assert not is_value(1, True)
    assert not is_value([1, 2], 1)
    assert not is_value({"a": 1}, {"a": 1})
    assert not is_value("fast", 0.1)
    assert not is_value("yes", 1)
    assert not is_value("on", 1.0)


def test_values_that_are_not_read_stand_for_nothing(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("grid: [[1, 2], [3, 4]]\nnet:\n  width: 3\n", encoding="utf-8")
    files = SettingsFiles([str(path)])
    assert files.place("grid", None) is None
    assert files.place("net", "") is None
    assert files.place("width", 3).line == 3


def test_many_files_of_data_do_not_crowd_out_the_settings(tmp_path):
    for number in range(80):
        (tmp_path / f"label_{number:03}.txt").write_text("cat\n", encoding="utf-8")
    (tmp_path / "zz.yaml").write_text("rate: 0.5\n", encoding="utf-8")
    files = SettingsFiles([str(path) for path in tmp_path.iterdir()])
    assert files.place("rate", 0.5).line == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{" * 100_000,
        '{"a":' * 30_000,
        '{"a": ' + "[" * 100_000,
        " " * 200_000 + "x",
        "a: " + "9" * 100_000,
        "a = [" + "1," * 50_000,
        "- " * 80_000,
        '"' * 200_000,
        "k:\n" * 60_000,
        "[" + " " * 200_000,
        "[" * 200_000,
        '\\"' * 100_000,
        "[ " * 100_000,
        "a:\n" + "".join(f"{' ' * n}b:\n" for n in range(500)),
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_hostile_text_ends_soon(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    began = time.process_time()
    files = SettingsFiles([str(path)])
    assert time.process_time() - began < 20
    assert sum(map(len, files.entries.values())) <= 5_000


def test_files_that_are_no_settings(tmp_path):
    large, binary, missing, folder = (tmp_path / name for name in ("large.json", "binary.yaml", "missing.toml", "folder.json"))
    large.write_text('{"a": 1, "b": "' + "x" * (1 << 18) + '"}', encoding="utf-8")
    binary.write_bytes(bytes(range(256)))
    folder.mkdir()
    code = tmp_path / "code.py"
    code.write_text("a = 1\n", encoding="utf-8")
    assert not SettingsFiles([str(p) for p in (large, binary, missing, folder, code)]).entries


# -- values that a program reads ------------------------------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Record ``run()`` of a program beside a file of settings; the graph knows that the file was read."""
    count = iter(range(1000))

    def act(program, name, settings):
        folder = tmp_path / f"side{next(count)}"
        folder.mkdir()
        (folder / "program.py").write_text(textwrap.dedent(program).lstrip("\n"), encoding="utf-8")
        (folder / name).write_text(settings, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.chdir(folder)
        sys.modules.pop("program", None)
        importlib.invalidate_caches()
        plain = importlib.import_module("program")
        recorder = Recorder()
        with rewritten({"run": plain.run}, recorder) as functions:
            _, roots = recorder.run(functions["run"], {})
        sys.modules.pop("program", None)
        return ValueGraph(lines_of(recorder), recorder.numbers.array(), roots, files=[str(folder / name), str(folder / "program.py")])

    return act


def first(record, program, name, right, wrong):
    sides = [record(program, name, text) for text in (right, wrong)]
    found = Search(sides[1].root(""), sides[0].root(""), defaults=sides[0].expressions).first()
    return found.source.rpartition("/")[2]


SCALED = {
    "a dictionary": """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            return given["train"]["rate"] * 3
        """,
    "get with a default": """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)["train"]
            return given.get("rate", 1.0) * 3
        """,
    "fields of a data class": """
        import json
        from dataclasses import dataclass
        @dataclass
        class Train:
            rate: float
            steps: int
        def run():
            with open("settings.json") as file:
                train = Train(**json.load(file)["train"])
            return train.rate * 3
        """,
    "attributes of an object": """
        import json
        from types import SimpleNamespace
        def run():
            with open("settings.json") as file:
                given = json.loads(file.read(), object_hook=lambda held: SimpleNamespace(**held))
            return given.train.rate * 3
        """,
    "arguments of a function": """
        import json
        def scaled(rate, steps):
            return rate * 3
        def run():
            with open("settings.json") as file:
                return scaled(**json.load(file)["train"])
        """,
}


@pytest.mark.parametrize("case", SCALED)
def test_the_line_of_the_file(record, case):
    texts = [json.dumps({"other": {"rate": 7.5}, "train": {"rate": rate, "steps": 5}}, indent=1) for rate in (0.125, 0.25)]
    assert first(record, SCALED[case], "settings.json", *texts) == "settings.json:6"


OWN_PARSER = """
    def read():
        tree = {}
        with open("settings.cfg") as file:
            for line in file:
                key, _, value = line.partition(":")
                tree[key.strip()] = float(value)
        return tree
    def run():
        return read()["rate"] * 3
    """


def test_a_parser_of_ones_own(record):
    assert first(record, OWN_PARSER, "settings.cfg", "width: 8\nrate: 0.125\n", "width: 8\nrate: 0.25\n") == "settings.cfg:2"


def test_configparser(record):
    program = """
        import configparser
        def run():
            parser = configparser.ConfigParser()
            parser.read("settings.ini")
            return parser.getfloat("train", "rate") * 3
        """
    texts = [f"[other]\nrate = 9\n[train]\nrate = {rate}\n" for rate in (0.125, 0.25)]
    assert first(record, program, "settings.ini", *texts) == "settings.ini:4"


def test_a_right_file_and_a_wrong_key(record):
    """The reference's file says the same: the line that asks for the wrong entry is at fault, not the file."""
    program = """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            return given["{key}"] * 3
        """
    text = json.dumps({"rate": 0.125, "scale": 0.25}, indent=1)
    also = program.replace('return given["{key}"] * 3', 'given["scale"]\n            return given["rate"] * 3')
    sides = [record(also, "settings.json", text), record(program.replace("{key}", "scale"), "settings.json", text)]
    found = Search(sides[1].root(""), sides[0].root(""), defaults=sides[0].expressions).first()
    assert found.source.endswith("program.py:5")


def test_a_list_of_which_one_number_is_another(record):
    """Each number of the wrong list stands somewhere in the reference; the list does not."""
    program = """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            centre, scale = given["centre"], given["scale"]
            return [(n - c) / s for n, c, s in zip([5.0, 6.0, 7.0], centre, scale)]
        """
    texts = [json.dumps({"centre": [3.0, 0.4, 10.0], "scale": scale}) for scale in ([2.0, 0.25, 6.0], [2.0, 0.25, 10.0])]
    sides = [record(program, "settings.json", text) for text in texts]
    reading = next(e for e in sides[1].expressions if e.mark == ["l", [2.0, 0.25, 10.0]])
    seen = Seen(sides[0].expressions)
    assert seen.has(reading) is False
    assert seen.has(next(e for e in sides[1].expressions if e.mark == ["l", [3.0, 0.4, 10.0]])) is True


# -- lists of tables: several entries of one key --------------------------------------------------------------------------------

STACKS = {
    "the items of each": """
        import json
        def kept(section):
            return {key: value for key, value in section.items() if key != "use"}
        def block(width, rate):
            return width * rate
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            return [block(**kept(each)) for each in given["blocks"]][1]
        """,
    "a loop": """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            made = []
            for each in given["blocks"]:
                made.append(each["width"] * each["rate"])
            return made[1]
        """,
    "numbered": """
        import json
        def run():
            with open("settings.json") as file:
                given = json.load(file)
            made = []
            for number, each in enumerate(given["blocks"]):
                made.append(each["width"] * each["rate"] + 0 * number)
            return made[1]
        """,
}


def stack(*rates, last=True):
    """Blocks with a rate each, a line each, from the fourth line on; the last without one on request."""
    blocks = [{"use": "conv", "width": 3, "rate": rate} for rate in rates] + [{"use": "pool", "width": 5}] * (not last)
    lines = ",\n".join(map(json.dumps, blocks))
    return f'{{\n"other": {{"rate": 0.75}},\n"blocks": [\n{lines}\n]}}\n'


@pytest.mark.parametrize("case", STACKS)
def test_the_table_of_a_list_that_has_the_value(record, case):
    """The rate of the second block stands in the first too."""
    texts = [stack(0.125, 0.375, 0.625), stack(0.125, 0.125, 0.625)]
    assert first(record, STACKS[case], "settings.json", *texts) == "settings.json:5"


def test_tables_of_toml_in_a_list(record):
    program = STACKS["the items of each"].replace("import json", "import tomllib").replace('"settings.json"', '"settings.toml", "rb"').replace("json.load(", "tomllib.load(")  # fmt: skip
    texts = [
        f'[net]\nblocks = [\n    {{ use = "conv", width = 3, rate = 0.125 }},\n    {{ use = "conv", width = 3, rate = {rate} }},\n]\n'
        for rate in (0.375, 0.125)
    ]
    program = program.replace('given["blocks"]', 'given["net"]["blocks"]')
    assert first(record, program, "settings.toml", *texts) == "settings.toml:4"


def test_tables_that_are_not_all_alike_are_not_told_apart_by_their_order(record):
    """Four turns of the loop and three rates: which block lacks one is not known, so no line of the file is named."""
    program = STACKS["a loop"].replace('each["width"] * each["rate"]', 'each["width"] * each.get("rate", 1.0)')
    texts = [stack(0.125, rate, 0.625, last=False) for rate in (0.375, 0.125)]
    assert first(record, program, "settings.json", *texts).startswith("program.py:")


SECTIONS = """
    import configparser
    def run():
        parser = configparser.ConfigParser()
        parser.read("settings.ini")
        return parser.getfloat("decoder", "rate") * 3
    """


def test_sections_in_another_order_are_no_other_entries(record):
    """The candidate's file has them the other way round; its line asks for the wrong one."""
    texts = ["[encoder]\nrate = 0.125\n[decoder]\nrate = 0.375\n", "[decoder]\nrate = 0.375\n[encoder]\nrate = 0.125\n"]
    sides = [record(SECTIONS, "settings.ini", texts[0]), record(SECTIONS.replace('"decoder"', '"encoder"'), "settings.ini", texts[1])]
    both = SECTIONS.replace("return", "parser.getfloat('encoder', 'rate')\n        return")
    sides[0] = record(both, "settings.ini", texts[0])
    found = Search(sides[1].root(""), sides[0].root(""), defaults=sides[0].expressions).first()
    assert found.source.endswith("program.py:5")


def test_many_records_with_few_values_are_read_soon(tmp_path):
    file = tmp_path / "labels.json"
    file.write_text(json.dumps([{"label": n % 2, "at": n} for n in range(2500)]))
    known = SettingsFiles([str(file)])
    start = time.monotonic()
    assert not any(known.place("label", 1, ["at"]) for _ in range(100))
    assert time.monotonic() - start < 20
