"""Sides that take their own process apart, and pickles of single bytes: an error that is told, never one of ours."""

import pickle

import numpy as np
import pytest

from paralign.cli import main

SIDE = "import numpy as np\ndef build_model():\n    return lambda x: x * 2\n"

#: what the candidate does in place of building a model
SIDES = {
    "leaves on import": "raise SystemExit(0)",
    "ends without a word": "import os\nos._exit(0)",
    "calls itself for ever": "def build_model():\n    def model(x):\n        return model(x)\n    return model",
    "asks for terabytes": "import numpy as np\ndef build_model():\n    return lambda x: np.ones((2**44,))",
    "an output inside itself": "def build_model():\n    def model(x):\n        out = [x]\n        out.append(out)\n        return out\n    return model",
    "an interrupt of its own": "def build_model():\n    raise KeyboardInterrupt",
    "no open": "import builtins\nbuiltins.open = None\ndef build_model():\n    return lambda x: x",
    "no modules": "import sys\nsys.path[:] = []\nsys.modules.clear()\ndef build_model():\n    return lambda x: x",
    "no files of ten bytes": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\ndef build_model():\n    return lambda x: x",
    "a trace that raises": "import sys\nsys.settrace(lambda *a: 1 / 0)\ndef build_model():\n    return lambda x: x",
}


@pytest.mark.parametrize("name", SIDES)
def test_a_side_that_takes_its_process_apart_is_told(tmp_path, capfd, name):
    sides = '[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n'
    (tmp_path / "paralign.toml").write_text(f'timeout = 8\nstages = ["forward"]\n{sides}[inputs]\nshape = [2, 3]\n')
    (tmp_path / "reference.py").write_text(SIDE)
    (tmp_path / "candidate.py").write_text(SIDES[name] + "\n")
    assert main(["check", str(tmp_path)]) == 3
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert "candidate" in said


PICKLES = {
    "a memo of 2 GiB": b"\x80\x04j\xff\xff\xff\x7f.",
    "two million marks": b"\x80\x02" + b"(" * 2_000_000 + b".",
    "a frame without end": b"\x80\x04\x95" + b"\xff" * 8 + b".",
    "a number of 2 GiB": b"\x80\x02\x8b\xff\xff\xff\x7f" + b"1" * 20 + b".",
    "bytes without end": b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.",
    "keys that are tables": b"\x80\x02}(}}u.",
    "an extension": b"\x80\x02\x82\x01.",
    "a call": b"cos\nsystem\n(S'exit 9'\ntR.",
    "objects": pickle.dumps({"w": np.array([1, "a", None], dtype=object)}),
    "records": pickle.dumps({"w": np.zeros(3, dtype=[("a", "f4"), ("b", "i8")])}),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_of_odd_bytes_are_refused(tmp_path, capsys, name):
    path = tmp_path / "odd.pdparams"
    path.write_bytes(PICKLES[name])
    assert main(["weights", "diff", str(path), str(path)]) == 3
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said
    assert "odd.pdparams" in said
