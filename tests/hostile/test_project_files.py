"""Project files and rules with values that no system takes, or that cost far more than they look: refused in one line."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from paralign.cli import main
from paralign.errors import UsageError
from paralign.run.inputs import make
from paralign.run.project import read
from paralign.run.toml import depth, parsed

SIDES = '[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n'

#: what the file holds besides (or with) the sides -> a part of the message
CASES = {
    SIDES + 'module = "a\\u0000b"': "holds a NUL",
    SIDES + 'root = "a\\u0000b"': "holds a NUL",
    SIDES + 'python = "a\\u0000b"': "holds a NUL",
    SIDES + 'device = "a\\u0000b"': "holds a NUL",
    'out = "a\\u0000b"\n' + SIDES: "holds a NUL",
    SIDES + '[data]\nsplit = "a\\u0000b"': "holds a NUL",
    SIDES + '[infer]\npaths = ["a\\u0000b"]': "holds a NUL",
    SIDES + '[weights]\nrules = "a\\u0000b"': "holds a NUL",
    SIDES + '[inputs]\nfile = "a\\u0000b"': "holds a NUL",
    SIDES + f'module = "{"x" * 300}"': "File name too long",
    SIDES + f'root = "{"x" * 300}"': "File name too long",
    SIDES + f'python = "{"x" * 300}"': "File name too long",
    SIDES + f'[weights]\nrules = "{"x" * 300}"': "File name too long",
    SIDES + f'module = "{"x/" * 3000}"': "6000 characters, at most 4096",
    SIDES + 'env = {"A=B" = "1"}': "no environment variable can be called 'A=B'",
    SIDES + 'env = {"" = "1"}': "no environment variable can be called ''",
    SIDES + 'env = {A = "a\\u0000b"}': "holds a NUL",
    SIDES + "env = {A = [1]}": "'A' must be a text, not list",
    "seed = " + "9" * 5000 + "\n" + SIDES: "is no valid TOML",
    "timeout = " + "9" * 400 + "\n" + SIDES: "does not fit into 64 bits",
    SIDES + "[backward]\nsteps = " + "9" * 30: "does not fit into 64 bits",
    SIDES + "[inputs]\nshape = [" + "9" * 30 + "]": "does not fit into 64 bits",
    SIDES + "x = " + "[" * 2000 + "]" * 2000: "is nested at least 2000 deep, 32 are allowed",
    SIDES + "x = " + "{a = " * 2000 + "1" + "}" * 2000: "is nested at least 2000 deep, 32 are allowed",
    SIDES + ".".join("a" * 20_000) + " = 1": "is nested at least 20000 deep, 32 are allowed",
    SIDES + "[" + " . ".join("a" * 20_000) + "]": "is nested at least 20000 deep, 32 are allowed",
    SIDES + "[[" + ".".join(['"a.#"'] * 20_000) + "]]": "is nested at least 20000 deep, 32 are allowed",
    SIDES + "x" * 100_000 + " = 1": "100000 characters, at most 4096",
    SIDES + "#" + "x" * (1 << 20): "the file has at least 1048577 bytes; at most 1048576 are allowed",
}


def project(folder, text):
    (folder / "paralign.toml").write_text(text)
    for side in ("reference", "candidate"):
        (folder / f"{side}.py").write_text("")
    return folder


@pytest.mark.parametrize("text", CASES, ids=lambda text: text.replace(SIDES, "")[:30])
def test_project_files_that_no_system_takes_are_refused_in_one_line(tmp_path, capsys, text):
    began = time.process_time()
    assert main(["check", str(project(tmp_path, text)), "weights"]) in (2, 3)
    assert time.process_time() - began < 5
    told = capsys.readouterr().err
    assert CASES[text] in told
    assert "Traceback" not in told
    assert len(told) < 1500


INPUTS = {
    "shape = [1000000, 1000000]": "values of this shape take 8000000000000 bytes; at most 4294967296 are allowed",
    "shape = [4611686018427387904, 4611686018427387904]": "impossible shape",
    f"shape = {[1] * 100}": "impossible shape",
    'shape = [2]\ndtype = "int64"\nhigh = 1e300': "no values can be drawn",
    'shape = [2]\ndtype = "int64"\nhigh = 9223372036854775807\nlow = -9223372036854775808': "",
    'shape = [2]\ndtype = "int64"\nhigh = inf': "high must be finite",
    'shape = [2]\ndtype = "int64"\nlow = nan': "low must be finite",
    'shape = [2]\ndistribution = "uniform"\nlow = -1e308\nhigh = 1e308': "no values can be drawn",
    "shape = [2]\nmean = nan": "mean must be finite",
    "shape = [2]\nstd = inf": "std must be finite",
    f'file = "{"x" * 300}"': "File name too long",
    f'shape = [2]\ndtype = "{"x" * 3000}"': "unknown dtype",
}


@pytest.mark.parametrize("entry", INPUTS, ids=lambda text: text[:40])
def test_inputs_that_cannot_be_drawn_are_refused(tmp_path, entry):
    settings = read(project(tmp_path, SIDES + "[inputs]\n" + entry))
    if not INPUTS[entry]:
        assert make(settings.inputs, tmp_path, "inputs", 0).array.dtype == np.int64
        return
    with pytest.raises(UsageError) as caught:
        make(settings.inputs, tmp_path, "inputs", 0)
    assert INPUTS[entry] in str(caught.value)
    assert len(caught.value.what) < 500


def test_larger_inputs_are_drawn_where_they_are_allowed(tmp_path, monkeypatch):
    spec = {"shape": [1000], "dtype": "uint8", "high": 3}
    monkeypatch.setenv("PARALIGN_MAX_INPUT", "7999")
    with pytest.raises(UsageError, match="values of this shape take 8000 bytes; at most 7999 are allowed") as caught:
        make(spec, tmp_path, "inputs", 0)
    assert caught.value.hint.endswith("PARALIGN_MAX_INPUT=8000")
    monkeypatch.setenv("PARALIGN_MAX_INPUT", "8000")
    assert make(spec, tmp_path, "inputs", 0).array.shape == (1000,)


def test_a_dotted_key_takes_neither_time_nor_memory():
    text = ".".join("a" * 20_000) + " = 1"
    began = time.process_time()
    tracemalloc.start()
    with pytest.raises(UsageError, match="nested at least 20000 deep"):
        parsed(text, "rules", "here")
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("a = 1", 1),
        ("a.b.c = 1.5", 3),
        ("a = 1.5 # a.b.c.d", 2),
        ("'a.b.c.d' = 1", 1),
        ('"a\\"b.c.d" = 1', 1),
        ('a = """x"y.z.u[[["""', 1),
        ("a = '''x'y.z.u[[['''\nb.c.d = 2", 3),
        ("[a.b]\nc = [[[1], [2]], [3]]", 3),
        ("a = {b = {c = [1]}}", 3),
        ('a = "unfinished\nb.c = 1', 2),
        ('a = """unfinished.b.c.d', 1),
    ],
)
def test_how_deep_a_text_is(text, deep):
    assert depth(text) == deep


def test_rules_are_read_within_the_same_bounds(tmp_path, capsys):
    from paralign.dtypes import Typed
    from paralign.formats import save

    save(tmp_path / "a.npz", {"w": Typed(np.ones(2, np.float32), "float32")})
    for text in (
        b"\xff",
        b"others = [1]",
        b"[[rename]]\nreference = '" + b"x" * 5000 + b"'",
        b"a." * 20_000 + b"b = 1",
        b"#" * ((1 << 20) + 1),
        b"x = " + b"9" * 5000,
    ):
        (tmp_path / "rules.toml").write_bytes(text)
        command = ["convert", "weights", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--rules", str(tmp_path / "rules.toml")]
        assert main(command) == 2, text[:40]
    assert "Traceback" not in capsys.readouterr().err
