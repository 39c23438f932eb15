"""Control characters from outside: whatever is printed is plain text, and JSON and logs hold them escaped."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from paralign.cli import main
from paralign.compat.reprod_log import ReprodDiffHelper
from paralign.errors import UsageError, one_line, plain_text
from paralign.report.console import console
from paralign.report.streams import neutral_streams

#: clears the screen, sets the title, rings, turns text round, is eight bits wide, is no text, pretends to be a line
EVIL = "\x1b[2J\x1b]0;title\x07\u202e\x9b31m\r\x7f[red]x\nverdict: aligned"

#: what must never be printed
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")


def safetensors(path, names):
    header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * n, 8 * n + 8]} for n, name in enumerate(names)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + np.arange(2 * len(names), dtype="float32").tobytes())
    return path


def npz(path, name):
    data = io.BytesIO()
    np.save(data, np.ones((2, 3), "float32"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name + ".npy", data.getvalue())
    return path


def commands(folder):
    """Command lines that have hostile names printed."""
    first, second = safetensors(folder / "a.safetensors", [EVIL, "same"]), safetensors(folder / "b.safetensors", ["same", EVIL + "2"])
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": EVIL}}))
    broken = folder / f"{EVIL.replace('/', '')}.pth"
    broken.write_bytes(b"\x80\x02X\x02\x00\x00\x00osX\x09\x00\x00\x00a\x1b[31m[re\x93.")
    arrays = npz(folder / "c.npz", EVIL), npz(folder / "d.npz", EVIL + "2")
    yield ["weights", "diff", str(first), str(second), "--all"]
    yield ["weights", "diff", str(first), str(second), "--json"]
    yield ["weights", "diff", str(index), str(second)]
    yield ["weights", "diff", str(broken), str(second)]
    yield ["convert", "weights", str(first), str(folder / "out.npz")]
    yield ["convert", "weights", str(first), str(folder / "again.npz"), "--json"]
    yield ["compare", *map(str, arrays)]
    yield ["compare", *map(str, arrays), "--json"]
    yield ["compare", str(arrays[0]), str(folder / EVIL)]
    yield ["check", str(folder / EVIL)]
    yield ["check", str(folder), EVIL]


def texts(value):
    """Every text in a tree of JSON, keys too."""
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in (k, *texts(v))]
    return [t for v in value for t in texts(v)] if isinstance(value, list) else [str(value)]


def test_no_command_prints_a_control_character(tmp_path, capfd):
    seen = 0
    for command in commands(tmp_path):
        code = main(command)
        output, errors = capfd.readouterr()
        assert code in (0, 1, 2, 3, 4), errors
        assert not RAW.search(output + errors), (command, output + errors)
        assert "\nverdict: aligned" not in output + errors, command
        seen += "u001b" in output + errors
        if "--json" in command:
            assert any(EVIL in text for text in texts(json.loads(output)))
    assert seen >= 8


def test_argparse_prints_none_either(capfd):
    with pytest.raises(SystemExit):
        main(["weights", "diff", "--nonsense\x1b[2J", "a", "b"])
    errors = capfd.readouterr().err
    assert "x1b" in errors
    assert not RAW.search(errors)


def test_an_error_says_names_in_one_line():
    told = str(UsageError("of\x1b[2J", where="a\nverdict: aligned", hint="two\nlines"))
    assert told == "of\\u001b[2J\n  where: a\\u000averdict: aligned\n  fix:   two\nlines"


@pytest.mark.parametrize("text", ["é模型 ÷ … →", "tab\tand\nline", ""])
def test_text_without_them_stays_as_it_is(text):
    assert plain_text(text) == text
    assert one_line(text) == text.replace("\t", "\\u0009").replace("\n", "\\u000a")


def test_whatever_a_terminal_takes_for_a_command_is_escaped():
    commands = [chr(n) for n in range(0xE000) if RAW.match(chr(n))]
    assert len(commands) > 2000
    assert all(re.fullmatch(r"\\u[0-9a-f]{4}", plain_text(c)) for c in commands)
    assert all(json.loads(f'"{plain_text(c)}"') == c for c in commands)


def test_a_stream_that_lacks_a_character_gets_its_number(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with neutral_streams():
        sys.stdout.writelines(["÷ \ud800\n"])
        console().print("÷", highlight=False)
    sys.stdout.flush()
    assert raw.getvalue() == b"\\xf7 \\ud800\n\\xf7\n"


def test_reports_as_reprod_log_writes_them_hold_none_either(tmp_path, capfd):
    helper = ReprodDiffHelper()
    helper.compare_info({EVIL: np.ones(2)}, {EVIL: np.ones(2)})
    helper.report(path=tmp_path / "diff.txt")
    for text in (capfd.readouterr().out, (tmp_path / "diff.txt").read_text(encoding="utf-8")):
        assert "u001b" in text
        assert not RAW.search(text)


SIDE = """
import os, sys
import numpy as np
def build_model():
    return lambda x: np.tanh(x)
"""


def test_a_check_on_a_terminal_shows_colours_of_its_own_and_nothing_of_a_side(tmp_path):
    dies = SIDE + f"print({EVIL!r}, flush=True)\ndef metric(o, l):\n    print({EVIL!r}, flush=True)\n    os._exit(1)\n"
    raises = SIDE + f"def metric(o, l):\n    raise ValueError({EVIL + chr(0xD800)!r})\n"
    for name, text in (("reference.py", dies), ("candidate.py", raises)):
        (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogatepass") if "\ud800" not in text else None
    (tmp_path / "paralign.toml").write_text(
        'stages = ["forward", "metric"]\n[reference]\nmodule = "reference.py"\nframework = "numpy"\n[candidate]\nmodule = "candidate.py"\n'
        'framework = "numpy"\n[inputs]\nshape = [3, 6]\n[labels]\nshape = [3]\ndtype = "int64"\n'
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "paralign", "check", str(tmp_path)], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert process.wait() == 3
    text = shown.decode("utf-8")
    assert "\x1b[1;31merror" in text  # its own
    for command in ("\x1b[2J\x1b]0;", "\x07", "\u202e", "\x9b"):
        assert command not in text
    assert "\\u001b[2J" in text
    report = (tmp_path / "result" / "report.json").read_text(encoding="utf-8")
    assert not RAW.search(report)
    log = (tmp_path / "result" / "workers" / "candidate.log").read_text(encoding="utf-8")
    assert "\\u001b[2J" in log
    assert not RAW.search(log)
